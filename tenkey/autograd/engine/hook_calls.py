"""Hook calls, in their fixed order.

Note [Order of hooks]
~~~~~~~~~~~~~~~~~~~~~
For a node, once all gradients of its outputs have arrived:

=====================================  ==============================================================================
step                                   guarded by, in ``tests/autograd/test_hooks.py``
=====================================  ==============================================================================
1. tensor hooks of its outputs, in     ``test_order_of_hooks_for_a_node``
   the order of registration
2. retained gradients                  ``test_retained_gradients_come_after_hooks_registered_later``
3. captures for ``grad()``             ``test_a_captured_gradient_has_passed_the_hooks_of_its_tensor``
4. pre-hooks of the node               ``test_order_of_hooks_for_a_node``
5. the formula (``apply``)             ``test_order_of_hooks_for_a_node``
6. saved tensors are released          ``test_order_of_hooks_for_a_node``
7. the results are validated: their    ``test_node_hooks_see_validated_gradients``
   number, shapes, dtypes, devices
8. hooks of the node, whose results    ``test_node_hooks_run_in_the_order_of_registration``,
   are validated again                 ``test_a_wrong_result_of_a_node_hook``
=====================================  ==============================================================================

For a leaf: tensor hooks, captures, pre-hooks of its accumulator, accumulation, hooks after accumulation, hooks of the
accumulator (``test_order_of_hooks_for_a_leaf``). A captured gradient has always passed its tensor's hooks, whether or
not the gradient of a deeper input is captured too. The hooks of one kind are collected before the first of them is
called: adding or removing one inside another takes effect in the next backward (``test_a_hook_may_remove_another``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ...core.wrapper import from_scalar
from ..tape.node import Node, meta_of
from .graph_task import GraphTask
from .input_buffer import GradientTypeError, wrong_count

__all__ = ["before", "post_hooks", "pre_hooks"]


def before(task: GraphTask, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """Call tensor hooks, then retain gradients, then capture them (Note [Order of hooks])."""
    hooks = node.tensor_hooks
    if hooks is not None:
        grads = list(grads)
        for nr, own in tuple(hooks.items()):
            for hook in tuple(own.values()):
                grad = grads[nr]
                if grad is not None:
                    grads[nr] = _checked(node, hook, nr, hook(grad), grad)
    retained = node.retain_hooks
    if retained is not None:
        for nr, reference in tuple(retained.items()):
            grad, tensor = grads[nr], reference()
            if grad is not None and tensor is not None:
                task.storing(node, tensor)
                own = meta_of(tensor)
                own.grad = grad.clone() if own.grad is None else own.grad + grad  # the engine passes on the original
    if task.captures:
        for nr, grad in enumerate(grads):
            for position in task.captures.get((node, nr), ()):
                task.captured[position] = grad
    return grads


def _name(hook: Callable[..., Any]) -> str:
    return repr(getattr(hook, "__qualname__", None) or type(hook).__qualname__)


def _checked(node: Node, hook: Callable[..., Any], nr: int, result: Any, grad: Tensor) -> Tensor:
    if result is None:
        return grad
    result = from_scalar(result, (grad,))
    if not isinstance(result, Tensor) or result.shape != grad.shape or result.dtype != grad.dtype:
        is_tensor = isinstance(result, Tensor)
        got = f"a tensor of shape {result.shape}, dtype {result.dtype}" if is_tensor else repr(result)
        what = "type" if not is_tensor or result.shape == grad.shape else "size"
        text = (
            f"[{node.name()}] a hook returned {got} for a gradient of shape {grad.shape}, dtype {grad.dtype}: return "
            f"None or a Tensor of that shape and dtype. (The hook {_name(hook)}, index {nr}, has changed the {what} "
            "of value.)"
        )
        raise RuntimeError(text) if is_tensor else GradientTypeError(text)
    return result


def pre_hooks(node: Node, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Return the gradients of the outputs after the pre-hooks of the node."""
    for hook in tuple((node.pre_hooks or {}).values()):
        result = hook(grads)
        if result is not None:
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != len(grads):
                raise RuntimeError(
                    f"[{node.name()}] its pre-hook returned {len(result)} gradients, expected {len(grads)}: one for "
                    "each output, None where there is none."
                )
            grads = tuple([_replaced(node, hook, nr, *pair) for nr, pair in enumerate(zip(result, grads))])
    return grads


def _replaced(node: Node, hook: Callable[..., Any], nr: int, result: Any, grad: Tensor | None) -> Tensor | None:
    """Check the result of a node's pre-hook for one gradient: None removes the gradient, and a new one may be added."""
    if result is None:
        return None
    if grad is not None:
        return _checked(node, hook, nr, result, grad)
    result = from_scalar(result)
    if not isinstance(result, Tensor):
        raise GradientTypeError(
            f"[{node.name()}] a hook returned {result!r} in place of the gradient of index {nr}: expected a "
            f"Tensor or None. (The hook is {_name(hook)}.)"
        )
    return result


def post_hooks(node: Node, results: tuple[Any, ...], grads: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    """Return the gradients of the inputs after the hooks of the node."""
    for hook in tuple((node.post_hooks or {}).values()):
        changed = hook(results, grads)
        if changed is not None:
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(results):
                raise wrong_count(f"{node.name()} hook", len(changed), len(results))
            results = changed
    return results
