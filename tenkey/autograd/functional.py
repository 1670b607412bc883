"""``backward`` and ``grad``: the calls that start the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ..core.tensor import Tensor
from ..core.word import GRADIENT
from ..core.wrapper import Level, innermost, released
from ..dispatch.local import StateGuard
from ..ops.builtin.creation import ones_like, zeros_like
from .engine import execute
from .node import AccumulateGrad, Edge, Node, edge_of
from .task import Task, mark_needed
from .validation import validate

__all__ = ["GradientEdge", "backward", "get_gradient_edge", "grad"]

_SCALAR: Final = (
    "[{call}] grad can be implicitly created only for scalar outputs, got shape {shape}: pass the gradient, a tensor "
    "of that shape."
)
_REAL: Final = "[{call}] grad can be implicitly created only for real scalar outputs, got dtype {dtype}: pass it."
_NO_GRAD: Final = (
    "[{call}] element {index} of tensors does not require grad and does not have a grad_fn: set requires_grad on the "
    "inputs it should depend on, and compute it outside of no_grad()."
)
_COUNT: Final = "[{call}] got {tensors} tensors and {gradients} gradients: give one gradient for each tensor."
_SHAPE: Final = (
    "[{call}] Mismatch in shape: gradient {index} has a shape of {got} and output {index} has a shape of {want}: they "
    "must be equal."
)
_INPUT: Final = "[{call}] One of the differentiated Tensors does not require grad: input {index}."
_UNUSED: Final = (
    "[grad] One of the differentiated Tensors appears to not have been used in the graph: input {index}. Set "
    "allow_unused=True if this is the desired behavior."
)
_INPUT_KIND: Final = "[{call}] inputs are tensors or gradient edges, got {got} at index {index}."
_EDGE_INSIDE: Final = (
    "[backward] input {index} is a gradient edge inside the graph, which has no .grad to accumulate into: pass the "
    "tensor itself, or use grad()."
)
_EDGE_KIND: Final = "[get_gradient_edge] takes a tensor, got {got}."
_NO_EDGE: Final = (
    "[get_gradient_edge] It is not possible to get the gradient edge for a Tensor that does not require gradients."
)
_LISTED: Final = "[backward, grad] takes a tensor, a gradient edge or a sequence of them, got {got}."
_EMPTY: Final = "[{call}] inputs argument cannot be empty."
_INSIDE: Final = (
    "[backward] got tensors inside of {level}, where gradients are not collected: use tk.autograd.grad or "
    "tk.transforms.grad, which return them."
)


class GradientEdge(NamedTuple):
    """Where a gradient flows: output ``output_nr`` of ``node``. Stands for a tensor in ``grad`` and ``backward``."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge at which the gradient of a tensor arrives."""
    if not isinstance(tensor, Tensor):
        raise TypeError(_EDGE_KIND.format(got=type(tensor).__name__))
    node, nr = edge_of(tensor)
    if node is None:
        raise RuntimeError(_NO_EDGE)
    return GradientEdge(node, nr)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, (Tensor, GradientEdge)) or value is None:
        return [value]
    if not isinstance(value, Iterable):
        raise TypeError(_LISTED.format(got=type(value).__name__))
    return list(value)


def _input_edge(call: str, index: int, one: Any) -> tuple[Node, int]:
    """The edge of an input of ``grad`` or ``backward``."""
    if not isinstance(one, (Tensor, GradientEdge)):
        raise TypeError(_INPUT_KIND.format(call=call, got=type(one).__name__, index=index))
    node, nr = edge_of(one) if isinstance(one, Tensor) else (one.node, one.output_nr)
    if node is None:
        raise RuntimeError(_INPUT.format(call=call, index=index))
    return node, nr


def _seeds(
    call: str, outputs: list[Any], gradients: list[Any], *, create_graph: bool
) -> list[tuple[Node, int, Tensor]]:
    if len(outputs) != len(gradients):
        raise RuntimeError(_COUNT.format(call=call, tensors=len(outputs), gradients=len(gradients)))
    seeds = []
    for index, (output, gradient) in enumerate(zip(outputs, gradients)):
        if isinstance(output, GradientEdge):
            node: Node | None = output.node
            nr = output.output_nr
            if gradient is None:
                raise RuntimeError(_SCALAR.format(call=call, shape="of a gradient edge"))
        else:
            if not isinstance(output, Tensor) or not output._word & GRADIENT:
                raise RuntimeError(_NO_GRAD.format(call=call, index=index))
            node, nr = edge_of(output)
            gradient = _seed(call, index, output, gradient)
        if node is not None:
            seeds.append((node, nr, validate(node, nr, gradient)))
    return seeds


