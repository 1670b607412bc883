"""Autograd in a second: one path through recording, the engine, modes, hooks, Function and gradcheck."""

from __future__ import annotations

from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, grad, gradcheck


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def test_backward_accumulates() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    for _ in range(2):
        (x * w + x).sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    assert x.grad.tolist() == [8.0, 10.0]
    assert w.grad.tolist() == [2.0, 4.0]


def test_second_order() -> None:
    x = leaf(2.0)
    (first,) = grad(x * x * x, x, create_graph=True)
    (second,) = grad(first, x)
    assert second is not None
    assert second.item() == 12.0


def test_no_grad() -> None:
    x = leaf(2.0)
    with tk.no_grad():
        assert not (x * x).requires_grad
        x += 1.0
    assert (x * x).requires_grad


def test_a_freed_graph_and_a_modified_tensor() -> None:
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    y = x * x
    x.detach().add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_hooks() -> None:
    x = leaf(2.0)
    y = x * 3.0
    y.retain_grad()
    with y.register_hook(lambda g: g * 10.0):
        y.backward()
    assert y.grad is not None
    assert x.grad is not None
    assert (y.grad.item(), x.grad.item()) == (10.0, 30.0)


def test_a_function_by_hand() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grads[0] * 3.0 * x * x

    class Wrong(Cube):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    x = leaf([0.5, 2.0])
    assert gradcheck(Cube.apply, x)
    assert not gradcheck(Wrong.apply, x, raise_exception=False)
