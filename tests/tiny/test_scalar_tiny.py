"""Scalar expressions in a second: one path through tracing, differentiation and emission."""

from __future__ import annotations

import math

import pytest

from tenkey.ops import scalar
from tenkey.ops.scalar import Emitter, OperationTable, differentiate, evaluate, exp, tanh, trace, variable


def test_equal_expressions_are_one_object() -> None:
    x = variable("x")
    assert exp(x) + 1 is exp(x) + 1
    assert x + 1 is not x + 1.0
    assert x * 0.0 is not x * -0.0


def test_an_operator_from_text_to_value() -> None:
    sigmoid = trace(lambda T: lambda x: T(1) / (T(1) + exp(-x)), ["x"], name="sigmoid")
    assert isinstance(sigmoid, scalar.Expression)
    assert str(sigmoid) == "1 / (1 + exp(-x))"
    assert evaluate(sigmoid, {"x": 0.0}) == 0.5
    assert evaluate(differentiate(sigmoid, "x"), {"x": 0.0}) == 0.25


def test_branches_become_where() -> None:
    elu = trace(lambda T: lambda x: x if x > 0 else exp(x) - T(1), ["x"])
    assert str(elu) == "where(x > 0, x, exp(x) - 1)"


def test_derivatives_reuse_the_expression() -> None:
    x = variable("x")
    assert differentiate(scalar.exp(x), "x") is exp(x)
    assert str(differentiate(tanh(x), "x")) == "1 - tanh(x) * tanh(x)"


def test_emission_for_c() -> None:
    x = variable("x")
    entries = {"multiply": "({0} * {1})", "exp": "expf({0})"}
    table = OperationTable("C", entries).extended(constant=lambda value, kind: f"{float(value)}f")
    lines, results = Emitter(table, indent="", statement="const float {name} = {expr};").emit([exp(x) * exp(x) * 2])
    assert lines == ["const float t0 = expf(x);", "const float t1 = (t0 * t0);", "const float t2 = (t1 * 2.0f);"]
    assert results == ["t2"]


def test_math_functions_point_to_ours() -> None:
    with pytest.raises(TypeError, match=r"tk\.library\.scalar\.exp"):
        math.exp(variable("x"))
