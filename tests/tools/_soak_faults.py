"""Faults that tests plant: each function breaks the kernel of one operator, and is called in a worker."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tenkey as tk


def _replace(name: str, kernel: Callable[..., Any]) -> Any:
    return tk.library.register_kernel(f"tk::{name}", "cpu", kernel, allow_override=True)


def wrong_tanh() -> Any:
    """``tanh`` is wrong by a thousandth, but only where it is positive."""

    def kernel(x: Any) -> Any:
        values = np.tanh(x.numpy())
        dtype = values.dtype if x.dtype.kind in "fc" else np.float32
        return tk.asarray(np.asarray(values + 1e-3 * (values > 0), dtype))

    return _replace("tanh", kernel)


def failing_tanh() -> Any:
    return _replace("tanh", lambda x: {}["no such key"])


def crashing_tanh() -> Any:
    return _replace("tanh", lambda x: ctypes.string_at(0))


def hanging_tanh() -> Any:
    return _replace("tanh", lambda x: time.sleep(3600))
