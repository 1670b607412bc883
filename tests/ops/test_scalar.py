"""Scalar expressions against finite differences, NumPy, SciPy-free closed forms, and Python itself."""

from __future__ import annotations

import gc
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tenkey.ops import scalar as s
from tenkey.ops.scalar import Expression, differentiate, evaluate, trace, variable
from tests._tiers import tier

X, Y = variable("x"), variable("y")

# Points inside the domain, away from kinks and jumps.
REAL = (-3.1, -1.3, -0.4, 0.3, 0.9, 2.2)
POSITIVE = (0.05, 0.4, 1.0, 2.7, 31.0)
INSIDE_ONE = (-0.97, -0.5, 0.1, 0.6, 0.95)
UNARY: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh"), REAL),
    **dict.fromkeys(("erf", "erfc", "square", "reciprocal", "cbrt", "abs", "negative"), REAL),
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt"), POSITIVE),
    **dict.fromkeys(("asin", "acos", "atanh"), INSIDE_ONE),
    **dict.fromkeys(("lgamma", "digamma"), (*POSITIVE, -0.4, -1.3, -2.5)),
    "log1p": (-0.9, -0.2, 0.0, 1e-3, 5.0),
    "acosh": (1.05, 1.7, 30.0),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "sign"), (-2.3, -0.7, 0.2, 1.6)),
}
PAIRS = ((0.7, 1.9), (-1.4, 0.6), (2.3, -0.8), (-0.5, -3.2))
BINARY: dict[str, tuple[tuple[float, float], ...]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "atan2", "hypot", "copysign", "nextafter"), PAIRS),
    **dict.fromkeys(("maximum", "minimum", "floor_divide", "remainder"), PAIRS),
    "pow": ((0.3, 2.0), (1.7, -0.6), (4.0, 0.5)),
}
STEPS = {"floor", "ceil", "trunc", "round", "sign", "floor_divide"}
COMPOSED: dict[str, tuple[Expression, tuple[float, ...]]] = {
    "sigmoid": (s.sigmoid(X), (-4.0, -0.5, 0.0, 1.2, 5.0)),
    "softplus": (s.softplus(X), (-4.0, -0.5, 1.2, 5.0)),
    "logaddexp": (s.logaddexp(X, 0.5), (-4.0, 0.4, 0.6, 5.0)),
    "clip": (s.clip(X, -1, 1), (-2.0, 0.3, 1.7)),
    "fma": (s.fma(X, 3.0, s.fma(X, X, 1.5)), REAL),
    "polynomial": (X**5 - 3 * X**2 + X / 7 - 2, REAL),
    "quotient": ((X * X + 1) / (2 + s.sin(X)), REAL),
    "power of a power": ((X * X + 1) ** s.cos(X), REAL),
    "base": (2.0**X, REAL),
    "negative exponent": (X**-3, REAL),
    "branches": (s.where(X > 1, s.exp(X), s.where(X < -1, X**3, s.tanh(X))), REAL),
}


def finite_difference(function: Callable[[float], float], x: float) -> float:
    """Central differences of order 4 (Abramowitz and Stegun 25.3.6); the step balances truncation and rounding."""
    h = 2e-4 * max(abs(x), 0.1)
    return (8 * (function(x + h) - function(x - h)) - (function(x + 2 * h) - function(x - 2 * h))) / (12 * h)


def slope_of(expression: Expression, name: str, at: dict[str, float]) -> float:
    return finite_difference(lambda value: evaluate(expression, {**at, name: value}), at[name])


def is_close(given: float, expected: float) -> bool:
    return math.isclose(given, expected, rel_tol=2e-8, abs_tol=2e-9)


