"""What tensors are made of: ``asarray``, ``tensor``; and what NumPy makes of tensors."""

from __future__ import annotations

import array
import collections
import contextlib
import copy
import ctypes
import decimal
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk


class WithArray:
    """Data with ``__array__`` alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values


class WithInterface:
    """Data with ``__array_interface__`` alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.__array_interface__ = values.__array_interface__


class WithDLPack:
    """Data with ``__dlpack__`` alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **asked: Any) -> Any:
        return self.values.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


SOURCES: list[Callable[[np.ndarray], Any]] = [
    lambda a: a, WithArray, WithInterface, WithDLPack, memoryview, lambda a: tk.from_dlpack(a).numpy(),
]  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8", "bool", "complex64"])
def test_what_has_a_dtype_keeps_it_and_is_shared(source: Callable[[np.ndarray], Any], dtype: str) -> None:
    if dtype == "complex64" and source is memoryview:
        pytest.skip("NumPy exports complex64 in a format that memoryview cannot index")
    values = np.ones((2, 3), dtype)
    made = source(values)
    x = tk.asarray(made)
    assert x.dtype == np.dtype(dtype)
    values[0, 0] = 0
    assert x.tolist() == values.tolist(), "the memory is shared"
    assert np.shares_memory(tk.asarray(made, copy=False).numpy(), values)
    assert not np.shares_memory(tk.asarray(made, copy=True).numpy(), values)
    assert not np.shares_memory(tk.tensor(made).numpy(), values)
    with pytest.raises(ValueError, match=r"\[asarray\] copy=False"):
        tk.asarray(made, dtype="float16", copy=False)


@pytest.mark.parametrize(
    ("source", "dtype", "values"),
    [
        (b"ab", "uint8", [97, 98]),
        (bytearray(b"ab"), "uint8", [97, 98]),
        (memoryview(b"ab"), "uint8", [97, 98]),
        (array.array("d", [1, 2]), "float64", [1.0, 2.0]),
        (array.array("h", [1, 2]), "int16", [1, 2]),
        ((ctypes.c_int * 3)(1, 2, 3), "int32", [1, 2, 3]),
        (np.longlong(3), "int64", 3),
        (range(1, 7, 2), "int64", [1, 3, 5]),
        (collections.deque([1.0, 2.0]), "float32", [1.0, 2.0]),
        ([True, 2], "int64", [1, 2]),
        ([True, 2.5], "float32", [1.0, 2.5]),
        ([1, 2j], "complex64", [1, 2j]),
        ((), "float32", []),
        ([[], []], "float32", [[], []]),
        (2**63, "uint64", 2**63),
    ],
)
def test_sources(source: Any, dtype: str, values: Any) -> None:
    x = tk.asarray(source)
    assert x.dtype is np.dtype(dtype)
    assert x.tolist() == values
    assert tk.tensor(source).tolist() == values


def test_writable_buffers_are_shared_others_copied() -> None:
    buffer = bytearray(b"ab")
    x = tk.asarray(buffer)
    x += 1
    assert buffer == b"bc"
    text = b"ab"
    y = tk.asarray(text)
    y += 1
    assert text == b"ab"
    with pytest.raises(ValueError, match="copy=False, but making a tensor of a bytes needs a copy"):
        tk.asarray(text, copy=False)


def test_sequences_of_tensors_and_arrays() -> None:
    wide = tk.asarray([1.0, 2.0], dtype=tk.float64)
    assert tk.asarray([wide, wide]).dtype == tk.float64
    assert tk.asarray([wide, [1, 2]]).dtype == tk.float64, "Python numbers are weak"
    assert tk.asarray([[wide[0], 2], [3, wide[1]]]).tolist() == [[1, 2], [3, 2]]
    assert tk.asarray([np.ones(2, np.int8), tk.ones(2, dtype=tk.uint8)]).dtype == tk.int16
    assert tk.asarray([tk.ones(2, dtype=tk.int64), [0.5, 1]]).dtype == tk.float32
    assert tk.asarray([WithDLPack(np.ones(2)), WithArray(np.ones(2))]).dtype == tk.float64
    assert tk.asarray([wide, wide], dtype=tk.int8).dtype == tk.int8
    assert tk.asarray([[wide], [wide]]).shape == (2, 1, 2)
    with pytest.raises(TypeError, match="no integer dtype holds both"):
        tk.asarray([tk.ones(1, dtype=tk.uint64), tk.ones(1, dtype=tk.int8)])
    with pytest.raises(ValueError, match="rows of different lengths"):
        tk.asarray([wide, [1]])


def test_sequences_of_tensors_keep_the_gradient() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    y = tk.asarray([[x[0], x[1] * 3], [1, 2.0]])
    assert y.tolist() == [[1, 6], [1, 2]]
    (y * tk.asarray([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 30.0]
    assert tk.asarray([x, [1, 2j]]).dtype == tk.complex64
    x.grad = None
    (tk.tensor([x[0], x[1]]) * tk.tensor(x)).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    leaf = tk.tensor([x[0], x[1]], requires_grad=True)
    assert leaf.is_leaf
    assert leaf.requires_grad
    with pytest.raises(ValueError, match="rows of different lengths"):
        tk.asarray([x, [1.0]])
    with pytest.raises(TypeError, match="cannot make a tensor of 'a'"):
        tk.asarray([x, "a"])


def test_sequences_of_tensors_stay_on_their_device_and_in_their_transform() -> None:
    assert tk.asarray([tk.zeros(2, device="meta"), [1, 2]]).device == "meta"
    x = tk.transforms.vmap(lambda v: tk.asarray([v, 2 * v, 1.0]))(tk.asarray([1.0, 2.0]))
    assert x.tolist() == [[1, 2, 1], [2, 4, 1]]
    assert tk.tensor([tk.zeros(2, device="meta")]).device == "meta"


def test_python_numbers_that_a_dtype_cannot_hold() -> None:
    assert tk.asarray([1.7, -1.7], dtype=tk.int8).tolist() == [1, -1]
    assert tk.asarray(np.array([300]), dtype=tk.uint8).tolist() == [44], "the values of an array wrap around"
    assert tk.asarray([2**70], dtype=tk.float64).tolist() == [2.0**70]
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        ([300.5], tk.int8, OverflowError, r"the value 300.5 is out of range for int8"),
        ([float("nan")], tk.int32, ValueError, r"the value nan has no counterpart in int32"),
        (float("inf"), tk.int64, ValueError, r"the value inf has no counterpart in int64"),
        ([2**63, -1], None, OverflowError, r"fits into no integer dtype"),
        ([2**64], None, OverflowError, r"18446744073709551616 fits into no integer dtype"),
        ([-1], tk.uint8, OverflowError, r"-1 is out of range for uint8"),
        (1j, tk.float32, TypeError, r"lose the imaginary part"),
    ]
    for given, dtype, error, text in cases:
        with pytest.raises(error, match=text):
            tk.asarray(given, dtype=dtype)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({1, 2}, r"\[asarray\] cannot make a tensor of \{1, 2\} with dtype object: .* Convert the objects"),
        ([decimal.Decimal(1)], "Convert the objects to numbers first"),
        (np.array(["2020-01-01"], "M8[D]"), "Convert times to integers first"),
        (np.zeros(2, np.longdouble), "Extended precision has no kernels"),
        (np.zeros(2, [("a", "f4")]), "Make one tensor for each field"),
        (np.ma.masked_array([1, 2], [False, True]), r"a masked array would lose its mask: give x.filled\(value\)"),
        (["1"], "Convert the text to a new array of numbers first"),
        ([1, None], "Convert the objects"),
    ],
)
def test_refusals(source: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        tk.asarray(source)


@pytest.mark.parametrize("call", [tk.asarray, tk.concat, tk.stack])
def test_a_sequence_that_grows_while_it_is_read(call: Callable[[Any], Any]) -> None:
    """Code of the user runs for each item, and the loop over the items ends."""
    items: list[Any] = []

    class Growing(tuple[float, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[float]:
            assert len(items) < 100, "it does not end"
            items.append(self)
            return super().__iter__()

    items += [Growing((1.0, 2.0)), Growing((3.0, 4.0))]
    with contextlib.suppress(TypeError, ValueError):
        call(items)
    assert len(items) > 2


def test_a_sequence_that_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="deeper than 64 levels, or contains itself"):
        tk.asarray(loop)


# ---- NumPy with tensors


def test_numpy_on_the_left_gives_tensors() -> None:
    t = tk.asarray([1.0, 2.0])
    for result, values in (
        (np.ones(2) + t, [2, 3]),
        (np.float64(2) * t, [2, 4]),
        (np.float32(3) - t, [2, 1]),
        (np.ones(2) / t, [1, 0.5]),
        (np.ones(2) ** t, [1, 1]),
        (np.ones((2, 2)) @ t.astype(tk.float64), [3, 3]),
        (np.ones(2) == t, [True, False]),
        (np.int64(1) < t, [False, True]),
        (np.arange(2) // t, [0, 0]),
    ):
        assert type(result) is tk.Tensor
        assert result.tolist() == values
    a = np.ones(2)
    a += t
    assert type(a) is np.ndarray
    assert a.tolist() == [2, 3]


def test_ufuncs_of_tensors() -> None:
    """Note [Ufuncs on tensors]."""
    a = np.array([3.0, 4.0])
    t = tk.asarray([1.0, 2.0], dtype=tk.float64)
    for result, values in (
        (np.add(a, t), [4, 6]), (np.power(t, 2), [1, 4]), (np.invert(tk.asarray([0, 1])), [-1, -2]),
        (np.isfinite(t), [True, True]), (np.float_power(t, 2), [1, 4]), (np.add(t, [1, 2]), [2, 4]),
        (np.add(t, t, dtype=np.float32), [2, 4]), (np.add.reduce(t), 3), (np.multiply.outer(t, t), [[1, 2], [2, 4]]),
        (np.modf(t)[1], [1, 2]), (np.frompyfunc(lambda x: x + 1, 1, 1)(t).astype(float), [2, 3]),
    ):  # fmt: skip
        assert isinstance(result, (np.ndarray if values == [2, 3] else tk.Tensor))
        assert result.tolist() == values
    out = np.zeros(2)
    assert np.add(t, 1, out=out) is out
    assert out.tolist() == [2, 3]
    for name in (n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)):
        ufunc: Any = getattr(np, name)
        if ufunc.signature is None and name != "isnat":  # what NumPy gives, by the operator or by its own function
            integers = [np.array([5, 3]), np.array([2, 1])][: ufunc.nin]
            given = (
                integers
                if "d->d" not in [k[-4:] for k in ufunc.types if "d" in k]
                else [np.array([0.5, 0.25])] * ufunc.nin
            )
            with np.errstate(all="ignore"):
                want, got = ufunc(*given), ufunc(*map(tk.asarray, given))
            for w, g in zip(want, got, strict=True) if ufunc.nout > 1 else [(want, got)]:
                assert type(g) is tk.Tensor, name
                np.testing.assert_allclose(g.numpy(), w, rtol=1e-14, err_msg=name)

    class Other:
        def __array_ufunc__(self, *args: Any, **options: Any) -> str:
            return "asked"

    assert np.add(t, Other()) == "asked"
    leaf = tk.tensor([1.0, 2.0], requires_grad=True)
    np.sin(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), np.cos([1.0, 2.0]), rtol=1e-6)  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match=r"\[numpy.add\] Can't call numpy\(\) on Tensor that requires grad"):
        np.add.reduce(leaf)
    with pytest.raises(TypeError, match=r"\[numpy.add\] out= is a tensor"):
        np.add(a, t, out=t)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"\[numpy.add.at\] changes its first operand"):
        np.add.at(t, [0], 1)
    assert t.tolist() == [1, 2]
    assert np.exp(tk.ones(3, device="meta")).shape == (3,)


def test_numpy_of_tensors() -> None:
    t = tk.asarray([[1.0, 2.5]])
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert np.asarray(t, dtype=np.int8).tolist() == [[1, 2]]
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.stack([t, t]).shape == (2, 1, 2)
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, dtype=np.int8, copy=False)
    with pytest.raises(RuntimeError, match="requires grad, which NumPy would lose"):
        np.asarray(t.clone().requires_grad_())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python asks objects for buffers from 3.12 on")
def test_buffers() -> None:
    x = tk.asarray([1, 2], dtype=tk.int16)
    view = memoryview(x)  # type: ignore[arg-type, unused-ignore]
    view[0] = 7
    assert x.tolist() == [7, 2]
    with pytest.raises(RuntimeError, match=r"requires (a gradient|grad)"):
        memoryview(tk.ones(2).requires_grad_())  # type: ignore[arg-type, unused-ignore]
    assert np.asarray(x).dtype == np.int16


# ---- pickle and copies


@pytest.mark.parametrize("dtype", [str(dtype) for dtype in tk.core.dtypes.names.ALL])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(dtype: str, protocol: int) -> None:
    for x in (tk.ones((2, 3), dtype=dtype), tk.ones((), dtype=dtype), tk.ones((0, 2), dtype=dtype)):
        for source in (x, x.mT if x.ndim == 2 else x):
            back = pickle.loads(pickle.dumps(source, protocol))
            assert (back.shape, back.dtype, back.tolist()) == (source.shape, source.dtype, source.tolist())


def test_pickle_out_of_band() -> None:
    x = tk.ones(10_000)
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(x, 5, buffer_callback=buffers.append)
    assert len(head) < 1000
    assert np.shares_memory(np.frombuffer(buffers[0], np.float32), x.numpy()), "the values are not copied"
    y = pickle.loads(head, buffers=buffers)
    y += 1
    assert x[0].item() == 2, "who gives the same memory gets the same memory"
    z = pickle.loads(head, buffers=[bytes(buffer) for buffer in buffers])
    z += 1
    assert z[0].item() == 3


def test_pickle_keeps_what_belongs_to_a_leaf() -> None:
    x = tk.ones(2).requires_grad_()
    assert pickle.loads(pickle.dumps(x)).requires_grad
    meta = pickle.loads(pickle.dumps(tk.zeros((2, 3), device="meta", dtype=tk.int8)))
    assert (meta.shape, meta.dtype, str(meta.device)) == ((2, 3), tk.int8, "meta")


def test_deepcopy() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    made = copy.deepcopy({"a": x, "b": x})
    assert made["a"] is made["b"]
    y = made["a"]
    assert y.requires_grad
    assert y.is_leaf
    assert x.grad is not None
    assert y.grad.tolist() == x.grad.tolist()
    assert not tk.shares_storage(x, y)
    assert not tk.shares_storage(x.grad, y.grad)
    with pytest.raises(
        RuntimeError, match=r"\[deepcopy\] Only Tensors created explicitly by the user \(graph leaves\) support"
    ):
        copy.deepcopy(x * 2)
    assert copy.deepcopy((x * 2).detach()).tolist() == [2, 4]
    assert copy.copy(x * 2).grad_fn is not None
