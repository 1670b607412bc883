"""Long rows, sorted digit by digit from the least significant: a stable radix sort.

Each pass sorts by 8 bits of the keys in three steps. A first kernel counts the digits of every tile, a scan of these
counts along each row, digit by digit and tile by tile, gives the place where a tile's elements of one digit begin, and
a last kernel moves them there. Within a tile, each warp finds the lanes with the same digit by ballots, and counts in
shared memory how many came before, so that equal digits keep their order. The tile is put in order in shared memory
before it is written, so that threads write neighbouring elements. Source: Merrill and Grimshaw, High performance and
scalable radix sorting (2011); ranks by ballots as in Ashkiani et al., GPU multisplit (2016).
"""

from __future__ import annotations

import functools

from ...compiling.kernel_source import KernelSource
from .sort_keys import Keys

__all__ = ["DIGITS", "RADIX_THREADS", "TILE", "count_source", "move_source"]

DIGITS = 256
RADIX_THREADS = 256
ITEMS = 8
TILE = RADIX_THREADS * ITEMS
_WARPS = RADIX_THREADS // 32
_EACH = 32 * ITEMS  # elements of a warp

_COUNT = """
{head}
def radix_count(columns, tiles, shift, {given}, counts):
    found = cuda.shared.array({digits}, uint32)
    t = uint32(cuda.threadIdx.x)
    block = int64(cuda.blockIdx.x)
    row = block // int64(tiles)
    tile = block - row * int64(tiles)
    found[t] = uint32(0)
    cuda.syncthreads()
    at = wrap_add(uint32(tile * {tile}), t)
    n = 0
    while n < {items}:
        if at < columns:
            key = {key}
            digit = bit_and(uint32(shift_right(key, {kind}(shift))), uint32({digits} - 1))
            cuda.atomic.add(found, digit, uint32(1))
        at = wrap_add(at, uint32({threads}))
        n += 1
    cuda.syncthreads()
    counts[(row * {digits} + int64(t)) * int64(tiles) + tile] = found[t]
"""
_MOVE = """
{head}
def radix_move(columns, tiles, shift, {given}, counts, {results}):
    found = cuda.shared.array({digits} * {warps}, uint32)
    start = cuda.shared.array({digits}, uint32)
    warp_totals = cuda.shared.array({warps}, uint32)
    keys = cuda.shared.array({tile}, {kind})
    places = cuda.shared.array({tile}, uint32)
    t = uint32(cuda.threadIdx.x)
    lane = bit_and(t, uint32(31))
    warp = shift_right(t, uint32(5))
    below = wrap_subtract(shift_left(uint32(1), lane), uint32(1))
    block = int64(cuda.blockIdx.x)
    row = block // int64(tiles)
    tile = block - row * int64(tiles)
    first = row * int64(columns)
    begin = uint32(tile * {tile})
    n = 0
    while n < {warps}:
        found[n * {digits} + t] = uint32(0)
        n += 1
    cuda.syncthreads()
    mine = wrap_multiply(warp, uint32({digits}))
    at = wrap_add(begin, wrap_add(wrap_multiply(warp, uint32({each})), lane))
{ranks}
    cuda.syncthreads()
    total = uint32(0)
    n = 0
    while n < {warps}:
        some = found[n * {digits} + t]
        found[n * {digits} + t] = total
        total = wrap_add(total, some)
        n += 1
    scanned = total
    distance = uint32(1)
    while distance < uint32(32):
        other = uint32(cuda.shfl_up_sync(uint32(0xFFFFFFFF), int32(scanned), int32(distance)))
        if lane >= distance:
            scanned = wrap_add(scanned, other)
        distance = shift_left(distance, uint32(1))
    if lane == uint32(31):
        warp_totals[warp] = scanned
    cuda.syncthreads()
    n = 0
    while n < {warps}:
        if uint32(n) < warp:
            scanned = wrap_add(scanned, warp_totals[n])
        n += 1
    scanned = wrap_subtract(scanned, total)
    n = 0
    while n < {warps}:
        found[n * {digits} + t] = wrap_add(found[n * {digits} + t], scanned)
        n += 1
    flat = int64(t) * int64(tiles) + tile
    base = uint32(0)
    if flat > 0:
        base = counts[row * {digits} * int64(tiles) + flat - 1]
    start[t] = wrap_subtract(base, scanned)
    cuda.syncthreads()
{exchange}
    cuda.syncthreads()
    count = wrap_subtract(columns, begin)
    if count > uint32({tile}):
        count = uint32({tile})
    slot = t
    while slot < count:
        key = keys[slot]
        place = places[slot]
        digit = digit_of(key, shift)
        to = first + int64(wrap_add(start[digit], slot))
        {write}
        slot = wrap_add(slot, uint32({threads}))
"""
_FUNCTIONS = """
def digit_of(key, shift):
    return bit_and(uint32(shift_right(key, {kind}(shift))), uint32({digits} - 1))


def narrowed(peers, digit, bit):
    mine = bit_and(digit, bit) != uint32(0)
    votes = uint32(cuda.ballot_sync(uint32(0xFFFFFFFF), mine))
    return bit_and(peers, select(mine, votes, bit_invert(votes)))


def rank_of(found, mine, digit, below):
    peers = uint32(0xFFFFFFFF)
    {narrow}
    before = uint32(cuda.popc(bit_and(peers, below)))
    at = wrap_add(mine, digit)
    seen = found[at]
    cuda.syncwarp()
    if before == uint32(0):
        found[at] = wrap_add(seen, uint32(cuda.popc(peers)))
    cuda.syncwarp()
    return wrap_add(seen, before)
"""
_RANK = """\
    key{n} = {kind}({largest})
    place{n} = at
    if at < columns:
        key{n} = {key}
        {place}
    rank{n} = rank_of(found, mine, digit_of(key{n}, shift), below)
    at = wrap_add(at, uint32(32))
"""
_EXCHANGE = """\
    to{n} = wrap_add(rank{n}, found[wrap_add(mine, digit_of(key{n}, shift))])
    keys[to{n}] = key{n}
    places[to{n}] = place{n}"""
