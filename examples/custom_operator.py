"""Custom operators: the three ways to add one, from the shortest to the one with the most control.

    python examples/custom_operator.py

Each way creates an operator like the built-in ones: it checks or broadcasts its arguments, is dispatched by device,
records gradients, and `explain` shows how a call is dispatched. Every step prints its result and asserts it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenkey as tk
from tenkey.library import scalar as s


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def check(what: str, holds: bool) -> None:
    """Assert a claim, and print it."""
    assert holds, what
    print(f"ok: {what}")


def refused(what: str, kind: type[Exception], call: Callable[[], Any]) -> None:
    """Print the error that a call must raise."""
    try:
        call()
    except kind as error:
        print(f"{what}:\n    {type(error).__name__}: " + str(error).replace("\n", "\n    "))
        return
    raise AssertionError(f"{what}: no error")


# Gradients are compared with central differences, whose error is too large in float32.
x = tk.tensor([[-1.5], [0.3], [2.0]], dtype=tk.float64, requires_grad=True)
y = tk.tensor([0.5, -0.25], dtype=tk.float64, requires_grad=True)

title("1. One expression: tk.library.pointwise")
# The scalar function is traced once, with symbols in place of numbers. The expression provides compiled kernels for
# every dtype and memory layout, broadcasting, and the derivatives with respect to x and y, which are expressions too,
# so that derivatives of every order exist. T makes constants of the dtype in which the operator computes.
bump = tk.library.pointwise(
    "demo::bump(Tensor x, Tensor y, float width=1.0) -> Tensor",
    scalar=lambda T: lambda x, y, width: s.exp(-(x * x + y * y) / (T(2) * width * width)),
)
out = bump(x, y, width=2.0)
expected = np.exp(-(x.detach().numpy() ** 2 + y.detach().numpy() ** 2) / 8)
check(f"shapes {x.shape} and {y.shape} broadcast to {out.shape}", out.shape == (3, 2))
check("the values are those of NumPy", np.allclose(out.detach().numpy(), expected, rtol=1e-14))
check("the derivatives found symbolically agree with differences", tk.autograd.gradcheck(bump, (x, y)))
check("so do the second derivatives", tk.autograd.gradgradcheck(bump, (x, y)))
check("tk.ops lists it beside the others", tk.ops.demo.bump(x, y, 2.0).shape == (3, 2))
print(tk.dispatch.explain(bump, x, y))

title("2. A Python function: tk.library.custom_op")


# An operator that is not an expression of single elements is a Python function, here a recursion in time. It may use
# any library. Its schema is inferred from the annotations; `mutates_args=()` declares that it changes no argument.
@tk.library.custom_op("demo::discounted", mutates_args=())
def discounted(x: tk.Tensor, factor: float = 0.5) -> tk.Tensor:
    """``out[..., t] = x[..., t] + factor * out[..., t - 1]``, for a floating tensor ``x``."""
    values = np.array(x.detach().numpy())
    for t in range(1, values.shape[-1]):
        values[..., t] += factor * values[..., t - 1]
    return tk.asarray(values)


signal = tk.tensor([[1.0, 0.0, 0.0, 8.0]], dtype=tk.float64, requires_grad=True)
print(discounted)
check("it computes 1, 1/2, 1/4, 8 + 1/8", discounted(signal).tolist() == [[1.0, 0.5, 0.25, 8.125]])
refused("Without a formula there is no gradient", NotImplementedError, lambda: tk.sum(discounted(signal)).backward())


# The gradient is the same recursion, backward in time. It is written with operators, including this one, so it can be
# differentiated again. It returns one gradient per argument; None for the factor, which is not a tensor.
def keep(ctx: Any, inputs: tuple[Any, ...], output: tk.Tensor) -> None:
    """Save on ctx what the gradient needs; called after the operator."""
    _, ctx.factor = inputs  # in the order of the schema, with the defaults filled in


def backward(ctx: Any, g: tk.Tensor) -> tuple[tk.Tensor, None]:
    """Return the gradients of the arguments, from the gradient ``g`` of the result."""
    return tk.flip(discounted(tk.flip(g, axis=-1), ctx.factor), axis=-1), None


discounted.register_autograd(backward, setup_context=keep)
check("with a formula there is", tk.autograd.gradcheck(discounted, (signal,)))
check("and a second one", tk.autograd.gradgradcheck(lambda x: discounted(x, 0.9) ** 2, (signal,)))


# Tensors on the device `meta` have a shape and a dtype but no values; for them, the operator's fake kernel runs.
@discounted.register_fake
def fake(x: tk.Tensor, factor: float) -> Any:
    """Return a tensor with the shape and dtype of ``x``."""
    return tk.empty_like(x)


check("shapes without values", discounted(tk.empty((2, 7), device="meta")).shape == (2, 7))

title("3. A library: schema, kernels and rules one by one")
# `Library` registers all parts one by one and removes them together at the end of the `with` block.
with tk.library.Library("geometry", "DEF") as library:
    library.define("length(Tensor x) -> Tensor")
    lengths = tk.ops.geometry.length
    points = tk.asarray([[3.0, 4.0], [3e30, 4e30]])
    refused("A schema alone computes nothing", NotImplementedError, lambda: lengths(points))

    # For all devices: a composition of operators.
    library.impl("length", lambda x: tk.sqrt(tk.sum(x * x, axis=-1)), "default")
    print("the default kernel:  ", lengths(points).tolist())
    check("the squares are too large for float32", lengths(points).tolist() == [5.0, float("inf")])

    # For one device. A kernel for a device takes precedence over the default.
    def length_on_cpu(x: tk.Tensor) -> tk.Tensor:
        """Compute with NumPy in double precision."""
        return tk.asarray(np.linalg.norm(x.numpy().astype(np.float64), axis=-1).astype(x.dtype))

    library.impl("length", length_on_cpu, "cpu")
    print("the kernel for cpu:  ", lengths(points).tolist())
    check("the kernel for cpu is right", np.allclose(lengths(points).numpy(), [5.0, 5e30], rtol=1e-6, atol=0))
    check("other devices keep the default", lengths(tk.empty((7, 2), device="meta")).shape == (7,))

    # For some arguments. Where `when` is true, this kernel takes precedence over the unconditional one.
    seen: list[tuple[int, ...]] = []

    def length_in_a_plane(x: tk.Tensor) -> tk.Tensor:
        """Return the hypotenuse."""
        seen.append(x.shape)
        return tk.asarray(np.hypot(x.numpy()[..., 0], x.numpy()[..., 1]))

    handle = library.impl("length", length_in_a_plane, "cpu", when=lambda x: x.shape[-1] == 2)
    check("the kernel for planes is right", np.allclose(lengths(points).numpy(), [5.0, 5e30], rtol=1e-6, atol=0))
    check("it was called for a plane, and is not called for space", lengths(tk.ones(3)) > 1.7 and seen == [(2, 2)])
    handle.remove()
    check("its handle takes it back", lengths(points).shape == (2,) and seen == [(2, 2)])
refused("After the block it is gone", AttributeError, lambda: tk.ops.geometry.length)

title("4. What errors look like")
# Each names the operator, the offending value, the rule and the remedy; an error leaves no changes behind.
refused("A schema with a typo", ValueError, lambda: tk.library.pointwise("demo::f(Tensor x -> Tensor", scalar=abs))
refused("A name that is taken", RuntimeError, lambda: tk.library.pointwise(
    "demo::bump(Tensor x) -> Tensor", scalar=lambda T: lambda x: x))  # fmt: skip
refused("NumPy in a scalar expression", TypeError, lambda: tk.library.pointwise(
    "demo::g(Tensor x) -> Tensor", scalar=lambda T: lambda x: x + np.exp(x)))  # fmt: skip
refused("A kernel that does not fit", RuntimeError, lambda: discounted.register_kernel("cpu", lambda x: x))
refused("Two devices", RuntimeError, lambda: bump(x, tk.empty(2, device="meta")))
refused("Shapes that do not broadcast", ValueError, lambda: bump(x, tk.zeros((2, 2))))
wrong = tk.library.pointwise(  # partials= replaces the symbolic derivative; 2 * x would be right
    "demo::wrong(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x, partials=lambda x: x)  # fmt: skip
refused("A derivative that is wrong", RuntimeError, lambda: tk.autograd.gradcheck(wrong, (y,)))
print("\nAll claims hold.")
