"""``x[index]`` and ``x[index] = value`` on a device without kernels of its own for them: by gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tests._reference_device import Reference
from tests._tiers import Failures
from tests.backends.test_reference_device import fallbacks
from tests.ops.test_assignment import INDICES, at

_MORE: Final[list[Any]] = [
    ([0, -1, 0], [1, -1, 1]), (slice(None), None, [2, 2]), ([[0], [3]], None, [0, 1, 2]), np.array(2),
    (np.array(1), [0, 1]), np.array([3, 0], np.uint8), np.zeros((4, 3), bool), np.ones((4, 3), bool),
    (np.array([True, False, True, True]), [0, 1, 2]),
]  # fmt: skip
_CUBE: Final[list[Any]] = [
    ([0, 1], slice(None), [1, 0]), (slice(None), [[0], [1]], [0, 2]), (0, slice(None), [1, 0]),
    ([1, 0], slice(1, None)), (slice(None), np.array([[True, False, True], [False, True, False]])),
    (..., [0, 2], slice(None), [1]), (slice(None, None, -1), [1, 0], [0, 1]),
    (np.array([True, False]), slice(None), [0, 1]),
]  # fmt: skip
_LAYOUTS: Final[list[Callable[[Any], Any]]] = [
    lambda x: x,
    lambda x: x.T,
    lambda x: x[..., ::2],
    lambda x: x[1:, ...],
]  # each keeps two dimensions, and shares memory with its argument


@pytest.fixture
def device() -> Iterator[str]:
    with tk.backends.register(Reference()):
        yield "reference"
        assert not fallbacks("reference")


def cases() -> Iterator[tuple[Any, Any]]:
    for index in [*INDICES, *_MORE]:
        yield np.arange(12.0).reshape(4, 3), index
    for index in _CUBE:
        shape = (2, 3, 4, 2) if index[0] is ... else (2, 2, 3)
        yield np.arange(float(np.prod(shape))).reshape(shape), index


def _fitting(shape: tuple[int, ...], index: Any) -> bool:
    try:
        np.empty(shape)[index]
    except IndexError:
        return False
    return True


def test_selection_and_its_gradient(device: str) -> None:
    failures = Failures()
    for start, index in cases():
        if not _fitting(start.shape, index):
            continue
        with failures.of(f"{start.shape}[{index}]"):
            x = tk.tensor(start, device=device, requires_grad=True)
            found = x[at(index)]
            np.testing.assert_array_equal(found.detach().numpy(), start[index])
            weights = np.arange(float(found.size)).reshape(found.shape) + 1
            tk.sum(found * tk.asarray(weights, device=device)).backward()
            want = np.zeros_like(start)
            np.add.at(want, index, weights)
            assert x.grad is not None
            np.testing.assert_array_equal(x.grad.numpy(), want)
    failures.check()


def test_assignment_in_each_layout(device: str) -> None:
    failures = Failures()
    for dtype in (np.float32, np.int8, np.complex64, np.bool_):
        for layout in _LAYOUTS:
            whole = (np.arange(30).reshape(5, 6) % 7).astype(dtype)
            shape = layout(whole).shape
            for index in [*INDICES, *_MORE]:
                if not _fitting(shape, index):
                    continue
                with failures.of(f"{np.dtype(dtype)} {shape}[{index}]"):
                    want = whole.copy()
                    base = tk.asarray(whole, device=device)
                    selected = layout(want)[index]
                    value = np.arange(20, 20 + selected.size).reshape(selected.shape).astype(dtype)
                    layout(want)[index] = value
                    layout(base)[at(index)] = tk.asarray(value, device=device)
                    np.testing.assert_array_equal(base.numpy(), want)
    failures.check()


def test_the_last_of_several_values_is_kept_and_gets_the_gradient(device: str) -> None:
    x = tk.tensor([0.0, 0.0, 0.0], device=device, requires_grad=True)
    values = tk.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    y = x * 1
    y[tk.asarray([1, 1, 0], device=device)] = values
    tk.sum(y * tk.asarray([5.0, 7.0, 9.0], device=device)).backward()
    assert y.detach().numpy().tolist() == [3.0, 2.0, 0.0]
    assert x.grad is not None
    assert values.grad is not None
    assert x.grad.numpy().tolist() == [0.0, 0.0, 9.0]
    assert values.grad.numpy().tolist() == [0.0, 7.0, 5.0]


def test_indices_may_be_on_the_cpu(device: str) -> None:
    x = tk.tensor(np.arange(12.0).reshape(4, 3), device=device, requires_grad=True)
    places = tk.asarray([3, 0])
    found = x[places]
    assert found.device is x.device
    tk.sum(found).backward()
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [[1.0] * 3, [0.0] * 3, [0.0] * 3, [1.0] * 3]
    y = tk.zeros(4, device=device)
    y[places] = 1
    y[tk.asarray([False, True, True, False])] = tk.asarray([5.0, 6.0], device=device)
    assert y.numpy().tolist() == [1.0, 5.0, 6.0, 1.0]
    with pytest.raises(RuntimeError, match="different devices"):
        tk.zeros(4)[tk.asarray([1], device=device)]


def test_a_value_that_shares_memory_is_read_first(device: str) -> None:
    x = tk.arange(6, device=device)
    x[tk.asarray([1, 2, 3, 4, 5])] = x[:5]
    assert x.numpy().tolist() == [0, 0, 1, 2, 3, 4]
    x[x] = x
    y = np.array([0, 0, 1, 2, 3, 4])
    y[y] = y.copy()
    assert x.numpy().tolist() == y.tolist()


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ([4], IndexError),
        ([-5], IndexError),
        (([0], [3]), IndexError),
        (([0], [-4]), IndexError),
        (([3], [4]), IndexError),  # the joined index alone would not tell
        (np.ones((4, 2), bool), IndexError),
        (([0, 1], [0, 1, 2]), IndexError),
        (([0], [0], [0]), IndexError),
    ],
)
def test_an_index_that_does_not_fit(index: Any, error: type[Exception], device: str) -> None:
    x = tk.zeros((4, 3), device=device)
    with pytest.raises(error, match=r"\[index"):
        x[at(index)]
    with pytest.raises(error, match=r"\[index"):
        x[at(index)] = 1.0
    assert float(x.sum()) == 0
    with pytest.raises(IndexError, match=r"\[take_along_axis\]"):
        tk.take_along_axis(x, tk.asarray([[4]], device=device), axis=0)
    with pytest.raises(IndexError, match=r"\[scatter_add\]"):
        tk.scatter_add(x, tk.asarray([[-5]], device=device), tk.ones((1, 1), device=device), axis=0)


def test_a_value_that_does_not_fit(device: str) -> None:
    x = tk.zeros((4, 3), device=device)
    mask = tk.asarray([True, False, True, True], device=device)
    with pytest.raises(ValueError, match="where a mask selects the shape"):
        x[mask] = tk.ones((2, 3), device=device)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        x[[0, 1]] = tk.ones((3, 3), device=device)
    with pytest.raises(TypeError, match="complex"):
        x[[0, 1]] = 1j
    whole: Tensor = tk.zeros(3, dtype=tk.int64, device=device)
    with pytest.raises((TypeError, ValueError)):
        whole[[0, 1]] = float("nan")
    whole[[0, 1]] = 2.7
    assert whole.numpy().tolist() == [2, 2, 0]
