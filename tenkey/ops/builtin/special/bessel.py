"""Bessel functions of order 0 and 1 of real numbers, as scalar expressions: ``tk.special``."""

from __future__ import annotations

import math
from typing import Any, Final

from ... import scalar as s
from ...declare import elementwise
from ..elementwise.arithmetic import sign
from ..elementwise.comparison import where
from . import coefficients as c
from .series import horner, power_series

# Note [Bessel functions in two ranges]
#     Up to 8 (the modified functions of the second kind up to 2) they are a polynomial of the square of x, those of the
#     second kind without their logarithm; beyond, the wave (or the exponential function) times a polynomial of 1 / x.
#     The phase of the wave, x less an odd number of eighths of a turn, is not computed: cosine and sine of x itself are
#     added. So the error is a few units in the last place of the amplitude, whatever x is, and no more than that near
#     the zeros. Guarded by tests/ops/test_special_families.py::test_bessel_functions.
_SEAM: Final = 8
_TWO_OVER_PI: Final = 2 / math.pi


def _square(T: Any, size: Any) -> tuple[Any, Any, Any]:
    """Return whether a number is near, it (or 1), and the variable of the near polynomials."""
    near = size <= _SEAM
    inner = s.where(near, size, T(1))
    return near, inner, inner * inner * (1 / 32) - 1


def _wave(T: Any, size: Any, even: Any, odd: Any) -> tuple[Any, Any]:
    """Return J0 and Y0 beyond the seam; with the polynomials of order 1, -Y1 and J1."""
    wide = s.where(size > _SEAM, size, T(_SEAM))
    eighth = _SEAM / wide
    t = 2 * eighth * eighth - 1
    p, q = horner(T, even, t), horner(T, odd, t) * eighth
    finite = s.where(s.isinf(wide), T(_SEAM), wide)
    cosine, sine = s.cos(finite), s.sin(finite)
    amplitude = 1 / s.sqrt(wide * math.pi)
    plus, minus = cosine + sine, sine - cosine
    return amplitude * (p * plus - q * minus), amplitude * (p * minus + q * plus)


def _of_positive(T: Any, x: Any, value: Any, at_zero: float) -> Any:
    return s.where(x > 0, value, s.where(x == 0, T(at_zero), T(math.nan)))


def _over(x: Any, out: Any) -> Any:
    """Return ``out / x`` for a function of order 1, whose limit at 0 is 1/2."""
    zero = x == 0
    return where(zero, 0.5, out / where(zero, 1.0, x))


@elementwise(partials=lambda x: -special_j1(x))
def special_j0(T: Any, x: Any) -> Any:
    """Return the Bessel function of the first kind and order 0 of real numbers (DLMF 10.2.2).

    >>> f"{tk.special.j0(tk.asarray(1.0)):.5f}"
    '0.76520'
    """
    size = s.abs(x)
    near, _, t = _square(T, size)
    close = s.where(x == 0, T(1), horner(T, c.J0_NEAR, t))
    return s.where(s.isnan(x), x, s.where(near, close, _wave(T, size, c.P0, c.Q0)[0]))


@elementwise(partials=lambda x, out: special_j0(x) - _over(x, out))
def special_j1(T: Any, x: Any) -> Any:
    """Return the Bessel function of the first kind and order 1 of real numbers (DLMF 10.2.2).

    >>> f"{tk.special.j1(tk.asarray(1.0)):.5f}"
    '0.44005'
    """
    size = s.abs(x)
    near, _, t = _square(T, size)
    far = _wave(T, size, c.P1, c.Q1)[1]
    return s.where(near, horner(T, c.J1_NEAR, t) * x, s.where(s.isnan(x), x, s.where(x < 0, -far, far)))


@elementwise(partials=lambda x: -special_y1(x), domain=(0.5, 12.0))
def special_y0(T: Any, x: Any) -> Any:
    """Return the Bessel function of the second kind and order 0 (DLMF 10.2.3); minus infinity at 0, nan below.

    >>> f"{tk.special.y0(tk.asarray(1.0)):.5f}"
    '0.08826'
    """
    size = s.where(x > 0, x, T(1))
    near, inner, t = _square(T, size)
    close = _TWO_OVER_PI * s.log(inner) * horner(T, c.J0_NEAR, t) + horner(T, c.Y0_NEAR, t)
    return _of_positive(T, x, s.where(near, close, _wave(T, size, c.P0, c.Q0)[1]), -math.inf)


@elementwise(partials=lambda x, out: special_y0(x) - out / x, domain=(0.5, 12.0))
def special_y1(T: Any, x: Any) -> Any:
    """Return the Bessel function of the second kind and order 1 (DLMF 10.2.3); minus infinity at 0, nan below.

    >>> f"{tk.special.y1(tk.asarray(1.0)):.5f}"
    '-0.78121'
    """
    size = s.where(x > 0, x, T(1))
    near, inner, t = _square(T, size)
    smooth = _TWO_OVER_PI * s.log(inner) * horner(T, c.J1_NEAR, t) + horner(T, c.Y1_NEAR, t)
    close = smooth * inner - _TWO_OVER_PI / inner
    return _of_positive(T, x, s.where(near, close, -_wave(T, size, c.P1, c.Q1)[0]), -math.inf)


