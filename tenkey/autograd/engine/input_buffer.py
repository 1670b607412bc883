"""What arrives at a node's output: the checks of a gradient, its sum and cast to what the output was, and the sums.

Note [Gradients are summed as they come]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A node waits in a *slot*: how many senders are left, what has arrived, the node, and whether what has arrived is a sum
that the engine made itself. A second gradient is added at once. The sum is a new tensor, for what came first may be the
user's own, or may have gone elsewhere too; a third one is added in place into that sum, of which nobody else knows.
While the backward itself is recorded nothing is done in place. Guarded by
``tests/autograd/engine/test_engine.py::TestSums``.
"""

from __future__ import annotations

from typing import Any, Final

from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.copying import cast
from ...ops.builtin.shape.views import reshape
from ..tape.node import Node

__all__ = ["COUNT", "deliver", "reduce_to_shape", "validate"]

COUNT: Final = "[{node}] returned {got} gradients, expected {want}: one for each input, None where there is none."
_SHAPE: Final = (
    "[{node}] returned an invalid gradient at index {nr} - got {got} but expected shape compatible with {want}: the "
    "shapes must be equal, or the gradient's must reduce to the other by summing over broadcast dimensions."
)
_KIND: Final = (
    "[{node}] got {got} as the gradient of index {nr}: a gradient is a Tensor or None - expected Variable or None (got "
    "{got})."
)
_COMPLEX: Final = "[{node}] got a complex gradient for a real output (index {nr}): take tk.real() of it."
_DEVICE: Final = (
    "[{node}] returned an invalid gradient at index {nr} - expected device {want} but got {got}: take it there with "
    "g.to({want!r})."
)


class GradientTypeError(RuntimeError, TypeError):
    """A node returned what is no tensor: a TypeError to Python, a RuntimeError to programs that know PyTorch's."""


def reduce_to_shape(grad: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """Sum over the dimensions that broadcasting added or stretched; None if the shapes do not allow it."""
    given = grad._data.shape
    lead = len(given) - len(shape)
    if lead < 0:
        return None
    axes = list(range(lead))
    if given[lead:] == shape:
        return sum_(grad, tuple(axes))
    for i, n in enumerate(shape, lead):
        if given[i] != n:
            if n != 1:
                return None
            axes.append(i)
    summed = sum_(grad, tuple(axes), keepdims=True)
    return reshape(summed, shape) if lead else summed


def _where(node: Node, grad: Any, sender: Node | None, results: Any) -> dict[str, Any]:
    """Which node returned a gradient, and at which index; found for an error's text."""
    if sender is not None:
        for index, (edge, result) in enumerate(zip(sender.next_edges, results)):
            if edge[0] is node and result is grad:
                return {"node": sender.name(), "nr": index}
    return {"node": (sender or node).name(), "nr": 0}


def validate(node: Node, nr: int, grad: Any, sender: Node | None = None, results: Any = ()) -> Tensor:
    """The gradient for output ``nr`` of ``node``, summed and cast to its shape and dtype; raises if it cannot be.

    ``sender`` returned it as one of its ``results``; without one the user gave it.
    """
    if not isinstance(grad, Tensor):
        raise GradientTypeError(_KIND.format(got=type(grad).__name__, **_where(node, grad, sender, results)))
    given = grad
    wanted = node.input_shape(nr)
    if wanted is None:
        return grad
    shape, dtype = wanted
    if grad._data.shape != shape:
        reduced = reduce_to_shape(grad, shape)
        if reduced is None:
            raise RuntimeError(_SHAPE.format(got=grad.shape, want=shape, **_where(node, given, sender, results)))
        grad = reduced
    if grad._word | REQUIRES_GRAD == node._word:
        return grad  # type: ignore[no-any-return]  # dtype and device are right too
    if dtype is not None and grad.dtype != dtype:
        if grad.dtype.kind == "c" and dtype.kind != "c":
            raise RuntimeError(_COMPLEX.format(**_where(node, given, sender, results)))
        grad = cast(grad, dtype)
    device = node.input_device(nr)
    if device is not None and grad.device is not device:
        if grad.ndim or "meta" in (device.type, grad.device.type):
            found = _where(node, given, sender, results)
            raise RuntimeError(_DEVICE.format(want=str(device), got=str(grad.device), **found))
        grad = grad.to(device)
    return grad  # type: ignore[no-any-return]


def deliver(slot: list[Any], nr: int, grad: Tensor) -> None:
    """Add a gradient, which was validated, to what has arrived at output ``nr`` of the slot's node."""
    outputs = slot[2].outputs
    if outputs is None:
        held = slot[1]
        slot[1] = grad if held is None else held + grad
        slot[3] = False
        return
    if slot[1] is None:
        slot[1] = [None] * len(outputs)
    held = slot[1][nr]
    slot[1][nr] = grad if held is None else held + grad
