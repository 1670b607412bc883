"""Every built-in operator against NumPy and SciPy: values, dtype and shape, on every dtype that it is defined for."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import registry
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.schema import ListType
from tenkey.dispatch.tags import Tag
from tests._tiers import each
from tests.operators._extra_references import AGAINST_MPMATH, EXTRA_ULPS
from tests.operators._references import expected_dtype, independent_reference, reference_of
from tests.operators._table import (
    DTYPES,
    FACTORIES,
    FLOATING,
    INPLACE,
    OPERATORS,
    SAMPLED,
    arrays,
    calls,
    chosen,
    named,
    results,
    sampled,
)

# in units in the last place of 1: of float32 and float64 results that were computed in a few steps
_ULPS = 16


def assert_close(got: Any, want: Any) -> None:
    """Equal but for rounding: exactly for integers and bools."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    eps = float(np.finfo(got.dtype).eps)
    largest = float(np.max(np.abs(want[np.isfinite(want)]), initial=1.0))
    np.testing.assert_allclose(got, want, rtol=_ULPS * eps, atol=_ULPS * eps * largest)


def test_every_operator_has_an_independent_reference() -> None:
    """Its own expression, or its parts, do not show a wrong constant in the block."""
    unknown = {op.schema.base_name for op in SAMPLED if independent_reference(op) is None}
    draws = {name for name in unknown if name.startswith("random_")}  # steps of draws: tests/random/test_random.py
    assert unknown - draws == {"to_device"}, "give its block reference=, computed in another way than the operator"
    assert len(SAMPLED) > 80


def test_a_composite_without_a_reference_is_compared_with_its_parts() -> None:
    @tk.library.composite("test_reference::parts(Tensor x, Tensor y) -> Tensor")
    def parts(x: tk.Tensor, y: tk.Tensor) -> tk.Tensor:
        sums = tk.sum(x, 1, keepdims=True)
        last = tk.full((1, 1), 0.5, dtype=x.dtype, device=x.device)
        return tk.concat([sums * tk.prod(x, (0, 1)) + tk.zeros_like(sums), last]) - y

    operator = registry.find("test_reference::parts")
    try:
        reference = reference_of(operator)
        assert reference is not None
        x = np.arange(1.0, 7.0).reshape(2, 3)
        np.testing.assert_allclose(reference(x, 0.25), [[6 * 720 - 0.25], [15 * 720 - 0.25], [0.25]], rtol=1e-15)
    finally:
        registry.undefine(operator)


@pytest.mark.wider
@each("dtype", DTYPES)
@named([op for op in SAMPLED if reference_of(op) is not None])
def test_values_dtype_and_shape(operator: Operator, dtype: str) -> None:
    reference = reference_of(operator)
    assert reference is not None
    for sample in chosen(operator, dtype):
        inexact = expected_dtype(operator, np.dtype(dtype)).kind in "fc"
        given = arrays(sample, wide=inexact)
        with np.errstate(all="ignore"):
            if inexact and np.dtype(dtype).kind in "biu":
                want = reference(*[_as_float(a) for a in given.args], **given.kwargs)
            else:
                want = reference(*given.args, **given.kwargs)
        wanted = sample.kwargs.get("dtype") or next((a for a in sample.args if isinstance(a, np.dtype)), None)
        if len(operator.schema.returns) > 1 or isinstance(operator.schema.returns[0].type, ListType):
            # whose dtypes the reference says
            for one, other in zip(results(operator, sample), want, strict=True):
                assert (one.shape, one.dtype.kind) == (np.shape(other), np.asarray(other).dtype.kind), sample
                assert_close(one.numpy(), np.asarray(other))
            continue
        got = calls(operator, sample)
        assert got.dtype == (wanted or expected_dtype(operator, np.dtype(dtype))), sample
        assert got.shape == np.shape(want), sample
        if Tag.NONDETERMINISTIC not in operator.tags:
            assert_close(got.numpy(), np.asarray(want, got.dtype) if wanted is not None else want)


def _as_float(value: Any) -> Any:
    is_data = isinstance(value, np.ndarray) and value.dtype.kind in "biu" and value.dtype != np.int64
    return value.astype(np.float64) if is_data else value


