"""tk.random: distributions against exact cdfs, addresses, gradients, vmap, and what wrong calls leave behind."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tenkey as tk
from tenkey import random as R  # noqa: N812
from tenkey.core.random import samplers
from tenkey.core.random.generator import GeneratorState, replace_generators
from tenkey.random import Generator
from tenkey.transforms import vmap
from tests._backends import Host
from tests._tiers import only_full

N = 40_001  # crosses two borders of the chunks of 2**14 blocks, and ends inside of one

CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "uniform": (lambda **k: R.uniform(N, low=-1.0, high=3.0, **k), stats.uniform(-1, 4)),
    "uniform of tensors": (lambda **k: R.uniform(N, low=tk.asarray([-1.0]), high=3.0, **k), stats.uniform(-1, 4)),
    "normal": (lambda **k: R.normal(N, mean=1.0, std=2.0, **k), stats.norm(1, 2)),
    "exponential": (lambda **k: R.exponential(N, scale=2.0, **k), stats.expon(scale=2)),
    "laplace": (lambda **k: R.laplace(N, loc=1.0, scale=0.5, **k), stats.laplace(1, 0.5)),
    "gumbel": (lambda **k: R.gumbel(N, loc=-1.0, scale=2.0, **k), stats.gumbel_r(-1, 2)),
    "logistic": (lambda **k: R.logistic(N, scale=3.0, **k), stats.logistic(0, 3)),
    "cauchy": (lambda **k: R.cauchy(N, loc=2.0, **k), stats.cauchy(2)),
    "rayleigh": (lambda **k: R.rayleigh(N, scale=2.0, **k), stats.rayleigh(scale=2)),
    "lognormal": (lambda **k: R.lognormal(N, mean=0.5, sigma=0.7, **k), stats.lognorm(0.7, scale=math.exp(0.5))),
    "weibull": (lambda **k: R.weibull(N, a=1.5, scale=2.0, **k), stats.weibull_min(1.5, scale=2)),
    "pareto": (lambda **k: R.pareto(N, a=2.5, scale=3.0, **k), stats.pareto(2.5, scale=3)),
    "triangular": (lambda **k: R.triangular(N, left=-1.0, mode=0.5, right=1.0, **k), stats.triang(0.75, -1, 2)),
    "triangular at an end": (lambda **k: R.triangular(N, left=0.0, mode=0.0, right=1.0, **k), stats.triang(0.0)),
    "gamma 0.05": (lambda **k: R.gamma(N, a=0.05, **k), stats.gamma(0.05)),
    "gamma 1": (lambda **k: R.gamma(N, a=1.0, scale=2.0, **k), stats.gamma(1, scale=2)),
    "gamma 2.5": (lambda **k: R.gamma(N, a=2.5, **k), stats.gamma(2.5)),
    "gamma 1e6": (lambda **k: R.gamma(N, a=1e6, **k), stats.gamma(1e6)),
    "chisquare": (lambda **k: R.chisquare(N, df=3, **k), stats.chi2(3)),
    "standard_t": (lambda **k: R.standard_t(N, df=3.5, **k), stats.t(3.5)),
    "beta": (lambda **k: R.beta(N, a=0.5, b=2.0, **k), stats.beta(0.5, 2)),
    "power": (lambda **k: R.power(N, a=0.7, **k), stats.powerlaw(0.7)),
    "f": (lambda **k: R.f(N, dfnum=3, dfden=0.5, **k), stats.f(3, 0.5)),
    "noncentral_chisquare": (lambda **k: R.noncentral_chisquare(N, df=0.5, nonc=4, **k), stats.ncx2(0.5, 4)),
    "noncentral_f": (lambda **k: R.noncentral_f(N, dfnum=3, dfden=7, nonc=2, **k), stats.ncf(3, 7, 2)),
    "wald": (lambda **k: R.wald(N, mean=3.0, scale=2.0, **k), stats.invgauss(1.5, scale=2)),
    "wald of a large ratio": (lambda **k: R.wald(N, mean=1e6, scale=1.0, **k), stats.invgauss(1e6, scale=1)),
    "vonmises 0.3": (
        lambda **k: (R.vonmises(N, mu=3.0, kappa=0.3, **k) + (math.pi - 3.0)) % (2 * math.pi),
        stats.vonmises_line(0.3, math.pi),
    ),
    "vonmises 1e5": (lambda **k: R.vonmises(N, mu=1.0, kappa=1e5, **k), stats.vonmises_line(1e5, 1.0)),
    "dirichlet": (lambda **k: R.dirichlet([0.5, 1.0, 2.0], N, **k)[:, 1], stats.beta(1, 2.5)),
    "truncated around 0": (lambda **k: R.truncated_normal(N, low=-1.0, high=1.0, **k), stats.truncnorm(-1, 1)),
    "truncated half": (lambda **k: R.truncated_normal(N, high=0.0, **k), stats.truncnorm(-math.inf, 0)),
    "truncated wide": (lambda **k: R.truncated_normal(N, low=-0.5, high=10.0, **k), stats.truncnorm(-0.5, 10)),
    "truncated tail": (lambda **k: R.truncated_normal(N, low=2.0, high=3.0, **k), stats.truncnorm(2, 3)),
    "truncated far": (lambda **k: R.truncated_normal(N, low=8.0, **k), stats.truncnorm(8, math.inf)),
    "truncated left": (
        lambda **k: R.truncated_normal(N, mean=1.0, std=2.0, low=-9.0, high=-8.0, **k),
        stats.truncnorm(-5, -4.5, loc=1, scale=2),
    ),
    "multivariate": (
        lambda **k: (
            R.multivariate_normal([0.0, 5.0], [[1.0, 0.6], [0.6, 1.0]], N, **k) @ tk.asarray([0.6, 0.8], **_of(k))
        ),
        stats.norm(4.0, math.sqrt(0.36 + 0.64 + 2 * 0.48 * 0.6)),
    ),
}  # fmt: skip


def _of(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {"dtype": kwargs["dtype"]}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str, seed: int) -> None:
    draw, exact = CONTINUOUS[name]
    values = draw(dtype="float64", generator=Generator(seed)).numpy()
    assert stats.kstest(values, exact.cdf).pvalue > 1e-4
    # The pieces on both sides of the first border, too: an error at a border would be diluted by all the rest.
    assert stats.kstest(values[16_000:17_000], exact.cdf).pvalue > 1e-4


_PROBABILITIES = stats.rv_discrete(values=([0, 2, 3], [0.1, 0.6, 0.3]))
DISCRETE: dict[str, tuple[Callable[..., Any], Any]] = {
    "bernoulli": (lambda **k: R.bernoulli(N, p=0.3, dtype="int64", **k), stats.bernoulli(0.3)),
    "geometric": (lambda **k: R.geometric(N, p=0.2, **k), stats.geom(0.2)),
    "integers": (lambda **k: R.integers(3, 17, N, **k), stats.randint(3, 17)),
    "categorical": (lambda **k: R.categorical([0.1, 0.0, 0.6, 0.3], N, **k), _PROBABILITIES),
    "categorical of rows": (lambda **k: R.categorical(tk.asarray([[0.1, 0.9, 0.0]]), N, **k), stats.bernoulli(0.9)),
    "multinomial": (lambda **k: R.multinomial(20, [0.2, 0.3, 0.5], N, **k)[:, 2], stats.binom(20, 0.5)),
    "choice": (lambda **k: R.choice(5, N, **k), stats.randint(0, 5)),
    "integers of tensors": (lambda **k: R.integers(tk.asarray([-3]), 17, N, **k), stats.randint(-3, 17)),
    "integers of far tensors": (
        lambda **k: R.integers(tk.asarray([-(2**62)]), 2**63 - 1, N, **k) // 2**55,
        stats.randint(-(2**7), 2**8),
    ),
    "negative_binomial": (lambda **k: R.negative_binomial(N, n=2.5, p=0.3, **k), stats.nbinom(2.5, 0.3)),
    "logseries": (lambda **k: R.logseries(N, p=0.9, **k), stats.logser(0.9)),
    "zipf": (lambda **k: R.zipf(N, a=2.5, **k), stats.zipf(2.5)),
    "multivariate_hypergeometric": (
        lambda **k: R.multivariate_hypergeometric([3, 2, 5], 4, N, **k)[:, 1],
        stats.hypergeom(10, 2, 4),
    ),
    **{
        f"hypergeometric {g} {b} {n}": (
            lambda g=g, b=b, n=n, **k: R.hypergeometric(N, ngood=g, nbad=b, nsample=n, **k),
            stats.hypergeom(g + b, g, n),
        )
        for g, b, n in ((5, 5, 5), (70, 50, 100), (10**6, 10**5, 10**4))
    },
    **{
        f"poisson {m}": (lambda m=m, **k: R.poisson(N, lam=m, **k), stats.poisson(m))
        for m in (0.1, 3.0, 9.99, 10.0, 33.0, 1e4, 1e9)
    },
    **{
        f"binomial {n} {p}": (lambda n=n, p=p, **k: R.binomial(N, n=n, p=p, **k), stats.binom(n, p))
        for n, p in ((1, 0.5), (10, 0.3), (10, 0.9), (40, 0.5), (1000, 0.02), (1000, 0.3), (10**6, 0.7), (10**9, 0.5))
    },
}  # fmt: skip


def _chi_square(values: np.ndarray[Any, Any], exact: Any) -> float:
    edges = np.unique(exact.ppf(np.linspace(0.002, 0.998, 40)))
    limits = np.concatenate([[-np.inf], edges + 0.5, [np.inf]])
    counts = np.histogram(values, limits)[0]
    expected = np.diff(np.concatenate([[0.0], exact.cdf(edges), [1.0]])) * len(values)
    assert counts[expected < 1e-9].sum() == 0
    counts, expected = counts[expected >= 1e-9], expected[expected >= 1e-9]
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str, seed: int) -> None:
    draw, exact = DISCRETE[name]
    values = draw(generator=Generator(seed))
    assert values.dtype == tk.int64
    assert _chi_square(values.numpy(), exact) > 1e-4


def test_the_tests_find_wrong_distributions() -> None:
    values = R.gamma(N, a=2.5, dtype="float64", generator=Generator(1)).numpy()
    assert stats.kstest(values, stats.gamma(2.55).cdf).pvalue < 1e-4
    counts = R.poisson(N, lam=33.0, generator=Generator(1)).numpy()
    assert _chi_square(counts, stats.poisson(33.5)) < 1e-4


def test_selection_without_replacement() -> None:
    """The first choice follows p; the second the rest of p, renormalised."""
    p = [0.1, 0.2, 0.7, 0.0]
    g = Generator(3)
    drawn = np.array([R.choice(4, 2, replace=False, p=p, generator=g).tolist() for _ in range(4000)])
    assert (drawn[:, 0] != drawn[:, 1]).all()
    observed = [np.sum((drawn == pair).all(axis=1)) for pair in ([0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1])]
    exact = [p[i] * p[j] / (1 - p[i]) for i, j in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))]
    assert stats.chisquare(observed, np.array(exact) * 4000).pvalue > 1e-4
    assert sorted(R.choice(6, (2, 3), replace=False).numpy().reshape(-1).tolist()) == list(range(6))


def test_permutations_of_three_are_equally_likely() -> None:
    g = Generator(1)
    seen = [tuple(R.permutation(3, generator=g).tolist()) for _ in range(3000)]
    _, counts = np.unique(seen, axis=0, return_counts=True)
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-4


def test_tensors_in_random_order() -> None:
    x = tk.arange(12).reshape((3, 4))
    moved = R.permutation(x, axis=1, generator=Generator(1))
    order = R.permutation(4, generator=Generator(1)).numpy()
    np.testing.assert_array_equal(moved.numpy(), x.numpy()[:, order])
    np.testing.assert_array_equal(x.numpy(), np.arange(12).reshape(3, 4))
    assert R.shuffle(x, axis=-1, generator=Generator(1)) is x
    np.testing.assert_array_equal(x.numpy(), moved.numpy())
    rows = R.choice(x, (2, 2), axis=0)
    assert rows.shape == (2, 2, 4)


# ---- who gets which numbers


REJECTING = ["gamma", "log_gamma", "poisson", "binomial", "truncated_normal", "vonmises", "zipf", "logseries"]
_PARAMETERS = {"binomial": (50.0, 0.4), "truncated_normal": (-0.5, 0.5), "logseries": (0.8, 0.0), "zipf": (2.5, 0.0)}


@pytest.mark.parametrize("kind", REJECTING)
def test_elements_do_not_depend_on_their_neighbours(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = _PARAMETERS.get(kind, (12.5, 0.0))
    places = np.stack([np.arange(1000, dtype=np.uint64) * np.uint64(64), np.full(1000, 7, np.uint64)], axis=-1)
    whole = samplers.rejection(kind, np.array(first), np.array(second), places, 5)
    alone = [samplers.rejection(kind, np.array(first), np.array(second), places[i], 5) for i in (0, 1, 500, 999)]
    assert whole[[0, 1, 500, 999]].tolist() == [float(v) for v in alone]
    # other parameters in between change nothing
    mixed = np.where(np.arange(1000) % 3 == 0, first, first * 0.9)
    np.testing.assert_array_equal(samplers.rejection(kind, mixed, np.array(second), places, 5)[::3], whole[::3])
    monkeypatch.setattr(samplers, "_BLOCKS_PER_CHUNK", 7)
    np.testing.assert_array_equal(samplers.rejection(kind, np.array(first), np.array(second), places, 5), whole)


@pytest.mark.parametrize("name", only_full([*CONTINUOUS, *DISCRETE], [*[*CONTINUOUS][1::3], *[*DISCRETE][1::3]]))
def test_same_seed_same_numbers_for_any_number_of_threads(name: str) -> None:
    draw, _ = {**CONTINUOUS, **DISCRETE}[name]
    options = {"dtype": "float64"} if name in CONTINUOUS else {}
    before = tk.get_num_threads()
    try:
        tk.set_num_threads(1)
        one = draw(generator=Generator(9), **options).numpy()
        tk.set_num_threads(2)
        two = draw(generator=Generator(9), **options).numpy()
    finally:
        tk.set_num_threads(before)
    np.testing.assert_array_equal(one, two)


PIECES = {
    "normal": lambda n, g: R.normal(n, generator=g),
    "exponential": lambda n, g: R.exponential(n, generator=g),
    "gamma": lambda n, g: R.gamma(n, a=0.5, generator=g),
    "poisson": lambda n, g: R.poisson(n, lam=20.0, generator=g),
    "binomial": lambda n, g: R.binomial(n, n=100, p=0.5, generator=g),
    "truncated_normal": lambda n, g: R.truncated_normal(n, low=0.5, generator=g),
    "bernoulli": lambda n, g: R.bernoulli(n, p=0.5, generator=g),
    "multinomial": lambda n, g: R.multinomial(9, [0.5, 0.5], n, generator=g),
    "dirichlet": lambda n, g: R.dirichlet([0.5, 0.5], n, generator=g),
    "standard_t": lambda n, g: R.standard_t(n, df=2.0, generator=g),
}


@pytest.mark.parametrize("name", PIECES)
def test_consecutive_draws_share_nothing(name: str) -> None:
    """Pieces are the whole: so each element has numbers of its own, and no call repeats those of another."""
    g = Generator(4)
    pieces = [PIECES[name](n, g).numpy() for n in (10, 0, 25, 1)]
    np.testing.assert_array_equal(np.concatenate(pieces), PIECES[name](36, Generator(4)).numpy())


def test_blocks_of_two_draws_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = samplers.attempt_bits

    def recorded(seed: int, blocks: Any, streams: Any) -> Any:
        seen.append(blocks.tolist())
        return real(seed, blocks, streams)

    monkeypatch.setattr(samplers, "attempt_bits", recorded)
    g = Generator(4)
    R.gamma(100, a=0.5, generator=g)
    first = {b for blocks in seen for b in blocks}
    seen.clear()
    R.gamma(100, a=0.5, generator=g)
    second = {b for blocks in seen for b in blocks}
    assert not first & second
    assert max(second) < g.state.offset


def test_golden_numbers() -> None:
    """What a seed gave in the first release stays: these numbers were computed once, by the formulas of the sources."""
    g = Generator(12345)
    got = {
        "exponential": R.exponential(2, dtype="float64", generator=g).tolist(),
        "gamma": R.gamma(2, a=0.5, dtype="float64", generator=g).tolist(),
        "poisson": R.poisson(3, lam=50.0, generator=g).tolist(),
        "binomial": R.binomial(3, n=100, p=0.25, generator=g).tolist(),
    }
    assert got == GOLDEN


GOLDEN: dict[str, Any] = {
    "exponential": [1.2409935764907885, 0.4137193543731285],
    "gamma": [0.6542674499463189, 1.1574126862373633],
    "poisson": [56, 44, 56],
    "binomial": [24, 26, 21],
}


def test_noise_is_the_formula_of_its_bits() -> None:
    """Against the same formulas in Python's own floats and integers."""
    from tests.random.test_philox import reference_block

    key = (11, 22)
    for i in range(5):
        w0, w1, _, w3 = reference_block(key, 4, i)
        u = (((w0 + (w1 << 32)) >> 12) + 0.5) * 2.0**-52
        sign = 1 if w3 >> 31 else -1
        expected = {
            "uniform": u,
            "exponential": -math.log(u),
            "gumbel": -math.log(-math.log(u)),
            "laplace": -sign * math.log(u),
            "logistic": math.log(u / (1 - u)),
            "cauchy": math.tan(math.pi * (u - 0.5)),
        }
        for kind, value in expected.items():
            drawn = samplers.standard(kind, key, 1, np.dtype("float64"), start=i)[0]
            assert drawn == pytest.approx(value, rel=1e-13), kind


