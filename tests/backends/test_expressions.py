"""Scalar expressions in compiled code, against NumPy: every dtype, conversion and layout of the inner loop."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

from tenkey.backends.cpu.loops.expressions import LIBRARY, UnsupportedInLoopError, to_loop
from tenkey.backends.libm import scalar_functions
from tenkey.backends.llvm import f64
from tenkey.backends.processor import has_feature
from tenkey.dispatch import registry
from tenkey.ops import scalar as s
from tenkey.ops.scalar import variable
from tests._pointwise_loops import run, run_into

Array = np.ndarray[Any, Any]
_X, _Y = variable("x"), variable("y")
_DTYPES = [np.dtype(name) for name in ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]]


def _integers(dtype: np.dtype[Any], size: int = 200) -> Array:
    """Numbers of all magnitudes, with the limits and what lies around 0."""
    if dtype.kind == "b":
        return np.arange(size) % 3 == 0
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(dtype.num)
    wide = rng.integers(limits.min, limits.max, size, dtype, endpoint=True)
    shifted = wide >> rng.integers(0, 8 * dtype.itemsize, size).astype(dtype)
    shifted[:5] = limits.min, limits.max, 0, 1, limits.max - 1
    shifted[5] = np.array(-1).astype(dtype)
    return shifted


def _floats(dtype: np.dtype[Any], size: int = 200) -> Array:
    """Numbers of all magnitudes, with zeros, infinities, NaN and ties."""
    rng = np.random.default_rng(dtype.num)
    with np.errstate(all="ignore"):
        values = (rng.standard_normal(size) * 2.0 ** rng.integers(-20, 20, size)).astype(dtype)
    values[:12] = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.5, -2.5, 1.0, -1.0, 6e-8, 3.0]
    return values


def _values(dtype: np.dtype[Any], size: int = 200) -> Array:
    return _floats(dtype, size) if dtype.kind == "f" else _integers(dtype, size)


# ---- operations


def _name(operation: str) -> str:
    return {"bitwise_invert": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
            "round": "rint"}.get(operation, operation)  # fmt: skip


_ON_ALL = "add subtract multiply negative square abs sign maximum minimum less less_equal equal not_equal isnan signbit"
_ON_INTEGERS = (
    "floor_divide remainder bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift"
)
_ON_FLOATS = "divide sqrt reciprocal floor ceil trunc round copysign nextafter isfinite isinf floor_divide remainder"


@pytest.mark.parametrize("name", sorted({*_ON_ALL.split(), *_ON_INTEGERS.split(), *_ON_FLOATS.split()}))
def test_operations_equal_numpy(name: str) -> None:
    """These are exact, for every dtype that NumPy has them for and every pair of hard values."""
    failed, seen = [], 0
    ufunc = getattr(np, _name(name))
    for dtype in _DTYPES:
        wanted = _ON_ALL.split() + (_ON_FLOATS if dtype.kind == "f" else _ON_INTEGERS).split()
        if name not in wanted:
            continue
        values = _values(dtype)
        operands = [values] if ufunc.nin == 1 else list(map(np.ravel, np.meshgrid(values, values)))
        try:
            with np.errstate(all="ignore"):
                want = ufunc(*operands)
        except TypeError:
            continue
        if want.dtype not in (dtype, np.dtype(bool)):
            continue
        function = s.make(name, *[_X, _Y][: ufunc.nin])
        try:
            loop = to_loop(function, ["x", "y"][: ufunc.nin], dtype, want.dtype)
        except UnsupportedInLoopError:
            if name == "nextafter" and dtype == np.float16:
                continue
            raise
        got = run(loop, *operands)
        seen += 1
        if dtype == np.float16 and name in ("floor_divide", "remainder"):  # NumPy rounds on the way
            bad = ~np.isclose(got.astype("f8"), want.astype("f8"), rtol=2e-3, atol=0.1, equal_nan=True)
            bad &= np.abs(want.astype("f8")) < 1e3
        else:
            signed = dtype.kind == "f" and name not in ("maximum", "minimum")  # NumPy's choose either zero
            bad = ~((got == want) & (np.signbit(got) == np.signbit(want)) if signed else got == want)
            bad &= ~((got != got) & (want != want))
        if bad.any():
            failed.append((dtype.name, [operand[bad][:3] for operand in operands], got[bad][:3], want[bad][:3]))
    assert not failed
    assert seen >= 2


def test_conversions_equal_numpy() -> None:
    failed = []
    for given, to in itertools.product(_DTYPES, repeat=2):
        values = _values(given)
        if given.kind == "f" and to.kind in "iu":  # what is out of range is undefined
            limits = np.iinfo(to)
            wide = values.astype(np.float64)
            values = values[(wide > float(limits.min) / 2) & (wide < float(limits.max) / 2)]
        with np.errstate(all="ignore"):
            want = values.astype(to)
        loop = to_loop(_X, ["x"], to, to)
        got = run(loop, values)
        same = (got == want) | ((got != got) & (want != want))
        if not same.all():
            failed.append((given.name, to.name, values[~same][:3], got[~same][:3], want[~same][:3]))
    assert not failed


def test_rounding_to_16_bits_is_done_once() -> None:
    """Numbers just above and below the middle of two neighbours, which float32 does not tell apart."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    near = np.array([1, 1 + 1e-12, 1 - 1e-12])
    half, quarter = 1 + 2.0**-11, 1 + 2.0**-8
    values = np.concatenate([half * near, quarter * near, 65520 * near, 2.0**-25 * near, -3.0 * near])
    with np.errstate(over="ignore"):
        want = values.astype("f2")
    np.testing.assert_array_equal(run(to_loop(_X, ["x"], "f8", "f2"), values, result="f2"), want)
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    got = run(to_loop(_X, ["x"], "f8", bfloat16), values, result=bfloat16)
    exact = np.where(np.abs(values) == quarter, 1.0, np.where(values > quarter, 1 + 2.0**-7, values))
    np.testing.assert_array_equal(got[3:6].astype("f8"), exact[3:6].astype(bfloat16).astype("f8"))


