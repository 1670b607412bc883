"""Products of matrices: batches, large ones, and dtypes for which BLAS has no product.

Note [A tile of registers]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A tile of the result stays in registers while k runs over the inner axis. Vectors have 64 bytes. With AVX-512, a tile
of 8 rows and 3 vectors takes 24 of 32 registers: per step 3 loads of B, 8 broadcast loads of A and 24 multiply-adds.
Columns that do not fill 3 vectors are computed by tiles of 2 vectors or one. Where a vector takes several registers, a
tile is one vector wide: with AVX2, 6 rows take 12 of 16 registers, with SSE 3 rows. There, masked loads are slow, or,
for integers, a branch for each element, so that the last columns have a tile of their own. Rows that do not fill a tile
are computed by one of half the height: a row that is missing is the last one again. Each row of A has a pointer of its
own: where rows were one step apart, LLVM reached a row from the one before by an addition, a chain as long as the
multiply-adds.
A sum runs in the order of k, whatever the number of threads. Limit: two multiply-adds of 64 bytes per cycle and core,
120 float32 per ns where nothing but multiply-adds is executed. Measured in one thread on a busy machine, 96 rows and 48
columns: 95 to 98 for k = 256, 98 to 102 for k = 512. With AVX2 (Zen 3) a product of 512 x 512 matrices makes 43 per ns
and thread, OpenBLAS 47; with tiles of 8 rows and 3 vectors, whose sums did not fit the registers, it made 16.

Note [A large product]
~~~~~~~~~~~~~~~~~~~~~~
A task computes a block of rows of a panel of columns, by slices of at most ``DEEP`` steps of k: so much of A and B fits
a core's second-level cache. A task takes at least 5 us, and goes through a panel strip by strip. If A is small enough
to stay in this cache, a panel is one strip (Note [The next strip]), otherwise up to ``PANEL`` vectors wide, so that
A is read less often.
B is read where it is if it is small or meets few rows of A. Otherwise a thread copies a panel before its first task,
strip by strip (packing), with rows that follow each other; then there is a region for each slice. Rows that are a
multiple of 4 KB apart displace each other from the caches, in which case this pays from few rows on. Of a transposed A,
a task copies its block: for each k, the rows of a tile, which are adjacent in memory. Then it computes all columns.
Copies of B take 0.1 ns for each element, a product 0.01 for each multiply-add.

Note [The next strip]
~~~~~~~~~~~~~~~~~~~~~
In programs, parameters come from the third-level cache or from memory: a core waits for so many lines at a time that
a strip of B takes as long to come as two tiles to compute. The tiles of a strip therefore fetch the next one, a line
every ``UNROLLED`` steps of k; with 3 vectors, 12 tiles fetch all of it. That is the next one of the panel, the first
one of the next slice, or what this thread computes next: regions go there and back (Note [Regions]).
In a training step, ``x @ w`` of 128 x 784 x 512 takes 0.8 of the time.
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
    maximum,
    minimum,
    ndim,
    pause,
    pointer,
    prefetch,
    select,
    shape,
    splat,
    stack,
    store,
    strides,
    unroll,
    void,
    zeros,
)
from ...processor import fuses, has_feature, is_x86
from ..pool.region import parallel
from ..pool.state_block import TURNED
from .moves.runs import transpose_tile

__all__ = ["MOST_PLACES", "PLACE_BYTES", "all_widths", "matrix_product", "tile_size", "widths_of"]

UNROLLED = 4  # steps of k between two steps of the pointers and two lines that are fetched, for the tallest tiles
WIDE_TILE = (8, 3)  # most rows and vectors of a tile with AVX-512: Note [A tile of registers]
DEEP = 512  # most steps of k in one go: a strip of 3 vectors has 96 KB
PANEL = 16  # most vectors of columns of a panel: 512 KB of B, a part of a core's second-level cache
SHORT = {"": 128, "a": 64, "b": 96}  # most rows of A that meet a panel before the next rows, by what is copied
RESIDENT = 1 << 19  # bytes of A that stay in this cache, from strip to strip
MOST_PLACES = 62  # packed panels at a time: bits of an integer
PLACE_BYTES = 64 + PANEL * 64 * DEEP  # for a panel; a block of A needs less
AHEAD = 16  # rows of B that are fetched ahead
TASK = 1 << 19  # multiply-adds that are worth a task: 5 us at 100 multiply-adds per ns


def tile_size() -> tuple[int, int]:
    """Return the most rows and vectors of a tile on this processor."""
    if has_feature("avx512f"):
        return WIDE_TILE
    return (6, 1) if has_feature("avx") or not is_x86() else (3, 1)


def slots_of(tile: tuple[int, int]) -> int:
    """Return how many places there are for the rows of a tile in a copy of A: a power of 2, that one load fills."""
    return 1 << (tile[0] - 1).bit_length()


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    return fma(a, b, c) if a.type.is_float and fuses() else a * b + c


@loop(inline=False)
def tile(
    a: pointer(T), a_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64, inner: i64,
    columns: i64, more: i1, soon: pointer(T), soon_step: i64, *, T, TILE, R, V, FULL, COPY,
) -> void:  # fmt: skip
    """Compute up to R rows and V vectors of columns of a product, or add them with ``more``; steps are in bytes.

    In a copy of A, the elements of a column are adjacent: those of R rows for each k. Lines at ``soon`` are fetched.
    """
    L = lanes_of(T)
    SLOTS = slots_of(TILE)
    masks = (None,) * V if FULL else (None,) * (V - 1) + (first_lanes(columns - (V - 1) * L, L),)
    rows_of_tile = [minimum(rows - 1, r) for r in unroll(R)]  # a row that is missing is the last one again
    left = tuple([element_address(a, a_step, rows_of_tile[r]) for r in unroll(R)])
    out = tuple([element_address(c, c_step, rows_of_tile[r]) for r in unroll(R)])
    total = [zeros(T, L) for _ in unroll(R * V)]
    k = 0
    for U in unroll((UNROLLED, 1) if TILE[0] == R and (V > 1 or TILE[1] == 1) else (1,)):
        while k + U <= inner:
            for u in unroll(U):
                right = [load(b + v * L, L, mask=masks[v]) for v in unroll(V)]
                for r in unroll(R):
                    x = splat(a[(k + u) * SLOTS + r] if COPY == "a" else left[r][k + u], L)
                    for v in unroll(V):
                        total[r * V + v] = _multiply_add(x, right[v], total[r * V + v])
                b = element_address(b, b_step, 1)
            if U > 1 and COPY != "b":
                prefetch(soon)
                soon = element_address(soon, soon_step, 1)
            k += U
    if more:
        for r in unroll(R):
            for v in unroll(V):
                total[r * V + v] += load(out[r] + v * L, L, mask=masks[v])
    for r in unroll(R):
        for v in unroll(V):
            store(out[r] + v * L, total[r * V + v], mask=masks[v])


@loop(inline=False)
def strip(
    a: pointer(T), a_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64, inner: i64,
    columns: i64, more: i1, soon: pointer(T), done: i64, tiles: i64, *, T, TILE, V, FULL, COPY,
) -> void:  # fmt: skip
    """Compute up to V vectors of columns of all rows; exactly V where they are FULL.

    The first of the ``tiles`` fetch the strip at ``soon``: Note [The next strip]. Other blocks have ``done`` of them.
    """
    ROWS = TILE[0]
    L = lanes_of(T)
    apart = maximum(minimum(tiles // V, UNROLLED), 1)
    for row in range(0, rows, ROWS):
        left, out, height = element_address(a, a_step, row), element_address(c, c_step, row), rows - row
        number = done + row // ROWS
        ahead = element_address(soon + number % V * L, b_step, number // V)
        if COPY == "a":
            left = a + row // ROWS * (slots_of(TILE) * inner)
        if height > ROWS // 2:
            tile(left, a_step, b, b_step, out, c_step, height, inner, columns, more, ahead, b_step * apart, T=T,
                 TILE=TILE, R=ROWS, V=V, FULL=FULL, COPY=COPY)  # fmt: skip
        else:
            tile(left, a_step, b, b_step, out, c_step, height, inner, columns, more, ahead, b_step * apart, T=T,
                 TILE=TILE, R=ROWS // 2, V=V, FULL=FULL, COPY=COPY)  # fmt: skip


def all_widths(most: int) -> tuple[tuple[int, ...], ...]:
    """Return the combinations of widths of strips for tiles of at most so many vectors."""
    return ((1,), (2,), (3,), (3, 2, 1)) if most == 3 else ((1,),)


def widths_of(vectors: int, most: int) -> tuple[int, ...]:
    """Return the widths of the strips of a result that has so many vectors of columns."""
    if most == 1:
        return (1,)
    return (vectors,) if vectors <= 3 else (2,) if vectors == 4 else (3, 2, 1)


@loop
def width_of_strip(columns: i64, *, L, MOST) -> i64:
    """Return how many vectors of columns come next: 3, but 2 and 2 in place of 3 and 1."""
    if MOST == 1:
        return i64(1)
    vectors = (columns + (L - 1)) // L
    return minimum(2 if vectors == 4 else 3, vectors)


@loop
def product(
    a: pointer(T), a_step: i64, b: pointer(T), b_step: i64, c: pointer(T), c_step: i64, rows: i64, inner: i64,
    columns: i64, more: i1, soon: pointer(T), done: i64, tiles: i64, *, T, TILE, WIDTHS, COPY,
) -> void:  # fmt: skip
    """Compute one product, strip by strip, or add it with ``more``; A or the strips of B may be copies."""
    L = lanes_of(T)
    column = 0
    while column < columns:
        left = columns - column
        vectors = WIDTHS[0] if len(WIDTHS) == 1 else width_of_strip(left, L=L, MOST=TILE[1])
        right, step = b + column, b_step
        if COPY == "b":
            right, step = b + column * inner, vectors * (L * T.size)
        after = select(left > vectors * L, right + vectors * L, soon)
        for V in unroll(WIDTHS):
            if vectors == V:
                for FULL in unroll((False,) if TILE[1] > 1 else (False, True)):
                    if TILE[1] > 1 or (left >= V * L) == FULL:
                        strip(a, a_step, right, step, c + column, c_step, rows, inner, left, more, after, done, tiles,
                              T=T, TILE=TILE, V=V, FULL=FULL, COPY=COPY)  # fmt: skip
        column += vectors * L


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


@loop(inline=False)
def turned_tile(to: pointer(T), step: i64, source: pointer(i8), source_step: i64, *, T, W) -> void:
    """Write the columns of a tile as rows."""
    transpose_tile(cast(to, pointer(i8)), step, source, source_step, T, W)


@loop(inline=False)
def copy_elements(
    to: pointer(T), step: i64, b: pointer(i8), down: i64, along: i64, row: i64, rows: i64, columns: i64, n: i64, *, T
) -> void:
    """Copy n elements of each of some rows, of which ``columns`` exist; the others become zeros."""
    while row < rows:
        for k in range(n):
            x: T = 0
            if k < columns:
                x = cast(b + (row * down + k * along), pointer(T))[0]
            element_address(to, step, row)[k] = x
        row += 1


@loop
def pack(to: pointer(T), b: pointer(i8), down: i64, along: i64, rows: i64, columns: i64, *, T, MOST) -> void:
    """Copy strips of columns of B, each row by row; columns that B lacks become zeros."""
    L = lanes_of(T)
    W = min(L, 16)
    while columns > 0:
        vectors = width_of_strip(columns, L=L, MOST=MOST)
        wide = vectors * L
        row = 0
        if along == T.size:
            for V in unroll(range(MOST, 0, -1)):
                if vectors == V:
                    mask = first_lanes(columns - (V - 1) * L, L)
                    while row < rows:
                        source = cast(b + row * down, pointer(T))
                        for v in unroll(V):
                            prefetch(cast(b + (row + AHEAD) * down, pointer(T)) + v * L)
                        for v in unroll(V):
                            x = load(source + v * L, L, mask=mask if v == V - 1 else None)
                            store(to + (row * wide + v * L), x)
                        row += 1
        elif (down == T.size) & (rows >= W):
            while row < rows:  # columns of B are contiguous: transpose tiles; the last one overlaps the one before it
                top = minimum(row, rows - W)
                for at in range(0, wide, W):
                    if at + W <= columns:
                        turned_tile(to + (top * wide + at), wide * T.size, b + (top * T.size + at * along), along,
                                    T=T, W=W)  # fmt: skip
                    else:
                        copy_elements(
                            to + at, wide * T.size, b + at * along, down, along, top, top + W, columns - at, W, T=T
                        )
                row += W
        copy_elements(to, wide * T.size, b, down, along, row, rows, columns, wide, T=T)
        to += rows * wide
        b += wide * along
        columns -= wide


@loop(cold=True)
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
def turn(to: pointer(T), a: pointer(i8), along: i64, rows: i64, inner: i64, *, T, TILE) -> void:
    """Copy rows of A, whose columns are adjacent: for each tile, one column after the other."""
    SLOTS = slots_of(TILE)
    for k in range(inner):
        source = cast(a + k * along, pointer(T))
        ahead = cast(a + (k + AHEAD) * along, pointer(T))
        place = to + k * SLOTS
        row = 0
        while row + SLOTS <= rows:
            prefetch(ahead + row)
            store(place, load(source + row, SLOTS))
            place += inner * SLOTS
            row += TILE[0]
        while row < rows:
            last = rows - row - 1
            for r in unroll(TILE[0]):  # a row that is missing is the last one again
                place[r] = source[row + minimum(last, r)]
            place += inner * SLOTS
            row += TILE[0]


@loop
def block(block_data: pointer(i8), start: i64, stop: i64, *, T, TILE, WIDTHS, COPY) -> void:
    """Compute blocks of rows of panels of columns of matrices, for a range of k: Note [A large product]."""
    fields = cast(block_data, pointer(i64))
    a, b, c = cast(fields[0], array), cast(fields[1], array), cast(fields[2], array)
    free, buffer = fields + 3, fields[4]
    wide, panels, tall, blocks, first_k, end_k = fields[5], fields[6], fields[7], fields[8], fields[9], fields[10]
    deep, backwards = fields[11], cast(fields[12], pointer(i64))[TURNED] != 0
    da, db, dc = ndim(a), ndim(b), ndim(c)
    lengths, sa, sb, sc = shape(c), strides(a), strides(b), strides(c)
    rows, columns = lengths[dc - 2], lengths[dc - 1]
    down, along, a_down, a_along = sb[db - 2], sb[db - 1], sa[da - 2], sa[da - 1]
    place = 0
    if COPY:
        place = claim(free)
    tag = cast(buffer + place * PLACE_BYTES, pointer(i64))  # which panel is there
    copied = cast(tag + 8, pointer(T))
    for task in range(start, stop):
        panel, first = task // blocks, task % blocks * tall
        matrix, column = panel // panels, panel % panels * wide
        width, height = minimum(columns - column, wide), minimum(rows - first, tall)
        left = element_address(data(a, T), offset_of(matrix, shape(a), da, sa, lengths, dc), 1)
        left = element_address(left, a_down, first)
        right = element_address(data(b, T), offset_of(matrix, shape(b), db, sb, lengths, dc), 1)
        right = element_address(right, along, column)
        out = element_address(data(c, T), offset_of(matrix, lengths, dc, sc, lengths, dc), 1)
        out = element_address(out, sc[dc - 2], first) + column
        k = first_k + 0
        while k < end_k:
            n = minimum(end_k - k, deep)
            a_part, b_part = element_address(left, a_along, k), element_address(right, down, k)
            done, tiles = first // TILE[0], rows // TILE[0]
            soon = element_address(right, down, k + n)
            if k + n >= end_k:
                soon = right - wide if backwards else right + wide
            if COPY == "b":
                if tag[0] != panel:
                    pack(copied, cast(b_part, pointer(i8)), down, along, n, width, T=T, MOST=TILE[1])
                    tag[0] = panel
                b_part = copied
            if COPY == "a":
                turn(copied, cast(a_part, pointer(i8)), a_along, height, n, T=T, TILE=TILE)
                a_part, done, tiles = copied, 0, height // TILE[0]
            product(a_part, a_down, b_part, down, out, sc[dc - 2], height, n, width, k > 0, soon, done, tiles, T=T,
                    TILE=TILE, WIDTHS=WIDTHS, COPY=COPY)  # fmt: skip
            k += n
    if COPY:
        atomic_or(free, i64(1) << place)


@loop(brief=True, cold=True)
def matrix_product(
    pool: pointer(i8), a: array, b: array, c: array, buffer: array, places: i64, *, T, TILE, WIDTHS, COPY,
) -> void:  # fmt: skip
    """Write products of matrices into ``c``, which has the broadcast shape and row-major matrices.

    The elements of rows must be adjacent in A and in B. ``COPY`` says which of the two is copied, "a" or "b", or is
    empty: B may then have any steps, but of A the columns must be adjacent. For copies the buffer has ``PLACE_BYTES``
    for each of the ``places``, one for each thread, and 64 bytes.
    Compiled is only what is needed: ``WIDTHS`` has the widths of the strips (`widths_of`), ``TILE`` the size of a tile
    (`tile_size`).
    """
    L = lanes_of(T)
    dims = ndim(c)
    lengths = shape(c)
    rows, columns, inner = lengths[dims - 2], lengths[dims - 1], shape(a)[ndim(a) - 1]
    matrices = 1
    for i in range(dims - 2):
        matrices *= lengths[i]
    vectors = (columns + (L - 1)) // L
    slices = (inner + (DEEP - 1)) // DEEP
    deep = (inner + slices - 1) // slices
    work = rows * (vectors * L) * inner
    wanted = minimum(work // TASK, 8 * places)  # tasks for a matrix
    most = PANEL
    if COPY == "a":
        most = vectors
    elif rows * deep * T.size <= RESIDENT:  # strip by strip, so that the next one can be fetched
        most = WIDE_TILE[1] if wanted > 1 else minimum(vectors, PANEL)
    panels = (vectors + (most - 1)) // most
    wide = (vectors + panels - 1) // panels
    panels = (vectors + wide - 1) // wide
    blocks = (rows + (SHORT[COPY] - 1)) // SHORT[COPY]
    blocks = maximum(maximum(blocks, minimum(wanted // panels, rows // 8)), 1)
    tall = ((rows + blocks - 1) // blocks + (TILE[0] - 1)) // TILE[0] * TILE[0]
    blocks = (rows + tall - 1) // tall
    fields = stack(i64, 13)
    fields[0], fields[1], fields[2], fields[3] = i64(a), i64(b), i64(c), (i64(1) << places) - 1
    fields[4], fields[5], fields[6] = (address(data(buffer, i8)) + 63) & -64, wide * L, panels
    fields[7], fields[8], fields[11], fields[12] = tall, blocks, deep, address(pool)
    count = matrices * panels * blocks
    chunks = maximum(minimum(matrices * work // TASK, count), 1)
    chunk = (count + (chunks - 1)) // chunks
    k = 0
    while k < inner:
        end = minimum(k + deep, inner) if COPY == "b" else inner
        fields[9], fields[10] = k, end
        if COPY == "b":
            for place in range(places):
                cast(fields[4] + place * PLACE_BYTES, pointer(i64))[0] = -1
        task = function_pointer(block, T=T, TILE=TILE, WIDTHS=WIDTHS, COPY=COPY)
        parallel(pool, task, cast(fields, pointer(i8)), count, chunk)
        k = end
