"""Running the threads of blocks, and looking up addresses: compiled code that all kernels share.

Note [Order of threads]
~~~~~~~~~~~~~~~~~~~~~~~
A thread runs until it waits or ends. ``up`` runs the threads of a warp in the order of their numbers, then the next
warp, and so on up to the barrier that all reach; ``down`` begins with the last. ``random`` chooses another order of the
lanes each time, and lets a warp go on after each of its operations only when others had their turn. Blocks run one
after the other, in the same kind of order. A correct kernel gives the same result in every order, except for the
rounding of atomic sums; one that lacks a barrier usually does not. Guarded by
``tests/testing/ptx/test_warps_and_orders.py``.

The functions are written in the language of loops (``tenkey/backends/llvm/language.py``).
"""

from __future__ import annotations

from typing import Final

from ....backends.llvm import call, cast, fill_bytes, i1, i8, i32, i64, loop, pointer, u8, u64, void
from ..context_layout import BARRIER_WORDS, Context, Frame, Kind, Status

__all__ = ["look", "run"]

words: Final = pointer(i64)
bytes_: Final = pointer(u8)

_WRITE, _GENERIC, _DATA, _PARAMETER = 2, 4, 8, 16  # as in opcodes/memory_opcodes.py
_PATIENCE: Final = 1 << 10  # jumps backwards of a thread before others run, at first
_GROWTH: Final = 16  # turns after which it is twice as many
_JUMPS: Final = 1 << 27  # of all threads of a block while none goes on otherwise


@loop(inline=False)
def report(context: words, kind: i64, address: i64, size: i64, line: i64, thread: i64) -> i1:
    """Note an error; return False."""
    context[Context.ERROR_LINE] = line
    context[Context.ERROR_ADDRESS] = address
    context[Context.ERROR_SIZE] = size
    context[Context.ERROR_THREAD] = thread
    context[Context.ERROR_BLOCK] = context[Context.BLOCK]
    context[Context.ERROR] = kind
    return i1(False)


@loop(inline=False)
def find(rows: words, count: i64, address: i64) -> i64:
    """Return the last row that begins at or before an address, or -1."""
    low: i64 = 0
    high: i64 = count
    while low < high:
        middle = (low + high) >> 1
        if u64(rows[3 * middle]) <= u64(address):
            low = middle + 1
        else:
            high = middle
    return low - 1


@loop(inline=False)
def look(
    context: words, site: i64, address: i64, size: i64, flags: i64, line: i64, thread: i64, local: bytes_,
    local_size: i64,
) -> i1:  # fmt: skip
    """Return whether an access is allowed; note the range of addresses at its site, or an error."""
    at = u64(address)
    n = u64(size)
    if (address & (size - 1)) != 0:
        return report(context, Kind.MISALIGNED, address, size, line, thread)
    if (flags & _GENERIC) != 0:
        offset = at - u64(context[Context.SHARED])
        total = u64(context[Context.SHARED_SIZE])
        if (offset < total) & (context[Context.SHARED] != 0):
            if offset + n > total:
                return report(context, Kind.SHARED, i64(offset), size, line, thread)
            state = cast(context[Context.SHARED_STATE], bytes_) + i64(offset)
            if ((flags & 1) != 0) & (context[Context.LENIENT] == 0):
                for k in range(size):
                    if state[k] != 255:
                        return report(context, Kind.UNINITIALISED, i64(offset), size, line, thread)
            if (flags & _WRITE) != 0:
                fill_bytes(state, 255, size)
            return i1(True)
        within = at - u64(i64(local))
        if within < u64(local_size):
            if within + n > u64(local_size):
                return report(context, Kind.LOCAL, i64(within), size, line, thread)
            return i1(True)
    if (flags & (_GENERIC | _PARAMETER)) != 0:
        beyond = at - u64(context[Context.PARAMETERS])
        if beyond < u64(context[Context.PARAMETERS_SIZE]):
            if beyond + n > u64(context[Context.PARAMETERS_SIZE]):
                return report(context, Kind.PARAMETER, i64(beyond), size, line, thread)
            return i1(True)
        if (flags & _PARAMETER) != 0:
            return report(context, Kind.PARAMETER, address, size, line, thread)
    rows = cast(context[Context.TABLE], words)
    count: i64 = context[Context.TABLE_SIZE]
    if at - u64(context[Context.DATA]) < u64(context[Context.DATA_SIZE]):
        rows = cast(context[Context.DATA_ROWS], words)
        count = context[Context.DATA_ROW_COUNT]
    row = find(rows, count, address)
    if row < 0:
        return report(context, Kind.GLOBAL, address, size, line, thread)
    begin = u64(rows[3 * row])
    end = u64(rows[3 * row + 1])
    if (at + n > end) | (at + n < at):
        return report(context, Kind.GLOBAL, address, size, line, thread)
    if ((flags & _WRITE) != 0) & (rows[3 * row + 2] == 0):
        return report(context, Kind.READ_ONLY, address, size, line, thread)
    context[site] = i64(begin)
    context[site + 1] = i64(end - begin - n + u64(1))
    return i1(True)


