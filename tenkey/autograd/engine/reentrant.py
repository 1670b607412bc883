"""Backward inside of a backward, to any depth.

Note [Reentrant backward]
~~~~~~~~~~~~~~~~~~~~~~~~~
A node or a hook may call ``backward()`` or ``grad()``. That one is complete, its callbacks included, before the call
returns; so of all ready nodes those of the innermost backward run first. Every level takes some ten frames of the stack
and Python's limit holds for each thread, so a level that finds half of it used goes on in a helper thread, while the
thread that called waits. Helpers are kept for the next time. Context variables are copied into them. Guarded by
``tests/autograd/engine/test_engine.py::TestReentrant``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, Final

from .graph_task import Task, current_task

__all__ = ["run_nested"]


def _is_deep() -> bool:
    """Whether half of the frames that this thread may have are in use."""
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return False
    return True


def run_nested(task: Task, run: Callable[[Task, Any], None], seeds: Any) -> None:
    """``run(task, seeds)`` for a task inside of another one."""
    stop = task.outer_stop()
    if stop is not None:
        raise RuntimeError("[backward] the backward around this one was stopped.") from stop
    if _is_deep():
        context = copy_context()
        try:
            _call_elsewhere(lambda: context.run(_run_as_current, task, run, seeds))
        except BaseException as error:
            task.stopped = error  # an interrupt of this thread: what the helper begins from now on ends at once
            raise
        finally:
            task.stopped = None if task.stopped is None else _STOPPED
    else:
        _run_as_current(task, run, seeds)


_STOPPED: Final = RuntimeError("stopped")  # in place of the error, whose traceback refers to the task


def _run_as_current(task: Task, run: Callable[[Task, Any], None], seeds: Any) -> None:
    try:
        current_task.set(task)
        run(task, seeds)
    finally:
        current_task.set(task.parent)


class _Job:
    """A call that another thread makes; ``done`` is free once it is over."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class _Helper(threading.Thread):
    """A thread that makes calls for others, one after the other."""

    def __init__(self) -> None:
        super().__init__(name="tenkey-backward", daemon=True)
        self.inbox: SimpleQueue[_Job] = SimpleQueue()

    def run(self) -> None:
        """Make calls as long as the process lives."""
        while True:
            job = self.inbox.get()
            try:
                job.function()
            except BaseException as error:
                job.error = error
            done = job.done
            del job  # nothing of it is kept while this thread waits for the next
            _idle.append(self)
            done.release()


_idle: Final[list[_Helper]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not live on in a child process


def _call_elsewhere(function: Callable[[], Any]) -> None:
    """Call a function in a helper thread and wait for it; its exception arrives here with its traceback."""
    job = _Job(function)
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
        helper.start()
    helper.inbox.put(job)
    while not job.done.acquire(timeout=0.1):  # so that an interrupt is seen that went to another thread
        pass
    error = job.error
    if error is not None:
        try:
            raise error
        finally:
            del error, job.error
