"""Parallel regions: every chunk runs once, in spite of other threads, nesting and interrupts (Note [Regions]).

``test_pool_process.py`` runs this file a second time with Python threads as workers.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu import pool
from tenkey.backends.cpu.pool import state_block as at
from tenkey.backends.cpu.pool.region import parallel
from tenkey.backends.llvm import (
    atomic_add,
    cast,
    function_pointer,
    i8,
    i64,
    kernel,
    loop,
    pause,
    pointer,
    void,
)
from tests._threads import run_threads
from tests._tiers import each

_HEAD = 8  # words before the marks: chunk, n, pauses per chunk, errors


@loop
def _mark(data: pointer(i8), start: i64, stop: i64) -> void:
    """Count the call at the mark of its chunk, and an error if the bounds are not those of a chunk."""
    words = cast(data, pointer(i64))
    chunk, n = words[0], words[1]
    last = stop == n
    if (start % chunk != 0) | (stop > n) | (start >= stop) | ((stop != start + chunk) & ~last):
        atomic_add(words + 3, 1)
    for _ in range(words[2]):
        pause()
    atomic_add(words + (start // chunk + _HEAD), 1)


@loop
def _marking(pool: pointer(i8), data: pointer(i8), n: i64, chunk: i64) -> void:
    parallel(pool, function_pointer(_mark), data, n, chunk)


@loop
def _nest(data: pointer(i8), start: i64, stop: i64) -> void:
    """Run a region for one row: ``data`` holds the address of the pool, and the rows' length and address."""
    words = cast(data, pointer(i64))
    row = cast(words[2], pointer(i8)) + start * words[1]
    parallel(cast(words[0], pointer(i8)), function_pointer(_mark), row, cast(row, pointer(i64))[1], 3)


@loop
def _nesting(pool: pointer(i8), data: pointer(i8), n: i64) -> void:
    parallel(pool, function_pointer(_nest), data, n, 1)


@loop
def _note(data: pointer(i8), start: i64, stop: i64) -> void:
    """Append the first number of the chunk to a list that begins with its length."""
    words = cast(data, pointer(i64))
    words[atomic_add(words, 1) + 1] = start


@loop
def _noting(pool: pointer(i8), data: pointer(i8), n: i64, chunk: i64) -> void:
    parallel(pool, function_pointer(_note), data, n, chunk)


