"""Programs: large calls and compiled ones compute what NumPy computes; Note [Which loop computes]."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey._util.record import replaced
from tenkey.backends.cpu import kernels, pointwise
from tenkey.backends.cpu.loops.numpy_loops import numpy_loop
from tenkey.backends.cpu.pointwise import large
from tenkey.backends.cpu.programs import inner_loops
from tenkey.backends.cpu.programs.program import Program, program_of
from tenkey.backends.cpu.thresholds import FEW_CONVERTED, LARGE
from tenkey.backends.llvm import UnavailableError
from tenkey.backends.processor import has_feature
from tenkey.dispatch import registry
from tenkey.ops.declare.facets import Pointwise
from tests._tiers import each
from tests.operators._extra_references import AGAINST_MPMATH, EXTRA_ULPS, NEAR_ZERO
from tests.operators._references import reference_of
from tests.operators._table import OPERATORS, named

_SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-30, -1e30, 88.5, -103.5, 1e-45, 709.5]
# The bound of each scalar function is tested in test_libm.py; expressions add a few roundings.
_ULPS = 8


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of our own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENKEY_CACHE_DIR", str(folder))
        patch.delenv("TENKEY_COMPILE", raising=False)
        yield folder


def _program(facet: Pointwise, dtype: str, name: str) -> Program:
    """A program of our own: those of the operators are shared with all other tests."""
    compute, result = facet.promotion.dtypes(name, (np.dtype(dtype),))
    return Program(name, replaced(facet, ufunc=None), compute, result)


def _operands(facet: Pointwise, dtype: str, size: int, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Random numbers in the domain, with combinations of special values at both ends, all if there is room."""
    names = [name for name in facet.parameters if name not in facet.boolean]
    combinations = np.array(list(itertools.product(_SPECIAL, repeat=len(names))), np.float64).T
    combinations = rng.permutation(combinations, axis=1)[:, : size // 4]  # with four arguments there are too many
    made = []
    remaining = iter(combinations)
    for name in facet.parameters:
        if name in facet.boolean:
            made.append(rng.random(size) < 0.5)
            continue
        values = rng.uniform(*facet.domain, size)
        special = next(remaining)
        values[: len(special)] = special
        values[-len(special) :] = special
        with np.errstate(over="ignore"):
            made.append(values.astype(dtype))
    return made


_POINTWISE = [
    op
    for op in OPERATORS
    if "Pointwise" in op.facets
    and op.facets["Pointwise"].promotion.name != "BOOLEAN"
    and "f" in op.facets["Pointwise"].promotion.accepts
    and op.schema.base_name != "close_floats"  # its tolerances are numbers of the caller's, not of any size
]
_FAST = [  # conditions, branches, several operands and numbers, and calls of functions of each kind
    registry.find(f"tk::{name}")
    for name in (
        "divide", "less", "exp", "log1p", "sin", "tanh", "sqrt", "pow", "atan2", "floor_divide", "remainder", "where",
        "sigmoid", "elu", "logaddexp",
    )
]  # fmt: skip
_SIZES = (LARGE, LARGE + 1, 3 * LARGE + 7)


@each("dtype", ["float32", "float64"])
@named(_POINTWISE, fast=_FAST)
def test_large_calls_compute_what_numpy_computes(operator: Any, dtype: str, cache: Path) -> None:
    facet = operator.facets["Pointwise"]
    if operator.schema.base_name in AGAINST_MPMATH:
        pytest.skip("tests/ops/test_special.py")
    program = _program(facet, dtype, operator.name)
    reference = reference_of(operator)
    assert reference is not None
    rng = np.random.default_rng(0)
    for size in _SIZES if dtype == "float32" else _SIZES[-1:]:
        operands = _operands(facet, dtype, size, rng)
        got = large(program, tuple(operands), (size,))
        with np.errstate(all="ignore"):
            want = reference(*[a if a.dtype == bool else a.astype(np.float64) for a in operands])
            want = want.astype(got.dtype)
            same_dtype = reference(*operands)
        assert got.dtype == program.result
        if got.dtype == bool:
            np.testing.assert_array_equal(got, same_dtype)
            continue
        tiny, eps = float(np.finfo(dtype).tiny), float(np.finfo(dtype).eps)
        if operator.schema.base_name in NEAR_ZERO:
            tiny = 4 * _ULPS * eps
        ulps = EXTRA_ULPS.get(operator.schema.base_name, _ULPS)
        close = np.isclose(got, want, rtol=ulps * eps, atol=tiny, equal_nan=True)
        # where NumPy itself, in this dtype, overflows on the way or rounds a quotient to the next whole number
        close |= np.isclose(got, same_dtype, rtol=_ULPS * eps, atol=tiny, equal_nan=True)
        assert close.all(), [(a[~close][:3], got[~close][:3], want[~close][:3]) for a in operands]


_OURS = {"exp", "log", "negative", "sin", "tanh", "sigmoid", "expm1", "rsqrt", "where", "floor_divide"}
_WITH_AVX512 = {"maximum", "sqrt", "pow"}  # NumPy's are as fast with these instructions
_NUMPYS = {"add", "multiply", "less", "equal", "floor"} | (_WITH_AVX512 if has_feature("avx512f") else set())


@pytest.mark.parametrize("name", sorted(_OURS | _NUMPYS | _WITH_AVX512))
def test_which_loop_computes(name: str, cache: Path) -> None:
    program = _program(registry.find(f"tk::{name}").facets["Pointwise"], "float32", f"tk::{name}")
    found = program.loop(program.signature)
    assert found is not None
    given = None if program.ufunc is None else numpy_loop(program.ufunc, (*program.signature, program.result))
    assert (given is not None and found.address == given.address) is (name in _NUMPYS)


def test_operands_of_other_dtypes_are_converted_in_the_loop(cache: Path) -> None:
    """Also where NumPy has a loop for the dtype of the computation."""
    rng = np.random.default_rng(0)
    failed = []
    codes = ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8"]
    for first, second in itertools.product(codes, repeat=2):
        a, b = (rng.integers(0, 2 if code == "?" else 9, (130, 140)).astype(code) for code in (first, second))
        program = _program(registry.find("tk::add").facets["Pointwise"], "float64", "tk::add")
        got = large(program, (a, b[0]), a.shape)
        if not np.array_equal(got, a.astype(float) + b[0].astype(float)):
            failed.append((first, second))
    assert not failed


@pytest.mark.parametrize("dtype", ["complex64", "float16", "uint8", "int64", "bool"])
def test_every_dtype_has_large_loops(dtype: str, cache: Path) -> None:
    program = _program(registry.find("tk::add").facets["Pointwise"], dtype, "tk::add")
    assert program.loop(program.signature) is not None
    x = (np.arange(LARGE) % 2).astype(dtype)
    np.testing.assert_array_equal(large(program, (x, x), x.shape), x + x)


def test_broadcasting_and_strides(cache: Path) -> None:
    program = _program(registry.find("tk::tanh").facets["Pointwise"], "float32", "tk::tanh")
    wide = np.random.default_rng(0).standard_normal((700, 600)).astype(np.float32)
    swapped = wide.astype(">f4")
    unaligned = np.frombuffer(b"x" + wide.tobytes(), np.float32, wide.size, 1).reshape(wide.shape)
    arrays = (wide, wide.T, wide[::2, ::3], wide[::-1, ::-1], np.broadcast_to(wide[:1], (300, 600)), wide[:0])
    for array in (*arrays, swapped, unaligned):
        got = large(program, (array,), array.shape)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, np.tanh(array), rtol=1e-6)
    pair = _program(registry.find("tk::floor_divide").facets["Pointwise"], "float32", "tk::floor_divide")
    for other in (np.array(2.0, np.float32), wide[:, :1], wide[:1], wide):
        np.testing.assert_array_equal(large(pair, (wide, other), wide.shape), np.floor_divide(wide, other))


