"""Input buffers: the gradients that have arrived at a node, their checks and their sums.

Note [Input buffers]
~~~~~~~~~~~~~~~~~~~~
A node waits in a buffer: the number of senders left, the gradient (or a list, for several outputs), the node, and
whether the gradient is a sum that the engine made itself. A second gradient is added at once. The sum is a new tensor,
because the first gradient may be the user's own, or may have been sent elsewhere too; a third is added in place to that
sum, which has no other references. Gradients of a node with several outputs, and those of a backward that is itself
recorded, are not added in place. Guarded by ``tests/autograd/engine/test_engine.py::TestSums`` and
``tests/autograd/engine/test_several_outputs.py``.

Note [Gradients of parts]
~~~~~~~~~~~~~~~~~~~~~~~~~
The gradient of ``x[:, 32:64]`` by ``x`` is zero outside of the slice. The first such gradient at a buffer is made of
new zeros, which the engine may write to as to a sum of its own; further ones are added to it where they are not zero.
So the gradients of the twelve parts of a matrix take one matrix of zeros and twelve small additions, instead of twelve
and eleven large ones. Guarded by ``tests/autograd/engine/test_engine.py::TestSums::test_parts``.
"""

from __future__ import annotations

from typing import Any, Final

from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ...core.wrapper import from_scalar
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.copying import cast
from ...ops.builtin.shape.views import reshape
from ..tape.node import Node

__all__ = ["ADDED", "GradientTypeError", "InputBuffer", "add_part", "deliver", "validate", "wrong_count"]

InputBuffer = list[Any]

ADDED: Final = object()
"""In the buffer of a leaf in place of its gradient, once the addition to ``.grad`` has begun."""


def wrong_count(name: str, got: int, want: int) -> RuntimeError:
    """Return the error for a node or a hook that returned too many or too few gradients."""
    return RuntimeError(
        f"[{name}] returned {got} gradients, expected {want}: one for each input, None where there is none."
    )


class GradientTypeError(RuntimeError, TypeError):
    """A gradient is not a tensor: a TypeError in Python, a RuntimeError in PyTorch."""


def _reduced(grad: Tensor, shape: tuple[int, ...]) -> Tensor | None:
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


def _origin(node: Node, grad: Any, sender: Node | None, results: Any) -> tuple[str, int]:
    """Return the name of the node that returned a gradient, and the index of the gradient, for an error."""
    if sender is not None:
        for index, (edge, result) in enumerate(zip(sender.next_edges, results)):
            if edge[0] is node and result is grad:
                return sender.name(), index
    return (sender or node).name(), 0


def validate(node: Node, nr: int, grad: Any, sender: Node | None = None, results: Any = ()) -> Tensor:
    """Return the gradient for output ``nr`` of ``node``, summed and cast to its shape and dtype; raise if impossible.

    ``sender`` returned it as one of its ``results``; without a sender it was given by the user.
    """
    given = grad
    if not isinstance(grad, Tensor):
        grad = from_scalar(grad)
    if not isinstance(grad, Tensor):
        name, index = _origin(node, grad, sender, results)
        got = type(grad).__name__
        raise GradientTypeError(
            f"[{name}] got {got} as the gradient of index {index}: a gradient is a Tensor or None - expected Variable "
            f"or None (got {got})."
        )
    wanted = node._input_meta(nr)
    if wanted is None:
        return grad
    shape, dtype, device = wanted
    if grad._data.shape != shape:
        reduced = _reduced(grad, shape)
        if reduced is None:
            name, index = _origin(node, given, sender, results)
            raise RuntimeError(
                f"[{name}] returned an invalid gradient at index {index} - got {grad.shape} but expected shape "
                f"compatible with {shape}: the shapes must be equal, or the gradient's must reduce to the other by "
                "summing over broadcast dimensions."
            )
        grad = reduced
    if grad._word | REQUIRES_GRAD == node._word:
        return grad  # type: ignore[no-any-return]  # dtype and device are right too
    if dtype is not None and grad.dtype != dtype:
        if grad.dtype.kind == "c" and dtype.kind != "c":
            name, index = _origin(node, given, sender, results)
            raise RuntimeError(
                f"[{name}] got a complex gradient for a real output (index {index}): take tk.real() of it."
            )
        grad = cast(grad, dtype)
    if device is not None and grad.device is not device:
        if grad.ndim or "meta" in (device.type, grad.device.type):
            name, index = _origin(node, given, sender, results)
            raise RuntimeError(
                f"[{name}] returned an invalid gradient at index {index} - expected device {device} but got "
                f"{grad.device}: move it with g.to({str(device)!r})."
            )
        grad = grad.to(device)
    return grad  # type: ignore[no-any-return]


def deliver(buffer: InputBuffer, nr: int, grad: Tensor) -> None:
    """Add a validated gradient to output ``nr`` of the buffer's node."""
    outputs = buffer[2].outputs
    place: list[Any] = buffer
    if outputs is None:
        nr = 1
        buffer[3] = False
    else:
        if buffer[1] is None:
            buffer[1] = [None] * len(outputs)
        place = buffer[1]
    held = place[nr]
    place[nr] = grad if held is None else held + grad


def add_part(node: Node, grad: Any, buffer: InputBuffer | None) -> Any:
    """Run a node whose output is a part of its input, for which this buffer waits: Note [Gradients of parts]."""
    if buffer is not None and not buffer[2]._special:
        held = buffer[1]
        if held is None:
            buffer[3] = True
        elif buffer[3] and type(held) is Tensor and type(grad) is Tensor:
            node._add(held, grad)
            return (None,)
    return node.apply(grad)
