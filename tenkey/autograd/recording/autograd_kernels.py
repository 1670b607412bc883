"""Recording: the Autograd kernel of an operator, generated for its schema and specialised for a dispatch word.

For a word with the trait "requires a gradient", the kernel is a generated function: it calls the next kernel in
dispatch order (resolved when the function is made, since it follows from the word), makes a node, links the edges of
the inputs, saves the values that the formulas of inputs with a gradient name, and makes the result an output of the
node. Calls whose word lacks the trait never reach it. Kernels that call other operators run with recording switched
off, because the operator has its own formula. Guarded by ``tests/autograd/engine/test_autograd.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.device import Device
from ...core.plans import install_recording
from ...core.tensor import Tensor
from ...core.tree import tensors_in
from ...core.word import DTYPE_MASK, REQUIRES_GRAD, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.keys import DispatchKey, word_below
from ...dispatch.local_state import silently
from ...dispatch.operator import Operator
from ...dispatch.table import steps
from ...ops.builtin.creation import zeros
from ..formulas.gradients import formulas_of
from ..saved_tensors.saved import SavedOutput, SavedTensor
from ..saved_tensors.saved_tensor_hooks import HOOKED, with_choice
from ..tape.node import (
    NO_EDGE,
    DelayedError,
    Node,
    OutputMeta,
    TensorMeta,
    edge_of,
    leaf_edge,
    record_node,
)
from ..views.tracking import ViewMeta
from .kernel_source import Writer, node_name

__all__ = ["ZeroNode", "autograd_kernel", "below_autograd", "inner_call", "refusing_kernel"]


def below_autograd(word: int) -> int:
    """Return the word of the call below autograd, without autograd's keys and traits."""
    return word_below(word, DispatchKey.Autograd) & ~(DispatchKey.AutogradOther.mask | REQUIRES_GRAD | HOOKED)


def _is_backend_kernel(operator: Operator, word: int) -> bool:
    """Return whether the kernel for this word belongs to a backend, and so calls no other operator."""
    for step in steps(operator, word):
        if step.chosen:
            kernel = step.slot.kernel
            generated = kernel is not None and kernel.origin == "generated" and not kernel.boxed
            own = step.slot.rule == "1 direct" and step.key.functionality == "Dense"
            return generated and own and not step.slot.conditional
    return False


def inner_call(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the next kernel below the autograd kernel for ``word``, with recording off unless a backend has it."""
    below = below_autograd(word)
    function = operator.cache[below]
    inner = function if _is_backend_kernel(operator, below) else partial(silently, function)
    return with_choice(operator, inner) if word & HOOKED else inner


def autograd_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the kernel that records a call of ``operator`` for this word."""
    has_complex = any(dtype.kind == "c" for dtype in dtypes_of(word & DTYPE_MASK))
    formulas = formulas_of(operator, is_complex=has_complex or complex in weak_of(word & WEAK_MASK))
    inner = inner_call(operator, word)
    if formulas is None:
        return _unknown_gradient(operator, inner)
    if all(formula is None for formula in formulas.values()):  # a step function (floor, sign)
        return _recording(inner, type(node_name(operator), (ZeroNode,), {"operator_name": operator.name}))
    return Writer(operator, formulas).kernel(inner, word)


class ZeroNode(Node):
    """The node of a step function, whose gradient is zero."""

    def apply(self, *grads: Tensor | None) -> Any:
        """Return zeros for every input that needs a gradient."""
        g = grads[0]
        return tuple([None if edge[0] is None or g is None else _zeros(edge, g.device) for edge in self.next_edges])


def _zeros(edge: Any, device: Device) -> Tensor:
    node, nr = edge
    shape, dtype, _ = node._input_meta(nr)
    return zeros(shape, dtype=dtype, device=device)


def _recording(inner: Callable[..., Any], make: Callable[[], Node]) -> Callable[..., Any]:
    """Return the kernel that makes the floating results of ``inner`` outputs of a new node.

    The node has edges to all tensors among the arguments.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        out = inner(*args, **kwargs)
        record_node(make(), tuple([edge_of(t) for t in tensors_in((args, kwargs))]), tensors_in(out))
        return out

    return kernel


def _unknown_gradient(operator: Operator, inner: Callable[..., Any]) -> Callable[..., Any]:
    name = operator.name
    message = (
        f"[{name}] derivative is not implemented: the operator has no gradient formula, but a gradient through it is "
        f"requested. Give it one with tk.library.register_autograd({name!r}, backward), or mark it "
        "differentiable=False."
    )

    def make() -> Node:
        node = DelayedError(NotImplementedError, message, "NotImplementedBackward")
        node.operator_name = name
        return node

    return _recording(inner, make)


def refusing_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the kernel of an operator without a formula: a gradient through it is an error."""
    return _unknown_gradient(operator, inner_call(operator, word))


install_recording(
    no_edge=NO_EDGE, leaf_edge=leaf_edge, output_meta=OutputMeta, view_meta=ViewMeta,
    tensor_meta=TensorMeta, saved_tensor=SavedTensor, saved_output=SavedOutput.of,
)  # fmt: skip
