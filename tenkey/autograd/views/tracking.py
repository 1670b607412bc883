"""Views under autograd: which tensors share memory, and how a change in place of one reaches the history of all.

Note [Views and in-place]
~~~~~~~~~~~~~~~~~~~~~~~~~
Every view refers to the tensor at the root of its chain of views (its ``_storage``; Note [Views share a version
counter]). A change in place of a view is a change of the root: the root becomes the output of a node ``CopySlices``,
which takes the root as it was, but for the view's window, and in the window the result. All other views, and the
changed one itself, find out when somebody asks for their history: a view's :class:`ViewMeta` knows the version at which
its node was right, and at any other version makes a new node, ``AsStridedBackward``, that reads the window out of the
root (Note [Windows as operations]). So a view costs nothing more until it is asked; a root never has to be asked; a
tensor that is no view has nothing to do with all this. It makes no difference which operator made the view, so the
results of ``split`` and ``unstack`` may be changed like any other. Guarded by ``tests/autograd/views/test_views.py``.

Note [Views of what needed no gradient]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A view of a tensor that needs no gradient is made without autograd, and refers to its root, but the root to none of its
views. When the root first becomes part of a graph (something that needs a gradient was written into it), its views must
be found: a call on them would not be recorded otherwise. Keeping a list of them would cost every view of every
tensor; so they are looked for by the garbage collector, which knows all objects: among the youngest if the root is one
of these, or if that is enough to account for everybody who refers to the memory, else among all (some milliseconds).
That happens once for a root, and only if its memory is shared at all. Objects that ``gc.freeze()`` has hidden are not
found.

A view that was made under ``no_grad`` while its root already needed a gradient stays a constant; to change it where
gradients are recorded is an error, as its history would be lost. ``detach()`` gives no view in this sense: its result
is a root of its own on the same memory, with the same version counter. So is what a Function returns of its arguments'
memory; see :class:`FunctionViewMeta`. Guarded by
``tests/autograd/views/test_views.py::test_views_made_before_anything_was_recorded``.

Note [Views and reference cycles]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A view keeps its root alive, and the root the graph of all that was written into it. If a node of that graph saved the
view itself, that would be a cycle; so a formula that needs what a view held before the change saves a copy of it with
the view's edge, not with its ViewMeta. What remains is a node that saved *another* view of the root before the change:
such a graph cannot run backward (the saved view was modified), and goes with the garbage collector. Guarded by
``tests/autograd/views/test_views.py::test_no_cycles``.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.storage import Storage, StridedArray
from ...core.tensor import Tensor, make_tensor, storage_of
from ...core.word import REQUIRES_GRAD
from ...ops.install import refuse_constant_view
from ..tape.node import AutogradMeta, Edge, Node, edge_of, record_node, set_history
from .as_strided import Window, window_between

__all__ = [
    "LEAF",
    "VIEW_OF_LEAF",
    "AsStridedBackward",
    "CopySlices",
    "FunctionViewMeta",
    "ViewMeta",
    "become_view",
    "check_inplace",
    "function_history",
    "hand_over_views",
    "has_relatives",
    "is_view",
    "plain_meta",
    "rebase",
    "view_lines",
    "views_of",
]

LEAF: Final = (
    "[{operator}] a leaf Variable that requires grad is being used in an in-place operation: do it in a "
    "tk.no_grad() block, or use the functional form."
)
VIEW_OF_LEAF: Final = (
    "[{operator}] a view of a leaf Variable that requires grad is being used in an in-place operation (x[index] = "
    "value is one): do it in a tk.no_grad() block, or use the functional form."
)


class ViewMeta(AutogradMeta):
    """What autograd keeps on a view: its history as of a version of the memory. See Note [Views and in-place]."""

    own: Any = None  # the edge that was right at the version ``at``
    root: Tensor
    data: Any  # the view's native data: its window
    at: int = 0

    @property
    def edge(self) -> Any:
        """Where the gradient goes."""
        storage: Any = self.root._storage
        if storage is None or storage.version == self.at:
            return self.own
        return _regenerated(self, storage.version)

    @property
    def node(self) -> Any:  # type: ignore[override]
        """The node that the view is an output of."""
        return self.edge[0]

    @property
    def output_nr(self) -> Any:  # type: ignore[override]
        """Which output of the node."""
        return self.edge[1]


class FunctionViewMeta(AutogradMeta):
    """What autograd keeps on a result of a Function that is a view of one of its arguments, or the argument itself.

    The Function's gradient says nothing of a change in place, so there must be none: the result has no history at any
    other version. It is a root of its own on the shared memory, so this holds for views of it as well.
    """

    own: Any = None
    storage: Storage
    at: int = 0

    @property
    def edge(self) -> Any:
        """Where the gradient goes."""
        if self.storage.version != self.at:
            raise self.refusal("grad_fn", "its base or another view of its base has been")
        return self.own

    @property
    def node(self) -> Any:  # type: ignore[override]
        """The node of the Function."""
        return self.edge[0]

    @property
    def output_nr(self) -> Any:  # type: ignore[override]
        """Which output of the node."""
        return self.own[1]

    def refusal(self, operator: str, what: str) -> RuntimeError:
        """The error for a change in place."""
        node, nr = self.own
        return RuntimeError(
            f"[{operator}] Output {nr} of {node.name()} is a view and {what} modified inplace. This view was created "
            "inside a custom Function (or because an input was returned as-is), and the gradient of the Function "
            "would be lost with the change: return a clone() from the Function, or use the functional form."
        )


def function_history(result: Tensor, node: Node, nr: int, inputs: list[Any]) -> None:
    """Make a result of a Function an output of its node."""
    root = result._storage
    if root is None or root.__class__ is Storage:
        set_history(result, node, nr)
        return
    storage = result._storage = storage_of(result)
    if not any(x is root or (x is not None and x._storage is root) for x in inputs):
        set_history(result, node, nr)  # a window on memory that was made in forward
        return
    meta = FunctionViewMeta()
    meta.own, meta.storage, meta.at = (node, nr), storage, storage.version
    result._autograd = meta
    result._word |= REQUIRES_GRAD


class AsStridedBackward(Node):
    """The node of a view whose root was changed: the window of the root."""

    operator_name = "tk::as_strided"
    saves = False
    window: Window

    def apply(self, *grads: Tensor | None) -> Any:
        """The gradient of the root: zeros but for the window."""
        g = grads[0]
        return (None if g is None else self.window.embed(g),)


class CopySlices(Node):
    """The node of a tensor of which a view was changed in place: the tensor as it was, and in the window the result."""

    operator_name = "tk::copy_slices"
    saves = False
    window: Window

    def apply(self, *grads: Tensor | None) -> Any:
        """The gradients of the tensor as it was, without the window, and of what was written into the window."""
        g = grads[0]
        if g is None:
            return None, None
        base, result = self.next_edges
        return (
            None if base[0] is None else self.window.without(g),
            None if result[0] is None else self.window.read(g),
        )


def _regenerated(meta: ViewMeta, version: int) -> Any:
    """The edge of a view at a version, by a new node."""
    root = meta.root
    if not root._word & REQUIRES_GRAD:  # a view that is a leaf itself, or a view of one
        meta.at = version
        return meta.own
    node = AsStridedBackward()
    node.window = window_between(root, meta.data)
    record_node(node, (edge_of(root),), [root], attach=False)
    node.shape = meta.data.shape
    before = meta.own
    meta.own = (node, 0)
    meta.at = version
    if meta.retains_grad and before is not None:
        node.retain_hooks = {0: before[0].retain_hooks.pop(before[1])}
    return meta.own


def view_lines(plain: list[str]) -> list[str]:
    """Return the lines of a generated kernel that make the metadata of a view; ``reshape`` may have made a copy."""
    return [
        "$root = $out._storage",
        "if $root.__class__ is $Tensor or $isinstance($root, $Tensor):",
        "    $meta = $new($ViewMeta)",
        "    $meta.own = ($node, 0)",
        "    $meta.root = $root",
        "    $meta.data = $data",
        "    if $root._storage is not None:",
        "        $meta.at = $root._storage.version",
        "else:",
        *[f"    {line}" for line in plain],
    ]


def is_view(x: Tensor) -> bool:
    """Whether autograd sees the tensor as a view of another one."""
    storage = x._storage
    return storage is not None and storage.__class__ is not Storage


def check_inplace(operator: str, x: Tensor, leaf: str = LEAF) -> None:
    """Raise if ``x`` may not be changed in place where the change is to be recorded."""
    root: Any = x._storage
    for meta in (x._autograd, None if root is None or root.__class__ is Storage else root._autograd):
        if meta.__class__ is FunctionViewMeta:
            raise meta.refusal(operator, "is being")
    if root is None or root.__class__ is Storage:
        if x._word & REQUIRES_GRAD:
            meta = x._autograd
            if meta is None or meta.node is None:
                raise RuntimeError(leaf.format(operator=operator))
        return
    meta = root._autograd
    root_is_leaf = meta is None or meta.node is None
    if x._word & REQUIRES_GRAD:
        if root_is_leaf:
            raise RuntimeError(VIEW_OF_LEAF.format(operator=operator))
        own = x._autograd
        if own is None or (own.__class__ is not ViewMeta and own.node is None):
            raise RuntimeError(leaf.format(operator=operator))
    elif root._word & REQUIRES_GRAD:
        refuse_constant_view(operator, x)


def plain_meta(edge: Edge | None) -> AutogradMeta | None:
    """A slot that says where the gradient goes now, whatever is changed later."""
    if edge is None or edge[0] is None:
        return None
    meta = AutogradMeta()
    meta.node, meta.output_nr = edge
    meta.edge = edge
    return meta


def rebase(x: Tensor, edge: Edge, among: Iterable[Any] = ()) -> None:
    """Make what was written into ``x`` its history: ``edge`` leads to the node of the new values.

    ``among``: tensors whose history may have been asked for after the memory was changed, and before this call.
    """
    for tensor in (x, *among):
        meta = None if tensor is None else tensor._autograd
        if meta.__class__ is ViewMeta:
            meta.at = -1
    root: Any = x._storage
    if root is None or root.__class__ is Storage:
        _replace(x, edge)
        return
    node = CopySlices()
    node.window = window_between(root, x._data)
    record_node(node, (edge_of(root), edge), [root], attach=False)
    _replace(root, (node, 0))
    meta = x._autograd
    if meta.__class__ is not ViewMeta:
        become_view(x, root)
    elif meta.retains_grad:
        _ = meta.edge  # it is the gradient of the new values that is retained from now on


def _replace(root: Tensor, edge: Edge) -> None:
    """Give a tensor that is no view another history; what is retained is the gradient of the tensor as it is now."""
    before = root._autograd
    meta: Any = plain_meta(edge)
    root._autograd = meta
    if before is not None and before.grad is not None:
        meta.grad = before.grad
    if before is not None and before.retains_grad:
        retain = before.node.retain_hooks.pop(before.output_nr)
        node = meta.node
        if node.retain_hooks is None:
            node.retain_hooks = {}
        node.retain_hooks[meta.output_nr] = retain
        meta.retains_grad = True
    if not root._word & REQUIRES_GRAD:
        root._word |= REQUIRES_GRAD
        if has_relatives(root):
            for view in views_of(root):
                become_view(view, root)


def become_view(x: Tensor, root: Tensor) -> None:
    """Give a view that had no history the one of its root."""
    meta = ViewMeta()
    meta.root, meta.data, meta.at = root, x._data, -1
    before = x._autograd
    if before is not None:
        meta.grad = before.grad
    x._autograd = meta
    x._word |= REQUIRES_GRAD


def hand_over_views(views: Iterable[Tensor], root: Tensor, other: Tensor) -> None:
    """Make the views of a tensor views of another one, which takes its place."""
    for view in views:
        view._storage = other
        meta = view._autograd
        if meta.__class__ is ViewMeta and meta.root is root:
            meta.root = other


# ---- who shares memory


def _references(x: Tensor) -> int:
    """How many refer to the memory of a tensor, apart from its own storage."""
    storage = x._storage
    data = x._data
    if data.__class__ is np.ndarray:
        if data.base is not None:
            return sys.getrefcount(data.base) - (isinstance(storage, Storage) and storage.buffer is data.base)
        return sys.getrefcount(data) - (isinstance(storage, Storage) and storage.buffer is data)
    if data.owner is not None:  # a backend's bookkeeping may refer to the buffer as well, but not to its owner
        return sys.getrefcount(data.owner)
    return sys.getrefcount(data.buffer) - (isinstance(storage, Storage) and storage.buffer is data.buffer)


# what _references says of a tensor that nobody shares, measured because it differs between versions of Python
_UNSHARED_ARRAY: Final = _references(make_tensor(np.zeros(1), 0))
_UNSHARED_WINDOW: Final = _references(make_tensor(np.zeros(2)[:1], 0))
_HELD: Final = _references(make_tensor(np.zeros(1), 0))  # the same for an array that is no owner itself
_UNSHARED_BUFFER: Final = _references(make_tensor(StridedArray(object(), (1,), np.dtype("float32"), CPU), 0))


def _relatives(x: Tensor) -> int | None:
    """How many others refer to the memory directly; None if that is unknown."""
    if x._data.__class__ is np.ndarray and x._data.base is None:
        return _references(x) - _UNSHARED_ARRAY  # ``x._data`` in a variable would be one more
    data = x._data
    if data.__class__ is np.ndarray:
        storage = x._storage
        held = sys.getrefcount(data) - (isinstance(storage, Storage) and storage.buffer is data)
        return None if held > _HELD else _references(x) - _UNSHARED_WINDOW
    return _references(x) - _UNSHARED_BUFFER if data.buffer is not None else None


def has_relatives(x: Tensor) -> bool:
    """Whether others may look at the memory of a tensor that is no view."""
    return _relatives(x) != 0


def _kinds(cls: type[Tensor] = Tensor) -> set[type]:
    """Tensor and its subclasses."""
    return {cls}.union(*[_kinds(kind) for kind in cls.__subclasses__()])


def views_of(root: Tensor) -> list[Tensor]:
    """All views of a tensor; see Note [Views of what needed no gradient]."""
    kinds = _kinds()
    young: list[Any] = [x for x in gc.get_objects(generation=0) if type(x) in kinds]
    found = _of(root, young)
    if any(x is root for x in young):
        return found  # views are younger than their root
    wanted = _relatives(root)
    if wanted is not None and sum([_refers_directly(x, root) for x in found]) >= wanted:
        return found
    return _of(root, [x for x in gc.get_referrers(root) if type(x) in kinds])


def _refers_directly(x: Tensor, root: Tensor) -> bool:
    """Whether a view is one of the references that ``_relatives`` counts, and not behind another view's array."""
    data, own = x._data, root._data
    if own.__class__ is not np.ndarray:
        return True
    return data is own or data.base is (own if own.base is None else own.base)


def _of(root: Tensor, tensors: list[Any]) -> list[Tensor]:
    return [x for x in tensors if getattr(x, "_storage", None) is root]  # another thread may be making one