def test_exact_functions() -> None:
    x = np.concatenate([np.linspace(-700, 700, 5001), [-800.0, 800.0, -np.inf, np.inf, np.nan, -0.0]])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(samplers.exact_exp(x), np.exp(x), rtol=5e-16)
    y = np.concatenate(
        [np.linspace(-0.999999, 5, 5001), 10.0 ** np.arange(-300, 300, 7.0), -(10.0 ** np.arange(-300, 0, 7.0))]
    )
    np.testing.assert_allclose(samplers.exact_log1p(y), np.log1p(y), rtol=1e-15)
    assert samplers.exact_log1p([-1.0, -2.0]).tolist()[0] == -math.inf


@pytest.mark.parametrize("draw", [lambda g: R.uniform(3, generator=g), lambda g: R.gamma(a=tk.ones(3), generator=g)])
def test_copies_that_take_the_place_of_a_generator(draw: Callable[[Generator], Any]) -> None:
    generator, other, skipped = Generator(7), Generator(8), Generator(7)
    skipped.skip(100)

    def drawn() -> Any:
        replace_generators([(generator, GeneratorState(7, 0, 100))])
        with suppress(ZeroDivisionError), generator.reserved(5):
            1 / 0  # noqa: B018  # a refused draw takes nothing from the copy
        return draw(generator).tolist(), draw(other).tolist()

    found = copy_context().run(drawn)
    assert generator.get_state() == Generator(7).get_state()
    assert found == (draw(skipped).tolist(), draw(Generator(8)).tolist())
    assert found[0] != draw(generator).tolist()
    assert other.get_state().offset > 0


