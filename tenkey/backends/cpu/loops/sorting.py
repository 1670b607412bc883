"""Sorting: rows over the threads, one long row in parts that are divided by value, and orders by keys with indices.

Note [Orders by keys with indices]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A stable ``argsort`` is a sort of 64-bit integers: the upper bits are a key whose integer order is that of the elements,
the lower ones the element's index, so that no two are equal and the fastest sort of integers, which is not stable,
gives the stable order. Keys of floats have the sign's bit set or all bits inverted; both zeros have one key, and so
have all NaN, the largest. Keys in descending order are inverted. Keys of 64 bits leave no room for an index: the upper
bits of their distance from the least one are sorted, and where these are equal the elements are sorted by the lower
bits.

Note [A long row in parts]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A sample gives pivots that divide the row into as many parts as there are threads, about equally. Pieces of the row are
distributed in parallel: each counts its elements of each part, then writes them where they belong with a compressing
instruction. Each part is then sorted in cache by one thread. A sorted row is unique, so the number of parts does not
matter, except for zeros: vector instructions for minimum and maximum even change their signs (NumPy sorts -0.0 and 0.0
to two of one sign), so the zeros are copied from the row in their order afterwards.

Measured for 2**20 elements on two threads, in ms, with NumPy (PyTorch takes 7 to 76): float32 1.7 (3.3), distribution
0.2 and sorting 1.5. The limit is NumPy's function on half of the elements. Guarded by
``tests/backends/test_sorting_loops.py``.
"""

from __future__ import annotations

from typing import Any, Final

from ...llvm import (
    Type,
    address,
    array,
    bitcast,
    call,
    cast,
    compress,
    convert,
    count_true,
    data,
    f16,
    f32,
    first_lanes,
    function_pointer,
    i8,
    i32,
    i64,
    lanes_of,
    load,
    loop,
    minimum,
    pointer,
    select,
    shape,
    shuffle,
    stack,
    store,
    u8,
    u64,
    unroll,
    unsigned_of,
    void,
)
from ..pool.region import parallel

__all__ = ["PIECE", "distribute", "extent", "finish", "key_bits", "pack", "sort_parts", "sort_rows", "zeros_in_order"]

PIECE: Final = 1 << 14
"""Elements of a row that one thread takes at once: 3 to 10 us of work."""
_FEW: Final = 32  # equal upper bits are sorted by insertion up to so many elements


# ---- keys


def key_bits(T: Type) -> int:
    """Return the number of bits of the keys of a type."""
    return 32 if T.kind == "h" or T is f16 else T.bits if T.kind != "b" else 8


def _key(value: Any, T: Type, descending: bool) -> Any:
    """Return the key of an element as u64: Note [Orders by keys with indices]."""
    if T.kind == "h" or T is f16:
        value, T = convert(value, f32), f32
    if T.kind == "b":
        value, T = convert(value, u8), u8
    U = unsigned_of(T)
    top, whole = 1 << (T.bits - 1), (1 << T.bits) - 1
    key = bitcast(value, U)
    if T.kind == "f":
        bits = bitcast(select(value == 0.0, 0.0, value), U)
        key = select(value != value, whole, select(bits >= top, ~bits, bits | top))
    elif T.kind == "i":
        key = key ^ top
    return convert(~key if descending else key, u64)


@loop(inline=True)
def _bounds(item: i64, fields: pointer(i64)) -> Any:
    """Return row, and begin and end in it, of an item; the fields 2 and 3 are the length and the pieces of a row."""
    row = item // fields[3]
    begin = (item - row * fields[3]) * PIECE
    return row * fields[2], begin, minimum(begin + PIECE, fields[2])


@loop
def _extent_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, DESCENDING: Any) -> void:
    fields = cast(block, pointer(i64))
    x, out = cast(fields[0], pointer(T)), cast(fields[1], pointer(u64))
    for item in range(start, stop):
        first, begin, end = _bounds(item, fields)
        least: u64 = -1
        most: u64 = 0
        for i in range(first + begin, first + end):
            key = _key(x[i], T, DESCENDING)
            least = minimum(least, key)
            most = select(key > most, key, most)
        out[2 * item] = least
        out[2 * item + 1] = most


