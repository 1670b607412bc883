"""Views under autograd: which tensors share memory, and how an in-place change of one reaches the history of all.

Note [Views and in-place]
~~~~~~~~~~~~~~~~~~~~~~~~~
Every view refers to the root of its chain of views (its ``_storage``; Note [Views share a version counter]). To change
a view in place is to change the root: the root becomes the output of a node ``CopySlices``, whose inputs are the old
root, outside the view's window, and the result, inside it. All other views, and the changed one itself, notice when
their history is read: a view's :class:`ViewMeta` records the version at which its node was right, and at any other
version it makes a new node, ``AsStridedBackward``, which reads the window from the root (Note [Windows as operations]).
So a view costs nothing more until its history is read, the root needs no such check, and tensors that are not views are
not affected. The operator that made the view does not matter, so the results of ``split`` and ``unstack`` can be
changed like any other view. Guarded by ``tests/autograd/views/test_views.py``.

Note [Views of what needed no gradient]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A view of a tensor that does not require a gradient is made without autograd. It refers to its root, but the root does
not refer to its views. When the root first becomes part of a graph (a tensor that requires a gradient was written into
it), its views must be found, because calls on them would not be recorded otherwise. A list of them would cost every
view of every tensor; instead they are found with the garbage collector, which knows all objects: among the youngest
objects, if the root is one of these or if they account for all references to the memory, else among all (which takes
milliseconds). That happens once for each root, and only if its memory is shared at all. Objects hidden by
``gc.freeze()`` are not found.

A view made under ``no_grad`` while its root already required a gradient stays a constant; changing it while calls are
recorded is an error, because its history would be lost. The result of ``detach()`` is not a view in this sense: it is a
root of its own on the same memory, with the same version counter. So is the result of a Function on the memory of an
argument; see :class:`FunctionViewMeta`. Guarded by
``tests/autograd/views/test_views.py::test_views_made_before_anything_was_recorded``.

Note [Views and reference cycles]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A view keeps its root alive, and the root the graph of all tensors written into it. If a node of that graph saved the
view itself, there would be a cycle; so a formula that needs the values of a view before the change saves a copy with
the view's edge, not with its ViewMeta. The remaining case is a node that saved *another* view of the root before the
change: such a graph cannot run backward (the saved view was modified), and is freed by the garbage collector. Guarded
by ``tests/autograd/views/test_views.py::test_no_cycles``.
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
from ...ops.version_bump import refuse_constant_view
from ..tape.node import AutogradMeta, Edge, Node, edge_of, record_node, set_history
from .as_strided import Window, window_between

__all__ = [
    "LEAF", "VIEW_OF_LEAF", "AsStridedBackward", "CopySlices", "FunctionViewMeta", "ViewMeta", "become_view",
    "check_inplace", "function_history", "hand_over_views", "has_relatives", "is_view", "plain_meta", "rebase",
    "view_lines", "views_of",
]  # fmt: skip

LEAF: Final = (
    "[{operator}] a leaf Variable that requires grad is being used in an in-place operation: do it in a "
    "tk.no_grad() block, or use the functional form."
)
VIEW_OF_LEAF: Final = (
    "[{operator}] a view of a leaf Variable that requires grad is being used in an in-place operation (x[index] = "
    "value is one): do it in a tk.no_grad() block, or use the functional form."
)


class _VersionedMeta(AutogradMeta):
    """Autograd's data that is right at one version of the memory."""

    own: Any = None  # the edge at the version ``at``
    at: int = 0

    @property
    def node(self) -> Any:  # type: ignore[override]
        """The node of which the tensor is an output."""
        return self.edge[0]

    @property
    def output_nr(self) -> Any:  # type: ignore[override]
        """The number of the output."""
        return self.edge[1]


class ViewMeta(_VersionedMeta):
    """Autograd's data on a view: its history at a version of the memory (Note [Views and in-place])."""

    __slots__ = ("at", "data", "own", "root")
    root: Tensor
    data: Any  # the view's native data, which gives its window

    @property
    def edge(self) -> Any:
        """The edge to which the gradient goes."""
        storage: Any = self.root._storage
        if storage is None or storage.version == self.at:
            return self.own
        return _regenerated(self, storage.version)


class FunctionViewMeta(_VersionedMeta):
    """Autograd's data on a result of a Function that is one of its arguments, or a view of one.

    The Function's gradient does not cover in-place changes, so the result has no history at any other version. It is a
    root of its own on the shared memory, so this holds for its views as well.
    """

    storage: Storage

    @property
    def edge(self) -> Any:
        """The edge to which the gradient goes; raises RuntimeError after an in-place change."""
        if self.storage.version != self.at:
            raise self.refusal("grad_fn", "its base or another view of its base has been")
        return self.own

    def refusal(self, operator: str, what: str) -> RuntimeError:
        """Return the error for an in-place change."""
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
        set_history(result, node, nr)  # a view of memory allocated in forward
        return
    meta = FunctionViewMeta()
    meta.own, meta.storage, meta.at = (node, nr), storage, storage.version
    result._autograd = meta
    result._word |= REQUIRES_GRAD


