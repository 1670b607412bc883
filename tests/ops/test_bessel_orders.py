"""Bessel functions of any order, against mpmath, and their derivatives."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tenkey as tk

ARGUMENTS = np.array([1e-300, 1e-9, 1e-3, 0.4, 2.5, 9.0, 31.0, 47.5, 300.0, 2000.0])
WHOLE = np.array([0, 1, 2, 3, 7, 24, 100])
REAL = np.array([0.0, 0.3, 1.0, 2.5, 5.6, 12.25, 24.5, 25.5, 60.0, 133.3])


def _exact(function: Any, orders: np.ndarray) -> np.ndarray:
    with mpmath.workdps(40):
        return np.array(
            [[float(function(mpmath.mpf(float(n)), mpmath.mpf(float(x)))) for x in ARGUMENTS] for n in orders]
        )


@np.errstate(all="ignore")
def test_integer_orders() -> None:
    x = tk.asarray(ARGUMENTS)
    first, second = _exact(mpmath.besselj, WHOLE), _exact(mpmath.bessely, WHOLE)
    n = tk.asarray(WHOLE[:, None])
    got = tk.special.jn(n, x).numpy()
    amplitude = np.hypot(first, np.where(np.abs(second) < 1.0, second, 0.0))  # near a zero of the wave
    assert np.nanmax(np.abs(got - first) / np.maximum(amplitude, 1e-290)) < 1e-12
    got = tk.special.yn(n, x).numpy()
    finite = np.isfinite(second)
    assert np.max((np.abs(got - second) / np.hypot(first, second))[finite]) < 1e-12
    assert (got[~finite] == -np.inf).all()
    for name in ("jn", "yn"):
        function = getattr(tk.special, name)
        assert function(-3, x).tolist() == (-function(3, x)).tolist()
        assert function(-2, x).tolist() == function(2, x).tolist()
    assert tk.special.jn(3, -x).tolist() == (-tk.special.jn(3, x)).tolist()
    assert np.isnan(tk.special.yn(3, -x).numpy()).all()


@np.errstate(all="ignore")
def test_real_orders() -> None:
    x = tk.asarray(ARGUMENTS)
    v = tk.asarray(REAL[:, None])
    with mpmath.workdps(40):
        want = np.array([[float(mpmath.besseli(float(n), mpmath.mpf(float(y))) * mpmath.exp(-mpmath.mpf(float(y))))
                          for y in ARGUMENTS] for n in REAL])  # fmt: skip
    got = tk.special.ive(v, x).numpy()
    seen = want > 1e-290
    assert np.max(np.abs(got / np.where(seen, want, 1.0) - 1.0)[seen]) < 1e-12
    plain = tk.special.iv(v, x).numpy()
    moderate = ARGUMENTS < 700
    np.testing.assert_allclose(plain[:, moderate], (got * np.exp(ARGUMENTS))[:, moderate], rtol=1e-12, atol=1e-300)
    assert (plain[:, -1] == np.inf).all()
    assert tk.special.iv(-3, x).tolist() == tk.special.iv(3, x).tolist()
    assert tk.special.iv(3, -x).tolist() == (-tk.special.iv(3, x)).tolist()
    assert np.isnan(tk.special.iv(0.5, -x).numpy()).all()
    assert tk.special.iv(tk.asarray([0.0, 1.0, 0.5]), tk.asarray(0.0)).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["jn", "yn", "iv", "ive"])
def test_derivatives(name: str) -> None:
    function = getattr(tk.special, name)
    orders = tk.asarray([0, 1, 2, 6]) if name in ("jn", "yn") else tk.asarray([0.0, 1.0, 0.5, 6.5], dtype=tk.float64)
    x = tk.tensor([1.5, 3.0, 7.0, 11.0], dtype=tk.float64, requires_grad=True)
    assert tk.autograd.gradcheck(lambda x: function(orders, x), x)
    assert tk.autograd.gradgradcheck(lambda x: function(orders, x), x)
    assert tk.autograd.gradcheck(lambda x: function(2, x), x, check_forward_ad=True)
    if name != "yn":
        assert tk.autograd.gradcheck(lambda x: function(tk.asarray([0, 1, 2, 6]), -x), x)
    v = tk.tensor([2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match=r"has no derivative with respect to [nv],"):
        function(v, x).sum().backward()
    assert function(2, x.astype(tk.float32)).dtype == tk.float32


def test_slopes_at_zero() -> None:
    x = tk.tensor([0.0, 0.0, 0.0], dtype=tk.float64, requires_grad=True)
    (slope,) = tk.autograd.grad(tk.sum(tk.special.iv(tk.asarray([0, 1, 2]), x)), x)
    assert slope.tolist() == [0.0, 0.5, 0.0]


def test_errors() -> None:
    assert np.isnan(tk.special.jn(0.5, tk.ones(2)).numpy()).all()
    with pytest.raises(TypeError, match="special_iv"):
        tk.special.iv(1, tk.ones(2) * 1j)
