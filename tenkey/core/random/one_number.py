"""The samplers of ``samplers`` for one number: the same formulas on scalars, and the same bits.

An array of one element costs a microsecond for each of some hundred operations, a scalar a tenth of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from . import exact_functions as exact
from .philox import ATTEMPTS, TAG_SHIFT
from .samplers import (
    ATTEMPTS_PER_ELEMENT,
    EXP_TERMS,
    INVERSION_STEPS,
    LOG_GREATEST,
    LOG_LEAST,
    REJECTION,
    stirling_series,
    stirling_table,
)

__all__ = ["exp_of_one", "log1p_of_one", "rejection_of_one"]

_Float: Final = np.float64


def _balanced(x: float) -> tuple[float, float]:
    mantissa, power = math.frexp(x)
    return exact.balanced(_PYTHON, mantissa, float(power))


_PYTHON: Final = SimpleNamespace(
    balanced=_balanced, floor=math.floor, where=lambda condition, x, y: x if condition else y
)


def exp_of_one(x: float) -> float:
    """Return what ``samplers.exact_exp`` returns for one number.

    >>> exp_of_one(0.0), exp_of_one(-1000.0), exp_of_one(1000.0)
    (1.0, 0.0, inf)
    """
    if x != x:
        return math.nan
    clipped = min(max(x, LOG_LEAST), LOG_GREATEST)
    power = float(math.floor(clipped * (1 / math.log(2.0)) + 0.5))
    rest = (clipped - power * exact.LOG2_HIGH) - power * exact.LOG2_LOW
    half = math.floor(power * 0.5)
    try:
        return math.ldexp(math.ldexp(exact.horner(rest, EXP_TERMS), half), int(power) - half)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    if 0.0 < x < math.inf:
        return exact.log(_PYTHON, x)  # type: ignore[no-any-return]
    return -math.inf if not x > 0.0 else 0.0


def _safe_log(x: float) -> float:
    return _log(float(x)) if x > 0.0 else -math.inf


def log1p_of_one(x: float) -> float:
    """Return what ``samplers.exact_log1p`` returns for one number.

    >>> log1p_of_one(0.0), log1p_of_one(1e-20), log1p_of_one(-1.0)
    (0.0, 1e-20, -inf)
    """
    shifted = 1.0 + x
    if shifted == 1.0:
        return x
    if not shifted > 0.0:
        return -math.inf if x == -1.0 else math.nan
    return _safe_log(shifted) - ((shifted - 1.0) - x) / shifted


def _turns(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda turns: _Float(function(_PYTHON, float(turns)))


def _where(condition: Any, x: Any, y: Any) -> Any:
    chosen = x if condition else y
    return chosen if isinstance(chosen, np.generic) else _Float(chosen)


def _least(x: Any, y: Any) -> Any:
    return _Float(x if x < y or x != x else y)


def _greatest(x: Any, y: Any) -> Any:
    return _Float(x if x > y or x != x else y)


def _until_accepted(like: Any, attempt: Callable[[Any, int], tuple[Any, Any]]) -> Any:
    candidate, accepted = attempt((), 0)
    for j in range(1, ATTEMPTS_PER_ELEMENT):
        if accepted:
            break
        candidate, accepted = attempt((), 2 * j)
    return _Float(candidate)


def _by_inversion(u: Any, first: Any, ratio: Callable[[Any, int], Any]) -> Any:
    probability = total = first
    k = 0
    while k < INVERSION_STEPS and u > total and (probability > 0 or not k):
        k += 1
        probability = probability * ratio((), k)
        total = total + probability
    return _Float(k)


def _stirling_error(k: Any) -> Any:
    return stirling_table()[int(k) if k > 0.0 else 0] if k < 16.0 else stirling_series(_Float(k))


_SCALARS: Final = SimpleNamespace(
    abs=abs, by_inversion=_by_inversion, cosine=_turns(exact.cosine), digits=lambda bits, drop: float(bits >> drop),
    exp=lambda x: _Float(exp_of_one(float(x))), fill=lambda out, condition, f: f(()) if condition else out,
    floor=np.floor, log=lambda x: _Float(_log(float(x))), log1p=lambda x: _Float(log1p_of_one(float(x))),
    maximum=_greatest, minimum=_least, safe_log=lambda x: _Float(_safe_log(x)), sine=_turns(exact.sine), sqrt=np.sqrt,
    stirling_error=_stirling_error, until_accepted=_until_accepted,
    where=_where, zeros_like=lambda x: _Float(0.0),
)  # fmt: skip


class _Element:
    """The blocks of one element: ``_Elements`` of ``samplers`` for a scalar."""

    def __init__(self, key: tuple[int, int], block: int) -> None:
        self._key = key
        self._block = block + (ATTEMPTS << TAG_SHIFT)

    def __getitem__(self, index: Any) -> _Element:
        return self

    def bits(self, index: Any, block: int) -> tuple[int, int]:
        (seed, stream), place = self._key, self._block + block
        words = exact.philox(
            place & exact.MASK32, place >> 32, stream & exact.MASK32, stream >> 32, seed & exact.MASK32, seed >> 32
        )
        return exact.double(*words[:2]), exact.double(*words[2:])


def rejection_of_one(kind: str, key: tuple[int, int], block: int, *parameters: float) -> float:
    """Return what ``samplers.rejection`` draws for one address.

    >>> from tenkey.core.random.samplers import rejection
    >>> address = np.array([640, 3], np.uint64)
    >>> drawn = rejection("gamma", np.array(2.5), np.zeros(()), address, 7)
    >>> rejection_of_one("gamma", (7, 3), 640, 2.5, 0.0) == drawn.item()
    True
    """
    with np.errstate(all="ignore"):
        return float(REJECTION[kind](_SCALARS, _Element(key, block), *[_Float(p) for p in parameters]))
