"""The axes of an array as templates see them: kept and reduced ones, sorted by stride and merged where possible."""

from __future__ import annotations

from ....llvm import address, array, data, i8, i64, loop, ndim, pointer, shape, strides, void

__all__ = ["AXES", "offset", "plan", "product"]

AXES = 96
"""Numbers in a block of axes: up to 16 kept ones from place 0 and 16 reduced ones from place 48, three numbers each.

They are the length, the stride of the array and the stride of the result, both in bytes, and begin with the axis of
the smallest stride.
"""


@loop(cold=True)
def insert(axes: pointer(i64), count: i64, length: i64, step: i64, to: i64) -> void:
    """Insert an axis in the order of the strides; an axis of stride 0, which repeats its elements, is the last."""
    key = abs_or_last(step)
    k = count
    while (k > 0) & (abs_or_last(axes[3 * k - 2]) > key):
        for part in range(3):
            axes[3 * k + part] = axes[3 * k - 3 + part]
        k -= 1
    axes[3 * k] = length
    axes[3 * k + 1] = step
    axes[3 * k + 2] = to


@loop(inline=True)
def abs_or_last(step: i64) -> i64:
    magnitude = -step if step < 0 else step
    return (1 << 62) if step == 0 else magnitude


@loop(cold=True)
def merged(axes: pointer(i64), count: i64) -> i64:
    """Join each axis with the next smaller one where one stride serves both; return how many are left."""
    last = i64(0)
    for k in range(1, count):
        inner = axes[3 * last]
        joins = (axes[3 * k + 1] == axes[3 * last + 1] * inner) & (axes[3 * k + 2] == axes[3 * last + 2] * inner)
        if joins:
            axes[3 * last] = inner * axes[3 * k]
        else:
            last += 1
            for part in range(3):
                axes[3 * last + part] = axes[3 * k + part]
    return last + 1 if count > 0 else 0


@loop(cold=True)
def plan(x: array, axes: pointer(i64), counts: pointer(i64), reduced: i64, item: i64, size: i64) -> i64:
    """Fill the block of axes for a contiguous result with elements of ``size`` bytes; return the first address.

    ``counts`` gets the numbers of kept and of reduced axes, and ``reduced`` has a bit for each reduced axis. Without
    reduced axes, there is one of length 1 and stride ``item``.
    """
    start = address(data(x, i8))
    kept = i64(0)
    rest = i64(0)
    to = size
    lengths = shape(x)
    steps = strides(x)
    last = ndim(x) - 1
    for j in range(last + 1):
        axis = last - j
        length = lengths[axis]
        step = steps[axis]
        if (reduced >> axis) & 1 != 0:
            if length != 1:
                if step < 0:
                    start += (length - 1) * step
                    step = -step
                insert(axes + 48, rest, length, step, 0)
                rest += 1
        else:
            if length != 1:
                insert(axes, kept, length, step, to)
                kept += 1
            to *= length
    if rest == 0:
        insert(axes + 48, 0, 1, item, 0)
        rest += 1
    counts[0] = merged(axes, kept)
    counts[1] = merged(axes + 48, rest)
    return start


@loop(cold=True)
def product(axes: pointer(i64), first: i64, last: i64) -> i64:
    """Return the number of places along these axes together."""
    total = i64(1)
    for k in range(first, last):
        total *= axes[3 * k]
    return total


@loop(inline=True)
def offset(axes: pointer(i64), first: i64, last: i64, index: i64, which: i64) -> i64:
    """Return how many bytes a place along these axes is from the first; ``which``: 1 in the array, 2 in the result."""
    found = i64(0)
    rest = index
    for k in range(first, last - 1):
        length = axes[3 * k]
        quotient = rest // length
        found += (rest - quotient * length) * axes[3 * k + which]
        rest = quotient
    if first < last:
        found += rest * axes[3 * last - 3 + which]
    return found
