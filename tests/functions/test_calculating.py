"""Polynomials, windows, orders, masked reductions, cross products and questions about numbers, against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.functions.calculating.cross_products import cross_along
from tenkey.functions.calculating.masked_reductions import masked_reduction
from tenkey.functions.calculating.orders import complex_argsort, complex_extreme, complex_place, larger_complex
from tenkey.functions.calculating.weighted import reduced_slices, weighted_quantile
from tenkey.functions.rearranging.distinct_slices import distinct_slices

RNG = np.random.default_rng(7)
P = np.array([2.0, -1.0, 0.5, 3.0])
Q = np.array([1.0, 4.0])
T = np.linspace(-1.0, 2.0, 9)
Y = RNG.standard_normal((9, 2))
W = RNG.uniform(0.5, 1.5, 9)
A = RNG.standard_normal((4, 6, 8, 3))
X = RNG.standard_normal((3, 4, 5))
BITS = RNG.integers(0, 2, (3, 11))
BYTES = RNG.integers(0, 256, (3, 2)).astype(np.uint8)
KEYS = RNG.integers(0, 3, (3, 2, 6))
INF = np.array([-np.inf, np.inf, np.nan, 0.0, 1.0])
Z = np.array([1 + 1e-14j, 2.0])


def close(got: Any, want: Any, name: str) -> None:
    if isinstance(want, tuple):
        assert len(got) == len(want)
        for ours, theirs in zip(got, want):
            close(ours, theirs, name)
        return
    ours, theirs = (got.numpy() if isinstance(got, tk.Tensor) else np.asarray(got)), np.asarray(want)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11, err_msg=name)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), name


CALLS: dict[str, Any] = {
    "polyadd": lambda xp, a: xp.polyadd(a(P), a(Q)),
    "polysub": lambda xp, a: xp.polysub(a(Q), a(P)),
    "polymul": lambda xp, a: xp.polymul(a(P), a(Q)),
    "polydiv": lambda xp, a: xp.polydiv(a(P), a(Q)),
    "polydiv exactly": lambda xp, a: xp.polydiv(a(np.array([1.0, 3.0, 2.0])), a(np.array([1.0, 2.0]))),
    "polydiv by a longer one": lambda xp, a: xp.polydiv(a(Q), a(P)),
    "polydiv by a number": lambda xp, a: xp.polydiv(a(P), a(np.array([2.0]))),
    "polyder": lambda xp, a: xp.polyder(a(P)),
    "polyder twice": lambda xp, a: xp.polyder(a(P), 2),
    "polyder away": lambda xp, a: xp.polyder(a(P), 5),
    "polyint": lambda xp, a: xp.polyint(a(P)),
    "polyint twice": lambda xp, a: xp.polyint(a(P), 2, [5.0, 7.0]),
    "polyint of one constant": lambda xp, a: xp.polyint(a(P), 2, 3.0),
    "poly": lambda xp, a: xp.poly(a(P)),
    "poly of a matrix": lambda xp, a: xp.poly(a(X[0, :, :4])),
    "polyfit": lambda xp, a: xp.polyfit(a(T), a(Y[:, 0]), 3),
    "polyfit several": lambda xp, a: xp.polyfit(a(T), a(Y), 2),
    "polyfit weighted": lambda xp, a: xp.polyfit(a(T), a(Y), 2, w=a(W)),
    "polyfit with its covariance": lambda xp, a: xp.polyfit(a(T), a(Y[:, 0]), 2, cov=True),
    "polyfit with several covariances": lambda xp, a: xp.polyfit(a(T), a(Y), 2, cov=True),
    "polyfit unscaled": lambda xp, a: xp.polyfit(a(T), a(Y[:, 0]), 2, w=a(W), cov="unscaled"),
    "cross product": lambda xp, a: (xp.cross if xp is np else cross_along)(a(X[..., :3]), a(X[0, :, :3])),
    "cross product elsewhere": lambda xp, a: (xp.cross if xp is np else cross_along)(
        a(X), a(X.transpose(1, 0, 2)), axisa=0, axisb=1, axisc=1
    ),
    "cross product on an axis": lambda xp, a: (xp.cross if xp is np else cross_along)(a(X), a(2 * X), axis=0),
    "packbits": lambda xp, a: xp.packbits(a(BITS)),
    "packbits by rows": lambda xp, a: xp.packbits(a(BITS != 0), axis=1, bitorder="little"),
    "packbits by columns": lambda xp, a: xp.packbits(a(BITS), axis=0),
    "unpackbits": lambda xp, a: xp.unpackbits(a(BYTES)),
    "unpackbits by columns": lambda xp, a: xp.unpackbits(a(BYTES), axis=0, bitorder="little"),
    "unpackbits fewer": lambda xp, a: xp.unpackbits(a(BYTES), axis=1, count=11),
    "unpackbits without the last": lambda xp, a: xp.unpackbits(a(BYTES), axis=1, count=-3),
    "unpackbits more": lambda xp, a: xp.unpackbits(a(BYTES), axis=1, count=20),
    "lexsort": lambda xp, a: xp.lexsort((a(KEYS[0, 0]), a(KEYS[1, 0]))),
    "lexsort of a tensor": lambda xp, a: xp.lexsort(a(KEYS), axis=0),
    "sort_complex": lambda xp, a: xp.sort_complex(a(np.array([2 + 1j, 1 + 5j, 2 - 1j, 1 + 1j]))),
    "sort_complex of reals": lambda xp, a: xp.sort_complex(a(X[0])),
    "sort_complex of small integers": lambda xp, a: xp.sort_complex(a(np.array([3, -1], np.int16))),
    "isposinf": lambda xp, a: xp.isposinf(a(INF)),
    "isneginf": lambda xp, a: xp.isneginf(a(INF)),
    "isposinf of integers": lambda xp, a: xp.isposinf(a(KEYS)),
    "iscomplex": lambda xp, a: xp.iscomplex(a(Z)),
    "isreal": lambda xp, a: xp.isreal(a(Z)),
    "iscomplex of reals": lambda xp, a: xp.iscomplex(a(X)),
    "isreal of reals": lambda xp, a: xp.isreal(a(X)),
    "iscomplexobj": lambda xp, a: xp.iscomplexobj(a(Z)),
    "isrealobj": lambda xp, a: xp.isrealobj(a(X)),
    "real_if_close": lambda xp, a: xp.real_if_close(a(Z)),
    "real_if_close closer": lambda xp, a: xp.real_if_close(a(Z), tol=1e-15),
    "array_equiv": lambda xp, a: (xp.array_equiv(a(X[0]), a(X)), xp.array_equiv(a(X), a(X[0, 0] * 0 + X)),
                                  xp.array_equiv(a(X), a(X[0, :2]))),
    "apply_over_axes": lambda xp, a: xp.apply_over_axes(xp.sum, a(X), (0, -1)),
    "fft2": lambda xp, a: xp.fft.fft2(a(X)),
    "ifft2": lambda xp, a: xp.fft.ifft2(a(X), s=(3, 4), axes=(0, 1), norm="ortho"),
    "rfft2": lambda xp, a: xp.fft.rfft2(a(X)),
    "irfft2": lambda xp, a: xp.fft.irfft2(a(X + 0j), s=(4, 6)),
    "tensorinv": lambda xp, a: xp.linalg.tensorinv(a(A.reshape(24, 8, 3)), ind=1),
    "tensorinv of two": lambda xp, a: xp.linalg.tensorinv(a(A)),
    "tensorsolve": lambda xp, a: xp.linalg.tensorsolve(a(A), a(A[:, :, 0, 0])),
    "tensorsolve moved": lambda xp, a: xp.linalg.tensorsolve(a(A.transpose(2, 0, 1, 3)), a(A[:, :, 0, 0]), axes=(0,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_as_in_numpy(name: str) -> None:
    close(CALLS[name](tk, lambda a: tk.asarray(a.copy())), CALLS[name](np, np.copy), name)


def test_plane_cross_products() -> None:
    a, b = X[..., :2], X[..., 3:]
    close(cross_along(tk.asarray(a), tk.asarray(b)), a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], "cross")


def test_windows() -> None:
    for name in ("bartlett", "blackman", "hamming", "hanning"):
        for n in (0, 1, 2, 7, 12):
            close(getattr(tk, name)(n, dtype=tk.float64), getattr(np, name)(n), f"{name} {n}")
        assert getattr(tk, name)(3).dtype == tk.float32
    for beta in (0.0, 5.0, 14.0):
        close(tk.kaiser(9, beta, dtype=tk.float64), np.kaiser(9, beta), f"kaiser {beta}")
    assert tk.kaiser(1, 5.0).tolist() == [1.0]
    assert tk.kaiser(-1, 5.0).shape == (0,)
    beta = tk.tensor(5.0, dtype=tk.float64, requires_grad=True)
    assert tk.autograd.gradcheck(lambda b: tk.kaiser(6, b, dtype=tk.float64)[:3], beta)


def test_roots() -> None:
    for p in (P, [0.0, 0.0, 1.0, -3.0, 2.0, 0.0, 0.0], [1.0], [0.0], [2.0, 0.0], [1.0, 0.0, 1.0]):
        got, want = tk.roots(tk.asarray(np.array(p))).numpy(), np.roots(p)
        assert len(got) == len(want)
        np.testing.assert_allclose(np.sort_complex(np.round(got, 9)), np.sort_complex(np.round(want, 9)), atol=1e-8)
    p = tk.tensor([1.0, -3.5, 2.0], dtype=tk.float64, requires_grad=True)
    assert tk.autograd.gradcheck(lambda p: tk.sum(tk.roots(p) ** 3).real, p)


def test_polyfit_in_full() -> None:
    got, want = tk.polyfit(tk.asarray(T), tk.asarray(Y), 2, full=True), np.polyfit(T, Y, 2, full=True)
    for ours, theirs in zip(got[:2], want[:2]):
        np.testing.assert_allclose(ours.numpy(), theirs)
    np.testing.assert_allclose(got.singular_values.numpy(), want[3])
    assert got.rank.item() == want[2]
    assert got.rcond == pytest.approx(want[4])


def _complex(shape: tuple[int, ...]) -> np.ndarray:
    z = RNG.integers(0, 3, shape) + 1j * RNG.integers(0, 3, shape)
    z.reshape(-1)[5] = complex(np.nan, 1.0)
    z.reshape(-1)[9] = complex(1.0, np.nan)
    return z


@pytest.mark.parametrize(("shape", "axis"), [((2, 0), 0), ((0, 2), -1), ((2, 0, 3), (0, 2))])
def test_extremes_of_no_complex_numbers(shape: tuple[int, ...], axis: Any) -> None:
    """Along axes that are not empty, the result has no elements either."""
    for keepdims in (False, True):
        want = np.max(np.zeros(shape, "c16"), axis=axis, keepdims=keepdims)
        assert complex_extreme(tk.zeros(shape, dtype="complex128"), axis, keepdims=keepdims).shape == want.shape
    with pytest.raises(ValueError, match="no elements"):
        complex_extreme(tk.zeros(shape, dtype="complex128"), shape.index(0))


def test_the_order_of_complex_numbers() -> None:
    for z in (_complex((4, 6)), _complex((4, 6)) * 0 + RNG.integers(0, 3, (4, 6)) * (1 - 1j)):
        x = tk.asarray(z)
        for axis in (0, 1, -1):
            assert complex_argsort(x, axis).tolist() == np.argsort(z, axis, kind="stable").tolist()
        for axis in (None, 0, 1):
            for smallest, extreme, place in ((False, np.max, np.argmax), (True, np.min, np.argmin)):
                got = complex_extreme(x, axis, smallest=smallest).numpy()
                want = extreme(z, axis)
                missing = np.isnan(want)
                np.testing.assert_array_equal(got[~missing], want[~missing])
                assert np.isnan(got).tolist() == missing.tolist()
                assert complex_place(x, axis, smallest=smallest).tolist() == place(z, axis).tolist()
                kept = complex_extreme(x, axis, keepdims=True, smallest=smallest)
                assert kept.shape == np.max(z, axis, keepdims=True).shape
        y = z.ravel()[::-1].reshape(z.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for smallest, ufunc in ((False, np.maximum), (True, np.minimum)):
                np.testing.assert_array_equal(larger_complex(x, tk.asarray(y), smallest=smallest).numpy(), ufunc(z, y))


def test_of_equal_complex_numbers_the_first_is_taken() -> None:
    numbers = np.array([complex(a, b) for a in (0.0, -0.0, 1.0) for b in (0.0, -0.0, 2.0)])
    x, y = np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size)
    for smallest, ufunc in ((False, np.maximum), (True, np.minimum)):
        got = larger_complex(tk.asarray(x), tk.asarray(y), smallest=smallest).numpy()
        assert got.tobytes() == ufunc(x, y).tobytes()


MASK = RNG.random((4, 5)) < 0.6
MASK[:, 0] = True


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"])
def test_masked_reductions(name: str) -> None:
    for dtype in ("float64", "int64", "bool", "complex128"):
        if dtype == "complex128" and name in ("max", "min"):
            continue
        a = (X * 3).astype(dtype)
        for axis in (None, 0, (0, 2), -1):
            for options in ({}, {"keepdims": True}):
                for where in (True, MASK, MASK[0]):
                    given: dict[str, Any] = {"axis": axis, **options, "where": where}
                    if name in ("max", "min") or (name in ("sum", "prod") and where is not True):
                        given["initial"] = a.flat[3]
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", RuntimeWarning)
                        want = getattr(np, name)(a, **given)
                    if where is not True:
                        given["where"] = tk.asarray(where)
                    if "initial" in given:
                        given["initial"] = given["initial"].item()
                    default = tk.core.dtypes.names.default_dtypes(real_floating=tk.float64)
                    with default:
                        got = masked_reduction(name, tk.asarray(a), **given)
                    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, err_msg=f"{dtype} {given}")


def test_masked_reductions_without_nan() -> None:
    a = X.copy()
    a[0, 1, 2] = a[:, 3, 3] = np.nan
    x, mask = tk.asarray(a), tk.asarray(MASK)
    for name, options in (("nansum", {}), ("nanprod", {}), ("nanmax", {"initial": -1.0}), ("nanmin", {"initial": 1.0}),
                          ("nanmean", {}), ("nanstd", {"ddof": 1}), ("nanvar", {})):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            want = getattr(np, name)(a, axis=0, where=MASK, **options)
        ours: Any = {"correction" if key == "ddof" else key: value for key, value in options.items()}
        np.testing.assert_allclose(masked_reduction(name, x, 0, where=mask, **ours).numpy(), want)
    assert masked_reduction("count_nonzero", tk.asarray([1, 0, 2]), where=[True, True, False]).item() == 1


def test_distinct_slices() -> None:
    for a in (KEYS[0].T, KEYS[:, :, :2].astype(float), np.array([1.0, np.nan, 1.0, np.nan])):
        for axis in (None, 0, -1):
            for equal_nan in (True, False):
                want = np.unique(a, True, True, True, axis=axis, equal_nan=equal_nan)
                got = distinct_slices(tk.asarray(a), axis, equal_nan=equal_nan)
                for ours, theirs in zip(got, want):
                    np.testing.assert_array_equal(ours.numpy(), theirs)
    x = tk.tensor(KEYS[0].astype(float), requires_grad=True)
    distinct_slices(x, 1).values.sum().backward()
    assert x.grad.sum().item() == len(np.unique(KEYS[0], axis=1).T) * 2


def test_gradients() -> None:
    p, q = tk.tensor(P, requires_grad=True), tk.tensor(Q, requires_grad=True)
    x = tk.tensor(X, requires_grad=True)
    y = tk.tensor(Y[:, 0], requires_grad=True)
    for function in (tk.polyadd, tk.polymul, lambda p, q: tk.polydiv(p, q)[0], lambda p, q: tk.polyint(p, 2, q)):
        assert tk.autograd.gradcheck(function, (p, q))
    assert tk.autograd.gradcheck(lambda p: tk.poly(p), p)
    assert tk.autograd.gradcheck(lambda y: tk.polyfit(tk.asarray(T), y, 2), y)
    mask = tk.asarray(MASK)
    for name in ("sum", "prod", "max", "mean", "std"):
        options: Any = {"initial": 0.25} if name in ("sum", "prod", "max") else {}
        assert tk.autograd.gradcheck(lambda x, n=name, o=options: masked_reduction(n, x, (0, 2), where=mask, **o), x)
    a = tk.tensor(A[:2, :3, :2, :].copy(), requires_grad=True)
    b = tk.tensor(A[:2, :3, 0, 0].copy(), requires_grad=True)
    assert tk.autograd.gradcheck(tk.linalg.tensorsolve, (a, b))
    assert tk.autograd.gradcheck(cross_along, (tk.tensor(X[0, :, :3], requires_grad=True), x[0, :, 1:4]))


def test_inside_vmap() -> None:
    z = tk.asarray(X[..., :4] + 1j * X[..., 1:])
    for function, operand in (
        (lambda y: tk.polymul(y[0], y[1]), tk.asarray(X)),
        (lambda y: masked_reduction("max", y, 0, where=y > 0, initial=0.0), tk.asarray(X)),
        (lambda y: tk.lexsort((y[0], y[1])), tk.asarray(KEYS)),
        (lambda y: complex_extreme(y, 0), z),
        (lambda y: tk.packbits(y, axis=0), tk.asarray(BITS)),
        (lambda y: tk.fft.fft2(y), tk.asarray(X)),
    ):
        want = np.stack([function(one).numpy() for one in operand])
        np.testing.assert_allclose(tk.vmap(function)(operand).numpy(), want, atol=1e-12)


def test_weighted_quantiles() -> None:
    # NumPy 2.1 takes elements of weight 0, and gives the weights of several axes to other elements
    recent = np.lib.NumpyVersion(np.__version__) >= "2.2.0"
    weights = RNG.integers(0 if recent else 1, 4, X.shape).astype(float)
    weights[:, :, -1] += 1.0
    for a, axis, w in ((X, None, weights), (X, 1, weights + (np.arange(4)[:, None] == 0)), (X, (0, 2), weights),
                       (np.floor(X * 2), -1, weights[0, 0])):  # fmt: skip
        if isinstance(axis, tuple) and not recent:
            continue
        for q in (0.5, 0.0, 1.0, np.array([[0.1, 0.25], [0.6, 0.99]])):
            for keepdims in (False, True):
                want = np.quantile(a, q, axis=axis, weights=w, method="inverted_cdf", keepdims=keepdims)
                got = weighted_quantile(tk.asarray(a), q, tk.asarray(w), axis, keepdims=keepdims)
                np.testing.assert_array_equal(got.numpy(), want)
    assert np.isnan(weighted_quantile(tk.asarray([1.0, np.nan]), 0.5, tk.ones(2)).item())


def test_reduced_slices() -> None:
    x = tk.tensor(X, requires_grad=True)
    for axis, places in ((0, [0, 2, 1]), (1, [3, 0, 0]), (-1, [1])):
        for ufunc, ours in ((np.add, tk.sum), (np.multiply, tk.prod), (np.maximum, tk.max)):
            got = reduced_slices(ours, x, places, axis)
            np.testing.assert_allclose(got.detach().numpy(), ufunc.reduceat(X, places, axis))
        assert tk.autograd.gradcheck(lambda x, i=places, a=axis: reduced_slices(tk.sum, x, i, a), x)


ERRORS: dict[str, tuple[type[Exception], str, Any]] = {
    "polydiv": (ZeroDivisionError, r"\[polydiv\] the leading", lambda x: tk.polydiv(x[0, 0], tk.zeros(1))),
    "polyadd": (ValueError, r"\[polyadd\] a polynomial is a vector", lambda x: tk.polyadd(x, x)),
    "polyder": (ValueError, r"\[polyder\] m must be", lambda x: tk.polyder(x[0, 0], -1)),
    "polyint": (ValueError, r"\[polyint\] got 2 constants", lambda x: tk.polyint(x[0, 0], 3, [1.0, 2.0])),
    "polyint half": (TypeError, r"\[polyint\] m is a number of steps", lambda x: tk.polyint(x[0, 0], 0.5)),
    "poly": (ValueError, r"\[poly\] takes a vector", lambda x: tk.poly(x)),
    "polyfit": (TypeError, r"\[polyfit\] y must have", lambda x: tk.polyfit(x[0, 0], x, 1)),
    "polyfit cov": (ValueError, r"points are too few", lambda x: tk.polyfit(x[0, 0], x[0, 0], 4, cov=True)),
    "hamming": (TypeError, r"\[hamming\] the number of points", lambda x: tk.hamming(2.5)),
    "lexsort": (ValueError, r"\[lexsort\] the keys must have one shape", lambda x: tk.lexsort((x, x[0]))),
    "lexsort none": (ValueError, r"\[lexsort\] got no keys", lambda x: tk.lexsort(())),
    "packbits": (TypeError, r"\[packbits\] takes integers", lambda x: tk.packbits(x)),
    "unpackbits": (TypeError, r"\[unpackbits\] takes dtype uint8", lambda x: tk.unpackbits(x)),
    "bitorder": (ValueError, r"\[packbits\] bitorder", lambda x: tk.packbits(x > 0, bitorder="middle")),
    "cross": (ValueError, r"\[cross\] got shapes", lambda x: cross_along(x, x)),
    "tensorinv": (ValueError, r"\[linalg.tensorinv\] got shape", lambda x: tk.linalg.tensorinv(x)),
    "tensorsolve": (ValueError, r"\[linalg.tensorsolve\] got shapes", lambda x: tk.linalg.tensorsolve(x, x[0])),
    "masked max": (ValueError, r"\[max\] with where= needs", lambda x: masked_reduction("max", x, where=[True])),
    "masked mean": (ValueError, r"\[mean\] does not take", lambda x: masked_reduction("mean", x, initial=1.0)),
    "masked median": (ValueError, r"\[median\] does not", lambda x: masked_reduction("median", x, where=x > 0)),
    "apply_over_axes": (ValueError, r"\[apply_over_axes\] the function", lambda x: tk.apply_over_axes(
        lambda y, i: y.sum(), x, (0,))),
    "reduceat": (IndexError, r"\[reduceat\] the indices must be in", lambda x: reduced_slices(tk.sum, x, [0, 3])),
    "reduceat none": (ValueError, r"\[reduceat\] the indices have one", lambda x: reduced_slices(tk.sum, x, [])),
    "weights": (ValueError, r"\[quantile\] weights of shape", lambda x: weighted_quantile(x, 0.5, x[0])),
    "isposinf": (TypeError, r"\[isposinf\] is not defined", lambda x: tk.isposinf(x * 1j)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    kind, text, call = ERRORS[name]
    with pytest.raises(kind, match=text):
        call(tk.asarray(X))
