"""Faults that tests of ``tools.soak --numpy`` plant in the worker: each function breaks one operator or operand."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from typing import Any

import numpy as np

import tenkey as tk
from tools.soak.arrays import vocabulary


def wrong_sinh() -> None:
    tk.library.register_kernel("tk::sinh", "cpu", lambda x: tk.asarray(np.sinh(x.numpy()) + 1), allow_override=True)


def aborting_index() -> None:
    vocabulary.Index.__index__ = lambda self: os.abort()  # type: ignore[method-assign]


def reading_null() -> None:
    vocabulary.AsArray.__array__ = lambda self, dtype=None, copy=None: ctypes.string_at(0)  # type: ignore[method-assign]


def lost_interrupts() -> None:
    """``sinh`` swallows whatever comes while it runs, and it runs nearly all the time."""

    def kernel(x: Any, *given: Any, **options: Any) -> Any:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)
        return x.clone()

    tk.library.register_kernel("tk::sinh", "cpu", kernel, allow_override=True)
    tk.numpy.sinh(tk.numpy.ones(3))  # what a first call does beside it can take longer than the timer


def hanging_index() -> None:
    vocabulary.Index.__index__ = lambda self: threading.Event().wait()  # type: ignore[method-assign, assignment, return-value]


def internal_error() -> None:
    def kernel(x: Any) -> Any:
        raise SystemError("planted")

    tk.library.register_kernel("tk::sinh", "cpu", kernel, allow_override=True)