def test_complex_numbers() -> None:
    rng = np.random.default_rng(0)
    failed = []
    for code, tolerance in (("c8", 2e-6), ("c16", 1e-14)):
        a, b = (rng.standard_normal((2, 100)) + 1j * rng.standard_normal((2, 100))).astype(code)
        cases = [
            (_X * _Y + 1, a * b + 1), (_X / _Y, a / b), (s.exp(_X), np.exp(a)), (s.sqrt(_X), np.sqrt(a)),
            (s.where(s.isfinite(_X), _Y, _X), b), (s.tanh(_X), np.tanh(a)), (s.pow(_X, _Y), a**b),
        ]  # fmt: skip
        for expression, want in cases:
            got = run(to_loop(expression, ["x", "y"], code), a, b)
            if not np.allclose(got, want, rtol=tolerance, atol=tolerance):
                failed.append((code, str(expression)))
        part = "f4" if code == "c8" else "f8"
        np.testing.assert_allclose(run(to_loop(s.abs(_X), ["x"], code, part), a, result=part), abs(a), rtol=tolerance)
        assert run(to_loop(s.make("equal", _X, _Y), ["x", "y"], code, bool), a, a, result=bool).all()
        np.testing.assert_allclose(run(to_loop(_X * 2, ["x"], code), a.real.copy()), a.real * 2)
    assert not failed


def test_mixed_dtypes_and_several_results() -> None:
    condition = variable("c", "boolean")
    function = to_loop([s.where(condition, _X, _Y), _X - _Y, s.make("less", _X, _Y)], ["c", "x", "y"], "f8", None)
    c, x, y = np.arange(77) % 3 == 1, np.arange(77, dtype=np.int32), np.linspace(60, 0, 77, dtype=np.float32)
    outs = [np.zeros(77), np.zeros(77), np.zeros(77, bool)]
    run_into(function, [c, x, y], outs)
    for got, want in zip(outs, [np.where(c, x, y), x - y.astype("f8"), x < y]):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_the_spacing_of_numbers_at_one(dtype: str) -> None:
    x, outs = np.ones(5, dtype), [np.zeros(5, dtype)]
    run_into(to_loop([_X + s.make("eps")], ["x"], dtype), [x], outs)
    np.testing.assert_array_equal(outs[0], np.nextafter(x, x + 1))


def test_the_c_library_computes_rare_lanes() -> None:
    """Huge angles and quotients leave the vector code, alone or among others."""
    for dtype in (np.float32, np.float64):
        angles = np.linspace(-3, 3, 333).astype(dtype)
        angles[::37] = 1e22
        angles[5] = -1e30
        with np.errstate(all="ignore"):
            for name in ("sin", "cos", "tan"):
                want = getattr(np, name)(angles.astype(np.float64))
                got = run(to_loop(getattr(s, name)(_X), ["x"], dtype), angles)
                np.testing.assert_allclose(got, want, rtol=1e-5 if dtype is np.float32 else 1e-13)
            want = np.remainder(np.exp(angles.clip(0, 80)), dtype(0.7))
            got = run(
                to_loop(s.remainder(_X, _Y), ["x", "y"], dtype), np.exp(angles.clip(0, 80)), np.full_like(angles, 0.7)
            )
        np.testing.assert_array_equal(got, want)