# ---- modified functions of the first kind


def _i0e(T: Any, x: Any) -> Any:
    size = s.abs(x)
    low = size <= _SEAM
    at = s.where(low, size, T(0)) * 0.25 - 1
    near = power_series(T, c.I0_SMALL, at)  # all terms: i0(0) is 1 exactly
    wide = s.where(low, T(_SEAM), size)
    return s.where(low, near, horner(T, c.I0_LARGE, 16 / wide - 1) / s.sqrt(wide))


def _i1e(T: Any, x: Any) -> Any:
    size = s.abs(x)
    low = size <= _SEAM
    near = horner(T, c.I1_SMALL, s.where(low, size, T(0)) * 0.25 - 1) * x
    wide = s.where(low, T(_SEAM), size)
    return s.where(low, near, s.copysign(horner(T, c.I1_LARGE, 16 / wide - 1) / s.sqrt(wide), x))


def _grown(T: Any, scaled: Any, x: Any) -> Any:
    half = s.exp(s.abs(x) * 0.5)  # two halves, because the exponential function overflows before the product does
    return s.where(s.isinf(half), s.copysign(half, scaled), half * scaled * half)


@elementwise(partials=lambda x: special_i1(x))
def special_i0(T: Any, x: Any) -> Any:
    """Return the modified Bessel function of the first kind and order 0 (DLMF 10.25).

    >>> f"{tk.special.i0(tk.asarray(1.0)):.5f}"
    '1.26607'
    """
    return _grown(T, _i0e(T, x), x)


@elementwise(partials=lambda x, out: special_i1e(x) - sign(x) * out)
def special_i0e(T: Any, x: Any) -> Any:
    """Return ``exp(-abs(x)) * i0(x)``, which does not overflow.

    >>> f"{tk.special.i0e(tk.asarray(1e6)):.7f}"
    '0.0003989'
    """
    return _i0e(T, x)


@elementwise(partials=lambda x, out: special_i0(x) - _over(x, out))
def special_i1(T: Any, x: Any) -> Any:
    """Return the modified Bessel function of the first kind and order 1 (DLMF 10.25).

    >>> f"{tk.special.i1(tk.asarray(1.0)):.5f}"
    '0.56516'
    """
    return _grown(T, _i1e(T, x), x)


@elementwise(partials=lambda x, out: special_i0e(x) - sign(x) * out - _over(x, out))
def special_i1e(T: Any, x: Any) -> Any:
    """Return ``exp(-abs(x)) * i1(x)``, which does not overflow.

    >>> f"{tk.special.i1e(tk.asarray(-1.0)):.5f}"
    '-0.20791'
    """
    return _i1e(T, x)


# ---- modified functions of the second kind


def _ranges(T: Any, x: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return whether x is near, it (or 1), the near variable, x where it is far, and the far variable."""
    size = s.where(x > 0, x, T(1))
    near = size <= 2
    inner = s.where(near, size, T(1))
    wide = s.where(near, T(2), size)
    return near, inner, inner * inner * 0.5 - 1, wide, 4 / wide - 1


def _log_of_half(T: Any, x: Any) -> Any:
    """Return ``log(x / 2)``: x / 2 may underflow, and a difference of logarithms loses digits where x is about 2."""
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


@elementwise(partials=lambda x: -special_k1(x), domain=(0.3, 5.0))
def special_k0(T: Any, x: Any) -> Any:
    """Return the modified Bessel function of the second kind and order 0 (DLMF 10.25.3); infinite at 0, nan below.

    >>> f"{tk.special.k0(tk.asarray(1.0)):.5f}"
    '0.42102'
    """
    return _k0(T, x, False)


@elementwise(partials=lambda x, out: -special_k0(x) - out / x, domain=(0.3, 5.0))
def special_k1(T: Any, x: Any) -> Any:
    """Return the modified Bessel function of the second kind and order 1 (DLMF 10.25.3); infinite at 0, nan below.

    >>> f"{tk.special.k1(tk.asarray(1.0)):.5f}"
    '0.60191'
    """
    return _k1(T, x, False)


@elementwise(partials=lambda x, out: out - special_k1e(x), domain=(0.3, 5.0))
def special_k0e(T: Any, x: Any) -> Any:
    """Return ``exp(x) * k0(x)``, which does not vanish for large ``x``.

    >>> f"{tk.special.k0e(tk.asarray(1e4)):.5f}"
    '0.01253'
    """
    return _k0(T, x, True)


@elementwise(partials=lambda x, out: out - special_k0e(x) - out / x, domain=(0.3, 5.0))
def special_k1e(T: Any, x: Any) -> Any:
    """Return ``exp(x) * k1(x)``, which does not vanish for large ``x``.

    >>> f"{tk.special.k1e(tk.asarray(1e4)):.5f}"
    '0.01253'
    """
    return _k1(T, x, True)
