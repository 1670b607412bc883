"""``tk.transforms.grad`` and its relatives: against closed forms, against one another, nested, and under ``vmap``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.transforms import grad, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp, vmap

_X = np.array([0.5, 1.0, -1.5])


def _f(x: Tensor) -> Tensor:
    return tk.sum(tk.sin(x) * x)


def _x() -> Tensor:
    return tk.asarray(_X.copy())


FIRST = np.sin(_X) + _X * np.cos(_X)
SECOND = 2 * np.cos(_X) - _X * np.sin(_X)


def _close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-11, atol=1e-13)


def test_grad_and_value() -> None:
    x = _x()
    value, gradient = value_and_grad(_f)(x)
    _close(value, np.sum(np.sin(_X) * _X))
    _close(gradient, FIRST)
    _close(grad(_f)(x), FIRST)
    assert [t.requires_grad for t in (gradient, value, x)] == [False] * 3


def test_arguments() -> None:
    def function(x: Tensor, pair: dict[str, Tensor], *, scale: float) -> tuple[Tensor, str]:
        return tk.sum(x * pair["a"] ** 2) * scale, "aux"

    x, a = _x(), _x() + 1
    by_x, aux = grad(function, has_aux=True)(x, {"a": a}, scale=2.0)
    _close(by_x, 2 * (_X + 1) ** 2)
    assert aux == "aux"
    both, _ = grad(function, argnums=(1, 0), has_aux=True)(x, {"a": a}, scale=2.0)
    _close(both[0]["a"], 4 * _X * (_X + 1))
    _close(both[1], by_x.numpy())
    (_, words), last = value_and_grad(function, argnums=-1, has_aux=True)(x, {"a": a}, scale=2.0)
    assert words == "aux"
    _close(last["a"], both[0]["a"].numpy())


def test_an_input_that_is_not_used_has_a_gradient_of_zero() -> None:
    _close(grad(lambda x, y: tk.sum(x), argnums=1)(_x(), _x()), np.zeros(3))
    _close(grad(lambda x: tk.asarray(1.0))(_x()), np.zeros(3))


def test_no_grad_outside_does_not_matter() -> None:
    with tk.no_grad():
        _close(grad(_f)(_x()), FIRST)
        _close(grad(lambda x: tk.sum(grad(_f)(x)))(_x()), SECOND)
        _close(vjp(_f, _x())[1](tk.asarray(1.0))[0], FIRST)


def test_every_nesting_of_two() -> None:
    expected = np.diag(SECOND)
    for outer, inner in itertools.product((jacrev, jacfwd), repeat=2):
        _close(outer(inner(_f))(_x()), expected)
    _close(hessian(_f)(_x()), expected)
    _close(grad(lambda x: tk.sum(grad(_f)(x)))(_x()), SECOND)
    v = tk.asarray(np.array([1.0, 2.0, 3.0]))
    _close(jvp(grad(_f), (_x(),), (v,))[1], SECOND * v.numpy())
    _close(grad(lambda x: jvp(_f, (x,), (v,))[1])(_x()), SECOND * v.numpy())
    _close(vjp(grad(_f), _x())[1](v)[0], SECOND * v.numpy())


def test_third_order() -> None:
    cube = grad(grad(grad(lambda x: x**4)))(tk.asarray(2.0))
    assert cube.item() == 48.0
    mixed = jacfwd(jacrev(jacfwd(lambda x: x**4)))(tk.asarray(2.0))
    assert mixed.item() == 48.0


def test_inner_and_outer_are_not_confused() -> None:
    result = grad(lambda x: x * grad(lambda y: x + y)(tk.asarray(1.0)))(tk.asarray(3.0))
    assert result.item() == 1.0


def test_the_tape_goes_through() -> None:
    x = _x().requires_grad_()
    gradient = grad(_f)(x)
    assert gradient.requires_grad
    gradient.sum().backward()
    _close(x.grad, SECOND)
    w = tk.asarray(2.0, dtype=tk.float64).requires_grad_()
    grad(lambda x: tk.sum(x * x) * w)(_x()).sum().backward()  # w is no argument
    _close(w.grad, 2 * _X.sum())


def test_private_inputs() -> None:
    """Gradients are the same where the graph leads to the inputs only, and where it leads elsewhere too."""
    x, w = _x(), tk.asarray(2.0, dtype=tk.float64).requires_grad_()
    seen: list[Tensor] = []

    def hooked(x: Tensor) -> Tensor:
        x.register_hook(lambda g: seen.append(g) or g * 10)  # type: ignore[func-returns-value]
        return _f(x)

    def through_a_node(x: Tensor) -> Tensor:
        y = x * 2
        y.register_hook(lambda g: g * 3)
        return tk.sum(y)

    _close(grad(hooked)(x), 10 * FIRST)
    _close(seen[0], FIRST)
    _close(grad(through_a_node)(x), np.full(3, 6.0))
    _close(grad(lambda x: x)(w.detach()), 1.0)
    _close(grad(lambda pair: pair[0], argnums=0)((w.detach(), x))[1], np.zeros(3))
    both = grad(lambda x, y: tk.sum(x * y) + tk.sum(x), argnums=(0, 1))(x, x)  # one tensor twice
    _close(both[0], _X + 1)
    _close(both[1], _X)
    assert not grad(lambda x, y: tk.sum(x**2), argnums=(0, 1))(x, w)[0].requires_grad  # w is not reached
    assert grad(lambda x: tk.sum(x**2) * w)(x).requires_grad
    rows, first = tk.autograd.grad(grad(lambda x, y: tk.sum(x**2) * y, argnums=(0, 1))(x, w)[0].sum(), w), 2 * _X.sum()
    _close(rows[0], first)
    deep = grad(lambda x: tk.sum(grad(lambda y: tk.sum(y**2 * x))(x * 3)))(x)  # the input of the inner one depends on x
    _close(deep, 12 * _X)


def test_subclasses_without_a_handler_are_kept() -> None:
    """The function gets an instance, and the derivative is one."""

    class Kept(Tensor):
        def squared(self) -> Any:
            return self * self

    x = _x().as_subclass(Kept)
    pair = grad(lambda p: tk.sum(p[0].squared() * p[1]), argnums=0)((x, _x()))
    assert (type(pair[0]), type(pair[1])) == (Kept, Tensor)
    _close(pair[0], 2 * _X**2)
    second = grad(lambda y: tk.sum(grad(lambda z: tk.sum(z.squared() * z))(y).squared()))(x)  # 9 x**4
    assert type(second) is Kept
    _close(second, 36 * _X**3)
    found = vjp(lambda y: y.squared(), x)[1](tk.ones(3, dtype=tk.float64))[0]
    results = [found, jacrev(lambda y: y.squared())(x), jacfwd(lambda y: y * y)(x), vmap(lambda y: y * y)(x)]
    assert {type(result) for result in results} == {Kept}
    assert {type(result) for result in jvp(lambda y: y * y, (x,), (x,))} == {Kept}


def test_results_have_no_history_of_their_own() -> None:
    """Unless it leads to what somebody may ask for."""
    x, v = _x(), tk.asarray(np.array([1.0, -2.0, 0.5]))

    def pulled(u: Tensor) -> Tensor:
        (found,) = vjp(lambda y: tk.sin(y) * y, x)[1](u)
        return found

    _, pull = vjp(lambda y: tk.sin(y) * y, x)
    for result in (
        grad(lambda u: tk.sum(pulled(u)))(v),
        grad(lambda u: tk.sum(pull(u)[0]))(v),
        grad(lambda u: tk.sum(linearize(lambda y: tk.sin(y) * y, x)[1](u)))(v),
    ):
        _close(result, FIRST)
        assert not result.requires_grad
    both = jacrev(lambda y: grad(lambda u: tk.sum(vjp(lambda z: tk.sin(z) * z, y)[1](u)[0]))(v))(x)
    _close(both, np.diag(SECOND))
    assert not both.requires_grad


def test_vjp_and_jvp() -> None:
    x, v = _x(), tk.asarray(np.array([1.0, -2.0, 0.5]))

    def function(x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"product": x * y, "sum": tk.sum(x)}

    output, pullback = vjp(function, x, v)
    _close(output["product"], _X * v.numpy())
    for _ in range(2):
        by_x, by_y = pullback({"product": v, "sum": tk.asarray(1.0, dtype=tk.float64)})
        _close(by_x, v.numpy() ** 2 + 1)
        _close(by_y, _X * v.numpy())
    pushed, tangent = jvp(function, (x, v), (v, x))
    _close(pushed["sum"], _X.sum())
    _close(tangent["product"], v.numpy() ** 2 + _X**2)
    _close(tangent["sum"], v.numpy().sum())
    _, extra = vjp(lambda x: (x * 2, x + 1), x, has_aux=True)[1:]
    _close(extra, _X + 1)
    assert jvp(lambda x: (x * 2, "aux"), (x,), (v,), has_aux=True)[2] == "aux"
    _close(jvp(lambda x: tk.ones(2), (x,), (v,))[1], np.zeros(2))


def test_linearize() -> None:
    v = tk.asarray(np.array([1.0, -2.0, 0.5]))
    output, push = linearize(_f, _x())
    _close(output, np.sum(np.sin(_X) * _X))
    _close(push(v), FIRST @ v.numpy())
    _close(push(v * 2), 2 * FIRST @ v.numpy())


def test_jacobians_of_trees() -> None:
    def function(x: Tensor, w: Tensor) -> dict[str, Tensor]:
        return {"a": w @ x, "b": tk.sum(w * w)}

    rng = np.random.default_rng(0)
    w = tk.asarray(rng.standard_normal((2, 3)))
    for transform in (jacrev, jacfwd):
        result = transform(function, argnums=(0, 1))(_x(), w)
        _close(result["a"][0], w.numpy())
        _close(result["a"][1], np.einsum("ij,k->ijk", np.eye(2), _X))
        _close(result["b"][0], np.zeros(3))
        _close(result["b"][1], 2 * w.numpy())
        _close(transform(lambda x: (x * x, x), has_aux=True)(_x())[0], np.diag(2 * _X))
    second = hessian(lambda x, y: tk.sum(x * y * y), argnums=(0, 1))(_x(), _x())
    _close(second[0][0], np.zeros((3, 3)))
    _close(second[0][1], np.diag(2 * _X))
    _close(second[1][1], np.diag(2 * _X))


# ---- under vmap


def _loss(w: Tensor, row: Tensor) -> Tensor:
    return tk.sum(tk.tanh(row @ w) ** 2) + tk.max(w @ tk.ones(2, dtype=tk.float64))


@pytest.mark.parametrize("argnums", [0, 1])
def test_gradients_of_each_sample(argnums: int) -> None:
    rng = np.random.default_rng(1)
    w, rows = tk.asarray(rng.standard_normal((3, 2))), tk.asarray(rng.standard_normal((5, 3)))
    transform = grad(_loss, argnums)
    together = vmap(transform, in_dims=(None, 0))(w, rows)
    _close(together, np.stack([transform(w, rows[b]).numpy() for b in range(5)]))
    outer = vmap(vmap(transform, in_dims=(None, 0)), in_dims=(0, None))(tk.stack([w, w * 2]), rows)
    assert outer.shape == (2, 5, *together.shape[1:])
    _close(outer[0], together.numpy())


@pytest.mark.parametrize(
    "transform",
    [hessian(_f), jacrev(_f), jacfwd(_f), lambda x: jvp(grad(_f), (x,), (x,))[1], lambda x: vjp(grad(_f), x)[1](x)[0]],
)
def test_transforms_of_each_sample(transform: Callable[[Tensor], Tensor]) -> None:
    rows = tk.asarray(np.random.default_rng(2).standard_normal((4, 3)))
    _close(vmap(transform)(rows), np.stack([transform(rows[b]).numpy() for b in range(4)]))


def test_derivatives_through_vmap() -> None:
    rows = np.random.default_rng(2).standard_normal((4, 3))

    def total(x: Tensor) -> Tensor:
        return tk.sum(vmap(_f)(x) ** 2)

    plain = 2 * (np.sin(rows) * rows).sum(1, keepdims=True) * (np.sin(rows) + rows * np.cos(rows))
    x = tk.asarray(rows)
    _close(grad(total)(x), plain)
    _close(jacfwd(total)(x), plain)
    v = tk.asarray(np.ones((4, 3)))
    _close(jvp(grad(total), (x,), (v,))[1], vjp(grad(total), x)[1](v)[0].numpy())
    _close(vmap(lambda s: grad(lambda x: total(x) * s)(x))(tk.asarray(np.arange(2.0))), np.stack([plain * 0, plain]))


def test_a_custom_operator_in_a_jacobian() -> None:
    @tk.library.custom_op("derivtest::square", mutates_args=())
    def square(x: Tensor) -> Tensor:
        return tk.asarray(x.numpy() ** 2)

    square.register_autograd(
        lambda ctx, g: g * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    try:
        for transform in (jacrev, jacfwd):
            _close(transform(square)(_x()), np.diag(2 * _X))
    finally:
        tk.dispatch.registry.undefine(square.operator, keep_kernels=False)


# ---- mistakes


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: grad(3), TypeError, "function"),  # type: ignore[arg-type]
        (lambda x: grad(_f, argnums=1)(x), ValueError, "argnums=1"),
        (lambda x: grad(_f, argnums=())(x), ValueError, "argnums"),
        (lambda x: grad(_f, argnums="x")(x), ValueError, "argnums"),  # type: ignore[arg-type]
        (lambda x: grad(_f, argnums=(0, 0))(x), ValueError, "argnums"),
        (lambda x: grad(_f)(2), TypeError, "no floating or complex tensor"),
        (lambda x: grad(_f)(tk.asarray([1, 2])), TypeError, "no floating or complex tensor"),
        (lambda x: grad(lambda x: x)(x), ValueError, "return a scalar tensor"),
        (lambda x: grad(lambda x: 1.0)(x), ValueError, "return a scalar tensor"),
        (lambda x: grad(lambda x: tk.sum(x), has_aux=True)(x), TypeError, "has_aux"),
        (lambda x: vjp(lambda x: 1.0, x), TypeError, "must return"),
        (lambda x: vjp(_f, x)[1](x), ValueError, "cotangent"),
        (lambda x: vjp(_f, x)[1]((x, x)), ValueError, "2 cotangents for 1"),
        (lambda x: jvp(_f, x, x), TypeError, "tuples"),  # type: ignore[arg-type]
        (lambda x: jvp(_f, (), ()), ValueError, "at least one primal"),
        (lambda x: jvp(_f, (x,), (x, x)), ValueError, "same structure"),
        (lambda x: jvp(_f, (x,), (tk.ones(2),)), ValueError, r"shape \(3,\)"),
        (lambda x: jvp(_f, (x,), (1.0,)), ValueError, "tangent 0 must be a Tensor"),
        (lambda x: jvp(_f, (tk.asarray([1]),), (tk.asarray([1]),)), TypeError, "no floating"),
        (lambda x: jvp(lambda x: 1.0, (x,), (x,)), TypeError, "must return"),
        (lambda x: jacrev(lambda x: x * 1j)(x), NotImplementedError, "Expected all outputs to be real"),
        (lambda x: jacfwd(lambda x: x * 2)(x * 1j), NotImplementedError, "Expected all inputs to be real"),
        (lambda x: jacrev(lambda x: x > 1)(x), TypeError, "must return"),
        (lambda x: linearize(_f), ValueError, "at least one primal"),
        (lambda x: jacrev(lambda x: ())(x), TypeError, r"\[jacrev\] the function must return .*, got tuple"),
        (lambda x: jacfwd(lambda x: ())(x), TypeError, r"\[jacfwd\] the function must return .*, got tuple"),
        (lambda x: hessian(lambda x: ())(x), TypeError, r"\[hessian\] the function must return"),
        (lambda x: jacfwd(_f)(()), TypeError, r"\[jacfwd\] argument 0 holds no floating or complex tensor"),
        (lambda x: jacfwd(_f)(tk.asarray([1])), TypeError, r"\[jacfwd\] argument 0 holds no floating"),
        (lambda x: jacrev(_f)(2), TypeError, r"\[jacrev\] argument 0 holds no floating"),
        (lambda x: hessian(_f)(2), TypeError, r"\[hessian\] argument 0 holds no floating"),
        (lambda x: hessian(3), TypeError, r"\[hessian\] the first argument is a function, got int"),  # type: ignore[arg-type]
        (lambda x: hessian(_f, argnums=3)(x), ValueError, r"\[hessian\] argnums=3"),
    ],
)
def test_wrong_calls(call: Callable[[Tensor], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(_x())


def test_a_derivative_of_high_order_by_transposition_has_no_history() -> None:
    """The rule of a norm is derived by a gradient, whose seed is a leaf that is not the user's."""
    x, v = tk.asarray([0.3, -0.7, 1.1], dtype=tk.float64), tk.ones(3, dtype=tk.float64)
    slope = tk.transforms.grad(lambda y: tk.linalg.vector_norm(y))
    bend = tk.transforms.jvp(lambda y: tk.transforms.jvp(slope, (y,), (v,))[1], (x,), (v,))[1]
    assert not bend.requires_grad
    a = np.asarray([0.3, -0.7, 1.1])
    n, s = np.linalg.norm(a), a.sum()  # d(a / n) = 1 / n - a s / n^3, and once more along v = (1, 1, 1)
    want = -2 * s / n**3 - a * 3 / n**3 + 3 * a * s**2 / n**5
    np.testing.assert_allclose(bend.numpy(), want, rtol=1e-12)
