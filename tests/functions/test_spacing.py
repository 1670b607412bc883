"""``linspace`` with tensors as ends and ``arange`` of integer dtypes, against NumPy."""

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


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
@pytest.mark.parametrize(
    "ends",
    [
        (2.1, -2.9, -1.0),
        (-2.5, 3, 0.5),
        (-0.5, 3.5, 1.0),
        (0, 3, 0.5),
        (5, 0, -1),
        (5.9, 0.2, -1.3),
        (3, 1),
        (1.0, 2.5),
    ],
    ids=repr,
)
def test_arange_of_floats_in_an_integer_dtype(ends: tuple[float, ...], dtype: str) -> None:
    want = np.arange(*ends, dtype="int64")
    if dtype[0] == "u" and (want < 0).any():
        with pytest.raises(OverflowError, match=rf"\[arange\] the value -\d is out of range for {dtype}"):
            tk.arange(*ends, dtype=dtype)
        return
    found = tk.arange(*ends, dtype=dtype)
    assert (found.dtype.name, found.tolist()) == (dtype, want.tolist())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_arange_names_the_value_that_a_dtype_cannot_hold(device: str) -> None:
    text = r"\[arange\] the value -2 is out of range for uint8, which holds 0 to 255: name a wider dtype"
    with pytest.raises(OverflowError, match=text):
        tk.arange(2, -3, -1, dtype=tk.uint8, device=device)
    with pytest.raises(OverflowError, match=r"\[arange\] the value 258 is out of range"):
        tk.arange(250, 260, 2, dtype=tk.uint8, device=device)
    with pytest.raises(OverflowError, match=r"\[arange\] the value 18446744073709551616 is out of range for int64"):
        tk.arange(2**64, 2**64 + 2, device=device)
    assert tk.arange(0, -1, dtype=tk.uint8, device=device).shape == (0,)


def test_arange_of_large_integers_is_exact() -> None:
    assert tk.arange(2**64 - 1, 2**64 - 4, -2, dtype=tk.uint64).tolist() == [2**64 - 1, 2**64 - 3]
    assert tk.arange(-(2**63), 2**63, 2**62, dtype=tk.int64).tolist() == [-(2**63), -(2**62), 0, 2**62]
    assert tk.arange(0, 1000, 3, dtype="bfloat16").tolist() == tk.arange(0.0, 1000, 3).astype("bfloat16").tolist()
