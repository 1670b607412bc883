"""Products of matrices: batches of small ones, and dtypes for which BLAS has no product.

Note [A tile of registers]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A tile of 12 rows and 2 vectors of the result stays in 24 of the 32 vector registers while k runs over the inner axis:
per step 2 loads of B, 12 broadcast loads of A and 24 multiply-adds. Columns that remain are computed by tiles of
8 rows and 3 vectors, or 16 rows and one vector, whose last vector is masked. A may have any strides. Matrices of a
batch, which come from memory and are met once, are not packed: B is read row by row, so its rows must be contiguous
and the matrix must fit the cache of a core. There tiles of 6 rows and 4 vectors are used, which read and write longer
pieces of consecutive memory.
A sum runs in the order of k, whatever the number of threads. Limit: two multiply-adds of 64 bytes per cycle and core,
92 float32 per ns at 2.9 GHz. Measured in one thread: 12 x 2 takes 91 and 6 x 4 takes 88 from the first-level cache,
and both 84 to 88 from the second-level cache.

Note [A large product]
~~~~~~~~~~~~~~~~~~~~~~
A task computes a panel of up to 4 strips of 2 vectors of columns. For each slice of at most ``DEEP`` rows of B it packs
the strips one behind the other, aligned to lines of the cache (unaligned: 7 % slower), and adds the products of all its
rows of A with them, ``SHORT`` rows at a time, so that these meet all strips while they are in the second-level cache.
A slice of 128 to 384 rows would keep a strip in the first-level cache, but reads and writes the result more often,
which costs more. A is read where it is: packing it as well took as long as it saved.
There are about four tasks for each thread, which alters no result.
Guarded by ``tests/backends/test_product_loops.py``.
"""

from __future__ import annotations

from ...llvm import (
    Value,
    address,
    array,
    atomic_load,
    atomic_or,
    cast,
    compare_exchange,
    cttz,
    data,
    element_address,
    first_lanes,
    fma,
    function_pointer,
    i1,
    i8,
    i64,
    lanes_of,
    load,
    loop,
    minimum,
    ndim,
    pause,
    pointer,
    prefetch,
    shape,
    splat,
    stack,
    store,
    strides,
    unroll,
    void,
    zeros,
)
from ..pool.region import parallel
from .moves.runs import transpose_tile

__all__ = ["batched_product", "packed_product"]

QUADRUPLE = (6, 4, 1)  # rows of the tiles that are 4 vectors wide, for matrices that come from memory
MIDDLE = (8, 4, 1)  # rows of those that are 2 vectors wide, in a batch
PAIR = (12, 4, 1)  # rows of those that are 2 vectors wide, with packed strips
TRIPLE = (8, 4, 1)  # rows of those that are 3 masked vectors wide, for the columns that remain
SINGLE = (16, 4, 1)  # rows of those that are one masked vector wide
LONG = 64  # steps of k for which the lines of the result are worth fetching ahead
BLOCK = 48  # rows of one task: with a row of 64 columns and k = 64, 6 us of work
CHUNK = 1 << 18  # multiply-adds of a chunk: 3 us at 80 multiply-adds per ns
DEEP = 512  # most rows of B in a packed strip of 128 bytes
STRIPS = 4  # most strips of B that a task packs at a time: 256 KB, a part of a core's second-level cache
SHORT = 96  # rows of A that meet these strips before the next rows: another part of this cache
TALL = 252  # least rows of a task of several: packing takes 5 % of its time


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    return fma(a, b, c) if a.type.is_float else a * b + c


@loop(inline=False)
def tile(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, inner: i64,
    columns: i64, more: i1, *, T, R, V,
) -> void:  # fmt: skip
    """Compute R rows and V vectors of columns of a product, or add them with ``more``; steps are in bytes."""
    L = lanes_of(T)
    masks = [None if V % 2 == 0 else first_lanes(columns - v * L, L) for v in unroll(V)]
    total = [zeros(T, L) for _ in unroll(R * V)]
    if inner > LONG:
        for r in unroll(R):
            for v in unroll(V):
                prefetch(element_address(c, c_step, r) + v * L, write=True)
    for _k in range(inner):
        right = [load(b + v * L, L, mask=masks[v]) for v in unroll(V)]
        for r in unroll(R):
            left = splat(element_address(a, row_step, r)[0], L)
            for v in unroll(V):
                total[r * V + v] = _multiply_add(left, right[v], total[r * V + v])
        a = element_address(a, inner_step, 1)
        b = element_address(b, b_step, 1)
    if more:
        for r in unroll(R):
            for v in unroll(V):
                total[r * V + v] += load(element_address(c, c_step, r) + v * L, L, mask=masks[v])
    for r in unroll(R):
        for v in unroll(V):
            store(element_address(c, c_step, r) + v * L, total[r * V + v], mask=masks[v])


