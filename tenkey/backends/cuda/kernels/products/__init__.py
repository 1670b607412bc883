"""Kernels of the template ``matmul``: products in tiles that pass through shared memory."""

from .matmul import matmul

__all__ = ["matmul"]
