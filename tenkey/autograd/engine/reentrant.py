"""Reentrant backward: a backward inside another one, to any depth.

A node or a hook may call ``backward()`` or ``grad()``. The inner backward is complete, including its callbacks, before
the call returns; so of all ready nodes, those of the innermost backward run first. Every level takes some ten stack
frames, and Python's recursion limit applies to each thread. A level that finds half of the limit used continues in a
helper thread while the calling thread waits. Helper threads are reused, and context variables are copied into them.
Guarded by ``tests/autograd/engine/test_engine.py::TestReentrant``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, Final

from .graph_task import GraphTask, current_task

__all__ = ["run_nested"]


def _is_deep() -> bool:
    """Return whether half of the frames allowed for this thread are in use."""
    try:
        sys._getframe(sys.getrecursionlimit() // 2)
    except ValueError:
        return False
    return True


def run_nested(task: GraphTask, run: Callable[[GraphTask, Any], None], grad_outputs: Any) -> None:
    """Call ``run(task, grad_outputs)`` for a task inside another one."""
    stop = task.outer_stop()
    if stop is not None:
        raise RuntimeError("[backward] the backward around this one was stopped.") from stop
    if _is_deep():
        context = copy_context()
        try:
            _call_elsewhere(task, lambda: context.run(_run_as_current, task, run, grad_outputs))
        except BaseException as error:
            task.stopped = error  # this thread was interrupted: nodes that the helper starts from now on end at once
            raise
        finally:
            task.stopped = None if task.stopped is None else _STOPPED
    else:
        _run_as_current(task, run, grad_outputs)


_STOPPED: Final = RuntimeError("stopped")  # in place of the error, whose traceback refers to the task


def _run_as_current(task: GraphTask, run: Callable[[GraphTask, Any], None], grad_outputs: Any) -> None:
    try:
        current_task.set(task)
        run(task, grad_outputs)
    finally:
        current_task.set(task.parent)


class _Job:
    """A call made by another thread; the lock ``done`` is released when it is complete."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class _Helper(threading.Thread):
    """A thread that makes calls for other threads, one at a time."""

    def __init__(self) -> None:
        super().__init__(name="tenkey-backward", daemon=True)
        self.inbox: SimpleQueue[_Job] = SimpleQueue()

    def run(self) -> None:
        """Make calls until the process ends."""
        while True:
            job = self.inbox.get()
            try:
                job.function()
            except BaseException as error:
                job.error = error
            done = job.done
            del job  # keeps nothing alive while waiting for the next
            _idle.append(self)
            done.release()


_idle: Final[list[_Helper]] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a child process does not inherit threads


def _call_elsewhere(task: GraphTask, function: Callable[[], Any]) -> None:
    """Call a function in a helper thread and wait for it; an exception is raised here with its traceback."""
    job = _Job(function)
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
        helper.start()
    try:
        helper.inbox.put(job)
        while not job.done.acquire(timeout=0.1):  # so that this thread notices an interrupt
            pass
    except BaseException:
        task.is_at_large = True
        raise
    error = job.error
    if error is not None:
        try:
            raise error
        finally:
            del error, job.error
