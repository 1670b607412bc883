"""Bessel functions and distributions of ``tk.special``, against mpmath and SciPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tests._tiers import tier


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with mpmath.workdps(40):
        yield


_besselk = functools.cache(mpmath.besselk)  # slow; the functions with an e are asked for at the same places

_BESSEL: list[tuple[str, Callable[..., Any]]] = [
    ("j0", lambda x: mpmath.besselj(0, x)), ("j1", lambda x: mpmath.besselj(1, x)),
    ("y0", lambda x: mpmath.bessely(0, x)), ("y1", lambda x: mpmath.bessely(1, x)),
    ("k0", lambda x: _besselk(0, x)), ("k1", lambda x: _besselk(1, x)),
    ("k0e", lambda x: _besselk(0, x) * mpmath.exp(x)), ("k1e", lambda x: _besselk(1, x) * mpmath.exp(x)),
]  # fmt: skip


@pytest.mark.wider
@pytest.mark.parametrize(("name", "function"), _BESSEL, ids=[row[0] for row in _BESSEL])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_bessel_functions(name: str, function: Callable[..., Any], dtype: str) -> None:
    """Note [Bessel functions in two ranges]: relative to the amplitude, on both sides of the seams."""
    rng = np.random.default_rng(11)
    modified = name[0] == "k"
    pieces = [(1e-3, 2), (2, 8), (8, 60)] if modified else [(1e-3, 2), (2, 8), (8, 60), (1e4, 1e6)]
    for low, high in pieces:
        x = rng.uniform(low, high, tier(10, 40)).astype(dtype)
        want = np.array([float(function(mpmath.mpf(float(v)))) for v in x])
        got = getattr(tk.special, name)(tk.asarray(x)).numpy()
        assert got.dtype == np.dtype(dtype)
        amplitude = np.abs(want) if modified else np.maximum(np.abs(want), np.minimum(1, np.sqrt(2 / (np.pi * x))))
        ulps = 8 if modified else 24
        assert np.max(np.abs(got - want) / amplitude) <= ulps * np.finfo(dtype).eps, (low, high)


def test_bessel_functions_at_their_edges() -> None:
    inf, nan = np.inf, np.nan
    x = tk.asarray([0.0, -0.0, -1.0, inf, -inf, nan], dtype=tk.float64)
    want = {
        "j0": [1, 1, float(mpmath.besselj(0, 1)), 0, 0, nan], "j1": [0, -0.0, -float(mpmath.besselj(1, 1)), 0, 0, nan],
        "y0": [-inf, -inf, nan, 0, nan, nan], "y1": [-inf, -inf, nan, 0, nan, nan],
        "k0": [inf, inf, nan, 0, nan, nan], "k1e": [inf, inf, nan, 0, nan, nan],
    }  # fmt: skip
    for name, values in want.items():
        np.testing.assert_allclose(getattr(tk.special, name)(x).numpy(), values, rtol=1e-15, err_msg=name)
    leaf = tk.tensor([0.0, 2.0], dtype=tk.float64, requires_grad=True)
    tk.special.j1(leaf).sum().backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), [0.5, scipy.special.jvp(1, 2.0)], rtol=1e-14)


def _below(df: float, t: float) -> float:
    n, at = mpmath.mpf(df), mpmath.mpf(t)
    tail = mpmath.betainc(n / 2, mpmath.mpf(1) / 2, 0, n / (n + at * at), regularized=True) / 2
    return float(tail if t < 0 else 1 - tail)


@pytest.mark.parametrize(("low", "high"), [(-3, 0), (0, 2), (2, 5)])
def test_student_quantiles(low: float, high: float) -> None:
    """Note [Quantiles of Student's distribution]: for few and many degrees, far out and in the middle."""
    rng = np.random.default_rng(12)
    df, t = 10 ** rng.uniform(low, high, 40), rng.normal(0, 3, 40)
    want = [_below(*pair) for pair in zip(df.tolist(), t.tolist(), strict=True)]
    np.testing.assert_allclose(tk.special.stdtr(tk.asarray(df), tk.asarray(t)).numpy(), want, rtol=1e-13)
    p = np.concatenate([rng.uniform(0, 1, 20), 10 ** rng.uniform(-100, -1, 20)])
    found = tk.special.stdtrit(tk.asarray(df), tk.asarray(p)).numpy()
    finite = np.isfinite(found)
    assert not np.isnan(found).any()
    assert (finite | (df < 1)).all()
    back = [_below(*pair) for pair in zip(df[finite].tolist(), found[finite].tolist(), strict=True)]
    np.testing.assert_allclose(back, p[finite], rtol=2e-12)


def test_distributions_at_their_edges() -> None:
    inf, nan = np.inf, np.nan
    t = tk.asarray([-inf, -2.0, 0.0, inf, nan], dtype=tk.float64)
    np.testing.assert_array_equal(tk.special.stdtr(3, t).tolist()[::2], [0, 0.5, nan])
    np.testing.assert_allclose(tk.special.stdtr(inf, t).numpy(), scipy.special.ndtr(t.numpy()), rtol=1e-12)
    assert np.isnan(tk.special.stdtr(tk.asarray([0, -1]), 1.0).numpy()).all()
    p = tk.asarray([0.0, 0.5, 1.0, 1.5, -0.5, nan])
    np.testing.assert_array_equal(tk.special.stdtrit(3, p).tolist(), [-inf, 0, inf, nan, nan, nan])
    q = tk.asarray([1e-9, 0.3, 0.9], dtype=tk.float64)
    np.testing.assert_allclose(tk.special.stdtrit(inf, q).numpy(), scipy.special.ndtri(q.numpy()), rtol=1e-12)
    # so few degrees of freedom that nearly all of the probability is out of range, and the tail still counts
    np.testing.assert_allclose(tk.special.stdtr(tk.asarray(1e-3, dtype=tk.float64), 1e200).item(), _below(1e-3, 1e200))
    whole = tk.asarray([3, -3, 0])
    for name in ("chdtr", "chdtrc", "stdtr"):
        got = getattr(tk.special, name)(whole.reshape((3, 1)), whole).numpy()
        want = getattr(scipy.special, name)(whole.numpy()[:, None], whole.numpy())
        np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["betainc", "betaincc"])
