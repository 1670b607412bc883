"""Forward derivatives that follow from declarations: operators of users, fusion, zeros and NaN.

Every built-in operator: ``tests/operators/test_forward_mode.py``.
"""

from __future__ import annotations

import numpy as np

import tenkey as tk
from tenkey.autograd.formulas.gradients import jvp_of
from tenkey.dispatch import registry


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
