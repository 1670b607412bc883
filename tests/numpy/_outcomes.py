"""What calls give, beside what NumPy gives: values to the bit, kinds of errors, and the Python functions entered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import tenkey.numpy as tnp

__all__ = ["counterpart", "frames", "outcome", "same"]


def counterpart(wanted: Any) -> type:
    """Return the class that a result has if NumPy's is ``wanted``: Note [Scalars and 0-d arrays]."""
    return tnp.ndarray if isinstance(wanted, np.ndarray) else type(wanted)


def frames(call: Callable[[], Any]) -> int:
    """Return how many Python functions a call enters, itself not counted."""
    entered = []
    sys.setprofile(lambda frame, event, arg: entered.append(frame) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered) - 1


def outcome(call: Callable[..., Any], *operands: Any) -> Any:
    """Return the result of a call, or the class of its error."""
    with np.errstate(all="ignore"):
        try:
            return call(*operands)
        except (TypeError, ValueError, OverflowError, IndexError, ZeroDivisionError, DeprecationWarning) as error:
            return type(error)  # what is deprecated is an error in later versions


def same(found: Any, wanted: Any) -> bool:
    """Tell whether two outcomes agree: dtype, shape and every bit, or the kind of error."""
    if isinstance(wanted, tuple):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, type) or isinstance(found, type):
        return isinstance(wanted, type) and isinstance(found, type)
    if found is NotImplemented or wanted is NotImplemented:
        return found is wanted
    x, y = np.asarray(found), np.asarray(wanted)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
