"""Powers with a number as their exponent, against NumPy's power function and C99's special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk


def test_powers_with_a_number() -> None:
    rng = np.random.default_rng(5)
    failures = []
    for dtype in ("float32", "float64", "float16"):
        eps = float(np.finfo(dtype).eps)
        for size in (7, 40000):  # small and large calls
            x = np.concatenate([rng.normal(size=size), [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
            for exponent in (2, 3, -1, -2, 0.5, -0.5, 1.5, 4, 0):
                with np.errstate(all="ignore"):
                    exact = np.power(x.astype(np.float64), np.full(x.shape, float(exponent)))  # np.sqrt, if given 0.5
                    expected = exact.astype(dtype)
                found = (tk.asarray(x) ** exponent).numpy()
                special = ~np.isfinite(expected) | (expected == 0)
                close = np.isclose(found.astype(np.float64), exact, rtol=2 * eps, atol=float(np.finfo(dtype).tiny))
                same = np.array_equal(found[special], expected[special], equal_nan=True)
                if found.dtype != dtype or not close[~special].all() or not same:
                    failures.append((dtype, size, exponent))
                signs = np.signbit(found) == np.signbit(expected)
                if not signs[~np.isnan(expected)].all():
                    failures.append((dtype, size, exponent, "sign"))
    assert not failures, failures


def test_powers_of_integers_and_complex_numbers() -> None:
    for size in (7, 40000):
        i = np.arange(size) % 100
        assert np.array_equal((tk.asarray(i) ** 3).numpy(), i**3)
        z = np.exp(1j * np.arange(size))
        np.testing.assert_allclose((tk.asarray(z) ** 3).numpy(), z**3, rtol=1e-12)
        np.testing.assert_allclose((tk.asarray(z) ** 0.5).numpy(), z**0.5, rtol=1e-12)


def test_gradients() -> None:
    x = tk.asarray(np.array([0.5, 2.0, 3.0]), requires_grad=True)
    for exponent in (3, -1, 0.5):
        (gradient,) = tk.autograd.grad((x**exponent).sum(), x)
        np.testing.assert_allclose(gradient.numpy(), exponent * x.detach().numpy() ** (exponent - 1), rtol=1e-14)


def test_gradients_of_special_values_are_those_of_a_tensor_of_exponents() -> None:
    numbers = [0.5, 2.0, -1.5, 1.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, 1e-30]
    failures = []
    for dtype in ("float32", "float64"):
        for exponent in (2, 3, -1, 0.5, 4, 1, 0, 2.5, -2):
            for repeats in (1, 4000):  # small and large calls
                x = np.tile(np.array(numbers, dtype), repeats)
                found = [_two_gradients(x, power) for power in (exponent, np.full(x.shape, exponent, dtype))]
                for order, (by_number, by_tensor) in enumerate(zip(*found), 1):
                    if not np.allclose(by_number, by_tensor, rtol=1e-5, atol=1e-37, equal_nan=True):
                        failures.append((dtype, exponent, repeats, order))
    assert not failures, failures


def _two_gradients(x: np.ndarray, power: Any) -> list[np.ndarray]:
    leaf = tk.asarray(x.copy(), requires_grad=True)
    powers = leaf ** (tk.asarray(power) if isinstance(power, np.ndarray) else power)
    (first,) = tk.autograd.grad(powers.sum(), leaf, create_graph=True)
    if not first.requires_grad:
        return [first.numpy()]
    (second,) = tk.autograd.grad(first.sum(), leaf)
    return [first.detach().numpy(), second.numpy()]


@pytest.mark.parametrize("exponent", [2, 3, -1, -2, 7, 0, 0.5, 2j])
@pytest.mark.parametrize("size", [3, 30_000])
def test_powers_of_complex_numbers(exponent: complex, size: int) -> None:
    angles = np.linspace(-3, 3, size)
    x = np.linspace(0.5, 2, size) * np.exp(1j * angles)
    wanted = np.exp(exponent * (np.log(np.linspace(0.5, 2, size)) + 1j * angles))
    np.testing.assert_allclose((tk.asarray(x) ** exponent).numpy(), wanted, rtol=1e-13)
