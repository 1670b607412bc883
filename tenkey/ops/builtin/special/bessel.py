"""Bessel functions of the orders 0 and 1 of real numbers, as scalar expressions: ``tk.special``.

The modified ones of the first kind, ``i0`` and its kin, are in ``special_gamma``.
"""

from __future__ import annotations

import math
from typing import Any, Final

from ... import scalar as s
from ...declare import REAL_TO_FLOAT, Entry, pointwise
from ..elementwise.comparison import where
from . import bessel_coefficients as c
from .basic import horner

# Note [Bessel functions in two ranges]
#     Up to 8 (the modified ones up to 2) they are a polynomial of the square of x, those of the second kind with the
#     logarithm taken out; beyond, the wave (or the exponential function) times a polynomial of 1 / x. The wave's phase,
#     x less an odd number of eighths of a turn, is not computed: cosine and sine of x itself are added. So the error is
#     a few units of the amplitude's last place, whatever x is, and near the zeros no more than that. Guarded by
#     tests/ops/test_special_families.py::test_bessel_functions.
_SEAM: Final = 8
_TWO_OVER_PI: Final = 2 / math.pi


def _square(T: Any, size: Any) -> tuple[Any, Any, Any]:
    """Whether a number is near, it (or 1), and the variable of the near polynomials."""
    near = size <= _SEAM
    inner = s.where(near, size, T(1))
    return near, inner, inner * inner * (1 / 32) - 1


def _wave(T: Any, size: Any, even: Any, odd: Any) -> tuple[Any, Any]:
    """The Bessel functions of the first and the second kind of order 0, or with the polynomials of order 1 both turned.

    That is J1 and Y1 as -Y and J of these.
    """
    wide = s.where(size > _SEAM, size, T(_SEAM))
    eighth = _SEAM / wide
    t = 2 * eighth * eighth - 1
    p, q = horner(T, even, t), horner(T, odd, t) * eighth
    finite = s.where(s.isinf(wide), T(_SEAM), wide)
    cosine, sine = s.cos(finite), s.sin(finite)
    amplitude = 1 / s.sqrt(wide * math.pi)
    plus, minus = cosine + sine, sine - cosine
    return amplitude * (p * plus - q * minus), amplitude * (p * minus + q * plus)


def _j0(T: Any, x: Any) -> Any:
    size = s.abs(x)
    near, _, t = _square(T, size)
    close = s.where(x == 0, T(1), horner(T, c.J0_NEAR, t))
    return s.where(s.isnan(x), x, s.where(near, close, _wave(T, size, c.P0, c.Q0)[0]))


def _j1(T: Any, x: Any) -> Any:
    size = s.abs(x)
    near, _, t = _square(T, size)
    far = _wave(T, size, c.P1, c.Q1)[1]
    return s.where(near, horner(T, c.J1_NEAR, t) * x, s.where(s.isnan(x), x, s.where(x < 0, -far, far)))


def _of_positive(T: Any, x: Any, value: Any, at_zero: float) -> Any:
    return s.where(x > 0, value, s.where(x == 0, T(at_zero), T(math.nan)))


def _y0(T: Any, x: Any) -> Any:
    size = s.where(x > 0, x, T(1))
    near, inner, t = _square(T, size)
    close = _TWO_OVER_PI * s.log(inner) * horner(T, c.J0_NEAR, t) + horner(T, c.Y0_NEAR, t)
    return _of_positive(T, x, s.where(near, close, _wave(T, size, c.P0, c.Q0)[1]), -math.inf)


def _y1(T: Any, x: Any) -> Any:
    size = s.where(x > 0, x, T(1))
    near, inner, t = _square(T, size)
    smooth = _TWO_OVER_PI * s.log(inner) * horner(T, c.J1_NEAR, t) + horner(T, c.Y1_NEAR, t)
    close = smooth * inner - _TWO_OVER_PI / inner
    return _of_positive(T, x, s.where(near, close, -_wave(T, size, c.P1, c.Q1)[0]), -math.inf)


