"""PyTorch's side of the benchmarks: the same operators as in benchmarks/_tenkey.py, and the number of threads.

Importing this module needs PyTorch: ``pip install torch==2.13.0``. The benchmarks leave its column out otherwise.
"""

from __future__ import annotations

import os
from typing import Any

import torch

__all__ = ["silu", "square"]

torch.set_num_threads(os.cpu_count() or 1)


@torch.library.custom_op("bench::square", mutates_args=())  # type: ignore[untyped-decorator]  # torch is Any here
def square(x: torch.Tensor) -> torch.Tensor:
    """Product of x with itself, as an operator registered from outside."""
    return x * x


@torch.library.custom_op("bench::silu", mutates_args=())  # type: ignore[untyped-decorator]  # torch is Any here
def silu(x: torch.Tensor) -> torch.Tensor:
    """x / (1 + exp(-x)), the way to add a pointwise operator from Python."""
    return x / (1 + torch.exp(-x))


def _save_input(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _square_backward(ctx: Any, gradient: Any) -> Any:
    (x,) = ctx.saved_tensors
    return gradient * x * 2


def _silu_backward(ctx: Any, gradient: Any) -> Any:
    (x,) = ctx.saved_tensors
    sigmoid = 1 / (1 + torch.exp(-x))
    return gradient * sigmoid * (1 + x * (1 - sigmoid))


square.register_autograd(_square_backward, setup_context=_save_input)
silu.register_autograd(_silu_backward, setup_context=_save_input)
