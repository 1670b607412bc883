"""Elementwise functions of real and complex numbers against mpmath, in units in the last place, and on branch cuts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tenkey as tk
from tests._tiers import each

Array = np.ndarray[Any, Any]

REAL: dict[str, tuple[Callable[..., Any], float, float]] = {
    "exp": (mpmath.exp, -80, 80), "exp2": (lambda x: mpmath.power(2, x), -120, 120), "expm1": (mpmath.expm1, -20, 80),
    "log": (mpmath.log, 1e-9, 1e9), "log2": (lambda x: mpmath.log(x, 2), 1e-9, 1e9), "log10": (mpmath.log10, 1e-9, 1e9),
    "log1p": (mpmath.log1p, -0.99, 100), "sqrt": (mpmath.sqrt, 0, 1e9),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), -1e9, 1e9),
    "sin": (mpmath.sin, -100, 100), "cos": (mpmath.cos, -100, 100), "tan": (mpmath.tan, -100, 100),
    "asin": (mpmath.asin, -1, 1), "acos": (mpmath.acos, -1, 1), "atan": (mpmath.atan, -50, 50),
    "sinh": (mpmath.sinh, -80, 80), "cosh": (mpmath.cosh, -80, 80), "tanh": (mpmath.tanh, -10, 10),
    "asinh": (mpmath.asinh, -1e6, 1e6), "acosh": (mpmath.acosh, 1, 1e6), "atanh": (mpmath.atanh, -1, 1),
    "reciprocal": (lambda x: 1 / x, 0.01, 1e6), "square": (lambda x: x * x, -1e6, 1e6),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 0.01, 1e6), "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), -20, 20),
    "abs": (abs, -9, 9), "negative": (lambda x: -x, -9, 9),
}  # fmt: skip
PAIRS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "atan2": (mpmath.atan2, -9, 9), "hypot": (mpmath.hypot, -1e6, 1e6), "pow": (mpmath.power, 0.01, 8),
    "logaddexp": (lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)), 0, 50), "divide": (lambda x, y: x / y, 1, 9),
    "add": (lambda x, y: x + y, -9, 9), "multiply": (lambda x, y: x * y, -9, 9),
    "subtract": (lambda x, y: x - y, -9, 9),
    "copysign": (lambda x, y: abs(x) * mpmath.sign(y), -9, 9),
    "maximum": (max, -9, 9), "minimum": (min, -9, 9),
}  # fmt: skip
BOUND = 4.0  # units in the last place, of the widest of them
EXACT = {"sqrt", "reciprocal", "square", "abs", "negative", "divide", "add", "multiply", "subtract", "copysign"}
EXACT |= {"maximum", "minimum"}


def _errors(got: Array, exact: list[Any], dtype: str) -> Array:
    """Distances from the exact values, in the spacing of numbers of the dtype there."""
    limits = np.finfo(dtype)
    errors = []
    for value, want in zip(got.tolist(), exact, strict=True):
        exponent = mpmath.frexp(want)[1] - 1 if want else limits.minexp
        unit = mpmath.ldexp(1, int(max(exponent, limits.minexp)) - limits.nmant)
        errors.append(float(abs(mpmath.mpf(value) - want) / unit))
    return np.array(errors)


def _points(low: float, high: float, dtype: str, count: int) -> Array:
    rng = np.random.default_rng(7)
    near = np.clip(rng.uniform(-0.01, 0.01, count // 4) + max(low, 0), low, high)
    return np.concatenate([rng.uniform(low, high, count - near.size), near]).astype(dtype)


@pytest.fixture(params=["small", "large"])
def repeat(request: pytest.FixtureRequest) -> int:
    """How often the points are repeated: calls of few elements run on NumPy, those of many in compiled code."""
    return 1 if request.param == "small" else 400


def _called(name: str, repeat: int, *points: Array) -> Array:
    given = [tk.asarray(np.tile(p, repeat)) for p in points]
    result = getattr(tk, name)(*given)
    if repeat > 1:
        result = getattr(tk, name)(*given)
    values = result.numpy().reshape(repeat, -1)
    assert (values == values[0]).all()
    return np.asarray(values[0])


@each("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(REAL))
def test_functions_of_one_number(name: str, dtype: str, repeat: int) -> None:
    function, low, high = REAL[name]
    x = _points(low, high, dtype, 120)
    with mpmath.workdps(60):
        exact = [function(mpmath.mpf(v)) for v in x.tolist()]
        errors = _errors(_called(name, repeat, x), exact, dtype)
    worst = int(np.argmax(errors))
    assert errors[worst] <= (0.501 if name in EXACT else BOUND), f"{name}({x[worst]}): {errors[worst]} ulp"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(PAIRS))
def test_functions_of_two_numbers(name: str, dtype: str, repeat: int) -> None:
    function, low, high = PAIRS[name]
    x, y = _points(low, high, dtype, 120), np.random.default_rng(8).permutation(_points(low, high, dtype, 120))
    with mpmath.workdps(60):
        exact = [function(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        errors = _errors(_called(name, repeat, x, y), exact, dtype)
    worst = int(np.argmax(errors))
    assert errors[worst] <= (0.501 if name in EXACT else BOUND), f"{name}({x[worst]}, {y[worst]}): {errors[worst]} ulp"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_neighbours(dtype: str) -> None:
    x = tk.asarray([0.0, 1.0, -1.0, math.inf, math.nan], dtype=dtype)
    up = tk.nextafter(x, math.inf).numpy()
    limits = np.finfo(dtype)
    assert up[0] == limits.smallest_subnormal
    assert (up[1], up[2]) == (1 + limits.eps, -1 + limits.epsneg)
    assert up[3] == math.inf
    assert np.isnan(up[4])
    np.testing.assert_array_equal(tk.nextafter(tk.asarray(up), -math.inf).numpy()[:3], x.numpy()[:3])


# ---- complex numbers

COMPLEX: dict[str, Callable[[Any], Any]] = {
    "exp": mpmath.exp, "expm1": mpmath.expm1, "log": mpmath.log, "log1p": mpmath.log1p, "sqrt": mpmath.sqrt,
    "log2": lambda z: mpmath.log(z) / mpmath.log(2), "log10": mpmath.log10, "sin": mpmath.sin, "cos": mpmath.cos,
    "exp2": lambda z: mpmath.exp(z * mpmath.log(2)), "tan": mpmath.tan, "sinh": mpmath.sinh, "cosh": mpmath.cosh,
    "tanh": mpmath.tanh, "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan, "asinh": mpmath.asinh,
    "acosh": mpmath.acosh, "atanh": mpmath.atanh, "square": lambda z: z * z, "reciprocal": lambda z: 1 / z,
    "sign": lambda z: z / abs(z), "abs": abs, "angle": mpmath.arg,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", sorted(COMPLEX))
def test_functions_of_a_complex_number(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    z = (rng.uniform(-4, 4, 150) + 1j * rng.uniform(-4, 4, 150)).astype(dtype)
    z[100:] *= 1e-3
    got = getattr(tk, name)(tk.asarray(z)).numpy()
    with mpmath.workdps(60):
        exact = [COMPLEX[name](mpmath.mpc(v)) for v in z.tolist()]
        errors = [float(abs(mpmath.mpc(g) - want) / abs(want)) for g, want in zip(got.tolist(), exact, strict=True)]
    worst = int(np.argmax(errors))
    assert errors[worst] <= 8 * np.finfo(dtype).eps, f"{name}({z[worst]}): {errors[worst]}"


def test_small_complex_numbers_keep_their_digits() -> None:
    z = np.array([1e-20 + 1e-20j, -3e-18 + 2e-25j, 1e-9 - 1e-9j])
    with mpmath.workdps(60):
        for name, function in (("log1p", mpmath.log1p), ("expm1", mpmath.expm1)):
            got = getattr(tk, name)(tk.asarray(z)).tolist()
            for value, given in zip(got, z.tolist(), strict=True):
                want = function(mpmath.mpc(given))
                assert abs(value.real - float(want.real)) <= 1e-15 * abs(float(want.real))
                assert abs(value.imag - float(want.imag)) <= 1e-15 * abs(float(want.imag))


_CUTS: dict[str, tuple[str, tuple[float, ...]]] = {  # which axis, and places on it that the cut runs through
    "log": ("real", (-0.5, -3.0)), "log2": ("real", (-0.5, -3.0)), "log10": ("real", (-0.5, -3.0)),
    "log1p": ("real", (-1.5, -3.0)), "sqrt": ("real", (-0.25, -4.0)), "asin": ("real", (-2.0, 2.0)),
    "acos": ("real", (-2.0, 2.0)), "acosh": ("real", (-2.0, 0.5)), "atanh": ("real", (-2.0, 2.0)),
    "atan": ("imag", (-2.0, 2.0)), "asinh": ("imag", (-2.0, 2.0)), "angle": ("real", (-1.0, -2.5)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", sorted(_CUTS))
def test_the_sign_of_a_zero_says_on_which_side_of_a_cut_it_is(name: str, dtype: str) -> None:
    """The value on the cut is the limit from that side: mpmath's, a little off the cut."""
    axis, places = _CUTS[name]
    for place, zero in itertools.product(places, (0.0, -0.0)):
        z = complex(place, zero) if axis == "real" else complex(zero, place)
        (got,) = getattr(tk, name)(tk.asarray(np.array([z], dtype))).tolist()
        with mpmath.workdps(60):
            off = mpmath.mpf(math.copysign(1e-40, zero))
            beside = mpmath.mpc(place, off) if axis == "real" else mpmath.mpc(off, place)
            want = complex(COMPLEX[name](beside))
        assert abs(got - want) <= 8 * np.finfo(dtype).eps * abs(want), (z, got, want)


def test_limits_of_tanh_and_tan() -> None:
    """The zero has the sign of the other part, whatever its size, as the array API standard 2025.12 has it."""
    for y in (0.5, 1.0, 2.0, 3.0, 40.0):
        for x, side in itertools.product((math.inf, -math.inf), (1, -1)):
            value = tk.tanh(tk.asarray(complex(x, side * y), dtype="complex128")).item()
            assert (value.real, math.copysign(1, value.imag)) == (math.copysign(1, x), side)
            assert value.imag == 0
            value = tk.tan(tk.asarray(complex(side * y, x), dtype="complex64")).item()
            assert (value.imag, math.copysign(1, value.real)) == (math.copysign(1, x), side)
            assert value.real == 0


def test_limits_of_expm1() -> None:
    infinite = tk.asarray(np.array([complex(math.inf, 0), complex(-math.inf, math.inf), complex(-0.0, 0.0)]))
    got = tk.expm1(infinite).tolist()
    assert (got[0], got[1].real) == (complex(math.inf, 0), -1.0)
    assert math.copysign(1, got[2].real) == 1
