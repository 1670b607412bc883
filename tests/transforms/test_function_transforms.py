"""``Function`` with ``jvp``, ``vmap`` and ``generate_vmap_rule`` inside of transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import Function
from tenkey.core.tensor import Tensor
from tenkey.transforms import LOOPS, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

_ROWS = np.array([[0.5, 1.0, -1.5], [2.0, -0.25, 0.75]])
_W = np.array([1.0, -2.0, 3.0])


def _close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-11, atol=1e-13)


class Weighted(Function):
    """``sum(w * x ** 2)`` and ``exp(x)``: two results, a number, notes on the context, shapes of one sample."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        return tk.sum(w * x * x) * scale, tk.exp(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, ctx.scale = inputs
        ctx.shape_of_x = x.shape
        ctx.save_for_backward(x, w, output[1])
        ctx.save_for_forward(x, w, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Any:
        x, w, powers = ctx.saved_tensors
        assert ctx.shape_of_x == x.shape == (3,)
        assert g.shape == ()
        return g * 2 * w * x * ctx.scale + h * powers, g * x * x * ctx.scale, None

    @staticmethod
    def jvp(ctx: Any, tx: Tensor | None, tw: Tensor | None, _: None) -> Any:
        x, w, powers = ctx.saved_tensors
        first = tk.zeros_like(powers).sum()
        if tx is not None:
            first = first + tk.sum(2 * w * x * tx) * ctx.scale
        if tw is not None:
            first = first + tk.sum(tw * x * x) * ctx.scale
        return first, tk.zeros_like(powers) if tx is None else powers * tx


def _plain(x: Tensor, w: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    return tk.sum(w * x * x) * scale, tk.exp(x)


def _total(function: Any) -> Any:
    def total(x: Tensor, w: Tensor) -> Tensor:
        first, second = function(x, w, 0.5)
        return tk.sin(first) + tk.sum(second * w)

    return total


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (1, None)])
def test_the_generated_rule_is_the_function_of_each_sample(dims: Any) -> None:
    given = [
        tk.asarray(value if d is None else np.stack([value, value * 2, -value], axis=d))
        for value, d in zip((_ROWS[0], _W), dims, strict=True)
    ]
    LOOPS.clear()
    mapped = {
        "apply": vmap(lambda x, w: Weighted.apply(x, w, 0.5), dims)(*given),
        "grad": vmap(grad(_total(Weighted.apply), (0, 1)), dims)(*given),
        "jvp": vmap(lambda x, w: jvp(_total(Weighted.apply), (x, w), (w, x)), dims)(*given),
        "hessian": vmap(hessian(_total(Weighted.apply), (0, 1)), dims)(*given),
        "outside": grad(lambda x, w: tk.sum(vmap(_total(Weighted.apply), dims)(x, w)), (0, 1))(*given),
        "pushed": jvp(vmap(_total(Weighted.apply), dims), tuple(given), tuple([x * 2 for x in given])),
        "twice": vmap(vmap(_total(Weighted.apply), dims), (0, None))(tk.stack([given[0], given[0] * 3]), given[1]),
    }
    assert not LOOPS
    expected = {
        "apply": vmap(lambda x, w: _plain(x, w, 0.5), dims)(*given),
        "grad": vmap(grad(_total(_plain), (0, 1)), dims)(*given),
        "jvp": vmap(lambda x, w: jvp(_total(_plain), (x, w), (w, x)), dims)(*given),
        "hessian": vmap(hessian(_total(_plain), (0, 1)), dims)(*given),
        "outside": grad(lambda x, w: tk.sum(vmap(_total(_plain), dims)(x, w)), (0, 1))(*given),
        "pushed": jvp(vmap(_total(_plain), dims), tuple(given), tuple([x * 2 for x in given])),
        "twice": vmap(vmap(_total(_plain), dims), (0, None))(tk.stack([given[0], given[0] * 3]), given[1]),
    }
    from tenkey.core.tree import flatten

    for key, got in mapped.items():
        for one, want in zip(flatten(got), flatten(expected[key]), strict=True):
            _close(one, want.numpy())


