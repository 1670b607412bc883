"""The Tensor itself: conversion to Python and NumPy, memory, weak scalars, copies, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import re
import time
import weakref
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.lift import weak_tensor
from tenkey.core.tensor import Tensor, storage_of
from tenkey.core.word import DTYPE_MASK, INHERITED, REQUIRES_GRAD, WEAK_MASK

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128")  # fmt: skip


# ---- what it is


def test_properties() -> None:
    x = tk.zeros((2, 3), dtype="float64")
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes, x.strides) == ((2, 3), 2, 6, 8, 48, (3, 1))
    assert x.dtype == np.dtype("float64")
    assert isinstance(x.dtype, np.dtype)
    assert str(x.device) == "cpu"
    assert x.is_contiguous


def test_strides_are_in_elements() -> None:
    x = tk.asarray(np.zeros((4, 6), np.int16)[::2, 1::3])
    assert (x.shape, x.strides, x.is_contiguous) == ((2, 2), (12, 3), False)
    assert tk.permute_dims(tk.zeros((2, 3)), (1, 0)).strides == (1, 3)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1, 1), (), (2, 1, 3)])
@pytest.mark.parametrize("dtype", ["int8", "complex128"])
def test_new_tensors_are_contiguous(shape: tuple[int, ...], dtype: str) -> None:
    assert tk.zeros(shape, dtype=dtype).is_contiguous


def test_the_class_makes_no_tensor() -> None:
    with pytest.raises(TypeError, match=r"a Tensor is made by tk.tensor\(data\), tk.asarray\(data\) or a creation"):
        Tensor([1.0])


# ---- to Python


@pytest.mark.parametrize(("value", "kind"), [(True, bool), (3, int), (2.5, float), (1 + 2j, complex)])
def test_item(value: Any, kind: type) -> None:
    for x in (tk.asarray(value), tk.asarray([[value]])):
        assert x.item() == value
        assert type(x.item()) is kind
    assert tk.asarray([value, value]).tolist() == [value, value]
    assert type(tk.asarray([value]).tolist()[0]) is kind


def test_conversions() -> None:
    assert float(tk.asarray([1.5])) == 1.5
    assert int(tk.asarray(2.9)) == 2
    assert complex(tk.asarray(2.0)) == 2 + 0j
    assert bool(tk.asarray([[0.5]])) is True
    assert bool(tk.asarray(0)) is False
    assert [10, 20, 30][tk.asarray(1)] == 20
    assert len(tk.zeros((3, 2))) == 3
    assert [row.tolist() for row in tk.asarray([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert list(tk.zeros((0, 2))) == []
    assert f"{tk.asarray(1.23456):.2f}" == "1.23"
    assert f"{tk.asarray([1])}" == repr(tk.asarray([1]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tk.zeros(2).item(), ValueError,
         "[item] only a tensor of one element converts to a Python scalar, got shape (2,): index it first."),
        (lambda: float(tk.zeros((0,))), ValueError,
         "[item] only a tensor of one element converts to a Python scalar, got shape (0,): index it first."),
        (lambda: bool(tk.zeros(2)), ValueError,
         "[bool] the truth of a tensor with shape (2,) is ambiguous: use tk.any(x) or tk.all(x), or index one"),
        (lambda: bool(tk.zeros(0)), ValueError,
         "[bool] the truth of a tensor with shape (0,) is ambiguous: use tk.any(x) or tk.all(x), or index one"),
        (lambda: len(tk.zeros(())), TypeError, "[len] a 0-d tensor has no length; its value is x.item()."),
        (lambda: iter(tk.zeros(())), TypeError, "[iter] a 0-d tensor cannot be iterated over."),
        (lambda: range(tk.asarray(1.0)), TypeError,
         "[index] only a 0-d tensor of integers converts to an index, got shape (), dtype float32."),
        (lambda: range(tk.asarray([1])), TypeError,
         "[index] only a 0-d tensor of integers converts to an index, got shape (1,), dtype int64."),
        (lambda: tk.tensor([1.0], requires_grad=True).numpy(), RuntimeError,
         "[numpy] Can't call numpy() on Tensor that requires grad, which NumPy would lose: call x.detach()"),
        (lambda: np.asarray(tk.tensor([1.0], requires_grad=True)), RuntimeError,
         "[__array__] Can't call numpy() on Tensor that requires grad, which NumPy would lose: call x.detach()"),
        (lambda: tk.zeros(2, device="meta").tolist(), RuntimeError,
         "[tolist] a tensor on the device 'meta' has no values: make it on another device."),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(text)


# ---- NumPy


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_with_numpy(dtype: str) -> None:
    array = np.ones((2, 3), dtype)
    x = tk.asarray(array)
    assert x.dtype == array.dtype
    assert np.shares_memory(x.numpy(), array)
    array[0, 0] = 0
    assert x[0, 0].item() == 0
    x[1, 1] = 0
    assert array[1, 1] == 0
    assert not np.shares_memory(tk.tensor(array).numpy(), array)


def test_array_protocol() -> None:
    x = tk.asarray([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    assert np.sum(x.numpy()) == 3.0


def test_numpy_operands_on_either_side() -> None:
    x = tk.asarray([1.0, 2.0, 3.0])
    ones = np.ones(3, np.float32)
    for made in (ones + x, x + ones, np.float32(1) + x, x + np.float32(1)):
        assert isinstance(made, Tensor)
        assert made.dtype == np.float32
        assert made.tolist() == [2.0, 3.0, 4.0]
    assert (np.full(3, 6.0, np.float32) / x).tolist() == [6.0, 3.0, 2.0]
    assert (ones < x).tolist() == [False, True, True]
    assert (np.ones((2, 3), np.float32) @ x).tolist() == [6.0, 6.0]
    assert (np.ones(3) + x).dtype == np.float64  # an array has a dtype that counts


@pytest.mark.parametrize(
    ("operation", "left", "right"),
    [
        (lambda a, b: a + b, [5, 7, 9], [5, 7, 9]), (lambda a, b: a - b, [3, 3, 3], [-3, -3, -3]),
        (lambda a, b: a * b, [4, 10, 18], [4, 10, 18]), (lambda a, b: a // b, [4, 2, 2], [0, 0, 0]),
        (lambda a, b: a % b, [0, 1, 0], [1, 2, 3]), (lambda a, b: a**b, [4, 25, 216], [1, 32, 729]),
        (lambda a, b: a / b, [4.0, 2.5, 2.0], [0.25, 0.4, 0.5]),
        (lambda a, b: a < b, [False] * 3, [True] * 3), (lambda a, b: a >= b, [True] * 3, [False] * 3),
        (lambda a, b: a == b, [False] * 3, [False] * 3), (lambda a, b: a != b, [True] * 3, [True] * 3),
    ],
)  # fmt: skip
def test_binary_and_reflected_operators(operation: Any, left: list[Any], right: list[Any]) -> None:
    x, y = np.array([4, 5, 6]), np.array([1, 2, 3])
    for a, b in ((tk.asarray(x), tk.asarray(y)), (x, tk.asarray(y)), (tk.asarray(x), y)):
        np.testing.assert_allclose(operation(a, b).numpy(), left, rtol=1e-6)
        np.testing.assert_allclose(operation(b, a).numpy(), right, rtol=1e-6)


def test_reflected_operators_with_python_numbers() -> None:
    x = tk.asarray([1.0, 2.0, 4.0])
    assert (1 - x).tolist() == [0.0, -1.0, -3.0]
    assert (8 / x).tolist() == [8.0, 4.0, 2.0]
    assert (2**x).tolist() == [2.0, 4.0, 16.0]
    assert (7 // x).tolist() == [7.0, 3.0, 1.0]
    assert (7 % x).tolist() == [0.0, 1.0, 3.0]
    assert (3 < x).tolist() == [False, False, True]  # noqa: SIM300 (the reflected comparison is what is tested)
    assert (-x).tolist() == [-1.0, -2.0, -4.0]
    assert abs(-x).tolist() == x.tolist()
    mask = x > 1
    assert (~mask & True).tolist() == [True, False, False]
    assert (mask | (x == 1)).tolist() == [True, True, True]


def test_foreign_operands_are_asked() -> None:
    class Foreign:
        def __radd__(self, other: Any) -> str:
            return "mine"

        def __eq__(self, other: object) -> Any:
            return "equal"

        __hash__ = None  # type: ignore[assignment]

    assert tk.ones(2) + Foreign() == "mine"
    assert (tk.ones(2) == Foreign()) == "equal"
    with pytest.raises(TypeError, match="unsupported operand type"):
        tk.ones(2) - Foreign()
    with pytest.raises(TypeError, match="unsupported operand type"):
        None * tk.ones(2)


# ---- weak scalars


@pytest.mark.parametrize(
    ("dtype", "scalar", "result"),
    [
        ("uint8", 1, "uint8"), ("int8", True, "int8"), ("int8", 1.5, "float32"), ("int64", 1.5, "float32"),
        ("float16", 1.5, "float16"), ("float64", 1, "float64"), ("float32", 1j, "complex64"),
        ("float64", 1j, "complex128"), ("bool", 1, "int64"), ("bool", 1.5, "float32"), ("bool", True, "bool"),
        ("complex64", 2.5, "complex64"), ("float32", 1e300, "float32"),
    ],
)  # fmt: skip
def test_weak_scalars(dtype: str, scalar: Any, result: str) -> None:
    """Note [Weak scalars]: a Python number chooses the kind of the result, never the precision."""
    x = tk.ones(3, dtype=dtype)
    for made in (x + scalar, scalar + x, tk.add(x, scalar), tk.where(tk.asarray([True] * 3), x, scalar)):
        assert made.dtype == np.dtype(result)
    assert (x + scalar).device is x.device
    two = tk.asarray(scalar)  # as a tensor of its own it has a dtype
    assert (x + two).dtype == tk.add(x, tk.zeros((), dtype=two.dtype)).dtype


def test_numpy_scalars_are_weak_too() -> None:
    x = tk.ones(3, dtype="float32")
    assert (x + np.float64(1.5)).dtype == np.float32
    assert (np.float64(1.5) * x).dtype == np.float32
    assert (tk.ones(3, dtype="int8") + np.int64(1)).dtype == np.int8


def test_numbers_alone_become_tensors_of_the_default_dtypes() -> None:
    found = tk.add(1, 2.0)
    assert (found.item(), found.dtype, found.shape) == (3.0, tk.float32, ())
    assert tk.add(1, 2).dtype == tk.int64
    assert tk.sin(np.float64(1.0)).dtype == tk.float64


def test_python_ints_that_are_too_large() -> None:
    assert (tk.zeros(1, dtype="float32") + 2**63).tolist() == [float(2**63)]
    assert (tk.zeros(1, dtype="uint64") + (2**64 - 1)).tolist() == [2**64 - 1]
    assert (tk.zeros(1) + 2**70).tolist() == [float(2**70)]
    with pytest.raises(OverflowError) as caught:
        tk.ones(1, dtype="int64") + 2**64
    assert "does not fit into int64" in str(caught.value)
    assert str(2**64) in str(caught.value)


@pytest.mark.parametrize(("dtype", "scalar"), [("uint8", 256), ("uint8", -1), ("int8", 128), ("int64", 2**63)])
def test_python_ints_that_do_not_fit_the_dtype(dtype: str, scalar: int) -> None:
    x = tk.ones(2, dtype=dtype)
    with pytest.raises(OverflowError, match=re.escape(str(scalar))):
        x + scalar
    with pytest.raises(OverflowError, match=re.escape(str(scalar))):
        x[0] = scalar
    assert x.tolist() == [1, 1]


# ---- asarray and tensor


def test_default_dtypes() -> None:
    assert tk.asarray([1.0]).dtype == np.float32
    assert tk.asarray([1]).dtype == np.int64
    assert tk.asarray([1j]).dtype == np.complex64
    assert tk.asarray([True]).dtype == np.bool_
    assert tk.asarray([]).dtype == np.float32
    assert tk.asarray([1, 2.5]).dtype == np.float32
    assert tk.asarray(np.float64(1)).dtype == np.float64
    assert tk.asarray(np.ones(1, ">f8")).dtype == np.dtype("float64")
    assert tk.asarray(np.ones(1, ">f8")).tolist() == [1.0]


def test_scalars_of_numpy_in_sequences() -> None:
    """As an array of one element, they keep their dtype; Python's numbers beside them have none of their own."""
    assert tk.asarray([np.float64(1 / 3)]).item() == 1 / 3
    assert tk.asarray([[np.int32(1)], [np.int32(2)]]).dtype == np.int32
    assert tk.asarray((np.int8(1), np.int16(2))).dtype == np.int16
    assert tk.asarray([1.0, np.float64(0.1), 2]).tolist() == [1.0, 0.1, 2.0]
    assert tk.asarray([np.float32(1), 1j]).dtype == np.complex64
    assert tk.asarray([np.bool_(True), False]).dtype == np.bool_
    assert tk.asarray([np.float64(1)], dtype=tk.float32).dtype == np.float32
    assert tk.asarray([np.ones(2, np.float32), [np.float64(1), 2]]).dtype == np.float64
    assert tk.asarray([np.uint64(2**63 + 1), 5]).tolist() == [2**63 + 1, 5]
    for narrow in (np.int8(1), np.array(1, np.int8), tk.asarray(1, dtype=tk.int8)):
        assert tk.asarray([narrow, 100]).dtype == np.int8
        with pytest.raises(OverflowError, match=r"\[asarray\] Python integer 1000 out of bounds for int8: the arrays"):
            tk.asarray([narrow, 1000])
    with pytest.raises(ValueError, match=r"copy=False"):
        tk.asarray([np.int8(1)], copy=False)


