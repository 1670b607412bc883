"""``x[index]`` and ``x[index] = v`` beside NumPy: single indices of every kind, and combinations of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tenkey as tk

SHAPES = ((2, 3, 4), (3,), (), (0, 3))
GOOD: list[Any] = [
    0, -1, np.int64(1), np.int8(-1), np.uint8(1), np.array(1), np.array(-1), True, False, np.True_, np.False_,
    np.array(True), None, np.newaxis, Ellipsis, slice(None), slice(1, None), slice(None, None, -1), slice(-1, None, -2),
    slice(np.int64(0), np.int64(2)), slice(np.array(0), None), slice(5, 1), slice(-100, 100), slice(None, None, 2),
    [0, 1], [1, -1, 0], [], [[0, 1], [1, 0]], [np.int64(0), 1], [True, False], [True, False, True], range(2),
    range(1, -1, -1), range(0), np.array([0, 1]), np.array([0, 1], dtype=np.uint8), np.array([0, 1])[::-1],
    np.array([[0], [1]]), np.array([[True, False, True]] * 2), np.array([], dtype=int), np.zeros(0, bool),
]  # fmt: skip
OTHERS: list[Any] = [
    (), (0, 1), ((0, 1), (1, 0)), [[]], [range(2)], [(0, 1)], [np.array([0, 1]), np.array([1, 0])], [True, 0],
    [False] * 4, 7, [7], -9, 1.0, "a", ["a"], [1.5], np.array([1.0]), [[0, 1], [0]], [None], [slice(None)], [Ellipsis],
]  # fmt: skip


def _combinations(count: int, seed: int) -> list[tuple[Any, ...]]:
    rng = random.Random(seed)
    return [tuple([rng.choice(GOOD) for _ in range(rng.choice([1, 2, 2, 3, 3, 4]))]) for _ in range(count)]


def _outcome(call: Any) -> tuple[Any, type[Exception] | None]:
    try:
        return call(), None
    except Exception as error:
        return None, type(error)


def _compare(shape: tuple[int, ...], index: Any) -> str | None:
    """Return how the two libraries differ, or None."""
    values = np.arange(np.prod(shape, dtype=int), dtype=float).reshape(shape)
    want, refused = _outcome(lambda: values[index])
    got, error = _outcome(lambda: tk.asarray(values.copy())[index])
    if refused is not None:
        return None if error is not None and issubclass(error, refused) else f"{refused} expected, got {error}"
    if error is not None or got.shape != np.shape(want) or not np.array_equal(got.numpy(), want):
        return f"{error or got} instead of {want}"
    for value in (7.0, np.arange(100.0, 100 + np.size(want)).reshape(np.shape(want))):
        expected, tensor = values.copy(), tk.asarray(values.copy())
        expected[index] = value
        tensor[index] = value
        if not np.array_equal(tensor.numpy(), expected):
            return f"assigned {tensor} instead of {expected}"
    return None


def _differences(cases: list[tuple[tuple[int, ...], Any]]) -> list[str]:
    found = [(shape, index, _compare(shape, index)) for shape, index in cases]
    return [f"{shape} {index!r}: {text}" for shape, index, text in found if text is not None]


def test_single_indices() -> None:
    assert _differences([(shape, index) for index in (*GOOD, *OTHERS) for shape in SHAPES]) == []


@pytest.mark.parametrize("seed", range(2))
def test_combinations(seed: int) -> None:
    assert _differences([((2, 3, 4), index) for index in _combinations(200, seed)]) == []


def test_the_comparison_notices_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    right = tk.Tensor.__getitem__
    monkeypatch.setattr(tk.Tensor, "__getitem__", lambda x, index: right(x, 0 if index is True else index))
    assert _compare((3,), True) is not None
    assert _compare((3,), 1) is None


def test_values_that_are_sequences_keep_gradients() -> None:
    t = tk.tensor([1.0, 2.0], requires_grad=True)
    x = tk.zeros((2, 3))
    x[0, :2] = [t[1], t[0] * 3]
    x[1] = range(3)
    x[1, [tk.asarray(0), 2]] = t
    assert x.tolist() == [[2, 3, 0], [1, 1, 2]]
    x.sum().backward()
    assert t.grad is not None
    assert t.grad.tolist() == [4.0, 2.0]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 3)])
@pytest.mark.parametrize("index", [np.s_[..., [0]], np.s_[:, [5]], [0], ([0], [0]), ([], [9]), np.s_[:, [[-4]]]])
def test_indices_of_empty_tensors_are_in_range(shape: tuple[int, ...], index: Any) -> None:
    for _ in range(2):
        try:
            expected = np.ones(shape)[index]
        except IndexError:
            with pytest.raises(IndexError):
                tk.ones(shape)[index]
        else:
            assert tk.ones(shape)[index].shape == expected.shape
