"""Kernels of the CUDA backend on the executor: their PTX, launched with NumPy arrays, in several orders of threads."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tenkey.backends.cuda.compiling import KernelSource, ptx_of
from tenkey.testing.ptx import Kernel, Module

__all__ = ["ORDERS", "execute", "in_each_order", "instructions"]

ORDERS = ("up", "down", "random")


@functools.cache
def _kernel(source: KernelSource) -> Kernel:
    return Module(ptx_of(source)).kernel(source.name)


def execute(source: KernelSource, grid: Any, block: Any, *arguments: Any, order: str = "up") -> None:
    """Launch a kernel; arrays are addresses of their memory."""
    _kernel(source).launch(grid, block, arguments, shared=source.shared, order=order)


def in_each_order(
    source: KernelSource, grid: Any, block: Any, out: np.ndarray, *, before: Sequence[Any], after: Sequence[Any]
) -> Iterator[np.ndarray]:
    """Launch a kernel in each order of threads, and yield what it wrote; ``out`` is filled with 0xA5 first."""
    for order in ORDERS:
        out.view(np.uint8)[...] = 0xA5
        execute(source, grid, block, *before, out, *after, order=order)
        yield out


def instructions(source: KernelSource) -> str:
    """Return the PTX of a kernel without comments."""
    return "\n".join([line.partition("//")[0] for line in ptx_of(source).splitlines()])