@each("dtype", DTYPES)
@named(INPLACE)
def test_inplace_writes_and_returns_the_first_argument(operator: Operator, dtype: str) -> None:
    for sample in sampled(operator, dtype):
        target = sample.args[0]
        memory, shape, strides = target.numpy(), target.shape, target.strides
        others = [t.numpy().copy() for t in sample.tensors()[1:]]
        version = target._version
        result = calls(operator, sample)
        assert result is target
        assert np.shares_memory(memory, target.numpy()) or target.size == 0
        assert (target.shape, target.strides, target.dtype) == (shape, strides, np.dtype(dtype))
        assert target._version == version + 1
        for tensor, before in zip(sample.tensors()[1:], others, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), before)


# ---- special values of pointwise operators

_SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-30, -1e30, 88.0, -104.0]
_POINTWISE = [op for op in OPERATORS if "Pointwise" in op.facets]
_OF_FLOATS = [op for op in _POINTWISE if "f" in op.facets["Pointwise"].promotion.accepts]


@each("dtype", FLOATING)
@named(_OF_FLOATS)
def test_special_values(operator: Operator, dtype: str) -> None:
    if operator.schema.base_name in AGAINST_MPMATH:
        pytest.skip("tests/ops/test_special.py")
    facet = operator.facets["Pointwise"]
    count = len(facet.tensors) - len(facet.boolean)
    columns = np.array(list(itertools.product(_SPECIAL, repeat=max(count, 1))), dtype).T
    data = iter(columns)
    rows = (
        [
            (np.arange(columns.shape[1]) % 3 == 0) if name in facet.boolean and count else next(data)
            for name in facet.tensors
        ]
        if count
        else [column.astype(bool) for column in np.array(list(itertools.product([0, 1], repeat=len(facet.tensors)))).T]
    )
    numbers = _numbers_of(operator)
    got = operator.call(*[tk.asarray(row.copy()) for row in rows], **numbers).numpy()
    reference = reference_of(operator)
    assert reference is not None
    with np.errstate(all="ignore"):
        want = reference(*rows, **numbers)
    assert got.dtype == want.dtype
    ulps = EXTRA_ULPS.get(operator.schema.base_name, _ULPS)
    np.testing.assert_allclose(got, want, rtol=ulps * float(np.finfo(dtype).eps), atol=0)
    zero = (want == 0) & (want.dtype.kind == "f")
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))  # which zero it is


def _numbers_of(operator: Operator) -> dict[str, Any]:
    """Values for the arguments of a pointwise operator that are not tensors; defaults are those of each side."""
    values = {"int": 2, "float": 0.75, "bool": True, "complex": 0.75, "Scalar": 0.75}
    others = [a for a in operator.schema.arguments if not a.type.is_tensor_like and not a.has_default]
    return {a.name: values[str(a.type)] for a in others}


# ---- promotion

_MIXED = [
    ("float32", "float64", "float64"),
    ("int64", "float32", "float32"),
    ("uint8", "int8", "int16"),
    ("int32", "int64", "int64"),
    ("bool", "int8", "int8"),
    ("bool", "float64", "float64"),
    ("float64", "complex64", "complex128"),
    ("int64", "complex64", "complex64"),
    ("float16", "int64", "float16"),
]
_BINARY = [op for op in _POINTWISE if len(op.facets["Pointwise"].tensors) == 2 and not op.facets["Pointwise"].boolean]


@each(("first", "second", "common"), _MIXED)
@named(_BINARY)
def test_mixed_dtypes(operator: Operator, first: str, second: str, common: str) -> None:
    if operator.facets["Pointwise"].promotion.name == "EACH_TO_FLOAT":  # integers are default floats: float32
        common = {"float16": "float32"}.get(common, common)
    numbers = _numbers_of(operator)
    reference = reference_of(operator)
    assert reference is not None
    values = ([1, 0, 3, 2], [1, 1, 2, 3])
    if not list(sampled(operator, common)):
        with pytest.raises(TypeError, match="is not defined for dtype"):
            operator.call(tk.asarray(values[0], dtype=first), tk.asarray(values[1], dtype=second), **numbers)
        return
    for dtypes in ((first, second), (second, first)):
        given = [np.array(v).astype(d) for v, d in zip(values, dtypes, strict=True)]
        got = operator.call(*[tk.asarray(a) for a in given], **numbers)
        result = expected_dtype(operator, np.dtype(common))
        assert got.dtype == result
        compute = result if result.kind in "fc" else np.dtype(common)
        want = reference(*[a.astype(common).astype(compute) for a in given], **numbers)
        assert_close(got.numpy(), want)


# ---- creation


