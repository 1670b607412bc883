"""What array users reach for beyond the standard, against NumPy over shapes and hard values, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenkey as tk
from tenkey.autograd import gradcheck
from tenkey.transforms import vmap
from tests._tiers import tier

nan, inf = np.nan, np.inf
_METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def _same(got: Any, want: Any, tolerance: float = 1e-12) -> None:
    want = np.asarray(want)
    assert got.shape == want.shape
    assert got.is_contiguous
    np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


def _values(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    """Numbers with ties among them."""
    return rng.integers(0, 5, n) / 2 if n % 2 else rng.standard_normal(n)


# ---- quantiles


@pytest.mark.wider
@settings(max_examples=tier(20, 60), deadline=None)
@given(st.integers(1, 60), st.floats(0, 1), st.sampled_from(_METHODS), st.integers(0, 9))
def test_quantiles_by_every_method(n: int, q: float, method: str, seed: int) -> None:
    x = _values(np.random.default_rng(seed), n)
    want = np.quantile(x, q, method=method)
    _same(tk.quantile(tk.asarray(x), q, method=method), want)
    _same(tk.quantile(tk.asarray(x), tk.asarray([q], dtype=tk.float64), method=method), [want])
    with_nan = np.append(x, nan)
    _same(tk.nanquantile(tk.asarray(with_nan), q, method=method), want)
    assert np.isnan(tk.quantile(tk.asarray(with_nan), q, method=method).item())


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_shapes_of_quantiles(axis: Any, keepdims: bool) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    t = tk.asarray(x)
    for q in (0.3, [0.1, 0.9]):
        given_q = tk.asarray(q, dtype=tk.float64) if isinstance(q, list) else q
        _same(tk.quantile(t, given_q, axis=axis, keepdims=keepdims), np.quantile(x, q, axis=axis, keepdims=keepdims))
    _same(tk.median(t, axis=axis, keepdims=keepdims), np.median(x, axis=axis, keepdims=keepdims))
    x[0, 0, 0] = nan
    _same(tk.nanmedian(t, axis=axis, keepdims=keepdims), np.nanmedian(x, axis=axis, keepdims=keepdims))


def test_ties_share_the_gradient_of_a_median() -> None:
    """Note [Ties in order statistics]."""
    x = tk.tensor([1.0, 1.0, 2.0, 2.0], dtype=tk.float64, requires_grad=True)
    tk.median(x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.25] * 4
    y = tk.tensor([3.0, 1.0, 2.0], dtype=tk.float64, requires_grad=True)
    q = tk.tensor([0.3], dtype=tk.float64, requires_grad=True)
    assert gradcheck(lambda a, b: tk.quantile(a, b), (y, q))


def test_medians_of_infinities_and_of_large_numbers() -> None:
    assert tk.median(tk.asarray([inf, inf])).item() == inf
    assert tk.quantile(tk.asarray([inf, inf, 1.0]), 0.9).item() == inf
    assert tk.quantile(tk.asarray([1.0, inf]), 0.0).item() == 1.0
    assert tk.median(tk.asarray([3e38, 3e38])).item() == np.float32(3e38)
    assert tk.median(tk.asarray([1, 2])).dtype == tk.float32


# ---- reductions without nan


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "nanmedian"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_leave_out_nan(name: str, axis: Any) -> None:
    x = np.array([[1.0, nan, -2.0], [nan, 5.0, 0.5], [inf, 2.0, nan]])
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, axis=axis)
    _same(getattr(tk, name)(tk.asarray(x), axis=axis), want)


@pytest.mark.filterwarnings("error")
def test_slices_of_nan_alone() -> None:
    x = tk.asarray([[nan, nan], [1.0, 2.0]])
    assert tk.nansum(x, axis=1).tolist() == [0.0, 3.0]
    assert tk.nanprod(x, axis=1).tolist() == [1.0, 2.0]
    for name in ("nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "nanmedian"):
        first, second = getattr(tk, name)(x, axis=1).tolist()
        assert np.isnan(first), name
        assert np.isfinite(second), name
    with pytest.raises(ValueError, match=r"\[nanargmax\] axis=1 .* has a slice of nan only"):
        tk.nanargmax(x, axis=1)
    assert tk.nanargmax(tk.asarray([nan, -inf, -inf])).item() == 1
    assert tk.nanargmin(tk.asarray([nan, inf])).item() == 1


def test_gradients_without_nan() -> None:
    x = tk.tensor([1.0, nan, 3.0], dtype=tk.float64, requires_grad=True)
    for name in ("nansum", "nanmean", "nanmax", "nanvar", "nanstd", "nanmedian", "nanprod"):
        (found,) = tk.autograd.grad(getattr(tk, name)(x), (x,))
        assert np.isfinite(found.numpy()).all(), name
        assert found.tolist()[1] == 0.0, name


def test_nan_to_num() -> None:
    x = np.array([1.5, nan, inf, -inf], np.float32)
    _same(tk.nan_to_num(tk.asarray(x)), np.nan_to_num(x))
    _same(tk.nan_to_num(tk.asarray(x), nan=7, posinf=8, neginf=-9), np.nan_to_num(x, nan=7, posinf=8, neginf=-9))
    z = np.array([nan + 1j, 1 + 1j * inf])
    _same(tk.nan_to_num(tk.asarray(z)), np.nan_to_num(z))
    assert tk.nan_to_num(tk.asarray([1, 2])).dtype == tk.int64


# ---- borders


@pytest.mark.wider
@settings(max_examples=tier(20, 60), deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean"]),
    st.data(),
)
def test_pad_as_numpy_does(shape: list[int], mode: str, data: Any) -> None:
    widths = [data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5))) for _ in shape]
    x = np.random.default_rng(1).standard_normal(shape)
    options: dict[str, Any] = {}
    if mode == "constant":
        options["constant_values"] = [(k, -k) for k in range(len(shape))]
    if mode == "linear_ramp":
        options["end_values"] = 2.5
    _same(tk.pad(tk.asarray(x), widths, mode=mode, **options), np.pad(x, widths, mode, **options))


def test_ways_to_give_widths() -> None:
    x = np.arange(6).reshape(2, 3)
    for widths in (1, (1, 2), ((1, 2),), ((1, 2), (0, 3))):
        _same(tk.pad(tk.asarray(x), widths), np.pad(x, widths))
    for mode in ("linear_ramp", "mean", "maximum"):
        _same(tk.pad(tk.asarray(x), 2, mode=mode), np.pad(x, 2, mode))


# ---- sequences


@pytest.mark.wider
@settings(max_examples=tier(13, 40), deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(["full", "same", "valid"]), st.booleans())
def test_convolve_and_correlate(n: int, m: int, mode: str, is_complex: bool) -> None:
    rng = np.random.default_rng(n * 10 + m)
    a, v = rng.standard_normal(n), rng.standard_normal(m)
    if is_complex:
        a, v = a + 1j * rng.standard_normal(n), v - 1j * rng.standard_normal(m)
    _same(tk.convolve(tk.asarray(a), tk.asarray(v), mode=mode), np.convolve(a, v, mode))
    _same(tk.correlate(tk.asarray(a), tk.asarray(v), mode=mode), np.correlate(a, v, mode))


def test_interp() -> None:
    xp, fp = np.array([0.0, 1.0, 2.5]), np.array([1.0, -2.0, 4.0])
    x = np.array([-1.0, 0.0, 0.3, 1.0, 2.5, 3.0, nan, inf, -inf])
    given_points = [tk.asarray(a) for a in (x, xp, fp)]
    _same(tk.interp(*given_points), np.interp(x, xp, fp))
    _same(tk.interp(*given_points, left=-7.0, right=9.0), np.interp(x, xp, fp, -7, 9))
    places = np.array([350.0, 10.0, 190.0])
    angles = np.array([5.0, 355.0, 725.0, -180.0])
    got = tk.interp(tk.asarray(angles), tk.asarray(places), tk.asarray(fp), period=360.0)
    _same(got, np.interp(angles, places, fp, period=360))
    _same(tk.interp(tk.asarray([1.0, 2.0]), tk.asarray([1.5]), tk.asarray([3.0])), [3.0, 3.0])


@pytest.mark.wider
@settings(max_examples=tier(10, 30), deadline=None)
@given(st.integers(0, 12), st.floats(0.5, 9), st.integers(0, 5))
def test_unwrap(n: int, period: float, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(-20, 20, n)
    _same(tk.unwrap(tk.asarray(x), period=period), np.unwrap(x, period=period), 1e-10)


def test_gradient_of_a_grid() -> None:
    x = np.random.default_rng(3).standard_normal((4, 5))
    by_rows, by_columns = tk.gradient(tk.asarray(x), (0.5, 2.0), edge_order=2)
    for got, want in zip((by_rows, by_columns), np.gradient(x, 0.5, 2.0, edge_order=2), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


# ---- counting


@pytest.mark.wider
@settings(max_examples=tier(13, 40), deadline=None)
@given(st.integers(0, 40), st.integers(1, 7), st.integers(0, 5), st.booleans())
def test_histograms(n: int, bins: int, seed: int, density: bool) -> None:
    rng = np.random.default_rng(seed)
    x, w = rng.uniform(-1, 2, n), rng.uniform(0, 1, n)
    for options in ({}, {"range": (-0.5, 1.0)}, {"weights": w}):
        if density and n == 0:
            continue
        given_options = {k: tk.asarray(v) if k == "weights" else v for k, v in options.items()}
        hist, edges = tk.histogram(tk.asarray(x), bins, density=density, **given_options)
        with np.errstate(all="ignore"):
            want, wanted_edges = np.histogram(x, bins, density=density, **options)
        _same(hist, want)
        _same(edges, wanted_edges)
    edges = np.sort(rng.uniform(-1, 2, bins + 1))
    _same(tk.histogram(tk.asarray(x), tk.asarray(edges))[0], np.histogram(x, edges)[0])
    _same(tk.digitize(tk.asarray(x), tk.asarray(edges)), np.digitize(x, edges))
    _same(tk.digitize(tk.asarray(x), tk.asarray(edges[::-1].copy()), right=True), np.digitize(x, edges[::-1], True))


def test_bincount_with_weights() -> None:
    x = np.array([0, 3, 3, 1])
    w = np.array([0.5, 1.0, 2.0, 4.0])
    _same(tk.bincount(tk.asarray(x), tk.asarray(w), 6), np.bincount(x, w, 6))
    assert tk.bincount(tk.asarray(x), tk.asarray(w, dtype=tk.float32)).dtype == tk.float32
    assert gradcheck(lambda t: tk.bincount(tk.asarray(x), t), (tk.tensor(w, requires_grad=True),))
    assert tk.bincount(tk.asarray([], dtype=tk.int64)).tolist() == []


def test_histogram2d() -> None:
    rng = np.random.default_rng(4)
    x, y, w = rng.uniform(0, 1, (3, 50))
    for options in ({}, {"range": ((0.2, 0.8), (0.0, 1.0))}, {"density": True}):
        got = tk.histogram2d(tk.asarray(x), tk.asarray(y), (3, 4), **options)
        for a, b in zip(got, np.histogram2d(x, y, (3, 4), **options), strict=True):
            _same(a, b)
    _same(
        tk.histogram2d(tk.asarray(x), tk.asarray(y), 2, weights=tk.asarray(w))[0], np.histogram2d(x, y, 2, weights=w)[0]
    )


# ---- closeness


_HARD = [0.0, -0.0, 1.0, 1.0 + 1e-6, 1e9, nan, inf, -inf]


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_isclose(dtype: str, equal_nan: bool) -> None:
    a, b = (m.reshape(-1).astype(dtype) for m in np.meshgrid(_HARD, _HARD))
    got = tk.isclose(tk.asarray(a), tk.asarray(b), equal_nan=equal_nan).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.isclose(a, b, equal_nan=equal_nan))
    assert tk.allclose(tk.asarray(a), tk.asarray(a), equal_nan=True)
    assert not tk.allclose(tk.asarray(a), tk.asarray(a))


def test_isclose_of_integers() -> None:
    big = np.array([2**53 + 1, 0, 255], np.uint64)
    assert tk.isclose(tk.asarray(big), tk.asarray(big)).numpy().all()
    assert tk.isclose(tk.asarray([1, 2], dtype=tk.uint8), tk.asarray([2, 2], dtype=tk.uint8)).tolist() == [False, True]
    assert tk.asarray([1.0]).isclose(1.0).tolist() == [True]
    assert tk.array_equal(tk.asarray([nan]), tk.asarray([nan]), equal_nan=True)


# ---- covariance


def test_cov_with_weights() -> None:
    x = np.random.default_rng(5).standard_normal((3, 6))
    f, a = np.array([1, 2, 1, 3, 1, 2]), np.array([0.5, 1.0, 2.0, 1.0, 0.25, 1.5])
    for options in ({"fweights": f}, {"aweights": a}, {"fweights": f, "aweights": a}):
        given_options = {name: tk.asarray(v) for name, v in options.items()}
        _same(tk.cov(tk.asarray(x), **given_options), np.cov(x, **options))
    z = x[:2] + 1j * x[1:]
    _same(tk.cov(tk.asarray(z)), np.cov(z))
    _same(tk.corrcoef(tk.asarray(z)), np.corrcoef(z))


def test_the_weights_of_cov_have_gradients_and_are_not_negative() -> None:
    x = tk.asarray(np.random.default_rng(5).standard_normal((3, 4)))
    a = tk.tensor([0.5, 1.0, 0.25, 2.0], dtype=tk.float64, requires_grad=True)
    assert gradcheck(lambda a: tk.cov(x, aweights=a), (a,), check_forward_ad=True)
    weights = tk.asarray([[1.0, 2.0, 0.0, 1.0], [1.0, 1.0, 1.0, 3.0]])
    want = [tk.cov(x, aweights=w).tolist() for w in weights]
    np.testing.assert_allclose(vmap(lambda w: tk.cov(x, aweights=w))(weights).numpy(), want)
    for call in (
        lambda w: tk.cov(x, aweights=w),
        lambda w: tk.cov(x, fweights=tk.astype(w, tk.int64)),
        lambda w: vmap(lambda w: tk.cov(x, aweights=w))(tk.stack([w * w, w])),
    ):
        with pytest.raises(ValueError, match=r"\[cov\] [af]weights must be at least 0, got -2"):
            call(tk.asarray([1.0, 2.0, -2.0, 1.0]))


# ---- integrals, dimensions, extremes of bools


@pytest.mark.parametrize(
    ("y", "x", "axis"),
    [
        ((3, 4), (1, 4), -1), ((3, 4), (3, 1), 0), ((4,), (3, 4), -1), ((2, 3, 4), (3, 4), -2), ((3, 4), (2, 1, 4), 1),
        ((2, 1), (1, 1), -1), ((2, 0), (1, 0), -1), ((2, 1), (1,), -1), ((0, 3), (1, 3), -1),
    ],
)  # fmt: skip
def test_the_places_of_trapezoid_broadcast(y: tuple[int, ...], x: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(0)
    values, places = rng.standard_normal(y), rng.standard_normal(x)
    want = np.trapezoid(values, places, axis=axis - len(y) if axis >= 0 else axis)
    _same(tk.trapezoid(tk.asarray(values), tk.asarray(places), axis=axis), want)
    leaves = [tk.tensor(v, requires_grad=True) for v in (values, places)]
    if values.size:
        assert gradcheck(lambda y, x: tk.trapezoid(y, x, axis=axis), leaves)


def test_places_of_trapezoid_that_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"\[trapezoid\] x of shape \(2, 1\) must have the length 4"):
        tk.trapezoid(tk.ones((3, 4)), tk.ones((2, 1)))
    with pytest.raises(ValueError, match=r"\[trapezoid\] the shapes \(3, 4\) and \(2, 4\) cannot be broadcast"):
        tk.trapezoid(tk.ones((3, 4)), tk.ones((2, 4)))
    assert tk.trapezoid(tk.asarray([nan])).item() == 0


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
def test_several_tensors_get_dimensions(name: str) -> None:
    arrays = [np.ones(()), np.ones(2), np.ones((2, 3)), np.ones((1, 2, 3, 4))]
    for given_arrays in ((), arrays[:2], arrays):
        found = getattr(tk, name)(*map(tk.asarray, given_arrays))
        assert isinstance(found, tuple)
        assert [x.shape for x in found] == [x.shape for x in getattr(np, name)(*given_arrays)]
    x = tk.asarray(2.0)
    one = getattr(tk, name)(x)
    assert one.shape == getattr(np, name)(2.0).shape
    assert tk.shares_storage(one, x)
    with pytest.raises(TypeError, match=rf"\[tk::{name}\] the argument 'x' must be a Tensor"):
        getattr(tk, name)(x, "text")


def test_expand_keeps_lengths() -> None:
    x = tk.asarray([[1.0], [2.0], [3.0]])
    for found in (x.expand(-1, 4), x.expand((-1, 4)), x.expand([3, 4])):
        assert found.tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
        assert tk.shares_storage(found, x)
    assert x.expand(-1, -1).shape == (3, 1)
    assert x.expand(2, -1, 4).shape == (2, 3, 4)
    assert tk.asarray(1.0).expand(3).tolist() == [1.0] * 3
    for shape in ((-1, 3, 1), (2, -1, 3, 4)):
        with pytest.raises(ValueError, match=r"\[expand\] got .* for shape \(3, 1\): -1 keeps a length"):
            x.expand(*shape)
    with pytest.raises(ValueError, match=r"\[broadcast_to\] the shapes \(3, 1\) and \(-2, 4\)"):
        x.expand(-2, 4)
    leaf = tk.tensor([[1.0], [2.0]], requires_grad=True)
    leaf.expand(-1, 3).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [[3.0], [3.0]]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (40000,), (200, 300)])
def test_extremes_of_bools(name: str, shape: tuple[int, ...]) -> None:
    mixed = np.random.default_rng(0).random(shape) > 0.5
    for x in (mixed, mixed.T, np.zeros(shape, bool), np.ones(shape, bool)):
        for axis in (None, *range(x.ndim)):
            found, want = getattr(tk, name)(tk.asarray(x), axis=axis), getattr(np, name)(x, axis=axis)
            assert found.dtype == tk.bool
            np.testing.assert_array_equal(found.numpy(), want)
    assert getattr(tk.asarray(mixed), name)().item() == getattr(mixed, name)()
    assert getattr(tk, name)(tk.asarray(mixed).to("meta")).dtype == tk.bool
    with pytest.raises(ValueError, match=rf"\[{name}\]"):
        getattr(tk, name)(tk.zeros(0, dtype=tk.bool))


# ---- errors


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tk.pad(tk.ones(2), (1, 2, 3)), ValueError, "[pad] pad_width"),
        (lambda: tk.pad(tk.ones(2), -1), ValueError, "[pad] pad_width"),
        (lambda: tk.pad(tk.ones(2), 1, mode="mirror"), ValueError, "[pad] there is no mode 'mirror'"),
        (lambda: tk.pad(tk.ones(0), 1, mode="edge"), ValueError, "[pad] mode 'edge' cannot pad axis 0"),
        (lambda: tk.pad(tk.asarray([1]), 1, constant_values=1.5), TypeError, "[pad] the value 1.5"),
        (lambda: tk.quantile(tk.ones(3), 2), ValueError, "[quantile] q must be in [0, 1], got 2"),
        (lambda: tk.percentile(tk.ones(3), -1), ValueError, "[percentile] q must be in [0, 100]"),
        (lambda: tk.quantile(tk.ones(3), nan), ValueError, "[quantile] q must be in [0, 1]"),
        (lambda: tk.quantile(tk.ones(3), 0.5, method="x"), ValueError, "[quantile] there is no method 'x'"),
        (lambda: tk.median(tk.ones(0)), ValueError, "[median] got shape (0,)"),
        (lambda: tk.median(tk.ones(2, dtype=tk.complex64)), TypeError, "[median] is not defined for dtype complex64"),
        (lambda: tk.median(tk.ones(2), axis=1), IndexError, "[median] axis 1"),
        (lambda: tk.bincount(tk.asarray([-1])), ValueError, "[bincount] got -1"),
        (lambda: tk.bincount(tk.asarray([1.0])), ValueError, "[bincount] takes a vector of integers"),
        (lambda: tk.bincount(tk.asarray([1]), minlength=-1), ValueError, "[bincount] minlength"),
        (lambda: tk.bincount(tk.ones(2, dtype=tk.int64, device="meta")), NotImplementedError, "[bincount] the shape"),
        (lambda: tk.histogram(tk.asarray([nan])), ValueError, "[histogram] the range nan to nan"),
        (lambda: tk.histogram(tk.ones(2), 0), ValueError, "[histogram] the number of bins"),
        (lambda: tk.histogram(tk.ones(2), tk.asarray([2.0, 1.0])), ValueError, "[histogram] the edges must ascend"),
        (lambda: tk.digitize(tk.ones(2), tk.asarray([1.0, 3.0, 2.0])), ValueError, "[digitize] the edges"),
        (lambda: tk.convolve(tk.ones((2, 2)), tk.ones(2)), ValueError, "[convolve] takes two vectors"),
        (lambda: tk.convolve(tk.ones(0), tk.ones(2)), ValueError, "[convolve] got a vector without elements"),
        (lambda: tk.interp(tk.ones(2), tk.ones(2), tk.ones(3)), ValueError, "[interp] xp and fp"),
        (lambda: tk.gradient(tk.ones(1)), ValueError, "[gradient] axis 0 of shape (1,)"),
        (lambda: tk.gradient(tk.ones(())), ValueError, "[gradient] a tensor of shape ()"),
        (lambda: tk.trapezoid(tk.ones(3), tk.ones(2)), ValueError, "[trapezoid] x of shape (2,)"),
        (lambda: tk.average(tk.ones((2, 3)), weights=tk.ones(3)), ValueError, "[average] weights of shape (3,)"),
        (lambda: tk.cov(tk.ones((2, 2, 2))), ValueError, "[cov] takes a vector or a matrix"),
        (lambda: tk.gcd(tk.ones(2), tk.ones(2)), TypeError, "[gcd] takes integers"),
        (lambda: tk.isclose(tk.ones(2), tk.ones(2), rtol=-1.0), ValueError, "[isclose] rtol and atol"),
        (lambda: tk.vander(tk.ones(2), -1), ValueError, "[vander] N"),
    ],
)
def test_bad_input(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_functions_along_an_axis() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, 3, 4))
    for axis in (0, 1, -1):
        for function in (lambda v: v.sum(), lambda v: v[:2] * 2, lambda v: v.reshape((-1, 1)) * v):
            got = tk.apply_along_axis(function, axis, tk.asarray(x))
            np.testing.assert_allclose(got.numpy(), np.apply_along_axis(function, axis, x), rtol=1e-12)
    with pytest.raises(ValueError, match="has no vector along axis 0"):
        tk.apply_along_axis(tk.sum, 0, tk.ones((0, 2)))
    leaf = tk.tensor([[1.0, 2.0]], dtype=tk.float64, requires_grad=True)
    assert gradcheck(lambda t: tk.apply_along_axis(lambda v: v * v, 1, t), (leaf,))
