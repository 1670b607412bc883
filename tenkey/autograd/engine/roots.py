"""The arguments of ``backward`` and ``grad``: tensors and edges in nested containers, and initial gradients."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.device import base_word
from ...core.tensor import Tensor
from ...core.tree import flatten
from ...core.word import REQUIRES_GRAD
from ...core.wrapper import from_scalar
from ...dispatch.local_state import get_state, silently
from ...ops.builtin.creation import ones, ones_like
from ...ops.declare import operator_of
from ..tape.node import Node, edge_of
from .input_buffer import validate

__all__ = [
    "SEED_SCALAR", "SEED_SHAPE", "UNUSED_INPUT", "GradientEdge", "check_flags", "checked_edge", "get_gradient_edge",
    "grad_outputs_of", "gradients_of", "inputs_of", "leaves_of", "scalar_seed",
]  # fmt: skip

# messages that the levels of transforms share
UNUSED_INPUT: Final = (
    "[grad] One of the differentiated Tensors appears to not have been used in the graph: input {index}. Set "
    "allow_unused=True if this is the desired behavior."
)
SEED_SCALAR: Final = (
    "[{call}] grad can be implicitly created only for scalar outputs, got shape {shape}: pass the gradient, a tensor "
    "of that shape."
)
SEED_SHAPE: Final = (
    "[{call}] Mismatch in shape: grad_output[{index}] has a shape of {got} and output[{index}] has a shape of {want}: "
    "they must be equal."
)
_NO_GRAD: Final = (
    "[{call}] element {index} of tensors does not require grad and does not have a grad_fn: set requires_grad on the "
    "inputs it should depend on, and compute it outside of no_grad()."
)

_ON_CPU: Final = base_word("cpu")
_ONES: Final = operator_of(ones).cache


class GradientEdge(NamedTuple):
    """Output ``output_nr`` of ``node``; ``grad`` and ``backward`` accept it in place of a tensor.

    >>> x = tk.tensor([3.0], requires_grad=True)
    >>> y = x * x
    >>> tk.autograd.grad(y, tk.autograd.graph.GradientEdge(y.grad_fn, 0))[0].tolist()
    [1.0]
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge at which the gradient of a tensor arrives. It keeps the graph alive, but not the tensor.

    Raises TypeError for other values than tensors, and RuntimeError for a tensor that does not require a gradient.

    >>> x = tk.tensor([3.0], requires_grad=True)
    >>> edge = tk.autograd.graph.get_gradient_edge(x * x)
    >>> edge.node.name(), edge.output_nr
    ('MultiplyBackward', 0)
    >>> tk.autograd.grad(edge, x)[0].tolist()
    [6.0]
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"[get_gradient_edge] takes a tensor, got {type(tensor).__name__}.")
    node, nr = edge_of(tensor)
    if node is None:
        raise RuntimeError(
            "[get_gradient_edge] It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients."
        )
    return GradientEdge(node, nr)


def checked_edge(call: str, edge: GradientEdge) -> tuple[Node | None, int]:
    """Return the node and number of an edge, which users can construct; the node is None if no gradient flows."""
    node: Any = edge.node
    given: Any = edge.output_nr
    if not (node is None or isinstance(node, Node)) or not hasattr(given, "__index__"):
        got = node.name() if isinstance(node, Node) else type(node).__name__
        raise TypeError(
            f"[{call}] a GradientEdge is a node of the graph and the number of one of its outputs, got "
            f"({got}, {given!r}): take get_gradient_edge(tensor)."
        )
    nr = operator.index(given)
    if node is not None:
        count = 1 if node.outputs is None else len(node.outputs)
        if not 0 <= nr < count:
            raise IndexError(
                f"[{call}] a GradientEdge leads to output {nr} of {node.name()}, which has {count}: they count from 0."
            )
    return node, nr


def check_flags(call: str, retain_graph: Any, create_graph: Any) -> None:
    """Raise TypeError unless both are bools or integers; ``retain_graph`` may be None."""
    for name, value in (("retain_graph", retain_graph), ("create_graph", create_graph)):
        if value is None and name == "retain_graph":
            continue
        if not isinstance(value, (bool, np.bool_)) and not hasattr(value, "__index__"):
            raise TypeError(f"[{call}] {name} must be a bool, got {value!r}: pass True or False.")