# ---- order


@loop(inline=False)
def random(context: words) -> i64:
    """Return the next random number, of 32 bits."""
    state = u64(context[Context.STATE]) * u64(6364136223846793005) + u64(1442695040888963407)
    context[Context.STATE] = i64(state)
    return i64(state >> u64(33))


@loop
def rounded_up(n: i64) -> i64:
    """Return the next power of two."""
    p: i64 = 1
    while p < n:
        p = p + p
    return p


@loop(inline=True)
def mixed(context: words, n: i64, order: i64):  # type: ignore[no-untyped-def]
    """Return in how many turns ``n`` come, and how a random order mixes them."""
    turns: i64 = n
    factor: i64 = 1
    shift: i64 = 0
    if order == 2:
        turns = rounded_up(n)
        factor = random(context) | 1
        shift = random(context)
    return turns, factor, shift


@loop
def chosen(k: i64, n: i64, turns: i64, order: i64, factor: i64, shift: i64) -> i64:
    """Return which of ``n`` comes as the ``k``-th of ``turns``; ``n`` or more if none."""
    place: i64 = k
    if order == 1:
        place = n - 1 - k
    if order == 2:
        place = (k * factor + shift) & (turns - 1)
    return place


# ---- blocks


@loop(inline=False)
def begin_block(context: words, block: i64) -> void:
    """Set what a block has of its own: its index, fresh shared memory, threads at their begin."""
    context[Context.BLOCK] = block
    x = context[Context.NCTAID]
    y = context[Context.NCTAID + 1]
    context[Context.CTAID] = block % x
    rest = block // x
    context[Context.CTAID + 1] = rest % y
    context[Context.CTAID + 2] = rest // y
    context[Context.EPOCH] = context[Context.EPOCH] + 1
    size = context[Context.SHARED_SIZE]
    if size > 0:
        fill_bytes(cast(context[Context.SHARED], bytes_), 255, size)
        if context[Context.LENIENT] == 0:
            fill_bytes(cast(context[Context.SHARED_STATE], bytes_), 0, size)


@loop
def run_thread(context: words, thread: pointer(i8), frame: words, t: i64) -> i32:
    """Run a thread until it waits or ends; other than 0 for an error."""
    x = context[Context.NTID]
    y = context[Context.NTID + 1]
    tx: i64 = t
    ty: i64 = 0
    tz: i64 = 0
    if t >= x:
        tx = t % x
        rest = t // x
        ty = rest % y
        tz = rest // y
    local = frame + context[Context.LOCAL_AT]
    return call(thread, context, frame, local, i32(t), i32(tx), i32(ty), i32(tz), returns=i32)


@loop
def run(context: words, thread: pointer(i8), waits: i64) -> i64:
    """Run all blocks of a launch; return other than 0 for an error."""
    blocks = context[Context.BLOCKS]
    order = context[Context.ORDER]
    turns, factor, shift = mixed(context, blocks, order)
    for k in range(turns):
        block = chosen(k, blocks, turns, order, factor, shift)
        if block < blocks:
            begin_block(context, block)
            if waits != 0:
                if run_block(context, thread) != 0:
                    return 1
            elif run_plainly(context, thread) != 0:
                return 1
    return 0


@loop
def run_plainly(context: words, thread: pointer(i8)) -> i64:
    """Run the threads of a block one after the other."""
    n = context[Context.THREADS]
    order = context[Context.ORDER]
    frame = cast(context[Context.FRAMES], words)
    turns, factor, shift = mixed(context, n, order)
    for k in range(turns):
        t = chosen(k, n, turns, order, factor, shift)
        if t < n:
            frame[Frame.COPIED] = 0
            frame[Frame.GROUPS] = 0
            if run_thread(context, thread, frame, t) != 0:
                return 1
    return 0


