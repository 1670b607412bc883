"""Note [Elements are copies]: what an index selects as one element does not change when the array does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey.numpy as tnp
from tests._tiers import each

SELECTIONS: dict[str, Callable[[Any], Any]] = {
    "int": lambda a: a[0],
    "negative": lambda a: a[-3],
    "tuple": lambda a: a.reshape(1, 3)[0, 0],
    "NumPy's integer": lambda a: a[np.int64(0)],
    "iteration": lambda a: next(iter(a)),
    "of a view": lambda a: a[:2][0],
}


def exchange(a: Any) -> None:
    kept = a[0]
    a[0] = a[1]
    a[1] = kept


@pytest.mark.parametrize("dtype", ["f8", "i4", "?", "c16"])
def test_two_elements_are_exchanged(dtype: str) -> None:
    a, b = tnp.array([0, 1, 1], dtype=dtype), np.array([0, 1, 1], dtype=dtype)
    for _ in range(3):
        exchange(a)
        exchange(b)
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("traced", [False, True])
def test_elements_do_not_change(name: str, traced: bool) -> None:
    for _ in range(2):
        a = tnp.array([1.0, 2.0, 3.0])
        if traced:
            a = tnp.array([1.0, 2.0, 3.0]).requires_grad_() * 1.0
        element = SELECTIONS[name](a)
        a[...] = 7.0
        assert type(element) is (tnp.ndarray if traced else np.float64)
        assert float(element) == 1.0


def test_views_of_no_dimension_do() -> None:
    a, b = tnp.array([1.0, 2.0]), np.array([1.0, 2.0])
    for _ in range(2):
        for x in (a, b):
            view = x[0, ...]
            view[...] += 1
        assert a.tolist() == b.tolist()


def test_gradients_of_elements() -> None:
    """The slope of ``a[0] * a[1]``, whose elements are copies of what is recorded."""
    a = tnp.array([3.0, 5.0, 7.0]).requires_grad_()
    (a[0] * a[1] + sum(a)).backward()
    assert a.grad.tolist() == [6.0, 4.0, 1.0]


class _Index:
    def __index__(self) -> int:
        return 1


@each("dtype", ["f4", "f8", "c16", "i8", "u1", "?"])
@each(
    ("index", "value"),
    [
        (0, [1.5]), (-1, (1,)), ((1, 1), [1]), ((slice(None), 0), [[1, 2]]), (np.int64(0), [[1, 1]]), (0, []),
        (0, [1, 1]), ((0, ...), [1]), ((0, None), [[1, 2]]), ([0, 1], [[1, 2]]), ((0, [0, 1]), [[1, 2]]),
        (slice(None), [[1, 2]]), (0, (1, 2)), (..., [[[1, 2]]]),
        (np.array(0), [1]), ((1, np.array(1)), [1, 2]), (0, [0]), ((1, 1), [[]]), (_Index(), [1, 2]),
        (..., np.ones((1, 1, 2, 2))), (slice(0, 0), np.ones((2, 0))), (slice(0, 0), np.ones((2, 0, 2))),
    ],
)  # fmt: skip
def test_sequences_in_the_place_of_elements(dtype: str, index: Any, value: Any) -> None:
    """Those that are deeper than what the index selects are refused, as by NumPy; an element that is a bool takes
    the truth of any object."""
    for shape in ((2,), (2, 2)):
        arrays = np.zeros(shape, dtype), tnp.zeros(shape, dtype)
        errors = []
        for array in arrays:
            try:
                array[index] = value
            except (ValueError, TypeError, IndexError) as error:
                errors.append(error)
        assert len(errors) in (0, 2)
        assert not errors or isinstance(errors[1], type(errors[0]))
        np.testing.assert_array_equal(*arrays)
