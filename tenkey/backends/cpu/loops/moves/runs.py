"""Runs of elements: copied, reversed, filled, repeated, with steps, and tiles transposed in registers.

These are the loops in the middle of copies (``strided_copies.py``) and of other templates that move elements.
"""

from __future__ import annotations

from typing import Any

from ....llvm import (
    Type,
    address,
    cast,
    i8,
    i64,
    load,
    loop,
    minimum,
    pointer,
    shuffle,
    splat,
    store,
    u8,
    unroll,
    void,
)  # fmt: skip

__all__ = [
    "copy_run", "fill_run", "repeat_run", "reverse_run", "stream_run", "strided_block", "transpose_tile",
    "transposed_block",
]  # fmt: skip


def _halves(lanes: int) -> list[int]:
    return [lanes >> k for k in range(1, lanes.bit_length())]


@loop(inline=False)
def copy_run(to: pointer(T), source: pointer(T), n: i64, *, T) -> void:
    """Copy adjacent elements; the last vector overlaps the one before it, so that no element is copied alone."""
    V = 64 // T.size
    if n < V:
        for half in unroll(_halves(V)):
            if n >= half:
                first = load(source, half)
                last = load(source + (n - half), half)
                store(to, first)
                store(to + (n - half), last)
                return
        return
    i = i64(0)
    while i + 4 * V <= n:
        vectors = [load(source + (i + k * V), V) for k in range(4)]
        for k in unroll(4):
            store(to + (i + k * V), vectors[k])
        i += 4 * V
    while i + V <= n:
        store(to + i, load(source + i, V))
        i += V
    if i < n:
        store(to + (n - V), load(source + (n - V), V))


@loop(inline=False)
def stream_run(to: pointer(u8), source: pointer(u8), n: i64) -> void:
    """Copy many bytes past the caches: memory is not read before it is overwritten."""
    head = minimum(-address(to) & 63, n)
    copy_run(to, source, head, T=u8)
    i = head + 0
    while i + 256 <= n:
        vectors = [load(source + (i + k * 64), 64) for k in range(4)]
        for k in unroll(4):
            store(to + (i + k * 64), vectors[k], streaming=True)
        i += 256
    copy_run(to + i, source + i, n - i, T=u8)


@loop(inline=False)
def reverse_run(to: pointer(T), source: pointer(T), n: i64, *, T) -> void:
    """Copy the elements that precede ``source``, itself included, from the last to the first."""
    V = 64 // T.size
    if n < V:
        for j in range(n):
            to[j] = source[-j]
        return
    i = i64(0)
    while i + V <= n:
        store(to + i, _backwards(source - (i + V - 1), V))
        i += V
    if i < n:
        store(to + (n - V), _backwards(source - (n - 1), V))


def _backwards(p: Any, lanes: int) -> Any:
    v = load(p, lanes)
    return shuffle(v, v, range(lanes - 1, -1, -1))


@loop(inline=False)
def fill_run(to: pointer(T), x: T, n: i64, *, T) -> void:
    """Set adjacent elements to one value."""
    V = 64 // T.size
    if n < V:
        for half in unroll(_halves(V)):
            if n >= half:
                store(to, splat(x, half))
                store(to + (n - half), splat(x, half))
                return
        return
    v = splat(x, V)
    i = i64(0)
    while i + V <= n:
        store(to + i, v)
        i += V
    if i < n:
        store(to + (n - V), v)


@loop(inline=False)
def repeat_run(to: pointer(T), source: pointer(T), n: i64, *, T, COUNT) -> void:
    """Write each of ``n`` adjacent elements ``COUNT`` times."""
    V = 64 // T.size
    i = i64(0)
    while i + V <= n:
        v = load(source + i, V)
        for k in unroll(COUNT):
            store(to + (i * COUNT + k * V), shuffle(v, v, [(k * V + lane) // COUNT for lane in range(V)]))
        i += V
    while i < n:
        for k in unroll(COUNT):
            to[i * COUNT + k] = source[i]
        i += 1


def transpose_tile(to: Any, step: Any, source: Any, source_step: Any, T: Type, width: int) -> None:
    """Write a tile's columns as rows: exchange blocks of 1, 2, 4, ... with the partner rows."""
    rows = [load(cast(source + source_step * k, pointer(T)), width) for k in range(width)]
    half = 1
    while half < width:
        low = [k + width - half if k & half else k for k in range(width)]
        high = [k + width if k & half else k + half for k in range(width)]
        for k in range(width):
            if not k & half:
                a, b = rows[k], rows[k + half]
                rows[k], rows[k + half] = shuffle(a, b, low), shuffle(a, b, high)
        half *= 2
    for k, row in enumerate(rows):
        store(cast(to + step * k, pointer(T)), row)


@loop(inline=False)
def strided_run(to: pointer(i8), step: i64, source: pointer(i8), source_step: i64, n: i64, *, T) -> void:
    """Copy elements that are not adjacent."""
    p, q = to + 0, source + 0
    i = i64(0)
    if T.lanes == 1:
        V = 64 // T.size
        if (step == T.size) & (source_step == 2 * T.size):
            while i + V < n:  # the element behind the last one that is needed exists
                low, high = load(cast(q, pointer(T)), V), load(cast(q + 64, pointer(T)), V)
                store(cast(p, pointer(T)), shuffle(low, high, range(0, 2 * V, 2)))
                p = p + 64
                q = q + 128
                i += V
    while i + 8 <= n:
        elements = [cast(q + source_step * k, pointer(T))[0] for k in range(8)]
        for k in unroll(8):
            cast(p + step * k, pointer(T))[0] = elements[k]
        p = p + 8 * step
        q = q + 8 * source_step
        i += 8
    while i < n:
        cast(p, pointer(T))[0] = cast(q, pointer(T))[0]
        p = p + step
        q = q + source_step
        i += 1


@loop(inline=False)
def strided_block(
    to: pointer(i8), source: pointer(i8), rows: i64, columns: i64, row: pointer(i64), column: pointer(i64),
    *, T,
) -> void:  # fmt: skip
    """Copy elements one by one; ``row`` and ``column`` are length, step in the result and step in the source."""
    if columns < minimum(rows, 8):
        for c in range(columns):
            strided_run(to + c * column[1], row[1], source + c * column[2], row[2], rows, T=T)
    else:
        for r in range(rows):
            strided_run(to + r * row[1], column[1], source + r * row[2], column[2], columns, T=T)


@loop(inline=False)
def transposed_block(
    to: pointer(i8), source: pointer(i8), rows: i64, columns: i64, row: pointer(i64), column: pointer(i64),
    *, T,
) -> void:  # fmt: skip
    """Copy where the columns are adjacent in the result and the rows in the source."""
    W = min(64 // T.size, 16)
    size = T.size
    step, source_step = row[1], column[2]
    r = i64(0)
    while r + W <= rows:
        c = i64(0)
        while c + W <= columns:
            transpose_tile(to + (r * step + c * size), step, source + (r * size + c * source_step), source_step, T, W)
            c += W
        if c < columns:
            strided_block(
                to + (r * step + c * size), source + (r * size + c * source_step), i64(W), columns - c, row, column, T=T
            )
        r += W
    if r < rows:
        strided_block(to + r * step, source + r * size, rows - r, columns, row, column, T=T)
