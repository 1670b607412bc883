"""The memory of CUDA devices: the allocator, pinned host memory, copies, statistics and snapshots."""
