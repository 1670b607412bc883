"""The special functions of several steps as decompositions: as accurate as the CPU's kernels, at every branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tenkey.dispatch.registry import registry

_EDGES = np.array([0.0, np.inf, np.nan, -1.0, 1.0, 0.5])


def _numbers(low: float, high: float) -> tuple[Any, ...]:
    """Return parameters of any size, places on both sides of the mode, probabilities, and all pairs of edges."""
    rng = np.random.default_rng(3)
    a, b = 10 ** rng.uniform(low, high, (2, 80))
    x = np.concatenate([a[:40] * np.exp(rng.normal(0, 1, 40)), 10 ** rng.uniform(-4, 4, 40)])
    first, second = (v.ravel() for v in np.meshgrid(_EDGES, _EDGES))
    other = rng.choice(_EDGES, 36)
    return (
        np.concatenate([a, first]), np.concatenate([b, other]), np.concatenate([x, second]),
        np.concatenate([rng.uniform(0, 1, 80), second]),
    )  # fmt: skip


def _run(name: str, *given: Any) -> Any:
    args = [tk.asarray(v) if isinstance(v, np.ndarray) else v for v in given]
    return registry.find(f"tk::{name}").facets["Decomposition"].function(*args).numpy()


@pytest.mark.parametrize(("low", "high"), [(-3, 3), (2, 8)])
def test_note_formulas_of_several_steps(low: float, high: float) -> None:
    """Note [Formulas of several steps]: a decomposition gives what the kernel for arrays gives."""
    a, b, x, u = _numbers(low, high)
    orders = np.arange(len(a)) % 130 - 2
    calls = [
        ("gamma_tail", a, x, False), ("gamma_tail", a, x, True), ("beta_tail", a, b, u, False),
        ("beta_tail", a, b, u, True), ("hurwitz", a, x), ("hurwitz", np.floor(a), -x), ("student_below", a, x),
        ("student_below", a, -x), ("student_quantile", a, u), ("f_tail", a, b, x, False), ("f_tail", a, b, x, True),
        ("polygamma_of", 0, x), ("polygamma_of", 1, x - 3), ("polygamma_of", 2, x - 3), ("polygamma_of", 150, x),
        ("polygamma_each", orders, x - 3), ("polygamma_each", orders[:1], x),
    ]  # fmt: skip
    failures = []
    for name, *given in calls:
        with np.errstate(all="ignore"):
            want = registry.find(f"tk::{name}").facets["NumPyKernel"].function(*given)
        try:
            # polygamma_each is the exponential of a logarithm up to 480, whose last unit alone is 5.7e-14
            rtol = 1e-12 if high >= 4 else 1.2e-13 if name == "polygamma_each" else 3e-14
            np.testing.assert_allclose(_run(name, *given), want, rtol=rtol, atol=0)
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    assert not failures, "\n".join(failures)


def test_decompositions_against_scipy() -> None:
    a, b, x, u = (v[:80] for v in _numbers(-1, 2))
    s = scipy.special
    for got, want in (
        (_run("gamma_tail", a, x, False), s.gammainc(a, x)),
        (_run("gamma_tail", a, x, True), s.gammaincc(a, x)),
        (_run("beta_tail", a, b, u, False), s.betainc(a, b, u)),
        (_run("hurwitz", a + 1.1, x), s.zeta(a + 1.1, x)),
        (_run("student_below", a, x), s.stdtr(a, x)),
        (_run("student_quantile", a + 1, u), s.stdtrit(a + 1, u)),
        (_run("f_tail", a, b, x, True), s.fdtrc(a, b, x)),
        (_run("polygamma_of", 3, x), s.polygamma(3, x)),
    ):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-300)


def test_single_precision_is_computed_in_double() -> None:
    a, b, x, u = (v[:80].astype(np.float32) for v in _numbers(-1, 2))
    for name, *given in (("gamma_tail", a, x, True), ("beta_tail", a, b, u, False), ("polygamma_of", 2, x)):
        got = _run(name, *given)
        assert got.dtype == np.float32
        want = _run(name, *[v.astype(np.float64) if isinstance(v, np.ndarray) else v for v in given])
        np.testing.assert_array_equal(got, want.astype(np.float32), err_msg=name)


def test_many_integrals_are_added_up_in_a_loop() -> None:
    """So many elements that the nodes of the rule are taken one after the other."""
    x = np.linspace(0.1, 30, (1 << 16) + 1)
    got = _run("gamma_tail", np.full_like(x, 9.0), x, True)
    np.testing.assert_allclose(got, scipy.special.gammaincc(9.0, x), rtol=1e-12)