def leaves_of(call: str, value: Any) -> list[Any]:
    """List the tensors, edges and None in nested lists, tuples, dicts and records, or in any iterable, in order."""
    if isinstance(value, (Tensor, GradientEdge)) or value is None:
        return [value]
    leaves = flatten(value, GradientEdge)
    if len(leaves) == 1 and leaves[0] is value:
        if not isinstance(value, Iterable):
            raise TypeError(
                f"[{call}] takes a tensor, a gradient edge, or lists, tuples and dicts of them, "
                f"got {type(value).__name__}."
            )
        return [leaf for one in value for leaf in ([one] if isinstance(one, str) else leaves_of(call, one))]
    return leaves


def inputs_of(call: str, leaves: list[Any]) -> list[tuple[Node, int]]:
    """Return the edges of the inputs."""
    if not leaves:
        raise RuntimeError(f"[{call}] `inputs` argument to `{call}()` cannot be empty.")
    edges: list[tuple[Node, int]] = []
    for index, one in enumerate(leaves):
        if isinstance(one, Tensor):
            node, nr = edge_of(one)
        elif isinstance(one, GradientEdge):
            node, nr = checked_edge(call, one)
        else:
            raise TypeError(
                f"[{call}] all inputs have to be Tensors or GradientEdges, but got {type(one).__name__} at "
                f"index {index}."
            )
        if node is None:
            raise RuntimeError(f"[{call}] One of the differentiated Tensors does not require grad: input {index}.")
        edges.append((node, nr))
    return edges


def gradients_of(call: str, outputs: list[Any], given: Any) -> list[Any]:
    """Return the gradients given for the outputs, with None for those to be created."""
    gradients = [None] * len(outputs)
    if given is not None:
        gradients = [from_scalar(one, outputs) for one in leaves_of(call, from_scalar(given))]
    if len(outputs) != len(gradients):
        raise RuntimeError(
            f"[{call}] got {len(outputs)} tensors and {len(gradients)} gradients: give one gradient for each tensor."
        )
    return gradients


def scalar_seed(dtype: np.dtype) -> Tensor:
    """Return the gradient of a scalar on the CPU by itself."""
    return _ONES[_ON_CPU]((), dtype=dtype)  # type: ignore[no-any-return]


def grad_outputs_of(call: str, outputs: list[Any], gradients: list[Any]) -> list[tuple[Node, int, Tensor]]:
    """Return the starting points of a backward: (node, number of its output, gradient)."""
    grad_outputs = []
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        if isinstance(output, GradientEdge):
            node, nr = checked_edge(call, output)
            if node is None:
                raise RuntimeError(_NO_GRAD.format(call=call, index=index))
            shape, dtype, device = node._input_meta(nr) or ((), None, None)
        elif isinstance(output, Tensor) and output._word & REQUIRES_GRAD:
            node, nr = edge_of(output)
            shape, dtype, device = output.shape, output.dtype, None
        else:
            raise RuntimeError(_NO_GRAD.format(call=call, index=index))
        assert node is not None  # it requires a gradient
        if gradient is None:
            if shape and any(n != 1 for n in shape):
                raise RuntimeError(SEED_SCALAR.format(call=call, shape=shape))
            if dtype is not None and dtype.kind == "c":
                raise RuntimeError(
                    f"[{call}] grad can be implicitly created only for real scalar outputs but got dtype {dtype}: "
                    "pass it."
                )
            if get_state() is None and node._word and output.__class__ is Tensor:
                grad_outputs.append((node, nr, _ONES[_ON_CPU](shape, dtype=dtype)))  # needs no validation
                continue
            if isinstance(output, Tensor):
                gradient = silently(ones_like, output)
            else:
                gradient = silently(ones, shape, dtype=dtype, device=device)
        elif not isinstance(gradient, Tensor):
            raise TypeError(
                f"[{call}] gradients can be either Tensors or None, but a gradient is {type(gradient).__name__}."
            )
        elif gradient.shape != shape:
            raise RuntimeError(SEED_SHAPE.format(call=call, index=index, got=gradient.shape, want=shape))
        elif gradient.dtype.kind == "c" and dtype is not None and dtype.kind != "c":
            raise RuntimeError(
                f"[{call}] For complex Tensors, both grad_output and output are required to have the same dtype. "
                f"Mismatch in dtype: grad_output[{index}] has a dtype of {gradient.dtype} and output[{index}] has a "
                f"dtype of {dtype}: take tk.real() of it."
            )
        grad_outputs.append((node, nr, validate(node, nr, gradient)))
    return grad_outputs
