"""Factories as scalar expressions of index variables, for devices: the values of the NumPy kernels beside the blocks.

Each function takes the arguments of a factory and returns its plan (``elements=`` of ``factory``). The order of the
operations is NumPy's, so a device that does not contract ``a * b + c`` into one operation gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

import numpy as np

from ...core.dtypes import names as dtypes
from ..declare import ElementPlan
from ..scalar import floor, index, pow, where

__all__ = ["arange_plan", "diagonal_plan", "frequency_plan", "linspace_plan", "powers_plan", "whole_steps"]

_LARGEST: Final = 2**31 - 1


def _steps(T: Any) -> Any:
    return lambda first, step: index(0) * step + first


def whole_steps(first: Any, step: Any) -> tuple[int, int]:
    """Return the first value and the step for an integer dtype: the first two values are truncated, as in NumPy."""
    return int(first), int(first + step) - int(first)


def arange_plan(
    start: Any, stop: Any = None, step: Any = 1, *, dtype: np.dtype | None = None, device: Any = None
) -> ElementPlan | None:
    """Compute integers modulo 2**64, where a negative step is in range too, and floats in double precision."""
    first, last = (0, start) if stop is None else (start, stop)
    wanted = dtype or dtypes.to_dtype(float if any(isinstance(v, float) for v in (first, last, step)) else int)
    if wanted.kind == "b":
        return None  # up to two elements
    exact = dtypes.float64 if wanted.kind in "fV" else wanted
    if wanted.kind in "iu":
        first, step = (value % (1 << 64) for value in whole_steps(first, step))
        exact = dtypes.uint64
    return ElementPlan(_steps, exact, {"first": first, "step": step})


def _linspace(T: Any) -> Any:
    return lambda start, stop, delta, div, step, last: where(
        index(0) == last, stop, where(step == 0, index(0) / div * delta, index(0) * step) + start
    )


def _whole_linspace(T: Any) -> Any:
    return lambda *numbers: floor(_linspace(T)(*numbers))


_ENDS: Final = ("start", "stop", "delta", "div", "step", "last")


def _evenly(start: Any, stop: Any, num: int, endpoint: bool) -> dict[str, Any]:
    """Return the numbers of ``_linspace``; ``last`` is -1 if the last value is computed like the others."""
    div = max(num - 1 if endpoint else num, 1)
    with np.errstate(all="ignore"):
        delta = stop - start
        values = (start, stop, delta, div, delta / div, num - 1 if endpoint and num > 1 else -1)
    return dict(zip(_ENDS, values, strict=True))


def linspace_plan(
    start: Any, stop: Any, num: int, *, dtype: np.dtype | None = None, device: Any = None, endpoint: bool = True
) -> ElementPlan:
    """Compute in double precision; floor the values for an integer dtype."""
    kind = np.complex128 if isinstance(start, complex) or isinstance(stop, complex) else np.float64
    numbers = copy_context().run(_evenly, kind(start), kind(stop), num, endpoint)  # a context ends in C
    whole = dtype is not None and dtype.kind in "iu"
    return ElementPlan(_whole_linspace if whole else _linspace, np.dtype(kind), numbers)


def _all_powers(T: Any) -> Any:
    return lambda base, *numbers: pow(base, _linspace(T)(*numbers))


def _powers(T: Any) -> Any:
    def power(base: Any, sign: Any, begin: Any, end: Any, final: Any, *numbers: Any) -> Any:
        inside = where(index(0) == final, end, _all_powers(T)(base, *numbers))
        return sign * where(index(0) == 0, begin, inside)

    return power


def powers_plan(geometric: bool) -> Callable[..., ElementPlan]:
    """Return the plan of ``geomspace``, which keeps both ends exactly, or of ``logspace``, which computes all."""

    def plan(
        start: Any, stop: Any, num: int, *, base: float = 10.0, endpoint: bool = True, dtype: Any = None,
        device: Any = None,
    ) -> ElementPlan:  # fmt: skip
        low, high = np.float64(start), np.float64(stop)
        if not geometric:
            numbers = copy_context().run(_evenly, low, high, num, endpoint)
            return ElementPlan(_all_powers, dtypes.float64, {"base": base, **numbers})
        sign = np.sign(low)
        low, high = low / sign, high / sign
        ends = {"sign": sign, "begin": low, "end": high, "final": num - 1 if endpoint and num > 1 else -1}
        numbers = copy_context().run(_evenly, np.log10(low), np.log10(high), num, endpoint)
        return ElementPlan(_powers, dtypes.float64, {"base": base, **ends, **numbers})

    return plan


def _on_diagonal(T: Any) -> Any:
    return lambda k: where(index(1) - index(0) == k, 1, 0)


def _below_diagonal(T: Any) -> Any:
    return lambda k: where(index(1) - index(0) <= k, 1, 0)


def diagonal_plan(below: bool) -> Callable[..., ElementPlan]:
    """Return the plan of ``tri`` or ``eye``."""

    def plan(
        n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: np.dtype | None = None, device: Any = None
    ) -> ElementPlan:
        narrow = max(n_rows, n_cols or 0) <= _LARGEST  # 32 bits suffice, and some devices have no others
        limit = _LARGEST if narrow else 2**63 - 1
        number = min(max(k, -limit), limit)
        return ElementPlan(
            _below_diagonal if below else _on_diagonal, dtypes.int32 if narrow else dtypes.int64, {"k": number}
        )

    return plan


def _frequencies(T: Any) -> Any:
    return lambda unit, n, half: where(index(0) < half, index(0), index(0) - n) * unit


def frequency_plan(n: int, d: float = 1.0, *, half: bool, dtype: Any = None, device: Any = None) -> ElementPlan:
    """Compute multiples of 1 / (n d); with ``half`` none of them is negative."""
    bound = n if half else (n - 1) // 2 + 1
    return ElementPlan(_frequencies, dtypes.float64, {"unit": 1.0 / (n * d), "n": n, "half": bound})
