"""The memory of tensors on every device: statistics, limits, and the pool that keeps memory for later tensors."""