def _ranges(T: Any, x: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Of a modified function: whether x is near, it, the near variable, what is far, and the far variable."""
    size = s.where(x > 0, x, T(1))
    near = size <= 2
    inner = s.where(near, size, T(1))
    wide = s.where(near, T(2), size)
    return near, inner, inner * inner * 0.5 - 1, wide, 4 / wide - 1


def _log_of_half(T: Any, x: Any) -> Any:
    """``log(x / 2)``: the quotient may underflow, and the difference of logarithms loses digits where x is about 2."""
    small = x < T(0.01)
    return s.log(s.where(small, x, x * T(0.5))) - s.where(small, T(math.log(2)), T(0))


def _k0(T: Any, x: Any, scaled: bool) -> Any:
    near, inner, t, wide, u = _ranges(T, x)
    close = horner(T, c.K0_NEAR, t) - _log_of_half(T, inner) * horner(T, c.I0_NEAR, t)
    far = horner(T, c.K0_FAR, u) / s.sqrt(wide)
    return _of_positive(T, x, _scaled(near, inner, wide, close, far, scaled), math.inf)


def _k1(T: Any, x: Any, scaled: bool) -> Any:
    near, inner, t, wide, u = _ranges(T, x)
    close = 1 / inner + (horner(T, c.K1_NEAR, t) + _log_of_half(T, inner) * horner(T, c.I1_NEAR, t)) * inner
    far = horner(T, c.K1_FAR, u) / s.sqrt(wide)
    return _of_positive(T, x, _scaled(near, inner, wide, close, far, scaled), math.inf)


def _scaled(near: Any, inner: Any, wide: Any, close: Any, far: Any, scaled: bool) -> Any:
    return s.where(near, close * s.exp(inner), far) if scaled else s.where(near, close, far * s.exp(-wide))


def _slope(x: Any, out: Any) -> Any:
    """``J1(x) / x``, with its limit at 0."""
    zero = x == 0
    return where(zero, 0.5, out / where(zero, 1.0, x))


special_j0: Entry = pointwise(
    "special_j0(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _j0(T, x),
    partials=lambda x: -special_j1(x),
    promote=REAL_TO_FLOAT,
    doc="""Bessel function of the first kind and order 0, of real numbers (DLMF 10.2.2).

    >>> import tenkey as tk
    >>> f"{tk.special.j0(tk.asarray(1.0)):.5f}"
    '0.76520'
    """,
)

special_j1: Entry = pointwise(
    "special_j1(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _j1(T, x),
    partials=lambda x, out: special_j0(x) - _slope(x, out),
    promote=REAL_TO_FLOAT,
    doc="""Bessel function of the first kind and order 1, of real numbers (DLMF 10.2.2).

    >>> import tenkey as tk
    >>> f"{tk.special.j1(tk.asarray(1.0)):.5f}"
    '0.44005'
    """,
)

special_y0: Entry = pointwise(
    "special_y0(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _y0(T, x),
    partials=lambda x: -special_y1(x),
    promote=REAL_TO_FLOAT,
    domain=(0.5, 12.0),
    doc="""Bessel function of the second kind and order 0 (DLMF 10.2.3); minus infinity at 0, nan below.

    >>> import tenkey as tk
    >>> f"{tk.special.y0(tk.asarray(1.0)):.5f}"
    '0.08826'
    """,
)

special_y1: Entry = pointwise(
    "special_y1(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _y1(T, x),
    partials=lambda x, out: special_y0(x) - out / x,
    promote=REAL_TO_FLOAT,
    domain=(0.5, 12.0),
    doc="""Bessel function of the second kind and order 1 (DLMF 10.2.3); minus infinity at 0, nan below.

    >>> import tenkey as tk
    >>> f"{tk.special.y1(tk.asarray(1.0)):.5f}"
    '-0.78121'
    """,
)

special_k0: Entry = pointwise(
    "special_k0(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _k0(T, x, False),
    partials=lambda x: -special_k1(x),
    promote=REAL_TO_FLOAT,
    domain=(0.3, 5.0),
    doc="""Modified Bessel function of the second kind and order 0 (DLMF 10.25.3); infinite at 0, nan below.

    >>> import tenkey as tk
    >>> f"{tk.special.k0(tk.asarray(1.0)):.5f}"
    '0.42102'
    """,
)

special_k1: Entry = pointwise(
    "special_k1(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _k1(T, x, False),
    partials=lambda x, out: -special_k0(x) - out / x,
    promote=REAL_TO_FLOAT,
    domain=(0.3, 5.0),
    doc="""Modified Bessel function of the second kind and order 1 (DLMF 10.25.3); infinite at 0, nan below.

    >>> import tenkey as tk
    >>> f"{tk.special.k1(tk.asarray(1.0)):.5f}"
    '0.60191'
    """,
)

special_k0e: Entry = pointwise(
    "special_k0e(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _k0(T, x, True),
    partials=lambda x, out: out - special_k1e(x),
    promote=REAL_TO_FLOAT,
    domain=(0.3, 5.0),
    doc="""``exp(x) * k0(x)``, which does not vanish for large ``x``.

    >>> import tenkey as tk
    >>> f"{tk.special.k0e(tk.asarray(1e4)):.5f}"
    '0.01253'
    """,
)

special_k1e: Entry = pointwise(
    "special_k1e(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _k1(T, x, True),
    partials=lambda x, out: out - special_k0e(x) - out / x,
    promote=REAL_TO_FLOAT,
    domain=(0.3, 5.0),
    doc="""``exp(x) * k1(x)``, which does not vanish for large ``x``.

    >>> import tenkey as tk
    >>> f"{tk.special.k1e(tk.asarray(1e4)):.5f}"
    '0.01253'
    """,
)
