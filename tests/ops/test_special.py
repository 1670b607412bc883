"""``tk.special`` against mpmath, in units in the last place, and where a formula changes into another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.ops.builtin.special import coefficients, series
from tenkey.ops.builtin.special.series import horner
from tenkey.ops.scalar import topological_order, variable
from tenkey.ops.scalar.expansions import settled
from tenkey.ops.scalar.tracing import TypeMaker

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workdps(40):
        yield


def _log_beta(a: Any, b: Any) -> Any:
    with mpmath.workdps(80):
        return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def _ndtri(p: Any) -> Any:
    with mpmath.workdps(60):
        return -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p)


def _erfcinv(x: Any) -> Any:
    with mpmath.workdps(60):
        return mpmath.erfinv(1 - x)


# name, the function in mpmath, intervals, units in the last place in float64
_ONE: list[tuple[str, Callable[..., Any], list[tuple[float, float]], float]] = [
    ("erf", mpmath.erf, [(-5, 5), (1e-9, 1e-3)], 3),
    ("erfc", mpmath.erfc, [(-5, 9), (9, 26)], 4),
    ("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x), [(-4, 5), (5, 20)], 12),
    ("erfinv", mpmath.erfinv, [(-1, 1), (-0.01, 0.01), (0.999, 1)], 8),
    ("erfcinv", _erfcinv, [(0, 2), (1e-30, 1e-20), (1.999, 2)], 8),
    ("ndtr", mpmath.ncdf, [(-10, 5), (-37, -10)], 8),
    ("ndtri", _ndtri, [(1e-9, 1), (1e-30, 1e-20)], 8),
    ("log_ndtr", lambda x: mpmath.log(mpmath.ncdf(x)), [(-8, 8)], 8),
    ("expit", lambda x: 1 / (1 + mpmath.exp(-x)), [(-40, 40)], 5),
    ("logit", lambda x: mpmath.log(x / (1 - x)), [(0, 1), (0.45, 0.55)], 4),
    ("log_expit", lambda x: -mpmath.log(1 + mpmath.exp(-x)), [(-40, 20)], 4),
    ("exprel", lambda x: mpmath.expm1(x) / x, [(-40, 40), (-1e-3, 1e-3)], 5),
    ("entr", lambda x: -x * mpmath.log(x), [(0, 20)], 3),
    ("gamma", mpmath.gamma, [(1e-6, 3), (3, 60), (60, 171), (-20, 0)], 16),
    ("rgamma", mpmath.rgamma, [(1e-6, 3), (3, 60), (60, 171), (-20, 0)], 16),
    ("gammaln", mpmath.loggamma, [(3, 60), (60, 1e6)], 6),
    ("digamma", mpmath.digamma, [(2, 60), (60, 1e6)], 6),
    ("i0", lambda x: mpmath.besseli(0, x), [(-8, 8), (8, 100)], 24),
    ("i1", lambda x: mpmath.besseli(1, x), [(-8, 8), (8, 100)], 32),
    ("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), [(-8, 8), (8, 100)], 12),
    ("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), [(-8, 8), (8, 100)], 24),
]


def _units(got: Array, want: Array) -> float:
    assert np.isfinite(got).all()
    spacing = np.maximum(np.spacing(np.abs(want).astype(got.dtype)), np.finfo(got.dtype).tiny).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - want) / spacing))


@pytest.mark.parametrize(("name", "function", "intervals", "units"), _ONE, ids=[row[0] for row in _ONE])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_accuracy_in_units_in_the_last_place(
    name: str, function: Callable[..., Any], intervals: list[tuple[float, float]], units: float, dtype: str
) -> None:
    rng = np.random.default_rng(4)
    for low, high in intervals:
        if dtype == "float32" and (low <= -10 or low >= 9):
            continue  # beyond what single precision holds
        x = rng.uniform(low, high, 40).astype(dtype)
        x = x[(np.abs(x) < 1) | (name != "erfinv")]
        want = np.array([float(function(mpmath.mpf(float(v)))) for v in x])
        if dtype == "float32":
            held = (np.abs(want) > 1e-37) & (np.abs(want) < 1e38) & np.isfinite(want)
            x, want = x[held], want[held]
        got = getattr(tk.special, name)(tk.asarray(x)).numpy()
        assert got.dtype == np.dtype(dtype)
        assert _units(got, want) <= units, (low, high)


def test_gamma_function() -> None:
    """Note [Gamma by exact reductions]: at whole numbers, beside the poles, and where the formulas meet."""
    factorials = [float(mpmath.factorial(k)) for k in range(11)]
    assert tk.special.gamma(tk.arange(1.0, 12.0, dtype=tk.float64)).tolist() == factorials
    x = np.array([11.999999, 12.0, 12.000001, 1e-300, -1e-300, -0.5, -1.0000001, -150.25, 171.62])
    want = np.array([float(mpmath.gamma(mpmath.mpf(v))) for v in x.tolist()])
    assert _units(tk.special.gamma(tk.asarray(x)).numpy(), want) <= 16
    edges = tk.special.gamma(tk.asarray([0.0, -0.0, -1.0, -2.0, np.inf, -np.inf, 172.0, np.nan])).tolist()
    np.testing.assert_array_equal(edges, [np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan, np.inf, np.nan])
    assert tk.special.gamma(tk.asarray([34.0, 36.0, 150.0])).tolist()[1:] == [np.inf, np.inf]


@pytest.mark.parametrize("n", [0, 1, 2, 5, 10])
def test_polygamma(n: int) -> None:
    rng = np.random.default_rng(5)
    for low, high, units in ((0.05, 20, 12), (20, 1e4, 16)):
        x = rng.uniform(low, high, 40)
        x = x[np.abs(x - 1.4616) > 0.1]  # the zero of digamma
        want = np.array([float(mpmath.polygamma(n, mpmath.mpf(v))) for v in x.tolist()])
        assert _units(tk.special.polygamma(n, tk.asarray(x)).numpy(), want) <= units
    x = rng.uniform(-10, 0, 40)
    want = np.array([float(mpmath.polygamma(n, mpmath.mpf(v))) for v in x.tolist()])
    found = tk.special.polygamma(n, tk.asarray(x)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-12)
    assert tk.special.polygamma(n, tk.asarray([2.0])).dtype == tk.float32
    with pytest.raises(ValueError, match=r"\[special_polygamma\] n is the number of derivatives"):
        tk.special.polygamma(-1, tk.asarray([2.0]))


def test_derivatives_of_gammaln_of_every_order() -> None:
    x = tk.tensor(1.7, dtype=tk.float64, requires_grad=True)
    value = tk.special.gammaln(x)
    for order in range(1, 6):
        (value,) = tk.autograd.grad(value, (x,), create_graph=True)
        want = float(mpmath.polygamma(order - 1, mpmath.mpf(1.7)))
        assert abs(value.item() - want) <= 1e-13 * abs(want)


@pytest.mark.parametrize(("low", "high"), [(1e-3, 10), (1e-3, 1e6), (10, 1e8)])
def test_beta_far_apart(low: float, high: float) -> None:
    rng = np.random.default_rng(6)
    a, b = np.exp(rng.uniform(np.log(low), np.log(high), (2, 40)))
    logarithm = np.array([float(_log_beta(mpmath.mpf(p), mpmath.mpf(q))) for p, q in zip(a.tolist(), b.tolist())])
    got = tk.special.betaln(tk.asarray(a), tk.asarray(b)).numpy()
    np.testing.assert_allclose(got, logarithm, rtol=2e-14, atol=4e-15)
    shown = (logarithm > -600) & (logarithm < 600)
    want = np.array([float(mpmath.exp(_log_beta(mpmath.mpf(p), mpmath.mpf(q)))) for p, q in zip(a[shown], b[shown])])
    np.testing.assert_allclose(tk.special.beta(tk.asarray(a[shown]), tk.asarray(b[shown])).numpy(), want, rtol=4e-13)


def test_beta_at_its_edges() -> None:
    a = tk.asarray([0.0, 0.0, np.inf, -1.0, 2.0, np.nan])
    b = tk.asarray([0.0, 1.0, 1.0, 2.0, np.inf, 1.0])
    np.testing.assert_array_equal(tk.special.beta(a, b).tolist(), [np.inf, np.inf, 0, np.nan, 0, np.nan])
    np.testing.assert_array_equal(tk.special.betaln(a, b).tolist(), [np.inf, np.inf, -np.inf, np.inf, -np.inf, np.nan])


def test_complex_sinc() -> None:
    rng = np.random.default_rng(0)
    z = 2 * rng.standard_normal(20) + 1j * rng.standard_normal(20)
    edges = np.asarray([0, 1e-200j, 0.3 + 0.2j, 0.5, 7j, -2.5 + 3j])
    for given in (z, edges):
        want = np.asarray([complex(mpmath.sincpi(mpmath.mpc(v))) for v in given.tolist()])
        np.testing.assert_allclose(tk.sinc(tk.asarray(given)).numpy(), want, 2e-15)
    assert tk.sinc(tk.asarray([1, -3, 40, 1e15], dtype=tk.complex128)).abs().tolist() == [0.0] * 4
    assert tk.sinc(tk.asarray([1, -3, 40, 1e15], dtype=tk.float64)).abs().tolist() == [0.0] * 4
    assert tk.sinc(tk.asarray([1j], dtype=tk.complex64)).dtype == tk.complex64
    leaf = tk.tensor(z[:8], requires_grad=True)
    assert gradcheck(tk.sinc, (leaf,), check_forward_ad=True)
    assert gradgradcheck(tk.sinc, (leaf,))


@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
def test_complex_logsumexp(axis: Any) -> None:
    rng = np.random.default_rng(0)
    z = 3 * rng.standard_normal((3, 4)) + 3j * rng.standard_normal((3, 4))
    for keepdims in (False, True):
        want = np.log(np.sum(np.exp(z), axis=axis, keepdims=keepdims))
        for function in (tk.logsumexp, tk.special.logsumexp):
            np.testing.assert_allclose(function(tk.asarray(z), axis=axis, keepdims=keepdims).numpy(), want, 1e-14)
        leaf = tk.tensor(z, requires_grad=True)
        assert gradcheck(lambda z, k=keepdims: tk.logsumexp(z, axis=axis, keepdims=k), (leaf,), check_forward_ad=True)
        assert gradgradcheck(lambda z, k=keepdims: tk.logsumexp(z, axis=axis, keepdims=k), (leaf,))
    powers = np.exp(z)
    for function, want in (
        (tk.softmax, powers / powers.sum(1, keepdims=True)),
        (tk.log_softmax, z - np.log(powers.sum(1, keepdims=True))),
    ):
        np.testing.assert_allclose(function(tk.asarray(z)).numpy(), want, 1e-13)
        assert gradcheck(function, (leaf,), check_forward_ad=True)
        assert gradgradcheck(function, (leaf,))
    large = tk.logsumexp(tk.asarray([1000 + 1j, 1000 - 1j])).item()
    assert abs(large - (1000 + np.log(2 * np.cos(1)))) < 1e-3
    assert tk.logsumexp(tk.zeros(0, dtype=tk.complex64)).item() == complex(-np.inf, 0)


def test_sinc_near_zero() -> None:
    """Note [Series at a removable singularity]: value and derivatives, at 0 and on both sides of the seam."""
    for at in (0.0, 1e-9, 1e-3, 0.4999, 0.5001, 2.0, 2.5):
        x = tk.tensor(at, dtype=tk.float64, requires_grad=True)
        value = tk.sinc(x)
        with mpmath.workdps(60):
            wanted = (
                mpmath.taylor(lambda t: mpmath.sincpi(t), mpmath.mpf(at), 3) if at else [1, 0, -(mpmath.pi**2) / 6, 0]
            )
        factor = 1
        for order in range(4):
            want = float(wanted[order]) * factor
            assert abs(value.item() - want) <= 1e-12 * (1 + abs(want)), (at, order)
            (value,) = tk.autograd.grad(value, (x,), create_graph=True)
            factor *= order + 1


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_gradients_where_a_factor_is_zero(name: str) -> None:
    x = tk.tensor([0.0, 0.0, 2.0], dtype=tk.float64, requires_grad=True)
    y = tk.tensor([0.0, 3.0, 3.0], dtype=tk.float64, requires_grad=True)
    given = y if name == "xlogy" else y - 1
    out = getattr(tk.special, name)(x, given)
    by_x, by_y = tk.autograd.grad(out, (x, y), tk.ones_like(out))
    np.testing.assert_allclose(by_x.tolist(), [0.0, np.log(3), np.log(3)], rtol=1e-15)
    np.testing.assert_allclose(by_y.tolist(), [0.0, 0.0, 2 / 3], rtol=1e-15)


def _close(got: Array, want: list[Any], tolerance: float) -> None:
    np.testing.assert_allclose(got, np.array([float(w) for w in want]), rtol=tolerance, atol=1e-300)


@pytest.mark.parametrize(("low", "high"), [(-8, 0), (-1, 1.5), (1, 3)])
def test_incomplete_functions(low: float, high: float) -> None:
    """Note [Incomplete functions by quadrature]: both sides of the mode, for parameters of any size."""
    rng = np.random.default_rng(7)
    a, b = 10 ** rng.uniform(low, high, (2, 40))
    x = a * np.exp(rng.normal(0, 1, 40) * np.minimum(1, 3 / np.sqrt(a)))
    x[:12] = 10 ** rng.uniform(-3, 1.5, 12) if high < 2 else x[:12]
    pairs = [(mpmath.mpf(p), mpmath.mpf(q)) for p, q in zip(a.tolist(), x.tolist())]
    t, u = tk.asarray(a), tk.asarray(x)
    _close(tk.special.gammainc(t, u).numpy(), [mpmath.gammainc(p, 0, q, regularized=True) for p, q in pairs], 1e-13)
    _close(tk.special.gammaincc(t, u).numpy(), [mpmath.gammainc(p, q, regularized=True) for p, q in pairs], 1e-13)
    x = (
        rng.uniform(0, 1, 40)
        if high < 2
        else a / (a + b) * np.exp(rng.normal(0, 1, 40) * 2 / np.sqrt(np.minimum(a, b)))
    )
    x = np.minimum(x, 0.999)
    want = [
        mpmath.betainc(mpmath.mpf(p), mpmath.mpf(q), 0, mpmath.mpf(r), regularized=True)
        for p, q, r in zip(a.tolist(), b.tolist(), x.tolist())
    ]
    _close(tk.special.betainc(t, tk.asarray(b), tk.asarray(x)).numpy(), want, 2e-13)


def test_incomplete_gamma_function_of_a_large_parameter() -> None:
    a, x = mpmath.mpf(16064853), mpmath.mpf(16042163)
    start = mpmath.log(x / a)
    integral = mpmath.quad(lambda v: mpmath.exp(-a * (mpmath.expm1(v) - v)), mpmath.linspace(start - 0.004, start, 12))
    want = float(integral * mpmath.exp(a * mpmath.log(a) - a - mpmath.loggamma(a)))
    got = tk.special.gammainc(tk.asarray(16064853.0, dtype=tk.float64), 16042163.0).item()
    assert abs(got - want) <= 1e-11 * want


def test_incomplete_functions_at_their_edges() -> None:
    inf, nan = np.inf, np.nan
    a = tk.asarray([0.0, 0.0, 1.0, inf, -1.0, 2.0, 2.0])
    x = tk.asarray([0.0, 1.0, inf, 3.0, 2.0, nan, 0.0])
    np.testing.assert_array_equal(tk.special.gammainc(a, x).tolist(), [nan, 1, 1, 0, nan, nan, 0])
    np.testing.assert_array_equal(tk.special.gammaincc(a, x).tolist(), [nan, 0, 0, 1, nan, nan, 1])
    a, b, x = (
        tk.asarray(v) for v in ([1.0, 1, 0, 1, -1, 1, nan], [1.0, 1, 1, 0, 1, 1, 1], [0.0, 1, 0.5, 0.5, 0.5, 2, 0.5])
    )
    np.testing.assert_array_equal(tk.special.betainc(a, b, x).tolist(), [0, 1, 1, 0, nan, nan, nan])
    given = ([1.0, 0.5, 2.0, 1e5, 1e5], [1.0, 1.0, 0.0, 1.0, 0.5])
    np.testing.assert_array_equal(tk.special.zeta(*map(tk.asarray, given)).tolist(), [inf, nan, inf, 1, inf])
    leaf = tk.tensor([2.0], requires_grad=True)
    calls: list[Any] = [
        lambda: tk.special.gammainc(leaf, 1.0), lambda: tk.special.betainc(leaf, 1.0, 0.5),
        lambda: tk.special.betainc(1.0, leaf, 0.5), lambda: tk.special.zeta(leaf),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(NotImplementedError, match=r"has no derivative with respect to ., only to"):
            call().backward()
    with pytest.raises(TypeError, match=r"\[special_gammainc\] is not defined for dtype complex64"):
        tk.special.gammainc(2.0, tk.asarray(1j))
    with pytest.raises(ValueError, match=r"\[special_betainc\] the shapes .* cannot be broadcast together"):
        tk.special.betainc(tk.ones(2), tk.ones(3), 0.5)
    with pytest.raises(ValueError, match=r"\[special_multigammaln\] d is the number of dimensions"):
        tk.special.multigammaln(tk.ones(2), 0)


def test_zeta() -> None:
    x = np.random.default_rng(8).uniform(1.01, 30, 40)
    q = np.random.default_rng(9).uniform(0.01, 30, 40)
    _close(tk.special.zeta(tk.asarray(x)).numpy(), [mpmath.zeta(v) for v in x.tolist()], 1e-14)
    want = [mpmath.zeta(mpmath.mpf(v), mpmath.mpf(w)) for v, w in zip(x.tolist(), q.tolist())]
    _close(tk.special.zeta(tk.asarray(x), tk.asarray(q)).numpy(), want, 1e-13)


def test_zeta_between_the_poles() -> None:
    x = np.asarray([[2.0], [3.0], [4.0], [7.0], [12.0]])
    q = np.asarray([-0.5, -1.25, -0.1, -3.7, -20.5, -7.999, -1e-3])
    found = tk.special.zeta(tk.asarray(x), tk.asarray(q)).numpy()
    terms = [[mpmath.nsum(lambda k, v=v, w=w: (w + k) ** -v, [0, mpmath.inf]) for w in map(mpmath.mpf, q.tolist())]
             for v in x[:, 0].astype(int).tolist()]  # fmt: skip
    np.testing.assert_allclose(found, np.asarray(terms, np.float64), 1e-12)
    assert f"{tk.special.zeta(tk.asarray(2.0), tk.asarray(-0.5)).item():.4f}" == "8.9348"
    leaf = tk.tensor(q[:4], requires_grad=True)
    assert gradcheck(lambda q: tk.special.zeta(tk.asarray(3), q), (leaf,))
    inf, nan = np.inf, np.nan
    powers = tk.asarray([2.5, 2.0, 2.0, 2.0, 1.0, 0.5, 1e5, 1e5 + 1, 1e5 + 1], dtype=tk.float64)
    places = tk.asarray([-0.5, -1.0, -inf, nan, -0.5, -0.5, -0.5, -0.7, -0.3], dtype=tk.float64)
    edges = [nan, inf, inf, nan, inf, nan, inf, inf, -inf]
    np.testing.assert_array_equal(tk.special.zeta(powers, places).tolist(), edges)


def test_zeros_keep_their_sign_and_infinities_are_reached() -> None:
    for name in ("erf", "erfinv", "i1", "i1e"):
        assert np.signbit(getattr(tk.special, name)(tk.asarray([-0.0])).numpy()).all(), name
    assert tk.special.i0(tk.asarray([np.inf])).tolist() == [np.inf]
    assert tk.special.i1(tk.asarray([-np.inf])).tolist() == [-np.inf]
    assert tk.special.erfcx(tk.asarray([np.inf, -np.inf])).tolist() == [0.0, np.inf]
    assert tk.special.log_ndtr(tk.asarray([-np.inf, np.inf])).tolist() == [-np.inf, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_normal_distribution_of_large_numbers(dtype: str) -> None:
    """Squares of numbers are infinite long before the numbers are."""
    large = np.array([60, 1e4, np.finfo(dtype).max], dtype)
    x = tk.asarray(np.r_[-large, large])
    assert tk.special.ndtr(x).tolist() == [0, 0, 0, 1, 1, 1]
    assert tk.special.log_ndtr(tk.asarray(large)).tolist() == [0, 0, 0]
    assert tk.special.erfcx(tk.asarray(-large)).tolist() == [np.inf] * 3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gamma_beside_its_pole(dtype: str) -> None:
    x = np.finfo(dtype).smallest_subnormal * 2.0 ** np.arange(12)
    with np.errstate(over="ignore"):
        expected = (1 / x).astype(dtype)
    for sign in (1, -1):
        got = tk.special.gamma(tk.asarray((sign * x).astype(dtype))).numpy()
        np.testing.assert_allclose(got, sign * expected, rtol=4 * float(np.finfo(dtype).eps))
    assert tk.special.gamma(tk.asarray([0.0, -0.0])).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_logit_of_the_smallest_numbers(dtype: str) -> None:
    x = np.finfo(dtype).smallest_subnormal * 2.0 ** np.arange(12)
    got = tk.special.logit(tk.asarray(x.astype(dtype))).numpy()
    exact = [float(mpmath.log(mpmath.mpf(float(v)) / (1 - mpmath.mpf(float(v))))) for v in x]
    np.testing.assert_allclose(got, exact, rtol=2 * float(np.finfo(dtype).eps))


def test_names_are_in_the_module_and_not_above_it() -> None:
    assert {"erf", "gammaln", "polygamma", "xlogy", "ndtri", "i0e"} <= set(tk.special.__all__)
    assert not hasattr(tk, "special_erf")
    with pytest.raises(AttributeError, match="has no attribute 'zeta_of_no_one'"):
        _ = tk.special.zeta_of_no_one


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 1 << 15])
def test_values_at_zero(dtype: str, size: int) -> None:
    """They are exact in small and large calls."""
    zeros = tk.zeros(size, dtype=getattr(tk, dtype))
    for function, want in ((tk.special.i0, 1), (tk.special.i0e, 1), (tk.special.erfc, 1), (tk.special.ndtr, 0.5)):
        assert np.abs(function(zeros).numpy() - want).max() <= (3e-16 if dtype == "float64" else 0)


def test_polynomials_of_lower_degree() -> None:
    """float32 takes polynomials that differ by less than it can tell, of up to a third of the terms."""
    grid = np.linspace(-1, 1, 2001)
    lengths = []
    for name, table in vars(coefficients).items():
        if name.isupper() and not name.startswith("_"):
            short = series._economised(table)
            exact, found = (np.polynomial.polynomial.polyval(grid, some) for some in (table, short))
            assert np.abs(found - exact).max() <= 2.0**-28 * np.abs(exact).max(), name
            lengths.append((len(table), len(short)))
    assert sum(short for _, short in lengths) < 0.6 * sum(whole for whole, _ in lengths)
    x = variable("x")
    chosen = horner(TypeMaker(), coefficients.GAMMA, x)
    for eps, size in (
        (2.0**-52, len(coefficients.GAMMA)),
        (2.0**-23, len(series._economised(coefficients.GAMMA))),
    ):
        operations = [node.operation for node in topological_order(settled([chosen], eps))]
        assert operations.count("multiply") == size - 1, eps
        assert "eps" not in operations


def test_poles_of_the_gamma_function() -> None:
    x = tk.tensor([-2.0, -1.0, 0.0, -1.5, 2.5], dtype=tk.float64, requires_grad=True)
    assert tk.special.rgamma(x)[:3].tolist() == [0.0, 0.0, 0.0]
    assert tk.autograd.gradcheck(tk.special.rgamma, x)
    values = np.array([0.0, -0.0, -1.0, -0.5, -1.5, 3.0, np.inf, np.nan])
    np.testing.assert_array_equal(tk.special.gammasgn(tk.asarray(values)).numpy(), scipy.special.gammasgn(values))
    assert tk.special.erfcinv(tk.asarray([0.0, 2.0, 1.0])).tolist() == [np.inf, -np.inf, 0.0]


def test_error_functions_of_complex_numbers() -> None:
    radii, angles = np.geomspace(1e-2, 25, 24)[:, None], np.linspace(-np.pi, np.pi, 17)
    z = np.append((radii * np.exp(1j * angles)).ravel(), [0, 1j, -1j, complex(-0.0, 1.0), 3, -3])
    for name in ("erf", "erfc"):
        exact = getattr(mpmath, name)
        want = np.array([complex(exact(mpmath.mpc(one))) for one in z])
        got = getattr(tk.special, name)(tk.asarray(z)).numpy()
        held = np.isfinite(want) & (np.abs(want) > 1e-290)
        assert np.max(np.abs(got - want)[held] / np.abs(want[held])) < 1e-12
        single = getattr(tk.special, name)(tk.asarray(z[:200].astype(np.complex64)))
        assert single.dtype == tk.complex64
        x = tk.tensor(np.array([0.3 + 1j, -2 + 0.5j, 1 - 3j]), requires_grad=True)
        assert tk.autograd.gradcheck(getattr(tk.special, name), x)
        assert tk.autograd.gradgradcheck(getattr(tk.special, name), x)
