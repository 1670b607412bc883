"""Threads of Python that split large calls of NumPy functions over the cores.

Note [One parallel region at a time]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The workers serve one call at a time. A call that finds them busy runs on its own thread only: concurrent callers
already use the cores. Reductions are split by size, never by the number of threads, so that their results do not
depend on it. The inner loops release the GIL. Guarded by ``tests/backends/test_cpu_threads.py``.

Note [Workers keep off the caller's core]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Linux tends to wake a thread on the core of the thread that wakes it. If the caller goes on working there, the two take
turns, and two threads are slower than one (measured: ``add`` over 2^20 float32 took 178 us with both on one core,
109 us on two cores, 147 us on one thread). Before a region a worker is therefore barred from the caller's core.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
from collections.abc import Callable

from ..fp_warnings import QUIET, ignore
from .thread_limit import get_num_threads

__all__ = ["PIECE", "for_pieces"]

PIECE = 1 << 17  # elements: half a megabyte of float32, which fits a core's cache
Task = Callable[[int], None]


def _find_getcpu() -> Callable[[], int] | None:
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        getcpu = ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    getcpu.argtypes, getcpu.restype = (), ctypes.c_int
    return getcpu


_getcpu = _find_getcpu()


def _idle() -> None:
    """Do nothing: the work of an idle worker."""


class _Worker:
    def __init__(self) -> None:
        self.barred = -1  # the core that the worker may not use
        self.identity = 0
        self.go = threading.Lock()
        self.done = threading.Lock()
        self.go.acquire()
        self.done.acquire()
        self.work: Callable[[], None] = _idle
        threading.Thread(target=self._run, name="tenkey worker", daemon=True).start()

    def keep_off(self, core: int) -> None:
        """Bar the worker from the caller's core, if there is another one."""
        if core == self.barred or not self.identity:
            return
        self.barred = core
        others = os.sched_getaffinity(0) - {core}
        if others:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self.identity, others)

    def _run(self) -> None:
        self.identity = threading.get_native_id()
        ignore(QUIET)  # for the life of the thread
        while True:
            self.go.acquire()
            work, self.work = self.work, _idle
            try:
                work()
            finally:
                del work  # a waiting worker must not keep the arrays of the last call alive
                self.done.release()


class _Team:
    def __init__(self) -> None:
        self.region = threading.Lock()
        self.workers: list[_Worker] = []

    def run(self, task: Task, count: int) -> None:
        helpers = min(get_num_threads(), count) - 1
        if helpers < 1 or not self.region.acquire(blocking=False):
            for piece in range(count):
                task(piece)
            return
        started: list[_Worker] = []
        errors: list[BaseException] = []
        try:
            while len(self.workers) < helpers:
                self.workers.append(_Worker())
            pieces = itertools.count()

            def work() -> None:
                try:
                    while not errors and (piece := next(pieces)) < count:
                        task(piece)
                except BaseException as error:
                    errors.append(error)

            active = self.workers[:helpers]
            core = -1 if _getcpu is None else _getcpu()
            for worker in active:
                if core >= 0:
                    worker.keep_off(core)
                worker.work = work
                worker.go.release()
                started.append(worker)
            work()
        finally:
            interrupts = [error for worker in started for error in _wait(worker)]
            self.region.release()
        if interrupts or errors:
            raise (interrupts or errors)[0]


def _wait(worker: _Worker) -> list[BaseException]:
    """Wait until a worker is done in spite of interrupts, since it writes into the result; return the interrupts."""
    interrupts: list[BaseException] = []
    taken: list[bool] = []
    while not taken:
        try:  # one call into C, so that the list has the lock's answer even if an interrupt follows at once
            taken.extend(map(worker.done.acquire, (True,)))
        except BaseException as error:
            interrupts.append(error)
    return interrupts


_team = _Team()


def _after_fork() -> None:
    global _team
    _team = _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def for_pieces(task: Callable[[int, int], None], length: int, piece: int = PIECE) -> None:
    """Call ``task(start, stop)`` for every piece of ``range(length)``, on several threads."""
    count = -(-length // piece)
    if count == 1:
        task(0, length)
        return
    _team.run(lambda i: task(i * piece, min(length, (i + 1) * piece)), count)
