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

Measured for 2**20 elements on two threads, in ms, with the faster of NumPy and PyTorch: float32 1.85 (3.3), of which
the distribution takes 0.25 and sorting 1.55; int32 2.0 (3.5); stable orders of float32 4.2 (19, not stable) and int32
4.1 (8). The limit is NumPy's function on half of the elements. Four parts in place of two take as long.
Guarded by ``tests/backends/test_sorting_loops.py``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ...llvm import (
    Type,
    across,
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
    iota,
    lanes_of,
    load,
    loop,
    maximum,
    minimum,
    pointer,
    select,
    shuffle,
    splat,
    stack,
    store,
    u8,
    u64,
    unroll,
    unsigned_of,
    void,
    zeros,
)
from ...processor import has_feature
from ..pool.region import parallel

__all__ = ["BLOCK", "PIECE", "extent", "key_bits", "sort_long", "sort_rows"]

PIECE: Final = 1 << 14
"""Elements of a row that one thread takes at once: 3 to 10 us of work."""
_SAMPLE: Final = 64  # keys of a row that suggest a limit for the first ones
_FEW: Final = 32  # equal upper bits are sorted by insertion up to so many elements

# The block of a region: 64-bit numbers. Python fills in the first six.
_N, _FUNCTION, _LEAST, _SHIFT, _BITS, _TOP, _X, _OUT, _SPARE, _PIVOTS, _COUNTS, _ENDS = range(12)
BLOCK: Final = 12


# ---- keys


def key_bits(T: Type) -> int:
    """Return the number of bits of the keys of a type."""
    return 32 if T.kind == "h" or T is f16 else T.bits if T.kind != "b" else 8


def _key(value: Any, T: Type, order: str) -> Any:
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
    return convert(~key if order == "descending" else key, u64)


class _Order(NamedTuple):
    """What keys with indices are made with: the least key, the lower bits that are left out, the bits of an index."""

    least: Any
    shift: Any
    bits: Any


def _order_of(fields: Any) -> _Order:
    return _Order(*[convert(fields[k], u64) for k in (_LEAST, _SHIFT, _BITS)])


def _packed(key: Any, index: Any, order: _Order) -> Any:
    return (((key - order.least) >> order.shift) << order.bits) | index


def _elements(x: Any, i: Any, inside: Any, order: _Order, T: Type, ORDER: str | None) -> Any:
    """Return the elements from ``i`` on, or their keys with indices."""
    lanes = _lanes(T, ORDER)
    values = load(cast(x, pointer(T)) + i, lanes, inside)
    return values if ORDER is None else _packed(_key(values, T, ORDER), iota(u64, lanes) + u64(i), order)


def _lanes(T: Type, ORDER: Any) -> int:
    return lanes_of(T) if ORDER is None else lanes_of(u64)


# ---- the range of keys


@loop
def _extent_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, ORDER: Any) -> void:
    fields = cast(block, pointer(i64))
    x, out = cast(fields[_X], pointer(T)), cast(fields[_OUT], pointer(u64))
    for piece in range(start, stop):
        end = minimum(piece * PIECE + PIECE, fields[_N])
        least = splat(u64(-1), 8)
        most = zeros(u64, 8)
        for i in range(piece * PIECE, end, 8):
            inside = first_lanes(end - i, 8)
            key = _key(load(x + i, 8, inside), T, ORDER)
            least = select(inside & (key < least), key, least)
            most = select(inside & (key > most), key, most)
        out[2 * piece] = across(least, minimum)
        out[2 * piece + 1] = across(most, maximum)


@loop(brief=True, cold=True)
def extent(pool: pointer(i8), block: array, x: array, out: array, *, T: Any, ORDER: Any) -> void:
    """Write the least and the greatest key of each piece of an array."""
    fields = data(block, i64)
    fields[_X], fields[_OUT] = address(data(x, T)), address(data(out, u64))
    pieces = (fields[_N] + (PIECE - 1)) // PIECE
    parallel(pool, function_pointer(_extent_task, T=T, ORDER=ORDER), cast(fields, pointer(i8)), pieces, 4)