def test_threads_share_a_generator() -> None:
    g = Generator(1)
    drawn: list[Any] = []
    threads = [threading.Thread(target=lambda: drawn.append(R.gamma(50, a=2.0, generator=g).numpy())) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    together = np.sort(np.concatenate(drawn))
    np.testing.assert_array_equal(together, np.sort(R.gamma(400, a=2.0, generator=Generator(1)).numpy()))


# ---- parameters


def test_parameters_broadcast() -> None:
    g = Generator(1)
    means = tk.asarray([0.0, 100.0, 200.0])
    stds = tk.asarray([[0.0], [1.0]])
    x = R.normal(mean=means, std=stds, generator=g)
    assert x.shape == (2, 3)
    assert x[0].tolist() == [0.0, 100.0, 200.0]
    assert R.normal((4, 2, 3), mean=means, std=stds).shape == (4, 2, 3)
    assert R.poisson(lam=[0.0, 5.0]).shape == (2,)
    assert R.binomial((5, 2), n=tk.asarray([0, 10]), p=0.5)[:, 0].tolist() == [0] * 5
    assert R.multinomial(tk.asarray([[1], [2]]), [[0.5, 0.5], [1.0, 0.0]]).shape == (2, 2, 2)
    assert R.normal(mean=tk.asarray([1.0], dtype=tk.float64)).dtype == tk.float64
    assert R.normal(mean=tk.asarray([1.0], dtype=tk.float64), dtype=tk.float16).dtype == tk.float16
    assert R.gamma(a=tk.asarray([1, 2])).dtype == tk.float32
    with pytest.raises(ValueError, match=r"shape \(3,\) do not broadcast to the shape \(2,\)"):
        R.normal((2,), mean=means)
    with pytest.raises(ValueError, match=r"shapes \(3,\), \(2,\) do not broadcast"):
        R.normal(mean=means, std=tk.ones(2))


def test_dtypes() -> None:
    for dtype in (tk.float16, tk.float32, tk.float64):
        for draw in (R.uniform, R.normal, R.exponential, R.cauchy, R.lognormal, R.truncated_normal):
            assert draw(5, dtype=dtype).dtype == dtype
    assert R.poisson(3, lam=3.0, dtype=tk.uint8).dtype == tk.uint8
    for dtype in (tk.complex64, tk.complex128):
        z = R.normal(20_000, mean=1 + 2j, std=3.0, dtype=dtype, generator=Generator(1)).numpy()
        assert z.dtype == dtype
        assert abs(z.mean() - (1 + 2j)) < 0.1
        assert abs(z.real.std() - 3 / math.sqrt(2)) < 0.05
        assert abs(np.corrcoef(z.real, z.imag)[0, 1]) < 0.03
    # every dtype sees the same noise, rounded
    wide = R.exponential(100, dtype=tk.float64, generator=Generator(1)).numpy()
    np.testing.assert_array_equal(R.exponential(100, generator=Generator(1)).numpy(), wide.astype(np.float32))


def test_integers_of_the_whole_range() -> None:
    x = R.integers(0, 2**64, 50_000, dtype=tk.uint64, generator=Generator(1)).numpy()
    assert stats.kstest(x / 2.0**64, stats.uniform.cdf).pvalue > 1e-4
    assert {int(b) for b in np.unique(x & np.uint64(1))} == {0, 1}
    y = R.integers(-(2**63), 2**63, 50_000, generator=Generator(1)).numpy()
    assert stats.kstest(y / 2.0**64 + 0.5, stats.uniform.cdf).pvalue > 1e-4
    assert R.integers(7, shape=1000).numpy().max() == 6
    # three quarters of the range: a remainder of 64 bits would give the lower half twice
    z = R.integers(0, 3 * 2**62, 50_000, dtype=tk.uint64, generator=Generator(1)).numpy()
    assert abs((z < 2**62).mean() - 1 / 3) < 0.01


def test_integers_between_tensors() -> None:
    assert R.integers([-(2**63), 0], [-(2**63) + 1, 1]).tolist() == [-(2**63), 0]
    wide = R.integers(tk.asarray([0]), 2**64, 20_000, dtype=tk.uint64, generator=Generator(1)).numpy()
    assert stats.kstest(wide / 2.0**64, stats.uniform.cdf).pvalue > 1e-4
    assert R.integers(tk.asarray([2**64 - 1], dtype=tk.uint64), 2**64, dtype=tk.uint64).tolist() == [2**64 - 1]
    for low, high, dtype, message in (
        ([0], [0], "int64", "high - low must be above 0"), ([0], [300], "uint8", "at most 255"),
        ([-1], 3, "uint8", "at least 0"), ([0], 2**64, "int64", "must fit in the dtype int64"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            R.integers(low, high, dtype=dtype)
    with pytest.raises(TypeError, match="low must be integers, got float32"):
        R.integers(tk.asarray([0.5]), 3)


def test_parameters_of_counts() -> None:
    for call, message in (
        (lambda: R.hypergeometric(ngood=2, nbad=[3, 4], nsample=6), r"ngood \+ nbad - nsample must be at least 0"),
        (lambda: R.multivariate_hypergeometric([2, 3], 6), "the sum of colors - nsample must be at least 0"),
        (lambda: R.multivariate_hypergeometric(2, 1), "colors must have at least one axis"),
        (lambda: R.negative_binomial(n=1e18, p=1e-3), "must be at least 0 and at most"),
        (lambda: R.zipf(a=1.0), "a must be above 1"),
        (lambda: R.logseries(p=1.0), r"p must be in \[0, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match=r"permuted\] x must be a tensor"):
        R.permuted(3)
    assert R.zipf(3, a=2.0, dtype=tk.float32).dtype == tk.float32


def test_lines_are_permuted_independently() -> None:
    x = tk.reshape(tk.arange(60), (3, 20))
    lines = R.permuted(x, axis=1, generator=Generator(2)).numpy()
    np.testing.assert_array_equal(np.sort(lines, axis=1), x.numpy())
    assert len({tuple(line % 20) for line in lines}) == 3
    columns = R.permuted(x, axis=0, generator=Generator(2)).numpy()
    np.testing.assert_array_equal(np.sort(columns, axis=0), x.numpy())
    everything = R.permuted(x, generator=Generator(2)).numpy()
    assert sorted(everything.reshape(-1).tolist()) == list(range(60))
    assert (np.sort(everything, axis=1) != x.numpy()).any()


def test_extremes() -> None:
    assert R.poisson(4, lam=0.0).tolist() == [0] * 4
    big = R.poisson(1000, lam=2.0**62, generator=Generator(1)).numpy() / 2.0**31
    assert abs(big.mean() - 2.0**31) < 0.2
    assert R.binomial(3, n=10, p=1.0).tolist() == [10] * 3
    assert R.binomial(3, n=0, p=0.5).tolist() == [0] * 3
    assert R.geometric(3, p=1e-300).numpy().min() > 2**62
    shares = R.dirichlet([1e-5] * 3, 100).numpy()
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-6)
    assert R.normal((0, 3)).shape == R.gamma((0, 3), a=1.0).shape == (0, 3)
    assert R.gamma(a=2.0).shape == ()
    narrow = R.truncated_normal(100, low=1.0, high=float(np.nextafter(np.float32(1.0), np.float32(2.0)))).numpy()
    assert ((narrow >= 1.0) & (narrow <= np.nextafter(np.float32(1.0), np.float32(2.0)))).all()
    assert R.multinomial(5, [0.0, 1.0, 0.0]).tolist() == [0, 5, 0]


def test_singular_covariance() -> None:
    x = R.multivariate_normal([0.0, 0.0], [[1, 1], [1, 1]], 100, dtype=tk.float64).numpy()
    np.testing.assert_allclose(x[:, 0], x[:, 1])
    y = R.multivariate_normal(
        tk.zeros(2), scale_tril=tk.asarray([[2.0, 0.0], [1.0, 1.0]]), shape=N, generator=Generator(1)
    )
    np.testing.assert_allclose(np.cov(y.numpy().T), [[4, 2], [2, 2]], atol=0.1)


def test_meta_device_and_shapes() -> None:
    assert R.poisson((2, 3), lam=2.0, device="meta").shape == (2, 3)
    assert R.gamma(a=tk.ones((2, 1), device="meta")).device.type == "meta"


@pytest.mark.parametrize("name", only_full([*CONTINUOUS, *DISCRETE], [*[*CONTINUOUS][::3], *[*DISCRETE][::3]]))
def test_another_backend_gives_the_same_numbers(name: str) -> None:
    draw, _ = {**CONTINUOUS, **DISCRETE}[name]
    if name == "multivariate":
        pytest.skip("what is multiplied with it is on the CPU")
    with tk.backends.register(Host()):
        there = draw(generator=Generator(9), device=Host.name)
        assert there.device.type == Host.name
        np.testing.assert_array_equal(there.numpy(), draw(generator=Generator(9)).numpy())


# ---- gradients


@pytest.mark.parametrize(
    ("draw", "point"),
    [
        (lambda g, a, b: R.uniform((4, 2), low=a, high=a + b * b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.normal((4, 2), mean=a, std=b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.exponential((4, 2), scale=a * b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.laplace((4, 2), loc=a, scale=b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.gumbel((4, 2), loc=a, scale=b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.logistic((4, 2), loc=a, scale=b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.cauchy((4, 2), loc=a, scale=b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.rayleigh((4, 2), scale=a * b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.lognormal((4, 2), mean=a, sigma=b, generator=g), (0.5, 0.7)),
        (lambda g, a, b: R.weibull((4, 2), a=a, scale=b, generator=g), (1.5, 0.7)),
        (lambda g, a, b: R.pareto((4, 2), a=a, scale=b, generator=g), (3.5, 0.7)),
        (lambda g, a, b: R.triangular((4, 2), left=a, mode=a + 0.25 * b, right=a + b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.gamma((4, 2), a=2.0, scale=a * b, generator=g), (0.5, 2.0)),
        (lambda g, a, b: R.power((4, 2), a=a, generator=g) * b, (1.5, 0.7)),
        (lambda g, a, b: R.vonmises((4, 2), mu=a * b, kappa=2.0, generator=g), (0.5, 2.0)),
    ],
)  # fmt: skip
def test_reparameterised_gradients(draw: Any, point: tuple[float, float]) -> None:
    def function(a: Any, b: Any) -> Any:
        return draw(Generator(5), a, b)

    inputs = [tk.tensor([p, p * 1.1], dtype=tk.float64, requires_grad=True) for p in point]
    assert tk.autograd.gradcheck(function, tuple(inputs))


def test_gradients_that_do_not_exist_are_refused() -> None:
    a = tk.tensor([1.0, 2.0], requires_grad=True)
    for draw in (
        lambda: R.gamma(a=a),
        lambda: R.beta(a=a, b=1.0),
        lambda: R.dirichlet(a),
        lambda: R.chisquare(df=a),
        lambda: R.standard_t(df=a),
        lambda: R.truncated_normal(mean=a),
        lambda: R.f(dfnum=a, dfden=2.0),
        lambda: R.wald(mean=a, scale=1.0),
        lambda: R.noncentral_f(dfnum=2.0, dfden=2.0, nonc=a),
        lambda: R.multivariate_normal(a, tk.tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)),
    ):
        with pytest.raises(NotImplementedError, match="the derivative by"):
            draw()
        with tk.no_grad():
            assert not draw().requires_grad
    assert not R.poisson(lam=a).requires_grad
    assert R.gamma(a=a.detach(), scale=a).requires_grad


# ---- vmap


class TestVmap:
    DRAWS: tuple[Callable[[Any], Any], ...] = (
        lambda v: R.exponential((3,), scale=v),
        lambda v: R.gamma((3,), a=v),
        lambda v: R.poisson((3,), lam=v * 1000),
        lambda v: R.binomial((3,), n=10**6, p=v / 2),
        lambda v: R.truncated_normal((3,), mean=v),
        lambda v: R.dirichlet(v, (3,)),
        lambda v: R.weibull((3,), a=v),
        lambda v: R.multivariate_normal(v, tk.eye(3)),
        lambda v: R.categorical(v / v.sum(), (50,)),
        lambda v: R.multinomial(10**6, v / v.sum()),
        lambda v: R.beta((3,), a=v, b=1.0),
        lambda v: R.geometric((3,), p=v / 1e6),
        lambda v: R.choice(1000, (3,)),
        lambda v: R.standard_t((3,), df=v),
    )

    @pytest.mark.parametrize("draw", DRAWS)
    def test_policies(self, draw: Callable[[Any], Any]) -> None:
        x = tk.asarray(np.tile([0.5, 0.75, 1.0], (4, 1)))
        with pytest.raises(RuntimeError, match="random operation while in randomness error mode"):
            vmap(draw)(x)
        R.seed(1)
        same = vmap(draw, randomness="same")(x).numpy()
        R.seed(1)
        np.testing.assert_array_equal(same, np.broadcast_to(draw(x[0]).numpy(), same.shape))
        different = vmap(draw, randomness="different")(x).numpy()
        assert len(np.unique(different.reshape(4, -1), axis=0)) == 4

    def test_parameters_of_each_sample(self) -> None:
        rates = tk.asarray([[0.0, 1000.0], [1e6, 0.0]])
        drawn = vmap(lambda v: R.poisson(lam=v), randomness="different")(rates).numpy()
        assert (drawn == 0).tolist() == [[True, False], [False, True]]
        with pytest.raises(ValueError, match="lam must be"):
            vmap(lambda v: R.poisson(lam=v), randomness="same")(-rates - 1)

    def test_gradients_of_samples(self) -> None:
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        vmap(lambda v: R.laplace((3,), loc=v), randomness="different")(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]

    def test_nested(self) -> None:
        x = tk.ones((3, 4))
        policies = vmap(vmap(lambda v: R.gamma(a=v), randomness="same"), randomness="different")(x).numpy()
        assert (policies == policies[:, :1]).all()
        assert len(np.unique(policies)) == 3