_LAST = """value = element_of(key)
        if is_ambiguous(key):
            value = x[row * x_0 + int64(place) * x_1]
        values[to] = value
        order[to] = int64(place)"""
_NEXT = """keys_out[to] = key
        places_out[to] = place"""


def _input(keys: Keys, first: bool) -> tuple[str, list[str], str]:
    """Return the parameters with which a pass reads keys, their types, and the source of a key."""
    if first:
        return "x, x_0, x_1", [f"{keys.kind}*", "int64", "int64"], "key_of(x[row * x_0 + int64(at) * x_1])"
    return "keys_in", [f"{keys.kind}*"], "keys_in[row * int64(columns) + int64(at)]"


@functools.cache
def count_source(keys: Keys, first: bool) -> KernelSource:
    """Return the kernel that counts the digits of each tile; the ``first`` pass reads the elements."""
    given, types, key = _input(keys, first)
    text = _COUNT.format(
        head=keys.head, given=given, key=key, kind=keys.kind, digits=DIGITS, tile=TILE, items=ITEMS,
        threads=RADIX_THREADS,
    )  # fmt: skip
    return KernelSource("radix_count", text, ("uint32", "uint32", "uint32", *types, "uint32*"), RADIX_THREADS)


@functools.cache
def move_source(keys: Keys, first: bool, last: bool) -> KernelSource:
    """Return the kernel that moves the elements of each tile; the ``last`` pass writes elements and their places.

    ``counts`` are the scanned counts of the digits, of shape (rows, digits, tiles).
    """
    given, types, key = _input(keys, first)
    if last and not first:
        given, types = f"{given}, x, x_0, x_1", [*types, f"{keys.kind}*", "int64", "int64"]
    if not first:
        given, types = f"{given}, places_in", [*types, "uint32*"]
    words = {
        "kind": keys.kind,
        "digits": DIGITS,
        "tile": TILE,
        "threads": RADIX_THREADS,
        "warps": _WARPS,
        "each": _EACH,
    }
    place = "" if first else "place{n} = places_in[first + int64(at)]"
    ranks = [_RANK.format(n=n, key=key, place=place.format(n=n), largest=(1 << keys.bits) - 1, **words)
             for n in range(ITEMS)]  # fmt: skip
    narrow = "\n    ".join([f"peers = narrowed(peers, digit, uint32({1 << bit}))" for bit in range(8)])
    functions = _FUNCTIONS.format(narrow=narrow, **words)
    text = _MOVE.format(
        head=f"{keys.head}\n{functions}", given=given, results="values, order" if last else "keys_out, places_out",
        ranks="".join(ranks).rstrip(), exchange="\n".join([_EXCHANGE.format(n=n) for n in range(ITEMS)]),
        write=_LAST if last else _NEXT, **words,
    )  # fmt: skip
    results = (f"{keys.kind}*", "int64*" if last else "uint32*")
    return KernelSource("radix_move", text, ("uint32", "uint32", "uint32", *types, "uint32*", *results), RADIX_THREADS)
