"""Products of half precision by tensor cores: ``mma`` instructions on fragments of 16 x 8 sums.

The tiles lie in shared memory as words of two neighbours along the inner dimension, row by row of ``a`` and column by
column of ``b``. A row has 16 words and a gap of 4, so that the 32 lanes of a warp, which read 4 neighbours of 8 rows,
use 32 different banks. Each of 8 warps computes 64 x 32 sums. Source: the PTX manual, mma.m16n8k16.
"""

from __future__ import annotations

import functools
from typing import Final

from .....core.storage import StridedArray
from ...compiling.kernel_source import KernelSource
from ..places import indented, inner
from .tiling import NAMES, Product, Tile, block_lines, parameter_types, store_functions

__all__ = ["TENSOR_TILE", "has_pairs", "tensor_product_source"]

TENSOR_TILE: Final = Tile(128, 128, 32, 8, 8)
_WORDS: Final = TENSOR_TILE.depth // 2  # of a row of a tile
_PITCH: Final = _WORDS + 4
_DOWN: Final = 4  # fragments of a warp
_ACROSS: Final = 4
_LOAD = """
def load_{name}(x, first, m, k, size_m, size_k, step_m, step_k):
    low = uint16(0)
    high = uint16(0)
    if m < size_m and k < size_k:
        at = {kind}(first + m * step_m + k * step_k)
        if {kind}(k + {kind}(1)) < size_k:
            {both}
        else:
            low = x[at]
    return bit_or(uint32(low), shift_left(uint32(high), uint32(16)))

"""
_PAIR = "low, high = load_vector2(x, int64(at))"
_APART = "low, high = x[at], x[{kind}(at + step_k)]"


def has_pairs(x: StridedArray, axis: int) -> bool:
    """Tell whether two neighbours along an axis, the first at an even place, are one aligned word."""
    others = [step for n, step in enumerate(x.strides) if n != axis and x.shape[n] > 1]
    base = getattr(x.buffer, "address", 0) + x.offset
    return x.strides[axis] == 2 and base % 4 == 0 and all(step % 4 == 0 for step in others)


