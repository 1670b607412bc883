"""tenkey's side of the benchmarks: custom operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tenkey as tk
from tenkey.library import scalar

__all__ = ["REGISTER", "Square", "counted", "custom", "load_saxpy", "silu", "square"]


# At module level, because the schema is read from the annotations.
@tk.library.custom_op("bench::square", mutates_args=())
def square(x: tk.Tensor) -> tk.Tensor:
    """Return ``x * x``, as a custom operator; benchmarks/_torch.py has the same."""
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

library = tk.library.Library("bench_library", "DEF")
for _name in ("square", "square_with_gradient"):
    library.define(f"{_name}(Tensor x) -> Tensor")
    library.impl(_name, lambda x: x * x, "cpu")
tk.library.register_autograd("bench_library::square_with_gradient", _square_backward, setup_context=_save_input)


class Square(tk.autograd.Function):
    """``x * x`` with a hand-written gradient."""

    @staticmethod
    def forward(ctx: Any, x: tk.Tensor) -> tk.Tensor:
        """Return ``x * x``, as ``square`` does."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: tk.Tensor) -> tk.Tensor:
        """Return the gradient."""
        return _square_backward(ctx, gradient)


class _Count(tk.dispatch.DispatchMode):
    """Count calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        self.calls += 1
        return op(*args, **kwargs)


def counted(function: Any, *args: Any) -> Any:
    """Call the function under a mode that counts."""
    with _Count():
        return function(*args)


def load_saxpy(library: Path) -> Any:
    """Return the C function as an operator."""
    return tk.library.load_native(library, "bench_native::saxpy(Tensor x, Tensor y, float a) -> Tensor")


def custom() -> dict[str, Any]:
    """Bind the names of the statements to the operators of this library."""
    operators = tk.ops.bench_library
    return {
        "square": square,
        "silu": silu,
        "library_square": operators.square,
        "library_square_with_gradient": operators.square_with_gradient,
        "function": Square.apply,
        "counted": counted,
    }


REGISTER = {  # programs that print the time for registering 1,000 operators
    "1,000 Library.define and impl": """
import time, tenkey as tk
t = time.perf_counter()
library = tk.library.Library("many", "DEF")
for i in range(1000):
    library.define(f"f{i}(Tensor x, float a) -> Tensor")
    library.impl(f"f{i}", lambda x, a: x * a, "cpu")
print(time.perf_counter() - t)
""",
    "1,000 custom_op": """
import time, tenkey as tk
t = time.perf_counter()
for i in range(1000):
    def f(x: tk.Tensor, a: float) -> tk.Tensor:
        return x * a
    tk.library.custom_op(f"many::f{i}", f, mutates_args=())
print(time.perf_counter() - t)
""",
}
