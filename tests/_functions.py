"""Functions with a backward by hand that several files of tests use."""

from __future__ import annotations

from typing import Any

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function


class Cube(Function):
    """The context is filled in forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 3.0 * x * x


class Exponential(Function):
    """Forward knows nothing of gradients; saves its output."""

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return tk.exp(x * factor)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.factor = inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (out,) = ctx.saved_tensors
        return grads[0] * out * ctx.factor, None


class SumAndProduct(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, y)
        return x + y, x * y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        x, y = ctx.saved_tensors
        return grads[0] + grads[1] * y, grads[0] + grads[1] * x
