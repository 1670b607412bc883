"""Wrong calls of tk.random: errors that name the function, and a generator that is as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import random as R  # noqa: N812
from tenkey.ops.builtin.random import check_values
from tenkey.random import Generator
from tests._tiers import each


def _state(g: Generator) -> tuple[int, int, int]:
    return tuple(g.get_state())


BAD: list[tuple[Callable[[Generator], Any], type[Exception], str]] = [
    (lambda g: R.normal(3, std=-1, generator=g), ValueError, r"\[normal\] std must be at least 0"),
    (lambda g: R.normal(3, std=math.nan, generator=g), ValueError, "nan"),
    (lambda g: R.normal(3, std=[1.0, 1.0, -2.0], generator=g), ValueError, r"std must be .*got -2\.0"),
    (lambda g: R.normal(3, mean=math.inf, generator=g), ValueError, "mean must be finite"),
    (lambda g: R.normal(3, mean="a", generator=g), TypeError, "mean must be a real number"),
    (lambda g: R.normal(3, requires_grad=1, generator=g), TypeError, r"\[normal\] .*'requires_grad' must be a bool"),  # type: ignore[arg-type]
    (lambda g: R.normal(3, mean=tk.asarray([1j]), generator=g), TypeError, "complex64"),
    (lambda g: R.normal(3, dtype="int32", generator=g), TypeError, "floating point"),
    (lambda g: R.normal(-3, generator=g), ValueError, "no negative lengths"),
    (lambda g: R.normal((2, -1), generator=g), ValueError, "no negative lengths"),
    (lambda g: R.normal(2.5, generator=g), TypeError, "a shape is"),
    (lambda g: R.normal(3, device="nowhere", generator=g), ValueError, "unknown device"),
    (lambda g: R.normal((10**9, 10**10), generator=g), RuntimeError, "2\\*\\*60"),
    (lambda g: R.uniform(3, low=1, high=1, generator=g), ValueError, "low must be below high"),
    (lambda g: R.uniform(3, low=math.nan, generator=g), ValueError, "low must be finite"),
    (lambda g: R.uniform(low=[0.0, 2.0], high=[1.0, 1.0], generator=g), ValueError, "high - low must be above 0"),
    (lambda g: R.uniform(3, dtype="complex64", generator=g), TypeError, "floating point"),
    (lambda g: R.integers(5, 5, 3, generator=g), ValueError, "low must be below high"),
    (lambda g: R.integers(0, 300, 3, dtype="uint8", generator=g), ValueError, "fits in uint8"),
    (lambda g: R.integers(0, 2**64 + 1, 3, dtype="uint64", generator=g), ValueError, "fits in uint64"),
    (lambda g: R.integers(0.5, 3, generator=g), TypeError, "low must be an integer"),
    (lambda g: R.integers(0, 3, 3, dtype="float32", generator=g), TypeError, "integer dtype"),
    (lambda g: R.exponential(3, scale=-1.0, generator=g), ValueError, "scale"),
    (lambda g: R.gamma(3, a=0.0, generator=g), ValueError, "a must be above 0"),
    (lambda g: R.gamma(3, a=1.0, scale=-1.0, generator=g), ValueError, "scale"),
    (lambda g: R.dirichlet([1.0, 0.0], generator=g), ValueError, "alpha must be above 0"),
    (lambda g: R.dirichlet(1.0, generator=g), ValueError, "at least one axis"),
    (lambda g: R.poisson(3, lam=-1.0, generator=g), ValueError, "lam"),
    (lambda g: R.poisson(3, lam=[1.0, math.nan, 2.0], generator=g), ValueError, "lam"),
    (lambda g: R.poisson(3, dtype="bool", generator=g), TypeError, "counts"),
    (lambda g: R.poisson(50, lam=300.0, dtype="uint8", generator=g), ValueError, "at most 255 for the dtype uint8"),
    (lambda g: R.geometric(50, p=1e-6, dtype="int16", generator=g), ValueError, "at most 32767"),
    (lambda g: R.binomial(3, n=2.5, p=0.5, generator=g), ValueError, "whole number"),
    (lambda g: R.binomial(3, n=2, p=1.5, generator=g), ValueError, r"in \[0, 1\]"),
    (lambda g: R.bernoulli(3, p=math.nan, generator=g), ValueError, r"in \[0, 1\]"),
    (lambda g: R.bernoulli(3, p=True, generator=g), TypeError, "real number"),
    (lambda g: R.geometric(3, p=0.0, generator=g), ValueError, r"in \(0, 1\]"),
    (lambda g: R.categorical([0.5, 0.6], generator=g), ValueError, "sum to 1"),
    (lambda g: R.categorical([1.5, -0.5], generator=g), ValueError, r"in \[0, 1\]"),
    (lambda g: R.categorical([], generator=g), ValueError, "at least one element"),
    (lambda g: R.multinomial(5, [0.2, 0.3], generator=g), ValueError, "sum to 1"),
    (lambda g: R.multinomial(-5, [0.5, 0.5], generator=g), ValueError, "n must be"),
    (lambda g: R.choice(5, 6, replace=False, generator=g), ValueError, "6 different elements"),
    (lambda g: R.choice(3, 2, replace=False, p=[1.0, 0.0, 0.0], generator=g), ValueError, "positive probability"),
    (lambda g: R.choice(3, 2, p=[0.5, 0.5], generator=g), ValueError, "one for each choice"),
    (lambda g: R.choice(0, 2, generator=g), ValueError, "a must be"),
    (lambda g: R.choice(tk.ones((2, 3)), 2, axis=2, generator=g), IndexError, "axis 2"),
    (lambda g: R.permutation(-1, generator=g), ValueError, "at least 0"),
    (lambda g: R.permutation(tk.ones(()), generator=g), IndexError, "0 dimensions"),
    (lambda g: R.shuffle([1, 2], generator=g), TypeError, "must be a tensor"),
    (lambda g: R.truncated_normal(3, low=1.0, high=1.0, generator=g), ValueError, "high - low"),
    (lambda g: R.truncated_normal(3, low=math.nan, generator=g), ValueError, "NaN"),
    (lambda g: R.triangular(3, left=1.0, mode=0.0, right=2.0, generator=g), ValueError, "mode - left"),
    (lambda g: R.multivariate_normal([0.0], [[1.0, 0.0]], generator=g), ValueError, r"\(\.\.\., k, k\)"),
    (lambda g: R.multivariate_normal([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]], generator=g), ValueError, "negative eigen"),
    (lambda g: R.multivariate_normal([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]], generator=g), ValueError, "symmetric"),
    (lambda g: R.multivariate_normal([0.0, 0.0, 0.0], tk.eye(2), generator=g), ValueError, "length 2"),
    (lambda g: R.multivariate_normal([0.0], generator=g), ValueError, "either cov= or scale_tril="),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_input_leaves_the_generator_unchanged(case: int) -> None:
    call, error, words = BAD[case]
    g = Generator(7)
    R.normal(5, generator=g)
    before = _state(g)
    with pytest.raises(error, match=words):
        call(g)
    assert _state(g) == before


_DRAWS = sorted({*R.__all__} - {"Generator", "GeneratorState", "default_generator", "get_state", "seed", "set_state"})


@pytest.mark.parametrize("name", _DRAWS)
def test_unknown_arguments(name: str) -> None:
    with pytest.raises(
        tk.dispatch.errors.ArgumentError, match=rf"{name}\] has no argument 'scales': its arguments are "
    ):
        getattr(R, name)(scales=1)


def test_wrong_generators_and_states() -> None:
    with pytest.raises(TypeError, match=r"must be a tk\.random\.Generator"):
        R.normal(3, generator=np.random.default_rng(0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a state is"):
        R.set_state((1, 2))  # type: ignore[arg-type]
    g = Generator(7)
    with pytest.raises(ValueError, match="a state is"):
        g.state = (0, 0, -1)
    assert _state(g) == (7, 0, 0)


def test_reserved_gives_back_only_what_is_last() -> None:
    g = Generator(7)

    def fail(*, after: int) -> None:
        with g.reserved(10):
            g.next_key(after)
            raise KeyError

    with pytest.raises(KeyError):
        fail(after=5)
    assert g.state.offset == 15
    with pytest.raises(KeyError):
        fail(after=0)
    assert g.state.offset == 15
    assert [c.get_state() for c in Generator(7).spawn(2)] == [c.get_state() for c in Generator(7).split(2)]


@each(
    ("rule", "good", "bad"),
    [
        ("bound", [-math.inf, math.inf], [math.nan]), ("nonnegative", [0.0, 1e308], [-5e-324, math.inf]),
        ("exponent", [1.0 + 2.0**-52], [1.0]), ("below one", [0.0, 1 - 2.0**-53], [-5e-324, 1.0]),
        ("weight", [0.0, math.inf, math.nan], [-5e-324]), ("positive", [5e-324, 1e308], [0.0, math.inf]),
        ("probability", [0.0, 1.0], [-5e-324, 1 + 2.0**-52]), ("chance", [5e-324, 1.0], [0.0, 1 + 2.0**-52]),
        ("rate", [0.0, 2.0**62], [-5e-324, 2.0**62 + 2.0**11]), ("count", [0.0, 2.0**53 - 1], [-1.0, 0.5, 2.0**53]),
    ],
)  # fmt: skip
def test_the_bounds_of_parameters(rule: str, good: list[float], bad: list[float]) -> None:
    for value in (*good, *bad):
        accepted = True
        try:
            check_values("draw", "x", rule, tk.asarray([value], dtype=tk.float64))
        except ValueError:
            accepted = False
        assert accepted is (value in good or (math.isnan(value) and rule == "weight")), value