def _seed(call: str, index: int, output: Tensor, gradient: Tensor | None) -> Tensor:
    if gradient is None:
        if output.size != 1:
            raise RuntimeError(_SCALAR.format(call=call, shape=output.shape))
        if output.dtype.kind == "c":
            raise RuntimeError(_REAL.format(call=call, dtype=output.dtype))
        with StateGuard(exclude=GRADIENT):
            return ones_like(output)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"[{call}] a gradient is a Tensor or None, got {type(gradient).__name__}.")
    if gradient.shape != output.shape:
        raise RuntimeError(_SHAPE.format(call=call, index=index, got=gradient.shape, want=output.shape))
    return gradient


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute gradients of ``tensors`` and add them to ``.grad`` of the leaves (or of ``inputs``).

    Args: tensors: a tensor or gradient edge, or a sequence of them; grad_tensors: the gradient of each, which may be
    None for a real scalar; retain_graph: keep what was saved (default: as ``create_graph``); create_graph: record
    the backward itself, for higher orders; inputs: accumulate into these only.

    Raises RuntimeError for a missing or wrong gradient, a graph whose saved tensors were freed, or a saved tensor
    that was changed in place.

    >>> import tenkey as tk
    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> tk.autograd.backward((x * x).sum())
    >>> x.grad.tolist()
    [2.0, 4.0]
    """
    outputs = _listed(tensors)
    level = innermost((outputs, grad_tensors, inputs))
    if level is not None and level.is_open:
        raise NotImplementedError(_INSIDE.format(level=level.name))
    if level is not None:
        grad_tensors = None if grad_tensors is None else released(_listed(grad_tensors), level)
        inputs = None if inputs is None else released(_listed(inputs), level)
        backward(released(outputs, level), grad_tensors, retain_graph, create_graph, inputs)
        return
    gradients = [None] * len(outputs) if grad_tensors is None else _listed(grad_tensors)
    seeds = _seeds("backward", outputs, gradients, create_graph=create_graph)
    task = Task(create_graph if retain_graph is None else retain_graph, create_graph)
    if inputs is not None:
        wanted = _listed(inputs)
        if not wanted:
            raise RuntimeError(_EMPTY.format(call="backward"))
        edges = [_input_edge("backward", index, one) for index, one in enumerate(wanted)]
        inside: dict[Edge, Tensor] = {}
        for index, (edge, one) in enumerate(zip(edges, wanted)):
            if isinstance(edge[0], AccumulateGrad):
                continue
            if not isinstance(one, Tensor):
                raise RuntimeError(_EDGE_INSIDE.format(index=index))
            inside[edge] = one
        task.needed = mark_needed([node for node, _, _ in seeds], {node for node, _ in edges})
        task.capture(list(inside))
        execute(task, seeds)
        with StateGuard(exclude=0 if create_graph else GRADIENT):
            for slot, tensor in enumerate(inside.values()):
                captured = task.captured.get(slot)
                if captured is not None:  # a copy: what was captured may be the user's own gradient
                    tensor.grad = captured.clone() if tensor.grad is None else tensor.grad + captured
        return
    execute(task, seeds)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, returned; nothing is accumulated.

    Args: outputs, inputs: tensors or gradient edges, or sequences of them; grad_outputs: the gradients of the
    outputs; allow_unused: None for an input that was not used, instead of an error; materialize_grads: zeros instead
    of None; retain_graph, create_graph: as in :func:`backward`.

    >>> import tenkey as tk
    >>> x = tk.tensor(3.0, requires_grad=True)
    >>> (first,) = tk.autograd.grad(x * x * x, x, create_graph=True)
    >>> (second,) = tk.autograd.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("[grad] Expected allow_unused to be True or not passed when materialize_grads=True.")
    ends = _listed(outputs)
    gradients = [None] * len(ends) if grad_outputs is None else _listed(grad_outputs)
    wanted: Sequence[Any] = _listed(inputs)
    if not wanted:
        raise RuntimeError(_EMPTY.format(call="grad"))
    level = innermost((ends, wanted))
    if level is not None:  # the graph is that of the values inside
        flags = {"retain_graph": retain_graph, "create_graph": create_graph, "allow_unused": allow_unused}
        return _inside(level, ends, gradients, list(wanted), **flags, materialize_grads=materialize_grads)
    edges: list[Edge] = []
    edges += [_input_edge("grad", index, one) for index, one in enumerate(wanted)]
    seeds = _seeds("grad", ends, gradients, create_graph=create_graph)
    task = Task(create_graph if retain_graph is None else retain_graph, create_graph)
    task.needed = mark_needed([node for node, _, _ in seeds], {edge[0] for edge in edges if edge[0] is not None})
    task.capture(edges)
    execute(task, seeds)
    results: list[Tensor | None] = []
    for slot, one in enumerate(wanted):
        result = task.captured.get(slot)
        if result is None and materialize_grads and isinstance(one, Tensor):
            with StateGuard(exclude=GRADIENT):
                result = zeros_like(one)
        if result is None and not allow_unused:
            raise RuntimeError(_UNUSED.format(index=slot))
        results.append(result)
    return tuple(results)


def _inside(
    level: Level, outputs: list[Any], grad_outputs: list[Any], inputs: list[Any], **flags: bool | None
) -> tuple[Tensor | None, ...]:
    """``grad`` of tensors that a transform has wrapped: see ``Level.gradient``."""
    if len(outputs) != len(grad_outputs):
        raise RuntimeError(_COUNT.format(call="grad", tensors=len(outputs), gradients=len(grad_outputs)))
    for index, one in enumerate(inputs):
        _input_edge("grad", index, one)
    if not level.is_open:
        given = (released(values, level) for values in (outputs, inputs, grad_outputs))
        return grad(*given, **flags)  # type: ignore[arg-type]
    results: tuple[Tensor | None, ...] = level.gradient(grad, outputs, inputs, grad_outputs=grad_outputs, **flags)
    return results
