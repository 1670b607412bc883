"""Reductions and places of extremes by the compiled templates: values, layouts, accuracy, NaN, threads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu import reduction as cpu_reduction
from tenkey.backends.cpu.loops.reductions import axis_operators, calls
from tenkey.dispatch.registry import registry
from tests._tiers import Failures, tier

Array = np.ndarray[Any, Any]
_DTYPES: Final = ("bool", "int8", "uint8", "int32", "uint64", "int64", "float16", "float32", "float64")
_REDUCTIONS: Final = ("sum", "prod", "max", "min", "any", "all")


@pytest.fixture(autouse=True)
def _every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axis_operators, "COMPILED_ARG_REDUCTION", 0)
    monkeypatch.setattr(axis_operators, "COMPILED_ARG_COLUMNS", 0)


def reduced(name: str, a: Array, axes: Any, *, keepdims: bool = False) -> Array:
    """Reduce with the template alone, in the dtype of the operator; fail if the template declines."""
    facet = registry.find(f"tk::{name}").facets["Reduce"]
    dtype, _ = facet.promotion.dtypes(name, (a.dtype,))
    found = calls.reduce_array(facet, a, dtype, axes, keepdims)
    assert found is not None, "declined"
    return found


def data(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def wanted(name: str, a: Array, axes: Any, *, keepdims: bool = False) -> Array:
    """Return NumPy's result, in double precision for sums and products of floats."""
    wide = np.float64 if a.dtype.kind == "f" and name in ("sum", "prod") else None
    return np.asarray(getattr(np, name)(a, axis=axes, dtype=wide, keepdims=keepdims) if wide else
                      getattr(np, name)(a, axis=axes, keepdims=keepdims))  # fmt: skip


def compare(name: str, got: Array, a: Array, axes: Any) -> None:
    expected = wanted(name, a, axes)
    assert got.shape == expected.shape
    if a.dtype.kind != "f" or name not in ("sum", "prod"):
        np.testing.assert_array_equal(got, expected)
        return
    eps = np.finfo(got.dtype).eps
    scale = np.sum(np.abs(a), axis=axes, dtype=np.float64) if name == "sum" else np.abs(expected)
    count = a.size // max(1, expected.size)
    depth = 40 if name == "sum" else 4 * count
    rounding = eps * np.abs(expected) + np.finfo(got.dtype).smallest_subnormal
    single = np.finfo(np.float32 if got.dtype.itemsize < 8 else got.dtype).eps
    assert (np.abs(got - expected) <= rounding + single * depth * scale).all()


def layouts(a: Array) -> Iterator[tuple[str, Array]]:
    """Arrays whose layout a template takes."""
    yield "contiguous", a
    yield "Fortran", np.asfortranarray(a)
    yield "backwards", a[::-1]
    if a.ndim > 2:  # as images whose channels are adjacent
        yield "permuted", np.ascontiguousarray(np.moveaxis(a, 1, -1)).transpose(0, a.ndim - 1, *range(1, a.ndim - 1))
    wide = np.zeros((*a.shape[:-1], a.shape[-1] + 3), a.dtype)
    wide[..., 1:-2] = a
    yield "part of rows", wide[..., 1:-2]
    yield "repeated", np.broadcast_to(a, (2, *a.shape))


