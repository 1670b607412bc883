"""The CUDA backend, checked and timed in one call: ``python -m benchmarks.cuda``."""
