"""Custom operators that several files of tests make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenkey as tk
from tenkey.library import CustomOperator, custom_op

NS = "custom_op_test"
Tensor = tk.Tensor


def make(name: str, function: Callable[..., Any], schema: str | None = None, **options: Any) -> CustomOperator:
    """A custom operator of a lambda."""
    options.setdefault("mutates_args", ())
    made: CustomOperator = custom_op(f"{NS}::{name}", function, schema=schema, **options)
    return made


def square_with_gradient(name: str = "square") -> CustomOperator:
    """x * x, whose backward is written with operators."""
    op = make(name, lambda x: tk.asarray(np.square(x.detach().numpy())), "(Tensor x) -> Tensor")

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    op.register_autograd(lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup_context=keep)
    return op


def leaf(*values: float) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def gradients(out: Tensor, *inputs: Tensor, **options: Any) -> list[Any]:
    return [None if g is None else g.tolist() for g in tk.autograd.grad(tk.sum(out), inputs, **options)]
