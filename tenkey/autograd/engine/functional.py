"""``backward`` and ``grad``: the calls that start the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...core.tensor import Tensor
from ...core.tree import unflatten
from ...core.wrapper import Wrapper, innermost, refreshed, released
from ...dispatch.local_state import SILENT, LocalState, get_state, set_state, silently
from ...ops.builtin.creation import zeros_like
from ..tape.node import AccumulateGrad, Edge, edge_of
from .engine import execute
from .failed_backward import abandon
from .graph_task import GraphTask, count_all_senders, mark_needed
from .roots import (
    UNUSED_INPUT,
    GradientEdge,
    check_flags,
    get_gradient_edge,
    grad_outputs_of,
    gradients_of,
    inputs_of,
    leaves_of,
    scalar_seed,
)

__all__ = ["VMAP", "GradientEdge", "backward", "get_gradient_edge", "grad", "private_gradients"]


VMAP: Final[list[Callable[..., Any]]] = []
"""``tk.transforms.vmap``, set by ``transforms.install`` because autograd does not import the transforms."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute gradients of ``tensors`` and add them to ``.grad`` of the leaves (or of ``inputs``).

    Args: tensors: a tensor or gradient edge, or lists, tuples and dicts of them; grad_tensors: the gradient of each, in
    the same structure, which may be None for a real scalar; retain_graph: keep the saved tensors (default: the value of
    ``create_graph``); create_graph: record the backward itself, for higher orders; inputs: accumulate only into these.

    Raises RuntimeError for a missing or wrong gradient, a graph whose saved tensors were freed, or a saved tensor that
    was changed in place. Gradients that had arrived before an error stay in ``.grad``; so that they are not added
    twice, backward refuses to run the same graph again until they are reset (``x.grad = None``).

    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> tk.autograd.backward((x * x).sum())
    >>> x.grad.tolist()
    [2.0, 4.0]
    """
    if retain_graph is not None or create_graph is not False:
        check_flags("backward", retain_graph, create_graph)
    outputs = leaves_of("backward", tensors)
    level = innermost((outputs, grad_tensors, inputs))
    if level is not None and level.is_open:
        raise NotImplementedError(
            f"[backward] got tensors inside of {level.name}, where gradients are not collected: use tk.autograd.grad "
            "or tk.transforms.grad, which return them."
        )
    gradients = gradients_of("backward", outputs, grad_tensors)
    if level is not None:
        wanted = None if inputs is None else released(leaves_of("backward", inputs), level)
        backward(released(outputs, level), released(gradients, level), retain_graph, create_graph, wanted)
        return
    grad_outputs = grad_outputs_of("backward", outputs, gradients)
    task = GraphTask(create_graph if retain_graph is None else bool(retain_graph), create_graph)
    if inputs is None:
        execute(task, grad_outputs)
    else:
        _backward_into(task, grad_outputs, leaves_of("backward", inputs))


def _backward_into(task: GraphTask, grad_outputs: list[Any], wanted: list[Any]) -> None:
    """Run a backward that accumulates only into these tensors, which need not be leaves."""
    edges = inputs_of("backward", wanted)
    inside: dict[Edge, Tensor] = {}
    for index, (edge, one) in enumerate(zip(edges, wanted)):
        if isinstance(edge[0], AccumulateGrad):
            continue
        if not isinstance(one, Tensor):
            raise RuntimeError(
                f"[backward] input {index} is a gradient edge inside the graph, which has no .grad to accumulate "
                "into: pass the tensor itself, or use grad()."
            )
        inside[edge] = one
    task.needed = mark_needed([node for node, _, _ in grad_outputs], {node for node, _ in edges})
    task.capture(list(inside))
    found = get_state()
    try:
        try:
            execute(task, grad_outputs)
            _store(task, inside, found)
            set_state(found)
        except BaseException:
            set_state(found)
            abandon(task)
            raise
    except BaseException:  # again: Note [Interrupts of backward]
        set_state(found)
        abandon(task)
        raise


def _store(task: GraphTask, inside: dict[Edge, Tensor], found: LocalState | None) -> None:
    """Add the captured gradients to those of the tensors."""
    retained = tuple(task.stored)
    if not task.create_graph:
        set_state(SILENT if found is None else found.silent)
    for position, ((node, _), tensor) in enumerate(inside.items()):
        captured = task.captured.get(position)
        if any(other is tensor for _, other, _ in retained):
            continue  # its .grad has this gradient from retain_grad()
        if captured is not None and node is not None:  # copied, because it may be the user's own gradient
            task.storing(node, tensor)
            tensor.grad = captured.clone() if tensor.grad is None else tensor.grad + captured


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of ``outputs`` with respect to ``inputs``, without accumulating them.

    Args: outputs, inputs: tensors or gradient edges, in lists, tuples, dicts and records; grad_outputs: the gradients
    of the outputs, in the same structure; allow_unused: return None for an unused input instead of raising;
    is_grads_batched: the first dimension of each grad_output is a batch of gradients, for which the graph is run at
    once, and so is that of each result; materialize_grads: return zeros instead of None; retain_graph, create_graph: as
    in :func:`backward`.

    Returns: a tuple for a single input or a list or tuple of inputs, else the structure of ``inputs``.

    >>> x = tk.tensor(3.0, requires_grad=True)
    >>> (first,) = tk.autograd.grad(x * x * x, x, create_graph=True)
    >>> (second,) = tk.autograd.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    >>> w = {"a": tk.ones(2).requires_grad_(), "b": tk.ones(2).requires_grad_()}
    >>> found = tk.autograd.grad((w["a"] * 2 + w["b"] * 3).sum(), w)
    >>> found["a"].tolist(), found["b"].tolist()
    ([2.0, 2.0], [3.0, 3.0])
    """
    if retain_graph is not None or create_graph is not False:
        check_flags("grad", retain_graph, create_graph)
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "[grad] Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    ends, wanted = leaves_of("grad", outputs), leaves_of("grad", inputs)
    gradients = gradients_of("grad", ends, grad_outputs)
    flags: dict[str, Any] = {
        "retain_graph": retain_graph, "create_graph": create_graph, "allow_unused": allow_unused,
        "materialize_grads": materialize_grads,
    }  # fmt: skip
    found: tuple[Tensor | None, ...]
    level = innermost((ends, wanted))
    if level is not None:
        for end in ends:
            if isinstance(end, Tensor):
                refreshed(end)
    edges = inputs_of("grad", wanted)
    if is_grads_batched:
        found = _batched(ends, wanted, gradients, flags)
    elif level is None:
        found = _grad(ends, wanted, edges, gradients, **flags)
    elif level.is_open:  # the graph is that of the wrapped values: see ``Level.gradient``
        found = level.gradient(grad, ends, wanted, grad_outputs=gradients, **flags)
    else:
        found = grad(released(ends, level), released(wanted, level), released(gradients, level), **flags)
    if isinstance(inputs, dict) or hasattr(inputs, "_fields") or hasattr(inputs, "__dataclass_fields__"):
        return found if isinstance(inputs, GradientEdge) else unflatten(inputs, list(found), GradientEdge)
    if isinstance(inputs, (list, tuple)) and any(one.__class__ in (dict, list, tuple) for one in inputs):
        return tuple(unflatten(list(inputs), list(found), GradientEdge))
    return found