_MADE: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("zeros", ((2, 3),), {}, np.zeros((2, 3), "float32")),
    ("zeros", (2,), {"dtype": "int8"}, np.zeros(2, "int8")),
    ("zeros", ((),), {}, np.zeros((), "float32")),
    ("ones", ((0, 3),), {"dtype": "complex64"}, np.ones((0, 3), "complex64")),
    ("ones", ([2, 2],), {"dtype": bool}, np.ones((2, 2), bool)),
    ("full", ((2,), 7), {}, np.full(2, 7, "int64")),
    ("full", ((2,), 7.5), {}, np.full(2, 7.5, "float32")),
    ("full", ((2,), True), {}, np.full(2, True)),
    ("full", ((2,), 1j), {}, np.full(2, 1j, "complex64")),
    ("full", ((2,), 300), {"dtype": "float64"}, np.full(2, 300.0)),
    ("arange", (1, 7, 2), {}, np.arange(1, 7, 2)),
    ("arange", (1, 0, 1), {}, np.arange(0)),
    ("arange", (5,), {}, np.arange(5)),
    ("arange", (5, 0, -2), {}, np.array([5, 3, 1])),
    ("arange", (0.0, 1.0, 0.25), {}, np.array([0, 0.25, 0.5, 0.75], "float32")),
    ("arange", (3,), {"dtype": "float64"}, np.array([0.0, 1.0, 2.0])),
    ("arange", (1, 2, 0.5), {}, np.array([1, 1.5], "float32")),
    ("linspace", (0, 1, 5), {}, np.array([0, 0.25, 0.5, 0.75, 1], "float32")),
    ("linspace", (0, 1, 4), {"endpoint": False, "dtype": "float64"}, np.array([0, 0.25, 0.5, 0.75])),
    ("linspace", (0, 1, 0), {}, np.zeros(0, "float32")),
    ("linspace", (2, 5, 1), {}, np.array([2], "float32")),
    ("fft_fftfreq", (4,), {}, np.array([0, 0.25, -0.5, -0.25], "float32")),
    ("fft_fftfreq", (5,), {"d": 0.5, "dtype": "float64"}, np.array([0, 0.4, 0.8, -0.8, -0.4])),
    ("fft_rfftfreq", (4,), {}, np.array([0, 0.25, 0.5], "float32")),
    ("fft_rfftfreq", (5,), {"d": 0.5, "dtype": "float64"}, np.array([0, 0.4, 0.8])),
    ("eye", (3,), {}, np.eye(3, dtype="float32")),
    ("eye", (2, 4), {"k": 1, "dtype": "int64"}, np.eye(2, 4, 1, "int64")),
    ("eye", (3, 2), {"k": -1}, np.eye(3, 2, -1, "float32")),
    ("logspace", (0, 2, 3), {}, np.logspace(0, 2, 3, dtype="float32")),
    ("logspace", (0, 2, 4), {"base": 2.0, "endpoint": False, "dtype": "float64"}, np.logspace(0, 2, 4, False, 2.0)),
    ("geomspace", (1, 8, 4), {}, np.geomspace(1, 8, 4, dtype="float32")),
    ("geomspace", (-1, -8, 3), {"endpoint": False, "dtype": "float64"}, np.geomspace(-1, -8, 3, False)),
    ("tri", (3,), {}, np.tri(3, dtype="float32")),
    ("tri", (2, 4), {"k": 1, "dtype": "bool"}, np.tri(2, 4, 1, bool)),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "want"), _MADE)
def test_creation(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], want: Any) -> None:
    got = getattr(tk.ops.tk, name)(*args, **kwargs)
    assert got.dtype == want.dtype
    assert got.is_contiguous
    np.testing.assert_array_equal(got.numpy(), want, strict=True)


def test_every_factory_is_tested() -> None:
    names = {op.schema.base_name for op in FACTORIES}
    assert names == {name for name, *_ in _MADE} | {"empty"} | {n for n in names if n.startswith("random_")}


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty(dtype: str) -> None:
    made = tk.empty((2, 0, 3), dtype=dtype)
    assert (made.shape, made.dtype) == ((2, 0, 3), np.dtype(dtype))


def test_moving_to_another_device_and_back_is_refused_without_values() -> None:
    moved = tk.ones(2).to_device("meta")
    assert (moved.shape, moved.dtype, str(moved.device)) == ((2,), np.dtype("float32"), "meta")
    with pytest.raises(RuntimeError, match="no values"):
        moved.to_device("cpu")
    here = tk.ones(2)
    assert here.to_device("cpu") is here