# ---- layouts


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 64, 100, 511, 512, 513, 1600])
def test_lengths_and_strides(length: int) -> None:
    """Whole vectors, rests, repeated elements and other strides, in every combination."""
    rng = np.random.default_rng(0)
    function = to_loop(_X * 2 - _Y, ["x", "y"], "f4", "f4")
    base = rng.standard_normal((4, 3 * length + 3)).astype(np.float32)
    failed = []

    def layouts(row: int) -> list[Array]:
        one = np.lib.stride_tricks.as_strided(base[row], (length,), (0,))
        return [base[row, :length], base[row, 1 : length + 1], base[row, : 3 * length : 3], base[row, length:0:-1], one]

    for x, y in itertools.product(layouts(0), layouts(1)):
        for out in (np.zeros(length, "f4"), np.zeros((length, 2), "f4")[:, 1], np.zeros(length, "f4")[::-1]):
            x, y = x[:length], y[:length]
            run_into(function, [x, y], [out])
            if not np.array_equal(out, x * 2 - y):
                failed.append((x.strides, y.strides, out.strides))
    assert not failed


def test_nothing_beyond_the_result_is_written() -> None:
    function = to_loop(_X + 1, ["x"], "i1", "i1")
    for length in range(70):
        out = np.full(80, 9, np.int8)
        run_into(function, [np.zeros(length, np.int8)], [out[:length]])
        assert (out[:length] == 1).all()
        assert (out[length:] == 9).all()


def test_in_place() -> None:
    function = to_loop(_X + _Y, ["x", "y"], "f8", "f8")
    for step in (1, 2):
        x = np.arange(2000.0)[::step]
        want = x + x[::-1].copy()
        run_into(function, [x, x[::-1].copy()], [x])
        np.testing.assert_array_equal(x, want)


# ---- the function itself


def test_functions_of_equal_expressions_are_equal() -> None:
    one, same = (to_loop(s.exp(variable("x")) + 1, ["x"], "f4") for _ in range(2))
    others = [
        to_loop(s.exp(variable("x")) + 2, ["x"], "f4"), to_loop(s.exp(variable("x")) + 1, ["x"], "f8"),
        to_loop(s.exp(variable("x")) + 1, ["x"], "f4", "f8"), to_loop(s.exp(variable("x")) + 1.0, ["x"], "f4"),
    ]  # fmt: skip
    assert one == same
    assert hash(one) == hash(same)
    assert one.key == same.key
    assert len({one.key, *[other.key for other in others]}) == 5
    assert all(one != other for other in others)


def test_long_expressions_have_keys_of_their_own() -> None:
    """The text of an expression is shortened, its key is not."""
    first = registry.find("tk::special_ndtri").facets["Pointwise"].expression
    changed = s.substitute(first, {"x": _X * 1.0})
    assert to_loop(first, ["x"], "f4").key != to_loop(changed, ["x"], "f4").key


def test_what_compiled_code_lacks() -> None:
    for expression, dtype in ((_X * 0.5, "i4"), (s.pow(_X, _Y), "i8"), (_X < _Y, "c8")):
        with pytest.raises(UnsupportedInLoopError):
            to_loop(expression, ["x", "y"], dtype)


def test_every_function_of_libm_is_an_operation() -> None:
    """Their names are written down, because the functions themselves are loaded later."""
    known = set(scalar_functions(f64))
    assert {name for name in known if name in s.OPERATIONS} == set(LIBRARY)


