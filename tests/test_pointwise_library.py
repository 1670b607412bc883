"""tenkey.library.pointwise, reduction and composite: one expression gives values, gradients, shapes and errors."""

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

NS = "pointwise_test"
REDUCE = "Tensor x, *, int[1]? axis=None, bool keepdims=False"


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if name.startswith(f"{NS}::") and name in registry.operators:  # a derivative goes with its operator
            registry.undefine(registry.operators[name], keep_kernels=False)


def leaf(*values: float, dtype: Any = tk.float64) -> tk.Tensor:
    return tk.tensor(values, dtype=dtype, requires_grad=True)


def gradients(out: tk.Tensor, *inputs: tk.Tensor, create_graph: bool = False) -> list[tk.Tensor]:
    """The gradients of the sum of ``out``; every input has one."""
    found = tk.autograd.grad(tk.sum(out), inputs, create_graph=create_graph)
    assert all(g is not None for g in found)
    return [g for g in found if g is not None]


def silu(**options: Any) -> Callable[..., Any]:
    return pointwise(
        f"{NS}::silu(Tensor x) -> Tensor", scalar=lambda T: lambda x: x / (T(1) + scalar.exp(-x)), **options
    )


def hypotenuse(**options: Any) -> Callable[..., Any]:
    return pointwise(
        f"{NS}::hypotenuse(Tensor x, Tensor y) -> Tensor",
        scalar=lambda T: lambda x, y: scalar.sqrt(x * x + y * y),
        **options,
    )


def tangent_of_sine(x: tk.Tensor) -> tk.Tensor:
    made: tk.Tensor = tk.cos(x)
    return made


