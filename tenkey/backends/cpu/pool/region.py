"""Parallel regions: one task on several threads, in compiled code.

Note [Regions]
~~~~~~~~~~~~~~
``parallel(pool, task, data, n, chunk)`` calls ``task(data, start, stop)`` once for every chunk of ``range(n)``, where
``start`` is a multiple of ``chunk``, and ``stop`` is ``start + chunk`` or ``n``. The calls come in any order and from
any thread, and all have returned when ``parallel`` returns. A chunk should be at least 3 us of work.

- *Shares.* Each thread owns a contiguous share of the chunks, claims them one by one, and then steals from the other
  shares. The same core thus meets the same memory from call to call. With one counter for all threads, neighbouring
  chunks change cores: ``add`` over 2^20 float32 elements then takes 85 us in place of 71.
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
from .state_block import (
    ASLEEP,
    AWAITED,
    BELL,
    BLOCKED,
    CHUNK,
    CLOCK,
    CORES,
    DATA,
    END,
    ENDED,
    FIRST,
    FUTEX,
    GETCPU,
    HELPERS,
    INDEX,
    INTERRUPT,
    JOINED,
    LOAD,
    MINE,
    NEXT,
    PACES,
    PACES_COUNT,
    POOL,
    REGION,
    RUN,
    SHARES,
    SIGMASK,
    SLOT_WORDS,
    SLOTS,
    SPIN,
    SYSCALL,
    TASK,
    TEAM,
    TICKET,
    TURNED,
    TURNS,
    WAKES,
    WORKERS,
    WORTH_WAKING,
    YIELD,
    N,
)

__all__ = ["parallel", "run", "serve"]

OPEN = 1 << 16  # bit of the ticket: workers may join
WAITED = 1 << 17  # bit of the ticket: the caller sleeps until no worker is inside
INSIDE = OPEN - 1  # bits of the ticket: the number of workers inside
NEVER = 1 << 40  # the number of no region
LOOKS = 16  # between two looks at the clock
PATIENCE = 5000  # pauses, 0.1 to 0.2 ms, for which the caller keeps its core while workers complete their last chunks
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
    if atomic_load(words + RUN) == 0:
        awaited = words[AWAITED] - ((n - 1) // chunk + 1)
        words[AWAITED] = maximum(awaited, 0)  # a count that is lost between threads does no harm
        if (words[LOAD] != 0) & (awaited <= 0):
            complete = stack(i64)  # Note [An interrupt in a callback]
            complete[0] = 0
            call(_function(words[LOAD]), complete)
            if complete[0] == 0:
                call(_function(words[INTERRUPT]))
    run = atomic_load(words + RUN)
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
    turned = atomic_add(words + TURNS, 1, "monotonic") & 1
    if words[HELPERS] < 1:
        _serially(task, data, n, chunk, turned)
        return
    _, taken = compare_exchange(words + REGION, 0, 1)
    if not taken:
        _serially(task, data, n, chunk, turned)
        return
    team = words[WORKERS]
    mine = _own_worker(words, team)
    chunks = (n - 1) // chunk + 1
    shares = minimum(minimum(words[HELPERS], team - i64(mine < team)) + 1, chunks)
    words[TASK], words[DATA], words[N], words[CHUNK] = address(task), address(data), n, chunk
    words[SHARES], words[MINE], words[TEAM], words[TURNED] = shares, mine, team, turned
    began = _now(words) if NATIVE else 0
    pace = words + (((address(task) >> 4) % PACES_COUNT) * 2 + PACES)
    known = pace[0] == address(task)
    brief = known & (pace[1] * chunks < words[WORTH_WAKING]) & (began - words[ENDED] > words[SPIN])
    atomic_store(words + WAKES, shares if brief else 0, "monotonic")
    for k in range(shares):
        slot = _slot(words, k)
        slot[FIRST] = chunks * k // shares
        slot[END] = chunks * (k + 1) // shares
        atomic_store(slot + NEXT, slot[FIRST], "monotonic")
    before = atomic_load(words + TICKET, "monotonic")
    atomic_store(words + TICKET, (((before >> 32) + 1) << 32) | OPEN, "seq_cst")
    done = _work(words, mine, NATIVE=NATIVE)
    if NATIVE:
        ended = _now(words)
        if done > 0:
            recent = (ended - began) // done
            earlier = pace[1] if known else recent
            pace[0], pace[1] = address(task), (3 * earlier + minimum(recent, 4 * earlier)) // 4
        words[ENDED] = ended
    inside = atomic_and(words + TICKET, ~OPEN) & INSIDE
    turns = 0
    while inside != 0:
        pause()
        turns += 1
        if turns > PATIENCE:
            if NATIVE:
                ticket = atomic_or(words + TICKET, WAITED) | WAITED
                if (ticket & INSIDE) != 0:
                    low = cast(words + TICKET, pointer(i32))
                    call(_function(words[SYSCALL]), words[FUTEX], low, WAIT, i64(i32(ticket)), 0, 0, 0, returns=i64)
            else:
                call(_function(words[YIELD]))
        inside = atomic_load(words + TICKET) & INSIDE
    atomic_store(words + REGION, 0)


def _slot(words: Any, index: Any) -> Any:
    return words + (index * SLOT_WORDS + SLOTS)


@loop
def _own_worker(words: pointer(i64), team: i64) -> i64:
    """Return the worker that is pinned to the core on which this thread runs, or ``team``."""
    if words[GETCPU] == 0:
        return team
    core = i64(call(_function(words[GETCPU]), returns=i32))
    for k in range(team):
        if words[CORES + k] == core:
            return k
    return team


@loop(cold=True)
def _work(words: pointer(i64), me: i64, *, NATIVE) -> i64:
    """Do the chunks of this thread's own share, then those of the others; return how many."""
    done = 0
    shares, chunk, n, turned = words[SHARES], words[CHUNK], words[N], words[TURNED]
    task, data = _function(words[TASK]), _function(words[DATA])
    for k in range(shares):
        slot = _slot(words, (me + k) % shares)
        while atomic_load(slot + NEXT, "monotonic") < slot[END]:
            _wake_one(words, shares, NATIVE=NATIVE)
            claimed = atomic_add(slot + NEXT, 1, "monotonic")
            if claimed < slot[END]:
                start = (slot[FIRST] + slot[END] - 1 - claimed if turned != 0 else claimed) * chunk
                call(task, data, start, minimum(start + chunk, n))
                done += 1
    return done


