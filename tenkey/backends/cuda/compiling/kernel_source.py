"""The source of a kernel: its text, its parameters and its launch bounds."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["CudaSource", "KernelSource", "Source"]


class KernelSource(NamedTuple):
    """A kernel in numba.cuda's language.

    ``text`` defines the kernel and the functions that it calls. In scope are ``cuda``, ``math``, ``np``, ``libdevice``,
    numba's types (``float32``, ``uint32``, ...) and everything in ``tenkey/backends/cuda/kernels/intrinsics.py``. Sums
    of products are not contracted to ``fma``, so that results equal those of the CPU.

    ``parameters`` are types in the order of the kernel's arguments: ``"float32*"`` for a pointer, ``"uint32"`` for a
    number. ``threads`` is the size of the largest block that is launched, which limits the registers of a thread;
    ``shared`` counts bytes of dynamic shared memory.

    >>> text = '''
    ... def double(n, out, x):
    ...     i = uint32(cuda.grid(1))
    ...     if i < n:
    ...         out[i] = x[i] * float32(2)
    ... '''
    >>> KernelSource("double", text, ("uint32", "float32*", "float32*")).threads
    256
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    threads: int = 256
    shared: int = 0


class CudaSource(NamedTuple):
    """A kernel in CUDA C++: ``text`` has an ``extern "C" __global__`` function ``name``.

    The other fields are those of :class:`KernelSource`.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    threads: int = 256
    shared: int = 0


Source: TypeAlias = KernelSource | CudaSource