@pytest.mark.parametrize("value", [None, 3, (1, 2)])
def test_a_composite_returns_what_the_schema_says(value: Any) -> None:
    wrong = composite(f"{NS}::wrong(Tensor x) -> Tensor")(lambda x: value)
    with pytest.raises(TypeError, match=rf"\[{NS}::wrong\] its function at .*test_pointwise_library.py:\d+ returned"):
        wrong(tk.ones(2))


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
        with pytest.raises(ArgumentError, match=rf"\[{NS}::hypotenuse\] needs at least one Tensor"):
            hypotenuse()(3.0, 4.0)

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
            ("(Tensor? x) -> Tensor", "x is a Tensor?"),
            ("(Tensor x, str s) -> Tensor", "s is a str"),
            ("(Tensor x, *, float n) -> Tensor", "n is keyword-only"),
            ("(Tensor x) -> (Tensor, Tensor)", "does not return one Tensor"),
            ("(Tensor x) -> float", "does not return one Tensor"),
            ("(Tensor(a!) x) -> Tensor(a!)", "it changes an argument"),
        ],
    )
    def test_schema(self, schema: str, problem: str) -> None:
        self.refused(
            lambda: pointwise(f"{NS}::wrong{schema}", scalar=lambda T: lambda *values: values[0]),
            RegistrationError, f"[{NS}::wrong", "is no pointwise operator", problem, "returns one Tensor",
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
            RegistrationError, f"[{NS}::wrong", "is no reduction", "int[1]? axis=None, bool keepdims=False",
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
        monkeypatch.setenv("TENKEY_COMPILE", "sync")
        large = op(tk.asarray(x), tk.asarray(y)).numpy()
        assert large.dtype == dtype
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(large[places], small, rtol=8 * eps, atol=8 * eps)
        wanted = np.where(x > y, np.tanh(x) * y + dtype_of(0.5, dtype), np.exp(x - y))
        np.testing.assert_allclose(large, wanted, rtol=16 * eps, atol=16 * eps)

    def test_large_gradient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENKEY_COMPILE", "sync")
        op = silu()
        values = np.random.default_rng(3).uniform(-3, 3, self.SIZE)
        x = tk.tensor(values, requires_grad=True)
        (g,) = gradients(op(x), x)
        s = scipy.special.expit(values)
        np.testing.assert_allclose(g.numpy(), s * (1 + values * (1 - s)), rtol=1e-12, atol=1e-14)

    def test_large_reduction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENKEY_COMPILE", "sync")
        op = log_add_exp()
        values = np.random.default_rng(4).uniform(-3, 3, self.SIZE)
        assert op(tk.asarray(values)).item() == pytest.approx(scipy.special.logsumexp(values), rel=1e-13)


def dtype_of(value: float, dtype: str) -> Any:
    return np.dtype(dtype).type(value)


def log_add_exp() -> Callable[..., Any]:
    """log(exp(a) + exp(b)), which is associative; written so that it does not overflow."""

    def combine(T: Any) -> Any:
        def both(a: Any, b: Any) -> Any:
            high, low = scalar.maximum(a, b), scalar.minimum(a, b)
            return scalar.where(low == -T.inf, high, high + scalar.log1p(scalar.exp(low - high)))

        return both

    return reduction(f"{NS}::log_add_exp({REDUCE}) -> Tensor", combine=combine, identity=-np.inf, promote=INT_TO_FLOAT)


class TestReduction:
    @pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), (2, 0, 1), ()])
    @pytest.mark.parametrize("keepdims", [False, True])
    def test_axes(self, axis: Any, keepdims: bool) -> None:
        x = np.random.default_rng(5).standard_normal((3, 4, 5))
        out = log_add_exp()(tk.asarray(x), axis=axis, keepdims=keepdims)
        axes = (0, 1, 2) if axis is None else axis
        wanted = scipy.special.logsumexp(x, axis=axes, keepdims=keepdims) if axes != () else x
        assert out.shape == np.shape(wanted)
        np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-13)

    def test_layouts(self) -> None:
        x = np.random.default_rng(6).standard_normal((6, 7))
        op = log_add_exp()
        t = tk.asarray(x)
        np.testing.assert_allclose(
            op(tk.permute_dims(t, (1, 0)), axis=0).numpy(), scipy.special.logsumexp(x, axis=1), rtol=1e-13
        )
        np.testing.assert_allclose(op(t[::2, 1:], axis=1).numpy(), scipy.special.logsumexp(x[::2, 1:], axis=1))

    def test_empty_gives_the_identity(self) -> None:
        op = log_add_exp()
        assert op(tk.zeros((0,))).item() == -np.inf
        assert op(tk.zeros((0, 3)), axis=0).tolist() == [-np.inf] * 3
        assert op(tk.zeros((0, 3)), axis=1).shape == (0,)

    def test_empty_without_identity(self) -> None:
        op = reduction(f"{NS}::largest({REDUCE}) -> Tensor", combine=lambda T: scalar.maximum)
        assert op(tk.asarray([[1, 5], [7, 2]]), axis=0).tolist() == [7, 5]
        assert op(tk.zeros((0, 3)), axis=1).shape == (0,)
        with pytest.raises(ValueError, match=r"\[largest\] got shape \(0, 3\) with axis=\(0,\)"):
            op(tk.zeros((0, 3)), axis=0)

    def test_scalar_comes_first(self) -> None:
        op = reduction(
            f"{NS}::squares({REDUCE}) -> Tensor",
            combine=lambda T: lambda a, b: a + b, identity=0, scalar=lambda T: lambda x: x * x,
        )  # fmt: skip
        x = np.random.default_rng(7).standard_normal((3, 4))
        np.testing.assert_allclose(op(tk.asarray(x), axis=1).numpy(), (x * x).sum(1))
        assert op(tk.asarray([2, 3])).tolist() == 13

    def test_gradient(self) -> None:
        op = reduction(
            f"{NS}::squares({REDUCE}) -> Tensor",
            combine=lambda T: lambda a, b: a + b, identity=0.0, scalar=lambda T: lambda x: x * x,
            vjp={"x": lambda g, x: 2 * g * x},
        )  # fmt: skip
        x = leaf(1.0, -2.0, 3.0)
        assert gradcheck(op, (x,))
        assert gradgradcheck(op, (x,))

    def test_gradient_without_a_formula(self) -> None:
        op = log_add_exp()
        x = leaf(1.0, 2.0, 2.0)
        (g,) = gradients(op(x), x)
        np.testing.assert_allclose(g.numpy(), scipy.special.softmax([1.0, 2.0, 2.0]), rtol=1e-12)

    def test_axis_out_of_range(self) -> None:
        with pytest.raises((IndexError, ValueError), match=r"\[log_add_exp\].*axis 2"):
            log_add_exp()(tk.zeros((3, 4)), axis=2)

    def test_meta(self) -> None:
        out = log_add_exp()(tk.empty((3, 4), device="meta", dtype=tk.int32), axis=1, keepdims=True)
        assert (out.shape, out.dtype, out.device) == ((3, 1), tk.float32, "meta")


