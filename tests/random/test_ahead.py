"""Numbers computed ahead are those of their positions: Note [Numbers ahead]."""

from __future__ import annotations

import numpy as np
import pytest

from tenkey.core.random.ahead import _LONGEST, LAYOUTS, Ahead
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
