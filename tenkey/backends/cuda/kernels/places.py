"""Pieces that kernels of rows share: words, offsets of 32 or 64 bits, and the position of a thread's element.

Note [Offsets of 32 bits]
~~~~~~~~~~~~~~~~~~~~~~~~~
A GPU multiplies and divides numbers of 32 bits several times faster than those of 64, and most windows are smaller than
2^31 elements. So each kernel exists twice: with ``uint32`` for positions and offsets, and with ``int64``. numba widens
every sum and product to 64 bits; the conversion of the final value to ``uint32`` lets the compiler narrow all of them.
Guarded by ``tests/backends/cuda/kernels/test_gather.py::test_offsets_of_64_bits_give_the_same``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from ....core.storage import StridedArray

__all__ = ["THREADS", "WORDS", "blocks", "indented", "inner", "offset", "offset_type", "steps", "unpacked"]

THREADS: Final = 256
WORDS: Final = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
"""Types of numba for moving elements by their size; two words of 8 bytes for the last."""
_NARROW: Final = 2**31


def steps(window: StridedArray) -> list[int]:
    """Return the strides of a window in elements, 0 where it has one element."""
    size = window.dtype.itemsize
    return [0 if n == 1 else stride // size for n, stride in zip(window.shape, window.strides)]


def offset_type(*windows: StridedArray) -> str:
    """Return the type for positions and offsets: "uint32" if they fit for all windows, else "int64".

    Negative steps need a type with a sign.
    """
    for window in windows:
        away = steps(window)
        last = sum([(n - 1) * step for n, step in zip(window.shape, away)])
        if min(away, default=0) < 0 or max(last, prod(window.shape)) + THREADS >= _NARROW:
            return "int64"
    return "uint32"


def blocks(count: int, each: int = THREADS) -> int:
    """Return how many blocks cover ``count`` elements."""
    return -(-count // each)


def unpacked(kind: str, flat: str, names: Sequence[str], sizes: Sequence[str | None]) -> list[str]:
    """Return lines that split the position ``flat`` into one for each dimension, the last of which is the fastest.

    A dimension whose size is None has one element: its position is not computed and must not be used. The size of the
    first dimension that remains is not needed.
    """
    left = [(name, size) for name, size in zip(names, sizes) if size is not None]
    lines, rest = [], flat
    for name, size in reversed(left[1:]):
        lines += [f"{name}_rest = {kind}({rest} // {size})", f"{name} = {kind}({rest} - {name}_rest * {size})"]
        rest = f"{name}_rest"
    return [*lines, *[f"{name} = {rest}" for name, _ in left[:1]]]


def offset(kind: str, window: str, names: Sequence[str], sizes: Sequence[Any]) -> str:
    """Return the source of an element's offset in a window, whose steps are ``window_0``, ``window_1`` and so on."""
    terms = [f"{name} * {window}_{d}" for d, (name, size) in enumerate(zip(names, sizes)) if size is not None]
    return f"{kind}({' + '.join(terms) or '0'})"


def indented(lines: Sequence[str], depth: int) -> str:
    """Return lines as text, indented by a number of levels."""
    return "\n".join(["    " * depth + line for line in lines])


def inner(lines: Sequence[str]) -> list[str]:
    """Return lines indented by one level."""
    return [f"    {line}" for line in lines]
