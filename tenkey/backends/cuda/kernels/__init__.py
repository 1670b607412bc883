"""Kernels of the CUDA backend: functions that write the source of a kernel and the arguments of its launch."""
