"""Kernels of the template ``sort``: rows in shared memory, and long rows by their digits."""

from .sort import sort

__all__ = ["sort"]
