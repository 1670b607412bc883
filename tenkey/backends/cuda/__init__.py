"""The CUDA backend: templates as numba.cuda kernels, the memory and the queues of the device."""
