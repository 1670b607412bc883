"""Running results by the compiled template: values, axes, accuracy, NaN, several parts, threads."""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.loops.reductions import calls
from tenkey.dispatch.registry import registry
from tests._tiers import Failures, only_full

Array = np.ndarray[Any, Any]
_SHAPES: Final = [(1,), (7,), (8,), (9,), (1000,), (40_001,), (3, 70), (70, 3), (5, 20, 130), (2, 33_000), (1, 5, 1)]


def scanned(name: str, arrays: list[Array], axis: int, **options: Any) -> Array:
    facet = registry.find(f"tk::{name}").facets["Scan"]
    dtype = facet.promotion.dtypes(name, [a.dtype for a in arrays])[1]
    found = calls.scan_arrays(
        facet, arrays, dtype, axis, reverse=options.get("reverse", False), initial=options.get("initial", False)
    )
    assert found is not None, "declined"
    return found[-1]


def test_values_over_dtypes_and_axes() -> None:
    rng = np.random.default_rng(0)
    failures = Failures()
    for shape, dtype in itertools.product(_SHAPES, ("float32", "float64", "int32", "uint8", "float16")):
        for axis in range(len(shape)):
            a = rng.integers(0, 5, shape).astype(dtype)
            wide = np.float64 if dtype.startswith("float") else None
            with failures.of(f"sum {shape} {dtype} {axis}"):
                got = scanned("cumulative_sum", [a], axis)
                with np.errstate(over="ignore"):
                    np.testing.assert_array_equal(got, a.cumsum(axis, dtype=wide).astype(got.dtype))
            with failures.of(f"max {shape} {dtype} {axis}"):
                np.testing.assert_array_equal(scanned("running_max", [a], axis), np.maximum.accumulate(a, axis))
    failures.check()


def test_an_initial_element_and_layouts() -> None:
    a = np.random.default_rng(1).standard_normal((30, 200))
    for axis, view in itertools.product((0, 1), (a, a.T, a[:, ::2], a[::-1], np.broadcast_to(a[:, :1], a.shape))):
        got = scanned("cumulative_sum", [view], axis, initial=True)
        assert np.take(got, 0, axis).tolist() == [0.0] * view.shape[1 - axis]
        np.testing.assert_allclose(np.delete(got, 0, axis), view.cumsum(axis), rtol=1e-12, atol=1e-12)


def test_sums_in_single_precision_are_rounded_once() -> None:
    rng = np.random.default_rng(2)
    for shape, axis in (((1 << 17,), 0), ((4, 5000), 1), ((5000, 4), 0)):
        a = rng.random(shape).astype(np.float32)
        exact = a.cumsum(axis, dtype=np.float64)
        np.testing.assert_array_equal(scanned("cumulative_sum", [a], axis), exact.astype(np.float32))
        near = np.float32(1) + (a - np.float32(0.5)) / 1000
        exact = near.cumprod(axis, dtype=np.float64)
        np.testing.assert_allclose(scanned("cumulative_prod", [near], axis), exact, rtol=1e-7)


def test_nan_is_carried_on() -> None:
    a = np.ones((2, 40_000), np.float32)
    a[0, 20_000] = np.nan
    for name in ("cumulative_sum", "running_max", "running_min"):
        got = scanned(name, [a], 1)
        assert not np.isnan(got[0, :20_000]).any(), name
        assert np.isnan(got[0, 20_000:]).all(), name
        assert not np.isnan(got[1]).any(), name


@pytest.mark.parametrize("reverse", [False, True])
def test_elements_of_two_parts(reverse: bool) -> None:
    rng = np.random.default_rng(3)
    for shape, axis in (((50_000,), 0), ((3, 900), 1), ((900, 30), 0), ((2, 1, 3), 1)):
        a, b = rng.uniform(0.5, 1, shape), rng.standard_normal(shape)
        got = np.moveaxis(scanned("affine_scan", [a, b], axis, reverse=reverse), axis, 0)
        factors, terms = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
        if reverse:
            got, factors, terms = got[::-1], factors[::-1], terms[::-1]
        y = terms[0]
        for i in range(len(terms)):
            y = terms[i] + (factors[i] * y if i else 0)
            if i % 97 == 0 or i == len(terms) - 1:
                np.testing.assert_allclose(got[i], y, rtol=1e-9, atol=1e-9)


def _running(a: Array, axis: int, *, largest: bool) -> tuple[Array, Array]:
    """Return the running extremes and their places, element by element."""
    rows = np.moveaxis(a, axis, 0)
    values, places = rows.copy(), np.zeros(rows.shape, np.int64)
    for i in range(1, len(rows)):
        best, v = values[i - 1], rows[i]
        taken = (v >= best if largest else v <= best) | (v != v)
        values[i] = np.where(taken, v, best)
        places[i] = np.where(taken, i, places[i - 1])
    return np.moveaxis(values, 0, axis), np.moveaxis(places, 0, axis)