def _loads(name: str, side: str, kind: str, fast: bool) -> tuple[list[str], list[str], list[str]]:
    """Return the lines that prepare, load and put away a thread's words; ``fast``: inner neighbours are contiguous."""
    length, threads = TENSOR_TILE.rows, TENSOR_TILE.threads
    kept, wide = (f"{name}_1", f"{name}_2") if side == "rows" else (f"{name}_2", f"{name}_1")
    modulus = _WORDS if fast else length
    each = threads // modulus
    inner, outer = f"{kind}(t % {modulus})", f"{kind}(t // {modulus})"
    prepare = [
        f"{name}_k, {name}_m = {f'{inner}, {outer}' if fast else f'{outer}, {inner}'}",
        f"{name}_slot = {kind}({name}_m * {kind}({_PITCH}) + {name}_k)", f"{name}_m = {kind}(first_{side} + {name}_m)",
    ]  # fmt: skip
    load, put = [], []
    for n in range(length * _WORDS // threads):
        m = f"{kind}({name}_m + {n * each if fast else 0})"
        k = f"{kind}(depth + 2 * ({name}_k + {0 if fast else n * each}))"
        load.append(f"{name}{n} = load_{name}({name}, {name}_first, {m}, {k}, {side}, inner, {kept}, {wide})")
        put.append(f"tile_{name}[into_{name} + {name}_slot + {n * each * (_PITCH if fast else 1)}] = {name}{n}")
    return prepare, load, put


def _fragments(name: str, count: int, rows: int, halves: tuple[int, ...]) -> str:
    """Return the tuple of a lane's words: of ``count`` fragments of ``rows`` rows, in the order of the manual."""
    places = [
        f"from_{name} + {(rows * i + down) * _PITCH + 4 * right}" for i in range(count) for right in range(2)
        for down in halves
    ]  # fmt: skip
    return f"({', '.join([f'tile_{name}[{place} + step]' for place in places])},)"


@functools.cache
def tensor_product_source(
    product: Product, kind: str, by_rows: tuple[bool, bool], pairs: tuple[bool, bool]
) -> KernelSource:
    """Return the kernel; ``by_rows`` as for other tiles, ``pairs`` says which operands are read in pairs."""
    tile, dtype = TENSOR_TILE, product.dtype
    text, extra, extra_types = store_functions(
        product, kind, ["total"], [f"to_{dtype}(total)"], [8 * j + r for j in range(_ACROSS) for r in range(2)]
    )
    for name, has_pair in zip("ab", pairs):
        both = _PAIR if has_pair else _APART.format(kind=kind)
        text += _LOAD.format(name=name, kind=kind, both=both)
    start = {
        "a": _loads("a", "rows", kind, by_rows[0] or pairs[0]),
        "b": _loads("b", "columns", kind, not by_rows[1] or pairs[1]),
    }  # fmt: skip
    prepare, load, put = [start["a"][n] + start["b"][n] for n in range(3)]
    size = TENSOR_TILE.rows * _PITCH
    doublings = (4 * _DOWN * _ACROSS).bit_length() - 1
    body = [
        f"tile_a = cuda.shared.array({2 * size}, uint32)", f"tile_b = cuda.shared.array({2 * size}, uint32)",
        f"t = {kind}(cuda.threadIdx.x)", *block_lines(kind, tile), f"a_first = {kind}(batch * a_0)",
        f"b_first = {kind}(batch * b_0)", f"depth = {kind}(0)", "zeros0 = (float32(0),)",
        *[f"zeros{n + 1} = zeros{n} + zeros{n}" for n in range(doublings)], f"sums = zeros{doublings}",
        f"warp, group, place = {kind}(t // 32), {kind}({kind}(t % 32) // 4), {kind}(t % 4)",
        f"down = {kind}({kind}(warp // 4) * {kind}({16 * _DOWN}) + group)",
        f"over = {kind}({kind}(warp % 4) * {kind}({8 * _ACROSS}))", f"into = {kind}(0)", "into_a = into",
        "into_b = into", *prepare, *load, *put, "cuda.syncthreads()", "while depth < inner:",
        f"    from_a = {kind}(into + down * {kind}({_PITCH}) + place)",
        f"    from_b = {kind}(into + {kind}(over + group) * {kind}({_PITCH}) + place)",
        f"    into = {kind}({kind}({size}) - into)", "    into_a = into", "    into_b = into",
        f"    depth = {kind}(depth + {kind}({tile.depth}))", *inner(load), f"    step = {kind}(0)",
        f"    while step < {kind}({_WORDS}):", f"        words = {_fragments('a', _DOWN, 16, (0, 8))}",
        f"        sums = multiply_{dtype}(sums, words, {_fragments('b', _ACROSS, 8, (0,))})",
        f"        step = {kind}(step + {kind}(8))", *inner(put), "    cuda.syncthreads()",
    ]  # fmt: skip
    extent = ["rows", "columns", "out", "out_0", "out_1", "out_2", *extra]
    for i in range(_DOWN):
        for lower in range(2):
            totals = [f"sums[{4 * (i * _ACROSS + j) + 2 * lower + r}]" for j in range(_ACROSS) for r in range(2)]
            given = ["batch", f"{kind}(first_rows + down + {kind}({16 * i + 8 * lower}))"]
            given += [f"{kind}(first_columns + over + {kind}(2) * place)", *totals, *extent]
            body.append(f"store_row({', '.join(given)})")
    head = f"{product.head}\n{text}\n\ndef tensor_product({', '.join([*NAMES, *extra])}):\n"
    types = parameter_types(product, kind, extra_types)
    return KernelSource("tensor_product", f"{head}{indented(body, 1)}\n", types, tile.threads)
