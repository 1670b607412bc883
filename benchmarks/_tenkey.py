"""tenkey's side of the benchmarks: the operators that they register, and waiting for the compiler."""

from __future__ import annotations

import time
from typing import Any

import tenkey as tk
from tenkey.library import scalar

__all__ = ["settle", "silu", "square"]


# At module level, because the schema is read from the annotations.
@tk.library.custom_op("bench::square", mutates_args=())
def square(x: tk.Tensor) -> tk.Tensor:
    """Product of x with itself, as an operator registered from outside; benchmarks/_torch.py has the same."""
    return x * x


def _save_input(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _square_backward(ctx: Any, gradient: tk.Tensor) -> tk.Tensor:
    (x,) = ctx.saved_tensors
    result: tk.Tensor = gradient * x * 2
    return result


square.register_autograd(_square_backward, setup_context=_save_input)

silu = tk.library.pointwise(
    "bench::silu(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x / (T(1) + scalar.exp(-x)),
)


def settle(seconds: float = 3.0) -> None:
    """Let kernels that were asked for in the warm-up be compiled before anything is timed.

    Compiling happens beside the calls, which are served otherwise meanwhile; nothing else runs during the pause.
    """
    time.sleep(seconds)
