"""The mathematical functions of compiled loops, against NumPy, SciPy and mpmath."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import hypothesis
import hypothesis.strategies as st
import mpmath
import numpy as np
import numpy.typing as npt
import pytest
import scipy.special

from tenkey.backends.cpu.loops.expressions import ScalarLoop, to_loop
from tenkey.backends.libm import scalar_functions
from tenkey.backends.llvm import f32, f64
from tenkey.backends.processor import fuses
from tenkey.ops import scalar
from tests._pointwise_loops import run
from tests._tiers import only_full

Array = npt.NDArray[Any]
Dtype = Literal["float32", "float64"]

DIVISIONS = ("floor_divide", "remainder")
BINARY = ("atan2", "pow", *DIVISIONS)
DTYPES: tuple[Dtype, ...] = ("float32", "float64")
NAMES = sorted(scalar_functions(f32))
COMMON = ("exp", "log", "sin", "cos", "tan", "cosh", "erf", "pow")  # in double precision without --full as well
ROUNDED_ONCE = [name for name in NAMES if name not in DIVISIONS]  # those that a wider dtype can check

# Greatest error in units in the last place, as the docstrings promise it: float32, float64.
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.1, 1.1),
    "log": (1.0, 1.0),
    "tanh": (2.5, 2.5),
    "expm1": (2.0, 2.0),
    "log1p": (2.0, 2.0),
    "sin": (2.0, 1.0),
    "cos": (2.0, 1.0),
    "exp2": (2.0, 2.0),
    "log2": (3.0, 3.0),
    "log10": (3.0, 3.0),
    "erf": (2.0, 2.0),
    "erfc": (2.75 if fuses() else 3.5, 5.0),
    "pow": (1.0, 2.0),
    "tan": (2.5, 3.0),
    "sinh": (3.0, 3.0),
    "cosh": (2.0, 2.0),
    "asin": (3.0, 3.0),
    "acos": (2.0, 2.0),
    "atan": (2.0, 2.0),
    "atan2": (3.0, 3.0),
    "asinh": (4.0, 4.0),
    "acosh": (4.0, 4.0),
    "atanh": (4.0, 4.0),
    "cbrt": (1.0, 1.0),
} | dict.fromkeys(DIVISIONS, (0.5, 0.5))

# Where a function is neither saturated nor undefined, for float32 and float64.
RANGES: dict[str, tuple[float, float]] = {
    "exp": (105.0, 746.0),
    "expm1": (90.0, 711.0),
    "sinh": (90.0, 711.0),
    "cosh": (90.0, 711.0),
    "exp2": (151.0, 1076.0),
    "tanh": (10.0, 20.0),
    "erf": (4.0, 6.0),
    "erfc": (10.0, 26.0),
    "asin": (1.0, 1.0),
    "acos": (1.0, 1.0),
    "atanh": (1.0, 1.0),
    "sin": (6e4, 1e9),
    "cos": (6e4, 1e9),
    "tan": (6e4, 1e9),
}

NUMPY_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "pow": "power",
}


@cache
def loop(name: str, dtype: Dtype) -> ScalarLoop:
    names = ["x", "y"] if name in BINARY else ["x"]
    return to_loop(getattr(scalar, name)(*map(scalar.variable, names)), names, dtype)


def compute(name: str, dtype: Dtype, *values: Array) -> Array:
    """Return what the compiled loop of a function computes."""
    result = run(loop(name, dtype), *values)
    assert result.dtype == dtype
    return result


def numpy_function(name: str) -> Callable[..., Any]:
    module = scipy.special if name in ("erf", "erfc") else np
    function: Callable[..., Any] = getattr(module, NUMPY_NAMES.get(name, name))
    return function


def special_values(dtype: Dtype) -> Array:
    limits = np.finfo(dtype)
    positive: list[Any] = [
        0.0,
        limits.smallest_subnormal,
        limits.tiny,
        0.25,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        limits.max,
        np.inf,
    ]
    return np.array([sign * value for value in positive for sign in (1.0, -1.0)] + [np.nan], dtype)


def samples(name: str, dtype: Dtype, count: int) -> tuple[Array, ...]:
    """Random bit patterns, the interesting range, the surroundings of 0 and 1, and the special values."""
    random = np.random.default_rng(20240607)
    unsigned = np.uint32 if dtype == "float32" else np.uint64

    def one() -> Array:
        patterns = random.integers(0, np.iinfo(unsigned).max, count, unsigned, endpoint=True).view(dtype)
        reach = RANGES.get(name, (1e3, 1e3))[dtype == "float64"]
        parts = [random.uniform(-reach, reach, count), random.uniform(-2, 2, count), random.uniform(0.5, 1.5, count)]
        with np.errstate(over="ignore"):
            return np.concatenate([patterns, *(part.astype(dtype) for part in parts)])

    if name not in BINARY:
        return (np.concatenate([one(), special_values(dtype)]),)
    x, y = one(), random.permutation(one())
    if name == "pow":
        x[count:] = np.abs(x[count:])
        y[: 2 * count] = random.uniform(-8, 8, 2 * count).astype(dtype)
        y[: count // 2] = np.rint(y[: count // 2])
        y[3 * count :] = random.uniform(-150, 150, count).astype(dtype)
    first, second = (grid.ravel() for grid in np.meshgrid(special_values(dtype), special_values(dtype)))
    return np.concatenate([x, first]), np.concatenate([y, second])


def errors_in_ulp(result: Array, exact: Array, dtype: Dtype) -> Array:
    """Distance from `exact`, of a wider dtype, in units in the last place; inf where kind or sign of zero is wrong."""
    limits = np.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded = exact.astype(dtype)
        exponent = np.frexp(np.where(np.isfinite(exact), exact, 1))[1]
        unit = np.ldexp(np.ones_like(exact), np.maximum(exponent - 1, limits.minexp) - limits.nmant)
        error = np.abs(result.astype(exact.dtype) - exact) / unit
    equal = (result == rounded) & (np.signbit(result) == np.signbit(rounded))
    error[equal] = np.minimum(np.nan_to_num(error[equal], nan=0.0, posinf=0.0), 0.5)
    both_nan = np.isnan(result) & np.isnan(rounded)
    wrong = ~equal & ~both_nan & ((result == rounded) | ~np.isfinite(result) | ~np.isfinite(exact))
    return np.where(both_nan, 0.0, np.where(wrong, np.inf, error))


def assert_accurate(name: str, dtype: Dtype, arguments: tuple[Array, ...], result: Array, exact: Array) -> None:
    error = errors_in_ulp(result, exact, dtype)
    worst = int(np.argmax(error))
    where = [argument[worst] for argument in arguments]
    bound = BOUNDS[name][dtype == "float64"]
    assert error[worst] <= bound, f"{name}{where} = {result[worst]}, exact {exact[worst]}: {error[worst]} ulp"


def mpmath_value(name: str, values: tuple[float, ...]) -> Any:
    """The exact value at finite arguments; NaN where there is no real one."""
    function = {"pow": mpmath.power, "exp2": lambda x: mpmath.power(2, x), "log2": lambda x: mpmath.log(x, 2)}.get(name)
    function = function or getattr(mpmath, name)
    if name == "cbrt":
        return mpmath.sign(values[0]) * mpmath.cbrt(abs(mpmath.mpf(values[0])))
    exact = function(*(mpmath.mpf(value) for value in values))
    return mpmath.mpf("nan") if isinstance(exact, mpmath.mpc) else exact


def error_against_mpmath(result: float, exact: Any) -> float:
    if mpmath.isnan(exact):
        return 0.0 if math.isnan(result) else math.inf
    rounded = float(exact)
    if math.isinf(rounded) or math.isinf(result) or math.isnan(result):
        return 0.0 if result == rounded else math.inf
    return float(abs(exact - mpmath.mpf(result)) / mpmath.mpf(math.ulp(rounded)))


@pytest.mark.parametrize("name", ROUNDED_ONCE)
def test_accuracy_float32(name: str) -> None:
    arguments = samples(name, "float32", 50_000)
    with np.errstate(all="ignore"):
        exact = numpy_function(name)(*(argument.astype(np.float64) for argument in arguments))
    assert_accurate(name, "float32", arguments, compute(name, "float32", *arguments), exact)


@pytest.mark.parametrize("name", only_full([name for name in NAMES if name not in DIVISIONS], COMMON))
def test_accuracy_float64(name: str) -> None:
    arguments = samples(name, "float64", 400)
    finite = np.all([np.isfinite(argument) & (argument != 0) for argument in arguments], axis=0)
    result = compute(name, "float64", *arguments)
    with mpmath.workprec(200):
        for index in np.flatnonzero(finite):
            values = tuple(float(argument[index]) for argument in arguments)
            if name in ("exp", "expm1", "sinh", "cosh", "exp2", "erfc") and abs(values[0]) > 1e4:
                continue  # mpmath would write out the digits; special values and saturation have a test of their own
            if name == "pow" and abs(math.log2(abs(values[0])) * values[1]) > 1e5:
                continue
            if name in ("acosh", "asin", "acos", "atanh", "log", "log2", "log10", "log1p") and abs(values[0]) == 1:
                continue  # poles and zeros, likewise
            error = error_against_mpmath(float(result[index]), mpmath_value(name, values))
            assert error <= BOUNDS[name][1], f"{name}{values} = {result[index]}: {error} ulp"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, marks=() if dtype == "float32" or name in COMMON else pytest.mark.full)
        for name in ROUNDED_ONCE
        for dtype in DTYPES
    ],
)
def test_special_values(name: str, dtype: Dtype) -> None:
    values = special_values(dtype)
    arguments = tuple(grid.ravel() for grid in np.meshgrid(values, values)) if name in BINARY else (values,)
    with np.errstate(all="ignore"):
        expected = numpy_function(name)(*(argument.astype(np.float64) for argument in arguments)).astype(dtype)
    result = compute(name, dtype, *arguments)
    np.testing.assert_array_max_ulp(np.nan_to_num(result), np.nan_to_num(expected), math.ceil(max(BOUNDS[name])), dtype)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(expected[numbers]))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(expected))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (-0.0, -3.0, -np.inf),
        (-0.0, -2.0, np.inf),
        (0.0, -np.inf, np.inf),
        (-0.0, 3.0, -0.0),
        (-1.0, np.inf, 1.0),
        (-1.0, -np.inf, 1.0),
        (1.0, np.nan, 1.0),
        (np.nan, 0.0, 1.0),
        (-2.0, 0.5, np.nan),
        (0.5, -np.inf, np.inf),
        (2.0, -np.inf, 0.0),
        (-0.5, np.inf, 0.0),
        (-np.inf, -3.0, -0.0),
        (-np.inf, 2.0, np.inf),
        (-np.inf, 3.0, -np.inf),
        (-np.inf, 2.5, np.inf),
        (-8.0, 3.0, -512.0),
        (-8.0, 16777216.0, np.inf),
        (-2.0, 5e-324, None),
    ],
)
def test_pow_special_cases(x: float, y: float, expected: float | None, dtype: Dtype) -> None:
    # ISO/IEC 9899:2018, annex F.10.4.4
    exponent = np.array([y], dtype)
    if expected is None:  # the smallest subnormal is no integer; in float32 it is 0
        expected = 1.0 if exponent[0] == 0 else np.nan
    result = compute("pow", dtype, np.array([x], dtype), exponent)
    np.testing.assert_array_equal(result, np.array([expected], dtype))
    assert np.isnan(expected) or np.signbit(result[0]) == np.signbit(expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles(name: str, dtype: Dtype) -> None:
    """Every length, so that huge lanes occur in each position of full vectors and in the remainder loop."""
    values = np.random.default_rng(5).uniform(-10, 10, 70).astype(dtype)
    values[[0, 7, 33, 69]] = np.array([1e10, -1e30, np.finfo(dtype).max, 2.0**31], dtype)
    for count in (1, 2, 5, 16, 35, 70):
        result = compute(name, dtype, values[:count])
        with mpmath.workprec(1500):
            for value, actual in zip(values[:count], result, strict=True):
                exact = getattr(mpmath, name)(mpmath.mpf(float(value)))
                assert abs(exact - mpmath.mpf(float(actual))) <= 4 * np.spacing(abs(actual))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_special_lanes_of_logarithms(name: str, dtype: Dtype) -> None:
    """Special numbers among usual ones, alone and together, in each position of vectors and in the rest of a loop."""
    limits = np.finfo(dtype)
    special = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, -1, limits.smallest_subnormal, limits.tiny * 0.75, limits.tiny, limits.max],
        dtype,
    )
    usual = np.random.default_rng(8).uniform(0.1, 10, 67).astype(dtype)
    exact = dict(zip(usual.tolist(), compute(name, dtype, usual).tolist(), strict=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = getattr(np, name)(special.astype(np.float64))
    for places in (*([k] for k in range(67)), range(0, 67, 5), range(67)):
        values, want = usual.copy(), np.array([exact[x] for x in usual.tolist()])
        for n, place in enumerate(places):
            values[place], want[place] = special[(n + places[0]) % 10], wanted[(n + places[0]) % 10]
        np.testing.assert_allclose(compute(name, dtype, values), want, rtol=3 * limits.eps)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_nearest_to_multiples_of_a_right_angle(name: str) -> None:
    """The reduced argument is far smaller than the numbers that it is the difference of."""
    bits = 160
    with mpmath.workprec(300):
        right_angle = int(mpmath.floor(mpmath.ldexp(mpmath.pi / 2, bits)))
    near = []
    for n in np.random.default_rng(6).integers(2**20, 2**29, 20_000).tolist():
        multiple = n * right_angle
        x = math.ldexp(multiple >> (bits - 40), -40)
        numerator, denominator = x.as_integer_ratio()
        near.append((abs((numerator << bits) // denominator - multiple), x))
    angles = np.array([x for _, x in sorted(near)[:50]])
    assert abs(np.sin(2 * angles)).max() < 1e-10
    for x, actual in zip(angles, compute(name, "float64", angles), strict=True):
        with mpmath.workprec(300):
            exact = getattr(mpmath, name)(mpmath.mpf(float(x)))
            assert error_against_mpmath(float(actual), exact) <= BOUNDS[name][1], (x, actual)


def assert_same_as_numpy(name: str, dtype: Dtype, x: Array, y: Array) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    result = compute(name, dtype, x, y)
    wrong = (result != expected) | (np.signbit(result) != np.signbit(expected))
    wrong &= ~(np.isnan(result) & np.isnan(expected))  # the sign of a NaN is free
    index = int(np.argmax(wrong))
    assert not wrong.any(), f"{name}({x[index]!r}, {y[index]!r}) = {result[index]!r}, NumPy {expected[index]!r}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_division_equals_numpy(name: str, dtype: Dtype) -> None:
    """All kinds of arguments: any bits, special values, quotients of every size beside an integer, subnormals."""
    random = np.random.default_rng(11)
    x, y = samples(name, dtype, 20_000)
    assert_same_as_numpy(name, dtype, x, y)
    integers = random.integers(-30, 30, (2, 20_000)).astype(dtype)  # zeros among them
    assert_same_as_numpy(name, dtype, *integers)
    divisors = random.uniform(-9, 9, 40_000).astype(dtype)
    multiples = (np.rint(np.exp2(random.uniform(0, 70, divisors.size))) * divisors.astype(np.float64)).astype(dtype)
    unit = np.spacing(multiples)
    for near in (multiples, multiples + unit, multiples - unit):
        assert_same_as_numpy(name, dtype, near, divisors)
    subnormals = (random.integers(-40, 40, (2, 5_000)) * np.finfo(dtype).smallest_subnormal).astype(dtype)
    assert_same_as_numpy(name, dtype, *subnormals)
    assert_same_as_numpy(name, dtype, x[: subnormals[0].size], subnormals[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVISIONS)
@hypothesis.settings(deadline=None)  # the first example compiles
@hypothesis.given(data=st.data())
def test_division_equals_numpy_for_any_floats(name: str, dtype: Dtype, data: st.DataObject) -> None:
    number = st.floats(width=32) if dtype == "float32" else st.floats()
    pairs = data.draw(st.lists(st.tuples(number, number), min_size=1, max_size=40))
    x, y = np.array(pairs, dtype).T.copy()
    assert_same_as_numpy(name, dtype, x, y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_huge_quotients(name: str, dtype: Dtype) -> None:
    """Every length, so that huge lanes occur in each position of full vectors and in the remainder loop."""
    limits = np.finfo(dtype)
    x = np.random.default_rng(7).uniform(-10, 10, 70).astype(dtype)
    y = np.full(70, 0.3, dtype)
    x[[0, 7, 33, 69]] = np.array([1e30, -limits.max, 2.0**53, -(2.0**30)], dtype)
    y[[7, 40]] = limits.smallest_subnormal
    for count in (1, 2, 5, 8, 16, 35, 70):
        assert_same_as_numpy(name, dtype, x[:count], y[:count])
    for above in range(20, 60):  # both sides of the limits of the fast path
        quotients = np.array([2.0**above - 1, 2.0**above, 2.0**above + 1], dtype)
        assert_same_as_numpy(name, dtype, quotients, np.full(3, 1, dtype))
        divisors = np.full(3, -0.7, dtype)
        assert_same_as_numpy(name, dtype, quotients * divisors, divisors)
        assert_same_as_numpy(name, dtype, np.nextafter(quotients * divisors, divisors), divisors)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DIVISIONS)
def test_quotients_nearest_to_an_integer(name: str, dtype: Dtype) -> None:
    """The hardest arguments: x / y misses an integer by 1 / y, where y has all the digits of the dtype."""
    digits = np.finfo(dtype).nmant + 1
    pairs = []
    for divisor in (2**digits - 1, 2**digits - 3, 2**digits - 2**7 - 1, 2 ** (digits - 1) + 1):
        for exponent in range(1, 64):
            # m * 2**exponent is 1 or -1 modulo the odd divisor
            inverse = pow(2, -exponent, divisor)
            pairs += [(m * 2**exponent, divisor) for m in (inverse, divisor - inverse)]
    x, y = np.array(pairs, dtype).T.copy()
    assert [(int(a), int(b)) for a, b in zip(x, y, strict=True)] == pairs, "the arguments are exact"
    if name == "remainder":
        np.testing.assert_array_equal(compute(name, dtype, x, y), np.array([a % b for a, b in pairs], dtype))
    for sign in (1, -1):
        assert_same_as_numpy(name, dtype, x, sign * y)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "sin"])
def test_strides_and_misalignment(name: str, dtype: Dtype) -> None:
    values = np.linspace(-20, 20, 301).astype(dtype)
    whole = compute(name, dtype, values)
    for part in (np.s_[1::3], np.s_[::-1], np.s_[3:]):
        np.testing.assert_array_max_ulp(compute(name, dtype, values[part]), whole[part], 1)


def test_both_precisions() -> None:
    assert set(scalar_functions(f64)) - set(scalar_functions(f32)) == {
        "digamma",
        "lgamma",
        "lgamma_float32",
        "trigamma",
    }
    assert set(scalar_functions(f32)) == set(BOUNDS)


def test_functions_are_loaded_when_code_is_translated() -> None:
    program = (
        "import sys, tenkey, tenkey.backends.libm as libm; loaded = {name for name in sys.modules if 'libm' in name}; "
        "assert loaded <= {libm.__name__, f'{libm.__name__}.avx512'}, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


EXACT_GAMMAS: dict[str, Callable[[Any], Any]] = {
    "erfc": mpmath.erfc,
    "lgamma": lambda v: mpmath.log(abs(mpmath.gamma(v))),
    "digamma": mpmath.digamma,
    "trigamma": lambda v: mpmath.polygamma(1, v),
}


class TestGammas:
    """The functions that exist in double precision alone, against mpmath."""

    @staticmethod
    def error(name: str, x: Array, got: Array) -> float:
        """Return the greatest error, in ulp of the greater of the exact value and, near zeros, of 1."""
        worst = 0.0
        with mpmath.workdps(40):
            for argument, found in zip(x.tolist(), got.tolist(), strict=True):
                exact = EXACT_GAMMAS[name](mpmath.mpf(argument))
                size = (
                    float(abs(exact)) if name in {"erfc", "trigamma"} or argument > 3 else max(1.0, float(abs(exact)))
                )
                worst = max(worst, float(abs(mpmath.mpf(found) - exact)) / float(np.spacing(size)))
        return worst

    def test_accuracy(self) -> None:
        random = np.random.default_rng(7)
        failures = []
        ranges = [(0, 1), (1, 3), (3, 8), (8, 30), (30, 300), (1e-10, 1e-5), (-1, 0), (-6, -1)]
        for name, bound in {"erfc": 5.0, "lgamma": 6.0, "digamma": 13.0, "trigamma": 5.0}.items():
            for low, high in ranges:
                greatest = min(high, 26) if name == "erfc" else high  # beyond, the result is subnormal
                x = random.uniform(min(low, greatest), greatest, 200)
                found = compute(name, "float64", x)
                # the terms of a reflection are large near the poles
                allowed = bound if low >= 0 or name in {"erfc", "trigamma"} else 400.0
                error = self.error(name, x, found)
                if not error <= allowed:
                    failures.append((name, low, high, error))
        assert not failures, failures

    def test_the_measure_rejects_a_wrong_function(self) -> None:
        x = np.array([0.5, 2.5])
        assert self.error("erfc", x, scipy.special.erfc(x)) < 5
        assert self.error("erfc", x, scipy.special.erfc(x) * (1 + 1e-14)) > 5

    def test_special_values(self) -> None:
        x = np.array([0.0, -0.0, 1.0, 2.0, -1.0, -2.0, np.inf, -np.inf, np.nan])
        inf, nan = np.inf, np.nan
        expected = {
            "erfc": [1, 1, math.erfc(1), math.erfc(2), math.erfc(-1), math.erfc(-2), 0, 2, nan],
            "lgamma": [inf, inf, 0, 0, inf, inf, inf, inf, nan],
            "digamma": [-inf, inf, -np.euler_gamma, 1 - np.euler_gamma, nan, nan, inf, nan, nan],
            "trigamma": [inf, inf, np.pi**2 / 6, np.pi**2 / 6 - 1, inf, inf, 0, inf, nan],
        }
        for name, values in expected.items():
            np.testing.assert_allclose(compute(name, "float64", x), values, rtol=1e-14, atol=1e-15, err_msg=name)
