"""Rows that fit in the shared memory of a block, sorted by a bitonic network.

A block sorts a fixed number of slots, in which one long row or many short ones lie, each padded to a power of two. A
slot holds a key and the place where it was, which decides between equal keys, so that the network is stable. Steps over
at most 32 slots stay within a warp's slots and need no barrier of the block. Source: Batcher, Sorting networks and
their applications (1968).
"""

from __future__ import annotations

import functools

from ...compiling.kernel_source import KernelSource
from .sort_keys import Keys

__all__ = ["SLOTS", "block_sort_source"]

SLOTS = 1024
_THREADS = 256

_TEXT = """
{head}
def block_sort(rows, columns, padded, x, x_0, x_1, values, order):
    {arrays}
    t = uint32(cuda.threadIdx.x)
    first = int64(cuda.blockIdx.x) * int64({slots} // padded)
    slot = t
    while slot < uint32({slots}):
        column = bit_and(slot, wrap_subtract(padded, uint32(1)))
        row = first + int64(whole_quotient(slot, padded))
        if row < rows and column < columns:
            key = key_of(x[row * x_0 + int64(column) * x_1])
            {fill}
        else:
            {pad}
        slot = wrap_add(slot, uint32({threads}))
    cuda.syncthreads()
    size = uint32(2)
    while size <= padded:
        stride = shift_right(size, uint32(1))
        while stride > uint32(0):
            pair = t
            while pair < uint32({slots} // 2):
                low = wrap_subtract(shift_left(pair, uint32(1)), bit_and(pair, wrap_subtract(stride, uint32(1))))
                high = wrap_add(low, stride)
                rising = (bit_and(low, size) == uint32(0)) | (size == padded)
                {exchange}
                pair = wrap_add(pair, uint32({threads}))
            if stride > uint32(32) or stride == uint32(1):
                cuda.syncthreads()
            else:
                cuda.syncwarp()
            stride = shift_right(stride, uint32(1))
        size = shift_left(size, uint32(1))
    slot = t
    while slot < uint32({slots}):
        column = bit_and(slot, wrap_subtract(padded, uint32(1)))
        row = first + int64(whole_quotient(slot, padded))
        if row < rows and column < columns:
            {read}
            value = element_of(key)
            if is_ambiguous(key):
                value = x[row * x_0 + int64(place) * x_1]
            values[row * int64(columns) + int64(column)] = value
            order[row * int64(columns) + int64(column)] = int64(place)
        slot = wrap_add(slot, uint32({threads}))
"""
# Key and place in one number: the key in the upper bits, the place in the lower.
_JOINED = {
    "arrays": "slots = cuda.shared.array({slots}, {word})",
    "fill": "slots[slot] = bit_or(shift_left({word}(key), {word}({shift})), {word}(column))",
    "pad": "slots[slot] = {word}({largest})",
    "exchange": """a = slots[low]
                b = slots[high]
                if (a > b) == rising:
                    slots[low] = b
                    slots[high] = a""",
    "read": """joined = slots[slot]
            key = {kind}(shift_right(joined, {word}({shift})))
            place = uint32(bit_and(joined, {word}({mask})))""",
}
_APART = {
    "arrays": """keys = cuda.shared.array({slots}, {kind})
    places = cuda.shared.array({slots}, uint32)""",
    "fill": """keys[slot] = key
            places[slot] = column""",
    "pad": """keys[slot] = {kind}({largest})
            places[slot] = uint32({slots})""",
    "exchange": """a = keys[low]
                b = keys[high]
                m = places[low]
                n = places[high]
                above = (a > b) | ((a == b) & (m > n))
                if above == rising:
                    keys[low] = b
                    keys[high] = a
                    places[low] = n
                    places[high] = m""",
    "read": """key = keys[slot]
            place = places[slot]""",
}


@functools.cache
def block_sort_source(keys: Keys) -> KernelSource:
    """Return the kernel for rows of up to ``SLOTS`` elements.

    ``padded`` is the power of two to which rows are padded; each block sorts ``SLOTS // padded`` rows.
    """
    word = "uint32" if keys.bits <= 16 else "uint64"
    shift = {"uint32": 16, "uint64": 32}[word]
    largest = (1 << (keys.bits if keys.bits == 64 else 2 * shift)) - 1
    words = {
        "slots": SLOTS,
        "word": word,
        "shift": shift,
        "mask": (1 << shift) - 1,
        "kind": keys.kind,
        "largest": largest,
    }
    pieces = {name: text.format(**words) for name, text in (_APART if keys.bits == 64 else _JOINED).items()}
    text = _TEXT.format(head=keys.head, slots=SLOTS, threads=_THREADS, **pieces)
    parameters = ("int64", "uint32", "uint32", f"{keys.kind}*", "int64", "int64", f"{keys.kind}*", "int64*")
    return KernelSource("block_sort", text, parameters, _THREADS)