# Derivatives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNARY)
def test_first_and_second_derivative_of_one_argument(name: str) -> None:
    expression = s.make(name, X)
    first = differentiate(expression, "x")
    for x in UNARY[name]:
        assert is_close(evaluate(first, {"x": x}), slope_of(expression, "x", {"x": x})), (x, str(first))
    assert (name in STEPS) == (first is s.constant(0))
    if name == "digamma":
        return
    second = differentiate(first, "x")
    for x in UNARY[name]:
        assert is_close(evaluate(second, {"x": x}), slope_of(first, "x", {"x": x})), (x, str(second))


@pytest.mark.parametrize("name", BINARY)
def test_first_and_second_derivatives_of_two_arguments(name: str) -> None:
    expression = s.make(name, X, Y)
    for x, y in BINARY[name]:
        at = {"x": x, "y": y}
        for one, first in s.differentiate_all(expression, "xy").items():
            assert is_close(evaluate(first, at), slope_of(expression, one, at)), (at, one, str(first))
            for other, second in s.differentiate_all(first, "xy").items():
                assert is_close(evaluate(second, at), slope_of(first, other, at)), (at, one, other, str(second))


@pytest.mark.parametrize("name", COMPOSED)
def test_three_orders_of_composed_functions(name: str) -> None:
    expression, points = COMPOSED[name]
    for _ in range(3):
        derivative = differentiate(expression, "x")
        for x in points:
            assert is_close(evaluate(derivative, {"x": x}), slope_of(expression, "x", {"x": x})), (x, str(derivative))
        expression = derivative


def test_every_operation_has_a_rule_a_reference_and_a_test() -> None:
    tested = {*UNARY, *BINARY, "fma", "where", "eps", "trigamma"}
    untested = {name for name, entry in s.OPERATIONS.items() if entry.kind == "number" and name not in tested}
    assert all(name.startswith("bitwise_") for name in untested)
    for name, entry in s.OPERATIONS.items():
        node = s.make(name, *(X > 0 if kind == "boolean" else X for kind in entry.operand_kinds))
        assert isinstance(evaluate(node, {"x": 2 if name.startswith("bitwise") else 0.5}), float | int)
        if name != "trigamma":
            differentiate(node, "x")


def test_a_missing_rule_is_a_clear_error() -> None:
    with pytest.raises(s.UnsupportedDerivativeError, match=r"'trigamma' in `trigamma\(x\)`.*partials="):
        differentiate(s.trigamma(X) + 1, "x")
    assert differentiate(s.trigamma(X) + Y, "y") is s.constant(1)


def test_derivatives_reuse_nodes() -> None:
    assert differentiate(s.exp(X), "x") is s.exp(X)
    assert differentiate(s.sqrt(X), "x") is s.make("divide", 0.5, s.sqrt(X))
    assert differentiate(s.tanh(X), "x") is 1 - s.tanh(X) * s.tanh(X)
    assert differentiate(X**2, "x") is 2 * X
    assert differentiate(X**1, "x") is s.constant(1)
    assert differentiate(X**0, "x") is s.constant(0)
    assert differentiate(s.exp(Y), "x") is s.constant(0)
    assert differentiate(s.make("negative", -s.exp(X)), "x") is s.exp(X)


def test_ties() -> None:
    for tie in (s.maximum(X, Y), s.minimum(X, Y)):
        assert [evaluate(d, {"x": 2.0, "y": 2.0}) for d in s.differentiate_all(tie, "xy").values()] == [0.5, 0.5]
    assert evaluate(differentiate(s.clip(X, 0, 1), "x"), {"x": 1.0}) == 0.5
    assert evaluate(differentiate(s.clip(X, 0, 1), "x"), {"x": 0.0}) == 0.5
    assert evaluate(differentiate(abs(X), "x"), {"x": 0.0}) == 0
    assert evaluate(differentiate(s.hypot(X, Y), "x"), {"x": 0.0, "y": 0.0}) == 0


