"""The logarithm of the gamma function and its derivatives, for float64 alone.

Numbers of float32 are computed in float64; `lgamma_float32` is as accurate as these need. `constants.py` says how the
functions are written; these polynomials interpolate at Chebyshev nodes. Series and reflection: NIST Digital Library of
Mathematical Functions, 5.11.1, 5.11.2, 5.15.8, 5.5.3, 5.5.4.
"""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, fabs, floor, rint
from .angles import _PI, sin, tan
from .constants import INFINITY, LN2, NAN
from .logarithms import _split_float64, log
from .operations import horner, select

__all__ = ["digamma", "lgamma", "lgamma_float32", "trigamma"]

_HALF_LOG_2PI = 0.9189385332046728
_TINY = 1e-17
_MIDDLE = 5.5
_RADIUS = 2.5
_SHORT_SCALE = 0.4
_ONE_OVER_PI = 0.3183098861837907
_LARGE = 8.0  # from which Stirling's series serves
# lgamma(a) / ((a - 1) (a - 2)), 1 <= a <= 3, as a polynomial in a - 2, error 2**-55.1
_LGAMMA_NEAR = (
    0.42278433509846713, -0.1003173016743539, 0.032965000621155816, -0.012384192193374183, 0.004998641164698706,
    -0.0021081308338353785, 0.0009153769221939477, -0.0004057073998333553, 0.00018255264018626728,
    -8.309510094797398e-05, 3.8168877217049974e-05, -1.7661849545809686e-05, 8.22227252824938e-06,
    -3.8465374565754054e-06, 1.8077244952477939e-06, -8.554195306752008e-07, 4.0491176292722286e-07,
    -1.8624721164419038e-07, 8.858800462314761e-08, -5.1889381335192836e-08, 2.4876913129422816e-08,
    -9.172949166290702e-10, 3.821541398410965e-10, -8.87711600370437e-09, 4.305220610785349e-09,
    2.444386936885692e-09, -1.1901740908188623e-09, -8.152852870624974e-10, 3.9592899392841773e-10,
)  # fmt: skip

# lgamma(a) / (a - 2), 3 <= a <= 8, as a polynomial in (a - 5.5) / 2.5, error 2**-52.5
_LGAMMA_MIDDLE = (
    1.1308039907482046, 0.34306368416681865, -0.06706121459270298, 0.018429924470038283, -0.005867639188094793,
    0.0020300366305319823, -0.0007409545251783454, 0.00028071781163732586, -0.00010930287592595611,
    4.345585370834067e-05, -1.7561680026669744e-05, 7.191273419563606e-06, -2.976203590471356e-06,
    1.241088584508316e-06, -5.220482818454912e-07, 2.2448978170858313e-07, -9.558969023122733e-08,
    3.573411018316844e-08, -1.5296720618861883e-08, 1.163986201469874e-08, -5.060476716731329e-09,
    -9.798575858154291e-10, 4.368114813268674e-10, 9.635102361879664e-10, -4.2223699691898306e-10,
)  # fmt: skip

# The same for `lgamma_float32`, error 2**-27.5 and 2**-28.3, log(1 + f) / f, sqrt(1/2) <= 1 + f < sqrt(2), 2**-30.5,
# and sin(pi r) / r as a polynomial in r**2, |r| <= 1/2, 2**-27.5: by Remez exchange in 60 digits
_SHORT_NEAR = (
    0.422784335661, -0.100317272967, 0.0329649465501, -0.0123849771784, 0.00499948466976, -0.00210204991748,
    0.000910487402265, -0.000425598219725, 0.000195837713527, -5.23924436771e-05, 2.02141220111e-05,
    -3.87440719204e-05, 1.93208448946e-05,
)  # fmt: skip
_SHORT_MIDDLE = (
    1.13080399323, 0.343063656732, -0.0670613949286, 0.018430529794, -0.00586554568546, 0.00202618508904,
    -0.000749700491105, 0.00029119681589, -9.32027200218e-05, 2.98798260692e-05, -3.0442502997e-05, 1.50759872647e-05,
)  # fmt: skip
_SHORT_LOG = (
    1.00000000063, -0.499999996656, 0.333333014961, -0.250000271974, 0.200025819579, -0.166679144279, 0.142124259499,
    -0.124009534298, 0.11926723019, -0.117192218582, 0.0672534187324,
)  # fmt: skip
_SHORT_SIN = (3.14159263686, -5.16770967966, 2.55006960964, -0.598241290777, 0.0775585374791)
_SHORT_STIRLING = (0.08333333333333333, -0.002777777777777778, 0.0007936507936507937)

# B(2k) / (2k (2k - 1)), B(2k) / (2k) and B(2k), with Bernoulli's numbers B
_STIRLING = (
    0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953, 0.0008417508417508417,
    -0.0019175269175269176, 0.00641025641025641, -0.029550653594771242,
)  # fmt: skip
_DIGAMMA = (
    0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667, 0.007575757575757576,
    -0.021092796092796094, 0.08333333333333333, -0.4432598039215686,
)  # fmt: skip
_TRIGAMMA = (
    0.16666666666666666, -0.03333333333333333, 0.023809523809523808, -0.03333333333333333, 0.07575757575757576,
    -0.2531135531135531, 1.1666666666666667, -7.092156862745098, 54.971177944862156, -529.1242424242424,
)  # fmt: skip


