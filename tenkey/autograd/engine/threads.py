"""Start the threads of the engine, and wait for them.

Note [Interrupts of backward]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An interrupt, or another exception raised from outside, may arrive between any two instructions, also while an earlier
error is handled. The engine does not rely on where Python looks for interrupts, and follows these rules:

- The engine has no locks, because an interrupt between taking a lock and the ``try`` that releases it would leave it
  locked (Note [Locks and interrupts]). State that threads share is changed by single calls of C functions: a thread
  moves a buffer from a queue to its own list (``_Queue.move``), and a counter tells which gradient arrives last.
- State is derived, not kept in step. A run is over when no buffer is open, or when it was stopped and no buffer is
  running. A buffer is open from before it is queued until its node has run, and the buffers that the node makes ready
  are opened before that. A thread marks a buffer as running before it checks whether the run was stopped. A worker
  lives as long as its token, a helper as long as its function.
- A thread owns the buffers that it has taken until they are closed. After any error in the meantime it fails their runs
  and closes them (``_give_up``).
- The work that a failed call leaves is done twice, in the handlers of two ``try`` statements, one inside the other. The
  second time changes nothing, except if an interrupt has ended the first.
- A waiting thread checks repeatedly whether what it waits for has happened. A ring wakes it at once. If an interrupt
  has prevented the ring, or the start of a worker, the caller makes up for it after ``PATIENCE`` seconds.

Guarded by ``tests/autograd/engine/test_interrupts.py`` and
``tests/autograd/engine/test_workers.py::TestInterrupts``.
"""

from __future__ import annotations

import threading
from _thread import start_new_thread
from typing import Final

__all__ = ["PATIENCE", "notice_interrupt", "start_thread"]

start_thread: Final = start_new_thread
"""``threading.Thread.start`` takes locks of the whole process, which an interrupt can leave locked in Python 3.14."""

PATIENCE: Final = 0.1
"""Seconds after which a waiting thread looks again."""

notice_interrupt: Final = threading.main_thread
"""A function written in Python: a pending interrupt is raised in it, even if the modules of the engine are compiled."""