class AsStridedBackward(Node):
    """The node of a view whose root was changed: it reads the window from the root."""

    operator_name = "tk::as_strided"
    saves = False
    window: Window

    def apply(self, *grads: Tensor | None) -> Any:
        """Return the gradient of the root, which is zero outside the window."""
        g = grads[0]
        return (None if g is None else self.window.embed(g),)


class CopySlices(Node):
    """The node of a tensor after an in-place change of a view: the old tensor with the result in the window."""

    operator_name = "tk::copy_slices"
    saves = False
    window: Window

    def apply(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the old tensor, zero in the window, and of the values written into the window."""
        g = grads[0]
        if g is None:
            return None, None
        base, result = self.next_edges
        return (None if base[0] is None else self.window.without(g), None if result[0] is None else self.window.read(g))


def _regenerated(meta: ViewMeta, version: int) -> Any:
    """Make the node of a view at a version, and return its edge."""
    root = meta.root
    if not root._word & REQUIRES_GRAD:  # the view is a leaf, or a view of a leaf
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
        "    $meta = $ViewMeta()",
        "    $meta.own = ($node, 0)",
        "    $meta.root = $root",
        "    $meta.data = $data",
        "    $meta.at = 0 if $root._storage is None else $root._storage.version",
        "else:",
        *[f"    {line}" for line in plain],
    ]


def is_view(x: Tensor) -> bool:
    """Return whether autograd treats the tensor as a view."""
    storage = x._storage
    return storage is not None and storage.__class__ is not Storage


def check_inplace(operator: str, x: Tensor, leaf: str = LEAF) -> None:
    """Raise RuntimeError if ``x`` must not be changed in place while calls are recorded."""
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
    """Return autograd data with this edge, unaffected by later changes."""
    if edge is None or edge[0] is None:
        return None
    meta = AutogradMeta()
    meta.node, meta.output_nr = edge
    meta.edge = edge
    return meta


def rebase(x: Tensor, edge: Edge, among: Iterable[Any] = ()) -> None:
    """Give ``x`` the history of the values written into it: ``edge`` leads to their node.

    ``among``: tensors whose history may have been read between the change of the memory and this call.
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
        _ = meta.edge  # from now on the gradient of the new values is retained


def _replace(root: Tensor, edge: Edge) -> None:
    """Give a tensor that is not a view a new history; a retained gradient is that of the new values."""
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
    """Give a view without history that of its root."""
    meta = ViewMeta()
    meta.own, meta.root, meta.data, meta.at = None, root, x._data, -1
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


# ---- finding the views of a tensor


def _references(x: Tensor) -> int:
    """Count the references to the memory of a tensor, apart from its own storage."""
    storage = x._storage
    data = x._data
    if data.__class__ is np.ndarray:
        if data.base is not None:
            return sys.getrefcount(data.base) - (isinstance(storage, Storage) and storage.buffer is data.base)
        return sys.getrefcount(data) - (isinstance(storage, Storage) and storage.buffer is data)
    if data.owner is not None:  # a backend's tables may refer to the buffer, but not to its owner
        return sys.getrefcount(data.owner)
    return sys.getrefcount(data.buffer) - (isinstance(storage, Storage) and storage.buffer is data.buffer)


# The counts for a tensor that shares its memory with no other, measured because they depend on the Python version.
_UNSHARED_ARRAY: Final = _references(make_tensor(np.zeros(1), 0))
_UNSHARED_WINDOW: Final = _references(make_tensor(np.zeros(2)[:1], 0))
_HELD: Final = _references(make_tensor(np.zeros(1), 0))  # the same for an array that does not own its memory
_UNSHARED_BUFFER: Final = _references(make_tensor(StridedArray(object(), (1,), np.dtype("float32"), CPU), 0))


def _relatives(x: Tensor) -> int | None:
    """Count the other direct references to the memory; None if unknown."""
    if x._data.__class__ is np.ndarray and x._data.base is None:
        return _references(x) - _UNSHARED_ARRAY  # ``x._data`` in a variable would be one more
    data = x._data
    if data.__class__ is np.ndarray:
        storage = x._storage
        held = sys.getrefcount(data) - (isinstance(storage, Storage) and storage.buffer is data)
        return None if held > _HELD else _references(x) - _UNSHARED_WINDOW
    return _references(x) - _UNSHARED_BUFFER if data.buffer is not None else None


def has_relatives(x: Tensor) -> bool:
    """Return whether the memory of a tensor that is not a view may have other users."""
    return _relatives(x) != 0


def _kinds(cls: type[Tensor] = Tensor) -> set[type]:
    """Return Tensor and its subclasses."""
    return {cls}.union(*[_kinds(kind) for kind in cls.__subclasses__()])


def views_of(root: Tensor) -> list[Tensor]:
    """Find all views of a tensor (Note [Views of what needed no gradient])."""
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
    """Return whether ``_relatives`` counts the reference of a view, which may be hidden by another view's array."""
    data, own = x._data, root._data
    if own.__class__ is not np.ndarray:
        return True
    return data is own or data.base is (own if own.base is None else own.base)


def _of(root: Tensor, tensors: list[Any]) -> list[Tensor]:
    return [x for x in tensors if getattr(x, "_storage", None) is root]  # another thread may be making one