def test_where_does_not_leak() -> None:
    safe_log = s.where(X > 0, s.log(X), 0)
    safe_root = s.where(X > 0, s.sqrt(X), X * 3)
    for expression, expected in ((safe_log, 0), (safe_root, 3)):
        derivative = differentiate(expression, "x")
        assert evaluate(derivative, {"x": 0.0}) == expected
        assert evaluate(derivative, {"x": -1.0}) == expected
        assert evaluate(differentiate(derivative, "x"), {"x": -1.0}) == 0


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 2.0, 0.5, -1])
def test_pow_at_zero(exponent: float) -> None:
    expected = {0: 0.0, 1: 1.0, 0.5: math.inf, -1: -math.inf}.get(exponent, 0.0)
    constant_exponent = evaluate(differentiate(X**exponent, "x"), {"x": 0.0})
    variable_exponent = evaluate(differentiate(X**Y, "x"), {"x": 0.0, "y": exponent})
    assert constant_exponent == variable_exponent == expected
    for_exponent = evaluate(differentiate(X**Y, "y"), {"x": 0.0, "y": exponent})
    assert for_exponent == (0 if exponent >= 0 else -math.inf)


def test_pow_of_negative_base() -> None:
    assert evaluate(differentiate(X**3, "x"), {"x": -2.0}) == 12
    assert evaluate(differentiate(differentiate(X**3, "x"), "x"), {"x": -2.0}) == -12
    assert evaluate(differentiate(X**-2, "x"), {"x": -2.0}) == 0.25


def in_float32(expression: Expression, x: float) -> float:
    """The value when every constant and step is float32, as in a kernel."""
    table = s.NUMPY.extended(constant=lambda value, kind: f"np.float32({value!r})")
    source = s.function_source("f", ["x"], [expression], table)
    namespace: dict[str, Any] = {}
    exec("\n".join([*table.imports, source]), namespace)
    with np.errstate(all="ignore"):
        result = namespace["f"](np.array([x], dtype=np.float32))
    assert result.dtype == np.float32
    return float(result[0])


@pytest.mark.parametrize("form", ["1 / (1 + exp(-x))", "1 / (exp(-x) + 1.0)", "reciprocal(1 + exp(-x))", "sigmoid(x)"])
def test_logistic_quotient(form: str) -> None:
    quotient = eval(form, {**vars(s), "x": X})
    first = differentiate(quotient, "x")
    for x in (-200.0, -95.0, -89.0, -40.0, 0.0, 3.0, 200.0):
        exact = math.exp(-abs(x)) / (1 + math.exp(-abs(x))) ** 2
        assert in_float32(first, x) == pytest.approx(exact, rel=1e-5, abs=1e-37)
        assert math.isfinite(in_float32(differentiate(first, "x"), x))


def test_quotients_that_only_look_logistic() -> None:
    for expression in (2 / (1 + s.exp(X)), 1 / (2 + s.exp(X)), 1 / (1 - s.exp(X)), 1 / (1 + s.exp2(X))):
        derivative = differentiate(expression, "x")
        assert is_close(evaluate(derivative, {"x": 0.7}), slope_of(expression, "x", {"x": 0.7}))


def test_smooth_at_the_tie() -> None:
    softplus, both = s.softplus(X), s.logaddexp(X, Y)
    assert evaluate(differentiate(softplus, "x"), {"x": 0.0}) == 0.5
    assert evaluate(differentiate(differentiate(softplus, "x"), "x"), {"x": 0.0}) == 0.25
    at = {"x": 1.5, "y": 1.5}
    assert evaluate(differentiate(both, "x"), at) == evaluate(differentiate(both, "y"), at) == 0.5
    assert evaluate(differentiate(differentiate(both, "x"), "y"), at) == -0.25
    for x in (-1e3, -89.0, 89.0, 1e3):
        assert in_float32(differentiate(softplus, "x"), x) == pytest.approx(float(x > 0), abs=1e-37)


