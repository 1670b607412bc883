"""Products of matrices: batches of small ones, and dtypes for which BLAS has no product.

Note [A tile of registers]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A tile of 6 rows and 4 vectors of the result stays in 24 of the 32 vector registers while k runs over the inner axis:
per step 4 loads of B, 6 broadcast loads of A and 24 multiply-adds. Nothing is packed: B is read row by row, so its rows
must be contiguous and the matrix must fit the cache of a core; A may have any strides. Columns that remain are computed
by tiles of 2 vectors and 8 rows, and of one masked vector and 16 rows. A sum runs in the order of k,
whatever the number of threads. Limit: two multiply-adds of 64 bytes per cycle and core.
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

WIDE = (6, 4, 1)  # rows of the tiles that are 4 vectors wide
MIDDLE = (8, 4, 1)  # rows of those that are 2 vectors wide
NARROW = (16, 4, 1)  # rows of those that are one masked vector wide, for the columns that remain
BLOCK = 48  # rows of one task: with a row of 64 columns and k = 64, 6 us of work
TALL = 96  # least number of rows beside one packed panel
DEEP = 512  # rows of B in a packed panel: 128 KB, a part of a core's second-level cache
CHUNK = 1 << 18  # multiply-adds of a chunk: 3 us at 80 multiply-adds per ns


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    return fma(a, b, c) if a.type.is_float else a * b + c


@loop(inline=False)
def tile(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, inner: i64,
    columns: i64, more: i1, *, T, R, V,
) -> void:  # fmt: skip
    """Compute R rows and V vectors of columns of a product, or add them with ``more``; steps are in bytes."""
    L = lanes_of(T)
    mask = first_lanes(columns, L) if V == 1 else None
    total = [zeros(T, L) for _ in unroll(R * V)]
    if more:
        for r in unroll(R):
            for v in unroll(V):
                total[r * V + v] = load(element_address(c, c_step, r) + v * L, L, mask=mask)
    for _k in range(inner):
        right = [load(b + v * L, L, mask=mask) for v in unroll(V)]
        for r in unroll(R):
            left = splat(element_address(a, row_step, r)[0], L)
            for v in unroll(V):
                total[r * V + v] = _multiply_add(left, right[v], total[r * V + v])
        a = element_address(a, inner_step, 1)
        b = element_address(b, b_step, 1)
    for r in unroll(R):
        for v in unroll(V):
            store(element_address(c, c_step, r) + v * L, total[r * V + v], mask=mask)


@loop
def product(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64,
    inner: i64, columns: i64, more: i1, *, T,
) -> void:  # fmt: skip
    """Compute one product, tile by tile, or add it to the result with ``more``."""
    L = lanes_of(T)
    column = 0
    while column + 4 * L <= columns:
        strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, 0, more,
              T=T, V=4, HEIGHTS=WIDE)  # fmt: skip
        column += 4 * L
    if column + 2 * L <= columns:
        strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, 0, more,
              T=T, V=2, HEIGHTS=MIDDLE)  # fmt: skip
        column += 2 * L
    while column < columns:
        strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, columns - column,
              more, T=T, V=1, HEIGHTS=NARROW)  # fmt: skip
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
                False, T=T)  # fmt: skip


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
def pack(to: pointer(T), b: pointer(i8), down: i64, along: i64, rows: i64, columns: i64, *, T) -> void:
    """Copy rows of 4 vectors of B one behind the other; columns that B lacks become zeros."""
    L = lanes_of(T)
    W = min(L, 16)
    row = 0
    if down == T.size and along != T.size and columns >= 4 * L:
        while row + W <= rows:  # columns of B are contiguous: transpose tiles
            for column in range(0, 4 * L, W):
                transpose_tile(cast(to + (row * (4 * L) + column), pointer(i8)), 4 * L * T.size,
                               b + (row * T.size + column * along), along, T, W)  # fmt: skip
            row += W
    while row < rows:
        source, target = b + row * down, to + row * (4 * L)
        if along == T.size:
            for v in unroll(4):
                mask = first_lanes(columns - v * L, L)
                store(target + v * L, load(cast(source, pointer(T)) + v * L, L, mask=mask))
        else:
            for column in range(4 * L):
                x: T = 0
                if column < columns:
                    x = cast(source + column * along, pointer(T))[0]
                target[column] = x
        row += 1


@loop
def panel_block(panel_data: pointer(i8), start: i64, stop: i64, *, T) -> void:
    """Compute blocks of rows of panels of 4 vectors of columns; each packs its panel, which stays in the cache."""
    L = lanes_of(T)
    fields = cast(panel_data, pointer(i64))
    a, b, c = cast(fields[0], array), cast(fields[1], array), cast(fields[2], array)
    tall, blocks = fields[5], fields[6]
    rows, inner, columns = shape(a)[0], shape(a)[1], shape(c)[1]
    down, along = strides(b)[0], strides(b)[1]
    place = claim(fields + 4)
    packed = cast(fields[3], pointer(T)) + place * (DEEP * 4 * L)
    for task in range(start, stop):
        panel, first = task // blocks, task % blocks * tall
        left = element_address(data(a, T), strides(a)[0], first)
        out = element_address(data(c, T), strides(c)[0], first) + panel * (4 * L)
        wide = minimum(columns - panel * (4 * L), 4 * L)
        for k in range(0, inner, DEEP):
            deep = minimum(inner - k, DEEP)
            pack(
                packed,
                cast(data(b, T), pointer(i8)) + (k * down + panel * (4 * L) * along),
                down,
                along,
                deep,
                wide,
                T=T,
            )
            product(element_address(left, strides(a)[1], k), strides(a)[0], strides(a)[1], packed, 4 * L * T.size, out,
                    strides(c)[0], minimum(rows - first, tall), deep, wide, k > 0, T=T)  # fmt: skip
    atomic_or(fields + 4, i64(1) << place)


@loop(brief=True)
def packed_product(pool: pointer(i8), a: array, b: array, c: array, packed: array, places: i64, *, T) -> void:
    """Write the product of two matrices of at least one column into ``c``.

    ``packed`` has room for one panel for each of the ``places``, of which there is one for each thread.
    """
    L = lanes_of(T)
    rows, columns = shape(a)[0], shape(c)[1]
    panels = (columns + (4 * L - 1)) // (4 * L)
    blocks = minimum(8 // panels + 1, (rows + (TALL - 1)) // TALL)
    tall = ((rows + blocks - 1) // blocks + 11) // 12 * 12
    fields = stack(i64, 7)
    fields[0], fields[1], fields[2], fields[3] = i64(a), i64(b), i64(c), address(data(packed, T))
    fields[4] = (i64(1) << places) - 1
    fields[5], fields[6] = tall, blocks
    parallel(pool, function_pointer(panel_block, T=T), cast(fields, pointer(i8)), panels * blocks, 1)
