"""result_type, can_cast, broadcast_shapes, broadcast_arrays and astype, against the standard's tables and NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._tiers import each

NAMES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


@each("second", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_result_type_within_a_kind_is_that_of_numpy(first: str, second: str) -> None:
    kinds = {np.dtype(name).kind for name in (first, second)}
    if kinds <= {"i", "u"} or kinds <= {"f", "c"}:
        assert tk.result_type(getattr(tk, first), tk.zeros(2, dtype=second)) == np.result_type(first, second)
        assert tk.can_cast(first, second) == np.can_cast(first, second, "safe")
    else:  # across kinds the later kind decides
        later = max(first, second, key=lambda name: "iufc".index(np.dtype(name).kind))
        assert tk.result_type(tk.zeros((), dtype=first), second).kind == np.dtype(later).kind


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((tk.int8, 3), "int8"), ((3, tk.ones(2)), "float32"), ((tk.uint8, 1.5), "float32"),
        ((tk.float64, 1j), "complex128"), ((tk.float32, True), "float32"), ((tk.bool, 1), "int64"),
        ((True, 2, 1.0), "float32"), ((np.float64(1), 2), "float64"), ((np.ones(2, "int16"), "int8"), "int16"),
        ((tk.float16, tk.int64), "float16"),
    ],
)  # fmt: skip
def test_result_type_with_numbers(given: tuple[Any, ...], expected: str) -> None:
    assert tk.result_type(*given) == np.dtype(expected)
    assert tk.result_type(*given[::-1]) == np.dtype(expected)


def test_result_type_is_the_dtype_of_a_sum() -> None:
    for first, second in itertools.product(NAMES, repeat=2):
        x, y = tk.zeros(1, dtype=first), tk.zeros(1, dtype=second)
        assert (x + y).dtype == tk.result_type(x, y)


def test_what_no_dtype_is() -> None:
    with pytest.raises(ValueError, match="got nothing"):
        tk.result_type()
    for wrong in (None, [1.0], "abc"):
        with pytest.raises(TypeError, match="Name one of these dtypes"):
            tk.result_type(tk.int8, wrong)
    with pytest.raises(TypeError, match="no integer dtype holds both"):
        tk.result_type(tk.uint64, tk.int8)
    assert not tk.can_cast(tk.uint64, tk.int64)
    with pytest.raises(TypeError, match="tensors hold"):
        tk.can_cast(3, tk.int8)  # a number has no dtype of its own


def test_broadcast_shapes() -> None:
    assert tk.broadcast_shapes() == ()
    assert tk.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert tk.broadcast_shapes((0, 1), (1, 4)) == (0, 4)
    for wrong in (((2,), (3,)), ((2, 0), (3,)), ((-1,),), ((2.0,),), ((None,),), ((True,),)):
        with pytest.raises(ValueError, match=r"^\[broadcast_shapes\]"):
            tk.broadcast_shapes(*wrong)


def test_broadcast_arrays() -> None:
    x, y, z = tk.asarray([[1.0], [2.0]]), tk.asarray([1, 2, 3]), tk.asarray(True)
    made = tk.broadcast_arrays(x, y, z)
    assert isinstance(made, tuple)
    for got, want, given in zip(made, np.broadcast_arrays(x.numpy(), y.numpy(), z.numpy()), (x, y, z), strict=True):
        np.testing.assert_array_equal(got.numpy(), want, strict=True)
        assert tk.shares_storage(got, given)
    assert tk.broadcast_arrays() == ()
    with pytest.raises(
        ValueError, match=r"\[broadcast_arrays\] the shapes \(2, 1\) and \(3, 3\) cannot be broadcast together"
    ):
        tk.broadcast_arrays(x, tk.ones((3, 3)))
    assert [y.tolist() for y in tk.broadcast_arrays([1, 2], 3)] == [[1, 2], [3, 3]]  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a Tensor, got str"):
        tk.broadcast_arrays(x, "text")  # type: ignore[arg-type]


def test_broadcast_arrays_is_differentiable() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    spread, _ = tk.broadcast_arrays(x, tk.zeros((3, 1)))
    spread.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


def test_astype_to_a_device() -> None:
    x = tk.ones(2)
    moved = tk.astype(x, tk.float64, device="meta")
    assert (str(moved.device), moved.dtype) == ("meta", tk.float64)
    assert tk.astype(x, tk.float32, copy=False, device="cpu") is x
    assert not tk.shares_storage(x, tk.astype(x, tk.float32, device="cpu"))
    assert tk.astype(x, tk.int8, device=x.device).tolist() == [1, 1]
    with pytest.raises(TypeError, match="imaginary part"):
        tk.astype(tk.asarray([1j]), tk.float32)
