"""The templates gather, scatter and sort: what kernels are promised, errors, dtypes, fallbacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import coverage, strict_fallback
from tests._reference_device import Reference
from tests._tiers import Failures
from tests.operators._table import DTYPES, OPERATORS, results, sampled

o = tk.ops.tk
_PRIMITIVES = [op for op in OPERATORS if op.schema.base_name in ("gather_rows", "scatter_rows_", "sort_rows")]
_ALONG_AXES = [op for op in OPERATORS if {"ArgReduce", "Scan"} & set(op.facets)]


class Strict(Reference):
    """The reference device, which checks what its kernels are promised."""

    name = "strict"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Any, ...]] = []

    def gather(self, dtype: np.dtype) -> Any:
        self.made.append(("gather", dtype.name))
        kernel = super().gather(dtype)

        def checked(out: Any, x: Any, index: Any, error: Any, code: int) -> None:
            assert out.shape == index.shape
            assert out.size > 0
            assert out.is_contiguous
            assert x.shape == (out.shape[0], x.shape[1], out.shape[2])
            assert (x.dtype, out.dtype, index.dtype, error.dtype) == (dtype, dtype, np.int64, np.int64)
            assert error.shape == (1,)
            assert code > 0
            kernel(out, x, index, error, code)

        return checked

    def scatter(self, mode: str, dtype: np.dtype, deterministic: bool) -> Any:
        self.made.append(("scatter", mode, dtype.name, deterministic))
        kernel = super().scatter(mode, dtype, deterministic)

        def checked(out: Any, index: Any, source: Any, error: Any, code: int) -> None:
            assert index.shape == source.shape == (out.shape[0], index.shape[1], out.shape[2])
            assert index.size > 0
            assert (source.dtype, out.dtype, index.dtype, error.dtype) == (dtype, dtype, np.int64, np.int64)
            assert out.owner is not source.owner
            assert out.owner is not index.owner
            assert code > 0
            kernel(out, index, source, error, code)

        return checked

    def sort(self, dtype: np.dtype) -> Any:
        self.made.append(("sort", dtype.name))
        kernel = super().sort(dtype)

        def checked(values: Any, order: Any, x: Any) -> None:
            assert values.shape == order.shape == x.shape
            assert x.ndim == 2
            assert x.size > 0
            assert values.is_contiguous
            assert order.is_contiguous
            assert (values.dtype, order.dtype, x.dtype) == (dtype, np.int64, dtype)
            kernel(values, order, x)

        return checked

    def arg_reduction(self, better: Any, operand: np.dtype) -> Any:
        self.made.append(("arg_reduction", operand.name))
        kernel = super().arg_reduction(better, operand)

        def checked(out: Any, x: Any) -> None:
            assert better.parameters == ("a", "b")
            assert better.expression.kind == "boolean"
            assert better.dtype == operand == x.dtype
            assert out.shape == x.shape[:1]
            assert x.size > 0
            assert out.is_contiguous
            assert out.dtype == np.int64
            kernel(out, x)

        return checked

    def scan(self, combine: Any, dtype: np.dtype) -> Any:
        self.made.append(("scan", len(combine), dtype.name))
        kernel = super().scan(combine, dtype)

        def checked(outs: Any, xs: Any, reverse: bool) -> None:
            assert len(outs) == len(xs) == len(combine)
            for window in (*outs, *xs):
                assert window.shape == outs[0].shape
                assert window.ndim == 2
                assert window.size > 0
                assert window.dtype == dtype
            assert {out.owner for out in outs}.isdisjoint({x.owner for x in xs})
            assert isinstance(reverse, bool)
            kernel(outs, xs, reverse)

        return checked


@pytest.fixture
def backend() -> Iterator[Strict]:
    made = Strict()
    with tk.backends.register(made):
        yield made


def test_samples(backend: Strict) -> None:
    failures = Failures()
    for operator in (*_PRIMITIVES, *_ALONG_AXES):
        for dtype in (*DTYPES, "float16", "uint16"):
            for sample in sampled(operator, dtype):
                with failures.of(f"{operator.name} {dtype} {sample.name}"), strict_fallback():
                    here = sample.map(lambda t: t.clone())
                    there = sample.map(lambda t: t.to_device("strict"))
                    pairs = zip(results(operator, here), results(operator, there), strict=True)
                    for want, got in pairs:
                        rounded = {"c": 1e-6, "f": 1e-6 if operator in _ALONG_AXES else 0}.get(want.dtype.kind, 0)
                        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=rounded, strict=True)
    failures.check()
    kinds = {made[1] for made in backend.made if made[0] == "gather"}
    assert ("gather", "float32") not in backend.made
    assert {"uint8", "uint16", "uint32", "uint64", "complex128"} <= kinds
    assert ("scatter", "maximum", "uint8", False) in backend.made  # the sum of bools


def test_a_broadcast_operand_is_not_copied(backend: Strict) -> None:
    seen: list[Any] = []
    x = tk.zeros((2, 3, 4), device="strict")
    backend.gather = lambda dtype: lambda out, x, index, error, code: seen.append((x, index))  # type: ignore[method-assign]
    o.gather_rows(x[:1, :, :1], tk.zeros((2, 1, 4), dtype=tk.int64, device="strict"), "demo")
    ((window, index),) = seen
    assert window.owner is x.array.owner
    assert window.strides == (0, 16, 0)
    assert index.strides == (32, 32, 8)


@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range(backend: Strict, index: int) -> None:
    x = tk.ones((1, 3, 1), device="strict")
    at = tk.asarray([[[0], [index]]], device="strict")
    with strict_fallback():
        with pytest.raises(IndexError, match=r"^\[take\] an index is out of range: for an axis of length n"):
            o.gather_rows(x, at, "take")
        with pytest.raises(IndexError, match=r"^\[put\] an index is out of range"):
            o.scatter_rows_(x, at, x[:, :1] * 5, "set", "put")
        assert o.gather_rows(x, at[:, :1], "take").tolist() == [[[5.0]]]  # the error is reported once


def test_a_source_in_the_same_memory_is_copied(backend: Strict) -> None:
    for make in (tk.asarray, lambda values: tk.asarray(values, device="strict")):
        x = make([[[1.0], [2.0], [3.0]]])
        o.scatter_rows_(x, make([[[1], [2]]]), x[:, :2], "add", "demo")
        assert x.tolist() == [[[1.0], [3.0], [5.0]]]


def test_order_matters_where_it_shows(backend: Strict) -> None:
    index = tk.zeros((1, 2, 1), dtype=tk.int64, device="strict")
    for dtype in (tk.float32, tk.int32, tk.bool):
        for mode in ("set", "add", "multiply", "minimum", "maximum"):
            x = tk.ones((1, 1, 1), dtype=dtype, device="strict")
            o.scatter_rows_(x, index, x, mode, "demo")
    ordered = {made[1:3] for made in backend.made if made[0] == "scatter" and made[3]}
    assert ordered == {("set", "uint32"), ("set", "uint8"), ("add", "float32"), ("multiply", "float32")}
    backend.deterministic = False
    x = tk.ones((1, 1, 1), device="strict")
    o.scatter_rows_(x, index, x, "add", "demo")
    assert backend.made[-1] == ("scatter", "add", "float32", False)


def test_a_backend_that_declines_falls_back(backend: Strict) -> None:
    for name in ("gather", "scatter", "sort"):
        setattr(backend, name, lambda *given: None)
    x = tk.asarray([[[3.0], [1.0]]], device="strict")
    at = tk.asarray([[[1], [1]]], device="strict")
    assert o.gather_rows(x, at, "demo").tolist() == [[[1.0], [1.0]]]
    assert o.sort_rows(x[:, :, 0])[1].tolist() == [[1, 0]]
    assert o.scatter_rows_(x, at, x * 2, "add", "demo") is x
    assert x.tolist() == [[[3.0], [9.0]]]
    assert set(coverage("strict").fallback) == {"tk::gather_rows", "tk::sort_rows", "tk::scatter_rows_"}


def test_tensors_of_two_devices_are_refused(backend: Strict) -> None:
    x = tk.ones((1, 2, 1), device="strict")
    with pytest.raises(RuntimeError, match="different devices"):
        o.gather_rows(x, tk.zeros((1, 1, 1), dtype=tk.int64), "demo")


# ---- arg_reduction and scan


def test_first_of_equal_elements_and_nan(backend: Strict) -> None:
    rows = np.array([[1.0, 3.0, 3.0, 2.0], [np.nan, 5.0, np.nan, 9.0], [-0.0, 0.0, -1.0, -1.0], [-np.inf] * 4])
    for name in ("argmax", "argmin", "nanargmax", "nanargmin"):
        for axis in (0, 1, None):
            values = rows[:2] if name.startswith("nan") and axis != 1 else rows
            with strict_fallback():
                got = getattr(tk, name)(tk.asarray(values, device="strict"), axis=axis, keepdims=True)
            np.testing.assert_array_equal(got.numpy(), getattr(np, name)(values, axis, keepdims=True), err_msg=name)


def test_a_slice_of_nan_only_has_no_place(backend: Strict) -> None:
    x = tk.asarray([[1.0, 2.0], [np.nan, np.nan]], device="strict")
    with (
        strict_fallback(),
        pytest.raises(ValueError, match=r"^\[nanargmax\] axis=1 of shape"),
    ):
        tk.nanargmax(x, axis=1)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("initial", [False, True])
def test_scans_along_every_axis(backend: Strict, axis: int, initial: bool) -> None:
    values = np.arange(24.0).reshape(2, 3, 4) % 5 + 0.5
    for order in ((0, 1, 2), (2, 0, 1)):
        moved = values.transpose(order)
        x = tk.permute_dims(tk.asarray(values, device="strict"), order)
        for name in ("cumulative_sum", "cumulative_prod"):
            with strict_fallback():
                got = getattr(tk, name)(x, axis=axis, include_initial=initial, dtype=tk.float32)
            want = getattr(np, name)(moved.astype(np.float32), axis=axis, include_initial=initial)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, strict=True)


def test_dtypes_of_sums_and_bools(backend: Strict) -> None:
    x = tk.asarray([True, False, True], device="strict")
    with strict_fallback():
        assert tk.cumulative_sum(x).tolist() == [1, 1, 2]
        assert tk.cumulative_sum(x, dtype=tk.bool).tolist() == [True, True, True]
        assert tk.cumulative_prod(x, dtype=tk.bool).tolist() == [True, False, False]
    assert ("scan", 1, "int64") in backend.made
    assert ("scan", 1, "bool") in backend.made


def test_gradients_of_scans_run_on_the_device(backend: Strict) -> None:
    values = np.array([[1.0, 0.0, 3.0], [2.0, 5.0, 0.5]])
    found = []
    for device in ("cpu", "strict"):
        x = tk.asarray(values, device=device).requires_grad_()
        (first,) = tk.autograd.grad(tk.sum(tk.cumulative_prod(x, axis=1) ** 2), x, create_graph=True)
        (second,) = tk.autograd.grad(tk.sum(first * first), x)
        found.append((first.detach().numpy(), second.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert not {"tk::linear_recurrence", "tk::affine_scan", "tk::cumulative_prod"} & set(coverage("strict").fallback)
