"""Averages with the sums of their weights, histograms with bins by name and in several dimensions, against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._tiers import Failures

WAYS = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("way", WAYS)
def test_bins_by_name(way: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = (rng.standard_normal((6, 10)) * 9).astype(dtype)
    plain = values.view(np.uint8) if dtype == "bool" else values
    x = tk.asarray(values)
    hist, edges = tk.histogram(x, way)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "stone" doubts its own choice
        want, want_edges = np.histogram(plain, way)
    assert edges.dtype == (dtype if dtype.startswith("float") else "float32")
    np.testing.assert_allclose(edges.numpy(), want_edges, rtol=1e-6)
    assert hist.dtype == tk.int64
    if dtype != "float32":  # there NumPy's own edges are rounded
        assert hist.tolist() == want.tolist()
    assert tk.histogram_bin_edges(x, way).tolist() == edges.tolist()


def test_bins_by_name_in_a_range_and_of_nothing() -> None:
    values = np.arange(20.0)
    for options in ({"range": (2.0, 9.0)}, {"density": True}):
        found, want = tk.histogram(tk.asarray(values), "rice", **options), np.histogram(values, "rice", **options)
        for ours, theirs in zip(found, want):
            np.testing.assert_allclose(ours.numpy(), theirs)
    assert tk.histogram(tk.zeros(0), "auto")[0].tolist() == [0]
    with pytest.raises(ValueError, match=r"\[histogram\] the range nan to nan must be finite"):
        tk.histogram(tk.asarray([1.0, float("nan")]), "auto")
    with pytest.raises(NotImplementedError, match=r"bins='auto' depends on the values"):
        tk.histogram(tk.ones(3, device="meta"), "auto")


CASES: list[tuple[Any, dict[str, Any]]] = [
    (10, {}),
    (3, {"density": True}),
    ((2, 3, 4), {"range": [(-1.0, 1.0), None, (0.0, 2.0)]}),
    (([-1.0, 0.0, 0.5], 4, np.array([-2.0, 0.0, 2.0])), {}),
    (([-1.0, 0.0, 0.5], 4, np.array([-2.0, 0.0, 2.0])), {"density": True}),
    (4, {"weights": True}),
    (4, {"weights": True, "density": True}),
]


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize(("bins", "options"), CASES)
def test_histogramdd(bins: Any, options: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(0)
    points = (rng.standard_normal((50, 3)) * (3 if dtype == "int64" else 1)).astype(dtype)
    weights = rng.uniform(0, 1, 50) if options.get("weights") else None
    want, want_edges = np.histogramdd(points, bins, **{**options, "weights": weights})
    given = {**options, "weights": None if weights is None else tk.asarray(weights)}
    ours = tuple(tk.asarray(b) if isinstance(b, np.ndarray) else b for b in bins) if isinstance(bins, tuple) else bins
    for sample in (tk.asarray(points), [tk.asarray(column) for column in points.T]):
        hist, edges = tk.histogramdd(sample, ours, **given)
        np.testing.assert_allclose(hist.numpy(), want, rtol=1e-5)
        assert isinstance(edges, tuple)
        for found, wanted in zip(edges, want_edges):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_histogramdd_counts_without_values_and_points() -> None:
    hist, edges = tk.histogramdd(tk.zeros((0, 2)), (2, 3))
    assert (hist.tolist(), hist.dtype, edges[1].shape) == ([[0] * 3] * 2, tk.int64, (4,))
    assert tk.histogramdd(tk.ones((5, 2), device="meta"), (2, 3))[0].shape == (2, 3)
    with pytest.raises(TypeError, match=r"\[histogramdd\] takes a Tensor of points, .* got ndarray: convert"):
        tk.histogramdd(np.ones((3, 2)))
    with pytest.raises(TypeError, match=r"\[histogramdd\] got bins='auto': names of bins are for tk.histogram"):
        tk.histogramdd(tk.ones((3, 2)), "auto")
    for span in (5, [1, 2]):
        with pytest.raises(TypeError, match=r"\[histogramdd\] got range=.*: give \(low, high\), or None, for each"):
            tk.histogramdd(tk.ones((3, 2)), range=span)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\[histogramdd\] the range 2.0 to 1.0 must be finite and ascending"):
        tk.histogramdd(tk.ones((3, 1)), 2, range=[(2, 1)])
    with pytest.raises(ValueError, match=r"\[histogramdd\] edges of shape \(1,\)"):
        tk.histogramdd(tk.ones((3, 1)), ([1.0],))


def test_the_sums_of_the_weights() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for options in ({}, {"axis": 0}, {"axis": 1, "weights": np.array([1.0, 2.0, 0.5])}, {"weights": x + 1}):
        ours = {k: tk.asarray(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        found, want = tk.average(tk.asarray(x), returned=True, **ours), np.average(x, returned=True, **options)
        for one, other in zip(found, want):
            np.testing.assert_allclose(one.numpy(), other)
            assert one.shape == np.shape(other)
    weights = tk.tensor([1.0, 3.0], requires_grad=True)
    tk.average(tk.asarray([5.0, 7.0]), weights=weights, returned=True)[1].backward()
    assert weights.grad is not None
    assert weights.grad.tolist() == [1.0, 1.0]
    both: Any = np.average(tk.asarray(x), axis=0, returned=True)
    assert [type(part) for part in both] == [tk.Tensor, tk.Tensor]


@pytest.mark.parametrize("dtype", ["float64", "int8"])
@pytest.mark.parametrize("length", [None, 1, 2, (2, 3), ((1, 2), (3, 1)), 99])
@pytest.mark.parametrize("mode", ["maximum", "minimum", "mean", "median"])
def test_borders_of_statistics(mode: Any, length: Any, dtype: str) -> None:
    x = (np.random.default_rng(0).standard_normal((3, 4)) * 9).astype(dtype)
    found = tk.pad(tk.asarray(x), ((2, 1), (0, 3)), mode, stat_length=length)
    want = np.pad(x, ((2, 1), (0, 3)), mode, stat_length=length)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    if dtype == "float64":
        assert tk.autograd.gradcheck(lambda t: tk.pad(t, 1, mode, stat_length=length), tk.tensor(x, requires_grad=True))


def test_variances_of_half_precision() -> None:
    """They are those of float32, rounded: neither the sums nor the root of a large variance overflow."""
    rng = np.random.default_rng(11)
    failures = Failures()
    for dtype in (tk.float16, tk.bfloat16):
        for n in (5, 1200, 20_000):
            with failures.of(f"{dtype} {n}"):
                x = tk.asarray(rng.standard_normal(n) * 150 + 200).astype(dtype).requires_grad_()
                wide = x.detach().astype(tk.float64).numpy()
                eps = 1e-3 if dtype == tk.float16 else 8e-3
                spread = wide.std()
                for got, expected, slope in (
                    (tk.var(x), wide.var(), 2 * (wide - wide.mean()) / n),
                    (tk.std(x), spread, (wide - wide.mean()) / (n * spread)),
                ):
                    assert got.dtype == dtype
                    assert got.item() == pytest.approx(expected, rel=eps)
                    (by_x,) = tk.autograd.grad(got, x)
                    np.testing.assert_allclose(
                        by_x.astype(tk.float64).numpy(), slope, rtol=2 * eps, atol=3e-7 + eps * abs(slope).max()
                    )
    failures.check()
    far = tk.asarray(np.array([300, -300] * 600, np.float16))
    assert (tk.std(far).item(), tk.var(far).item()) == (300.0, np.inf)
