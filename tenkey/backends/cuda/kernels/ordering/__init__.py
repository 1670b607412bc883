"""Kernels of the template ``sort``: rows in shared memory, and long rows by their digits."""

from .sort import sort, sort_places

__all__ = ["sort", "sort_places"]
