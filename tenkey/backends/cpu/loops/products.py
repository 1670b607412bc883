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
    cast,
    data,
    element_address,
    first_lanes,
    fma,
    function_pointer,
    i8,
    i64,
    lanes_of,
    load,
    loop,
    minimum,
    ndim,
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

__all__ = ["batched_product", "packed_product"]

WIDE = (6, 4, 1)  # rows of the tiles that are 4 vectors wide
MIDDLE = (8, 4, 1)  # rows of those that are 2 vectors wide
NARROW = (16, 4, 1)  # rows of those that are one masked vector wide, for the columns that remain
BLOCK = 48  # rows of one task: with a row of 64 columns and k = 64, 6 us of work
TALL = 96  # rows of one task of a large product
CHUNK = 1 << 18  # multiply-adds of a chunk: 3 us at 80 multiply-adds per ns


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    return fma(a, b, c) if a.type.is_float else a * b + c


@loop(inline=False)
def tile(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, inner: i64,
    columns: i64, *, T, R, V,
) -> void:  # fmt: skip
    """Compute R rows and V vectors of columns of a product; steps are in bytes."""
    L = lanes_of(T)
    mask = first_lanes(columns, L) if V == 1 else None
    total = [zeros(T, L) for _ in unroll(R * V)]
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
    inner: i64, columns: i64, *, T,
) -> void:  # fmt: skip
    """Compute one product, tile by tile."""
    L = lanes_of(T)
    column = 0
    while column + 4 * L <= columns:
        strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, 0,
              T=T, V=4, HEIGHTS=WIDE)  # fmt: skip
        column += 4 * L
    if column + 2 * L <= columns:
        strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, 0,
              T=T, V=2, HEIGHTS=MIDDLE)  # fmt: skip
        column += 2 * L
    while column < columns:
        strip(a, row_step, inner_step, b + column, b_step, c + column, c_step, rows, inner, columns - column,
              T=T, V=1, HEIGHTS=NARROW)  # fmt: skip
        column += L


@loop(inline=False)
def strip(
    a: pointer(T), row_step: i64, inner_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64,
    inner: i64, columns: i64, *, T, V, HEIGHTS,
) -> void:  # fmt: skip
    """Compute V vectors of columns of all rows."""
    row = 0
    for R in unroll(HEIGHTS):
        while row + R <= rows:
            tile(element_address(a, row_step, row), row_step, inner_step, b, b_step, element_address(c, c_step, row),
                 c_step, inner, columns, T=T, R=R, V=V)  # fmt: skip
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
                T=T)  # fmt: skip


@loop
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
def pack(panel_data: pointer(i8), start: i64, stop: i64, *, T) -> void:
    """Copy panels of 4 vectors of columns of B one behind the other, each row by row; columns that lack are zeros."""
    L = lanes_of(T)
    fields = cast(panel_data, pointer(i64))
    b = cast(fields[1], array)
    packed = cast(fields[3], pointer(T))
    inner, columns = shape(b)[0], shape(b)[1]
    down, along = strides(b)[0], strides(b)[1]
    for panel in range(start, stop):
        to = packed + panel * inner * (4 * L)
        first = element_address(data(b, T), along, panel * (4 * L))
        rest = columns - panel * (4 * L)
        if along == T.size:
            for k in range(inner):
                row = element_address(first, down, k)
                for v in unroll(4):
                    store(to + k * (4 * L) + v * L, load(row + v * L, L, mask=first_lanes(rest - v * L, L)))
        else:
            for base in range(0, inner, 64):  # 64 rows of a panel stay in the first-level cache
                last = minimum(base + 64, inner)
                for j in range(4 * L):
                    column = element_address(first, along, j)
                    if j < rest:
                        for k in range(base, last):
                            to[k * (4 * L) + j] = element_address(column, down, k)[0]
                    else:
                        for k in range(base, last):
                            to[k * (4 * L) + j] = T(0)


@loop
def panel_block(panel_data: pointer(i8), start: i64, stop: i64, *, T) -> void:
    """Compute blocks of rows beside one panel each."""
    L = lanes_of(T)
    fields = cast(panel_data, pointer(i64))
    a, c = cast(fields[0], array), cast(fields[2], array)
    packed = cast(fields[3], pointer(T))
    rows, inner, columns = shape(a)[0], shape(a)[1], shape(c)[1]
    blocks = (rows + (TALL - 1)) // TALL
    for task in range(start, stop):
        panel, first = task // blocks, task % blocks * TALL
        left = element_address(data(a, T), strides(a)[0], first)
        out = element_address(data(c, T), strides(c)[0], first) + panel * (4 * L)
        product(left, strides(a)[0], strides(a)[1], packed + panel * inner * (4 * L), 256, out, strides(c)[0],
                minimum(rows - first, TALL), inner, minimum(columns - panel * (4 * L), 4 * L), T=T)  # fmt: skip


@loop
def packed_product(pool: pointer(i8), a: array, b: array, c: array, packed: array, *, T) -> void:
    """Write the product of two matrices into ``c``; ``packed`` has room for B, its columns in whole panels."""
    columns = 4 * lanes_of(T)
    fields = stack(i64, 4)
    fields[0], fields[1], fields[2], fields[3] = i64(a), i64(b), i64(c), address(data(packed, T))
    panels = (shape(c)[1] + (columns - 1)) // columns
    blocks = (shape(a)[0] + (TALL - 1)) // TALL
    parallel(pool, function_pointer(pack, T=T), cast(fields, pointer(i8)), panels, 1)
    parallel(pool, function_pointer(panel_block, T=T), cast(fields, pointer(i8)), panels * blocks, 1)
