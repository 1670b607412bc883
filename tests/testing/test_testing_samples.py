"""Sample inputs: Note [Where samples come from] in ``tenkey/testing/samples.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.dispatch.errors import ArgumentError
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.registry import Registry, registry
from tenkey.dispatch.schema import parse_schema
from tenkey.ops.declare.facets import Pointwise, SampleInputs
from tenkey.ops.declare.promotion import SAME
from tenkey.testing import SampleInput, accepts, samples
from tests._tiers import each
from tests.operators._table import DTYPES, SAMPLED, named


def made(operator: Operator, dtype: Any = "float32", seed: int = 0) -> list[SampleInput]:
    return list(samples(operator, np.random.default_rng(seed), dtype))


def operator_of(schema: str, **facets: Any) -> Operator:
    """An operator in a registry of its own, with these facets."""
    return Registry().define(parse_schema(schema), facets=facets)


@each("dtype", DTYPES, fast=["float32", "int64", "complex64"])
@named(SAMPLED)
def test_every_sample_is_a_valid_call(operator: Operator, dtype: str) -> None:
    found = made(operator, dtype)
    assert bool(found) == accepts(operator, dtype)
    for sample in found:
        for tensor in sample.tensors():
            assert isinstance(tensor, Tensor)
            assert tensor.size <= 64
            assert not tensor.requires_grad
        operator.call(*sample.args, **sample.kwargs)


@each("dtype", DTYPES)
@named([op for op in SAMPLED if "Pointwise" in op.facets])
def test_pointwise_data_has_the_dtype_and_lies_in_the_domain(operator: Operator, dtype: str) -> None:
    facet = operator.facets["Pointwise"]
    low, high = facet.domain
    for sample in made(operator, dtype):
        for name, tensor in zip(facet.tensors, sample.tensors(), strict=True):
            values = tensor.numpy()
            assert values.dtype == (bool if name in facet.boolean else dtype)
            if values.dtype.kind in "iu" and math.ceil(max(low, np.iinfo(dtype).min)) > math.floor(high):
                continue  # no integer of this dtype lies there
            if values.dtype.kind in "iufc":
                assert (values.real >= low).all()
                assert (values.real <= high).all()
            if values.dtype.kind == "f":  # far enough from kinks and steps for a central difference
                assert (np.abs(values - np.rint(values)) > 5e-4).all()


def test_the_layouts_that_pointwise_operators_meet() -> None:
    found = made(registry.find("tk::add"))
    by_name = {sample.name: sample for sample in found}
    assert {"contiguous", "transposed", "strided", "empty", "0-d", "repeated", "broadcast", "broadcast 0-d",
            "broadcast all", "empty broadcast"} <= set(by_name)  # fmt: skip
    assert all(t.is_contiguous for t in by_name["contiguous"].tensors())
    assert [t.strides for t in by_name["transposed"].tensors()] == [(1, 3), (1, 3)]
    assert not any(t.is_contiguous for t in by_name["strided"].tensors())
    assert [t.strides[0] for t in by_name["repeated"].tensors()] == [0, 0]
    assert all(t.ndim == 0 for t in by_name["0-d"].tensors())
    assert all(t.size == 0 for t in by_name["empty"].tensors())
    broadcast = {tuple(t.shape for t in s.tensors()) for s in found if s.name.startswith("broadcast")}
    assert {((4,), (3, 4)), ((3, 4), (4,)), ((3, 1), (3, 4)), ((3, 4), ()), ((3, 4), (2, 1, 1))} <= broadcast


def test_the_axes_that_reductions_meet() -> None:
    found = made(registry.find("tk::sum"))
    assert {(s.kwargs.get("axis"), s.kwargs.get("keepdims", False)) for s in found} >= {
        (axis, keep) for axis in (None, 0, -1, (0, 2)) for keep in (False, True)
    }
    assert {"contiguous", "transposed", "strided", "0-d", "empty", "dtype"} <= {s.name for s in found}
    # a reduction without identity is not asked for the value of nothing
    assert all(s.args[0].size or s.kwargs["axis"] == 1 for s in made(registry.find("tk::max")))


@named([op for op in SAMPLED if op.schema.is_mutable])
def test_inplace_targets_take_the_result(operator: Operator) -> None:
    for sample in made(operator):
        target, *others = sample.tensors()
        if "Inplace" in operator.facets:  # others write at places of the target
            assert np.broadcast_shapes(target.shape, *[t.shape for t in others]) == target.shape
        assert not target.size or 0 not in [step for n, step in zip(target.shape, target.strides, strict=True) if n > 1]


@named([op for op in SAMPLED if "SampleInputs" in op.facets])
def test_declared_samples_keep_their_values_in_every_layout(operator: Operator) -> None:
    groups: dict[str, list[SampleInput]] = {}
    for sample in made(operator, "complex64"):
        groups.setdefault(sample.name, []).append(sample)
    for name in ("transposed", "strided"):
        for sample, packed in zip(groups.get(name, []), groups.get("contiguous", []), strict=True):
            for a, b in zip(sample.tensors(), packed.tensors(), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
                assert name != "strided" or not a.is_contiguous or a.size < 2
            plain = [{k: v for k, v in one.kwargs.items() if not isinstance(v, Tensor)} for one in (sample, packed)]
            assert plain[0] == plain[1]


def test_indices_keep_their_dtype() -> None:
    for sample in made(registry.find("tk::take_along_axis"), "float64"):
        assert [t.dtype for t in sample.tensors()] == [np.float64, np.int64]
    for sample in made(registry.find("tk::put_"), "float64"):
        assert sample.tensors()[1].dtype in (np.int64, np.bool_)


def test_the_same_seed_gives_the_same_samples() -> None:
    for operator in (registry.find("tk::add"), registry.find("tk::sum"), registry.find("tk::matmul")):
        first, second, other = made(operator), made(operator), made(operator, seed=1)
        assert [repr(s.args) for s in first] == [repr(s.args) for s in second]
        assert [repr(s.args) for s in first] != [repr(s.args) for s in other]


def test_samples_share_no_memory() -> None:
    tensors = [t for sample in made(registry.find("tk::add")) for t in sample.tensors()]
    for i, a in enumerate(tensors):
        assert not any(tk.shares_storage(a, b) for b in tensors[:i])


def test_float32_is_the_default() -> None:
    (first, *_) = samples(registry.find("tk::exp"), np.random.default_rng(0))
    assert first.args[0].dtype == np.float32


def test_numbers_among_the_arguments() -> None:
    schema = "mine::clamp(Tensor x, float low, int n, *, bool flag, float high=2.5) -> Tensor"
    facet = Pointwise(parse_schema(schema), lambda T: lambda x, low, n, flag, high: x + low, SAME, (0.5, 1.5))
    for sample in made(operator_of(schema, Pointwise=facet)):
        tensor, low, n = sample.args
        assert isinstance(tensor, Tensor)
        assert 0.5 <= low <= 1.5
        assert (type(n), sample.kwargs) == (int, {"flag": True, "high": 2.5})


def test_samples_of_an_operator_of_ones_own() -> None:
    given = [((np.array([1.0, -2.0]), [np.array(3.0), np.array([1, 2])], "text"), {"k": (1, 2)})]
    facet = SampleInputs(lambda rng: given)
    operator = operator_of("mine::f(Tensor x, Tensor[] ys, str s, *, int[] k) -> Tensor", SampleInputs=facet)
    found = made(operator, "float64")  # there is no kernel for meta, hence no rule that could refuse a dtype
    x, (y, indices), text = found[0].args
    assert (x.tolist(), y.item(), indices.dtype, text) == ([1.0, -2.0], 3.0, np.int64, "text")
    assert found[0].kwargs == {"k": (1, 2)}


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("floor", "float32", True), ("floor", "complex64", False), ("floor", "bool", False),
        ("exp", "int64", True), ("sum", "bool", True), ("max", "complex64", False),
        ("divide_", "int64", False), ("divide_", "float32", True), ("argmax", "complex64", False),
        ("complex_from", "float64", True), ("complex_from", "int64", False), ("put_", "float32", True),
    ],
)  # fmt: skip
def test_accepts(name: str, dtype: str, expected: bool) -> None:
    operator = registry.find(f"tk::{name}")
    assert accepts(operator, dtype) is expected
    assert bool(made(operator, dtype)) is expected


def test_an_operator_without_a_rule_is_refused() -> None:
    operator = operator_of("mine::opaque(Tensor x) -> Tensor")
    with pytest.raises(ArgumentError) as caught:
        made(operator)
    assert str(caught.value) == (
        "[samples] mine::opaque has no Pointwise, Reduce or SampleInputs facet, which would declare its inputs: give "
        "its declaration sample_inputs=lambda rng: [((arguments,), {})]."
    )


def test_map_and_tensors() -> None:
    x, y = tk.ones(2), tk.zeros(3)
    sample = SampleInput((x, [y, None], 3), {"z": x, "axis": (0, 1)}, "name")
    assert [t is u for t, u in zip(sample.tensors(), [x, y, x], strict=True)] == [True] * 3
    shapes = sample.map(lambda t: t.shape)
    assert shapes == SampleInput(((2,), [(3,), None], 3), {"z": (2,), "axis": (0, 1)}, "name")
    assert sample.args[0] is x