class TestReductions:
    def test_dtypes_and_lengths(self) -> None:
        rng = np.random.default_rng(0)
        failures = Failures()
        for name, dtype in itertools.product(_REDUCTIONS, tier(("bool", "int8", "float16", "float32"), _DTYPES)):
            for n in (1, 2, 15, 16, 17, 63, 129, 1000, 2048 + 7, 70_001):
                with failures.of(f"{name} {dtype} {n}"):
                    a = data(rng, (n,), dtype)
                    if name == "prod" and dtype.startswith("float"):
                        a = np.exp(a * (0.1 if dtype == "float16" else 0.01)).astype(dtype)[:1000]
                    if name == "sum" and dtype == "float16":
                        a = a[:1000]
                    compare(name, reduced(name, a, None), a, None)
        failures.check()

    def test_axes_and_layouts(self) -> None:
        rng = np.random.default_rng(1)
        failures = Failures()
        shapes = [(7, 33), (3, 5000), (5000, 3), (70, 1100), (6, 17, 129), (2, 3, 4, 5), (1, 9, 1)]
        for name, shape in itertools.product(("sum", "max"), shapes):
            for label, a in layouts(data(rng, shape, "float32")):
                for count in range(1, a.ndim + 1):
                    for axes in itertools.combinations(range(a.ndim), count):
                        with failures.of(f"{name} {label} {shape} axes {axes}"):
                            facet = registry.find(f"tk::{name}").facets["Reduce"]
                            got = calls.reduce_array(facet, a, a.dtype, axes, False)
                            if got is None:  # elements that are adjacent belong to results that are not
                                assert label in ("backwards", "repeated") or shape[-1] == 1
                            else:
                                compare(name, got, a, axes)
        failures.check()

    def test_calls_with_many_short_rows(self) -> None:
        """Below the usual size they are compiled too."""
        rng = np.random.default_rng(4)
        failures = Failures()
        for a in (rng.standard_normal((900, 3)), rng.standard_normal((4, 16, 16, 3)).transpose(0, 3, 1, 2)):
            x = tk.asarray(a)
            for axis, keepdims in itertools.product((0, -1, 1, (0, 1)), (False, True)):
                with failures.of(f"{a.shape} axis {axis} {keepdims}"):
                    got = tk.max(x, axis=axis, keepdims=keepdims)
                    np.testing.assert_array_equal(got.numpy(), a.max(axis, keepdims=keepdims))
                    got = tk.sum(x, axis=axis, keepdims=keepdims)
                    np.testing.assert_allclose(got.numpy(), a.sum(axis, keepdims=keepdims), rtol=1e-12, atol=1e-12)
        with pytest.raises(IndexError, match="axis"):
            tk.max(tk.asarray(rng.standard_normal((900, 3))), axis=2)
        failures.check()

    def test_axes_of_length_one_and_kept_axes(self) -> None:
        a = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
        assert reduced("sum", a, (1,)).tolist() == a[:, 0].tolist()
        assert reduced("sum", a, (0, 2), keepdims=True).shape == (1, 1, 1)
        assert reduced("max", a, (0,), keepdims=True).tolist() == a.max(0, keepdims=True).tolist()

    def test_nan_infinities_and_signed_zeros(self) -> None:
        for n, place in itertools.product((5, 100, 5000), (0, -1, 3)):
            a = np.zeros(n, np.float32)
            a[place] = np.nan
            for name in ("sum", "max", "min", "prod"):
                assert np.isnan(reduced(name, a, None)), (name, n, place)
                assert np.isnan(reduced(name, np.tile(a[:, None], 3), (0,))).all(), (name, n, place)
        infinite = np.full(33, -np.inf, np.float32)
        assert reduced("max", infinite, None) == -np.inf
        assert np.signbit(reduced("sum", np.full(40, -0.0, np.float32), None))

    def test_sums_are_as_accurate_as_pairwise_ones(self) -> None:
        rng = np.random.default_rng(2)
        failures = Failures()
        cases = {
            "normal": rng.standard_normal(1 << 18),
            "uniform": rng.random(1 << 18),
            "tenths": np.full(1 << 18, 0.1),
        }
        for (label, a), dtype in itertools.product(cases.items(), ("float32", "float64")):
            x = a.astype(dtype)
            exact = math.fsum(map(float, x))
            bound = np.finfo(dtype).eps * 24 * math.fsum(map(abs, map(float, x)))
            for axes, shaped in (((0,), x), ((0,), x.reshape(-1, 1).repeat(2, 1)), ((0, 1), x.reshape(512, 512))):
                with failures.of(f"{label} {dtype} {shaped.shape}"):
                    errors = np.abs(np.float64(reduced("sum", shaped, axes)) - exact)
                    assert (errors <= bound / 8).all(), errors / bound
        failures.check()

    def test_products_of_numbers_near_1_do_not_drift(self) -> None:
        x = (1 + 1e-3 * np.random.default_rng(4).normal(size=1 << 20)).astype(np.float32)
        exact = np.multiply.reduce(x, dtype=np.float64)
        for axis in (None, 0):
            found = float(tk.prod(tk.asarray(x), axis=axis))
            assert abs(found - exact) <= 1e-7 * exact, axis

    def test_halves_are_summed_in_single_precision(self) -> None:
        a = np.full(10_000, 1.001, np.float16)
        assert reduced("sum", a, None) == np.float16(a.astype(np.float64).sum())

    def test_bools_whose_bytes_are_not_one(self) -> None:
        a = np.full(5000, 2, np.uint8)
        a[::2] = 1
        assert reduced("all", a.view(bool), (0,))
        assert reduced("all", np.stack([a.view(bool), a[::-1].copy().view(bool)]), (0,)).all()

    def test_integers_wrap_around(self) -> None:
        a = np.full(5000, 2**62, np.int64)
        assert reduced("sum", a, None) == a.sum()

    def test_the_bits_do_not_depend_on_threads(self) -> None:
        rng = np.random.default_rng(3)
        before = tk.get_num_threads()
        found = []
        try:
            for threads in (1, 2, 3):
                tk.set_num_threads(threads)
                rng = np.random.default_rng(3)
                x = tk.asarray(rng.standard_normal((700, 900)).astype(np.float32))
                found.append([tk.sum(x, axis=axis).numpy().tobytes() for axis in (None, 0, 1)])
        finally:
            tk.set_num_threads(before)
        assert found[0] == found[1] == found[2]

    def test_operators_use_the_template(self, monkeypatch: pytest.MonkeyPatch) -> None:
        taken: list[str] = []
        inner = cpu_reduction.reduce_array

        def counted(facet: Any, *args: Any) -> Any:
            taken.append(str(facet.expression))
            return inner(facet, *args)

        monkeypatch.setattr(cpu_reduction, "reduce_array", counted)
        x = tk.asarray(np.random.default_rng(4).standard_normal((100, 200)))
        tk.sum(x, axis=0)
        tk.max(x)
        squares = tk.library.reduction(
            "reduction_loops::sum_of_squares(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
            combine=lambda T: lambda a, b: a + b, identity=0, scalar=lambda T: lambda v: v * v,
        )  # fmt: skip
        np.testing.assert_allclose(squares(x, axis=1).numpy(), (x.numpy() ** 2).sum(1), rtol=1e-12)
        assert taken == ["a + b", "maximum(a, b)", "a + b"]

    def test_means_of_large_arrays(self) -> None:
        a = np.random.default_rng(6).standard_normal((130, 3, 70)).astype(np.float32)
        axes = (None, 0, 2, (0, -1), ())
        for dtype, axis, keepdims in itertools.product(("float32", "float64"), axes, (False, True)):
            x = tk.asarray(a.astype(dtype))
            expected = a.astype(float).mean(axis, keepdims=keepdims)
            got = tk.mean(x, axis=axis, keepdims=keepdims)
            assert (got.dtype.name, got.shape) == (dtype, expected.shape)
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(x.numpy(), a)

    def test_a_function_without_identity(self) -> None:
        larger = tk.library.reduction(
            "reduction_loops::larger(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
            combine=lambda T: lambda a, b: a if abs(a) > abs(b) else b,
        )
        rng = np.random.default_rng(5)
        for shape in ((5000,), (3, 1700), (1700, 3)):
            a = rng.standard_normal(shape)
            flat = a.reshape(-1)
            assert larger(tk.asarray(a)).item() == flat[np.abs(flat).argmax()]
            expected = np.take_along_axis(a, np.abs(a).argmax(0, keepdims=True), 0)[0]
            np.testing.assert_array_equal(larger(tk.asarray(a), axis=0).numpy(), expected)

    def test_empty_reductions(self) -> None:
        x = tk.zeros((0, 5000))
        assert tk.sum(x, axis=0).tolist() == [0.0] * 5000
        with pytest.raises(ValueError, match="max"):
            tk.max(x, axis=0)

    @pytest.mark.parametrize("dtype", [tk.bool, tk.float32, tk.uint8])
    def test_a_result_that_is_known_early_is_written(self, dtype: Any) -> None:
        no, yes = tk.zeros(300_000, dtype=dtype), tk.ones(300_000, dtype=dtype)
        for _ in range(20):  # the other result is in the memory that the second one gets
            assert [tk.any(no).item(), tk.any(yes).item()] == [False, True]
            assert [tk.all(yes).item(), tk.all(no).item()] == [True, False]

    def test_a_wrong_template_is_noticed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        inner: Callable[..., Any] = calls.reduce_array

        def wrong(facet: Any, a: Array, *rest: Any) -> Any:
            return inner(facet, a[..., :-1], *rest)

        monkeypatch.setattr(calls, "reduce_array", wrong)
        a = np.arange(100, dtype=np.float32)
        with pytest.raises(AssertionError):
            compare("sum", reduced("sum", a, None), a, None)