def test_incomplete_beta_function_of_parameters_without_a_density(name: str) -> None:
    values = [0.0, 0.5, 3.0, np.inf, -1.0, np.nan]
    a, b, x = np.meshgrid(values, values, [0.0, 0.25, 1.0])
    got = getattr(tk.special, name)(*map(tk.asarray, (a, b, x))).numpy()
    np.testing.assert_allclose(got, getattr(scipy.special, name)(a, b, x), rtol=1e-13)


def test_complements_do_not_cancel() -> None:
    tiny = tk.asarray(1e-12, dtype=tk.float64)
    assert abs(tk.special.betaincc(2.0, 3.0, 1 - tiny).item() / 4e-36 - 1) < 1e-3
    assert abs(tk.special.fdtrc(2.0, 4.0, 1 / tiny).item() / 4e-24 - 1) < 1e-9
    assert abs(tk.special.chdtrc(2.0, tk.asarray(200.0, dtype=tk.float64)).item() / np.exp(-100.0) - 1) < 1e-12


def test_parameters_of_distributions_have_no_derivative() -> None:
    leaf = tk.tensor([2.0], requires_grad=True)
    calls: list[Any] = [
        lambda: tk.special.stdtr(leaf, 1.0), lambda: tk.special.stdtrit(leaf, 0.3),
        lambda: tk.special.fdtr(leaf, 1.0, 0.5), lambda: tk.special.betaincc(leaf, 1.0, 0.5),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(NotImplementedError, match=r"has no derivative with respect to \w+, only to"):
            call().backward()