@loop
def product(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64,
    inner: i64, columns: i64, more: i1, *, T, WIDE,
) -> void:  # fmt: skip
    """Compute one product, strip by strip, or add it to the result with ``more``; ``WIDE``: strips of 4 vectors."""
    L = lanes_of(T)
    column = 0
    if WIDE:
        while column + 4 * L <= columns:
            strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, 0, more,
                  T=T, V=4, HEIGHTS=QUADRUPLE)  # fmt: skip
            column += 4 * L
    while column < columns:
        left = columns - column
        if (left == 2 * L) | (left > 3 * L):
            strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, 0, more,
                  T=T, V=2, HEIGHTS=MIDDLE if WIDE else PAIR)  # fmt: skip
            column += 2 * L
        elif left > L:
            strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, left, more,
                  T=T, V=3, HEIGHTS=TRIPLE)  # fmt: skip
            column += 3 * L
        else:
            strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, left, more,
                  T=T, V=1, HEIGHTS=SINGLE)  # fmt: skip
            column += L


@loop(inline=False)
def strip(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64,
    inner: i64, columns: i64, more: i1, *, T, V, HEIGHTS,
) -> void:  # fmt: skip
    """Compute V vectors of columns of all rows."""
    row = 0
    for R in unroll(HEIGHTS):
        while row + R <= rows:
            tile(element_address(a, row_step, row), row_step, inner_step, b, b_step, element_address(c, c_step, row),
                 c_step, inner, columns, more, T=T, R=R, V=V)  # fmt: skip
            row += R


@loop
def offset_of(index: i64, a: pointer(i64), a_dims: i64, steps: pointer(i64), lengths: pointer(i64), dims: i64) -> i64:
    """Return the offset in bytes of one matrix of a batch: ``index`` counts the matrices of the result."""
    offset = 0
    for k in range(dims - 3, -1, -1):
        place = index % lengths[k]
        index = index // lengths[k]
        axis = k - (dims - a_dims)
        if axis >= 0:  # noqa: SIM102 -- `and` evaluates both sides
            if a[axis] != 1:  # an axis of length 1 is broadcast
                offset += place * steps[axis]
    return offset


@loop
def block(block_data: pointer(i8), start: i64, stop: i64, *, T) -> void:
    """Compute blocks of rows; ``block_data`` has the three arrays and the number of blocks of a matrix."""
    fields = cast(block_data, pointer(i64))
    a, b, c = cast(fields[0], array), cast(fields[1], array), cast(fields[2], array)
    blocks = fields[3]
    da, db, dc = ndim(a), ndim(b), ndim(c)
    lengths, sa, sb, sc = shape(c), strides(a), strides(b), strides(c)
    rows, columns, inner = lengths[dc - 2], lengths[dc - 1], shape(a)[da - 1]
    for task in range(start, stop):
        matrix = task // blocks
        first = task % blocks * BLOCK
        left = element_address(data(a, T), offset_of(matrix, shape(a), da, sa, lengths, dc), 1)
        right = element_address(data(b, T), offset_of(matrix, shape(b), db, sb, lengths, dc), 1)
        out = element_address(data(c, T), offset_of(matrix, lengths, dc, sc, lengths, dc), 1)
        product(element_address(left, sa[da - 2], first), sa[da - 2], sa[da - 1], right, sb[db - 2],
                element_address(out, sc[dc - 2], first), sc[dc - 2], minimum(rows - first, BLOCK), inner, columns,
                False, T=T, WIDE=True)  # fmt: skip


