"""Samplers on log densities of tensors: moves along gradients, as PyMC's and NumPyro's, and those of two libraries.

PyMC and NumPyro themselves compile log densities that are written in PyTensor and in JAX, so that they have no use for
those of another library. nutpie, the sampler that PyMC can use, takes any function that returns a value and a gradient;
it is not in the extra ``downstream``, because it brings 250 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, polygamma

import tenkey as tk
import tenkey.numpy as tnp

RNG = np.random.default_rng(0)
DESIGN = np.column_stack([np.ones(40), RNG.normal(size=(40, 2))])
TARGETS = DESIGN @ [1.0, -2.0, 0.5] + 0.5 * RNG.normal(size=40)
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN / 0.25 + np.eye(3))  # of the posterior, with the prior N(0, I)
MEAN = COVARIANCE @ DESIGN.T @ TARGETS / 0.25


def regression(weights: Any) -> Any:
    """Return the log density of the weights of a linear model, for each row of weights."""
    errors = tnp.array(TARGETS) - weights @ tnp.array(DESIGN.T)
    return -tnp.sum(errors**2, axis=-1) / (2 * 0.25) - tnp.sum(weights**2, axis=-1) / 2


def log_gamma(x: Any) -> Any:
    """Return the log density of log(y) for y of the gamma distribution of shape 3 and rate 2."""
    return tnp.sum(3 * x - 2 * tnp.exp(x), axis=-1)


def hamiltonian_chains(
    density: Callable[[Any], Any], x: Any, step: float, leaps: int, draws: int, rng: np.random.Generator
) -> Any:
    """Return the states of independent chains, the rows of ``x`` (Neal 2011, Handbook of Markov Chain Monte Carlo)."""

    def total(x: Any) -> tuple[Any, Any]:
        values = density(x)
        return values.sum(), values

    value_and_grad = tk.value_and_grad(total, has_aux=True)
    (_, value), gradient = value_and_grad(x)
    states = []
    for _ in range(draws):
        momentum = tnp.array(rng.normal(size=x.shape))
        energy = value - tnp.sum(momentum**2, axis=-1) / 2
        moved, slope = x, gradient
        for _ in range(leaps):
            momentum = momentum + 0.5 * step * slope
            moved = moved + step * momentum
            (_, moved_value), slope = value_and_grad(moved)
            momentum = momentum + 0.5 * step * slope
        accepted = tnp.log(rng.random(len(x))) < moved_value - tnp.sum(momentum**2, axis=-1) / 2 - energy
        x, gradient = (tnp.where(accepted[:, None], new, old) for new, old in ((moved, x), (slope, gradient)))
        value = tnp.where(accepted, moved_value, value)
        states.append(x.numpy())
    return np.stack(states)


def _check_moments(states: Any, mean: Any, covariance: Any, independent: int) -> None:
    """Check samples of which so many are worth independent ones: five standard errors of a normal distribution."""
    flat = states.reshape(-1, states.shape[-1])
    deviations = np.sqrt(np.diag(covariance))
    errors = 5 * deviations / np.sqrt(independent)
    assert np.all(np.abs(flat.mean(0) - mean) < errors)
    wrong = np.abs(np.cov(flat.T).reshape(covariance.shape) - covariance) / np.outer(deviations, deviations)
    assert np.all(wrong < 5 * np.sqrt(3 / independent))


def test_hamiltonian_chains_of_a_posterior() -> None:
    states = hamiltonian_chains(regression, tnp.array(RNG.normal(size=(64, 3))), 0.06, 6, 60, RNG)
    _check_moments(states[20:], MEAN, COVARIANCE, independent=1000)


def test_hamiltonian_chains_of_a_skewed_density() -> None:
    states = hamiltonian_chains(log_gamma, tnp.zeros((100, 1)), 0.4, 4, 60, RNG)
    _check_moments(states[10:], digamma(3) - np.log(2), np.array([[polygamma(1, 3)]]), independent=1000)


def no_u_turn_chain(density: Callable[[Any], Any], x: Any, step: float, draws: int, rng: np.random.Generator) -> Any:
    """Return the states of one chain (Hoffman and Gelman 2014, JMLR 15, algorithm 3)."""
    value_and_grad = tk.value_and_grad(density)

    def leap(x: Any, momentum: Any, direction: int) -> tuple[Any, Any, float]:
        momentum = momentum + 0.5 * direction * step * value_and_grad(x)[1]
        x = x + direction * step * momentum
        value, slope = value_and_grad(x)
        momentum = momentum + 0.5 * direction * step * slope
        return x, momentum, float(value - 0.5 * tnp.dot(momentum, momentum))

    def straight(first: Any, last: Any) -> bool:
        span = last[0] - first[0]
        return bool(tnp.dot(span, first[1]) >= 0 and tnp.dot(span, last[1]) >= 0)

    def tree(end: Any, slice_: float, direction: int, depth: int) -> tuple[Any, Any, Any, int, bool]:
        if depth == 0:
            x, momentum, energy = leap(*end, direction)
            return (x, momentum), (x, momentum), x, int(slice_ <= energy), slice_ < energy + 1000
        first, last, chosen, count, go = tree(end, slice_, direction, depth - 1)
        if go:
            one, two, other, more, go = tree(first if direction < 0 else last, slice_, direction, depth - 1)
            first, last = (one, last) if direction < 0 else (first, two)
            count += more
            chosen = other if rng.random() * count < more else chosen
            go = go and straight(first, last)
        return first, last, chosen, count, go

    states = []
    for _ in range(draws):
        momentum = tnp.array(rng.normal(size=x.shape))
        slice_ = float(density(x) - 0.5 * tnp.dot(momentum, momentum)) - rng.exponential()
        first = last = (x, momentum)
        count, depth, go = 1, 0, True
        while go and depth < 6:
            direction = 1 if rng.random() < 0.5 else -1
            one, two, other, more, go = tree(first if direction < 0 else last, slice_, direction, depth)
            first, last = (one, last) if direction < 0 else (first, two)
            if go and rng.random() * count < more:
                x = other
            count, depth = count + more, depth + 1
            go = go and straight(first, last)
        states.append(x.numpy())
    return np.stack(states)


def test_a_no_u_turn_chain_of_a_posterior() -> None:
    states = no_u_turn_chain(regression, tnp.array(MEAN), 0.08, 150, RNG)
    _check_moments(states, MEAN, COVARIANCE, independent=60)


def test_emcee_samples_a_density_of_tensors() -> None:
    emcee = pytest.importorskip("emcee", minversion="3.1")
    sampler = emcee.EnsembleSampler(40, 3, lambda x: regression(tnp.array(x)), vectorize=True)
    sampler._random.seed(1)
    sampler.run_mcmc(RNG.normal(size=(40, 3)), 250)
    _check_moments(sampler.get_chain(discard=50), MEAN, COVARIANCE, independent=300)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_nutpie_samples_with_our_gradients() -> None:
    nutpie = pytest.importorskip("nutpie", minversion="0.13")
    from nutpie.compiled_pyfunc import from_pyfunc

    value_and_grad = tk.value_and_grad(regression)

    def density(x: Any) -> tuple[float, Any]:
        value, gradient = value_and_grad(tnp.array(x))
        return float(value), gradient.numpy()

    def expand(x: Any) -> dict[str, Any]:
        return {"weights": np.array(x)}

    model = from_pyfunc(3, lambda: density, lambda *args, **options: expand, [np.dtype("float64")], [(3,)], ["weights"])
    trace = nutpie.sample(model, draws=300, tune=200, chains=2, cores=1, seed=1, progress_bar=False)
    _check_moments(trace.posterior.weights.values, MEAN, COVARIANCE, independent=200)