@loop
def frame_of(context: words, t: i64) -> words:
    """Return the frame of a thread."""
    return cast(context[Context.FRAMES], words) + t * context[Context.FRAME_WORDS]


@loop(inline=False)
def run_block(context: words, thread: pointer(i8)) -> i64:
    """Run the threads of a block in turn until all have ended."""
    n = context[Context.THREADS]
    warps = (n + 31) >> 5
    order = context[Context.ORDER]
    for t in range(warps << 5):
        frame = frame_of(context, t)
        frame[Frame.PC] = 0
        frame[Frame.STATUS] = Status.RUNS if t < n else Status.ENDED
        frame[Frame.EPOCH] = context[Context.EPOCH]
        frame[Frame.WARP_EPOCH] = 0
        frame[Frame.COPIED] = 0
        frame[Frame.GROUPS] = 0
    context[Context.WARP_EPOCH] = 0
    for k in range(16 * BARRIER_WORDS):
        context[Context.BARRIERS + k] = 0
    waited: i64 = 0
    jumps: i64 = 0
    context[Context.FUEL] = _PATIENCE
    while jumps < _JUMPS:
        turns, factor, shift = mixed(context, warps, order)
        steps: i64 = 0
        for k in range(turns):
            warp = chosen(k, warps, turns, order, factor, shift)
            if warp < warps:
                made = run_warp(context, thread, warp)
                if made < 0:
                    return 1
                steps += made
        if steps == 0:
            released = release_barriers(context)
            if released < 0:
                return 1
            if released != 0:
                jumps = 0
                context[Context.FUEL] = _PATIENCE
            if released == 0:
                state = after_all_wait(context)
                if state == 0:
                    return 0
                if state < 0:
                    return 1
                waited += 1
                jumps += state * context[Context.FUEL]
                if waited % _GROWTH == 0:
                    context[Context.FUEL] = 2 * context[Context.FUEL]
    frame = frame_of(context, context[Context.ERROR_THREAD])
    report(context, Kind.ENDLESS, 0, 0, frame[Frame.LINE], context[Context.ERROR_THREAD])
    return 1


@loop(inline=False)
def run_warp(context: words, thread: pointer(i8), warp: i64) -> i64:
    """Run the lanes of a warp until none can go on, or for one step; return the number of steps, -1 for an error."""
    n = context[Context.THREADS]
    order = context[Context.ORDER]
    steps: i64 = 0
    again: i64 = 1
    while again != 0:
        again = 0
        turns, factor, shift = mixed(context, 32, order)
        for k in range(32):
            t = (warp << 5) + chosen(k, 32, turns, order, factor, shift)
            if t < n:
                frame = frame_of(context, t)
                if frame[Frame.STATUS] == Status.RUNS:
                    if run_thread(context, thread, frame, t) != 0:
                        return -1
                    again = 1
                    steps += 1
        released = release_lanes(context, warp)
        if (released == 0) & (again == 0):
            released = release_converged(context, warp)
        if released != 0:
            again = 1
            steps += 1
        if context[Context.STEPPING] != 0:
            again = 0
    return steps


@loop(inline=False)
def release_lanes(context: words, warp: i64) -> i64:
    """Let lanes go on of which all that an operation names have arrived; return how many operations were done."""
    n = context[Context.THREADS]
    existing: i64 = (1 << 32) - 1
    if n - (warp << 5) < 32:
        existing = (1 << (n - (warp << 5))) - 1
    seen: i64 = 0
    count: i64 = 0
    for k in range(32):
        if ((existing >> k) & 1 & ~(seen >> k)) != 0:
            first = frame_of(context, (warp << 5) + k)
            if first[Frame.STATUS] == Status.WARP:
                mask = first[Frame.WORD] & existing
                whole: i64 = 1
                ballot: i64 = 0
                for m in range(32):
                    if ((mask >> m) & 1) != 0:
                        other = frame_of(context, (warp << 5) + m)
                        if (
                            (other[Frame.STATUS] != Status.WARP)
                            | (other[Frame.WORD] != first[Frame.WORD])
                            | (other[Frame.PC] != first[Frame.PC])
                        ):
                            whole = 0
                            break
                        if other[Frame.DEPOSIT] != 0:
                            ballot = ballot | (1 << m)
                if whole != 0:
                    context[Context.WARP_EPOCH] = context[Context.WARP_EPOCH] + 1
                    for m in range(32):
                        if ((mask >> m) & 1) != 0:
                            publish(context, (warp << 5) + m, ballot)
                    seen = seen | mask
                    count += 1
    return count