# ---- one long row


def _parts_of(values: Any, inside: Any, pivots: Any, parts: int) -> Any:
    """Return the masks of the elements of each part; NaN is in the last one."""
    below = [(values < pivot) & inside for pivot in pivots]
    return [below[0], *[below[k] & ~below[k - 1] for k in range(1, parts - 1)], inside & ~below[-1]]


def _limits(fields: Any, order: _Order, T: Type, K: int, ORDER: str | None) -> list[Any]:
    pivots = cast(fields[_PIVOTS], pointer(T))
    return [pivots[k] if ORDER is None else _packed(_key(pivots[k], T, ORDER), 0, order) for k in range(K - 1)]


@loop
def _parts_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, K: Any, ORDER: Any, WRITE: Any) -> void:
    """Count the elements of each part in these pieces, or write them where ``counts`` says that they belong."""
    fields = cast(block, pointer(i64))
    x, counts, order = cast(fields[_X], pointer(i8)), cast(fields[_COUNTS], pointer(i64)), _order_of(fields)
    out = cast(fields[_OUT], pointer(T if ORDER is None else u64))
    limits = _limits(fields, order, T, K, ORDER)
    LANES = _lanes(T, ORDER)
    for piece in range(start, stop):
        begin, end = piece * PIECE, minimum(piece * PIECE + PIECE, fields[_N])
        places = [counts[piece * K + k] if WRITE else i64(0) for k in unroll(K)]
        for i in range(begin, end, LANES):
            inside = first_lanes(end - i, LANES)
            values = _elements(x, i, inside, order, T, ORDER)
            parts = _parts_of(values, inside, limits, K)
            for k in unroll(K):
                many = count_true(parts[k])
                if WRITE:
                    store(out + places[k], compress(values, parts[k]), first_lanes(many, LANES))
                places[k] += many
        if not WRITE:
            for k in unroll(K):
                counts[piece * K + k] = places[k]


@loop
def _sort_task(block: pointer(i8), start: i64, stop: i64, *, E: Any, INDICES: Any) -> void:
    """Sort parts; with ``INDICES``, leave the indices of keys with indices."""
    fields = cast(block, pointer(i64))
    out, ends = cast(fields[_OUT], pointer(E)), cast(fields[_ENDS], pointer(i64))
    for k in range(start, stop):
        first, last = ends[k], ends[k + 1]
        call(cast(fields[_FUNCTION], pointer(i8)), out + first, last - first, 0, returns=i32)
        if INDICES:
            _keep_indices(out + first, last - first, u64(fields[_BITS]))


@loop
def _keep_indices(packed: pointer(u64), n: i64, bits: u64) -> void:
    index = (u64(1) << bits) - 1
    for i in range(0, n, 8):
        inside = first_lanes(n - i, 8)
        store(packed + i, load(packed + i, 8, inside) & splat(index, 8), inside)


@loop
def _runs_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, ORDER: Any) -> void:
    """Sort the runs of equal upper bits that begin in these pieces; the upper bits of all elements stay as they are."""
    fields = cast(block, pointer(i64))
    for piece in range(start, stop):
        begin = piece * PIECE
        end = minimum(begin + PIECE, fields[_N])
        _sort_runs(
            fields, cast(fields[_X], pointer(T)), cast(fields[_OUT], pointer(u64)), cast(fields[_SPARE], pointer(u64)),
            begin, end, fields[_N], T=T, ORDER=ORDER,
        )  # fmt: skip


@loop
def _keep_task(block: pointer(i8), start: i64, stop: i64) -> void:
    fields = cast(block, pointer(i64))
    for piece in range(start, stop):
        begin = piece * PIECE
        count = minimum(i64(PIECE), fields[_N] - begin)
        _keep_indices(cast(fields[_OUT], pointer(u64)) + begin, count, u64(fields[_BITS]))


