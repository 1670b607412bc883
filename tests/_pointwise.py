"""Operators of one expression that several files of tests make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenkey as tk
from tenkey.library import INT_TO_FLOAT, pointwise, reduction, scalar

NS = "pointwise_test"
REDUCE = "Tensor x, *, int[1]? axis=None, bool keepdims=False"


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


def log_add_exp() -> Callable[..., Any]:
    """log(exp(a) + exp(b)), which is associative; written so that it does not overflow."""

    def combine(T: Any) -> Any:
        def both(a: Any, b: Any) -> Any:
            high, low = scalar.maximum(a, b), scalar.minimum(a, b)
            return scalar.where(low == -T.inf, high, high + scalar.log1p(scalar.exp(low - high)))

        return both

    return reduction(f"{NS}::log_add_exp({REDUCE}) -> Tensor", combine=combine, identity=-np.inf, promote=INT_TO_FLOAT)
