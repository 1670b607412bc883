"""What the CUDA driver provides: devices, memory, copies, queues and launches."""
