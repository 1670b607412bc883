"""The Autograd kernels that record calls."""