@loop(vectorize=True)
def extent(
    pool: pointer(i8), x: array, out: array, n: i64, pieces: i64, items: i64, *, T: Any, DESCENDING: Any
) -> void:
    """Write the least and the greatest key of each item."""
    fields = stack(i64, 4)
    fields[0], fields[1], fields[2], fields[3] = address(data(x, T)), address(data(out, u64)), n, pieces
    task = function_pointer(_extent_task, T=T, DESCENDING=DESCENDING)
    parallel(pool, task, cast(fields, pointer(i8)), items, 1)


@loop
def _pack_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, DESCENDING: Any) -> void:
    fields = cast(block, pointer(i64))
    x, out = cast(fields[0], pointer(T)), cast(fields[1], pointer(u64))
    least, shift, bits = u64(fields[4]), u64(fields[5]), u64(fields[6])
    for item in range(start, stop):
        first, begin, end = _bounds(item, fields)
        for i in range(begin, end):
            key = (_key(x[first + i], T, DESCENDING) - least) >> shift
            out[first + i] = (key << bits) | u64(i)


@loop(vectorize=True)
def pack(
    pool: pointer(i8), x: array, out: array, n: i64, pieces: i64, items: i64, chunk: i64, least: u64, shift: i64,
    bits: i64, *, T: Any, DESCENDING: Any,
) -> void:  # fmt: skip
    """Write keys with indices; ``bits`` are those of an index, ``shift`` the lower bits of keys that find no room."""
    fields = stack(i64, 7)
    fields[0], fields[1], fields[2], fields[3] = address(data(x, T)), address(data(out, u64)), n, pieces
    fields[4], fields[5], fields[6] = i64(least), shift, bits
    task = function_pointer(_pack_task, T=T, DESCENDING=DESCENDING)
    parallel(pool, task, cast(fields, pointer(i8)), items, chunk)


# ---- sorting


@loop
def _rows_task(block: pointer(i8), start: i64, stop: i64, *, T: Any) -> void:
    fields = cast(block, pointer(i64))
    x, ends, function = cast(fields[0], pointer(T)), cast(fields[1], pointer(i64)), cast(fields[2], pointer(i8))
    n = fields[3]
    for k in range(start, stop):
        first, last = k * n, k * n + n
        if fields[1] != 0:
            first, last = ends[k], ends[k + 1]
        if last > first + 1:
            call(function, x + first, last - first, 0, returns=i32)


@loop
def sort_rows(pool: pointer(i8), x: array, function: i64, n: i64, rows: i64, chunk: i64, *, T: Any) -> void:
    """Sort rows of a contiguous array in place, by a function of NumPy."""
    fields = stack(i64, 4)
    fields[0], fields[1], fields[2], fields[3] = address(data(x, T)), 0, function, n
    parallel(pool, function_pointer(_rows_task, T=T), cast(fields, pointer(i8)), rows, chunk)


@loop
def sort_parts(pool: pointer(i8), x: array, ends: array, function: i64, *, T: Any) -> void:
    """Sort the parts of a contiguous array in place, between the ends."""
    fields = stack(i64, 4)
    fields[0], fields[1], fields[2], fields[3] = address(data(x, T)), address(data(ends, i64)), function, 0
    parallel(pool, function_pointer(_rows_task, T=T), cast(fields, pointer(i8)), shape(ends)[0] - 1, 1)


def _parts_of(values: Any, inside: Any, pivots: Any, parts: int) -> Any:
    """Return the masks of the elements of each part; NaN is in the last one."""
    below = [(values < pivot) & inside for pivot in pivots]
    return [below[0], *[below[k] & ~below[k - 1] for k in range(1, parts - 1)], inside & ~below[-1]]