def test_in_place_operands_that_overlap() -> None:
    """Results are those of the operands before the call."""
    for step in (1, 2):
        x = np.arange(4.0 * LARGE)
        t = tk.asarray(x.copy())
        t[LARGE::step].add_(t[: 4 * LARGE - LARGE : step])
        want = x.copy()
        want[LARGE::step] += x[: 4 * LARGE - LARGE : step]
        np.testing.assert_array_equal(t.numpy(), want)
    t = tk.asarray(np.ones((LARGE // 64, 128)))
    t.add_(t[0])
    assert (t.numpy() == 2).all()
    for target in (tk.asarray(np.ones((256, 256))), tk.asarray(np.ones((256, 256))).T):
        target.multiply_(target + 1)
        assert (target.numpy() == 2).all()


# ---- small calls


def test_small_calls_are_counted(cache: Path) -> None:
    program = _program(registry.find("tk::sigmoid").facets["Pointwise"], "float64", "tk::sigmoid")
    x = np.array([0.5, -2.0])
    before = program.call(x)
    states = []
    for _ in range(64):
        program.count(x.size)
        states.append(program.compiled)
    assert states == [False] * 63 + [True]
    np.testing.assert_allclose(program.call(x), before, rtol=1e-15)


def test_calls_of_slow_ufuncs_are_counted(cache: Path) -> None:
    """Only those with many elements; other ufuncs of NumPy stay."""
    slow, other = [
        _program(registry.find(f"tk::{name}").facets["Pointwise"], "float64", f"tk::{name}")
        for name in ("hypot", "add")
    ]
    for program, size, compiled in ((slow, 4, False), (other, 1024, False), (slow, 1024, True)):
        for _ in range(64):
            program.count(size)
        assert program.compiled == compiled, (program.name, size)
    assert other.call is np.add
    assert isinstance(slow.call, np.ufunc)
    assert slow.call is not np.hypot


def test_small_calls_do_not_change_when_they_are_compiled(cache: Path) -> None:
    special = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-30, 1e30, -1e30, np.inf, -np.inf, np.nan]
    wrong = []
    for name in ("floor_divide", "remainder", "nextafter", "hypot", "copysign", "sign", "logaddexp", "sin", "cos"):
        for dtype in ("float32", "float64", "int32", "int64"):
            x = np.array(special if dtype[0] == "f" else [0, 1, -1, 7, -7, -(2**31)]).astype(dtype)
            unary = name in ("sign", "sin", "cos")
            if dtype[0] == "i" and name not in ("floor_divide", "remainder", "sign"):
                continue
            grid = [np.tile(x, 300)] if unary else [np.tile(np.repeat(x, x.size), 3), np.tile(x, 3 * x.size)]
            operands = [tk.asarray(a) for a in grid]
            first = getattr(tk, name)(*operands).numpy()
            for _ in range(70):
                last = getattr(tk, name)(*operands).numpy()
            number = first == first
            signs = np.array_equal(np.signbit(first[number]), np.signbit(last[number]))
            tolerance = 4 * np.finfo(dtype).eps if dtype[0] == "f" else 0
            if not signs or not np.allclose(first, last, rtol=tolerance, atol=0, equal_nan=True):
                wrong.append((name, dtype, first, last))
    assert wrong == []


def test_numbers_and_other_dtypes_in_small_calls() -> None:
    """What is remembered of numbers tells 0.0 from -0.0, and a float from an int."""
    x = tk.asarray([1.0, -1.0, 0.0])
    for _ in range(2):
        assert np.signbit(tk.where(x > 0, x, -0.0).numpy()).tolist() == [False, True, True]
        assert np.signbit(tk.where(x > 0, x, 0.0).numpy()).tolist() == [False, False, False]
        assert np.signbit(tk.nan_to_num(tk.asarray([np.nan]), nan=-0.0).numpy()).all()
        assert not np.signbit(tk.nan_to_num(tk.asarray([np.nan]), nan=0.0).numpy()).any()
    i = tk.asarray(np.array([1, -2, 3], np.int32))
    for _ in range(2):
        for number in (2, 2.0, True):
            want = np.where([True, False, True], [1, -2, 3], number)
            got = tk.where(i > 0, i, number)
            np.testing.assert_array_equal(got.numpy(), want)
            assert got.dtype == (tk.float32 if number.__class__ is float else tk.int32)
    rows, columns = np.arange(300.0)[:, None], np.arange(200, dtype=np.int32)
    got = tk.where(tk.asarray(rows > 7), tk.asarray(rows), tk.asarray(columns))
    np.testing.assert_array_equal(got.numpy(), np.where(rows > 7, rows, columns))
    with pytest.raises(ValueError, match=r"\[where\]"):
        tk.where(tk.asarray([True, False]), x, i)


def test_compiled_small_calls_equal_large_ones(cache: Path) -> None:
    """The same loop computes both, so every bit is the same."""
    rng = np.random.default_rng(0)
    for name in ("sigmoid", "where", "logaddexp2", "gelu"):
        program = _program(registry.find(f"tk::{name}").facets["Pointwise"], "float32", f"tk::{name}")
        program.request()
        assert program.compiled
        assert isinstance(program.call, np.ufunc)
        operands = [rng.standard_normal(3 * LARGE).astype(dtype) for dtype in program.signature]
        whole = large(program, tuple(operands), (3 * LARGE,))
        for piece in (slice(0, 5), slice(7, 100), slice(0, None, 1000)):
            np.testing.assert_array_equal(program.call(*[a[piece] for a in operands]), whole[piece])


def test_calls_between_small_and_large(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A light program of LARGE elements is compiled at once, and runs as a ufunc; casts follow the same limits."""
    relu, exp = (
        _program(registry.find(f"tk::{name}").facets["Pointwise"], "float32", "mine::f") for name in ("relu", "exp")
    )
    assert relu.limit > LARGE == exp.limit
    relu.count(LARGE - 1)
    assert not relu.compiled
    relu.count(LARGE)
    assert relu.compiled
    casts = []
    monkeypatch.setattr(kernels, "_converted", lambda out, data: casts.append((str(data.dtype), data.size)))
    for dtype in (np.float16, np.int32):
        for size in (FEW_CONVERTED - 1, FEW_CONVERTED, 1 << 18):
            x = tk.asarray(np.arange(size, dtype=dtype))
            np.testing.assert_array_equal(tk.astype(x, tk.float32).numpy(), x.numpy().astype("f4"))
    assert casts == [("float16", FEW_CONVERTED), ("float16", 1 << 18), ("int32", 1 << 18)]


def test_without_compiled_code(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver is unavailable, NumPy computes."""
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    monkeypatch.setattr(inner_loops, "kernel", _unavailable)
    for name in ("log1p", "sigmoid", "add"):
        program = _program(registry.find(f"tk::{name}").facets["Pointwise"], "float32", f"tk::{name}")
        program.request()
        assert not program.compiled
        x = np.linspace(0, 1, LARGE, dtype=np.float32)
        operands = (x,) * len(program.signature)
        assert program.loop(program.signature) is None
        np.testing.assert_array_equal(large(program, operands, x.shape), program.call(*operands))


def _unavailable(*args: Any, **kwargs: Any) -> Any:
    raise UnavailableError("off")


def test_an_operation_that_compiled_code_lacks(cache: Path) -> None:
    """The author of a custom operator is told; built-in operators run on NumPy without a word."""
    facet = registry.find("tk::pow").facets["Pointwise"]
    x = np.arange(LARGE) % 7
    np.testing.assert_array_equal(large(_program(facet, "int64", "tk::pow"), (x, x), x.shape), x**x)
    own = _program(facet, "int64", "mine::pow")
    with pytest.warns(UserWarning, match="mine::pow for int64 is not compiled.*pow on int64"):
        np.testing.assert_array_equal(large(own, (x, x), x.shape), x**x)


def _hard_values(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Elements that raise floating-point flags where anything does: infinities, quiet and signalling nan, extremes."""
    if dtype.kind == "b":
        return np.array([True, False])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.max, 0, 1, limits.max // 2 + 1], dtype)
    limits_f = np.finfo(dtype)
    largest, tiny = limits_f.max, limits_f.smallest_subnormal
    values = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, largest, -largest, tiny, -tiny], dtype)
    bits = {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
    signalling = np.array([np.inf], dtype).view(bits) | np.array([1], bits)
    return np.concatenate([values, signalling.view(dtype)])


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"])
def test_silent_programs_never_warn(dtype: str) -> None:
    """Note [Floating-point flags]: a function that is run without silencing NumPy has nothing to say."""
    kind = np.dtype(dtype)
    values = _hard_values(kind)
    seen = 0
    for operator in OPERATORS:
        facet = operator.facets.get("Pointwise")
        if facet is None or facet.boolean or len(facet.parameters) != len(facet.tensors):
            continue
        try:
            compute, result = facet.promotion.dtypes(operator.name, (kind,))
        except TypeError:
            continue
        program = program_of(operator.name, facet, compute, result)
        if not program.silent:
            continue
        seen += 1
        operands = np.meshgrid(*[values.astype(compute)] * len(facet.parameters), indexing="ij")
        with np.errstate(all="raise"):
            program.call(*operands)
            program.call(*[operand.reshape(-1)[:1].reshape(()) for operand in operands])
    assert seen > 5


# ---- casts and layouts


def test_large_casts() -> None:
    """Between all dtypes; floats that an integer type cannot hold are undefined."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(0)
    codes = [*["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"], ml_dtypes.bfloat16]
    failed = []
    for given, wanted in itertools.product(codes, repeat=2):
        values = (rng.standard_normal((2, LARGE)) * 60).astype("f4")
        values[0, ::7] = 0
        values = np.abs(values).astype(given)
        if np.dtype(given).kind == "c":
            values = values + 1j * values[::-1]
        for array in (values, values.T, values[:, ::2]):
            if array.dtype.kind == "c" and np.dtype(wanted).kind in "iufV":
                continue
            got = tk.astype(tk.asarray(array), np.dtype(wanted)).numpy()
            if not np.array_equal(got, array.astype(wanted)):
                failed.append((np.dtype(given).name, np.dtype(wanted).name, array.strides))
    assert not failed


def test_results_have_the_layout_of_their_operands() -> None:
    """As in NumPy, and as in small calls."""
    for shape in ((4, 5, 6), (40, 50, 60)):
        x = np.random.default_rng(0).standard_normal(shape)
        for order in itertools.permutations(range(3)):
            moved = x.transpose(order)
            for made in (tk.exp(tk.asarray(moved)), tk.asarray(moved) + 1, tk.sigmoid(tk.asarray(moved))):
                assert made.numpy().strides == np.exp(moved).strides
            np.testing.assert_allclose(tk.exp(tk.asarray(moved)).numpy(), np.exp(moved), rtol=1e-14)


def test_mixed_operands_in_large_calls() -> None:
    """Tensors of different dtypes, and numbers."""
    a, b = np.arange(2.0 * LARGE).astype("f4"), np.arange(2 * LARGE, dtype="i4")[::-1].copy()
    condition = (b % 3 == 0).astype("i8")
    got = tk.where(tk.asarray(condition), tk.asarray(a), tk.asarray(b)).numpy()
    np.testing.assert_array_equal(got, np.where(condition, a, b.astype("f4")))
    np.testing.assert_array_equal((tk.asarray(a) * tk.asarray(b)).numpy(), a * b.astype("f4"))
    np.testing.assert_array_equal((tk.asarray(b) * 3 + tk.asarray(a)).numpy(), (b * 3).astype("f4") + a)


def test_integers_beside_floats_of_16_bits() -> None:
    """Integers are rounded to the common dtype before anything is computed, in large calls as in small ones."""
    numbers = np.array([3, 2049, 65519, 65520, 10**9, -(10**9)], "i8")
    halves = np.array([2, 2048, 65504, np.inf, np.inf, -np.inf], "f2")
    for times in (1, LARGE):
        a, b = np.tile(numbers, times), np.tile(halves, times)
        with np.errstate(over="ignore"):
            rounded = a.astype("f2")
        np.testing.assert_array_equal((tk.asarray(a) == tk.asarray(b)).numpy(), rounded == b)
        np.testing.assert_array_equal((tk.asarray(a) >= tk.asarray(b)).numpy(), rounded >= b)


def test_remainders_of_the_least_integer() -> None:
    """The least integer of a dtype has no magnitude in this dtype."""
    numbers = np.array([-128, -127, -3, -1, 1, 2, 5, 100, 127], "i1")
    for times in (1, LARGE):
        a, b = (np.tile(one.ravel(), times) for one in np.meshgrid(numbers, numbers))
        np.testing.assert_array_equal(tk.fmod(tk.asarray(a), tk.asarray(b)).numpy(), np.fmod(a, b))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "float64", "complex64", "complex128"])
def test_results_beyond_the_caches(dtype: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their loops write the numbers that the others write."""
    monkeypatch.setattr("tenkey.backends.cpu.pointwise.STREAMED", 1)
    rng = np.random.default_rng(0)
    size = (1 << 18) + 5  # results of bools are aligned as well
    streamed, failed = [], []
    for name in ("add", "multiply", "abs", "exp", "less", "where", "logical_not", "remainder"):
        facet: Pointwise = registry.find(f"tk::{name}").facets["Pointwise"]
        try:
            program = _program(facet, dtype, name)
        except TypeError:  # the operator lacks the dtype
            continue
        values = [(rng.standard_normal(size) * 50).astype(one) for one in program.signature]
        if len(values) > 1:
            values[-1] = np.asarray(values[-1][values[-1] != 0][0])  # one number for all
        operands = tuple(values)
        want = np.empty(size, program.result)
        assert not program.loop(program.signature).run((*operands, want))  # type: ignore[union-attr]
        got = large(program, operands, (size,))
        streamed += [name] if program.loops.get((*program.signature, True)) else []
        failed += [] if got.tobytes() == want.tobytes() else [name]
    assert not failed
    assert {"add", "where"} <= {*streamed}


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int64", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("columns", [15, 17, 64, 129, 1023])
def test_rows_that_end_within_a_vector(columns: int, dtype: str) -> None:
    """Their last elements are computed twice, which does not show, not even where the result is an operand."""
    rng = np.random.default_rng(0)
    x, y = [(rng.standard_normal((800_000 // columns, columns + 2)) * 50).astype(dtype) for _ in range(2)]
    a, b = tk.asarray(x.copy()), tk.asarray(y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((a[:, 2:] + b[:, 1:-1]).numpy(), x[:, 2:] + y[:, 1:-1])
        np.testing.assert_array_equal((a[:, 2:] * b[:1, 1:-1]).numpy(), x[:, 2:] * y[:1, 1:-1])
        np.testing.assert_array_equal((a[:, 2:] == b[:, 1:2]).numpy(), x[:, 2:] == y[:, 1:2])
        if dtype != "bool":
            np.testing.assert_array_equal((-a[:, 1:-1]).numpy(), -x[:, 1:-1])
            a[:, 1:-1] *= b[:, 2:]
            x[:, 1:-1] *= y[:, 2:]
            a[:, 1:-1].negative_()
            x[:, 1:-1] = -x[:, 1:-1]
    np.testing.assert_array_equal(a.numpy(), x)


def test_layouts_beyond_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands that are not contiguous, and repeated ones, take the usual loops."""
    monkeypatch.setattr("tenkey.backends.cpu.pointwise.STREAMED", 1)
    x = np.random.default_rng(0).standard_normal((301, 403)).astype("f4")
    for a, b in ((x.T, x.T), (x[:, ::-1], x), (x, x[0]), (x, x[:, :1]), (x[:-1], x[1:]), (x[1:, 1:], x[1:, 1:])):
        np.testing.assert_array_equal(tk.add(tk.asarray(a), tk.asarray(b)).numpy(), a + b)


def test_small_operands_with_a_large_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row and a column are small; their sum is computed like other large results."""
    calls = []
    monkeypatch.setattr(pointwise, "large", lambda *args: calls.append(args[2]) or large(*args))

    class Through(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return op(*args, **kwargs)

    row, column = np.arange(400.0), np.arange(300.0)[:, None]
    with Through():  # not in the compiled core
        np.testing.assert_array_equal(tk.asarray(row) + tk.asarray(column), row + column)
    assert calls == [(300, 400)]
    joined = np.arange(3 * 400.0).reshape(3, 400)  # whose sum with the row is small
    np.testing.assert_array_equal(tk.asarray(row) + tk.asarray(joined), row + joined)
    assert len(calls) == 1


def test_transposed_operands(cache: Path) -> None:
    """Beside others in the order of the result; they are copied by tiles first."""
    x = np.random.default_rng(0).standard_normal((150, 150, 3)).astype("f4")
    for a in (x[..., 0], x.transpose(1, 0, 2), x.transpose(2, 0, 1), x[::2].transpose(2, 1, 0), x[:, ::-1].T):
        b = np.ones(a.shape, "f4")
        b.flat[::3] = 2
        np.testing.assert_array_equal((tk.asarray(b) - tk.asarray(a)).numpy(), b - a)
        np.testing.assert_array_equal((tk.asarray(a) - tk.asarray(b)).numpy(), a - b)


def test_large_calls_on_bfloat16() -> None:
    """They are computed in float32 and rounded once, as small calls are, also beside other dtypes."""
    pytest.importorskip("ml_dtypes")
    x = tk.astype(tk.asarray(np.random.default_rng(0).standard_normal((3, LARGE)).astype("f4")), tk.bfloat16)
    wide = tk.astype(x, tk.float32)
    single = tk.asarray(np.linspace(-2, 2, LARGE, dtype=np.float32))
    for got, want in (
        (x * x, wide * wide), (tk.sigmoid(x), tk.sigmoid(wide)), (x + x[0], wide + wide[0]), (x < x[1], wide < wide[1]),
        (tk.where(x > 0, x, x[2]), tk.where(wide > 0, wide, wide[2])), (x + 2, wide + 2), (x * single, wide * single),
    ):  # fmt: skip
        rounded = tk.astype(want, got.dtype)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.numpy().view("u1"), rounded.numpy().view("u1"))


def test_logaddexp2_of_equal_numbers_is_exact() -> None:
    """In large calls too, where products and sums are rounded once."""
    for dtype in ("float32", "float64"):
        x = np.repeat(np.array([-1.0, 3.0, 1000.0, 0.5], dtype), LARGE)
        np.testing.assert_array_equal(tk.logaddexp2(tk.asarray(x), tk.asarray(x)).numpy(), x + 1)