@loop(brief=True, cold=True)
def sort_long(
    pool: pointer(i8), block: array, x: array, out: array, spare: array, pivots: array, counts: array, ends: array, *,
    T: Any, K: Any, ORDER: Any, BACKWARDS: Any = False,
) -> void:  # fmt: skip
    """Sort one row in K parts: its elements, or with ``ORDER`` (ascending, descending) keys, of which indices stay."""
    fields = data(block, i64)
    table, limits = data(counts, i64), data(ends, i64)
    fields[_X], fields[_OUT], fields[_PIVOTS] = address(data(x, T)), address(data(out, T)), address(data(pivots, T))
    fields[_COUNTS], fields[_ENDS], fields[_SPARE] = address(table), address(limits), address(data(spare, u64))
    n = fields[_N]
    pieces = (n + (PIECE - 1)) // PIECE
    place = cast(fields, pointer(i8))
    parallel(pool, function_pointer(_parts_task, T=T, K=K, ORDER=ORDER, WRITE=False), place, pieces, 1)
    total = 0
    for k in range(K):
        limits[k] = total
        for piece in range(pieces):
            count = table[piece * K + k]
            table[piece * K + k] = total
            total += count
    limits[K] = total
    parallel(pool, function_pointer(_parts_task, T=T, K=K, ORDER=ORDER, WRITE=True), place, pieces, 1)
    WIDE = ORDER is not None and key_bits(T) == 64
    E = T if ORDER is None else u64
    task = function_pointer(_sort_task, E=E, INDICES=ORDER is not None and not WIDE)
    parallel(pool, task, place, K, 1)
    if WIDE:
        if fields[_SHIFT] > 0:
            parallel(pool, function_pointer(_runs_task, T=T, ORDER=ORDER), place, pieces, 1)
        parallel(pool, function_pointer(_keep_task), place, pieces, 4)
    if ORDER is None and T.is_float:
        _order_zeros(data(x, T), data(out, T), n, T=T, BACKWARDS=BACKWARDS)


# ---- many rows


@loop
def _copy_row(fields: pointer(i64), x: pointer(T), out: pointer(i8), *, T: Any, ORDER: Any) -> void:
    order, LANES, n = _order_of(fields), _lanes(T, ORDER), fields[_N]
    to = cast(out, pointer(T if ORDER is None else u64))
    i: i64 = 0
    for FULL in unroll((True, False)):
        while (i + LANES <= n) if FULL else (i < n):
            inside = None if FULL else first_lanes(n - i, LANES)
            store(to + i, _elements(cast(x, pointer(i8)), i, inside, order, T, ORDER), inside)
            i += LANES


