"""Windows for spectra: ``bartlett``, ``blackman``, ``hamming``, ``hanning`` and ``kaiser``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ...core.dtypes.names import default_float
from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...dispatch.registry import registry
from ...ops.builtin import load
from ...ops.builtin.creation import arange, ones
from ...ops.builtin.elementwise.arithmetic import abs, maximum
from ...ops.builtin.elementwise.exponential import sqrt

load("elementwise.trigonometry")  # Note [Operators that are declared on first use]
from ...ops.builtin.elementwise.trigonometry import cos  # noqa: E402

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _window(function: str, n: Any, dtype: Any, device: Any, formula: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a function of 1 - n, 3 - n, ..., n - 1, or an array of ones if n is below 2."""
    try:
        count = operator.index(n)
    except TypeError:
        raise TypeError(f"[{function}] the number of points must be an int, got {n!r}.") from None
    if count < 2:
        return ones((max(count, 0),), dtype=dtype, device=device)
    return formula(arange(1 - count, count, 2, dtype=default_float() if dtype is None else dtype, device=device))


@public
def bartlett(n: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the Bartlett window of ``n`` points: a triangle from 0 to 1 and back.

    >>> tk.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window("bartlett", n, dtype, device, lambda k: 1.0 - abs(k) / (n - 1))


def _cosines(n: int, k: Tensor, constant: float, first: float, second: float = 0.0) -> Tensor:
    angle = k * (math.pi / (n - 1))
    made = constant + first * cos(angle)
    return made + second * cos(2.0 * angle) if second else made


@public
def blackman(n: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the Blackman window of ``n`` points: ``0.42 + 0.5 cos(a) + 0.08 cos(2 a)`` for a from -pi to pi.

    >>> round(tk.blackman(3)[1].item(), 6)
    1.0
    """
    return _window("blackman", n, dtype, device, lambda k: _cosines(n, k, 0.42, 0.5, 0.08))


@public
def hamming(n: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the Hamming window of ``n`` points: ``0.54 + 0.46 cos(a)`` for a from -pi to pi.

    >>> f"{tk.hamming(3)[0].item():.2f}"
    '0.08'
    """
    return _window("hamming", n, dtype, device, lambda k: _cosines(n, k, 0.54, 0.46))


@public
def hanning(n: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the Hann window of ``n`` points: ``0.5 + 0.5 cos(a)`` for a from -pi to pi.

    >>> tk.hanning(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _window("hanning", n, dtype, device, lambda k: _cosines(n, k, 0.5, 0.5))


@public
def kaiser(n: int, beta: float | Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return the Kaiser window of ``n`` points, ``i0(beta * sqrt(1 - t**2)) / i0(beta)`` for t from -1 to 1.

    ``beta`` is a number or a 0-d tensor, for which there is a gradient: 0 gives a rectangle, 5 and 8.6 are similar to
    Hamming's and Blackman's windows. Source: J. Kaiser, "Digital filters" (1966).

    >>> tk.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    i0 = registry.find("tk::special_i0").call

    def formula(k: Tensor) -> Tensor:
        t = k / (n - 1)
        bound = beta if isinstance(beta, Tensor) else ones((), dtype=k.dtype, device=device) * float(beta)
        return i0(bound * sqrt(maximum(1.0 - t * t, 0.0))) / i0(bound)  # type: ignore[no-any-return]

    return _window("kaiser", n, dtype, device, formula)
