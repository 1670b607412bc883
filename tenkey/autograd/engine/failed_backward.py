"""What a failed backward leaves behind, and the refusal to add it a second time.

Note [Failed backward]
~~~~~~~~~~~~~~~~~~~~~~
A backward that raises (an error of a hook, lack of memory, an interrupt) has added some gradients to ``.grad`` already.
They stay there: restoring the old values would need a copy of every gradient, and could not undo what hooks after
accumulation have done with them, for example the step of an optimizer. Instead the graph refuses to add them again. All
nodes on a path to a tensor whose ``.grad`` was changed have run; each of them remembers these tensors. A later backward
that runs such a node and would reach one of the tensors raises an error, unless its ``.grad`` has been reset, which
means that it is another object than the failed backward left. What cannot be reset is refused for good: a gradient that
a hook has consumed, and those added by a backward inside the failed one. ``grad()`` changes no ``.grad``, so it is not
refused. All of this is the work of the failure: a backward that succeeds only marks the buffers of the leaves
(``ADDED``). Guarded by ``tests/autograd/engine/test_failed_backward.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import ref

from ..._util.record import Record
from ...core.tensor import Tensor
from ..tape.node import AccumulateGrad, Node
from .graph_task import STOPPED, GraphTask, mark_needed
from .input_buffer import ADDED

__all__ = ["abandon", "refuse_again"]


class _Change(Record, frozen=True):
    """A change made by a failed backward."""

    node: ref[Node]
    tensor: ref[Any]  # the tensor whose ``.grad`` was changed, or the node, if a backward that it called made changes
    grad: ref[Tensor] | None  # None: it cannot be reset

    def remains(self) -> bool:
        """Return whether the tensor is alive and its ``.grad`` has not been reset."""
        tensor = self.tensor()
        if tensor is None or self.grad is None:
            return tensor is not None
        meta, grad = tensor._autograd, self.grad()
        return grad is not None and meta is not None and meta.grad is grad


class _Failure:
    """The changes that a failed backward made; shared by the nodes on the paths to them."""

    __slots__ = ("allowed", "changes")

    def __init__(self, changes: list[_Change]) -> None:
        self.changes = changes
        self.allowed: ref[GraphTask] | None = None  # the task that was checked last


def _changes_of(task: GraphTask, at_large: bool) -> Iterator[tuple[Node, Any]]:
    """Yield the nodes at which a task has changed a gradient, with the tensor, or the node itself if it is unknown."""
    for node, tensor, before in task.stored:
        if tensor.grad is not before:
            yield node, tensor
    for node, buffer in task.buffers.items():
        if isinstance(node, AccumulateGrad):
            if buffer[1] is ADDED or at_large:
                yield node, node.leaf()
        elif task.called_backward and buffer[0] == 0 and buffer[1] is None:
            yield node, node  # it has run, and may have called the backward


def abandon(task: GraphTask) -> None:
    """Make the graph of a task that failed remember what it added to ``.grad`` (Note [Failed backward]).

    A second call changes nothing, except if the first was interrupted.
    """
    task.stopped = STOPPED
    if task.is_abandoned or not hasattr(task, "roots"):
        return  # or it did not begin
    changes = []
    targets: set[Node] = set()
    is_final = task.is_at_large()  # a gradient may arrive after ``.grad`` was reset
    for node, tensor in _changes_of(task, is_final):
        meta = getattr(tensor, "_autograd", None)
        grad = None if meta is None or is_final else meta.grad
        if tensor is not None:
            changes.append(_Change(ref(node), ref(tensor), None if grad is None else ref(grad)))
            targets.add(node)
    if changes:
        _remember(changes, mark_needed([buffer[2] for buffer in task.roots], targets))
    task.is_abandoned = True


def _remember(changes: list[_Change], path: set[Node]) -> None:
    """Make the nodes remember these changes, and those that they remember already."""
    earlier = {id(node._failed_backward): node._failed_backward for node in path if node._failed_backward is not None}
    for failure in earlier.values():
        changes += [change for change in failure.changes if change.remains()]
    new = _Failure(changes)
    for node in path:
        if not isinstance(node, AccumulateGrad):  # which belongs to other graphs too
            node._failed_backward = new
            node._special = True


def refuse_again(task: GraphTask, node: Node) -> None:
    """Raise RuntimeError if the task would add gradients that an earlier, failed one has added."""
    failure = node._failed_backward
    if not task.adds or (failure.allowed is not None and failure.allowed() is task):
        return
    left = [change for change in failure.changes if task.will_run(change.node()) and change.remains()]
    if left:
        remedy = "Reset them (x.grad = None) and compute the result again"
        if all(change.grad is not None for change in left):
            remedy = "Reset them (x.grad = None), or compute the result again"
        raise RuntimeError(
            f"[{node.name()}] Trying to backward through the graph a second time after an earlier backward through it "
            f"failed, which had already added gradients to .grad: they would be added again. {remedy}."
        )
    failure.allowed = ref(task)
