"""Parallel regions: one task on several threads, in compiled code.

Note [Regions]
~~~~~~~~~~~~~~
``parallel(pool, task, data, n, chunk)`` calls ``task(data, start, stop)`` once for every chunk of ``range(n)``, where
``start`` is a multiple of ``chunk``, and ``stop`` is ``start + chunk`` or ``n``. The calls come in any order and from
any thread, and all have returned when ``parallel`` returns. A chunk should be at least 3 us of work.

- *Shares.* Each thread owns a contiguous share of the chunks, claims them one by one, and then steals from the other
  shares. The same core thus meets the same memory from call to call. With one counter for all threads, neighbouring
  chunks change cores: ``add`` over 2^20 float32 elements then takes 85 us in place of 71.
- *Stealing waits.* What a thread writes in the place of another has to come from that one's caches and goes back there
  in the next call. A thread without work therefore looks on for ``COURTESY`` pauses while the owner of a share may be
  at it, and steals only then. In us with and without waiting: ``-x`` of 2^18 float32 elements 25 and 41, a sum of a
  column and a row with as many 24 and 34.
- *There and back.* Every second region takes the chunks of each share from the last to the first. It thus begins with
  what the region before it left in the caches; in one direction, the end of the operands would always have displaced
  their beginning. Calls on 2^20 float32 elements, in us: copies 134 -> 107, ``add`` 190 -> 159, ``sum`` 43 -> 35.
- *Nothing waits for a thread that has not begun.* A worker joins by compare-and-swap on the ticket while the region is
  open. The caller works too; when no chunk is left, it closes the region, and waits only for workers that are inside.
  A worker to which a busy machine gives no core costs nothing. The caller keeps its core for a while, then sleeps: if
  it yielded, other processes would have it for milliseconds.
- *Waking.* A worker looks out for the next region for 200 us, then sleeps on a word of its own. Whoever claims a chunk
  first wakes one more sleeper, so that the number of threads doubles from chunk to chunk. A worker pinned to the
  caller's core is neither woken nor admitted. Sleepers are left asleep if the call is brief, by the time that a chunk
  of this task took before, and no other region ran in the last 200 us: they would come too late.
- *One region at a time.* A call that finds the pool taken runs its chunks itself: concurrent callers already use the
  cores. This also serves regions inside tasks.

Sleepers store 1 in their word and then look at the ticket once more; callers store the ticket and then look at the
words. All four are sequentially consistent, so that one of the two sees the other, and no wake-up is lost.

Measured on 2 cores: the second thread begins 1 us after the call while it looks out, and after 5 to 30 us if it sleeps;
waking it costs the caller up to 6 us (``python -m benchmarks.pool``). Guarded by ``tests/backends/test_pool.py``.
"""

from __future__ import annotations

from typing import Any

from ...llvm.instructions import (
    address,
    atomic_add,
    atomic_and,
    atomic_load,
    atomic_or,
    atomic_store,
    call,
    cast,
    compare_exchange,
    exchange,
    maximum,
    minimum,
    pause,
    stack,
)
from ...llvm.language import loop
from ...llvm.value_types import i8, i32, i64, pointer, void
from . import state_block as at

__all__ = ["parallel", "run", "serve"]

OPEN = 1 << 16  # bit of the ticket: workers may join
WAITED = 1 << 17  # bit of the ticket: the caller sleeps until no worker is inside
INSIDE = OPEN - 1  # bits of the ticket: the number of workers inside
NEVER = 1 << 40  # the number of no region
LOOKS = 16  # between two looks at the clock
PATIENCE = 5000  # pauses, 0.1 to 0.2 ms, for which the caller keeps its core while workers complete their last chunks
COURTESY = 300  # pauses, 6 to 12 us, for which a thread leaves the chunks of another to it
BLOCK = 0  # of pthread_sigmask
WAIT, WAKE = 128, 129  # operations of futex, on memory of this process alone


@loop(inline=True)
def parallel(pool: pointer(i8), task: pointer(i8), data: pointer(i8), n: i64, chunk: i64) -> void:
    """Call ``task(data, start, stop)`` for every chunk of ``range(n)``: Note [Regions]."""
    if n <= chunk:
        if n > 0:
            call(task, data, 0, n)
    else:
        _divide(pool, task, data, n, chunk)