def _guarded(shape: tuple[int, ...], dtype: Any, guards: list[Array]) -> Array:
    """Return memory for a result with bytes around it that are not to change."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.full(size + 256, 77, np.uint8)
    guards += [block[:128], block[128 + size :]]
    return np.ndarray(shape, dtype, block[128 : 128 + size].data)


@pytest.mark.parametrize("threads", only_full([1, 2], [2]))
def test_running_extremes_with_places(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    failures = Failures()
    guards: list[Array] = []
    monkeypatch.setattr(calls, "allocate", lambda shape, dtype: _guarded(shape, dtype, guards))
    before = tk.get_num_threads()
    tk.set_num_threads(threads)
    try:
        short = [(1,), (7,), (9,), (300,), (3, 70), (70, 3), (5, 20, 40), (1, 5, 1), (40, 257)]
        cases = itertools.product(short, ("float32", "float64", "int64", "uint8", "float16"))
        for shape, dtype in (*cases, ((40_001,), "float32"), ((2, 33_000), "float64")):
            whole = np.round(rng.standard_normal((*shape[:-1], 2 * shape[-1])) * 8)  # with ties
            rising = np.sort(whole, -1)
            if dtype.startswith("float"):
                whole[rng.random(whole.shape) < 0.002] = np.nan
                whole[whole == 3] = -np.inf
                whole[whole == 0] = -0.0
            else:
                whole, rising = abs(whole), abs(rising)
            whole, rising = whole.astype(dtype), rising.astype(dtype)
            n = shape[-1]
            views = (whole[..., :n], rising[..., :n]) if n > 9999 else (whole[..., 1 : n + 1], whole[..., ::-2], rising)
            for given in views:
                for axis, largest in itertools.product(range(len(shape)), (True, False)):
                    with failures.of(f"{shape} {dtype} {axis} {largest} {given.strides}"):
                        facet = registry.find("tk::cummax_pairs" if largest else "tk::cummin_pairs").facets["ArgScan"]
                        found = calls.find_running_places(facet, given, axis)
                        assert found is not None
                        for got, expected in zip(found, _running(given, axis, largest=largest), strict=True):
                            np.testing.assert_array_equal(got, expected)
        failures.check()
    finally:
        tk.set_num_threads(before)
    assert all((guard == 77).all() for guard in guards)


def test_gradients_of_running_extremes() -> None:
    for shape, axis in (((3, 400), 1), ((400, 3), 0), ((2, 3), 0)):
        a = np.random.default_rng(6).standard_normal(shape)
        g = np.random.default_rng(7).standard_normal(shape)
        for name, largest in (("cummax", True), ("cummin", False)):
            x = tk.tensor(a, requires_grad=True)
            values, indices = getattr(tk, name)(x, axis=axis)
            expected = np.zeros(shape)
            places = list(np.indices(shape))
            places[axis] = _running(a, axis, largest=largest)[1]
            np.add.at(expected, tuple(places), g)
            np.testing.assert_allclose(tk.autograd.grad(values, x, tk.asarray(g))[0].numpy(), expected, rtol=1e-12)
            assert not indices.requires_grad
            _, tangent = tk.jvp(
                lambda t, f=name, i=axis: getattr(tk, f)(t, axis=i)[0], (tk.asarray(a),), (tk.asarray(g),)
            )
            np.testing.assert_array_equal(tangent.numpy(), g[tuple(places)])


def test_operators_and_threads() -> None:
    a = np.random.default_rng(4).standard_normal((3, 100_000)).astype(np.float32)
    before = tk.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            tk.set_num_threads(threads)
            found.append(tk.cumulative_sum(tk.asarray(a), axis=1).numpy())
    finally:
        tk.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], a.cumsum(1, dtype=np.float64).astype(np.float32))
    values, indices = tk.cummax(tk.asarray(a), axis=1)
    np.testing.assert_array_equal(values.numpy(), np.maximum.accumulate(a, 1))
    np.testing.assert_array_equal(np.take_along_axis(a, indices.numpy(), 1), values.numpy())
    running = tk.library.scan(
        "scan_loops::log_sum(Tensor x, int axis) -> Tensor",
        combine=lambda T: lambda x, y: tk.library.scalar.logaddexp(x, y),
    )
    np.testing.assert_allclose(
        running(tk.asarray(a.astype(np.float64)), 1).numpy(),
        np.logaddexp.accumulate(a.astype(np.float64), 1),
        rtol=1e-9,
    )


def test_a_wrong_function_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    facet = registry.find("tk::cumulative_sum").facets["Scan"]
    other = registry.find("tk::cumulative_prod").facets["Scan"]
    monkeypatch.setattr(facet, "kernels", {})
    monkeypatch.setattr(facet, "combine", other.combine)
    a = np.arange(1.0, 9.0)
    assert scanned("cumulative_sum", [a], 0).tolist() != a.cumsum().tolist()
