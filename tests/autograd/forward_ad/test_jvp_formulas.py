"""Forward derivatives that follow from declarations, against central differences of the operator itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.formulas.gradients import jvp_of
from tenkey.core.tensor import Tensor
from tenkey.dispatch import registry
from tenkey.dispatch.operator import Operator
from tenkey.testing import SampleInput
from tests.operators._table import SAMPLED, calls, is_probed, named, sampled

_STEP = 1e-6
_RULED = [
    op for op in SAMPLED
    if not op.schema.is_mutable and op.schema.base_name != "to_device"  # its sample goes where there are no values
    and len(op.schema.returns) == 1
    and (op.facets.keys() & {"Pointwise", "Reduce", "Vjp", "View", "NotDifferentiable", "Jvp"})
]  # fmt: skip


def _random(x: Tensor, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    values = rng.standard_normal(x.shape)
    return values + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else values


def _moved(operator: Operator, sample: SampleInput, directions: dict[int, Any], step: float) -> np.ndarray[Any, Any]:
    def move(x: Tensor) -> Tensor:
        return tk.asarray(x.numpy() + step * directions[id(x)]) if id(x) in directions else x

    return calls(operator, sample.map(move)).numpy()


def _tangent_of(operator: Operator, sample: SampleInput, tangents: dict[int, Tensor]) -> tuple[Any, Tensor]:
    """The tangent that the rule gives, and the result."""
    bound = operator.bind(*sample.args, **sample.kwargs)
    out = calls(operator, sample)
    rule = jvp_of(operator, is_complex=any(t.dtype.kind == "c" for t in sample.tensors()))
    assert rule is not None
    given: dict[str, Any] = {}
    for argument in operator.schema.arguments:
        value = bound[argument.name]
        if argument.type.is_tensor_like:
            many = isinstance(value, (list, tuple))
            given[argument.name] = [tangents.get(id(t)) for t in value] if many else tangents.get(id(value))
    return rule(given, bound, out), out


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@named([op for op in _RULED if not is_probed(op)])  # those: tests/autograd/forward_ad/test_forward_mode.py
def test_tangent_against_central_differences(operator: Operator, dtype: str) -> None:
    rng = np.random.default_rng(5)
    for sample in sampled(operator, dtype):
        if any(isinstance(v, np.dtype) and v.name not in ("float64", "complex128") for v in sample.args):
            continue
        floating = [t for t in sample.tensors() if t.dtype.kind in "fc"]
        for chosen in [floating, *([t] for t in floating if len(floating) > 1)]:
            directions = {id(t): _random(t, rng) for t in chosen}
            tangent, out = _tangent_of(operator, sample, {key: tk.asarray(d) for key, d in directions.items()})
            if "NotDifferentiable" in operator.facets or out.dtype.kind not in "fc":
                assert tangent is None
                continue
            assert (tangent.shape, tangent.dtype) == (out.shape, out.dtype), sample
            up, down = (_moved(operator, sample, directions, sign * _STEP) for sign in (1, -1))
            np.testing.assert_allclose(tangent.numpy(), (up - down) / (2 * _STEP), rtol=2e-6, atol=2e-6)


def test_the_table_is_not_empty() -> None:
    assert len(_RULED) > 60


def test_an_operator_without_a_formula_has_no_rule() -> None:
    operator = registry.define("jvp_test::opaque(Tensor x) -> Tensor")
    try:
        assert jvp_of(operator, is_complex=False) is None
    finally:
        registry.undefine(operator)


def test_a_tangent_can_be_differentiated() -> None:
    x = tk.tensor([0.3, -1.2], dtype=tk.float64, requires_grad=True)
    t = tk.tensor([2.0, 0.5], dtype=tk.float64, requires_grad=True)
    for name, second in (("sin", lambda v: -np.sin(v)), ("softmax", None)):
        operator = registry.find(f"tk::{name}")
        bound = operator.bind(x)
        rule = jvp_of(operator, is_complex=False)
        assert rule is not None
        tangent = rule({"x": t}, bound, operator.call(x))
        by_x, by_t = tk.autograd.grad(tangent.sum(), (x, t), allow_unused=second is None)
        if second is not None:
            np.testing.assert_allclose(by_x.numpy(), second(x.detach().numpy()) * t.detach().numpy(), rtol=1e-12)
            np.testing.assert_allclose(by_t.numpy(), np.cos(x.detach().numpy()), rtol=1e-12)
        else:  # the elements of a softmax sum to 1, whatever changes
            np.testing.assert_allclose(by_x.numpy(), 0, atol=1e-15)


def test_two_tangents_are_one_fused_call() -> None:
    operator = registry.find("tk::multiply")
    x, y, tx, ty = (tk.asarray([value]) for value in (2.0, 3.0, 5.0, 7.0))
    rule = jvp_of(operator, is_complex=False)
    assert rule is not None
    assert rule({"x1": tx, "x2": ty}, {"x1": x, "x2": y}, x * y).tolist() == [5.0 * 3.0 + 2.0 * 7.0]
    assert "tk::multiply_jvp_x1_x2" in registry.operators


def test_a_nan_on_the_side_that_was_not_selected_does_not_leak() -> None:
    operator = registry.find("tk::where")
    rule = jvp_of(operator, is_complex=False)
    assert rule is not None
    condition = tk.asarray([True, False])
    x = tk.zeros(2)
    tangent = rule(
        {"x1": tk.asarray([1.0, float("nan")]), "x2": tk.asarray([float("nan"), 2.0])},
        {"condition": condition, "x1": x, "x2": x},
        x,
    )
    assert tangent.tolist() == [1.0, 2.0]


def test_partials_of_tensors_and_zero_partials() -> None:
    scaled = tk.library.pointwise(
        "jvp_test::scaled(Tensor x, Tensor y) -> Tensor",
        scalar=lambda T: lambda x, y: x * x + y,
        partials=(lambda x: tk.add(x, x), None),
    )
    operator = scaled.operator
    try:
        x, y, t = (tk.asarray([value]) for value in (3.0, 4.0, 1.0))
        rule = jvp_of(operator, is_complex=False)
        assert rule is not None
        assert rule({"x": t, "y": t}, {"x": x, "y": y}, scaled(x, y)).tolist() == [6.0]
        assert rule({"x": None, "y": t}, {"x": x, "y": y}, scaled(x, y)).tolist() == [0.0]
    finally:
        registry.undefine(operator)
