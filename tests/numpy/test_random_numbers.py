"""tenkey.numpy.random: NumPy's signatures, kinds of results and errors; distributions against SciPy; seeds, states."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.numpy import random as R  # noqa: N812
from tenkey.transforms import vmap

CLASSES = {"Generator": (np.random.Generator, R.Generator), "RandomState": (np.random.RandomState, R.RandomState)}


def _names(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


@pytest.mark.parametrize("name", CLASSES)
def test_signatures(name: str) -> None:
    """Argument names, order, kinds and defaults of every method."""
    theirs, ours = CLASSES[name]
    wrong = []
    for method in _names(theirs):
        if callable(getattr(theirs, method)):
            want = inspect.signature(getattr(theirs, method)).parameters.values()
            got = inspect.signature(getattr(ours, method)).parameters.values()
            if [(p.name, p.kind, p.default) for p in got] != [(p.name, p.kind, p.default) for p in want]:
                wrong.append(method)
    assert not wrong
    assert set(_names(theirs)) == set(_names(ours))


def test_names_of_the_module() -> None:
    missing = {name for name in _names(np.random) if not hasattr(R, name)}
    assert missing == set(R.REFUSED)
    for name in missing:
        with pytest.raises(AttributeError, match="NumPy"):
            getattr(R, name)
    assert all(hasattr(R, name) for name in R.__all__)
    assert tnp.random is R


# What each call returns, or raises, must be of NumPy's kind: the class, dtype and shape. Those of one class of NumPy's
# alone are skipped for the other.
CALLS = """
normal() | normal(np.array(0.0)) | normal(np.float32(0)) | normal(True) | normal([0, 1], 1, 3) | normal(size=-1)
normal(0, -1) | normal(np.zeros((2, 1)), np.ones(3)) | normal(0, 1, (4, 2, 3)) | normal(size=[2, 3])
normal(size=2.0) | normal(size=np.array([2, 3])) | normal(size=np.int64(3)) | random(()) | random(size=None)
random(3.0) | random(dtype=np.float32) | random(dtype=int) | random(3, dtype="f") | random(5, out=np.zeros(5))
random(out=np.zeros(5)) | random(4, out=np.zeros(5)) | random(out=np.zeros(5, "f"))
random(out=np.zeros(5, "f"), dtype="f") | random(3, out=np.zeros(6)[::2])
standard_normal() | standard_normal(3, dtype="d") | standard_exponential(method="inv") | standard_exponential(3)
standard_gamma([1.0, 2]) | standard_gamma(2.0, 3, "f") | standard_gamma(0.0) | gamma(0.0) | gamma([0.0, 1])
gamma(-1) | weibull(0) | weibull([0, 1]) | weibull(-1) | uniform(3, 1) | uniform(1, 1) | uniform(0, np.inf)
uniform([0, 1], [0, 3]) | uniform(low=[0, 5], high=3) | integers(5) | integers(5, dtype=np.int32)
integers(5, dtype=int) | integers(2, dtype=bool) | integers(3, dtype=bool) | integers(2, dtype=bool, size=3)
integers(-1.2, 3.4, 5) | integers([1.5], [3.0]) | integers(3.7) | integers(3, 3) | integers(0, 300, dtype=np.uint8)
integers(5, dtype=float) | integers(0, 1, endpoint=True) | integers(high=3, low=1) | integers(0, [2, 3])
integers([0, 0], [0, 3]) | integers(0, 255, 4, "uint8", True) | integers(-2**63, 2**63, 3)
integers(0, 2**64, 3, np.uint64) | integers(0, 2**64) | integers([0, 1], 300, dtype="uint8") | randint(5)
randint(5, dtype=np.int64) | randint(2, dtype=bool) | randint(1.2, 3.4, 5) | randint([1, 2], [3, 4])
randint(0, [3, 4], size=(2, 2)) | randint(3, 2) | random_integers(5) | random_integers(2, 5, 3) | tomaxint()
tomaxint(2) | rand() | rand(2, 3) | randn() | randn(2, 0) | rand((2, 3)) | random_sample((2,)) | bytes(3) | bytes(0)
choice(5) | choice([1, 2]) | choice([1.5, 2]) | choice(['a', 'b']) | choice(5, ()) | choice(3, 5, replace=False)
choice(0, 1) | choice([], 0) | choice(3, p=[0.5, 0.5, 0.1]) | choice([1, 2], p=[1.5, -0.5])
choice(np.arange(6).reshape(3, 2)) | choice(2.5) | choice(np.array(3)) | choice(-1) | choice(range(9))
choice(range(9), 3) | choice(['x', 'y'], (2, 3)) | choice(np.arange(3.0), (2, 2), p=np.array([0.2, 0.3, 0.5]))
choice([(0, 1), (2, 3)]) | choice([True, False], 4) | choice(5, size=(2, 2), replace=False)
choice(np.arange(6).reshape(3, 2), 2, axis=1) | choice(5, 3, p=[0.2] * 5) | permutation(3) | permutation(['a', 'b'])
permutation(range(4)) | permutation(np.arange(6).reshape(2, 3), axis=1) | permutation(np.arange(6).reshape(2, 3))
permuted(3) | permuted([3, 4]) | permuted(['a', 'b']) | permuted(np.ones((2, 3)), axis=1) | shuffle(np.zeros((3, 2)))
shuffle([1, 2]) | shuffle((1, 2)) | shuffle(3) | shuffle(np.array(3)) | shuffle([1, 2], 1) | binomial(5, 0.5)
binomial(2.5, 0.5) | binomial([2.0], 0.5) | binomial(-1, 0.5) | binomial(3, 1.5) | poisson(3) | poisson(-1)
poisson([1, 2]) | poisson(2, (2, 2)) | poisson(np.nan) | geometric(0.5) | geometric(0) | geometric(1.5) | zipf(2.0)
zipf(1.0) | logseries(0.5) | logseries(1.0) | negative_binomial(3, 0.5) | negative_binomial([3, 4], 0.5)
hypergeometric(1, 2, 4) | hypergeometric([1, 2], 3, 2) | hypergeometric(-1, 2, 3) | multinomial(3, [0.5, 0.5])
multinomial(3, [0.5, 0.7]) | multinomial(3, [0.5, 0.7, 0.1]) | multinomial(3, [0.2, 0.8], (2, 2))
multinomial(-3, [0.2, 0.8]) | dirichlet([1, 2]) | dirichlet([1, 2], 3) | dirichlet([-1, 2]) | dirichlet([0.0, 1])
multivariate_normal([0, 0], np.eye(2)) | multivariate_normal([0, 0], np.eye(2), 3)
multivariate_normal([0, 0], -np.eye(2), 3) | multivariate_normal([0, 0], np.eye(3))
multivariate_normal([0, 0], -np.eye(2), 3, 'raise') | multivariate_normal([0, 0], np.eye(2), check_valid='x')
multivariate_normal([0, 0], np.eye(2), method='x') | multivariate_hypergeometric([3, 4], 5)
multivariate_hypergeometric([3, 4], 5, 2, method='count') | multivariate_hypergeometric([3, 4], 9) | beta(0, 1)
beta(1, 2, 2) | exponential(-1) | exponential([1, -1]) | f(1, 2, 3) | noncentral_f(1, 2, 3, 4)
noncentral_chisquare(1, 2, 3) | wald(1, 2) | wald(0, 1) | power(2, 3) | power(0) | pareto(3) | pareto(0)
laplace(0, 1, (2, 2)) | lognormal() | lognormal(0, -1) | logistic() | gumbel() | standard_cauchy(3) | standard_t(3, 2)
standard_t(0) | chisquare(0) | triangular(0, 0, 0) | triangular(0, 1, 2, 3) | triangular(0, 3, 2) | rayleigh(-1)
vonmises(0, 4) | vonmises(0, -1) | seed(3) | seed(-1) | seed([1, 2]) | seed(1.5)
"""


def _kind(owner: Any, call: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = eval(f"owner.{call}", {"owner": owner, "np": np})
        except (TypeError, ValueError, IndexError, OverflowError, NotImplementedError) as error:
            return type(error)
    return type(made).__name__, str(getattr(made, "dtype", "")), getattr(made, "shape", None)


@pytest.mark.parametrize("name", CLASSES)
def test_kinds_of_results_and_errors(name: str) -> None:
    theirs, ours = (
        (np.random.default_rng(1), R.default_rng(1))
        if name == "Generator"
        else (np.random.RandomState(1), R.RandomState(1))
    )
    wrong = []
    for call in CALLS.replace("\n", " | ").split(" | "):
        if call.strip() and hasattr(theirs, call.strip().partition("(")[0]):
            want, got = _kind(theirs, call.strip()), _kind(ours, call.strip())
            if got != want:
                wrong.append(f"{call.strip()}: {got} in place of {want}")
    assert not wrong


N = 3000
CONTINUOUS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "beta": ((0.5, 2.0), stats.beta(0.5, 2.0)),
    "chisquare": ((3,), stats.chi2(3)),
    "exponential": ((2.0,), stats.expon(scale=2)),
    "f": ((3, 5.0), stats.f(3, 5)),
    "gamma": ((2.5, 2.0), stats.gamma(2.5, scale=2)),
    "gumbel": ((-1.0, 2.0), stats.gumbel_r(-1, 2)),
    "laplace": ((1.0, 0.5), stats.laplace(1, 0.5)),
    "logistic": ((1.0, 3.0), stats.logistic(1, 3)),
    "lognormal": ((0.5, 0.7), stats.lognorm(0.7, scale=math.exp(0.5))),
    "noncentral_chisquare": ((3, 2.0), stats.ncx2(3, 2)),
    "noncentral_f": ((3, 7, 2.0), stats.ncf(3, 7, 2)),
    "normal": ((1.0, 2.0), stats.norm(1, 2)),
    "pareto": ((2.5,), stats.lomax(2.5)),
    "power": ((2.5,), stats.powerlaw(2.5)),
    "random": ((), stats.uniform()),
    "rayleigh": ((2.0,), stats.rayleigh(scale=2)),
    "standard_cauchy": ((), stats.cauchy()),
    "standard_exponential": ((), stats.expon()),
    "standard_gamma": ((2.5,), stats.gamma(2.5)),
    "standard_normal": ((), stats.norm()),
    "standard_t": ((3.5,), stats.t(3.5)),
    "triangular": ((-1.0, 0.5, 1.0), stats.triang(0.75, -1, 2)),
    "uniform": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "vonmises": ((0.5, 4.0), stats.vonmises_line(4.0, 0.5)),
    "wald": ((3.0, 2.0), stats.invgauss(1.5, scale=2)),
    "weibull": ((1.5,), stats.weibull_min(1.5)),
}
DISCRETE: dict[str, tuple[tuple[Any, ...], Any]] = {
    "binomial": ((10, 0.3), stats.binom(10, 0.3)),
    "geometric": ((0.3,), stats.geom(0.3)),
    "hypergeometric": ((5, 9, 6), stats.hypergeom(14, 5, 6)),
    "logseries": ((0.7,), stats.logser(0.7)),
    "negative_binomial": ((3, 0.4), stats.nbinom(3, 0.4)),
    "poisson": ((4.0,), stats.poisson(4)),
    "zipf": ((2.5,), stats.zipf(2.5)),
}


@pytest.mark.parametrize("name", CLASSES)
def test_distributions(name: str) -> None:
    """With the parameters by position, so that their order is tested as well."""
    rng = R.default_rng(5) if name == "Generator" else R.RandomState(6)
    pvalues = {}
    for method, (args, exact) in CONTINUOUS.items():
        values = getattr(rng, method)(*args, size=N)
        assert (values.dtype, type(values)) == (np.float64, tnp.ndarray), method
        pvalues[method] = stats.kstest(values.numpy(), exact.cdf).pvalue
    for method, (args, exact) in DISCRETE.items():
        values = getattr(rng, method)(*args, size=N)
        assert values.dtype == np.int64, method
        pvalues[method] = _chi_square(values.numpy(), exact)
    assert {method: p for method, p in pvalues.items() if p < 1e-4} == {}


def _chi_square(values: np.ndarray[Any, Any], exact: Any) -> float:
    edges = np.unique(exact.ppf([0.05, 0.2, 0.4, 0.6, 0.8, 0.95]))
    observed = np.histogram(values, np.concatenate([[-np.inf], edges + 0.5, [np.inf]]))[0]
    expected = np.diff(np.concatenate([[0.0], exact.cdf(edges), [1.0]])) * len(values)
    return float(stats.chisquare(observed, expected).pvalue)


def test_vectors_and_selections() -> None:
    rng = R.default_rng(3)
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    x = rng.multivariate_normal([1.0, -1.0], cov, N).numpy()
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.15)
    np.testing.assert_allclose(x.mean(axis=0), [1.0, -1.0], atol=0.15)
    counts = rng.multinomial(10, [0.2, 0.3, 0.5], N).numpy()
    assert (counts.sum(axis=1) == 10).all()
    np.testing.assert_allclose(counts.mean(axis=0), [2, 3, 5], atol=0.2)
    colors = rng.multivariate_hypergeometric([10, 20, 30], 12, N).numpy()
    assert (colors.sum(axis=1) == 12).all()
    np.testing.assert_allclose(colors.mean(axis=0), [2, 4, 6], atol=0.2)
    shares = rng.dirichlet([1.0, 0.0, 3.0], N).numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares.mean(axis=0), [0.25, 0.0, 0.75], atol=0.02)
    ends = rng.integers([0, 10], [3, 10], (N, 2), endpoint=True).numpy()
    assert stats.chisquare(np.bincount(ends[:, 0], minlength=4)).pvalue > 1e-4
    assert (ends[:, 1] == 10).all()
    words = rng.choice(["a", "b", "c"], N, p=[0.5, 0.5, 0.0])
    assert isinstance(words, np.ndarray)
    assert set(words.tolist()) == {"a", "b"}
    rounded = np.exp(np.float32([-1.0, -2.0, -3.0]))  # as programs compute probabilities: the sum is 1 to float32
    assert rng.choice(3, p=rounded / rounded.sum() + np.float32(1e-5)) in (0, 1, 2)
    with pytest.warns(RuntimeWarning, match="positive-semidefinite"):
        rng.multivariate_normal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])


def test_orders() -> None:
    rng = R.default_rng(3)
    for x in (tnp.arange(20), np.arange(20), list(range(20))):
        assert rng.shuffle(x) is None
        assert list(map(int, x)) != list(range(20))
        assert sorted(map(int, x)) == list(range(20))
    rows = tnp.reshape(tnp.arange(12), (4, 3))
    rng.shuffle(rows, axis=1)
    assert (np.diff(np.sort(rows.numpy(), axis=1), axis=1) == 1).all()
    assert sorted(rng.permutation(["x", "y", "z"]).tolist()) == ["x", "y", "z"]
    table = np.arange(40).reshape(2, 20)
    lines = rng.permuted(table, axis=1).numpy()
    assert (np.sort(lines, axis=1) == table).all()
    assert ((lines[0] + 20) != lines[1]).any()
    out = tnp.zeros((2, 20), dtype=int)
    assert rng.permuted(tnp.array(table), out=out) is out
    assert sorted(out.numpy().reshape(-1).tolist()) == list(range(40))


def test_out() -> None:
    for method, args in (
        ("random", ()),
        ("standard_normal", ()),
        ("standard_exponential", ()),
        ("standard_gamma", (2.0,)),
    ):
        for dtype in (np.float32, np.float64):
            out = tnp.zeros((3, 2), dtype=dtype)
            assert getattr(R.default_rng(1), method)(*args, dtype=dtype, out=out) is out
            want = getattr(R.default_rng(1), method)(*args, size=(3, 2), dtype=dtype)
            np.testing.assert_array_equal(out.numpy(), want.numpy())
        with pytest.raises(ValueError, match="contiguous"):
            getattr(R.default_rng(1), method)(*args, out=tnp.zeros((2, 3)).T)


def test_gradients_flow_to_tensors() -> None:
    loc = tnp.array([1.0, 2.0]).requires_grad_()
    drawn = R.default_rng(1).normal(loc, 2.0, (5, 2))
    drawn.sum().backward()
    assert isinstance(drawn, tnp.ndarray)
    assert loc.grad.tolist() == [5.0, 5.0]
    one = tnp.array(3.0).requires_grad_()
    scalar = R.exponential(one)
    assert (scalar.shape, scalar.requires_grad) == ((), True)


def test_gradients_of_transforms() -> None:
    x = tnp.array([1.0, 2.0])

    def draw(loc: Any) -> Any:
        return R.default_rng(1).normal(loc, 2.0, (5, 2)).sum(axis=0)

    assert tk.jvp(draw, (x,), (tk.ones(2, dtype="float64"),))[1].tolist() == [5.0, 5.0]
    assert tk.grad(lambda loc: draw(loc).sum())(x).tolist() == [5.0, 5.0]
    with pytest.raises(NotImplementedError, match="derivative by"):
        tk.grad(lambda shape: R.default_rng(1).gamma(shape).sum())(x)
    numbers = vmap(lambda p: R.default_rng(1).uniform(p, p + 1) + R.default_rng(1).gamma(p), randomness="same")(x)
    assert (numbers.shape, numbers.dtype) == ((2,), np.float64)
    sure = tnp.array([[1.0, 0.0], [0.0, 1.0]])
    rows = vmap(lambda p: R.default_rng(1).multinomial(9, p), randomness="different")(sure)
    assert rows.tolist() == [[9, 0], [0, 9]]


def test_inside_of_vmap_a_number_is_an_array() -> None:
    drawn = vmap(lambda x: x * R.default_rng(1).normal(), randomness="different")(tk.ones(4))
    assert len(set(drawn.tolist())) == 4


FEW: dict[str, tuple[Any, Any]] = {
    "uniform": (lambda r, s: r.uniform(-3.0, 0.1, s), lambda n, g: tk.random.uniform(n, low=-3.0, high=0.1, **g)),
    "random": (lambda r, s: r.random(s), lambda n, g: tk.random.uniform(n, **g)),
    "normal": (lambda r, s: r.normal(1.5, 3, s), lambda n, g: tk.random.normal(n, mean=1.5, std=3, **g)),
    "exponential": (lambda r, s: r.exponential(2.5, s), lambda n, g: tk.random.exponential(n, scale=2.5, **g)),
    "gumbel": (lambda r, s: r.gumbel(1, 2.5, s), lambda n, g: tk.random.gumbel(n, loc=1, scale=2.5, **g)),
    "logistic": (lambda r, s: r.logistic(1, 2.5, s), lambda n, g: tk.random.logistic(n, loc=1, scale=2.5, **g)),
    "laplace": (lambda r, s: r.laplace(1, 2.5, s), lambda n, g: tk.random.laplace(n, loc=1, scale=2.5, **g)),
    "standard_cauchy": (lambda r, s: r.standard_cauchy(s), lambda n, g: tk.random.cauchy(n, **g)),
}


@pytest.mark.parametrize("name", [*FEW, "integers", "choice"])
def test_few_numbers_are_those_of_operators(name: str) -> None:
    """One by one, in small arrays and in a large one."""
    rng, source = R.default_rng(7), tk.random.Generator(7)
    if name in FEW:
        few, general = FEW[name]
        want = general(2000, {"dtype": "float64", "generator": source}).numpy()
    else:
        few = (lambda r, s: r.integers(-5, 2**31, s)) if name == "integers" else (lambda r, s: r.choice(9, s))
        low, high = (-5, 2**31) if name == "integers" else (0, 9)
        want = tk.random.integers(low, high, 2000, generator=source).numpy()
    got: list[Any] = [few(rng, None) for _ in range(30)]
    for size in (7, (2, 3), 0, (), 200, 1024, 1, 5):
        got.extend(np.ravel(few(rng, size).numpy()).tolist())
    got.extend(few(rng, 2000 - len(got)).tolist())
    np.testing.assert_array_equal(got, want)
    assert rng.bit_generator.generator.state == source.state


class _Seen(tk.dispatch.DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self.names.append(op.name)
        return op(*args, **kwargs)


ARRAYS: dict[str, Any] = {
    "normal": lambda r, at, s: r.normal(at([[0.0], [5.0]]), at([1, 2, 3]), s),
    "normal of float32": lambda r, at, s: r.normal(at(np.float32([[0.1], [0.2]])), 3, s),
    "uniform": lambda r, at, s: r.uniform(at([[0.0], [5.0]]), at([6, 7.5, 8]), s),
    "exponential": lambda r, at, s: r.exponential(at([[1.0], [5.0]]), s),
    "choice": lambda r, at, s: r.choice(at([3.0, 4.0, 5.0]), s),
    "poisson": lambda r, at, s: r.poisson(at([1.0, 20.0, 0.0]), s),
    "binomial": lambda r, at, s: r.binomial(at([1, 20, 1000]), 0.3, s),
    "gamma": lambda r, at, s: r.gamma(at([[0.1], [2.0]]), at([1.0, 2.0, 3.0]), s),
    "beta": lambda r, at, s: r.beta(at([0.5, 2.0, 3]), 1.5, s),
    "weibull": lambda r, at, s: r.weibull(at([0.5, 2.0, 3]), s),
    "geometric": lambda r, at, s: r.geometric(at([0.5, 0.2, 1]), s),
    "multinomial": lambda r, at, s: r.multinomial(1000, at([0.1, 0.6, 0.3]), s),
    "permutation": lambda r, at, s: r.permutation(at(np.arange(12.0).reshape(4, 3))),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_small_arrays_as_parameters(name: str) -> None:
    """The values on the host and the operators, which a mode observes, give the same numbers."""
    for size in (None, (2, 2, 3), (2, 3)):
        drawn = []
        for observed in (False, True):
            rng = R.default_rng(7)
            with _Seen() if observed else contextlib.nullcontext():
                drawn.append((ARRAYS[name](rng, tnp.array, size), rng.bit_generator.generator.state))
        (few, state), (general, other) = drawn
        assert type(few) is type(general) is tnp.ndarray
        np.testing.assert_array_equal(few.numpy(), general.numpy(), strict=True)
        assert state == other


ONE: dict[str, list[tuple[Any, ...]]] = {
    "beta": [(0.5, 2.0), (1e-3, 1e-3)], "chisquare": [(3,)], "f": [(3, 5.0)], "gamma": [(0.05, 2.0), (3, 1.5)],
    "standard_t": [(3.5,)], "poisson": [(0.0,), (4.0,), (50,)], "binomial": [(10, 0.3), (2.7, 0.5), (1000, 0.6)],
    "negative_binomial": [(3, 0.4)], "zipf": [(2.5,)], "logseries": [(0.7,)], "hypergeometric": [(5, 9, 6), (7, 5, 9)],
    "rayleigh": [(2.0,)], "weibull": [(1.5,)], "pareto": [(2.5,)], "power": [(0.7,)], "lognormal": [(0.5, 0.7)],
    "geometric": [(0.3,), (1.0,), (1e-300,)],
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_number_is_that_of_operators(name: str) -> None:
    for parameters in ONE[name]:
        rng, other = R.default_rng(7), R.default_rng(7)
        got = [getattr(rng, name)(*parameters) for _ in range(20)]
        want = getattr(other, name)(*[np.array([p]) for p in parameters], size=20).tolist()
        assert got == want
        assert rng.bit_generator.state == other.bit_generator.state
        assert all(type(g) is type(w) for g, w in zip(got, want, strict=True))


def test_few_categories_are_those_of_operators() -> None:
    rng, source = R.default_rng(7), tk.random.Generator(7)
    p = np.array([0.0, 0.1, 0.2, 0.0, 0.7, 0.0])
    want = tk.random.categorical(p, 600, generator=source).tolist()
    got = [rng.choice(6, p=p) for _ in range(10)]
    got += rng.choice(6, (5, 10), p=tnp.array(p)).numpy().reshape(-1).tolist()
    got += rng.choice(6, 540, p=p.tolist()).tolist()
    assert got == want
    assert type(got[0]) is int


def test_orders_of_few_are_those_of_operators() -> None:
    rng, source = R.default_rng(7), tk.random.Generator(7)
    for n in (5, 1, 64, 2000):
        assert rng.permutation(n).tolist() == tk.random.permutation(n, generator=source).tolist()


def test_modes_see_small_draws() -> None:
    with _Seen() as seen:
        number = R.default_rng(7).random()
    assert "tk::random_uniform" in seen.names
    assert number == R.default_rng(7).random()


# ---- seeds and states


def test_seeds() -> None:
    want = tk.random.uniform(4, dtype="float64", generator=tk.random.Generator(7)).tolist()
    for seed in (
        7,
        np.int64(7),
        np.random.SeedSequence(7),
        R.Philox(7),
        R.PCG64(7),
        tk.random.Generator(7),
        R.RandomState(7),
    ):
        assert R.default_rng(seed).random(4).tolist() == want, seed
    rng = R.default_rng(7)
    assert R.default_rng(rng) is rng
    assert R.RandomState(7).rand(4).tolist() == R.RandomState(R.MT19937(7)).random_sample(4).tolist() == want
    seeds = [None, None, [1, 2], (2, 1), np.array([1, 2, 3]), 2**64, 2**200, np.random.SeedSequence(7).spawn(1)[0]]
    assert len({R.default_rng(seed).random() for seed in seeds}) == len(seeds)
    assert R.default_rng([1, 2]).random() == R.default_rng(np.array([1, 2])).random()
    for seed, error in ((-1, ValueError), (1.0, TypeError), ("7", TypeError), ([-1], ValueError), ([0.5], ValueError)):
        with pytest.raises(error, match="seed"):
            R.default_rng(seed)
    with pytest.raises(TypeError, match="default_rng"):
        R.Generator(7)
    with pytest.raises(NotImplementedError, match="key="):
        R.Philox(key=1)


def test_the_module_draws_from_the_default_generator() -> None:
    R.seed(5)
    first = R.rand(3).tolist()
    tk.random.seed(5)
    assert tk.random.uniform(3, dtype="float64").tolist() == first
    state = R.get_state()
    second = R.randn(3).tolist()
    R.set_state(state)
    assert R.standard_normal(3).tolist() == second
    R.set_state(R.get_state(legacy=False))
    with pytest.raises(ValueError, match="state"):
        R.set_state(np.random.RandomState(0).get_state())
    own = R.get_bit_generator()
    try:
        R.set_bit_generator(R.Philox(9))
        assert R.random() == R.default_rng(9).random()
    finally:
        R.set_bit_generator(own)
    assert R.get_bit_generator().generator is tk.random.default_generator()
    with pytest.raises(TypeError, match="bit generator"):
        R.set_bit_generator(5)


def test_copies_states_and_children() -> None:
    for rng in (R.default_rng(3), R.RandomState(3)):
        rng.normal(size=7)
        copies = [copy.deepcopy(rng), pickle.loads(pickle.dumps(rng))]
        want = rng.normal(size=3).tolist()
        assert all(c.normal(size=3).tolist() == want for c in copies)
    rng = R.default_rng(3)
    state = rng.bit_generator.state
    want = rng.random(3).tolist()
    rng.bit_generator.state = state
    assert rng.random(3).tolist() == want
    children = rng.spawn(3)
    assert len({c.random() for c in (*children, rng)}) == 4
    assert [c.random() for c in R.default_rng(3).spawn(3)] == [c.random() for c in R.default_rng(3).spawn(3)]
    bits = rng.bit_generator
    assert bits.jumped().state["state"]["stream"] == bits.state["state"]["stream"] + 1
    assert bits.random_raw(4).dtype == np.uint64
    assert isinstance(bits.random_raw(), int)
    assert bits.random_raw(output=False) is None
    assert bits.seed_seq.entropy == 3
    for made in (bits.spawn(1)[0], rng, R.RandomState(1)):
        assert "seed=" in repr(made)
