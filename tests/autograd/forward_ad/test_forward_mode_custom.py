"""Forward mode of what users define: custom operators, their rules, and Functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import Function
from tenkey.autograd.forward_ad.levels import dual_level, make_dual, unpack_dual
from tenkey.core.tensor import Tensor
from tenkey.dispatch import registry
from tenkey.ops.declare.facets import Forward
from tenkey.transforms import vmap


@pytest.fixture
def custom() -> Iterator[Any]:
    made: list[str] = []

    def make(name: str, function: Callable[..., Any], **options: Any) -> Any:
        options.setdefault("mutates_args", ())
        made.append(f"jvptest::{name}")
        return tk.library.custom_op(f"jvptest::{name}", function, **options)

    yield make
    for name in made:
        registry.undefine(registry.find(name), keep_kernels=False)


def _square(x: Tensor, scale: float) -> Tensor:
    return tk.asarray(x.numpy() ** 2 * scale)


def _push(operator: Any, *args: Any) -> Any:
    with dual_level():
        x = make_dual(tk.asarray(np.array([1.0, 2.0])), tk.asarray(np.array([10.0, 1.0])))
        return unpack_dual(operator(x, *args)).tangent


def test_no_rule_is_an_error(custom: Any) -> None:
    operator = custom("square", _square)
    with pytest.raises(NotImplementedError, match=r"jvptest::square.*register_jvp"):
        _push(operator, 1.0)
    mutating = custom("bump", lambda x: None, schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
    with pytest.raises(NotImplementedError, match=r"jvptest::bump.*register_jvp"):
        _push(mutating)


def test_a_rule_of_the_user(custom: Any) -> None:
    operator = custom("square", _square)
    seen: list[Any] = []

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(inputs[0])
        ctx.scale = inputs[1]
        seen.append((len(inputs), output.shape))

    def jvp(ctx: Any, t: Tensor, scale: Any) -> Tensor:
        assert scale is None
        assert ctx.needs_input_grad == (True, False)
        return 2 * ctx.saved_tensors[0] * t * ctx.scale

    operator.operator.facets["Forward"] = Forward(jvp, setup)
    assert _push(operator, 3.0).tolist() == [60.0, 12.0]
    assert seen == [(2, (2,))]


def _backward(ctx: Any, g: Tensor) -> Any:
    return g * 2 * ctx.saved_tensors[0] * ctx.scale, None


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def test_a_rule_that_follows_from_the_gradient(custom: Any) -> None:
    operator = custom("square", _square)
    operator.register_autograd(_backward, setup_context=_setup)
    assert _push(operator, 3.0).tolist() == [60.0, 12.0]
    x = tk.tensor(np.array([1.0, 2.0]), requires_grad=True)
    with dual_level():
        out = unpack_dual(operator(make_dual(x, tk.asarray(np.array([10.0, 1.0]))), 3.0))
    assert out.primal.requires_grad
    (second,) = tk.autograd.grad(out.tangent.sum(), x)  # type: ignore[union-attr]
    assert second is not None
    assert second.tolist() == [60.0, 6.0]


def test_the_setup_of_the_gradient_serves_the_jvp(custom: Any) -> None:
    operator = custom("square", _square)
    operator.register_autograd(_backward, setup_context=_setup)
    operator.operator.facets["Forward"] = Forward(lambda ctx, t, s: 2 * ctx.saved_tensors[0] * t * ctx.scale, None)
    assert _push(operator, 1.0).tolist() == [20.0, 4.0]


@pytest.mark.parametrize(
    "backward",
    [
        lambda ctx, g: (tk.asarray(g.detach().numpy() * 2), None),
        lambda ctx, g: (tk.asarray(g.numpy() * 2), None),
        tk.autograd.once_differentiable(lambda ctx, g: (g * 2, None)),
    ],
)
def test_a_gradient_made_of_numpy_gives_no_forward_rule(custom: Any, backward: Any) -> None:
    operator = custom("square", _square)
    operator.register_autograd(backward)
    with pytest.raises(NotImplementedError, match=r"jvptest::square.*register_jvp"):
        _push(operator, 1.0)


def test_several_results_and_lists(custom: Any) -> None:
    schema = "(Tensor x, Tensor[] others) -> (Tensor, Tensor[])"
    operator = custom("both", lambda x, others: (x * 1, [x + o for o in others]), schema=schema)
    operator.operator.facets["Forward"] = Forward(lambda ctx, t, ts: (t, [t + o for o in ts]), None)
    x = tk.ones(2)
    with dual_level():
        dual = make_dual(x, x * 3)
        first, (second, third) = operator(dual, [dual, x])
        assert unpack_dual(first).tangent.tolist() == [3.0, 3.0]  # type: ignore[union-attr]
        assert unpack_dual(second).tangent.tolist() == [6.0, 6.0]  # type: ignore[union-attr]
        assert unpack_dual(third).tangent.tolist() == [3.0, 3.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (lambda t: (t, t), RuntimeError, "2 tangents, expected 1"),
        (lambda t: t.sum(), RuntimeError, r"shape \(\)"),
        (lambda t: t.astype(tk.float32), RuntimeError, "float32"),
        (lambda t: 0.0, TypeError, "float"),
    ],
)
def test_wrong_rules(custom: Any, returned: Any, error: type[Exception], words: str) -> None:
    operator = custom("square", _square)
    operator.operator.facets["Forward"] = Forward(lambda ctx, t, s: returned(t), None)
    with pytest.raises(error, match=words):
        _push(operator, 1.0)


def test_operators_without_derivative_give_no_tangent() -> None:
    with tk.library.Library("jvpflat", "DEF") as lib:
        lib.define("flat(Tensor x) -> Tensor", differentiable=False)
        lib.impl("flat", lambda x: x * 2, "default")
        assert _push(tk.ops.jvpflat.flat) is None


def test_operators_of_one_expression() -> None:
    cube = tk.library.pointwise("jvptest::cube(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * x)
    try:
        assert _push(cube).tolist() == [30.0, 12.0]
    finally:
        registry.undefine(cube.operator)


class _Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * 2 * ctx.saved_tensors[0]


class _WithJvp(_Square):
    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        return 2 * ctx.saved_tensors[0] * t


class _WithVmap(_Square):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> Any:
        assert info.batch_size == 3
        return _Square.apply(x), in_dims[0]


@pytest.mark.parametrize("function", [_Square, _WithJvp, _WithVmap])
def test_function(function: Any) -> None:
    assert _push(function.apply).tolist() == [20.0, 4.0]
    x = tk.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    y = vmap(function.apply, in_dims=1)(x)
    np.testing.assert_array_equal(y.detach().numpy(), (x.detach().numpy() ** 2).T)
    (gradient,) = tk.autograd.grad(y.sum(), x)
    assert gradient is not None
    np.testing.assert_array_equal(gradient.numpy(), 2 * x.detach().numpy())


def test_recorded_function_in_forward_mode() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    for function in (_Square, _WithJvp):
        with dual_level():
            primal, tangent = unpack_dual(function.apply(make_dual(x, tk.ones(2))))
        assert tangent is not None
        assert tk.autograd.grad(primal.sum(), x)[0].tolist() == [2.0, 4.0]  # type: ignore[union-attr]
        if function is _WithJvp:
            assert tangent.tolist() == [2.0, 4.0]