@loop
def _wake_one(words: pointer(i64), shares: i64, *, NATIVE) -> void:
    """Wake the next worker of the region, if it sleeps."""
    if atomic_load(words + WAKES, "monotonic") >= shares - 1:
        return
    turn = atomic_add(words + WAKES, 1, "monotonic")
    if turn >= shares - 1:
        return
    slot = _slot(words, (words[MINE] + 1 + turn) % words[TEAM])
    asleep = cast(slot + ASLEEP, pointer(i32))
    if atomic_load(asleep, "seq_cst") == 0:
        return
    if exchange(asleep, 0, "seq_cst") == 0:
        return
    if NATIVE:
        call(_function(words[SYSCALL]), words[FUTEX], asleep, WAKE, 1, 0, 0, 0, returns=i64)
    else:
        call(_function(slot[BELL]))


@loop(brief=True, cold=True)
def serve(place: pointer(i8), *, NATIVE) -> i64:
    """Join regions: the life of the worker that has this slot; if not ``NATIVE``, return when it may sleep."""
    slot = cast(place, pointer(i64))
    words = cast(slot[POOL], pointer(i64))
    me = slot[INDEX]
    asleep = cast(slot + ASLEEP, pointer(i32))
    seen: i64 = NEVER
    turns = 0
    if NATIVE:
        call(_function(words[SIGMASK]), BLOCK, words + BLOCKED, 0, returns=i32)
    deadline = _now(words) + words[SPIN] if NATIVE else 0
    while True:
        ticket = atomic_load(words + TICKET)
        number = ticket >> 32
        if number != seen:
            full = (ticket & INSIDE) >= words[SHARES] - 1
            if ((ticket & OPEN) == 0) | full | (me == words[MINE]) | (me >= words[TEAM]):
                seen = number
            else:
                _, joined = compare_exchange(words + TICKET, ticket, ticket + 1)
                if joined:
                    seen = number
                    atomic_add(words + JOINED, 1, "monotonic")
                    _work(words, me, NATIVE=NATIVE)
                    _leave(words, NATIVE=NATIVE)
                    if NATIVE:
                        deadline = _now(words) + words[SPIN]
            continue
        if NATIVE:
            pause()
            turns += 1
            if turns % LOOKS != 0:
                continue
            if _now(words) < deadline:
                continue
        atomic_store(asleep, 1, "seq_cst")
        if (atomic_load(words + TICKET, "seq_cst") >> 32) == seen:
            if NATIVE:
                call(_function(words[SYSCALL]), words[FUTEX], asleep, WAIT, 1, 0, 0, 0, returns=i64)
            else:
                return 0
        if NATIVE:
            atomic_store(asleep, 0, "seq_cst")
            deadline = _now(words) + words[SPIN]
        elif exchange(asleep, 0, "seq_cst") == 0:
            return 0  # the bell rings
    return 0


@loop
def _leave(words: pointer(i64), *, NATIVE) -> void:
    """Leave the region, and wake the caller if it sleeps until the last worker has left."""
    before = atomic_add(words + TICKET, -1)
    if NATIVE and ((before & WAITED) != 0) & ((before & INSIDE) == 1):
        low = cast(words + TICKET, pointer(i32))
        call(_function(words[SYSCALL]), words[FUTEX], low, WAKE, 1, 0, 0, 0, returns=i64)


@loop
def _now(words: pointer(i64)) -> i64:
    """Return the nanoseconds of the monotonic clock."""
    time = stack(i64, 2)
    call(_function(words[CLOCK]), 1, time, returns=i32)
    return time[0] * 1_000_000_000 + time[1]
