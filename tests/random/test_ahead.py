"""Numbers computed ahead or one by one are those of their positions: Note [Numbers ahead]."""

from __future__ import annotations

import numpy as np
import pytest

from tenkey.core.random import samplers
from tenkey.core.random.ahead import _LONGEST, LAYOUTS, Ahead
from tenkey.core.random.one_number import exp_of_one, log1p_of_one, rejection_of_one
from tenkey.core.random.philox import ELEMENT_LIMIT


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_order_of_draws_gives_the_numbers_of_the_positions(kind: str) -> None:
    keys = ((7, 0), (7, 3))
    whole = {key: LAYOUTS[kind](key, 3 * _LONGEST, 0) for key in keys}
    numbers = Ahead(kind)
    rng = np.random.default_rng(0)
    start = 0
    for _ in range(300):
        if rng.random() < 0.05:  # another draw, of another layout, or a state that was set
            start = int(rng.integers(0, 2 * _LONGEST))
        key = keys[int(rng.random() < 0.05)]
        count = int(rng.choice([0, 1, 1, 1, 3, 20, 300]))
        taken = numbers.take(key, start, count)
        assert taken.tolist() == whole[key][start : start + count].tolist()
        start = (start + count) % (2 * _LONGEST)


def test_runs_grow_where_draws_follow_one_another() -> None:
    numbers = Ahead("words")
    lengths = set()
    for start in range(_LONGEST):
        numbers.take((1, 0), start, 1)
        lengths.add(numbers._run[2].size)
    assert lengths == {1, 4, 16, 64, 256, 1024, _LONGEST}
    numbers.take((1, 0), 10 * _LONGEST, 2)
    assert numbers._run[2].size == 2


def test_the_end_of_a_stream() -> None:
    numbers = Ahead("normal")
    for start in range(ELEMENT_LIMIT - 9, ELEMENT_LIMIT):
        assert numbers.take((1, 0), start, 1).size == 1


ONE: dict[str, list[tuple[float, ...]]] = {
    "gamma": [(0.05,), (1.0,), (1e6,)], "log_gamma": [(0.001,), (3.0,)], "standard_t": [(0.5,), (30.0,)],
    "poisson": [(0.0,), (9.99,), (10.0,), (40.0,), (2.0**60,)], "truncated_normal": [(-1.0, 1.0), (2.0, 3.0)],
    "binomial": [(0, 0.5), (5, 0.0), (5, 1.0), (10, 0.3), (1000, 0.3), (10**6, 0.999), (10**9, 0.5)],
    "vonmises": [(0.0,), (0.3,), (1e6,)], "zipf": [(1.01,), (2.0,), (2000.0,)],
    "logseries": [(0.0,), (1e-20,), (0.5,), (0.999,)],
    "hypergeometric": [(0, 4, 3), (5, 0, 2), (5, 5, 5), (70, 50, 100), (10**6, 10**5, 10**4), (0, 0, 0)],
}  # fmt: skip


@pytest.mark.parametrize("kind", samplers.REJECTION)
def test_one_number_is_that_of_an_array(kind: str) -> None:
    key = (2**64 - 9, 2**63 + 1)
    places = np.zeros((40, 2), np.uint64)
    places[:, 0], places[:, 1] = np.arange(40) * 64 + 7, key[1]
    for given in ONE[kind]:
        full = [float(p) for p in (*given, *(0.0,) * (2 - len(given)))]
        first, second, *more = (np.asarray(p) for p in full)
        want = samplers.rejection(kind, first, second, places, key[0], *more).tolist()
        assert [rejection_of_one(kind, key, i * 64 + 7, *full) for i in range(40)] == want


def test_exact_functions_of_one_number() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-760, 720, 1000), rng.uniform(-2, 2, 1000), [0.0, -0.0, 1e-300, np.inf, -np.inf]])
    assert [exp_of_one(float(v)) for v in x] == samplers.exact_exp(x).tolist()
    assert np.isnan(exp_of_one(np.nan))
    y = np.concatenate(
        [10.0 ** np.arange(-300, 300, 7.0), -(10.0 ** np.arange(-300, 0, 7.0)), rng.uniform(-1, 3, 1000)]
    )
    assert [log1p_of_one(float(v)) for v in (*y, -1.0)] == [*samplers.exact_log1p(y).tolist(), -np.inf]
    assert np.isnan(log1p_of_one(-2.0))
