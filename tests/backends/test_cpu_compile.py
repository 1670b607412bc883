"""Compiled kernels: they compute what NumPy computes, and their cache survives what happens to caches.

Note [Nothing waits for a compiler] in ``tenkey/backends/cpu/numba/compiler.py``.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey._util.record import replaced
from tenkey.backends.cpu.numba import compiler
from tenkey.backends.cpu.numba.program import Program, program_of
from tenkey.backends.cpu.pointwise import LARGE, large
from tenkey.backends.cpu.pool.pieces import PIECE
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
    """A cache folder of our own, and compiling at once."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENKEY_CACHE_DIR", str(folder))
        patch.setenv("TENKEY_COMPILE", "sync")
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
_SIZES = (LARGE, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 3)


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


_COMPILED = {"exp", "log", "sin", "tanh", "sigmoid", "expm1", "rsqrt"}
_NUMPYS = {"add", "multiply", "maximum", "less", "equal", "sqrt", "floor", "negative"}  # NumPy's are as fast


@pytest.mark.parametrize("name", sorted(_COMPILED | _NUMPYS))
def test_which_programs_are_compiled(name: str, cache: Path) -> None:
    program = _program(registry.find(f"tk::{name}").facets["Pointwise"], "float32", f"tk::{name}")
    program.request()
    assert program.compiled is (name in _COMPILED)


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16", "uint8"])
def test_what_numba_lacks_stays_with_numpy(dtype: str, cache: Path) -> None:
    program = _program(registry.find("tk::add").facets["Pointwise"], dtype, "test")
    program.request()
    assert not program.compiled


def test_broadcasting_and_strides_of_a_compiled_program(cache: Path) -> None:
    program = _program(registry.find("tk::tanh").facets["Pointwise"], "float32", "tk::tanh")
    wide = np.random.default_rng(0).standard_normal((700, 600)).astype(np.float32)
    for array in (wide, wide.T, wide[::2, ::3], np.broadcast_to(wide[:1], (300, 600)), wide[:0]):
        got = large(program, (array,), array.shape)
        np.testing.assert_allclose(got, np.tanh(array), rtol=1e-6)
    assert program.compiled
    pair = _program(registry.find("tk::floor_divide").facets["Pointwise"], "float32", "tk::floor_divide")
    for other in (np.array(2.0, np.float32), wide[:, :1], wide[:1], wide):
        np.testing.assert_array_equal(large(pair, (wide, other), wide.shape), np.floor_divide(wide, other))


# ---- the switch over


def test_small_calls_are_counted(cache: Path) -> None:
    program = _program(registry.find("tk::sigmoid").facets["Pointwise"], "float64", "tk::sigmoid")
    x = np.array([0.5, -2.0])
    before = program.call(x)
    states = []
    for _ in range(64):
        program.count()
        states.append(program.compiled)
    assert states == [False] * 63 + [True]
    np.testing.assert_allclose(program.call(x), before, rtol=1e-15)


def test_background_and_wait(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    program = _program(registry.find("tk::expm1").facets["Pointwise"], "float64", "tk::expm1")
    release = threading.Event()
    compiler.request("first in the queue", lambda: _wait_for(release))
    program.request()
    states = [program.compiled]
    np.testing.assert_allclose(large(program, (np.ones(LARGE),), (LARGE,)), np.expm1(1.0))  # served at once
    release.set()
    compiler.wait()
    states.append(program.compiled)
    assert states == [False, True]


def _wait_for(event: threading.Event) -> None:
    assert event.wait(timeout=60)


def test_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    program = _program(registry.find("tk::log1p").facets["Pointwise"], "float32", "tk::log1p")
    program.request()
    assert not program.compiled


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


def test_warnings_are_left_alone_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note [Warnings of the compiler thread]: Numba's own contexts, entered where kernels are compiled."""
    from numba.core.errors import NumbaWarning, WarningsFixer
    from numba.np.ufunc.ufuncbuilder import _suppress_deprecation_warning_nopython_not_supplied as suppress

    def look() -> tuple[Any, ...]:
        return warnings.filters, list(warnings.filters), warnings.showwarning, warnings._showwarnmsg_impl  # type: ignore[attr-defined]

    def enter() -> None:
        with WarningsFixer(NumbaWarning).catch_warnings():
            seen.append(look())
        with suppress():
            seen.append(look())

    seen: list[tuple[Any, ...]] = []
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    before = look()
    compiler.request("test", enter)
    compiler.wait()
    assert len(seen) == 2
    for found in seen:
        assert found[0] is before[0]
        assert found[1:] == before[1:]
    enter()  # on another thread Numba has the module itself, and puts back what it found
    assert all(found[1] != before[1] for found in seen[2:])
    assert look()[1:] == before[1:]