@loop
def _count_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, K: Any, LANES: Any) -> void:
    fields = cast(block, pointer(i64))
    x, pivots, counts = cast(fields[0], pointer(T)), cast(fields[2], pointer(T)), cast(fields[3], pointer(i64))
    limits = [pivots[k] for k in unroll(K - 1)]
    for piece in range(start, stop):
        begin, end = piece * PIECE, minimum(piece * PIECE + PIECE, fields[4])
        found = [i64(0) for k in unroll(K)]
        for i in range(begin, end, LANES):
            inside = first_lanes(end - i, LANES)
            parts = _parts_of(load(x + i, LANES, inside), inside, limits, K)
            for k in unroll(K):
                found[k] += count_true(parts[k])
        for k in unroll(K):
            counts[piece * K + k] = found[k]


@loop
def _distribute_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, K: Any, LANES: Any) -> void:
    fields = cast(block, pointer(i64))
    x, out = cast(fields[0], pointer(T)), cast(fields[1], pointer(T))
    pivots, counts = cast(fields[2], pointer(T)), cast(fields[3], pointer(i64))
    limits = [pivots[k] for k in unroll(K - 1)]
    for piece in range(start, stop):
        begin, end = piece * PIECE, minimum(piece * PIECE + PIECE, fields[4])
        places = [counts[piece * K + k] for k in unroll(K)]
        for i in range(begin, end, LANES):
            inside = first_lanes(end - i, LANES)
            values = load(x + i, LANES, inside)
            parts = _parts_of(values, inside, limits, K)
            for k in unroll(K):
                many = count_true(parts[k])
                store(out + places[k], compress(values, parts[k]), first_lanes(many, LANES))
                places[k] += many


@loop
def distribute(
    pool: pointer(i8), x: array, out: array, pivots: array, counts: array, ends: array, *, T: Any, K: Any
) -> void:
    """Write the elements of a row into K parts, divided by the pivots, and the ends of the parts."""
    n = shape(x)[0]
    pieces = (n + (PIECE - 1)) // PIECE
    fields = stack(i64, 5)
    table, limits = data(counts, i64), data(ends, i64)
    fields[0], fields[1], fields[2] = address(data(x, T)), address(data(out, T)), address(data(pivots, T))
    fields[3], fields[4] = address(table), n
    block = cast(fields, pointer(i8))
    parallel(pool, function_pointer(_count_task, T=T, K=K, LANES=lanes_of(T)), block, pieces, 1)
    total = 0
    for k in range(K):
        limits[k] = total
        for piece in range(pieces):
            count = table[piece * K + k]
            table[piece * K + k] = total
            total += count
    limits[K] = total
    parallel(pool, function_pointer(_distribute_task, T=T, K=K, LANES=lanes_of(T)), block, pieces, 1)


# ---- after sorting


@loop
def _sort_run(
    x: pointer(T), packed: pointer(u64), spare: pointer(u64), count: i64, least: u64, shift: u64, bits: u64,
    function: pointer(i8), *, T: Any, DESCENDING: Any,
) -> void:  # fmt: skip
    """Sort elements whose upper bits are equal by the lower bits; indices of equal ones are in order already."""
    low, index = (u64(1) << shift) - 1, (u64(1) << bits) - 1
    upper = packed[0] & ~index
    for i in range(count):
        place = packed[i] & index
        key = (_key(x[i64(place)], T, DESCENDING) - least) & low
        spare[i] = (key << bits) | place
    if count <= _FEW:
        for i in range(1, count):
            value = spare[i]
            j: i64 = i
            while j > 0:
                if spare[j - 1] < value:
                    break
                spare[j] = spare[j - 1]
                j -= 1
            spare[j] = value
    else:
        call(function, spare, count, 0, returns=i32)
    for i in range(count):
        packed[i] = upper | (spare[i] & index)


