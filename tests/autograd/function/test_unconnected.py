"""Hand-written backward functions that leave the graph raise in a second derivative; constants do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd.function import once_differentiable

Backward = Callable[[Any, tk.Tensor], Any]
LEFT = r"a second derivative is requested, but the backward left the graph \(by .*once_differentiable"


def _sin_in_numpy(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return tk.asarray(g.detach().numpy() * np.cos(ctx.saved_tensors[0].detach().numpy()))


def _numpy_factor(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return g.detach() * tk.asarray(np.cos(ctx.saved_tensors[0].detach().numpy()))


def _item(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return tk.asarray(g.item() * np.cos(ctx.saved_tensors[0].item()))


def _float(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return tk.asarray(float(g) * np.cos(float(ctx.saved_tensors[0])))


def _tolist(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return tk.asarray(np.multiply(g.tolist(), np.cos(ctx.saved_tensors[0].tolist())))


def _data(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return g.data * tk.cos(ctx.saved_tensors[0].data)


def _array(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return tk.asarray(g.array * np.cos(ctx.saved_tensors[0].array))


def _copied(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return tk.tensor(g) * tk.cos(tk.tensor(ctx.saved_tensors[0]))


def _unrecorded(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    with tk.no_grad():
        return g * tk.cos(ctx.saved_tensors[0])


def _switched_off(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    with tk.set_grad_enabled(False):
        return g * tk.cos(ctx.saved_tensors[0])


@tk.set_grad_enabled(False)
def _decorated(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    return g * tk.cos(ctx.saved_tensors[0])


def _inference(ctx: Any, g: tk.Tensor) -> tk.Tensor:
    with tk.inference_mode():
        made = g * tk.cos(ctx.saved_tensors[0])
    return made * 1


LEAVING = [
    _sin_in_numpy, _numpy_factor, _item, _float, _tolist, _data, _array, _unrecorded, _switched_off,
    _decorated, _inference,
]  # fmt: skip


def _function(backward: Backward, forward: Callable[[Any], Any] = np.sin) -> Callable[..., tk.Tensor]:
    class Sin(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: tk.Tensor) -> tk.Tensor:
            ctx.save_for_backward(x)
            return tk.asarray(forward(x.numpy()))

    Sin.backward = staticmethod(backward)  # type: ignore[method-assign,assignment]
    apply: Callable[..., tk.Tensor] = Sin.apply
    return apply


def _operator(backward: Backward, forward: Callable[[Any], Any] = np.sin) -> Callable[..., tk.Tensor]:
    op = tk.library.custom_op(
        "unconnected::sin", lambda x: tk.asarray(forward(x.numpy())), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    return op


def _leaf() -> tk.Tensor:
    return tk.tensor(1.0, dtype=tk.float64, requires_grad=True)


@pytest.mark.parametrize("make", [_function, _operator])
def test_a_copy_stays_connected(make: Callable[[Backward], Callable[..., tk.Tensor]]) -> None:
    """``tk.tensor(x)`` copies the values and keeps the history."""
    x = _leaf()
    (first,) = tk.autograd.grad(make(_copied)(x), x, create_graph=True)
    (second,) = tk.autograd.grad(first, x)
    assert second.item() == pytest.approx(-np.sin(1))


@pytest.mark.parametrize("make", [_function, _operator])
def test_a_second_derivative_through_numpy_raises(make: Callable[[Backward], Callable[..., tk.Tensor]]) -> None:
    silent = []
    for backward in LEAVING:
        f = make(backward)
        for power in (1, 2):  # the gradient at the node is a constant, or depends on x
            x = _leaf()
            y = f(x) ** power
            (first,) = tk.autograd.grad(y, x, create_graph=True)
            assert first.item() == pytest.approx(power * np.sin(1) ** (power - 1) * np.cos(1))
            try:
                tk.autograd.grad(y + first * first, x)
                silent.append(backward.__name__)
            except RuntimeError as error:
                if "once_differentiable" not in str(error):
                    raise
    assert not silent


def test_the_message_names_the_call_and_the_remedies() -> None:
    x = _leaf()
    (first,) = tk.autograd.grad(_function(_item)(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match=LEFT) as caught:
        first.backward()
    assert str(caught.value).startswith("[SinBackward] ")
    assert "(by x.item())" in str(caught.value)


def test_nested_transforms_raise_and_a_first_derivative_does_not() -> None:
    for f in (_function(_sin_in_numpy), _operator(_sin_in_numpy)):
        x = tk.asarray(1.0, dtype=tk.float64)
        assert tk.transforms.grad(f)(x).item() == pytest.approx(np.cos(1))
        with pytest.raises(RuntimeError, match=LEFT):
            tk.transforms.grad(tk.transforms.grad(f))(x)


def test_other_paths_of_a_second_derivative_are_right() -> None:
    """A gradient that is not differentiated again may come from NumPy."""
    x, w = _leaf(), _leaf()
    y = _function(_sin_in_numpy)(x) + w**3
    first = tk.autograd.grad(y, [x, w], create_graph=True)
    assert tk.autograd.grad(first[1], w)[0].item() == 6.0


CONSTANT: list[tuple[Backward, Callable[[Any], Any]]] = [
    (lambda ctx, g: tk.ones(()), lambda x: x + 0),
    (lambda ctx, g: g, lambda x: x + 0),
    (lambda ctx, g: g * 2, lambda x: 2 * x),
    (lambda ctx, g: g * (ctx.saved_tensors[0] > 0), lambda x: np.maximum(x, 0)),
    (lambda ctx, g: g * 3 if ctx.saved_tensors[0] > 0 else g, lambda x: 3 * x),
    (lambda ctx, g: g * tk.asarray(2.0, dtype=ctx.saved_tensors[0].dtype), lambda x: 2 * x),
    (lambda ctx, g: tk.zeros_like(g), lambda x: 0 * x),
]  # fmt: skip


@pytest.mark.parametrize("make", [_function, _operator])
def test_gradients_that_are_constant_stay_constant(make: Callable[..., Callable[..., tk.Tensor]]) -> None:
    for backward, forward in CONSTANT:
        f = make(backward, forward)
        x = _leaf()
        (first,) = tk.autograd.grad(f(x), x, create_graph=True)
        assert not first.requires_grad
        (second,) = tk.autograd.grad(x**3 + first, x)
        assert second.item() == 3.0


def test_a_gradient_that_was_passed_on_is_not_replaced() -> None:
    class Add(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: tk.Tensor, y: tk.Tensor) -> tk.Tensor:
            ctx.save_for_backward(x)
            return x + y

        @staticmethod
        def backward(ctx: Any, g: tk.Tensor) -> tuple[tk.Tensor, tk.Tensor]:
            return g * tk.asarray(ctx.saved_tensors[0].detach().numpy() * 0 + 1), g

    x, y = _leaf(), _leaf()
    first = tk.autograd.grad(Add.apply(x, y), [x, y], create_graph=True)
    assert [one.requires_grad for one in first] == [True, False]


def test_once_differentiable_keeps_its_own_message() -> None:
    x = _leaf()
    (first,) = tk.autograd.grad(_function(once_differentiable(_sin_in_numpy))(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        first.backward()


def test_a_backward_of_operators_is_differentiated() -> None:
    x = _leaf()
    (first,) = tk.autograd.grad(_function(lambda ctx, g: g * tk.cos(ctx.saved_tensors[0]))(x), x, create_graph=True)
    assert tk.autograd.grad(first, x)[0].item() == pytest.approx(-np.sin(1))
