"""tenkey.library.pointwise: one expression gives values, gradients, shapes and errors."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special

import tenkey as tk
from tenkey.autograd import gradcheck, gradgradcheck
from tenkey.dispatch.errors import ArgumentError, RegistrationError, SchemaError
from tenkey.dispatch.registry import registry
from tenkey.library import INT_TO_FLOAT, SAME, composite, pointwise, reduction, scalar
from tests._pointwise import NS, REDUCE, gradients, hypotenuse, leaf, log_add_exp, silu
from tests._registry import registry_as_before


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    with registry_as_before():
        yield


def tangent_of_sine(x: tk.Tensor) -> tk.Tensor:
    made: tk.Tensor = tk.cos(x)
    return made


def test_functions_are_pickled_by_name() -> None:
    total = reduction(f"{NS}::total({REDUCE}) -> Tensor", combine=lambda T: lambda a, b: a + b, identity=0)
    half = composite(f"{NS}::half.of(Tensor x) -> Tensor")(lambda x: x / 2)
    for made in (silu(), total, half):
        assert pickle.loads(pickle.dumps(made)) is made
        assert copy.deepcopy(made) is made


class TestValues:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_against_scipy(self, dtype: str) -> None:
        x = np.linspace(-5, 5, 23).astype(dtype)
        out = silu()(tk.asarray(x))
        assert out.dtype == dtype
        np.testing.assert_allclose(out.numpy(), x * scipy.special.expit(x), rtol=4 * float(np.finfo(dtype).eps))

    def test_broadcasting_and_layouts(self) -> None:
        op = hypotenuse()
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((4, 1, 3)), rng.standard_normal((5, 1))
        np.testing.assert_allclose(op(tk.asarray(a), tk.asarray(b)).numpy(), np.hypot(a, b))
        np.testing.assert_allclose(op(tk.asarray(a.T), tk.asarray(a[0, 0, 0])).numpy(), np.hypot(a.T, a[0, 0, 0]))
        c = rng.standard_normal((6, 8))
        gap = tk.asarray(c)[::2, 1::3]
        np.testing.assert_allclose(op(gap, gap).numpy(), np.hypot(c[::2, 1::3], c[::2, 1::3]))
        assert op(tk.zeros((0, 3)), tk.zeros(3)).shape == (0, 3)
        assert op(tk.asarray(3.0), tk.asarray(4.0)).item() == 5.0

    def test_shapes_that_do_not_broadcast(self) -> None:
        with pytest.raises(ValueError, match=r"\[hypotenuse\].*\(2, 3\).*\(4,\)"):
            hypotenuse()(tk.zeros((2, 3)), tk.zeros(4))

    def test_integers_give_floats(self) -> None:
        op = hypotenuse()
        out = op(tk.asarray([3, 5]), tk.asarray([4, 12]))
        assert out.dtype == tk.float32
        assert out.tolist() == [5.0, 13.0]
        assert op(tk.asarray([3], dtype=tk.int64), tk.asarray([4.0], dtype=tk.float64)).dtype == tk.float64

    def test_promotion_can_be_chosen(self) -> None:
        op = pointwise(f"{NS}::twice(Tensor x) -> Tensor", scalar=lambda T: lambda x: x + x, promote=SAME)
        out = op(tk.asarray([1, 2], dtype=tk.int8))
        assert out.dtype == tk.int8
        assert out.tolist() == [2, 4]

    def test_numbers_are_weak(self) -> None:
        op = hypotenuse(promote=INT_TO_FLOAT)
        x = tk.asarray([3.0, 5.0], dtype=tk.float32)
        assert op(x, 4.0).dtype == tk.float32
        assert op(x, 4).tolist() == pytest.approx([5.0, 41**0.5])
        assert op(4, tk.asarray([3], dtype=tk.int16)).tolist() == [5.0]

    def test_no_tensor_at_all(self) -> None:
        found = hypotenuse()(3.0, 4.0)
        assert (found.item(), found.dtype) == (5.0, tk.float32)

    def test_parameters_that_are_no_tensors(self) -> None:
        op = pointwise(
            f"{NS}::scaled(Tensor x, float factor, int power=2) -> Tensor",
            scalar=lambda T: lambda x, factor, power: factor * x**power,
        )
        x = tk.asarray([1.0, 2.0, 3.0])
        assert op(x, 2.0).tolist() == [2.0, 8.0, 18.0]
        assert op(x, 0.5, power=3).tolist() == [0.5, 4.0, 13.5]
        y = leaf(1.0, 2.0, 3.0)
        (g,) = gradients(op(y, 2.0, power=3), y)
        np.testing.assert_allclose(g.numpy(), [6.0, 24.0, 54.0])
        with pytest.raises(ArgumentError, match="the argument 'factor' must be a float, got 'a'"):
            op(x, "a")

    def test_a_branch_becomes_a_choice(self) -> None:
        op = pointwise(
            f"{NS}::elu(Tensor x, float alpha=1.0) -> Tensor",
            scalar=lambda T: lambda x, alpha: x if x > 0 else alpha * scalar.expm1(x),
        )
        x = np.linspace(-3, 3, 13)
        wanted = np.where(x > 0, x, 0.5 * np.expm1(x))
        np.testing.assert_allclose(op(tk.asarray(x), 0.5).numpy(), wanted, rtol=1e-14)
        assert gradcheck(lambda x: op(x, 0.5), (leaf(-2.0, -0.5, 0.5, 2.0),))
        assert gradgradcheck(lambda x: op(x, 0.5), (leaf(-2.0, -0.5, 0.5, 2.0),))

    def test_statements_and_loops_over_python_numbers(self) -> None:
        def factory(T: Any) -> Any:
            def horner(x: Any) -> Any:
                total = T(0)
                for coefficient in (1.0, -2.0, 3.0):
                    total = total * x + coefficient
                return total

            return horner

        op = pointwise(f"{NS}::horner(Tensor x) -> Tensor", scalar=factory)
        x = np.linspace(-1, 1, 5)
        np.testing.assert_allclose(op(tk.asarray(x)).numpy(), np.polyval([1.0, -2.0, 3.0], x))

    def test_meta(self) -> None:
        op = hypotenuse()
        out = op(tk.empty((4, 1), device="meta", dtype=tk.int8), tk.empty((3,), device="meta", dtype=tk.float64))
        assert (out.shape, out.dtype, out.device) == ((4, 3), tk.float64, "meta")


class TestGradient:
    def test_first_and_second_order(self) -> None:
        op = silu()
        x = leaf(-2.0, -0.3, 0.4, 3.0)
        assert gradcheck(op, (x,))
        assert gradgradcheck(op, (x,))
        (g,) = gradients(op(x), x)
        s = scipy.special.expit(x.detach().numpy())
        np.testing.assert_allclose(g.numpy(), s * (1 + x.detach().numpy() * (1 - s)), rtol=1e-12)

    def test_third_order(self) -> None:
        op = pointwise(f"{NS}::fourth(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * x * x)
        x = leaf(1.5, -2.0)
        value = op(x)
        for _ in range(3):
            (value,) = gradients(value, x, create_graph=True)
        np.testing.assert_allclose(value.detach().numpy(), 24 * x.detach().numpy())

    def test_broadcast_arguments_are_summed(self) -> None:
        op = hypotenuse()
        rng = np.random.default_rng(1)
        x = tk.tensor(rng.uniform(1, 2, (3, 1)), requires_grad=True)
        y = tk.tensor(rng.uniform(1, 2, (2, 1, 4)), requires_grad=True)
        assert gradcheck(op, (x, y))
        assert gradgradcheck(op, (x, y))
        gx, gy = gradients(op(x, y), x, y)
        assert (gx.shape, gy.shape) == ((3, 1), (2, 1, 4))

    def test_complex(self) -> None:
        op = pointwise(f"{NS}::cubed(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * x)
        x = tk.tensor(np.array([1 + 2j, -0.5 + 1j]), requires_grad=True)
        np.testing.assert_allclose(op(x).detach().numpy(), x.detach().numpy() ** 3)
        assert gradcheck(op, (x,))

    def test_partials_override(self) -> None:
        op = silu(partials=lambda x: x * 0 + 100)
        x = leaf(1.0, 2.0)
        (g,) = gradients(op(x), x)
        assert g.tolist() == [100.0, 100.0]

    def test_partials_of_the_result(self) -> None:
        op = pointwise(
            f"{NS}::logistic(Tensor x) -> Tensor",
            scalar=lambda T: lambda x: T(1) / (T(1) + scalar.exp(-x)),
            partials=lambda out: out * (1 - out),
        )
        x = leaf(-1.0, 0.5, 2.0)
        assert gradcheck(op, (x,))
        assert gradgradcheck(op, (x,))
        node = op(x).grad_fn
        assert hasattr(node, "_saved_out")
        assert not hasattr(node, "_saved_x")

    def test_partials_with_operators(self) -> None:
        """A formula that calls operators of tensors instead of expressions."""
        op = pointwise(
            f"{NS}::sine(Tensor x) -> Tensor", scalar=lambda T: lambda x: scalar.sin(x) + 0, partials=tangent_of_sine
        )
        assert gradcheck(op, (leaf(-1.0, 0.5, 2.0),))
        assert gradgradcheck(op, (leaf(-1.0, 0.5, 2.0),))

    @pytest.mark.parametrize(
        "partials",
        [(lambda x, out: x / out, lambda y, out: y / out), lambda x, y, out: (x / out, y / out)],
        ids=["a formula each", "one for all"],
    )
    def test_partials_of_several_arguments(self, partials: Any) -> None:
        op = hypotenuse(partials=partials)
        x, y = leaf(1.0, -2.0), leaf(0.5, 3.0)
        assert gradcheck(op, (x, y))
        assert gradgradcheck(op, (x, y))

    def test_partials_none_is_zero(self) -> None:
        op = hypotenuse(partials=(lambda x, out: x / out, None))
        x, y = leaf(3.0), leaf(4.0)
        gx, gy = tk.autograd.grad(tk.sum(op(x, y)), (x, y), allow_unused=True)
        assert gx is not None
        assert gx.tolist() == [0.6]
        assert gy is None or gy.tolist() == [0.0]

    def test_partials_of_a_parameter(self) -> None:
        op = pointwise(
            f"{NS}::power(Tensor x, float n) -> Tensor",
            scalar=lambda T: lambda x, n: x**n,
            partials=lambda x, n: n * x ** (n - 1),
        )
        x = leaf(1.5, 2.0)
        (g,) = gradients(op(x, 3.0), x)
        np.testing.assert_allclose(g.numpy(), 3 * x.detach().numpy() ** 2)
        assert gradgradcheck(lambda x: op(x, 3.0), (x,))


class TestErrors:
    """Each is refused by the declaration, and the registry is as before."""

    def refused(self, action: Callable[[], object], kind: type[Exception], *parts: str) -> None:
        before = dict(registry.operators)
        with pytest.raises(kind) as caught:
            action()
        assert registry.operators == before
        for part in parts:
            assert part in str(caught.value)

    @pytest.mark.parametrize(
        ("function", "parts"),
        [
            (lambda T: lambda x: x, ("takes (x)", "2 parameter(s) (x, y)")),
            (lambda T: lambda x, y, z: x, ("takes (x, y, z)",)),
            (lambda x: x + 1, ("must be a function of T",)),
            (3, ("must be a function of T", "got 3")),
            (lambda T: 3, ("must be a function of T", "returned 3")),
            (lambda T: lambda x, y: np.hypot(x, y) + 0, ("raised TypeError", "test_pointwise_library.py:")),
            (lambda T: lambda x, y: x.shape, ("raised AttributeError",)),
            (lambda T: lambda x, y: "a", ("returned 'a' of type str",)),
            (lambda T: lambda x, y: None, ("returned None",)),
        ],
    )
    def test_scalar(self, function: Any, parts: tuple[str, ...]) -> None:
        self.refused(
            lambda: pointwise(f"{NS}::wrong(Tensor x, Tensor y) -> Tensor", scalar=function),
            TypeError, f"[{NS}::wrong]", "scalar", *parts,
        )  # fmt: skip

    def test_several_values(self) -> None:
        self.refused(
            lambda: pointwise(f"{NS}::wrong(Tensor x) -> Tensor", scalar=lambda T: lambda x: (x, x)),
            RegistrationError, f"{NS}::wrong", "returns 2 values", "return one",
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("schema", "problem"),
        [
            ("(float x) -> Tensor", "it takes no Tensor"),
            ("(Tensor[] x) -> Tensor", "x is a Tensor[]"),
            ("(Tensor? x) -> Tensor", "it takes no Tensor"),
            ("(Tensor x, str? s) -> Tensor", "s is a str?"),
            ("(Tensor x, str s) -> Tensor", "s is a str"),
            ("(Tensor x, *, Tensor n) -> Tensor", "the Tensor n is keyword-only"),
            ("(Tensor x) -> (Tensor, float)", "does not return Tensors"),
            ("(Tensor x) -> float", "does not return Tensors"),
            ("(Tensor(a!) x) -> Tensor(a!)", "it changes an argument"),
        ],
    )
    def test_schema(self, schema: str, problem: str) -> None:
        self.refused(
            lambda: pointwise(f"{NS}::wrong{schema}", scalar=lambda T: lambda *values: values[0]),
            RegistrationError, f"[{NS}::wrong", "is not a pointwise operator", problem, "returns Tensors",
        )  # fmt: skip

    def test_namespace(self) -> None:
        one = lambda T: lambda x: x  # noqa: E731
        self.refused(
            lambda: pointwise("wrong(Tensor x) -> Tensor", scalar=one), RegistrationError, "[wrong] needs a namespace"
        )
        self.refused(
            lambda: pointwise("tk::wrong(Tensor x) -> Tensor", scalar=one), RegistrationError, "'tk' belongs to tenkey"
        )
        self.refused(lambda: pointwise("tk::(Tensor x) ->", scalar=one), SchemaError, "column")

    def test_twice(self) -> None:
        first = silu()
        self.refused(
            lambda: pointwise(f"{NS}::silu(Tensor x) -> Tensor", scalar=lambda T: lambda x: x),
            RegistrationError, f"[{NS}::silu] is defined already", "test_pointwise_library.py:",
        )  # fmt: skip
        assert first(tk.asarray([0.0])).tolist() == [0.0]

    def test_partials_names(self) -> None:
        self.refused(
            lambda: silu(partials=lambda y: y), RegistrationError, f"[{NS}::silu]", "partial derivative by x", "names y"
        )

    def test_partials_count(self) -> None:
        self.refused(
            lambda: hypotenuse(partials=(lambda x: x,)),
            RegistrationError, f"[{NS}::hypotenuse]", "1 formulas for 2 tensor arguments (x, y)",
        )  # fmt: skip

    def test_reduction_functions(self) -> None:
        def wrong(**options: Any) -> None:
            self.refused(lambda: reduction(f"{NS}::wrong({REDUCE}) -> Tensor", **options), TypeError, f"[{NS}::wrong]")

        wrong(combine=lambda T: lambda a: a)
        wrong(combine=3)
        wrong(combine=lambda T: lambda a, b: a + b, scalar=lambda T: lambda x, y: x)

    @pytest.mark.parametrize(
        "schema",
        ["(Tensor x) -> Tensor", "(Tensor y, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
         f"({REDUCE}, float eps) -> Tensor", f"({REDUCE}) -> (Tensor, Tensor)"],
    )  # fmt: skip
    def test_reduction_schema(self, schema: str) -> None:
        self.refused(
            lambda: reduction(f"{NS}::wrong{schema}", combine=lambda T: lambda a, b: a + b),
            RegistrationError, f"[{NS}::wrong", "is not a reduction", "int[1]? axis=None, bool keepdims=False",
        )  # fmt: skip

    def test_composite_signature(self) -> None:
        self.refused(
            lambda: composite(f"{NS}::wrong(Tensor x, Tensor y) -> Tensor")(lambda x: x),
            RegistrationError, f"{NS}::wrong", "signature (x)",
        )  # fmt: skip

    def test_reserved_namespace(self) -> None:
        self.refused(
            lambda: reduction(f"tk::wrong({REDUCE}) -> Tensor", combine=lambda T: lambda a, b: a + b),
            RegistrationError, "'tk' belongs to tenkey",
        )  # fmt: skip
        self.refused(lambda: composite("tk::wrong(Tensor x) -> Tensor"), RegistrationError, "'tk' belongs to tenkey")


class TestAgain:
    """The same declaration at the same place, as after a reload, replaces the earlier one."""

    def scaled(self, factor: float) -> Callable[..., tk.Tensor]:
        return pointwise(f"{NS}::scaled(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * factor)

    def test_each_computes_its_own_expression(self) -> None:
        """Many times, with garbage collection in between: nothing of an earlier one may be found again."""
        x = leaf(3.0)
        for factor in range(1, 40):
            op = self.scaled(factor)
            assert op(x).tolist() == [9.0 * factor]
            assert gradients(op(x), x)[0].tolist() == [6.0 * factor]
            gc.collect()

    def test_a_failure_leaves_the_earlier_one(self) -> None:
        def declare(scale: Any) -> Callable[..., tk.Tensor]:
            return pointwise(f"{NS}::scaled(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * scale)

        op = declare(2.0)
        with pytest.raises(TypeError, match=rf"\[{NS}::scaled\]"):
            declare("a")
        assert op(tk.asarray([3.0])).tolist() == [18.0]
        assert tk.ops.pointwise_test.scaled(tk.asarray([3.0])).tolist() == [18.0]
        x = leaf(3.0)
        assert gradients(op(x), x)[0].tolist() == [12.0]


class TestCompiled:
    """A large call is compiled; what it gives is what small calls, which are not, give piece by piece."""

    SIZE = 2**17 + 3

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_large_equals_small(self, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
        op = pointwise(
            f"{NS}::large_{dtype}(Tensor x, Tensor y, float a=0.5) -> Tensor",
            scalar=lambda T: lambda x, y, a: scalar.tanh(x) * y + a if x > y else scalar.exp(x - y),
        )
        x, y = np.random.default_rng(2).uniform(-3, 3, (2, self.SIZE)).astype(dtype)
        places = np.r_[0:500, 65_000:65_500, self.SIZE - 500 : self.SIZE]
        monkeypatch.setenv("TENKEY_COMPILE", "off")
        small = op(tk.asarray(x[places]), tk.asarray(y[places])).numpy()
        monkeypatch.setenv("TENKEY_COMPILE", "on")
        large = op(tk.asarray(x), tk.asarray(y)).numpy()
        assert large.dtype == dtype
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(large[places], small, rtol=8 * eps, atol=8 * eps)
        wanted = np.where(x > y, np.tanh(x) * y + dtype_of(0.5, dtype), np.exp(x - y))
        np.testing.assert_allclose(large, wanted, rtol=16 * eps, atol=16 * eps)

    def test_large_gradient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENKEY_COMPILE", "on")
        op = silu()
        values = np.random.default_rng(3).uniform(-3, 3, self.SIZE)
        x = tk.tensor(values, requires_grad=True)
        (g,) = gradients(op(x), x)
        s = scipy.special.expit(values)
        np.testing.assert_allclose(g.numpy(), s * (1 + values * (1 - s)), rtol=1e-12, atol=1e-14)

    def test_large_reduction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENKEY_COMPILE", "on")
        op = log_add_exp()
        values = np.random.default_rng(4).uniform(-3, 3, self.SIZE)
        assert op(tk.asarray(values)).item() == pytest.approx(scipy.special.logsumexp(values), rel=1e-13)


def dtype_of(value: float, dtype: str) -> Any:
    return np.dtype(dtype).type(value)


# ---- numbers and conditions take no wrong dtype


@pytest.mark.parametrize("promote", ["SAME", "COMPARISON", "ARITHMETIC", "REAL", "INT_TO_FLOAT", "BOOLEAN"])
@pytest.mark.parametrize("repeats", [1, 1 << 17])
def test_a_condition_compares_what_it_is_given(promote: str, repeats: int) -> None:
    rule = getattr(tk.library, promote)
    conditions: list[tuple[str, str, tuple[Any, ...], Callable[..., Any]]] = [
        ("below", "float t", (2.5,), lambda x, t: x < t),
        ("above", "int n", (2,), lambda x, n: x > n),
        ("product", "int n=2", (), lambda x, n=2: x * n > 1),
        ("less_one", "float t=0.0", (), lambda x, t=0.0: x - 1 >= t),
    ]
    for dtype in ("int64", "uint8", "bool", "float32"):
        x = np.tile(np.array([0, 1, 2, 3]).astype(dtype), repeats)
        for name, argument, args, function in conditions:
            op = pointwise(
                f"{NS}::{name}_{dtype}(Tensor x, {argument}) -> Tensor", scalar=lambda T, f=function: f, promote=rule
            )
            if dtype == "bool" and "b" not in rule.accepts:
                with pytest.raises(TypeError, match="is not defined for dtype bool"):
                    op(tk.asarray(x), *args)
                continue
            got = op(tk.asarray(x), *args)
            assert got.dtype == tk.bool
            np.testing.assert_array_equal(got.numpy(), function(x.astype(float), *args), err_msg=name)


def test_a_number_in_a_condition_is_no_integer() -> None:
    op = pointwise(
        f"{NS}::fold(Tensor x, float t) -> Tensor", scalar=lambda T: lambda x, t: x if x < t else -x, promote=SAME
    )
    assert op(tk.asarray([1.0, 2.0, 3.0]), 2.5).tolist() == [1, 2, -3]
    with pytest.raises(TypeError, match=r"from integers t produces other numbers.*INT_TO_FLOAT.*no complex numbers"):
        op(tk.asarray([1, 2, 3]), 2.5)


def test_an_int_that_the_dtype_cannot_hold() -> None:
    op = pointwise(f"{NS}::times(Tensor x, int n) -> Tensor", scalar=lambda T: lambda x, n: x * n, promote=SAME)
    assert op(tk.ones(2), 2**70).tolist() == [2.0**70] * 2
    for x, n in ((tk.arange(3), 2**63), (tk.arange(3), 2**70), (tk.asarray([1], dtype="int8"), 300)):
        for error in (OverflowError, ValueError):
            with pytest.raises(error, match=rf"\[{NS}::times\] the Python int {n} does not fit into int"):
                op(x, n)
    with pytest.raises(OverflowError, match=r"does not fit into float32, which holds -1.79.*e\+308"):
        op(tk.ones(2), 2**2000)


def test_bools_that_the_expression_makes_numbers_of() -> None:
    x = tk.asarray([True, True, False])
    for name, function in {
        "difference": lambda x, y: x - y,
        "quotient": lambda x, y: x // y,
        "power": lambda x, y: x**y,
        "twice": lambda x, y: x * 2 + y,
        "minus": lambda x, y: -x,
    }.items():
        op = pointwise(f"{NS}::{name}(Tensor x, Tensor y) -> Tensor", scalar=lambda T, f=function: f, promote=SAME)
        with pytest.raises(TypeError, match=r"is not defined for dtype bool: .*from bools .* produces other numbers"):
            op(x, x)
        assert op(tk.astype(x, tk.int8), tk.ones(3, dtype=tk.int8)).dtype == tk.int8
    both = pointwise(f"{NS}::both(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: x * y, promote=SAME)
    assert both(x, x).tolist() == [True, True, False]