def test_with_the_tape() -> None:
    x, w = tk.asarray(_ROWS).requires_grad_(), tk.asarray(_W).requires_grad_()
    first, second = vmap(lambda row: Weighted.apply(row, w, 2.0))(x)
    (first.sum() + second.sum()).backward()
    _close(x.grad, 4 * _W * _ROWS + np.exp(_ROWS))
    _close(w.grad, 2 * (_ROWS**2).sum(axis=0))


class Shared(Function):
    """With marks: an output without gradient, and gradients that are None."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, x > y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor, unused: Any) -> Any:
        assert unused is None
        x, y = ctx.saved_tensors
        return g * y, (g * x if ctx.needs_input_grad[1] else None)


def test_marks_in_a_generated_rule() -> None:
    x, y = tk.asarray(_ROWS).requires_grad_(), tk.asarray(_W)
    product, larger = vmap(Shared.apply, (0, None))(x, y)
    assert not larger.requires_grad
    assert larger.tolist() == (_ROWS > _W).tolist()
    product.sum().backward()
    _close(x.grad, np.broadcast_to(_W, (2, 3)))


class Broadcasting(Function):
    """Whose backward returns more than the input has, which is summed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * y, g * x


def test_a_larger_gradient_is_summed() -> None:
    x = tk.asarray(_ROWS[:, :1])
    _, pull = vjp(vmap(Broadcasting.apply, (0, None)), x, tk.asarray(_W))
    by_x, by_w = pull(tk.ones((2, 3), dtype=tk.float64))
    _close(by_x, np.full((2, 1), _W.sum()))
    _close(by_w, np.full(3, _ROWS[:, 0].sum()))


class Cube(Function):
    """Of the newer style: forward without a context."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return tk.asarray(x.numpy() ** 3)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 3 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> Tensor:
        return t * 3 * ctx.saved_tensors[0] ** 2


def test_a_forward_of_numpy_in_nested_transforms() -> None:
    """Its own rules are what counts, never what its forward is made of."""
    x = tk.asarray(_W)
    _close(jacfwd(jacfwd(lambda y: tk.sum(Cube.apply(y))))(x), np.diag(6 * _W))
    _close(jacrev(jacfwd(lambda y: tk.sum(Cube.apply(y))))(x), np.diag(6 * _W))
    _close(hessian(lambda y: tk.sum(Cube.apply(y)))(x), np.diag(6 * _W))
    _close(vmap(hessian(lambda y: tk.sum(Cube.apply(y))))(tk.asarray(_ROWS)), np.stack([np.diag(6 * r) for r in _ROWS]))


# ---- mistakes


class Old(Function):
    """Of the older style: forward with the context, and a jvp."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**3

    backward = Cube.backward
    jvp = Cube.jvp


def test_the_older_style_where_it_is_not_enough() -> None:
    x = tk.asarray(_W)
    _close(jvp(Old.apply, (x,), (x,))[1], 3 * _W**3)
    with pytest.raises(NotImplementedError, match="must override the setup_context staticmethod"):
        jacfwd(jacfwd(Old.apply))(x)
    old = type("Generated", (Old,), {"generate_vmap_rule": True})
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        vmap(old.apply)(tk.asarray(_ROWS))


def test_two_rules_for_vmap() -> None:
    both = type("Both", (Cube,), {"generate_vmap_rule": True, "vmap": staticmethod(lambda info, dims, x: (x, 0))})
    with pytest.raises(RuntimeError, match="generate_vmap_rule=True and a vmap staticmethod"):
        vmap(both.apply)(tk.asarray(_ROWS))


def test_mark_dirty_in_a_generated_rule() -> None:
    class Dirty(Shared):
        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_dirty(inputs[0])

    with pytest.raises(NotImplementedError, match="mark_dirty"):
        vmap(Dirty.apply, (0, None))(tk.asarray(_ROWS), tk.asarray(_W))