class TestComposite:
    def rms(self) -> Callable[..., Any]:
        @composite(f"{NS}::rms({REDUCE}) -> Tensor")
        def rms(x: tk.Tensor, *, axis: Any, keepdims: bool) -> tk.Tensor:
            """Root of the mean square."""
            return tk.sqrt(tk.mean(x * x, axis=axis, keepdims=keepdims))

        made: Callable[..., Any] = rms
        return made

    def test_values_and_gradients(self) -> None:
        op = self.rms()
        assert op.__doc__ == "Root of the mean square."
        x = np.random.default_rng(8).standard_normal((3, 4))
        np.testing.assert_allclose(op(tk.asarray(x), axis=1).numpy(), np.sqrt((x * x).mean(1)))
        leaf_x = tk.tensor(x, requires_grad=True)
        assert gradcheck(op, (leaf_x,))
        assert gradgradcheck(op, (leaf_x,))

    def test_meta(self) -> None:
        assert self.rms()(tk.empty((3, 4), device="meta"), axis=0).shape == (4,)

    def test_with_a_formula_of_its_own(self) -> None:
        @composite(f"{NS}::square(Tensor x) -> Tensor", vjp={"x": lambda g, x: 5 * g * x})
        def square(x: tk.Tensor) -> tk.Tensor:
            return x * x

        x = leaf(3.0)
        out = square(x)
        assert out.grad_fn.name() == "SquareBackward"
        assert gradients(out, x)[0].tolist() == [15.0]


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
    with pytest.raises(TypeError, match=r"of integers, t makes other numbers.*INT_TO_FLOAT.*no complex numbers"):
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
        with pytest.raises(TypeError, match=r"is not defined for dtype bool: .*of bools, .* makes other numbers"):
            op(x, x)
        assert op(tk.astype(x, tk.int8), tk.ones(3, dtype=tk.int8)).dtype == tk.int8
    both = pointwise(f"{NS}::both(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: x * y, promote=SAME)
    assert both(x, x).tolist() == [True, True, False]


# ---- reductions through compiled functions and NumPy's


def test_a_compiled_combining_function_reduces_several_axes() -> None:
    op = reduction(
        f"{NS}::parallel({REDUCE}) -> Tensor",
        combine=lambda T: lambda a, b: a * b / (a + b),
        scalar=lambda T: lambda x: scalar.exp(x),
        promote=INT_TO_FLOAT,
    )
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    large = np.tile(x, (40, 10, 100))
    for _ in range(80):  # after 64 calls the function is compiled
        op(tk.asarray(x))
    op(tk.asarray(large))
    for axis in (None, 0, (0, 2), (1, -1), (0, 1, 2)):
        for values in (x, large, x.T, x[:, ::2]):
            # a new set of dispatch keys chooses the kernel anew
            for tensor in (tk.asarray(values), tk.tensor(values, requires_grad=True)):
                got = op(tensor, axis=axis)
                np.testing.assert_allclose(got.detach().numpy(), 1 / np.sum(np.exp(-values), axis), rtol=1e-9)
    batched = tk.transforms.vmap(lambda v: op(v), in_dims=2)(tk.asarray(x))
    np.testing.assert_allclose(batched.numpy(), 1 / np.sum(np.exp(-x), (0, 1)), rtol=1e-9)


def test_reducing_nothing_without_an_identity_is_an_error_whatever_numpy_says() -> None:
    functions: dict[str, Callable[..., Any]] = {"hypot": scalar.hypot, "total": lambda a, b: a + b}
    for name, function in functions.items():
        op = reduction(f"{NS}::{name}({REDUCE}) -> Tensor", combine=lambda T, f=function: f)
        with pytest.raises(ValueError, match=rf"\[{name}\].*the reduction of no elements has no value"):
            op(tk.zeros((3, 0)), axis=1)
        assert op(tk.zeros((3, 0)), axis=0).shape == (0,)
        assert op(tk.asarray([[3.0, 4.0]]), axis=1).tolist() == [5.0 if name == "hypot" else 7.0]


def test_a_sum_of_bools_counts_them() -> None:
    many = [True, True, False] * 100_000
    for dtype in ("", "DType? dtype=None, "):
        op = reduction(
            f"{NS}::how_many{len(dtype)}({REDUCE.replace('bool', dtype + 'bool')}) -> Tensor",
            combine=lambda T: lambda a, b: a + b,
            identity=0,
        )
        for values in (many[:3], many):
            total = op(tk.asarray(values))
            assert (total.item(), total.dtype) == (sum(values), tk.int64)
        assert op(tk.empty((2, 3), dtype=tk.bool, device="meta"), axis=0).dtype == tk.int64
        assert op(tk.asarray([100, 100], dtype="int8")).dtype == tk.int8
    assert op(tk.asarray(many[:3]), dtype=tk.int32).dtype == tk.int32
    both = reduction(f"{NS}::each({REDUCE}) -> Tensor", combine=lambda T: scalar.minimum)
    assert both(tk.asarray([True, False])).item() is False


def test_a_complex_number_is_not_cut_to_its_real_part() -> None:
    op = pointwise(f"{NS}::turned(Tensor x, complex c) -> Tensor", scalar=lambda T: lambda x, c: x * c)
    for repeats in (1, 1 << 19):
        x = tk.asarray([1 + 1j, 2.0] * repeats)
        assert op(x, 2j)[:2].tolist() == [-2 + 2j, 4j]
        with pytest.raises(TypeError, match=r"takes complex dtypes, since c is a complex number\. Convert"):
            op(tk.real(x), 2j)
    either = pointwise(f"{NS}::either(Tensor x, Scalar c) -> Tensor", scalar=lambda T: lambda x, c: x * c)
    assert either(tk.asarray([1j]), 2j).tolist() == [-2]
    assert either(tk.asarray([2]), 2.5).tolist() == [5]
    for call in (either, tk.ops.pointwise_test.either_):
        with pytest.raises(TypeError, match=r"either\] the number 2j is complex, and the call computes in float32"):
            call(tk.ones(2), 2j)
    with pytest.raises(RegistrationError, match=r"c is a complex number, but promote=INT_TO_FLOAT .* take real dtypes"):
        pointwise(f"{NS}::ordered(Tensor x, complex c) -> Tensor", scalar=lambda T: lambda x, c: x * c if x > 0 else x)