def test_nested_sequences_of_tensors() -> None:
    x = tk.asarray([1.0, 2.0])
    assert tk.asarray([x, x]).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert tk.asarray([x[0], 5.0]).tolist() == [1.0, 5.0]
    assert tk.asarray(range(3)).tolist() == [0, 1, 2]
    assert tk.asarray((1, (2))).tolist() == [1, 2]


def test_copies() -> None:
    array = np.ones(3)
    x = tk.asarray(array)
    assert tk.asarray(x) is x
    assert tk.asarray(x, copy=False) is x
    assert tk.asarray(x, dtype="float64", copy=False) is x
    assert not tk.shares_storage(tk.asarray(x, copy=True), x)
    assert tk.asarray(x, dtype="float32").dtype == np.float32
    assert np.shares_memory(tk.asarray(array, copy=False).numpy(), array)
    for made in (tk.tensor(x), tk.tensor(array), tk.asarray(array, copy=True)):
        made[0] = 7
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_what_cannot_be_shared_is_copied() -> None:
    backwards = np.arange(3.0)[::-1]
    x = tk.asarray(backwards)
    assert x.tolist() == [2.0, 1.0, 0.0]
    assert min(x.strides) > 0
    frozen = np.ones(2)
    frozen.flags.writeable = False
    y = tk.asarray(frozen)
    y[0] = 5
    assert frozen.tolist() == [1.0, 1.0]
    field = np.zeros(2, [("a", "f4"), ("b", "i1")])["a"]
    assert tk.asarray(field).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tk.asarray([[1, 2], [3]]), ValueError, "[asarray] the nested sequence has rows of different lengths"),
        (lambda: tk.asarray("abc"), TypeError,
         "[asarray] cannot make a tensor of 'abc' with dtype <U3: give numbers or bools."),
        (lambda: tk.asarray([object()]), TypeError, "[asarray] cannot make a tensor of [<object"),
        (lambda: tk.asarray(None), TypeError, "[asarray] cannot make a tensor of None with dtype object: give numbers"),
        (lambda: tk.asarray(["a" * 500]), TypeError, "..."),
        (lambda: tk.asarray([1.0], dtype="float31"), TypeError, "[dtype] got 'float31': tensors hold bool, int8"),
        (lambda: tk.asarray([1.0], device="gpu"), ValueError, "unknown device 'gpu': known device types are cpu, meta"),
        (lambda: tk.asarray([1.0], copy=False), ValueError,
         "[asarray] copy=False, but making a tensor of a list needs a copy."),
        (lambda: tk.asarray(np.ones(2), dtype="float32", copy=False), ValueError,
         "[asarray] copy=False, but making a tensor of a ndarray needs a copy."),
        (lambda: tk.asarray(np.ones(2)[::-1], copy=False), ValueError, "[asarray] copy=False"),
        (lambda: tk.asarray(tk.ones(2), dtype="int8", copy=False), ValueError,
         "[asarray] copy=False, but another dtype or device needs a copy."),
        (lambda: tk.asarray(np.ones(2), device="meta", copy=False), ValueError,
         "[asarray] copy=False, but moving to meta needs a copy."),
        (lambda: tk.tensor([1], requires_grad=True), RuntimeError,
         "[tensor] only Tensors of floating point and complex dtype can require gradients, got int64"),
        (lambda: tk.asarray(2**64), (OverflowError, TypeError), str(2**64)),
        (lambda: tk.asarray([300], dtype="uint8"), OverflowError, "300"),
        (lambda: tk.asarray([1j], dtype="float32"), TypeError, "imaginary"),
    ],
)  # fmt: skip
def test_asarray_errors(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
    assert len(str(caught.value)) < 400


# ---- copies, pickle, weak references


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_duplicates(dtype: str, duplicate: Any) -> None:
    transposed = tk.permute_dims(tk.ones((2, 3), dtype=dtype), (1, 0))
    for x in (tk.ones((2, 3), dtype=dtype), transposed, tk.ones((), dtype=dtype)):
        made = duplicate(x)
        assert (made.dtype, made.shape, str(made.device)) == (x.dtype, x.shape, "cpu")
        assert made.tolist() == x.tolist()
        assert not tk.shares_storage(made, x)
        made[...] = 0
        assert x.tolist() == tk.ones(x.shape, dtype=dtype).tolist()


def test_duplicates_of_leaves_require_a_gradient() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert made.requires_grad
        assert made.is_leaf
        assert made.grad is None
    shared = copy.deepcopy([x, x])
    assert shared[0] is shared[1]


def test_weak_references() -> None:
    x = tk.ones(2)
    reference = weakref.ref(x)
    assert reference() is x
    assert {x: 1}[x] == 1
    del x
    assert reference() is None  # no cycle holds it


def test_hash_is_by_identity() -> None:
    x = tk.ones(2)
    assert len({x, x, tk.ones(2)}) == 2
    assert x in [tk.ones(2), x][1:]


# ---- views


def test_views_share_a_version() -> None:
    """Note [Views share a version counter]: a storage is made when it is needed, and all views see a change."""
    x = tk.zeros((2, 3))
    row, column = x[0], tk.permute_dims(x, (1, 0))
    deep = column[0][1:]
    assert x._storage is None  # nobody needed one
    assert [t._version for t in (x, row, column, deep)] == [0, 0, 0, 0]
    deep += 1
    assert [t._version for t in (x, row, column, deep)] == [1, 1, 1, 1]
    row[0] = 5.0
    later = x[1]
    assert [t._version for t in (x, row, column, deep, later)] == [2] * 5
    assert storage_of(x) is storage_of(deep) is storage_of(later)
    assert (x + 0)._version == 0
    assert x.tolist() == [[5.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_shares_storage() -> None:
    x = tk.zeros((2, 3))
    assert tk.shares_storage(x, x)
    assert tk.shares_storage(x[0], x[1])
    assert tk.shares_storage(x, x.detach())
    assert not tk.shares_storage(x, x.clone())
    array = np.zeros(3)
    assert tk.shares_storage(tk.asarray(array), tk.asarray(array))


def test_storage() -> None:
    x = tk.zeros((2, 3))
    storage = storage_of(x[1])
    assert (storage.nbytes, str(storage.device), storage.version) == (24, "cpu", 0)
    assert storage.data_pointer == x.numpy().ctypes.data
    assert repr(storage) == "Storage(nbytes=24, device='cpu', version=0)"


# ---- text


def test_repr() -> None:
    assert repr(tk.asarray([1.0, 2.5])) == "tensor([1. , 2.5], shape=(2,), dtype=float32, device='cpu')"
    assert "requires_grad=True" in repr(tk.tensor([1.0], requires_grad=True))
    assert "grad_fn=<" in repr(tk.tensor([1.0], requires_grad=True) * 2)
    assert repr(tk.zeros((2,), device="meta")) == "tensor(..., shape=(2,), dtype=float32, device='meta')"


def test_repr_of_huge_tensors_looks_at_the_edges_only() -> None:
    huge = tk.broadcast_to(tk.asarray([1.0]), (1 << 20, 1 << 20))  # four terabytes, were it copied
    started = time.perf_counter()
    text = repr(huge)
    assert time.perf_counter() - started < 5  # hours, if it looked at every element
    assert "shape=(1048576, 1048576)" in text
    assert len(text) < 2000


def test_namespace_of_the_array_api() -> None:
    assert tk.ones(1).__array_namespace__() is tk


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "complex64", "uint8"])
def test_words_are_short(dtype: str) -> None:
    """Note [Common and rare bits]: the words of ordinary tensors and what they are masked with are one digit."""
    for x in (tk.ones(2, dtype=dtype), weak_tensor(1.5), weak_tensor(2)):
        assert 0 < x._word | REQUIRES_GRAD < 2**30
    assert -(2**30) < INHERITED < 0
    assert max(WEAK_MASK, DTYPE_MASK) < 2**30


def test_membership_is_that_of_any_element() -> None:
    for x in (tk.asarray([[1.0, 2.0], [3.0, 4.0]]), tk.asarray([[1, 2], [3, 4]]), tk.asarray(3)):
        assert [value in x for value in (3, 3.0, np.int64(3), 5, 2.5, "a")] == [True] * 3 + [False] * 3
    assert 1 not in tk.zeros((0, 2))