@loop
def _runs_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, DESCENDING: Any) -> void:
    """Sort the runs that begin in these items; the upper bits of all elements stay as they are."""
    fields = cast(block, pointer(i64))
    x, packed = cast(fields[0], pointer(T)), cast(fields[1], pointer(u64))
    least, shift, bits = u64(fields[4]), u64(fields[5]), u64(fields[6])
    spare, function = cast(fields[7], pointer(u64)), cast(fields[8], pointer(i8))
    n = fields[2]
    for item in range(start, stop):
        first, begin, end = _bounds(item, fields)
        row = packed + first
        i: i64 = begin
        if begin > 0:
            while i < end:
                if (row[i] >> bits) != (row[i - 1] >> bits):
                    break
                i += 1
        while i < end:
            upper = row[i] >> bits
            stop_of_run: i64 = i + 1
            while stop_of_run < n:
                if (row[stop_of_run] >> bits) != upper:
                    break
                stop_of_run += 1
            if stop_of_run > i + 1:
                _sort_run(
                    x + first, row + i, spare + (first + i), stop_of_run - i, least, shift, bits, function, T=T,
                    DESCENDING=DESCENDING,
                )  # fmt: skip
            i = stop_of_run


@loop
def _unpack_task(block: pointer(i8), start: i64, stop: i64) -> void:
    fields = cast(block, pointer(i64))
    packed, bits = cast(fields[1], pointer(u64)), u64(fields[6])
    index = (u64(1) << bits) - 1
    for item in range(start, stop):
        first, begin, end = _bounds(item, fields)
        for i in range(first + begin, first + end):
            packed[i] = packed[i] & index


@loop
def finish(
    pool: pointer(i8), x: array, packed: array, spare: array, function: i64, n: i64, pieces: i64, items: i64,
    chunk: i64, least: u64, shift: i64, bits: i64, *, T: Any, DESCENDING: Any, RUNS: Any,
) -> void:  # fmt: skip
    """Turn sorted keys with indices into indices; with ``RUNS``, sort those of equal upper bits before."""
    fields = stack(i64, 9)
    fields[0], fields[1], fields[2], fields[3] = address(data(x, T)), address(data(packed, u64)), n, pieces
    fields[4], fields[5], fields[6] = i64(least), shift, bits
    fields[7], fields[8] = address(data(spare, u64)), function
    block = cast(fields, pointer(i8))
    if RUNS:
        parallel(pool, function_pointer(_runs_task, T=T, DESCENDING=DESCENDING), block, items, chunk)
    parallel(pool, function_pointer(_unpack_task), block, items, chunk)


@loop
def _first_from(x: pointer(T), n: i64, *, T: Any, BEHIND: Any) -> i64:
    """Return the first place of a sorted row that is not below zero, or (``BEHIND``) above it."""
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        value = x[middle]
        ahead = (value <= 0.0) if BEHIND else (value < 0.0)
        low = select(ahead, middle + 1, low)
        high = select(ahead, high, middle)
    return low


@loop
def _zeros_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, REVERSED: Any, LANES: Any) -> void:
    fields = cast(block, pointer(i64))
    source, out, n = cast(fields[0], pointer(T)), cast(fields[1], pointer(T)), fields[2]
    for row in range(start, stop):
        x, sorted_ = source + row * n, out + row * n
        begin, end = _first_from(sorted_, n, T=T, BEHIND=False), _first_from(sorted_, n, T=T, BEHIND=True)
        if begin < end:
            place: i64 = end if REVERSED else begin
            for i in range(0, n, LANES):
                inside = first_lanes(n - i, LANES)
                values = load(x + i, LANES, inside)
                zero = (values == 0.0) & inside
                many = count_true(zero)
                if REVERSED:
                    backwards = range(LANES - 1, -1, -1)
                    values, zero = shuffle(values, values, backwards), shuffle(zero, zero, backwards)
                    place -= many
                store(sorted_ + place, compress(values, zero), first_lanes(many, LANES))
                if not REVERSED:
                    place += many


@loop
def zeros_in_order(
    pool: pointer(i8), x: array, out: array, n: i64, rows: i64, chunk: i64, *, T: Any, REVERSED: Any
) -> void:
    """Put zeros of both signs into the order that they have in the rows of ``x``, or the opposite one."""
    fields = stack(i64, 3)
    fields[0], fields[1], fields[2] = address(data(x, T)), address(data(out, T)), n
    parallel(
        pool,
        function_pointer(_zeros_task, T=T, REVERSED=REVERSED, LANES=lanes_of(T)),
        cast(fields, pointer(i8)),
        rows,
        chunk,
    )