def _grad(
    ends: list[Any],
    wanted: list[Any],
    edges: list[Any],
    gradients: list[Any],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    grad_outputs = grad_outputs_of("grad", ends, gradients)
    task = GraphTask(create_graph if retain_graph is None else bool(retain_graph), create_graph)
    task.needed = mark_needed([node for node, _, _ in grad_outputs], {node for node, _ in edges})
    task.capture(edges)
    task.adds = False
    execute(task, grad_outputs)
    results: list[Tensor | None] = []
    for position, one in enumerate(wanted):
        result = task.captured.get(position)
        if result is None and materialize_grads and isinstance(one, Tensor):
            result = silently(zeros_like, one)
        if result is None and not allow_unused:
            raise RuntimeError(UNUSED_INPUT.format(index=position))
        results.append(result)
    return tuple(results)


def private_gradients(
    output: Tensor, inputs: Sequence[Tensor], records: Callable[[Sequence[Tensor]], bool]
) -> tuple[list[Tensor], bool] | None:
    """Return the gradients of a real scalar by the inputs of a function, and whether they are recorded.

    ``records(reached)`` decides that from the inputs on which the output depends. Returns None for what :func:`grad`
    has to do: see Note [Gradients of private inputs].
    """
    root, nr = edge_of(output)
    if root is None or get_state() is not None or isinstance(output, Wrapper):
        return None
    nodes: list[Any] = [edge_of(x)[0] for x in inputs]
    buffers = count_all_senders(root, frozenset(nodes))
    if buffers is None:
        return None
    create = records([x for node, x in zip(nodes, inputs) if node in buffers])
    task = GraphTask(create, create)
    task.buffers, task.counted, task.adds = buffers, True, False
    execute(task, [(root, nr, scalar_seed(output.dtype))])
    found = []
    for node, x in zip(nodes, inputs):
        buffer = buffers.get(node)
        gradient = None if buffer is None else buffer[1]
        found.append(silently(zeros_like, x) if gradient is None else gradient)
    return found, create


def _batched(
    ends: list[Any], wanted: list[Any], gradients: list[Any], flags: dict[str, Any]
) -> tuple[Tensor | None, ...]:
    """Return the gradients for a batch of ``gradients``, through vmap."""
    for index, (end, gradient) in enumerate(zip(ends, gradients)):
        if isinstance(end, Tensor) and (not isinstance(gradient, Tensor) or gradient.shape[1:] != end.shape):
            got = gradient.shape if isinstance(gradient, Tensor) else gradient
            raise RuntimeError(
                "[grad] If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                f"batch dimension. Mismatch in shape: grad_output[{index}] has a shape of {got}, and output[{index}] "
                f"a shape of {end.shape}, which must be its other dimensions."
            )
    return VMAP[0](lambda *samples: grad(ends, wanted, list(samples), **flags))(*gradients)  # type: ignore[no-any-return]