@loop
def _keep_first(packed: pointer(u64), n: i64, top: i64, bits: u64) -> i64:
    """Move to the front of a row what a sample suggests to be at least the ``top`` first keys; return their number."""
    sample = stack(u64, _SAMPLE)
    for i in range(_SAMPLE):
        value = packed[i * n // _SAMPLE]
        j: i64 = i
        while j > 0:
            if sample[j - 1] < value:
                break
            sample[j] = sample[j - 1]
            j -= 1
        sample[j] = value
    limit = sample[minimum(top * _SAMPLE // n + 6, _SAMPLE - 1)] | ((u64(1) << bits) - 1)  # all of a run
    place: i64 = 0
    if has_feature("avx512f"):
        for i in range(0, n, 8):
            inside = first_lanes(n - i, 8)
            values = load(packed + i, 8, inside)
            kept = (values <= limit) & inside
            many = count_true(kept)
            store(packed + place, compress(values, kept), first_lanes(many, 8))
            place += many
    else:  # without a compress instruction, write every key; the next one overwrites a key that is not kept
        for i in range(n):
            value = packed[i]
            packed[place] = value
            place += i64(value <= limit)
    return place


@loop
def _rows_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, ORDER: Any, BACKWARDS: Any) -> void:
    fields = cast(block, pointer(i64))
    n, top = fields[_N], fields[_TOP]
    E = T if ORDER is None else u64
    for row in range(start, stop):
        x, out = cast(fields[_X], pointer(T)) + row * n, cast(fields[_OUT], pointer(E)) + row * n
        count: i64 = n
        _copy_row(fields, x, cast(out, pointer(i8)), T=T, ORDER=ORDER)
        if ORDER is not None:  # noqa: SIM102 -- known while the code is translated
            if top > 0:
                count = _keep_first(out, n, top, u64(fields[_BITS]))
                if count < top:
                    count = n
                    _copy_row(fields, x, cast(out, pointer(i8)), T=T, ORDER=ORDER)
        call(cast(fields[_FUNCTION], pointer(i8)), out, count, 0, returns=i32)
        if ORDER is not None:
            if key_bits(T) == 64 and fields[_SHIFT] > 0:
                spare = cast(fields[_SPARE], pointer(u64)) + row * n
                _sort_runs(fields, x, out, spare, i64(0), count, count, T=T, ORDER=ORDER)
            _keep_indices(out, count, u64(fields[_BITS]))
        elif T.is_float:
            _order_zeros(x, out, n, T=T, BACKWARDS=BACKWARDS)


@loop
def sort_rows(
    pool: pointer(i8), block: array, x: array, out: array, spare: array, rows: i64, chunk: i64, *, T: Any, ORDER: Any,
    BACKWARDS: Any = False,
) -> void:  # fmt: skip
    """Sort rows: their elements, or keys, of which indices stay."""
    fields = data(block, i64)
    fields[_X], fields[_OUT], fields[_SPARE] = address(data(x, T)), address(data(out, T)), address(data(spare, u64))
    task = function_pointer(_rows_task, T=T, ORDER=ORDER, BACKWARDS=BACKWARDS)
    parallel(pool, task, cast(fields, pointer(i8)), rows, chunk)


# ---- after sorting


@loop
def _sort_run(
    x: pointer(T), packed: pointer(u64), spare: pointer(u64), count: i64, least: u64, shift: u64, bits: u64,
    function: pointer(i8), *, T: Any, ORDER: Any,
) -> void:  # fmt: skip
    """Sort elements whose upper bits are equal by the lower bits; indices of equal ones are in order already."""
    low, index = (u64(1) << shift) - 1, (u64(1) << bits) - 1
    upper = packed[0] & ~index
    for i in range(count):
        place = packed[i] & index
        key = (_key(x[i64(place)], T, ORDER) - least) & low
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
def _sort_runs(
    fields: pointer(i64), x: pointer(T), row: pointer(u64), spare: pointer(u64), begin: i64, end: i64, n: i64, *,
    T: Any, ORDER: Any,
) -> void:  # fmt: skip
    """Sort the runs of equal upper bits that begin in range(begin, end) of a row, by the lower bits of the keys."""
    order = _order_of(fields)
    i: i64 = begin
    if begin > 0:
        while i < end:
            if (row[i] >> order.bits) != (row[i - 1] >> order.bits):
                break
            i += 1
    while i < end:
        upper = row[i] >> order.bits
        behind: i64 = i + 1
        while behind < n:
            if (row[behind] >> order.bits) != upper:
                break
            behind += 1
        if behind > i + 1:
            function = cast(fields[_FUNCTION], pointer(i8))
            _sort_run(x, row + i, spare + i, behind - i, *order, function, T=T, ORDER=ORDER)
        i = behind


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
def _order_zeros(x: pointer(T), out: pointer(T), n: i64, *, T: Any, BACKWARDS: Any) -> void:
    """Put the zeros of a sorted row into the order that they have in ``x``, or the opposite one."""
    LANES = lanes_of(T)
    begin, end = _first_from(out, n, T=T, BEHIND=False), _first_from(out, n, T=T, BEHIND=True)
    if begin < end:
        place: i64 = end if BACKWARDS else begin
        for i in range(0, n, LANES):
            inside = first_lanes(n - i, LANES)
            values = load(x + i, LANES, inside)
            zero = (values == 0.0) & inside
            many = count_true(zero)
            if BACKWARDS:
                lanes = range(LANES - 1, -1, -1)
                values, zero = shuffle(values, values, lanes), shuffle(zero, zero, lanes)
                place -= many
            store(out + place, compress(values, zero), first_lanes(many, LANES))
            if not BACKWARDS:
                place += many
