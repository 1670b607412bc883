"""``x[index] = value``: what is stored, what is refused, and what its gradients are. See Note [Assignment by index]."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.transforms import grad, jvp, vmap

Array = np.ndarray[Any, Any]

INDICES: list[Any] = [
    0, -1, np.s_[1:3], np.s_[::2], np.s_[::-1], (1, 2), (..., 0), (None, 1), (), ...,
    [0, 2], (slice(None), [0, 2]), ([0, 1], [2, 0]), (slice(1, 3), [0, 1]), (slice(None, None, -1), [0, 1]),
    np.arange(12).reshape(4, 3) % 3 == 0, np.array([True, False, True, True]),
    (slice(None), np.array([True, False, True])),
    (slice(1, 4), np.array([False, True, True])), (slice(1, 3), None, [0, 2]), True, (0, [1, 2]), np.s_[3:1], [],
]  # fmt: skip


def at(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(at(item) for item in index)
    return tk.asarray(index) if isinstance(index, np.ndarray) else index


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().numpy()


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_gradients_reach_the_tensor_and_the_value(index: Any) -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal((4, 3))
    x = tk.tensor(start, requires_grad=True)
    for value in (rng.standard_normal(start[index].shape), rng.standard_normal(start[index].shape[-1:]), rng.random()):
        v = tk.tensor(value, dtype=tk.float64, requires_grad=True)

        def function(x: Tensor, v: Tensor) -> Tensor:
            y = x * 1
            y[at(index)] = v
            return y * y

        want = start.copy()
        want[index] = value
        np.testing.assert_allclose(values_of(function(x, v)), want * want)
        if v.size:
            assert gradcheck(function, (x, v))
            assert gradgradcheck(function, (x, v))


@pytest.mark.parametrize("index", [0, np.s_[1:], [0, 2], np.array([True, False, True])], ids=repr)
def test_the_assignment_is_one_node_of_the_tensor_itself(index: Any) -> None:
    x = tk.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    same = y
    y[at(index)] = 5.0
    assert y is same
    assert y._version == 1
    assert y.grad_fn.name() in ("BasicPutBackward", "PutBackward")
    assert y.grad_fn.next_functions[0][0].name() == "MultiplyBackward"
    y.sum().backward()
    want = np.ones(3)
    want[index] = 0
    assert values_of(x.grad).tolist() == want.tolist()


def test_a_buffer_becomes_part_of_the_graph() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    table = tk.zeros((3, 2))
    for row in range(3):
        table[row] = x * float(row)
    table[[0, 1], 0] = x[1]
    table.sum().backward()
    assert values_of(x.grad).tolist() == [2.0, 5.0]


def test_a_value_of_another_dtype_gets_its_gradient_in_its_own() -> None:
    v = tk.tensor([1.0, 2.0], dtype=tk.float64, requires_grad=True)
    y = tk.zeros(3, dtype=tk.float32)
    y[1:] = v
    y[[0]] = v[1]
    y.sum().backward()
    assert v.grad is not None
    assert v.grad.dtype == np.float64
    assert v.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("index", [0, np.s_[:1], [0], np.array([True, False])], ids=repr)
def test_a_leaf_refuses(index: Any) -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
        x[at(index)] = 5.0
    assert x.tolist() == [1.0, 2.0]
    assert x._version == 0
    with tk.no_grad():
        x[at(index)] = 5.0
    assert x.tolist() == [5.0, 2.0]
    assert x.requires_grad


def test_what_was_saved_before_is_found() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y * y
    y[0] = 7.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_failed_assignment_changes_nothing() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    node = y.grad_fn
    for index, value in ((0, tk.ones(2)), ([0, 1], tk.ones(3)), (5, 1.0), ([5], 1.0), (0, 1j)):
        with pytest.raises((ValueError, IndexError, TypeError)):
            y[index] = value
    assert y.tolist() == [1.0, 2.0]
    assert y._version == 0
    assert y.grad_fn is node


@pytest.mark.parametrize(
    ("dtype", "value"), [("int64", float("nan")), ("int8", float("inf")), ("uint8", 300), ("int8", -129), ("uint8", -1)]
)
@pytest.mark.parametrize("index", [0, [0], True], ids=repr)
def test_a_number_that_the_dtype_cannot_hold_is_refused(dtype: str, value: Any, index: Any) -> None:
    x = tk.zeros(2, dtype=dtype)
    with pytest.raises((ValueError, OverflowError)):
        x[index] = value
    assert x.tolist() == [0, 0]


def test_values_are_converted() -> None:
    x = tk.zeros(4, dtype="int64")
    x[0] = 2.9
    x[1:3] = tk.asarray([-1.9, True])
    x[[3]] = np.float32(7.5)
    assert x.tolist() == [2, -1, 1, 7]
    flags = tk.zeros(2, dtype="bool")
    flags[0] = 0.5
    assert flags.tolist() == [True, False]
    x[:2] = [8, 9]
    assert x.tolist() == [8, 9, 1, 7]
    with pytest.raises(TypeError, match=r"\[index_put\] the assigned value must be a tensor, an array or a number"):
        x[0] = "text"


def test_leading_dimensions_of_length_one_may_be_too_many() -> None:
    x = tk.zeros((2, 3))
    x[0] = tk.asarray([[1.0, 2.0, 3.0]])
    x[[1]] = tk.asarray([[[4.0, 5.0, 6.0]]])
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    with pytest.raises(ValueError, match=r"does not fit|cannot be broadcast together"):
        x[0, 0] = tk.asarray([1.0, 2.0])


@pytest.mark.parametrize("index", [np.s_[1:], np.s_[::-1], [1, 2, 3, 0]], ids=repr)
def test_a_source_that_overlaps(index: Any) -> None:
    want = np.arange(4.0)
    x = tk.asarray(want.copy())
    source = slice(0, 3) if index == np.s_[1:] else slice(None)
    want[index] = want[source].copy()
    x[index] = x[source]
    assert x.tolist() == want.tolist()


def test_of_equal_indices_the_last_is_kept() -> None:
    x = tk.zeros(2)
    x[[0, 0]] = tk.asarray([1.0, 2.0])
    assert x.tolist() == [2.0, 0.0]


@pytest.mark.parametrize(
    "index", [0, np.s_[::2], (slice(None), 1), [0, 1], ([0, 1], [2, 0]), (slice(None), [2, 0])], ids=repr
)
def test_under_vmap_and_forward_mode(index: Any) -> None:
    rng = np.random.default_rng(1)
    batch, values = rng.standard_normal((5, 2, 3)), rng.standard_normal((5, *np.zeros((2, 3))[index].shape))

    def function(x: Tensor, v: Tensor) -> Tensor:
        y = x * 1
        y[index] = v
        return y

    want = batch.copy()
    for sample, value in zip(want, values, strict=True):
        sample[index] = value
    np.testing.assert_array_equal(vmap(function)(tk.asarray(batch), tk.asarray(values)).numpy(), want)
    np.testing.assert_array_equal(vmap(function, (0, None))(tk.asarray(batch), tk.asarray(0.0)).shape, want.shape)
    out, tangent = jvp(
        function, (tk.asarray(batch[0]), tk.asarray(values[0])), (tk.asarray(batch[1]), tk.asarray(values[1]))
    )
    np.testing.assert_array_equal(tangent.numpy(), want[1])
    np.testing.assert_array_equal(out.numpy(), want[0])


def test_on_meta() -> None:
    x = tk.zeros((2, 3), device="meta")
    x[0] = 1.0
    x[:, [0, 2]] = tk.ones((2, 2), device="meta")
    assert x._version == 2
    with pytest.raises(ValueError, match="cannot be broadcast together"):
        x[0] = tk.ones(2, device="meta")
    with pytest.raises(IndexError, match="out of range"):
        x[2] = 1.0


# ---- names that read and write at places


@pytest.mark.parametrize(("reduce", "ufunc"), [
    ("add", np.add), ("sum", np.add), ("multiply", np.multiply), ("prod", np.multiply), ("max", np.maximum),
    ("amax", np.maximum), ("min", np.minimum), ("amin", np.minimum),
])  # fmt: skip
def test_scatter_reductions_and_their_gradients(reduce: str, ufunc: Any) -> None:
    rng = np.random.default_rng(2)
    x, source = rng.standard_normal((2, 3)), rng.standard_normal((2, 4))
    indices = np.array([[0, 0, 1, 0], [2, 1, 1, 0]])
    want = x.copy()
    ufunc.at(want, (np.arange(2)[:, None], indices), source)
    tensors = (tk.tensor(x, requires_grad=True), tk.tensor(source, requires_grad=True))

    def function(x: Tensor, source: Tensor) -> Tensor:
        return tk.scatter(x, tk.asarray(indices), source, axis=1, reduce=reduce)

    np.testing.assert_allclose(values_of(function(*tensors)), want)
    assert gradcheck(function, tensors)
    assert gradgradcheck(function, tensors)


def test_the_gradient_of_a_product_with_zeros_and_of_shared_maxima() -> None:
    source = tk.tensor([0.0, 3.0, 4.0], dtype=tk.float64, requires_grad=True)
    x = tk.tensor([2.0], dtype=tk.float64, requires_grad=True)
    zero = tk.asarray([0, 0, 0])
    tk.scatter(x, zero, source, axis=0, reduce="multiply").sum().backward()
    assert values_of(source.grad).tolist() == [24.0, 0.0, 0.0]
    assert values_of(x.grad).tolist() == [0.0]
    ties = tk.tensor([5.0, 5.0, 1.0], dtype=tk.float64, requires_grad=True)
    tk.scatter(tk.zeros(1, dtype=tk.float64), zero, ties, axis=0, reduce="max").sum().backward()
    assert values_of(ties.grad).tolist() == [0.5, 0.5, 0.0]


def test_nonzero() -> None:
    values = np.array([[0.0, 1.0, np.nan], [2.0, 0.0, -0.0]])
    got = tk.nonzero(tk.asarray(values))
    assert isinstance(got, tuple)
    for a, b in zip(got, np.nonzero(values), strict=True):
        np.testing.assert_array_equal(a.numpy(), b, strict=True)
    assert tk.asarray(values)[got].tolist()[0] == 1.0
    assert [i.shape for i in tk.nonzero(tk.zeros((0, 3)))] == [(0,), (0,)]
    with pytest.raises(ValueError, match=r"\[nonzero\] a 0-d tensor"):
        tk.nonzero(tk.asarray(1))
    with pytest.raises(NotImplementedError, match=r"\[nonzero\] the shape of the result depends on the values"):
        tk.nonzero(tk.zeros(3, device="meta"))


def test_flat_indices_and_coordinates() -> None:
    rows, columns = tk.unravel_index(tk.asarray([[5], [0]]), (2, 3))
    assert (rows.tolist(), columns.tolist()) == ([[1], [0]], [[2], [0]])
    assert tk.ravel_multi_index([rows, columns], (2, 3)).tolist() == [[5], [0]]
    assert tk.unravel_index(tk.asarray([5]), 6)[0].tolist() == [5]
    for call in (lambda: tk.unravel_index(tk.asarray([6]), (2, 3)),
                 lambda: tk.ravel_multi_index([tk.asarray([2]), tk.asarray([0])], (2, 3))):  # fmt: skip
        with pytest.raises(ValueError, match="out of range for the shape"):
            call()


def test_piecewise() -> None:
    x = tk.tensor([-2.0, -0.5, 0.5, 3.0], dtype=tk.float64, requires_grad=True)
    values = values_of(x)
    got = tk.piecewise(x, [x < -1, x > 1], [lambda t, a: t * a, 7, lambda t, a: t * t], 10.0)
    want = np.piecewise(values, [values < -1, values > 1], [lambda t: t * 10, 7, lambda t: t * t])
    np.testing.assert_array_equal(values_of(got), want)
    got.sum().backward()
    assert values_of(x.grad).tolist() == [10.0, -1.0, 1.0, 0.0]
    assert tk.piecewise(x, x > 0, [1.0]).tolist() == [0.0, 0.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="got 3 functions for 1 conditions"):
        tk.piecewise(x, [x > 0], [1, 2, 3])
    with pytest.raises(ValueError, match="a condition is a bool tensor"):
        tk.piecewise(x, [x], [1])


WRITES: dict[str, Any] = {
    "put": lambda x, i, v: tk.ops.tk.put(x, [i], v),
    "assignment": lambda x, i, v: assigned(x, i, v),
    "scatter": lambda x, i, v: tk.scatter(x, i, v, axis=0),
    "index_copy": lambda x, i, v: tk.index_copy(x, i, v),
}


def assigned(x: Tensor, index: Any, value: Tensor) -> Tensor:
    y = x + 0 * value.sum()  # a tensor with a tangent in forward mode
    y[index] = value
    return y


@pytest.mark.parametrize("write", [*WRITES.values(), tk.index_fill], ids=[*WRITES, "index_fill"])
def test_one_value_at_equal_indices_counts_once(write: Any) -> None:
    v = tk.tensor(3.0, requires_grad=True)
    write(tk.zeros(3), tk.asarray([0, 0]), v).sum().backward()
    assert v.grad is not None
    assert v.grad.item() == 1.0


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_only_the_value_that_persists_has_a_gradient(write: Any) -> None:
    """The cubes make the second derivatives differ from zero; finite differences and forward mode see the writes."""
    i = tk.asarray([2, -1, 0, 2])
    x, v = (tk.tensor(data, dtype=tk.float64, requires_grad=True) for data in ([4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 7.0]))

    def total(x: Tensor, v: Tensor) -> Tensor:
        return (write(x, i, v) ** 3).sum()

    total(x, v).backward()
    assert values_of(v.grad).tolist() == [0.0, 0.0, 27.0, 147.0]
    assert values_of(x.grad).tolist() == [0.0, 75.0, 0.0]
    assert gradcheck(total, (x, v), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(total, (x, v), check_batched_grad=True)
    seed = tk.tensor([1.0, 10.0, 100.0, 1000.0], dtype=tk.float64)
    _, slope = jvp(lambda v: total(x.detach(), v), (v.detach(),), (seed,))
    assert slope.item() == (values_of(v.grad) * values_of(seed)).sum()


@pytest.mark.parametrize(
    "index",
    [
        ([0, 0], slice(None)), (slice(None), [1, 1, 0]), ([[0, 1], [1, 1]], slice(None), [0, 0]),
        (slice(None), [0, 2, 0], [1, 0, 1]), (slice(1, 3), None, [0, 0]),
        (np.array([True, False, True, False]), [1, 1]), (0, [1, 1]), (slice(None), slice(None), [1, 0, 1]), ([], [0]),
    ],
    ids=repr,
)  # fmt: skip
def test_the_gradient_of_equal_indices_beside_others(index: Any) -> None:
    rng = np.random.default_rng(0)
    x = tk.tensor(rng.standard_normal((4, 3, 2)), requires_grad=True)
    shape = np.empty(x.shape)[index].shape
    for lengths in (shape, shape[-1:], ()):
        v = tk.tensor(rng.standard_normal(lengths), requires_grad=True)
        if v.size:
            assert gradcheck(lambda x, v: assigned(x, at(index), v) ** 2, (x, v), check_forward_ad=True)


def test_the_gradient_of_equal_indices_under_vmap() -> None:
    x, v = tk.zeros((3, 4)), tk.asarray([[1.0, 2.0, 3.0]] * 3)
    indices = np.array([[0, 0, 1], [1, 2, 3], [2, 2, 2]])
    want = [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]]

    def total(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
        return tk.scatter(x, i, v, axis=0).sum()

    gradient = grad(total, argnums=2)
    assert vmap(gradient)(x, tk.asarray(indices), v).tolist() == want
    assert vmap(gradient, in_dims=(None, 0, None))(x[0], tk.asarray(indices), v[0]).tolist() == want
    assert vmap(gradient, in_dims=(None, None, 0))(x[0], tk.asarray(indices[0]), v).tolist() == [want[0]] * 3


@pytest.mark.parametrize("source", [3.0, 2, (), (2, 3), (1, 3), (3,), (3, 4)], ids=repr)
def test_scatter_add_takes_what_scatter_takes(source: Any) -> None:
    rng = np.random.default_rng(3)
    x = tk.tensor(rng.standard_normal((3, 4)), requires_grad=True)
    indices = tk.asarray([[0, 0, 3], [1, -1, 1]])
    v = tk.tensor(rng.standard_normal(source), requires_grad=True) if isinstance(source, tuple) else source
    want = tk.scatter(x, indices, v, reduce="add")
    np.testing.assert_allclose(values_of(tk.scatter_add(x, indices, v)), values_of(want))
    if isinstance(v, Tensor):
        assert gradcheck(lambda x, v: tk.scatter_add(x, indices, v) ** 2, (x, v), check_forward_ad=True)
        assert gradgradcheck(lambda x, v: tk.scatter_add(x, indices, v) ** 2, (x, v))
    assert x.scatter_add(indices, v).dtype == tk.float64
    assert tk.scatter_add(tk.zeros((3, 4), dtype=tk.float16), indices, 0.5).dtype == tk.float16