@loop(inline=False)
def publish(context: words, t: i64, result: i64) -> void:
    """Let a lane go on, and others see what it gave."""
    frame = frame_of(context, t)
    for k in range(frame[Frame.COUNT]):
        frame[Frame.PUBLISHED + k] = frame[Frame.DEPOSIT + k]
    frame[Frame.RESULT] = result
    frame[Frame.STATUS] = Status.RUNS
    frame[Frame.WARP_EPOCH] = context[Context.WARP_EPOCH]


@loop(inline=False)
def release_converged(context: words, warp: i64) -> i64:
    """Let lanes go on that ask which of them are together."""
    n = context[Context.THREADS]
    place: i64 = -1
    mask: i64 = 0
    for k in range(32):
        t = (warp << 5) + k
        if t < n:
            frame = frame_of(context, t)
            if frame[Frame.STATUS] == Status.CONVERGE:
                if place < 0:
                    place = frame[Frame.PC]
                if frame[Frame.PC] == place:
                    mask = mask | (1 << k)
    for k in range(32):
        if ((mask >> k) & 1) != 0:
            publish(context, (warp << 5) + k, mask)
    return mask


@loop(inline=False)
def release_barriers(context: words) -> i64:
    """Let threads go on from barriers that are complete; return how many are, -1 for an error."""
    n = context[Context.THREADS]
    for b in range(16):
        context[Context.BARRIERS + b * BARRIER_WORDS] = 0
    for t in range(n):
        frame = frame_of(context, t)
        if frame[Frame.STATUS] == Status.BARRIER:
            at = Context.BARRIERS + frame[Frame.WORD] * BARRIER_WORDS
            if context[at] == 0:
                context[at + 3] = frame[Frame.PC]
            elif (context[at + 3] != frame[Frame.PC]) & (frame[Frame.COUNT] == 0):
                report(context, Kind.DIVERGENT, 0, 0, frame[Frame.LINE], t)
                return -1
            context[at] = context[at] + 1
            context[at + 2] = n if frame[Frame.COUNT] == 0 else frame[Frame.COUNT]
    count: i64 = 0
    for b in range(16):
        at = Context.BARRIERS + b * BARRIER_WORDS
        if context[at] != 0:
            if context[at] + context[at + 1] == context[at + 2]:
                count += 1
                context[at + 1] = 0
                context[Context.EPOCH] = context[Context.EPOCH] + 1
                release_one(context, b, context[at + 2])
    return count


@loop(inline=False)
def release_one(context: words, barrier: i64, participants: i64) -> void:
    """Let the threads of one barrier go on; give them the number of their predicates that hold."""
    n = context[Context.THREADS]
    holds: i64 = 0
    for t in range(n):
        frame = frame_of(context, t)
        if (frame[Frame.STATUS] == Status.BARRIER) & (frame[Frame.WORD] == barrier):
            if frame[Frame.DEPOSIT] != 0:
                holds += 1
    for t in range(n):
        frame = frame_of(context, t)
        if (frame[Frame.STATUS] == Status.BARRIER) & (frame[Frame.WORD] == barrier):
            frame[Frame.STATUS] = Status.RUNS
            frame[Frame.RESULT] = holds
            frame[Frame.PUBLISHED] = participants
            frame[Frame.EPOCH] = context[Context.EPOCH]


@loop(inline=False)
def after_all_wait(context: words) -> i64:
    """Return 0 if all threads have ended, how many that let others run go on now, or -1 if none ever will."""
    n = context[Context.THREADS]
    left: i64 = 0
    went_on: i64 = 0
    for t in range(n):
        frame = frame_of(context, t)
        if frame[Frame.STATUS] != Status.ENDED:
            left += 1
            if frame[Frame.STATUS] == Status.YIELD:
                frame[Frame.STATUS] = Status.RUNS
                context[Context.ERROR_THREAD] = t
                went_on += 1
    if left == 0:
        return 0
    if went_on != 0:
        return went_on
    report(context, Kind.DIVERGENT, 0, 0, 0, -1)
    return -1
