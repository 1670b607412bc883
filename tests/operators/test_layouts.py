"""Layouts and aliasing: what lies with gaps or transposed gives what its packed copy gives, and only views share."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.tags import Tag
from tests._tiers import each
from tests.operators._table import SAMPLED, arrays, calls, named, results, sampled

# Loops over memory with and without gaps may sum in another order, or use another instruction.
_ULPS = 4
_MAY_ALIAS = {  # give the tensor or a window where nothing has to be copied
    "to", "to_device", "astype", "reshape", "ravel", "atleast_1d", "atleast_2d", "atleast_3d", "unstack", "split_at",
    "diag",
}  # fmt: skip
_VIEWS = {op.schema.base_name for op in SAMPLED if "View" in op.facets} | {  # and composites of views
    "matrix_transpose", "transpose", "expand_as", "moveaxis", "swapaxes", "diagonal",
}  # fmt: skip


@each("dtype", ["float32", "int64", "bool", "complex64"], fast=["float32", "int64"])
@named(SAMPLED)
def test_layout_does_not_matter(operator: Operator, dtype: str) -> None:
    if Tag.NONDETERMINISTIC in operator.tags or operator.schema.base_name == "to_device":
        pytest.skip("its values are not defined, or not there")
    seen = set()
    for sample in sampled(operator, dtype):
        seen.add(sample.name)
        packed = sample.map(lambda tensor: tk.tensor(np.ascontiguousarray(tensor.numpy()).reshape(tensor.shape)))
        assert all(t.is_contiguous for t in packed.tensors())
        for one, other in zip(results(operator, sample), results(operator, packed), strict=True):
            got, want = one.numpy(), other.numpy()
            assert got.dtype == want.dtype
            if got.dtype.kind in "fc":
                eps = float(np.finfo(got.dtype).eps)
                np.testing.assert_allclose(got, want, rtol=_ULPS * eps, atol=_ULPS * eps)
            else:
                np.testing.assert_array_equal(got, want, strict=True)
    assert not seen or {"contiguous", "transposed", "strided"} <= seen


@named([op for op in SAMPLED if not op.schema.is_mutable and op.schema.base_name not in _MAY_ALIAS | _VIEWS])
def test_results_have_memory_of_their_own(operator: Operator) -> None:
    for sample in sampled(operator, "float32"):
        before = arrays(sample)
        for result in results(operator, sample):
            if str(result.device) == "meta":
                continue
            for tensor in sample.tensors():
                assert not tk.shares_storage(result, tensor), sample
                assert not np.shares_memory(result.numpy(), tensor.numpy())
            if result.size and operator.schema.base_name not in {"argmax", "argmin"}:
                result.numpy()[...] = 1
        for tensor, values in zip(sample.tensors(), _flat(before.args), strict=False):
            np.testing.assert_array_equal(tensor.numpy(), values)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "complex64"])
def test_results_that_equal_an_argument_have_memory_of_their_own(dtype: str) -> None:
    """Integers are whole already, and one element of bools is its own maximum."""
    wrong = {
        f"{operator.name}: {sample.name}"
        for operator in SAMPLED
        if not operator.schema.is_mutable and operator.schema.base_name not in _MAY_ALIAS | _VIEWS
        for sample in sampled(operator, dtype)
        for result in results(operator, sample)
        if any(tk.shares_storage(result, tensor) for tensor in sample.tensors() if tensor.size)
    }
    assert not wrong
    one = tk.ones((2, 1), dtype=dtype)
    assert not tk.shares_storage(tk.any(one, axis=1), one)
    if dtype != "complex64":
        assert not tk.shares_storage(tk.max(one, axis=1), one)


def _flat(values: object) -> list[np.ndarray]:
    if isinstance(values, np.ndarray):
        return [values]
    return [a for v in values for a in _flat(v)] if isinstance(values, (list, tuple)) else []


@named([op for op in SAMPLED if op.schema.base_name in _VIEWS])
def test_views_share_storage_and_version(operator: Operator) -> None:
    for sample in sampled(operator, "float32"):
        source: Tensor = sample.args[0]
        made = calls(operator, sample)
        if operator.schema.base_name == "reshape" and not source.is_contiguous:
            continue  # which of them can be windows has a test of its own
        assert tk.shares_storage(made, source), sample
        assert made._version == source._version
        if not made.size:
            continue
        assert np.shares_memory(made.numpy(), source.numpy())
        source.add_(1.0)
        assert made._version == source._version == 1
        again = calls(operator, sample)
        np.testing.assert_array_equal(made.numpy(), again.numpy())  # the view has seen the change


@pytest.mark.parametrize(
    ("shape", "axes", "target", "is_view"),
    [
        ((2, 3), (0, 1), (6,), True),
        ((2, 3), (1, 0), (6,), False),
        ((2, 3, 4), (1, 0, 2), (3, 2, 2, 2), True),
        ((2, 3, 4), (1, 0, 2), (6, 4), False),
        ((2, 1, 3), (1, 0, 2), (6,), True),
        ((2, 3, 4), (0, 2, 1), (2, 4, 3, 1), True),
        ((2, 3), (1, 0), (3, 2), True),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_reshape_is_a_view_where_it_can_be(
    shape: tuple[int, ...], axes: tuple[int, ...], target: tuple[int, ...], is_view: bool, device: str
) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    moved = tk.permute_dims(tk.asarray(values).to_device(device), axes)
    made = tk.reshape(moved, target)
    assert tk.shares_storage(made, moved) == is_view
    if device == "cpu":
        np.testing.assert_array_equal(made.numpy(), values.transpose(axes).reshape(target))


def test_conversions_give_the_tensor_where_nothing_changes() -> None:
    x = tk.ones(3)
    assert tk.astype(x, tk.float32, copy=False) is x
    assert not tk.shares_storage(tk.astype(x, tk.float32), x)
    assert not tk.shares_storage(tk.astype(x, tk.float64, copy=False), x)
    assert x.to_device("cpu") is x


def test_results_are_contiguous() -> None:
    x = tk.ones((3, 4))
    for made in (tk.flip(x), x.clone(), tk.concat([x, x]), tk.matmul(x, tk.ones((4, 2)))):
        assert made.is_contiguous


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_elements_that_share_their_memory_are_not_written(device: str) -> None:
    x = tk.zeros((1, 2), device=device)
    wide = tk.broadcast_to(x, (3, 2))
    text = r"^\[{}\] unsupported operation: more than one element of the written-to tensor refers to a single memory"
    with pytest.raises(RuntimeError, match=text.format("add_")):
        wide += 1
    with pytest.raises(RuntimeError, match=text.format("index_put")):
        wide[:] = 1.0
    with pytest.raises(RuntimeError, match=text.format("index_put")):
        wide[[0, 1]] = 1.0
    assert x._version == 0
    assert device == "meta" or x.tolist() == [[0.0, 0.0]]
    copied = wide.clone()
    copied += 1
    assert copied.shape == (3, 2)


def test_broadcast_views_repeat_without_memory() -> None:
    x = tk.asarray([1.0, 2.0])
    wide = tk.broadcast_to(x, (1000, 2))
    assert wide.strides == (0, 1)
    assert tk.sum(wide, axis=0).tolist() == [1000.0, 2000.0]
