"""``linspace`` with tensors as ends, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk

_RNG = np.random.default_rng(0)
ENDS: list[tuple[Any, Any]] = [
    (np.asarray(0.3), 1.7),
    (-1.0, np.asarray(2.5)),
    (_RNG.standard_normal((2, 3)), _RNG.standard_normal(3)),
    (np.asarray(1 + 2j), 4.0),
    (np.zeros((0, 2)), 1),
]


def _tensor(end: Any) -> Any:
    return tk.asarray(end) if isinstance(end, np.ndarray) else end


@pytest.mark.parametrize("endpoint", [True, False])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
@pytest.mark.parametrize(("start", "stop"), ENDS)
def test_ends_that_are_tensors(start: Any, stop: Any, num: int, endpoint: bool) -> None:
    want = np.linspace(start, stop, num, endpoint=endpoint)
    found = tk.linspace(_tensor(start), _tensor(stop), num, endpoint=endpoint)
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-15, atol=1e-15)
    if endpoint and num > 1:
        np.testing.assert_array_equal(found[-1].numpy(), want[-1])


def test_dtypes_and_devices() -> None:
    three = tk.asarray(3)
    assert tk.linspace(three, 9, 3).dtype == tk.float32
    assert tk.linspace(three, tk.asarray(9.0, dtype=tk.float64), 3).dtype == tk.float64
    assert tk.linspace(three, 8, 4, dtype=tk.int64).tolist() == np.linspace(3, 8, 4, dtype=np.int64).tolist()
    assert str(tk.linspace(three, 9, 3, device="meta").device) == "meta"


def test_gradients_reach_the_ends() -> None:
    start, stop = (tk.tensor(v, dtype=tk.float64, requires_grad=True) for v in (1.0, 4.0))
    weights = np.asarray([1.0, 10.0, 100.0, 1000.0])
    (tk.linspace(start, stop, 4) * weights).sum().backward()
    share = np.arange(4) / 3
    assert start.grad is not None
    assert stop.grad is not None
    np.testing.assert_allclose(start.grad.item(), weights @ (1 - share))
    np.testing.assert_allclose(stop.grad.item(), weights @ share)


def test_wrong_ends() -> None:
    one = tk.asarray(1.0)
    cases: list[tuple[Any, type[Exception], str]] = [
        (lambda: tk.linspace(one, 2, -1), ValueError, r"\[linspace\] num .* got -1"),
        (lambda: tk.linspace(one, "a", 3), TypeError, r"\[linspace\] start and stop"),
        (lambda: tk.linspace(tk.asarray(1j), 2, 3, dtype=tk.float32), TypeError, r"\[linspace\].*tk.real"),
        (lambda: tk.linspace(one, 2, 2.5), TypeError, "integer"),
        (lambda: tk.linspace(tk.ones(2), tk.ones(3), 3), ValueError, r"shapes \(3,\) and \(2,\)"),
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()
