"""What is wrong with a one-expression operator is said when it is declared, and nothing of it stays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import RegistrationError
from tenkey.dispatch.registry import registry
from tenkey.library import SAME, pointwise, reduction
from tenkey.library import scalar as s
from tenkey.ops.scalar import ScalarTraceError

NS = "declaration_errors"
REDUCE = "Tensor x, *, int[1]? axis=None, bool keepdims=False"


def refused(make: Callable[[], Any], error: type[Exception], *parts: str) -> None:
    before = dict(registry.operators)
    with pytest.raises(error) as caught:
        make()
    text = str(caught.value)
    for part in (f"[{NS}::wrong]", *parts):
        assert part in text, text
    assert registry.operators == before
    assert not isinstance(caught.value, AttributeError | AssertionError | RecursionError)


def one(**options: Any) -> Callable[[], Any]:
    options = {"scalar": lambda T: lambda x: s.sin(x), **options}
    return lambda: pointwise(f"{NS}::wrong(Tensor x) -> Tensor", **options)


def two(**options: Any) -> Callable[[], Any]:
    options = {"scalar": lambda T: lambda x, y: x * y, **options}
    return lambda: pointwise(f"{NS}::wrong(Tensor x, Tensor y) -> Tensor", **options)


def reduce(**options: Any) -> Callable[[], Any]:
    return lambda: reduction(f"{NS}::wrong({REDUCE}) -> Tensor", **options)


class TestScalar:
    @pytest.mark.parametrize(
        "scalar",
        [lambda x: x, lambda x: x * 2, lambda x: s.sin(x), lambda x: x + 1.0, s.sin, s.exp, lambda x, y: x + y,
         lambda T: T, lambda T: 3, lambda T: T(1), 5, None, "x + 1", lambda: 1],
    )  # fmt: skip
    def test_without_the_outer_function(self, scalar: Any) -> None:
        refused(one(scalar=scalar), ScalarTraceError, "must be a function of T", "scalar=lambda T: lambda x: ...")

    @pytest.mark.parametrize(
        ("body", "part"),
        [
            (lambda x: np.sin(x), "tk.library.scalar"),
            (lambda x: math.sin(x), "tk.library.scalar.exp instead of math.exp"),
            (lambda x: float(x), "T(...) instead of float(...)"),
            (lambda x: "a", "must return a scalar expression"),
            (lambda x: None, "must return a scalar expression"),
            (lambda x: x.shape, "raised AttributeError"),
            (lambda x: [1, 2][x], "indexing"),
            (lambda x: (x, x), "returns 2 values"),
            (lambda x, y: x, "takes (x, y)"),
            (lambda: 1, "takes ()"),
        ],
    )
    def test_bodies(self, body: Any, part: str) -> None:
        before = dict(registry.operators)
        with pytest.raises((ScalarTraceError, RegistrationError)) as caught:
            one(scalar=lambda T: body)()
        assert part in str(caught.value)
        assert f"[{NS}::wrong" in str(caught.value)
        assert registry.operators == before

    def test_a_loop_without_an_end(self) -> None:
        def function(x: Any) -> Any:
            while x > 1:
                x = x / 2
            return x

        refused(one(scalar=lambda T: function), ScalarTraceError, "more than 64 ways", "where(condition, a, b)")

    def test_what_differs_from_run_to_run(self) -> None:
        count = iter(range(100))

        def function(x: Any) -> Any:
            if x > next(count):
                return x
            return -x if x < 5 else x

        refused(one(scalar=lambda T: function), ScalarTraceError, "it must depend only on its parameters")

    @pytest.mark.parametrize("promote", ["float", tk.float32, None, 3, float])
    def test_promote(self, promote: Any) -> None:
        refused(one(promote=promote), RegistrationError, "is not a promotion rule", "tk.library.INT_TO_FLOAT")
        refused(
            reduce(combine=lambda T: lambda a, b: a + b, promote=promote), RegistrationError, "not a promotion rule"
        )

    @pytest.mark.parametrize("domain", [1, (1,), (1, 1), (2, 1), (0, math.inf), ("a", "b"), (0, 1, 2), None, "ab"])
    def test_domain(self, domain: Any) -> None:
        refused(one(domain=domain), RegistrationError, f"domain={domain!r} is not an interval")

    @pytest.mark.parametrize("boolean", [("y",), "x", ("x", "z")])
    def test_boolean(self, boolean: Any) -> None:
        refused(one(boolean=boolean), RegistrationError, "boolean=")


class TestDtypes:
    """The dtype that the rule tells is the dtype of what is computed, with and without values."""

    def both(self, op: Any, dtype: str) -> Any:
        made = op(tk.asarray([3, 0], dtype=dtype))
        assert made.dtype == op(tk.empty(2, dtype=dtype, device="meta")).dtype
        return made

    @pytest.fixture
    def declare(self) -> Any:
        made: list[Any] = []

        def declare(body: Any, arguments: str = "Tensor x", **options: Any) -> Any:
            made.append(pointwise(f"{NS}::dtypes({arguments}) -> Tensor", scalar=lambda T: body, **options))
            return made[-1]

        yield declare
        registry.undefine(made[-1].operator)

    @pytest.mark.parametrize("promote", [SAME, tk.library.INT_TO_FLOAT, tk.library.COMPARISON])
    def test_a_condition_gives_bool(self, declare: Any, promote: Any) -> None:
        op = declare(lambda x: x > 0.5, promote=promote)
        for dtype in ("float32", "int64", "bool"):
            out = self.both(op, dtype)
            assert (out.dtype, out.tolist()) == (np.dtype(bool), [True, False])
        assert not op(tk.tensor([1.0], requires_grad=True)).requires_grad

    def test_a_number_is_no_condition(self) -> None:
        for promote in (tk.library.COMPARISON, tk.library.BOOLEAN):
            refused(one(promote=promote), RegistrationError, "is for conditions", "sin(x) != 0")

    @pytest.mark.parametrize(
        ("body", "arguments"),
        [(lambda x: x * 0.5, "Tensor x"), (lambda x: x / 2, "Tensor x"), (lambda x: s.exp(x), "Tensor x"),
         (lambda x, a: x * a, "Tensor x, float a=2.0")],
    )  # fmt: skip
    def test_integers_that_would_not_stay_integers(self, declare: Any, body: Any, arguments: str) -> None:
        op = declare(body, arguments, promote=SAME)
        assert self.both(op, "float32").dtype == tk.float32
        for device in ("cpu", "meta"):
            with pytest.raises(TypeError, match=r"it takes floating dtypes .*promote=INT_TO_FLOAT"):
                op(tk.ones(2, dtype="int64").to_device(device))

    @pytest.mark.parametrize(
        "body",
        [lambda x: x * x + 1, lambda x: x // 2 if x > 0.5 else -x, lambda x: s.maximum(x, 3) % 5, lambda x: x & 1],
    )
    def test_integers_that_stay(self, declare: Any, body: Any) -> None:
        assert self.both(declare(body, promote=SAME), "int64").dtype == tk.int64

    def test_of_reductions(self) -> None:
        op = reduction(
            f"{NS}::right({REDUCE}) -> Tensor",
            combine=lambda T: lambda a, b: a + b,
            scalar=lambda T: lambda x: s.exp(x),
        )
        try:
            assert op(tk.zeros(2)).item() == 2.0
            with pytest.raises(TypeError, match="promote=INT_TO_FLOAT"):
                op(tk.zeros(2, dtype="int64"))
        finally:
            registry.undefine(op.operator)  # type: ignore[attr-defined]


class TestPartials:
    def test_another_library(self) -> None:
        refused(
            one(partials=lambda x: math.cos(x)),
            RegistrationError, "the partial derivative by x raised", "tk.library.scalar",
        )  # fmt: skip

    @pytest.mark.parametrize("value", [np.ones(2), "a", None, [1.0]])
    def test_no_tensor(self, value: Any) -> None:
        refused(one(partials=lambda x: value), RegistrationError, "must return a tensor or a number")

    def test_an_array_of_the_values(self) -> None:
        refused(one(partials=lambda x: np.cos(x.numpy())), RegistrationError, "of type ndarray", "without NumPy")

    @pytest.mark.parametrize("partials", [3, "cos", (), (3,), [lambda x: x]])
    def test_no_function(self, partials: Any) -> None:
        refused(one(partials=partials), RegistrationError, "partials")

    def test_counts(self) -> None:
        refused(two(partials=(lambda y: y,)), RegistrationError, "1 formulas for 2 tensor arguments (x, y)")
        refused(two(partials=lambda x, y: (y, x, x)), RegistrationError, "a tuple of 2 derivatives")
        refused(two(partials=lambda x, y: y), RegistrationError, "a tuple of 2 derivatives")

    def test_names(self) -> None:
        refused(one(partials=lambda z: z), RegistrationError, "names z")

    def test_which_one_is_wrong(self) -> None:
        refused(two(partials=(lambda y: y, lambda x: math.exp(x))), RegistrationError, "derivative by y raised")

    @pytest.mark.parametrize(
        "partials",
        [
            lambda x: s.cos(x),
            lambda x: tk.cos(x),
            lambda x: np.cos(x),
            lambda x: s.cos(x) if x > 0 else s.cos(-x),
            lambda x, out: s.cos(x),
        ],
    )
    def test_what_is_right(self, partials: Any) -> None:
        op = pointwise(f"{NS}::right(Tensor x) -> Tensor", scalar=lambda T: lambda x: s.sin(x), partials=partials)
        try:
            x = tk.tensor([-1.0, 0.5, 2.0], dtype=tk.float64, requires_grad=True)
            assert tk.autograd.gradcheck(op, x)
            assert tk.autograd.gradgradcheck(op, x)
        finally:
            registry.undefine(op.operator)  # type: ignore[attr-defined]


class TestCombine:
    @pytest.mark.parametrize(
        ("combine", "part"),
        [
            (lambda a, b: a + b * b, "combine is not commutative"),
            (lambda a, b: a - b, "combine is not commutative"),
            (lambda a, b: a, "combine is not commutative"),
            (lambda a, b: (a + b) / 2, "combine is not associative"),
            (lambda a, b: a * a + b * b, "combine is not associative"),
            (lambda a, b: s.abs(a - b), "combine is not associative"),
            (lambda a, b: s.exp(a) + s.exp(b), "combine is not associative"),
            (lambda a, b: s.minimum(a + b, 1000), "combine is not associative"),
            (lambda a, b: s.minimum(a + b, 1e-3), "combine is not associative"),
            (lambda a, b: s.maximum(a * b, -1e6), "combine is not associative"),
            (lambda a, b: s.where(a + b > 50.0, 0.0, a + b), "combine is not associative"),
        ],
    )
    def test_laws(self, combine: Any, part: str) -> None:
        refused(reduce(combine=lambda T: combine), RegistrationError, part, "in any order")

    def test_the_counterexample_is_one(self) -> None:
        with pytest.raises(RegistrationError) as caught:
            reduce(combine=lambda T: lambda a, b: (a + b) / 2)()
        words = str(caught.value)
        assert "combine(combine(-2.5, -0.75), 0.5) is -0.5625" in words
        assert "combine(-2.5, combine(-0.75, 0.5)) is -1.3125" in words

    @pytest.mark.parametrize(
        ("combine", "identity"),
        [
            (lambda a, b: a + b, 1),
            (lambda a, b: a * b, 0),
            (s.maximum, 0),
            (s.minimum, 0.0),
            (s.logaddexp, 0),
            (s.maximum, -100),
            (s.minimum, 1e6),
            (s.maximum, -1e-4),
            (lambda a, b: a | b, 1024),
        ],
    )
    def test_identity(self, combine: Any, identity: Any) -> None:
        refused(
            reduce(combine=lambda T: lambda a, b: combine(a, b), identity=identity),
            RegistrationError, f"identity={identity} is not neutral", f"combine({identity}, ",
        )  # fmt: skip

    def test_identity_is_a_number(self) -> None:
        refused(reduce(combine=lambda T: lambda a, b: a + b, identity="0"), RegistrationError, "is not a number")

    @pytest.mark.parametrize(
        ("combine", "identity", "scalar"),
        [
            (s.maximum, 0, lambda T: lambda x: s.abs(x)),
            (s.maximum, -math.inf, None),
            (s.hypot, 0, lambda T: lambda x: s.abs(x)),
            (lambda a, b: a * b / (a + b), None, None),
            (lambda a, b: a ^ b, 0, None),
            (lambda a, b: a + b + a * b, 0, None),
            (lambda a, b: s.minimum(a + b, 1000), 0, lambda T: lambda x: s.minimum(s.abs(x), 1000)),
            (lambda a, b: s.minimum(a + b, 1000), None, lambda T: lambda x: s.exp(x)),
            (lambda a, b: (a + b) / (1 + a * b / 1e4), 0, None),
            (lambda a, b: a * b / 1000, 1000, None),
            (s.logaddexp, -math.inf, lambda T: lambda x: 1000 * x),
        ],
    )
    def test_what_is_right(self, combine: Any, identity: Any, scalar: Any) -> None:
        op = reduction(
            f"{NS}::right({REDUCE}) -> Tensor",
            combine=lambda T: lambda a, b: combine(a, b),
            identity=identity,
            scalar=scalar,
            promote=SAME,
        )
        registry.undefine(op.operator)  # type: ignore[attr-defined]


def test_an_operation_without_a_derivative() -> None:
    op = pointwise(f"{NS}::second(Tensor x) -> Tensor", scalar=lambda T: lambda x: s.trigamma(x))
    try:
        assert op(tk.asarray([1.0])).item() == pytest.approx(math.pi**2 / 6)
        x = tk.tensor([1.0], requires_grad=True)
        with pytest.raises(NotImplementedError, match=r"no derivative is known for .*'trigamma'.*partials="):
            op(x).sum().backward()
    finally:
        registry.undefine(op.operator)  # type: ignore[attr-defined]