@loop(cold=True)
def _divide(pool: pointer(i8), task: pointer(i8), data: pointer(i8), n: i64, chunk: i64) -> void:
    """Leave a call of several chunks to the pool: Note [Workers are started when they are worth it]."""
    words = cast(pool, pointer(i64))
    if atomic_load(words + at.RUN) == 0:
        awaited = words[at.AWAITED] - ((n - 1) // chunk + 1)
        words[at.AWAITED] = maximum(awaited, 0)  # a count that is lost between threads does no harm
        if (words[at.LOAD] != 0) & (awaited <= 0):
            complete = stack(i64)  # Note [An interrupt in a callback]
            complete[0] = 0
            call(_function(words[at.LOAD]), complete)
            if complete[0] == 0:
                call(_function(words[at.INTERRUPT]))
    run = atomic_load(words + at.RUN)
    if run == 0:
        _serially(task, data, n, chunk, 0)
    else:
        call(_function(run), pool, task, data, n, chunk)


def _function(number: Any) -> Any:
    return cast(number, pointer(i8))


@loop(cold=True)
def _serially(task: pointer(i8), data: pointer(i8), n: i64, chunk: i64, turned: i64) -> void:
    last = ((n - 1) // chunk) * chunk
    start = 0
    while start <= last:
        first = last - start if turned != 0 else start
        call(task, data, first, minimum(first + chunk, n))
        start += chunk


@loop(brief=True, cold=True)
def run(pool: pointer(i8), task: pointer(i8), data: pointer(i8), n: i64, chunk: i64, *, NATIVE) -> void:
    """Run a region of at least two chunks: the function whose address is ``RUN``."""
    words = cast(pool, pointer(i64))
    turned = atomic_add(words + at.TURNS, 1, "monotonic") & 1
    if words[at.HELPERS] < 1:
        _serially(task, data, n, chunk, turned)
        return
    _, taken = compare_exchange(words + at.REGION, 0, 1)
    if not taken:
        _serially(task, data, n, chunk, turned)
        return
    team = words[at.WORKERS]
    mine = _own_worker(words, team)
    chunks = (n - 1) // chunk + 1
    shares = minimum(minimum(words[at.HELPERS], team - i64(mine < team)) + 1, chunks)
    words[at.TASK], words[at.DATA], words[at.N], words[at.CHUNK] = address(task), address(data), n, chunk
    words[at.SHARES], words[at.MINE], words[at.TEAM], words[at.TURNED] = shares, mine, team, turned
    began = _now(words) if NATIVE else 0
    pace = words + (((address(task) >> 4) % at.PACES_COUNT) * 2 + at.PACES)
    known = pace[0] == address(task)
    brief = known & (pace[1] * chunks < words[at.WORTH_WAKING]) & (began - words[at.ENDED] > words[at.SPIN])
    atomic_store(words + at.WAKES, shares if brief else 0, "monotonic")
    for k in range(shares):
        slot = _slot(words, k)
        slot[at.FIRST] = chunks * k // shares
        slot[at.END] = chunks * (k + 1) // shares
        atomic_store(slot + at.NEXT, slot[at.FIRST], "monotonic")
    before = atomic_load(words + at.TICKET, "monotonic")
    atomic_store(words + at.TICKET, (((before >> 32) + 1) << 32) | OPEN, "seq_cst")
    done = _work(words, mine, NATIVE=NATIVE)
    if NATIVE:
        ended = _now(words)
        if done > 0:
            recent = (ended - began) // done
            earlier = pace[1] if known else recent
            pace[0], pace[1] = address(task), (3 * earlier + minimum(recent, 4 * earlier)) // 4
        words[at.ENDED] = ended
    inside = atomic_and(words + at.TICKET, ~OPEN) & INSIDE
    turns = 0
    while inside != 0:
        pause()
        turns += 1
        if turns > PATIENCE:
            if NATIVE:
                ticket = atomic_or(words + at.TICKET, WAITED) | WAITED
                if (ticket & INSIDE) != 0:
                    low = cast(words + at.TICKET, pointer(i32))
                    call(
                        _function(words[at.SYSCALL]), words[at.FUTEX], low, WAIT, i64(i32(ticket)), 0, 0, 0, returns=i64
                    )
            else:
                call(_function(words[at.YIELD]))
        inside = atomic_load(words + at.TICKET) & INSIDE
    atomic_store(words + at.REGION, 0)


def _slot(words: Any, index: Any) -> Any:
    return words + (index * at.SLOT_WORDS + at.SLOTS)


@loop
def _own_worker(words: pointer(i64), team: i64) -> i64:
    """Return the worker that is pinned to the core on which this thread runs, or ``team``."""
    if words[at.GETCPU] == 0:
        return team
    core = i64(call(_function(words[at.GETCPU]), returns=i32))
    for k in range(team):
        if words[at.CORES + k] == core:
            return k
    return team


@loop(cold=True)
def _work(words: pointer(i64), me: i64, *, NATIVE) -> i64:
    """Do the chunks of this thread's own share, then those of the others; return how many."""
    done = 0
    shares, chunk, n, turned = words[at.SHARES], words[at.CHUNK], words[at.N], words[at.TURNED]
    task, data = _function(words[at.TASK]), _function(words[at.DATA])
    for k in range(shares):
        slot = _slot(words, (me + k) % shares)
        if k > 0:
            _look_on(words, slot)
        while atomic_load(slot + at.NEXT, "monotonic") < slot[at.END]:
            _wake_one(words, shares, NATIVE=NATIVE)
            claimed = atomic_add(slot + at.NEXT, 1, "monotonic")
            if claimed < slot[at.END]:
                start = (slot[at.FIRST] + slot[at.END] - 1 - claimed if turned != 0 else claimed) * chunk
                call(task, data, start, minimum(start + chunk, n))
                done += 1
    return done


@loop
def _look_on(words: pointer(i64), slot: pointer(i64)) -> void:
    """Wait a little for the owner of a share, unless no worker has joined."""
    turns = 0
    while (turns < COURTESY) & (atomic_load(slot + at.NEXT, "monotonic") < slot[at.END]):
        if (atomic_load(words + at.TICKET, "monotonic") & INSIDE) == 0:
            return
        pause()
        turns += 1


@loop
def _wake_one(words: pointer(i64), shares: i64, *, NATIVE) -> void:
    """Wake the next worker of the region, if it sleeps."""
    if atomic_load(words + at.WAKES, "monotonic") >= shares - 1:
        return
    turn = atomic_add(words + at.WAKES, 1, "monotonic")
    if turn >= shares - 1:
        return
    slot = _slot(words, (words[at.MINE] + 1 + turn) % words[at.TEAM])
    asleep = cast(slot + at.ASLEEP, pointer(i32))
    if atomic_load(asleep, "seq_cst") == 0:
        return
    if exchange(asleep, 0, "seq_cst") == 0:
        return
    if NATIVE:
        call(_function(words[at.SYSCALL]), words[at.FUTEX], asleep, WAKE, 1, 0, 0, 0, returns=i64)
    else:
        call(_function(slot[at.BELL]))


@loop(brief=True, cold=True)
def serve(place: pointer(i8), *, NATIVE) -> i64:
    """Join regions: the life of the worker that has this slot; if not ``NATIVE``, return when it may sleep."""
    slot = cast(place, pointer(i64))
    words = cast(slot[at.POOL], pointer(i64))
    me = slot[at.INDEX]
    asleep = cast(slot + at.ASLEEP, pointer(i32))
    seen: i64 = NEVER
    turns = 0
    if NATIVE:
        call(_function(words[at.SIGMASK]), BLOCK, words + at.BLOCKED, 0, returns=i32)
    deadline = _now(words) + words[at.SPIN] if NATIVE else 0
    while True:
        ticket = atomic_load(words + at.TICKET)
        number = ticket >> 32
        if number != seen:
            full = (ticket & INSIDE) >= words[at.SHARES] - 1
            if ((ticket & OPEN) == 0) | full | (me == words[at.MINE]) | (me >= words[at.TEAM]):
                seen = number
            else:
                _, joined = compare_exchange(words + at.TICKET, ticket, ticket + 1)
                if joined:
                    seen = number
                    atomic_add(words + at.JOINED, 1, "monotonic")
                    _work(words, me, NATIVE=NATIVE)
                    _leave(words, NATIVE=NATIVE)
                    if NATIVE:
                        deadline = _now(words) + words[at.SPIN]
            continue
        if NATIVE:
            pause()
            turns += 1
            if turns % LOOKS != 0:
                continue
            if _now(words) < deadline:
                continue
        atomic_store(asleep, 1, "seq_cst")
        if (atomic_load(words + at.TICKET, "seq_cst") >> 32) == seen:
            if NATIVE:
                call(_function(words[at.SYSCALL]), words[at.FUTEX], asleep, WAIT, 1, 0, 0, 0, returns=i64)
            else:
                return 0
        if NATIVE:
            atomic_store(asleep, 0, "seq_cst")
            deadline = _now(words) + words[at.SPIN]
        elif exchange(asleep, 0, "seq_cst") == 0:
            return 0  # the bell rings
    return 0


@loop
def _leave(words: pointer(i64), *, NATIVE) -> void:
    """Leave the region, and wake the caller if it sleeps until the last worker has left."""
    before = atomic_add(words + at.TICKET, -1)
    if NATIVE and ((before & WAITED) != 0) & ((before & INSIDE) == 1):
        low = cast(words + at.TICKET, pointer(i32))
        call(_function(words[at.SYSCALL]), words[at.FUTEX], low, WAKE, 1, 0, 0, 0, returns=i64)


@loop
def _now(words: pointer(i64)) -> i64:
    """Return the nanoseconds of the monotonic clock."""
    time = stack(i64, 2)
    call(_function(words[at.CLOCK]), 1, time, returns=i32)
    return time[0] * 1_000_000_000 + time[1]