def test_no_early_overflow() -> None:
    assert in_float32(differentiate(1 / X, "x"), 1e15) == pytest.approx(-1e-30)
    slope = differentiate(s.atan2(X, 1e-25), "x")
    assert in_float32(slope, 1e-25) == pytest.approx(5e24, rel=1e-5)
    assert in_float32(differentiate(s.acosh(X), "x"), 1e25) == pytest.approx(1e-25, rel=1e-5)


# Random expressions ----------------------------------------------------------------------------------------------

# Without two whole constants that may meet: NumPy divides Python ints by 0 in another way than it divides floats.
LEAVES = st.sampled_from([X, Y, s.constant(2.0), s.constant(-1.5), s.constant(0.0), s.constant(1.0)])
# Correctly rounded by IEEE 754, so that Python and NumPy must agree to the last bit. Without copysign: the sign of the
# nan that, say, sqrt(-1) gives is not defined, and copysign would show it.
EXACT_UNARY = ("negative", "abs", "sqrt", "square", "floor", "ceil", "trunc", "round", "sign")
EXACT_BINARY = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder")
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def extreme(name: str, a: Expression, b: Expression) -> Expression:
    """The larger or smaller of two, and 0.0 for a zero: which of 0.0 and -0.0 it is, NumPy does not define."""
    return s.make("add", s.make(name, a, b), s.constant(0.0))


def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    conditions = st.builds(s.make, st.sampled_from(COMPARISONS), inner, inner)
    conditions |= st.builds(s.make, st.sampled_from(("isnan", "isinf", "isfinite")), inner)
    logic = ("logical_and", "logical_or", "logical_xor")
    conditions |= st.builds(s.make, st.sampled_from(logic), conditions, conditions) | st.builds(
        s.logical_not, conditions
    )
    return (
        st.builds(s.make, st.sampled_from(EXACT_UNARY), inner)
        | st.builds(s.make, st.sampled_from(EXACT_BINARY), inner, inner)
        | st.builds(extreme, st.sampled_from(("maximum", "minimum")), inner, inner)
        | st.builds(s.where, conditions, inner, inner)
    )


EXACT = st.recursive(LEAVES, grow, max_leaves=12)
SMOOTH = st.recursive(
    st.sampled_from([X, Y, s.constant(0.5)]),
    lambda inner: (
        st.builds(s.make, st.sampled_from(("sin", "cos", "tanh", "atan", "negative")), inner)
        | st.builds(s.sigmoid, inner)
        | st.builds(s.make, st.sampled_from(("add", "subtract", "multiply")), inner, inner)
    ),
    max_leaves=8,
)


