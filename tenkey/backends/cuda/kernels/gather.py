"""The template ``gather``: ``out[i, j, k] = x[i, index[i, j, k], k]``.

One thread moves one word. Consecutive threads write consecutive words; they read consecutive ones where ``inner`` is
long, as in a look-up of rows. If an index holds for a whole row of contiguous elements, the rows are moved in words of
up to 8 bytes, whatever the elements are. An index that is out of range stores the error code, and its element is 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.storage import StridedArray
from ..compiling.kernel_source import KernelSource
from .places import THREADS, WORDS, blocks, offset, offset_type, steps, unpacked

__all__ = ["gather", "gather_source"]

_TEXT = """
def {name}(size, count, inner, n, code, out, x, x_0, x_1, x_2, index, index_0, index_1, index_2, error):
    at = {kind}({kind}(cuda.blockIdx.x) * {kind}({threads}) + {kind}(cuda.threadIdx.x))
    if at < size:
        {unpacked}
        found = index[{place}]
        if found >= 0 and found < n:
            j = {kind}(found)
            out[at] = x[{source}]
        else:
            out[at] = {word}(0)
            atomic_exchange(error, 0, code)
"""


@functools.cache
def gather_source(word: str, kind: str, wide: tuple[bool, bool, bool]) -> KernelSource:
    """Return the kernel for words of a type, positions of type ``kind``, and the dimensions longer than 1."""
    names = ("i", "j", "k")
    sizes = [name if is_wide else None for name, is_wide in zip(("outer", "count", "inner"), wide)]
    text = _TEXT.format(
        name="gather", kind=kind, word=word, threads=THREADS, place=offset(kind, "index", names, sizes),
        unpacked="\n        ".join(unpacked(kind, "at", names, sizes)) or "pass",
        source=offset(kind, "x", names, (sizes[0], "n", sizes[2])),
    )  # fmt: skip
    window = (kind,) * 3
    parameters = (kind, kind, kind, "int64", "int64", f"{word}*", f"{word}*", *window, "int64*", *window, "int64*")
    return KernelSource("gather", text, parameters, THREADS)


def gather(backend: Any, dtype: np.dtype) -> Callable[..., None]:
    """Return the host function ``kernel(out, x, index, error, code)`` for elements of the size of ``dtype``."""

    def kernel(out: StridedArray, x: StridedArray, index: StridedArray, error: StridedArray, code: int) -> None:
        out, x, index = _in_wide_words(out, x, index)
        outer, count, inner = out.shape
        n = x.shape[1]
        wide = (outer > 1, count > 1, inner > 1)
        source = gather_source(WORDS[out.dtype.itemsize], offset_type(out, x, index), wide)
        backend.launch(
            source, blocks(out.size), THREADS, out.size, count, inner, n, code, out, x, *steps(x), index, *steps(index),
            error,
        )  # fmt: skip

    return kernel


def _in_wide_words(
    out: StridedArray, x: StridedArray, index: StridedArray
) -> tuple[StridedArray, StridedArray, StridedArray]:
    """Return the windows with larger words, if each index holds for a row of contiguous elements."""
    inner, size = out.shape[2], out.dtype.itemsize
    if inner == 1 or index.strides[2] != 0 or x.strides[2] != size:
        return out, x, index
    places = [inner * size, out.offset, x.offset, *[s for s, n in zip(x.strides[:2], x.shape[:2]) if n > 1]]
    wide = next((w for w in (8, 4, 2) if w > size and all(place % w == 0 for place in places)), size)
    if wide == size:
        return out, x, index
    factor = wide // size
    shapes = [(*w.shape[:2], inner // factor) for w in (out, x, index)]
    moved = [_as_words(w, shape, wide) for w, shape in zip((out, x), shapes)]
    return moved[0], moved[1], index.window(shapes[2], index.strides, index.offset)


def _as_words(window: StridedArray, shape: tuple[int, ...], size: int) -> StridedArray:
    strides = (*window.strides[:2], size)
    dtype = np.dtype(f"u{size}")
    return StridedArray(window.buffer, shape, dtype, window.device, strides, window.offset, window.owner)
