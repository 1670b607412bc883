"""The error function and its complement; `constants.py` says how they are written.

The map of erfc to a finite interval: Shepherd and Laframboise, Mathematics of Computation 36 (1981).
"""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, fabs, fma
from .constants import LN2_HIGH, LN2_LOW, LOG2_E, MANTISSA, _over
from .exponentials import _EXP, _MAGIC_BIASED, MAGIC_SPLIT, _exponential, _scale, exp
from .operations import bits_from_float, each, float_from_bits, horner, select

__all__ = ["erf", "erfc"]

_ERF_BORDER = each(0.925, 1.0)
_ERF_HIGH = each(4.0, 5.95)  # rounds to 1
_ERFC_HIGH = each(10.1, 28.0)  # rounds to 0
_ERFC_CENTER = each(3.0, 4.0)
_ERFC_DOUBLED_CENTER = 6.0
_ERFC_GROWTH = 7.0
_ERFC_SHIFT = 0.125
_ERFC_LINEAR = 0.001  # float32: to here the line through erfc(0) = 1 errs by 4e-10
_TWO_OVER_ROOT_PI = 1.1283791670955126
_ERFC_SCALE = 1.1428571428571428  # 8 / 7

# erf(x) / x - 1 as a polynomial in x**2, |x| <= 0.927 and 1, error of erf 2**-29.5 and 2**-56.0
_ERF_SMALL = each(
    (0.12837917, -0.3761263, 0.11283626, -0.026855731, 0.005192398, -0.00080496026, 7.9955156e-05),
    (0.1283791670955126, -0.376126389031841, 0.11283791670971113, -0.026866170648037056, 0.0052239776527793005,
     -0.0008548328542380444, 0.00012055386488507725, -1.4926889806173797e-05, 1.6481211632990693e-06,
     -1.655893888397163e-07, 1.602660531119962e-08, -1.65208629303216e-09, 1.444555513024226e-10),
)  # fmt: skip
# log(erfc(x)), 0.92 <= x <= 4 and 1 <= x <= 5.95, error of erf 2**-27.9 and 2**-55.2
_ERFC_LOG = each(
    (-0.00019578071, -1.1276752, -0.637183, -0.103930905, 0.022226581, -0.0030431303, 0.00019592815),
    (-2.2179617508530022e-08, -1.1283789661049894, -0.6366205309899358, -0.10277129571665652, 0.01912875665405724,
     0.00020168589171453685, -0.0016748405519231952, 0.0005528465492912349, 2.1176399665540763e-05,
     -0.00010999285305300885, 6.423250294136681e-05, -2.401538034926253e-05, 6.682342582589904e-06,
     -1.439534102430346e-06, 2.412887926527944e-07, -3.102423380334145e-08, 2.962525988826487e-09,
     -1.9807077595035133e-10, 8.274677391323263e-12, -1.624911341907474e-13),
)  # fmt: skip
# float32: (a + 3) exp(a**2) erfc(a), 0 <= a <= 10.1, as a polynomial in t = (a - 3) / (a + 3), error 2**-25.7, its
# rounding chosen by a random search that leaves 3 at a = 0; float64: (1 + 2 a) exp(a**2) erfc(a), 0 <= a <= 28, as a
# polynomial in (t + 1/8) 8/7, t = (a - 4) / (a + 4), error 2**-54.0, which interpolates at Chebyshev nodes
_ERFC = each(
    (1.0740069, -0.88339454, 0.5902283, -0.31046596, 0.11952898, -0.026839592, -0.0012258271, 0.0030800607,
     -0.0004843617, -0.00032594358),
    (1.2505272632390394, -0.12193736651647699, -0.01663582317882332, 0.09124356129719723, -0.10434370398530217,
     0.08083857072985515, -0.047931115994862585, 0.02212978966837959, -0.007665324199906241,
     0.0017257045234654986, -8.368079368705056e-05, -0.00010246374367630241, 3.414607836374794e-05,
     6.700493156736701e-07, -3.125236690507617e-06, 4.5211597722508717e-07, 2.3690357992204356e-07,
     -6.915359000556014e-08, -1.8250020033818523e-08, 7.53435035312292e-09, 1.4948860761753682e-09,
     -5.246905382370707e-10, -9.647039546439506e-11),
)  # fmt: skip


def erf(x: Any) -> Any:
    """Error function: x * P(x**2) near 0, else 1 - exp(Q(|x|)). Error below 2 ulp."""
    magnitude = fabs(x)
    square = magnitude * magnitude
    near = magnitude + magnitude * horner(square, _ERF_SMALL)
    limited = select(magnitude > _ERF_HIGH, _ERF_HIGH, magnitude)
    value, shifted = _exponential(horner(limited, _ERFC_LOG), _MAGIC_BIASED)
    complement = value * float_from_bits(bits_from_float(shifted) << MANTISSA)
    return copysign(select(magnitude < _ERF_BORDER, near, 1.0 - complement), x)


def _erfc_float32(a: Any) -> Any:
    # exp(-a**2) P(t) / (a + 3); the rounding errors of the square, of the reciprocal and of its product are put back
    total = a + _ERFC_CENTER
    inverse = _over(1.0, total)
    missing = fma(-inverse, total, 1.0) - inverse * (a - (total - _ERFC_CENTER))
    factor = horner(fma(-_ERFC_DOUBLED_CENTER, inverse, 1.0), _ERFC)
    scaled = inverse * factor
    rest = fma(inverse, factor, -scaled)
    square = a * a
    lost = fma(a, a, -square)
    shifted = MAGIC_SPLIT - square * LOG2_E
    n = shifted - MAGIC_SPLIT
    r = fma(-n, LN2_LOW, fma(-n, LN2_HIGH, -square))
    # 1 + 7 / (a + 3) is nearly the logarithmic derivative of the result by the reciprocal
    r = r + (missing * (1.0 + _ERFC_GROWTH * inverse) - lost)
    power = r + r * r * horner(r, _EXP)
    return _scale(scaled + fma(scaled, power, rest), shifted)


def _erfc_float64(a: Any) -> Any:
    t = _over(a - _ERFC_CENTER, a + _ERFC_CENTER)
    square = a * a
    lost = fma(a, a, -square)
    scaled = horner((t + _ERFC_SHIFT) * _ERFC_SCALE, _ERFC)
    scaled = _over(scaled, 1.0 + 2.0 * a)
    return exp(-square) * (scaled - scaled * lost)


_erfc_of_positive = each(_erfc_float32, _erfc_float64)


def _near_float32(x: Any, value: Any) -> Any:
    return select(fabs(x) < _ERFC_LINEAR, 1.0 - x * _TWO_OVER_ROOT_PI, value)


def _near_float64(x: Any, value: Any) -> Any:
    near = 1.0 - (x + x * horner(x * x, _ERF_SMALL))
    return select(fabs(x) < 0.5, near, value)


_near = each(_near_float32, _near_float64)


def erfc(x: Any) -> Any:
    """Complementary error function. Error below 2.75 ulp (float32) and 5 ulp, and of one subnormal number.

    Without fused multiply-add, the error for float32 is below 3.5 ulp.
    """
    magnitude = fabs(x)
    value = _erfc_of_positive(select(magnitude > _ERFC_HIGH, 0.0, magnitude))
    value = select(magnitude > _ERFC_HIGH, 0.0, value)
    return _near(x, select(x < 0.0, 2.0 - value, value))