@loop(brief=True, cold=True)
def batched_product(pool: pointer(i8), a: array, b: array, c: array, *, T) -> void:
    """Write the products of a batch of matrices into ``c``, which has the broadcast shape and row-major matrices."""
    dims = ndim(c)
    lengths = shape(c)
    work = shape(a)[ndim(a) - 1] * lengths[dims - 1] * lengths[dims - 2]
    matrices = 1
    for k in range(dims - 2):
        matrices *= lengths[k]
    blocks = (lengths[dims - 2] + (BLOCK - 1)) // BLOCK
    fields = stack(i64, 4)
    fields[0], fields[1], fields[2], fields[3] = i64(a), i64(b), i64(c), blocks
    count = matrices * blocks
    chunk = count if work == 0 else minimum(count, CHUNK * blocks // work + 1)
    parallel(pool, function_pointer(block, T=T), cast(fields, pointer(i8)), count, chunk)


# ---- one large product


@loop
def claim(free: pointer(i64)) -> i64:
    """Take the number of a place from a set of bits."""
    place = -1
    while place < 0:
        before = atomic_load(free)
        if before != 0:
            bit = before & -before
            _, taken = compare_exchange(free, before, before ^ bit)
            if taken:
                place = cttz(bit)
        else:
            pause()
    return place


@loop
def pack(to: pointer(T), step: i64, b: pointer(i8), down: i64, along: i64, rows: i64, columns: i64, *, T) -> void:
    """Copy strips of 2 vectors of columns of B, each row by row; columns that B lacks become zeros."""
    L = lanes_of(T)
    W = min(L, 16)
    if along == T.size:
        for row in range(rows):
            source, target = cast(b + row * down, pointer(T)), to + row * (2 * L)
            column = 0
            while column + 2 * L <= columns:
                for v in unroll(2):
                    store(target + v * L, load(source + (column + v * L), L))
                column += 2 * L
                target += step
            if column < columns:
                for v in unroll(2):
                    mask = first_lanes(columns - column - v * L, L)
                    store(target + v * L, load(source + (column + v * L), L, mask=mask))
    else:
        for column in range(0, columns, 2 * L):
            row = 0
            if (down == T.size) & (columns - column >= 2 * L):
                while row + W <= rows:  # columns of B are contiguous: transpose tiles
                    for at in range(0, 2 * L, W):
                        transpose_tile(cast(to + (row * (2 * L) + at), pointer(i8)), 2 * L * T.size,
                                       b + (row * T.size + (column + at) * along), along, T, W)  # fmt: skip
                    row += W
            while row < rows:
                for at in range(2 * L):
                    x: T = 0
                    if column + at < columns:
                        x = cast(b + (row * down + (column + at) * along), pointer(T))[0]
                    to[row * (2 * L) + at] = x
                row += 1
            to += step


@loop
def panel_block(panel_data: pointer(i8), start: i64, stop: i64, *, T) -> void:
    """Compute blocks of rows of panels of a few strips; each packs its panel, which stays in the caches."""
    L = lanes_of(T)
    fields = cast(panel_data, pointer(i64))
    a, b, c = cast(fields[0], array), cast(fields[1], array), cast(fields[2], array)
    wide, tall, blocks, most_deep = fields[5], fields[6], fields[7], fields[8]
    rows, inner, columns = shape(a)[0], shape(a)[1], shape(c)[1]
    down, along = strides(b)[0], strides(b)[1]
    place = claim(fields + 4)
    packed = cast(fields[3], pointer(T)) + place * (DEEP * STRIPS * 2 * L)
    for task in range(start, stop):
        column, first = task // blocks * wide, task % blocks * tall
        last, width = minimum(first + tall, rows), minimum(columns - column, wide)
        k = 0
        while k < inner:
            deep = minimum(inner - k, most_deep)
            step = deep * (2 * L)
            pack(packed, step, cast(data(b, T), pointer(i8)) + (k * down + column * along), down, along, deep, width,
                 T=T)  # fmt: skip
            for row in range(first, last, SHORT):
                left = element_address(element_address(data(a, T), strides(a)[0], row), strides(a)[1], k)
                out = element_address(data(c, T), strides(c)[0], row) + column
                for at in range(0, width, 2 * L):
                    product(left, strides(a)[0], strides(a)[1], packed + at // (2 * L) * step, 2 * L * T.size,
                            out + at, strides(c)[0], minimum(last - row, SHORT), deep, minimum(width - at, 2 * L),
                            k > 0, T=T, WIDE=False)  # fmt: skip
            k += deep
    atomic_or(fields + 4, i64(1) << place)


@loop(brief=True)
def packed_product(pool: pointer(i8), a: array, b: array, c: array, packed: array, places: i64, *, T) -> void:
    """Write the product of two matrices of at least one row and column into ``c``.

    ``packed`` has room for one panel for each of the ``places``, of which there is one for each thread, and 64 bytes.
    """
    L = lanes_of(T)
    rows, columns, inner = shape(a)[0], shape(c)[1], shape(a)[1]
    all_strips = (columns + (2 * L - 1)) // (2 * L)
    strips = minimum(all_strips // (4 * places) + 1, STRIPS)  # about 4 tasks for each thread
    panels = (all_strips + strips - 1) // strips
    blocks = minimum(4 * places // panels + 1, (rows + (TALL - 1)) // TALL)
    slices = (inner + (DEEP - 1)) // DEEP
    fields = stack(i64, 9)
    fields[0], fields[1], fields[2], fields[3] = i64(a), i64(b), i64(c), (address(data(packed, T)) + 63) & -64
    fields[4] = (i64(1) << places) - 1
    fields[5] = strips * (2 * L)
    fields[6] = ((rows + blocks - 1) // blocks + 11) // 12 * 12
    fields[7] = blocks
    fields[8] = (inner + slices - 1) // slices
    parallel(pool, function_pointer(panel_block, T=T), cast(fields, pointer(i8)), panels * blocks, 1)