def run(table: s.OperationTable, outputs: list[Expression], **arguments: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec("\n".join([*table.imports, s.function_source("f", list(arguments), outputs, table)]), namespace)
    return namespace["f"](**arguments)


@pytest.mark.wider
@settings(max_examples=tier(37, 150), deadline=None)
@given(EXACT)
def test_emitted_code_equals_evaluate(expression: Expression) -> None:
    x = np.array([0.0, 1.0, -2.5, 3.25, -0.75, math.inf, math.nan, 1e300, 2.5])
    y = np.array([0.5, -1.0, -2.5, 0.0, 7.0, 2.0, 1.0, -1e300, math.inf])
    expected = [evaluate(expression, {"x": a, "y": b}) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    in_python = [run(s.PYTHON, [expression], x=a, y=b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    np.testing.assert_array_equal(in_python, expected)
    with np.errstate(all="ignore"):
        in_numpy = run(s.NUMPY, [expression], x=x, y=y)
    np.testing.assert_array_equal(np.broadcast_to(in_numpy, x.shape), expected)


@pytest.mark.parametrize("name", [name for name, entry in s.OPERATIONS.items() if entry.kind == "number"])
def test_each_operation_in_python_and_numpy(name: str) -> None:
    if name.startswith("bitwise"):
        samples: list[tuple[float, ...]] = [(5, 3), (12, 1), (-7, 2)]
    else:
        edges = (0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -37.0, 710.0, math.inf, -math.inf, math.nan)
        samples = [(a, b, c) for a in edges for b in edges for c in (2.0, -0.25)]
    kinds = s.OPERATIONS[name].operand_kinds
    expression = s.make(name, *(variable(f"v{i}") for i in range(len(kinds))))
    parameters = [f"v{i}" for i in range(3)][: len(samples[0])]
    expected = [evaluate(expression, dict(zip(parameters, sample, strict=True))) for sample in samples]
    in_python = [run(s.PYTHON, [expression], **dict(zip(parameters, sample, strict=True))) for sample in samples]
    np.testing.assert_array_equal(in_python, expected)
    columns = dict(zip(parameters, np.array(samples).T, strict=True))
    with np.errstate(all="ignore"):
        in_numpy = np.broadcast_to(run(s.NUMPY, [expression], **columns), len(samples))
    np.testing.assert_allclose(in_numpy, expected, rtol=4e-15, atol=1e-300)


@pytest.mark.wider
@settings(max_examples=tier(25, 100), deadline=None)
@given(SMOOTH, st.floats(-2, 2), st.floats(-2, 2))
def test_random_derivatives(expression: Expression, x: float, y: float) -> None:
    at = {"x": x, "y": y}
    for name, derivative in s.differentiate_all(expression, "xy").items():
        # The step is as small as 2e-5, so rounding of a value of size 1 shows up at about 1e-11.
        scale = max(1.0, abs(evaluate(expression, at)))
        assert evaluate(derivative, at) == pytest.approx(slope_of(expression, name, at), rel=1e-6, abs=1e-8 * scale)


@pytest.mark.wider
@settings(max_examples=tier(37, 150), deadline=None)
@given(EXACT)
def test_text_is_source_of_the_expression(expression: Expression) -> None:
    for node in s.topological_order([expression]):  # Python itself computes 1 + 2
        assume(not node.operands or any(s.free_variables(operand) for operand in node.operands))
        assume(node.operation not in COMPARISONS or s.free_variables(node.operands[0]))  # 2 < x is x > 2 to Python
    text = str(expression)
    assume("..." not in text)
    value = eval(text, {**vars(s), "x": X, "y": Y})
    assert (value if isinstance(value, Expression) else s.constant(value)) is expression


@pytest.mark.parametrize(
    "text",
    ["(x + y) * x", "x - (y - x)", "x**-y", "(-x)**2", "-x**2", "x**y**2", "(x**y)**2", "(x < y) & ~(x > 0)",
     "x // y % 2", "(x & 3) << 2", "-(x + y)", "x / (y * x)", "2.0**x", "(-1.5)**x"],
)  # fmt: skip
def test_precedence(text: str) -> None:
    assert str(eval(text, {"x": X, "y": Y})) == text


# Tracing ---------------------------------------------------------------------------------------------------------


def leaky(T: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        if x > 1:
            return x
        if x < -1:
            return T(0.5) * x
        return max(x, T(0)) + min(x, T(0)) * T(0.25)

    return function


BRANCHING: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "if": leaky,
    "and": lambda T: lambda x: T(1) if x > 0 and x < 1 else T(0),
    "or": lambda T: lambda x: T(1) if x < 0 or x > 1 else x,
    "not": lambda T: lambda x: T(1) if not x > 0 else x,
    "chain": lambda T: lambda x: x if 0 < x < 1 else -x,
    "truth": lambda T: lambda x: T(3) if x else T(4),
    "bounded loop": lambda T: lambda x: sum((T(i) for i in range(5) if x > i), T(0)),
    "same question twice": lambda T: lambda x: (T(1) if x > 0 else T(2)) + (T(10) if x > 0 else T(20)),
    "inverted question": lambda T: lambda x: (T(1) if x > 0 else T(2)) + (T(10) if ~(x > 0) else T(20)),
}


@pytest.mark.parametrize("name", [name for name in BRANCHING if name != "inverted question"])
def test_branches_equal_python(name: str) -> None:
    expression = trace(BRANCHING[name], ["x"])
    assert isinstance(expression, Expression)
    plain = BRANCHING[name](s.PlainTypeMaker())
    for x in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.5, 9.0):
        assert evaluate(expression, {"x": x}) == plain(x)


def test_questions_are_asked_once() -> None:
    assert str(trace(BRANCHING["same question twice"], ["x"])) == "where(x > 0, 1 + 10, 2 + 20)"
    assert str(trace(BRANCHING["inverted question"], ["x"])) == "where(x > 0, 1 + 20, 2 + 10)"


def test_conditions_as_results() -> None:
    assert str(trace(lambda T: lambda x: 0 < x < 1, ["x"])) == "(x > 0) & (x < 1)"
    assert str(trace(lambda T: lambda x: x < 0 or x > 1, ["x"])) == "(x < 0) | (x > 1)"
    assert str(trace(lambda T: lambda x: not x > 0, ["x"])) == "~(x > 0)"
    assert str(trace(lambda T: lambda x, c: x if c else -x, ["x", "c"], booleans=["c"])) == "where(c, x, -x)"


def test_tuples_and_constants() -> None:
    both = trace(lambda T: lambda x: (x, x + 1) if x > 0 else (T(0), 2), ["x"])
    assert isinstance(both, tuple)
    assert [str(output) for output in both] == ["where(x > 0, x, 0)", "where(x > 0, x + 1, 2)"]
    assert trace(lambda T: lambda x: 3, ["x"]) is s.constant(3)
    assert trace(lambda T: lambda: T.pi, []) is s.constant(math.pi)
    assert str(trace(lambda T: lambda x: T(x > 0) + T.eps, ["x"])) == "where(x > 0, 1, 0) + eps"
    assert trace(lambda T: lambda x: x if T(1) < T(2) else -x, ["x"]) is X  # needs no path of its own


def endless(T: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        while x < 100:
            x = x * 2
        return x

    return function


def unequal(T: Any) -> Callable[..., Any]:
    return lambda x: (x, x) if x > 0 else x


def unsteady(T: Any) -> Callable[..., Any]:
    thresholds = iter(range(100))
    return lambda x: x if x > next(thresholds) else -x


@pytest.mark.parametrize(
    ("function", "parameters", "words"),
    [
        (lambda T: lambda x, y: x, ["x"], r"takes \(x, y\).*1 parameter"),
        (lambda T: lambda x: None, ["x"], "returned None of type NoneType"),
        (lambda T: lambda x: "text", ["x"], "of type str"),
        (lambda T: lambda x: math.exp(-x), ["x"], r"raised TypeError at .*test_scalar\.py.*tk\.library\.scalar\.exp"),
        (lambda T: lambda x: np.exp(-x), ["x"], r"raised TypeError.*tk\.library\.scalar"),
        (lambda T: lambda x: x.shape, ["x"], "raised AttributeError.*shape"),
        (lambda T: lambda x: [1, 2][x], ["x"], r"raised TypeError.*indexing"),
        (lambda T: lambda x: T.tau, ["x"], "raised AttributeError"),
        (lambda T: lambda x: x + "a", ["x"], "raised TypeError"),
        (lambda T: lambda x: s.make("exp", None), ["x"], "real Python number, got None"),
        (lambda x: s.exp(-x), ["x"], "calling it with T raised TypeError.*lambda T: lambda x"),
        (lambda T: 1, ["x"], "it returned 1"),
        (endless, ["x"], r"more than 64 ways.*where\(condition, a, b\)"),
        (lambda T: lambda x: sum(T(1) for i in range(99) if x > i), ["x"], "more than 64 ways"),
        (unequal, ["x"], r"2 value\(s\).*every branch"),
        (unsteady, ["x"], "depend only on its parameters"),
    ],
)
def test_trace_errors(function: Any, parameters: list[str], words: str) -> None:
    with pytest.raises(s.ScalarTraceError, match=rf"(?s)\[my_op\].*{words}"):
        trace(function, parameters, name="my_op")
    assert issubclass(s.ScalarTraceError, TypeError)


def test_errors_outside_of_a_trace() -> None:
    with pytest.raises(TypeError, match=r"truth value.*where\(condition, a, b\)"):
        bool(X > 0)
    for convert in (float, int, complex, math.sin, range):
        with pytest.raises(TypeError, match=r"tk\.library\.scalar"):
            convert(X)
    with pytest.raises(TypeError, match="not by Expression"):
        Expression()
    with pytest.raises(AttributeError, match="immutable"):
        X.name = "z"
    with pytest.raises(ValueError, match="identifier"):
        variable("lambda")
    with pytest.raises(ValueError, match="unknown scalar operation 'exq'"):
        s.make("exq", X)
    with pytest.raises(TypeError, match="takes 2 operands, got 1"):
        s.make("add", X)
    with pytest.raises(ValueError, match="must differ"):
        trace(lambda T: lambda x, y: x, ["x", "x"])
    with pytest.raises(KeyError, match="no value for variable 'x'"):
        evaluate(X, {})
    assert (X == "text") is False


# Expressions and emission ----------------------------------------------------------------------------------------


def test_numpy_scalars_mix_in() -> None:
    assert np.float64(2.5) * X is 2.5 * X
    assert X + np.int64(3) is X + 3  # type: ignore[operator]
    assert X + np.float32(0.5) is X + 0.5  # type: ignore[operator]
    assert s.where(np.True_, X, Y) is X  # type: ignore[call-overload]
    array: Any = np.zeros(3)
    with pytest.raises(TypeError, match="does not support ufuncs"):
        operator.add(X, array)


def test_kinds() -> None:
    condition = X > 0
    assert (condition.kind, (condition & (Y > 0)).operation, (~condition).operation) == (
        "boolean",
        "logical_and",
        "logical_not",
    )
    assert ((X & Y).operation, (X << 2).operation, (~X).operation) == (
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_invert",
    )
    assert str(condition * X) == "where(x > 0, 1, 0) * x"
    assert str(s.where(X, Y, 0)) == "where(x != 0, y, 0)"
    assert s.where(condition, Y > 0, Y < 0).kind == "boolean"
    assert (round(X), math.floor(X), math.ceil(X), math.trunc(X)) == (s.round(X), s.floor(X), s.ceil(X), s.trunc(X))
    assert divmod(X, 2) == (X // 2, X % 2)


def test_dead_expressions_leave_the_table() -> None:
    from tenkey.ops.scalar import expression as module

    gc.collect()
    before = len(module._nodes)
    node = X
    for _ in range(20_000):
        node = node * Y + 1
    assert len(module._nodes) >= before + 39_000  # what others held may have died meanwhile
    del node
    gc.collect()
    assert len(module._nodes) <= before + 1  # the constant 1 may be held elsewhere


def test_deep_chains() -> None:
    def deep(T: Any) -> Callable[..., Any]:
        def function(x: Any, y: Any) -> Any:
            total = x
            for i in range(10_000):
                total = -total if i % 3 == 0 else total + y if i % 3 == 1 else s.sin(total)
            return total

        return function

    expression = trace(deep, ["x", "y"])
    assert isinstance(expression, Expression)
    negated = X
    for _ in range(10_000):
        negated = -negated
    derivative = differentiate(expression * negated, "y")
    value = evaluate(expression, {"x": 0.3, "y": 0.2})
    assert run(s.PYTHON, [expression], x=0.3, y=0.2) == value
    assert math.isfinite(evaluate(derivative, {"x": 0.3, "y": 0.2}))
    assert s.substitute(expression, {"x": X, "y": 0.2}) is not expression
    assert s.free_variables(expression) == {"x", "y"}
    assert hash(expression) == hash(trace(deep, ["x", "y"]))
    assert len(str(expression)) < 1000


def test_shared_expressions_print_and_differentiate_in_linear_size() -> None:
    node = X
    for _ in range(60):  # as a tree: 2**60 leaves
        node = node * node
    assert len(str(node)) < 2000
    assert len(s.topological_order([differentiate(node, "x")])) < 300
    assert len(s.Emitter(s.PYTHON).emit([node])[0]) == 60


def test_substitute_and_questions() -> None:
    expression = s.where(X > Y, s.exp(X), 2)
    assert s.substitute(expression, {"x": Y, "y": X}) is s.where(Y > X, s.exp(Y), 2)
    assert s.operations(expression) == {"where", "greater", "exp"}
    assert s.free_variables(s.constant(1)) == frozenset()


def test_emitter_for_another_language() -> None:
    table = s.OperationTable(
        "OpenCL C",
        {
            "where": "({0} ? {1} : {2})",
            "greater": "({0} > {1})",
            "pow": lambda node, x, y: f"({x} * {x})" if node.operands[1] is s.constant(2) else f"pow({x}, {y})",
            "constant": lambda value, kind: f"{float(value)}f",
        },
    )
    statement = {"number": "const float {name} = {expr};", "boolean": "const int {name} = {expr};"}
    emitter = s.Emitter(table, indent="  ", prefix="v", statement=statement)
    other = variable("v0")
    outputs = [s.where(s.make("greater", X, other), X**2, 0), X, X**2]
    lines, results = emitter.emit(outputs, names={"x": "x[i]"}, reserved=["v1"])
    assert lines == [
        "  const int v2 = (x[i] > v0);",
        "  const float v3 = (x[i] * x[i]);",
        "  const float v4 = (v2 ? v3 : 0.0f);",
    ]
    assert results == ["v4", "x[i]", "v3"]
    with pytest.raises(s.UnsupportedOperationError, match="'exp' cannot be written for OpenCL C"):
        emitter.emit([s.exp(X)])
    with pytest.raises(NotImplementedError, match="'exp' cannot be written for this target"):
        s.Emitter({}).emit([s.exp(X)])


def test_emission_depends_on_structure_alone() -> None:
    def build() -> list[str]:
        order = [variable(f"p{i}") for i in random.sample(range(10), 10)]
        by_name = sorted(order, key=str)
        return s.Emitter(s.NUMPY).emit([sum(by_name[1:], by_name[0]), by_name[3] * by_name[4]])[0]

    assert build() == build()


def test_special_functions_at_known_values() -> None:
    # DLMF 5.4.12-13, 5.15: digamma(1) = -gamma, digamma(1/2) = -gamma - 2 ln 2, trigamma(1/2) = pi**2/2.
    gamma = 0.57721566490153286
    assert s.digamma(1.0) == pytest.approx(-gamma, rel=1e-15)
    assert s.digamma(0.5) == pytest.approx(-gamma - 2 * math.log(2), rel=1e-15)
    assert s.trigamma(0.5) == pytest.approx(math.pi**2 / 2, rel=1e-14)
    assert s.trigamma(-0.5) == pytest.approx(math.pi**2 / 2 + 4, rel=1e-14)
    assert s.trigamma(1e-300) == s.trigamma(5e-324) == math.inf
    assert s.fma(1 + 2.0**-30, 1 - 2.0**-30, -1.0) == -(2.0**-60)
    assert math.copysign(1, s.round(-0.4)) == -1
    assert [s.round(v) for v in (0.5, 1.5, 2.5, -0.5)] == [0, 2, 2, 0]
    assert math.isnan(s.pow(-8.0, 1 / 3))
    assert (s.pow(0.0, -1.0), s.pow(-0.0, -3), s.exp(1e4)) == (math.inf, -math.inf, math.inf)
