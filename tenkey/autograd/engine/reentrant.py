"""Reentrant backward: a backward inside another one, to any depth.

A node or a hook may call ``backward()`` or ``grad()``. The inner backward is complete, including its callbacks, before
the call returns; so of all ready nodes, those of the innermost backward run first. Every level takes some ten stack
frames, and Python's recursion limit applies to each thread. A level that finds half of the limit used continues in a
helper thread while the calling thread waits; context variables are copied into it.
Guarded by ``tests/autograd/engine/test_engine.py::TestReentrant``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any
from weakref import ref

from .graph_task import GraphTask, current_task
from .threads import PATIENCE, notice_interrupt, start_thread

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
        _call_elsewhere(task, partial(copy_context().run, _run_as_current, task, run, grad_outputs))
    else:
        _run_as_current(task, run, grad_outputs)


def _run_as_current(task: GraphTask, run: Callable[[GraphTask, Any], None], grad_outputs: Any) -> None:
    current_task.set(task)
    run(task, grad_outputs)


def _call_elsewhere(task: GraphTask, function: Callable[[], Any]) -> None:
    """Call a function in a new thread and wait for it; an exception is raised here with its traceback."""
    from queue import Empty, SimpleQueue

    outcome: list[BaseException | None] = []
    job = partial(_call, [function], outcome)
    over: SimpleQueue[Any] = SimpleQueue()
    task.helper = ref(job, over.put)  # which the end of the thread calls, whatever has ended it
    start_thread(job, ())
    del job
    while True:
        try:
            over.get(timeout=PATIENCE)
            break
        except Empty:
            notice_interrupt()
    error = outcome.pop() if outcome else RuntimeError("[backward] a thread ended early.")
    if error is not None:
        try:
            raise error
        finally:
            del error


def _call(functions: list[Callable[[], Any]], outcome: list[BaseException | None]) -> None:
    try:
        functions.pop()()  # what it refers to is freed here, not when the thread has ended
        outcome.append(None)
    except BaseException as error:
        outcome.append(error)
