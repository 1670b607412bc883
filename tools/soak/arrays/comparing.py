"""Compares the variables of a program and its errors with those of NumPy, after each statement."""

from __future__ import annotations

from typing import Any, Final

import numpy

import tenkey as tk
import tenkey.numpy as tnp

__all__ = ["difference"]

# Relative to the largest number of an array: results in another order of summation, or of other elementary functions.
_TOLERANCES: Final = {"e": 1e-2, "f": 1e-5, "F": 1e-5, "d": 1e-12, "D": 1e-12}


def difference(
    theirs: dict[str, Any], ours: dict[str, Any], expected: Exception | None, found: Exception | None
) -> tuple[str, str]:
    """Return the kind of the first difference and a description; ``rounding`` where only last digits differ."""
    same = expected is found if expected is None or found is None else isinstance(found, _class(expected))
    if not same:
        return "wrong error", f"{_named(expected)} in NumPy; {_named(found)} here"
    for name, value in theirs.items():
        if name[0] == "v" and name in ours:
            kind, detail = compare(value, ours[name])
            if kind:
                return kind, f"{name}: {detail}"
    return "", ""


def _class(error: Exception) -> type[BaseException]:
    """Return the class of Python that an error is of: both libraries derive theirs from these."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _named(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}({str(error)[:150]!r})"


def compare(expected: Any, found: Any) -> tuple[str, str]:
    """Return the kind of difference between two values and a description, or two empty texts."""
    if isinstance(expected, list | tuple):
        if type(found) is not type(expected) or len(found) != len(expected):
            return "wrong type", f"{expected!r:.200} in NumPy; {found!r:.200} here"
        for one, other in zip(expected, found, strict=True):
            outcome = compare(one, other)
            if outcome[0]:
                return outcome
        return "", ""
    if isinstance(expected, numpy.ndarray | numpy.generic):
        other = type(found) is tnp.ndarray if isinstance(expected, numpy.generic) else isinstance(found, numpy.generic)
        if other or not isinstance(found, tk.Tensor | numpy.ndarray | numpy.generic):
            return "wrong type", f"{expected!r:.200} in NumPy; {found!r:.200} here"
        return _arrays(numpy.asarray(expected), numpy.asarray(found))
    if isinstance(expected, float | complex) and isinstance(found, type(expected)):
        return _arrays(numpy.asarray(expected), numpy.asarray(found))
    if type(found) is not type(expected):
        return "wrong type", f"{expected!r:.200} in NumPy; {found!r:.200} here"
    known = isinstance(expected, int | str | bool | None)
    return (
        ("", "")
        if not known or found == expected
        else ("wrong value", f"{expected!r:.200} in NumPy; {found!r:.200} here")
    )


def _arrays(expected: Any, found: Any) -> tuple[str, str]:
    if found.dtype != expected.dtype:
        return "wrong dtype", f"{expected.dtype} in NumPy; {found.dtype} here"
    if found.shape != expected.shape:
        return "wrong shape", f"{expected.shape} in NumPy; {found.shape} here"
    if found.tobytes() == expected.tobytes():
        return "", ""
    parts = (lambda x: (x.real, x.imag)) if expected.dtype.kind == "c" else (lambda x: (x,))
    near = _TOLERANCES.get(expected.dtype.char, 0) * max(map(_largest, parts(expected)))
    exact = True
    for one, other in zip(parts(expected), parts(found), strict=True):
        equal = (one == other) & (numpy.signbit(one) == numpy.signbit(other)) if one.dtype.kind == "f" else one == other
        differing = ~(equal | (numpy.isnan(one) & numpy.isnan(other))) if one.dtype.kind == "f" else ~equal
        if differing.any():
            exact = False
            far = differing & ~_is_near(one, other, near) if near else differing
            if far.any():
                place = tuple(int(i[0]) for i in numpy.nonzero(far)) if far.ndim else ()
                return "wrong value", f"at {place}, {expected[place]!r} in NumPy; {found[place]!r} here"
    return ("", "") if exact else ("rounding", "")


def _largest(x: Any) -> float:
    """Return the largest absolute value among the finite elements; rounding errors are relative to it."""
    return float(numpy.abs(x[numpy.isfinite(x)]).max(initial=0.0)) if x.dtype.kind == "f" else 0.0


def _is_near(one: Any, other: Any, near: float) -> Any:
    """Return where finite elements, not only the signs of zeros, differ by no more than ``near``."""
    finite = numpy.isfinite(one) & numpy.isfinite(other)
    wide, close = (numpy.where(finite, x, 0).astype("f8") for x in (one, other))
    return finite & (wide != close) & (numpy.abs(wide - close) <= near)
