"""``x[index]``, ``x[index] = value`` and ``x[index] += value`` against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.core.tensor import Tensor
from tests._tiers import each, tier

Array = np.ndarray[Any, Any]


def numbered(shape: tuple[int, ...]) -> Array:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float64).reshape(shape)


def as_tensors(index: Any) -> Any:
    """The index with tensors in place of NumPy arrays."""
    if isinstance(index, tuple):
        return tuple(as_tensors(item) for item in index)
    return tk.asarray(index) if isinstance(index, np.ndarray) and index.ndim else index


def is_basic(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return not any(isinstance(item, list) or (isinstance(item, np.ndarray) and item.ndim) for item in items)


MASK = numbered((4, 3)) % 3 == 0
INDICES: list[Any] = [
    0, -1, 3, (1, 2), (-4, -3), (0, 1, 1), (), ..., None, (None, None), (..., None), (0, ...), (..., 0), (1, ..., 0),
    (None, 1, None, ..., None),
    np.s_[:], np.s_[1:], np.s_[:-1], np.s_[1:3], np.s_[::2], np.s_[1::2], np.s_[3:1], np.s_[-100:100], np.s_[5:],
    np.s_[::-1], np.s_[::-2], np.s_[3:0:-1], np.s_[0:3:-1], np.s_[:1:-1], np.s_[-1:-5:-2], np.s_[:, ::-1],
    np.s_[::-1, ::-1, ::-1], np.s_[:, 1], np.s_[..., 1], np.s_[1:3, ..., ::2], np.s_[:, None, 1:], np.s_[2, 1:, ::-1],
    np.s_[:, :, :], np.s_[1:1], np.s_[None, ::2, 0],
    [0], [0, 2], [-1, 0, -1], [[0, 1], [2, 3]], [], ([0, 1], [1, 2]), ([0, 1], 1), (1, [0, 1]), ([[0], [1]], [0, 1, 2]),
    (slice(None), [0, 2]), (slice(None), [0, 2], 1), (slice(None), slice(None), [1, 0]), ([0, 1], slice(None), [1, 0]),
    ([0, 1], None, [1, 0]), (..., [0, 1]), ([0, 1], ...), (slice(1, 3), [0, 1]), (slice(None, None, -1), [0, 1]),
    ([0, 1], slice(None, None, 2), 1), (0, slice(None), [1, 0]), (None, [0, 1]), ([0], [1], [1]),
    np.array([2, 0]), np.array([[1], [2]]), np.array([1, 2], np.uint8), np.array([-1, 1], np.int8), np.array(2),
    (np.int64(1), np.int32(-1)), np.zeros((0, 2), int), (np.array(1), slice(None), np.array([0, 1])),
    MASK, MASK[:, 0], MASK | True, MASK & False, (slice(None), MASK[0]), (MASK, 0), (MASK, [0, 1, 1, 0]),
    (0, MASK[0]), (MASK[:, 0], slice(1, 3)), (None, MASK), (..., np.array([True, False])), (MASK[:, 0], [0]),
    (MASK[:, 0], None), (slice(None), MASK[0], 1), [True, False, True, True],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_getitem(index: Any) -> None:
    values = numbered((4, 3, 2))
    want = values[index]
    for given_index in (index, as_tensors(index)):
        tensor = tk.asarray(values.copy())
        got = tensor[given_index]
        np.testing.assert_array_equal(got.numpy(), want, strict=True)
        steps = [s.step for s in (index if isinstance(index, tuple) else (index,)) if isinstance(s, slice)]
        is_view = is_basic(index) and all(s is None or s > 0 for s in steps)
        assert tk.shares_storage(got, tensor) == is_view or not got.size


@pytest.mark.parametrize("index", INDICES, ids=repr)
@each("layout", ["transposed", "strided"])
def test_getitem_of_other_layouts(index: Any, layout: str) -> None:
    values = numbered((2, 3, 4)).T if layout == "transposed" else numbered((8, 6, 4))[::2, ::2, ::2]
    np.testing.assert_array_equal(tk.asarray(values)[index].numpy(), values[index], strict=True)


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_setitem(index: Any) -> None:
    selected = numbered((4, 3, 2))[index]
    for value in (-7.0, -selected, -np.ones(selected.shape[-1:])):
        want = numbered((4, 3, 2))
        tensor = tk.asarray(want.copy())
        want[index] = value
        tensor[as_tensors(index)] = tk.asarray(value) if isinstance(value, np.ndarray) else value
        np.testing.assert_array_equal(tensor.numpy(), want)
        assert tensor._version == 1


@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
@pytest.mark.parametrize("index", [0, (1, 2), np.s_[1:3], np.s_[..., 1], ([0, 2], 1), MASK, np.s_[::-1]], ids=repr)
def test_augmented_assignment(operation: str, index: Any) -> None:
    want = numbered((4, 3, 2))
    tensor = tk.asarray(want.copy())
    memory = tensor.numpy()
    if operation == "add":
        want[index] += 2.0
        tensor[as_tensors(index)] += 2.0
    elif operation == "sub":
        want[index] -= want[index] / 2
        tensor[as_tensors(index)] -= tensor[as_tensors(index)] / 2
    else:
        want[index] *= 3
        tensor[as_tensors(index)] *= 3
    np.testing.assert_array_equal(tensor.numpy(), want)
    assert tensor.numpy().ctypes.data == memory.ctypes.data


def test_augmented_assignment_is_in_place() -> None:
    tensor = view = tk.asarray([1.0, 2.0])
    other = tensor[:1]
    tensor += 1
    tensor -= 0.5
    tensor *= 2
    tensor /= 3
    tensor **= 2
    assert tensor is view
    assert other.tolist() == [1.0]
    assert tensor._version == 5


def test_one_operator_for_an_index() -> None:
    """Whatever an index is made of, a view is one call and one node, and so is an assignment."""
    names: list[str] = []

    class Log(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            names.append(str(op))
            return op(*args, **kwargs)

    x = tk.zeros((4, 3, 2))
    with Log():
        for index in (0, np.s_[1:3], np.s_[..., None, 0], (1, None, slice(None, None, 2), -1), (), None):
            x[index]
            x[index] = 1.0
    assert names == ["tk::basic_index", "tk::basic_put_"] * 6
    leaf = tk.zeros((4, 3, 2)).requires_grad_()
    node = leaf[1, ..., None, :1].grad_fn
    assert node.name() == "BasicIndexBackward"
    assert node.next_functions[0][0].name() == "AccumulateGrad"


_BOOLEANS: list[Any] = [
    True, False, np.True_, (True, 0), (0, True), (slice(None), True), (slice(None), False, 0), (True, False),
    (True, ..., 0),
    (None, True), (True, [0, 1]), ([0, 1], True), (slice(None), [0, 1], True), (..., True), (True, slice(None), [1, 0]),
    (slice(None), [0, 1], ..., [1, 0]), (slice(1, 3), [0, 1], ..., [1, 0]), (slice(None), [0, 1], None, [1, 0]),
    (slice(None, None, -1), [0, 1], ..., [1, 0]), ((0, 1),), (slice(None), [True, False, True], ..., [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("index", _BOOLEANS, ids=repr)
def test_bools_and_separated_tensors(index: Any) -> None:
    """A bool adds a dimension, and an ellipsis between tensors separates them, even where it stands for nothing."""
    values = numbered((4, 3, 2))
    want = values[index]
    tensor = tk.asarray(values.copy())
    np.testing.assert_array_equal(tensor[as_tensors(index)].numpy(), want, strict=True)
    for value in (-3.0, -want, -np.ones(want.shape[-1:])):
        wanted, tensor = values.copy(), tk.asarray(values.copy())
        wanted[index] = value
        tensor[as_tensors(index)] = value
        np.testing.assert_array_equal(tensor.numpy(), wanted)
    leaf = tk.tensor(values, requires_grad=True)
    leaf[as_tensors(index)].sum().backward()
    counted = np.zeros_like(values)
    np.add.at(counted, index, 1.0)
    got: Any = leaf.grad
    np.testing.assert_array_equal(got.numpy(), counted)


def test_a_mask_with_a_length_of_zero_selects_nothing() -> None:
    """The standard's rule: a dimension of a mask has the length of the tensor's, or 0."""
    x = tk.ones((2, 3))
    assert x[tk.zeros((0,), dtype="bool")].shape == (0, 3)
    assert x[tk.zeros((2, 0), dtype="bool")].shape == (0,)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_every_integer_dtype_is_an_index_and_no_mask(dtype: str) -> None:
    x = tk.asarray([10, 20, 30])
    at = tk.asarray([1, 0, 1], dtype=dtype)
    assert x[at].tolist() == [20, 10, 20]
    assert x[tk.asarray(2, dtype=dtype)].item() == 30
    x[at] = 5
    assert x.tolist() == [5, 5, 30]


# ---- hypothesis: any index that NumPy takes

_SHAPES = nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def shapes_and_basic_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    shape = draw(_SHAPES)
    return shape, draw(nps.basic_indices(shape, allow_newaxis=True))


@st.composite
def shapes_and_mixed_indices(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    """Integer arrays that broadcast, masks, slices, None and '...' in any order."""
    shape = draw(nps.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    common = draw(nps.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    items: list[Any] = []
    for n in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "array", "int", "full", "mask"]))
        if kind == "array":
            small = tuple(1 if draw(st.booleans()) else m for m in common)
            items.append(draw(nps.arrays(np.int64, small, elements=st.integers(-n, n - 1))))
        elif kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "mask" and not any(isinstance(i, np.ndarray) for i in items):
            mask = draw(nps.arrays(np.bool_, (n,)))
            items.append(mask if mask.sum() == 1 or not common else slice(None))
        else:
            items.append(draw(st.slices(n)) if kind == "slice" else slice(None))
        if draw(st.integers(0, 5)) == 0:
            items.append(None)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(items)))
        items.insert(at, ...)
        if at < len(items) - 1:  # what follows '...' indexes the last dimensions, of other lengths
            items = items[: at + 1]
    return shape, tuple(items)


@pytest.mark.wider
@settings(max_examples=tier(60, 300), deadline=None)
@given(shapes_and_basic_indices())
def test_any_basic_index(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    values = numbered(shape)
    np.testing.assert_array_equal(tk.asarray(values)[index].numpy(), values[index], strict=True)


@pytest.mark.wider
@settings(max_examples=tier(60, 300), deadline=None)
@given(shapes_and_mixed_indices())
def test_any_mixed_index(case: tuple[tuple[int, ...], Any]) -> None:
    shape, index = case
    values = numbered(shape)
    try:
        want = values[index]
    except IndexError:
        return
    np.testing.assert_array_equal(tk.asarray(values)[as_tensors(index)].numpy(), want, strict=True)


@pytest.mark.wider
@settings(max_examples=tier(30, 150), deadline=None)
@given(shapes_and_mixed_indices(), st.booleans())
def test_any_assignment(case: tuple[tuple[int, ...], Any], broadcast: bool) -> None:
    shape, index = case
    want = numbered(shape)
    try:
        selected = want[index]
    except IndexError:
        return
    # the same value for equal positions, so that their order does not matter
    value = np.float64(-1.0) if broadcast else -selected
    tensor = tk.asarray(want.copy())
    want[index] = value
    tensor[as_tensors(index)] = float(value) if broadcast else tk.asarray(value)
    np.testing.assert_array_equal(tensor.numpy(), want)


@pytest.mark.wider
@settings(max_examples=tier(40, 200), deadline=None)
@given(nps.array_shapes(min_dims=1, max_dims=3, max_side=5), st.data())
def test_any_mask(shape: tuple[int, ...], data: st.DataObject) -> None:
    depth = data.draw(st.integers(1, len(shape)))
    mask = data.draw(nps.arrays(np.bool_, shape[:depth]))
    values = numbered(shape)
    tensor = tk.asarray(values)
    np.testing.assert_array_equal(tensor[tk.asarray(mask)].numpy(), values[mask], strict=True)


# ---- conversions


@pytest.mark.parametrize(("dtype", "value", "stored"), [
    ("int64", 2.9, 2), ("float32", 3, 3.0), ("bool", 2, True), ("complex64", 1.5, 1.5 + 0j), ("uint8", 255, 255),
])  # fmt: skip
def test_values_are_converted_to_the_dtype(dtype: str, value: Any, stored: Any) -> None:
    tensor = tk.zeros(3, dtype=dtype)
    tensor[1] = value
    tensor[[2]] = value
    assert tensor.tolist() == [tensor.dtype.type(0), stored, stored]
    assert tensor.dtype == np.dtype(dtype)


def test_assignment_from_numpy_and_lists() -> None:
    tensor = tk.zeros((2, 3))
    tensor[0] = np.arange(3)
    tensor[1, :2] = tk.asarray([7.0, 8.0])
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [7.0, 8.0, 0.0]]


def test_assignment_of_an_overlapping_view() -> None:
    tensor = tk.asarray([1.0, 2.0, 3.0, 4.0])
    tensor[1:] = tensor[:-1]
    assert tensor.tolist() == [1.0, 1.0, 2.0, 3.0]


def test_index_objects() -> None:
    class Two:
        def __index__(self) -> int:
            return 2

    tensor = tk.asarray([10, 20, 30])
    assert tensor[Two() : 3].tolist() == [30]
    assert tensor[tk.asarray(1)].item() == 20
    assert tensor[tk.asarray(1) :].tolist() == [20, 30]
    assert tensor[np.uint8(1)].item() == 20
    assert [row.item() for row in tensor] == [10, 20, 30]


# ---- errors, in full

_VALUES = numbered((4, 3))
_TOO_MANY = "give at most one for each dimension (None adds one)."
_KINDS = "[index] an index consists of ints, slices, None, '...', and tensors of integers or bools; got "
_BROADCAST = " cannot be broadcast together: counted from the last, each dimension must be equal or 1 in all of them."
_RANGE = "it must be in [-3, 2]."


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (4, IndexError, "[index] index 4 is out of range for dimension 0 of shape (4, 3): it must be in [-4, 3]."),
        (-5, IndexError, "[index] index -5 is out of range for dimension 0 of shape (4, 3): it must be in [-4, 3]."),
        ((0, 3), IndexError, "[index] index 3 is out of range for dimension 1 of shape (4, 3): " + _RANGE),
        (np.s_[:, 3], IndexError, "[index] index 3 is out of range for dimension 1 of shape (4, 3): " + _RANGE),
        ([0, 4], IndexError, "[index] index 4 is out of range for axis 0 of length 4."),
        (np.s_[:, [-4]], IndexError, "[index] index -4 is out of range for axis 1 of length 3."),
        ((0, 0, 0), IndexError, f"[index] got 3 indices for a tensor of 2 dimensions, shape (4, 3): {_TOO_MANY}"),
        ((..., ...), IndexError, "[index] an index may contain only one ellipsis ('...')."),
        ("a", IndexError, _KINDS + "'a'."),
        (1.0, IndexError, _KINDS + "1.0."),
        ([0.5], IndexError, _KINDS + "[0.5]."),
        (np.array([True, False]), IndexError,
         "[index] a mask of shape (2,) does not fit the dimensions (4,) that it selects from."),
        (np.ones((4, 2), bool), IndexError,
         "[index] a mask of shape (4, 2) does not fit the dimensions (4, 3) that it selects from."),
        (([0, 1], [0, 1, 2]), IndexError, "[index] the shapes (2,) and (3,)" + _BROADCAST),
        (np.s_[::0], ValueError, "[index] the step of a slice must not be 0, got slice(None, None, 0)."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("assign", [False, True])
def test_errors(index: Any, error: type[Exception], text: str, assign: bool) -> None:
    tensor = tk.asarray(_VALUES.copy())
    at = as_tensors(index)
    with pytest.raises(error) as caught:
        tensor.__setitem__(at, 0.0) if assign else tensor[at]
    got = str(caught.value)
    if isinstance(index, list) and isinstance(index[0], float):
        got = got.partition(";")[0]
        text = text.partition(";")[0]
    assert got.replace("[index_put]", "[index]") == text
    np.testing.assert_array_equal(tensor.numpy(), _VALUES)
    assert tensor._version == 0


@pytest.mark.parametrize(
    ("index", "value", "error", "text"),
    [
        (0, [1.0, 2.0], ValueError, "[index_put] the shapes (3,) and (2,) cannot be broadcast together"),
        (
            [0, 1],
            [[1.0], [2.0], [3.0]],
            ValueError,
            "[index_put] the shapes (2, 3) and (3, 1) cannot be broadcast together",
        ),
        (0, 1j, TypeError, "[index_put] a result of dtype complex128 cannot be written into a tensor of dtype float64"),
        (
            [0],
            1j,
            TypeError,
            "[index_put] a result of dtype complex128 cannot be written into a tensor of dtype float64",
        ),
        (
            0,
            "a",
            TypeError,
            "[index_put] the assigned value must be a tensor, an array or a number, got 'a' of type str.",
        ),
        (MASK, [1.0, 2.0], ValueError, ""),
    ],
)
def test_assignment_errors(index: Any, value: Any, error: type[Exception], text: str) -> None:
    tensor = tk.asarray(_VALUES.copy())
    with pytest.raises(error) as caught:
        tensor[as_tensors(index)] = tk.asarray(value, dtype="float64") if isinstance(value, list) else value
    assert text in str(caught.value)
    np.testing.assert_array_equal(tensor.numpy(), _VALUES)
    assert tensor._version == 0


def test_0d_tensors_have_no_dimension_to_index() -> None:
    scalar = tk.asarray(5.0)
    assert scalar[()].item() == 5.0
    assert scalar[...].item() == 5.0
    assert scalar[None].shape == (1,)
    with pytest.raises(IndexError, match=r"\[index\] got 1 indices for a tensor of 0 dimensions, shape \(\)"):
        scalar[0]


# ---- gradients


@pytest.mark.parametrize("index", [index for index in INDICES if numbered((4, 3, 2))[index].size], ids=repr)
def test_gradient(index: Any) -> None:
    leaf = tk.tensor(numbered((4, 3, 2)), requires_grad=True)
    at = as_tensors(index)
    assert gradcheck(lambda x: x[at], (leaf,))
    assert gradgradcheck(lambda x: x[at] * x[at], (leaf,))


def test_gradient_adds_up_for_equal_indices() -> None:
    leaf = tk.tensor([1.0, 2.0, 3.0], requires_grad=True)
    leaf[[0, 0, 2]].sum().backward()
    grad: Tensor | None = leaf.grad
    assert grad is not None
    assert grad.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_shapes_are_numpys(device: str) -> None:
    values = numbered((4, 3, 2))
    tensor = tk.asarray(values).to_device(device)
    parts: list[Any] = [0, slice(None), slice(None, None, -1), None, [1, 0], [[0], [1]]]
    for index in itertools.product(parts, parts, parts):
        if sum(item is not None for item in index) <= 3:
            assert tensor[index].shape == values[index].shape, index


@pytest.mark.parametrize(
    "index",
    [
        (0, 1), (0, -1, slice(None)), (1, 0), (slice(None), 0, 2), (slice(None), 2, 0), (-2, slice(None), 0), (0, 1, 0),
        (0, slice(None), -3), (0, slice(None), slice(None)), (1, 1, 0),
    ],
)  # fmt: skip
def test_ints_beside_tensors(index: tuple[Any, ...]) -> None:
    """They count as tensors. Of the index the first 0 stands for a tensor."""
    a = np.arange(24.0).reshape(2, 3, 4)
    place = index.index(0)
    places = np.array([[1, 0], [0, 1]])
    there = (*index[:place], places, *index[place + 1 :])
    given = (*index[:place], tk.asarray(places), *index[place + 1 :])
    x = tk.tensor(a, requires_grad=True)
    found = x[given]
    np.testing.assert_array_equal(found.detach().numpy(), a[there], strict=True)
    np.testing.assert_array_equal(tk.asarray(a)[given].numpy(), a[there], strict=True)
    found.sum().backward()
    want = np.zeros_like(a)
    np.add.at(want, there, 1.0)
    assert x.grad is not None
    assert x.grad.tolist() == want.tolist()
    y, b = tk.asarray(a.copy()), a.copy()
    y[given] = 7.0
    b[there] = 7.0
    assert y.tolist() == b.tolist()


def test_an_int_beside_a_tensor_is_out_of_range() -> None:
    x, i = tk.zeros((3, 4)), tk.asarray([0, 1])
    for places in ((i, 4), (i, -5), (i, 1 << 40)):
        with pytest.raises(IndexError, match=r"^\[index\] index -?\d+ is out of range for axis 1 of length 4"):
            x[places]
    with pytest.raises(IndexError, match=r"^\[index_put\] index 4 is out of range for axis 1 of length 4"):
        x[i, 4] = 1.0
    assert x.tolist() == np.zeros((3, 4)).tolist()