@pytest.mark.parametrize(
    ("name", "bound", "plain"),
    [
        ("exp", 1.1, 1.1),
        ("log", 1.1, 1.0),
        ("exp2", 2.0, 2.0),
        ("log10", 3.0, 3.0),
        ("cosh", 2.0, 2.0),
        ("tanh", 2.0, 2.5),
        ("erfc", 2.5, 2.75),
        ("rsqrt", 1.1, 1.0),
    ],
)
def test_exponent_instructions(name: str, bound: float, plain: float) -> None:
    """Every 4099th float32 of all bit patterns, and the borders: few ulp, special values as in IEEE 754.

    Without AVX-512, the bounds are those of the functions of libm, as their docstrings state them.
    """
    borders = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        1e-45,
        -1e-45,
        3e-39,
        88.7228,
        88.73,
        -87.4,
        -103.98,
        0.75,
    ]
    patterns = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([patterns, np.array(borders, np.float32), np.linspace(0.7, 1.6, 20001, dtype=np.float32)])
    got = run(to_loop(getattr(s, name)(_X), ["x"], "f4"), x)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        references = {"erfc": scipy.special.erfc, "rsqrt": lambda x: 1 / np.sqrt(x)}
        exact = references.get(name, getattr(np, name, None))(wide)
        want = exact.astype(np.float32)
        unit = np.spacing(np.abs(want)).astype(np.float64)
        finite = np.isfinite(want)
        errors = np.abs(got.astype(np.float64) - exact)[finite] / unit[finite]
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert errors.max() < (bound if has_feature("avx512f") else plain)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def test_reciprocal_roots_of_float64() -> None:
    """Numbers of all sizes, subnormal ones included, against mpmath."""
    random = np.random.default_rng(5)
    x = np.abs(random.integers(0, 1 << 64, 20_000, dtype=np.uint64).view(np.float64))
    x = np.concatenate([x[np.isfinite(x)], random.uniform(0.5, 8, 20_000), [5e-324, 1e-310, np.finfo("f8").max]])
    got = run(to_loop(s.rsqrt(_X), ["x"], "f8"), x)
    with mpmath.workprec(120):
        errors = [abs(y * mpmath.sqrt(mpmath.mpf(a)) - 1) * y / np.spacing(y) for a, y in zip(x, map(float, got))]
    assert max(errors) < 1


def _near_middles() -> list[tuple[int, int]]:
    """Return all float64 mantissas, and shifts, whose scaled roots lie next to the middle between two floats.

    The middles are the odd m of 54 bits; ``mantissa << shift`` is m * m + j for a small j. So j is a square modulo
    2**shift, and 1 modulo 8; its four roots are found bit by bit.
    """
    found = []
    for shift in (54, 55):
        for j in range(-511, 512, 8):
            root = 1
            for bits in range(3, shift):
                if (root * root - j) >> bits & 1:
                    root += 1 << (bits - 1)
            for middle in (root, -root, root + (1 << shift - 1), -root + (1 << shift - 1)):
                middle %= 1 << shift
                mantissa, rest = divmod(middle * middle - j, 1 << shift)
                assert rest == 0
                if middle >> 53 == 1 and mantissa >> 52 == 1:
                    found.append((mantissa, shift))
    return found


def test_hardest_roots() -> None:
    """The roots of float64 that a hair divides from the middle of two floats, by integers, and special values."""
    hardest = _near_middles()
    assert len(hardest) > 150
    x = np.array([mantissa * 2.0 ** (shift - 54) for mantissa, shift in hardest])
    exact = [(math.isqrt(mantissa << shift) + 1) // 2 for mantissa, shift in hardest]  # of 54 bits, then rounded
    random = np.random.default_rng(6).integers(0, 1 << 64, 50_000, dtype=np.uint64).view(np.float64)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324, 1e-310, 2.0**-900, 2.0**900, 1.0])
    for scale in (0, 100, -100):
        got = run(to_loop(s.sqrt(_X), ["x"], "f8"), np.ldexp(x, 2 * scale))
        assert got.tolist() == [math.ldexp(root, scale - 26) for root in exact]
    with np.errstate(invalid="ignore"):
        for values in (random, special, np.tile(special[:2], 64)):
            np.testing.assert_array_equal(run(to_loop(s.sqrt(_X), ["x"], "f8"), values), np.sqrt(values))
    assert np.signbit(run(to_loop(s.sqrt(_X), ["x"], "f8"), np.tile(special[:2], 64))[1::2]).all()


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "log1p", "tanh", "cosh", "sinh"])
def test_exponent_instructions_of_float64(name: str) -> None:
    """Random numbers of all sizes and special values, against the C library: at most 3 ulp apart."""
    random = np.random.default_rng(3)
    patterns = random.integers(0, 1 << 64, 20_000, dtype=np.uint64).view(np.float64)
    borders = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 1e-310, 709.78, 709.79, -745.1, -745.2]
    x = np.concatenate([patterns, random.uniform(-30, 30, 20_000), np.linspace(0.7, 1.6, 20_000), np.array(borders)])
    got = run(to_loop(getattr(s, name)(_X), ["x"], "f8"), x)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x)
        finite = np.isfinite(want)
        errors = np.abs(got - want)[finite] / np.spacing(np.abs(want[finite]))
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert errors.max() <= 3
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