def lgamma(x: Any) -> Any:
    """Logarithm of the absolute value of the gamma function.

    Error below 6 ulp for positive numbers; for negative ones below 1e-14 of the greater of 1 and the
    terms of the reflection.
    """
    a = fabs(x)
    small = a < 1.0
    b = select(small, a + 1.0, a)
    logarithm = log(a)
    near = (b - 1.0) * (b - 2.0) * horner(b - 2.0, _LGAMMA_NEAR)
    near = select(b == 1.0, 0.0, near)  # not -0
    near = select(small, (a - 1.0) * a * horner(a - 1.0, _LGAMMA_NEAR) - logarithm, near)
    middle = (b - 2.0) * horner((b - _MIDDLE) / _RADIUS, _LGAMMA_MIDDLE)
    inverse = 1.0 / a
    series = inverse * horner(inverse * inverse, _STIRLING)
    far = (a - 0.5) * (logarithm - 1.0) + ((_HALF_LOG_2PI - 0.5) + series)
    positive = select(b < 3.0, near, select(b < _LARGE, middle, far))
    positive = select(a == INFINITY, INFINITY, positive)
    sine = fabs(sin(_PI * (a - rint(a))))
    negative = select(a < _TINY, -logarithm, (log(_PI / sine) - logarithm) - positive)
    pole = floor(a) == a
    value = select(x < 0.0, select(pole, INFINITY, negative), positive)
    return select(x == 0.0, INFINITY, value)


def _short_log(x: Any) -> Any:
    _integer, k, f = _split_float64(x)
    return k * LN2 + f * horner(f, _SHORT_LOG)


def lgamma_float32(x: Any) -> Any:
    """`lgamma` of a float32 number. Error below 1 ulp of float32, for negative ones of the terms of the reflection."""
    a = fabs(x)
    small = a < 1.0
    b = select(small, a + 1.0, a)
    logarithm = _short_log(a)
    near = (b - 1.0) * (b - 2.0) * horner(b - 2.0, _SHORT_NEAR)
    near = select(a == 1.0, 0.0, near) - select(small, logarithm, 0.0)  # not -0
    middle = (b - 2.0) * horner((b - _MIDDLE) * _SHORT_SCALE, _SHORT_MIDDLE)
    inverse = 1.0 / a
    series = inverse * horner(inverse * inverse, _SHORT_STIRLING)
    far = (a - 0.5) * (logarithm - 1.0) + ((_HALF_LOG_2PI - 0.5) + series)
    positive = select(b < 3.0, near, select(b < _LARGE, middle, far))
    positive = select(a == INFINITY, INFINITY, positive)
    turn = a - rint(a)
    sine = fabs(turn) * horner(turn * turn, _SHORT_SIN)
    negative = -_short_log(a * sine * _ONE_OVER_PI) - positive
    value = select(x < 0.0, select(floor(a) == a, INFINITY, negative), positive)
    return select(x == 0.0, INFINITY, value)


def digamma(x: Any) -> Any:
    """Derivative of `lgamma`; NaN at its negative poles. Error below 1e-14 of the greater of 1 and the terms."""
    below = x < 0.0
    a = select(below, 1.0 - x, x)
    near = a < _LARGE
    # 1 / a + ... + 1 / (a + 7) as one fraction
    bounded = select(near, a, 1.0)
    above: Any = 1.0
    product = bounded
    step = bounded + 1.0
    for _ in range(7):
        above, product, step = above * step + product, product * step, step + 1.0
    z = select(near, bounded + _LARGE, a)
    inverse = 1.0 / z
    square = inverse * inverse
    series = log(z) - (0.5 * inverse + square * horner(square, _DIGAMMA))
    positive = series - select(near, above / product, 0.0)
    positive = select(a == INFINITY, INFINITY, positive)
    turn = x - rint(x)
    pole = select(turn == 0.0, NAN, turn)
    value = select(below, positive - _PI / tan(_PI * pole), positive)
    return select(x == 0.0, copysign(INFINITY, -x), value)


def trigamma(x: Any) -> Any:
    """Derivative of `digamma`; infinite at the poles. Error below 1e-14 relative to the terms."""
    below = x < 0.0
    a = select(below, 1.0 - x, x)
    near = a < _LARGE
    bounded = select(near, a, 1.0)
    # the sum of 1 / (a + k)**2 for 0 <= k < 8: each by a division, since the squares of a product may vanish
    inverse = 1.0 / bounded
    total = inverse * inverse
    for k in range(1, 8):
        inverse = 1.0 / (bounded + float(k))
        total = total + inverse * inverse
    z = select(near, bounded + _LARGE, a)
    reciprocal = 1.0 / z
    square = reciprocal * reciprocal
    series = reciprocal + (0.5 * square + reciprocal * square * horner(square, _TRIGAMMA))
    positive = series + select(near, total, 0.0)
    turn = x - rint(x)
    ratio = _PI / sin(_PI * turn)
    value = select(below, ratio * ratio - positive, positive)
    pole = select(below, (turn == 0.0) | (x == -INFINITY), x == 0.0)
    return select(pole, INFINITY, value)
