"""What tests of gradients share: leaves, constants, values, and a function that changes nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function


def leaf(values: Any, dtype: Any = tk.float64) -> Tensor:
    return tk.tensor(values, dtype=dtype, requires_grad=True)


def constant(values: Any, dtype: Any = tk.float64) -> Tensor:
    return tk.tensor(values, dtype=dtype)


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().numpy()


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Identity(Function):
    """Passes the gradient on; subclasses change it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x + 0.0
