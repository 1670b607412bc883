"""Ordinary NumPy programs, run as they are and with one import changed: ``python -m benchmarks.numpy_programs``."""
