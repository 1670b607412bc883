"""What a device does besides computing: caching memory, queues of work, and errors that are found later."""