class Region:
    """Calls a region of :func:`_mark` and checks its marks."""

    def __init__(self, n: int, chunk: int, delay: int = 0) -> None:
        self.n, self.chunk = n, chunk
        self.words = np.zeros(_HEAD + -(-n // chunk) + 1, np.int64)
        self.words[:3] = chunk, n, delay
        self.call = kernel(_marking)

    def __call__(self) -> None:
        self.call(pool.STATE, self.words.ctypes.data, self.n, self.chunk)

    def check(self, calls: int = 1) -> None:
        assert self.words[3] == 0, "bounds that are not those of a chunk"
        *marks, after = self.words[_HEAD:].tolist()
        assert marks == [calls] * len(marks)
        assert after == 0


def run_until_joined() -> None:
    """Run regions until a worker has joined one."""
    before = at.block[at.JOINED]
    end = time.monotonic() + 20
    while at.block[at.JOINED] == before:
        assert time.monotonic() < end, "no worker joins"
        region = Region(64, 1, delay=2_000)
        region()
        region.check()


@pytest.fixture(autouse=True)
def _same_number_afterwards() -> Iterator[None]:
    before = tk.get_num_threads()
    yield
    tk.set_num_threads(before)


@each("threads", [1, 2, 3, 8])
def test_every_chunk_runs_once(threads: int) -> None:
    tk.set_num_threads(threads)
    for n, chunk in [
        (0, 1), (1, 1), (2, 1), (1, 5), (5, 5), (6, 5), (64, 1), (65, 4), (1000, 7), (999, 1000), (50_000, 3),
        (7, 1 << 62),
    ]:  # fmt: skip
        region = Region(n, chunk)
        for _ in range(20):
            region()
        region.check(20 if n else 0)


def test_every_second_region_begins_at_the_end() -> None:
    tk.set_num_threads(1)
    found = []
    for _ in range(4):
        words = np.zeros(12, np.int64)
        kernel(_noting)(pool.STATE, words.ctypes.data, 64, 6)
        assert words[0] == 11
        found.append(words[1:].tolist())
    there = list(range(0, 64, 6))
    assert found in ([there, there[::-1]] * 2, [there[::-1], there] * 2)


@each("threads", [2, 8])
def test_all_chunks_are_done_when_the_call_returns(threads: int) -> None:
    """A pool that does not wait for a worker's last chunk leaves a mark at 0."""
    tk.set_num_threads(threads)
    run_until_joined()
    for number in range(300):
        region = Region(2 + number % 9, 1, delay=400)
        region()
        region.check()


def test_workers_join() -> None:
    tk.set_num_threads(2)
    run_until_joined()
    time.sleep(0.01)  # now they sleep
    run_until_joined()


@pytest.mark.skipif(not pool.is_native(), reason="Python threads do not look at the clock")
def test_brief_calls_leave_sleepers_asleep() -> None:
    """By the number of workers that were to be woken: a call that wakes none sets it beyond all of them."""
    tk.set_num_threads(2)
    counts: dict[int, list[int]] = {0: [], 20_000: []}
    for delay, seen in counts.items():
        for _ in range(50):
            region = Region(4, 1, delay)
            region()
            region.check()
            time.sleep(0.001)
            seen.append(at.block[at.WAKES])
    assert counts[0].count(2) > 25, counts
    assert counts[20_000].count(2) < 25, counts


def test_one_thread_has_no_help() -> None:
    tk.set_num_threads(2)
    run_until_joined()
    tk.set_num_threads(1)
    before = at.block[at.JOINED]
    for _ in range(100):
        region = Region(64, 1, delay=200)
        region()
        region.check()
    assert at.block[at.JOINED] == before


def test_no_more_workers_than_allowed() -> None:
    for threads in (8, 3, 2):
        tk.set_num_threads(threads)
        run_until_joined()
        assert at.block[at.HELPERS] == threads - 1
        for _ in range(50):
            before = at.block[at.JOINED]
            region = Region(64, 1, delay=60)
            region()
            region.check()
            assert at.block[at.JOINED] - before <= threads - 1


def test_the_number_of_threads_is_limited() -> None:
    tk.set_num_threads(1000)
    assert tk.get_num_threads() == 1000
    run_until_joined()
    assert at.block[at.HELPERS] == pool.MAX_THREADS - 1
    region = Region(1000, 3, delay=100)
    region()
    region.check()


def test_regions_inside_tasks() -> None:
    tk.set_num_threads(4)
    rows = np.zeros((50, 64), np.int64)
    rows[:, 0], rows[:, 1] = 3, 100
    data = np.array([pool.STATE, rows.strides[0], rows.ctypes.data])
    kernel(_nesting)(pool.STATE, data.ctypes.data, len(rows))
    assert (rows[:, 3] == 0).all()
    assert (rows[:, _HEAD : _HEAD + 34] == 1).all()
    assert (rows[:, _HEAD + 34 :] == 0).all()


def test_eight_threads_at_once() -> None:
    tk.set_num_threads(3)
    run_until_joined()

    def work() -> None:
        for number in range(100):
            region = Region(40 + number % 7, 2, delay=40)
            region()
            region.check()

    run_threads(*[work] * 8)


def test_the_number_of_threads_changes_while_regions_run() -> None:
    stop = threading.Event()

    def change() -> None:
        for number in range(200):
            tk.set_num_threads(1 + number % 5)
            time.sleep(0.0005)
        stop.set()

    def work() -> None:
        while not stop.is_set():
            region = Region(30, 1, delay=40)
            region()
            region.check()

    run_threads(change, work, work)


def test_an_interrupt_comes_after_the_region() -> None:
    """Ctrl-C during a region: all chunks are done, then KeyboardInterrupt is raised."""
    tk.set_num_threads(2)
    run_until_joined()
    region = Region(200, 1, delay=100_000)
    main = threading.get_ident()
    sent: list[int] = []

    def interrupt() -> None:
        while not region.words[_HEAD:].any():
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)
        sent.append(int(region.words[_HEAD:].sum()))

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        region()
    thread.join()
    assert 0 < sent[0] < 200, "the interrupt did not come during the region"
    region.check()
    run_until_joined()


def test_set_num_threads() -> None:
    tk.set_num_threads(3)
    assert tk.get_num_threads() == 3
    with pytest.raises(ValueError, match=r"^\[set_num_threads\] needs at least 1 thread, got 0\.$"):
        tk.set_num_threads(0)
    bad: Any = "two"
    with pytest.raises(TypeError, match=r"^\[set_num_threads\] the number of threads must be an int, got 'two'\.$"):
        tk.set_num_threads(bad)
    assert tk.get_num_threads() == 3