class TestPlaces:
    @pytest.mark.parametrize("name", ["argmax", "argmin"])
    def test_first_places_of_extremes(self, name: str) -> None:
        rng = np.random.default_rng(6)
        failures = Failures()
        facet = registry.find(f"tk::{name}").facets["ArgReduce"]
        for dtype in _DTYPES[1:]:
            for shape, axis in itertools.product(
                [(4, 1), (3, 15), (2, 16), (5, 81), (3, 1000), (2, 40, 7)], (None, 0, -1)
            ):
                with failures.of(f"{name} {dtype} {shape} {axis}"):
                    a = rng.integers(0, 9, shape).astype(dtype)
                    if dtype.startswith("float"):
                        a[rng.random(shape) < 0.02] = np.nan
                    i = axis if axis is None else axis % a.ndim
                    found = calls.find_places(facet, a, i, False)
                    np.testing.assert_array_equal(found, getattr(a, name)(axis))
        failures.check()

    def test_an_unknown_processor(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Off Linux only LLVM describes the processor: without it the call is left to NumPy."""

        def unknown(name: str) -> bool:
            raise ImportError(f"no LLVM to ask for {name}")

        facet = registry.find("tk::argmax").facets["ArgReduce"]
        monkeypatch.setattr(facet, "kernels", {})
        monkeypatch.setattr(calls, "has_feature", unknown)
        x = tk.asarray([1.0, 3.0, 2.0])
        assert calls.find_places(facet, x.numpy(), 0, False) is None
        assert tk.argmax(x).item() == 1

    def test_long_rows_layouts_and_kept_axes(self) -> None:
        rng = np.random.default_rng(7)
        a = rng.integers(0, 1000, (3, 100_000)).astype(np.float32)
        assert tk.argmax(tk.asarray(a)).item() == a.argmax()
        np.testing.assert_array_equal(tk.argmax(tk.asarray(a), axis=1).numpy(), a.argmax(1))
        np.testing.assert_array_equal(tk.argmax(tk.asarray(a.T), axis=0, keepdims=True).numpy(), a.T.argmax(0)[None])
        np.testing.assert_array_equal(tk.argmin(tk.asarray(a[:, ::2]), axis=1).numpy(), a[:, ::2].argmin(1))
        last = np.zeros(70_000, np.float64)
        last[-1] = np.nan
        assert tk.argmin(tk.asarray(last)).item() == 69_999
