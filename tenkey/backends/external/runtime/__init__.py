"""What a device does besides computing: queues of work, errors that are found later, and plans of calls."""
