"""PyTorch's side of the benchmarks: the same operators as in benchmarks/_tenkey.py, and the number of threads.

This module requires PyTorch (``pip install torch==2.13.0``); without it the benchmarks omit its column.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["REGISTER", "Square", "counted", "custom", "load_saxpy", "silu", "square"]

torch.set_num_threads(os.cpu_count() or 1)


@torch.library.custom_op("bench::square", mutates_args=())  # type: ignore[untyped-decorator]  # torch is Any here
def square(x: torch.Tensor) -> torch.Tensor:
    """Return ``x * x``, as a custom operator."""
    return x * x


@torch.library.custom_op("bench::silu", mutates_args=())  # type: ignore[untyped-decorator]  # torch is Any here
def silu(x: torch.Tensor) -> torch.Tensor:
    """Return ``x / (1 + exp(-x))``, as a custom operator, PyTorch's way to add one from Python."""
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

library = torch.library.Library("bench_library", "DEF")
for _name in ("square", "square_with_gradient"):
    library.define(f"{_name}(Tensor x) -> Tensor")
    library.impl(_name, lambda x: x * x, "CPU")
torch.library.register_autograd(
    "bench_library::square_with_gradient", _square_backward, setup_context=_save_input, lib=library
)


class Square(torch.autograd.Function):  # type: ignore[misc]  # torch is Any here
    """``x * x`` with a hand-written gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """Return ``x * x``."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Return the gradient."""
        return _square_backward(ctx, gradient)


class _Count(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
    """Count calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def counted(function: Any, *args: Any) -> Any:
    """Call the function under a mode that counts."""
    with _Count():
        return function(*args)


def load_saxpy(path: Path) -> Any:
    """Return the C function as an operator, in PyTorch's way: a custom operator that calls it through ctypes."""
    function = ctypes.CDLL(str(path)).saxpy
    pointer = ctypes.c_void_p
    function.argtypes = [pointer, pointer, ctypes.c_double, pointer, ctypes.c_int64]
    function.restype = None

    @torch.library.custom_op("bench_native::saxpy", mutates_args=())  # type: ignore[untyped-decorator]
    def saxpy(x: torch.Tensor, y: torch.Tensor, a: float) -> torch.Tensor:
        out = torch.empty_like(x)
        function(x.data_ptr(), y.data_ptr(), a, out.data_ptr(), x.numel())
        return out

    return saxpy


def custom() -> dict[str, Any]:
    """Bind the names of the statements to the operators of this library."""
    operators = torch.ops.bench_library
    return {
        "square": square,
        "silu": silu,
        "library_square": operators.square,
        "library_square_with_gradient": operators.square_with_gradient,
        "function": Square.apply,
        "counted": counted,
    }


REGISTER = {  # the programs of benchmarks/_tenkey.py
    "1,000 Library.define and impl": """
import time, torch
t = time.perf_counter()
library = torch.library.Library("many", "DEF")
for i in range(1000):
    library.define(f"f{i}(Tensor x, float a) -> Tensor")
    library.impl(f"f{i}", lambda x, a: x * a, "CPU")
print(time.perf_counter() - t)
""",
    "1,000 custom_op": """
import time, torch
t = time.perf_counter()
for i in range(1000):
    def f(x: torch.Tensor, a: float) -> torch.Tensor:
        return x * a
    torch.library.custom_op(f"many::f{i}", f, mutates_args=())
print(time.perf_counter() - t)
""",
}
