"""In-place operations under autograd.

An in-place call that needs a gradient is recorded as its functional form; the result is then written into the tensor's
memory, and the tensor becomes the output of that node. (An assignment by index is written at once, since its gradient
needs no values.) So a formula never sees a half-written tensor, and a formula that needs the old values (``log_``,
``multiply_``) gets a copy of them. A leaf that requires a gradient must not be changed, and neither must a view of one;
changing a view of another tensor changes the history of that tensor (Note [Views and in-place]). Guarded by
``tests/autograd/views/test_inplace.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, REQUIRES_GRAD, dtypes_of
from ...dispatch.local_state import silently
from ...dispatch.operator import Operator
from ...ops.builtin.indexing.basic_indexing import basic_index
from ...ops.builtin.shape.copying import cast, clone, to_device
from ...ops.builtin.shape.views import broadcast_to
from ...ops.variants import can_hold, copy_
from ..formulas.gradients import formulas_of
from ..recording.autograd_kernels import ZeroNode, below_autograd, inner_call
from ..recording.kernel_source import Writer
from ..tape.node import Edge, edge_of, record_node
from .tracking import LEAF, VIEW_OF_LEAF, ViewMeta, check_inplace, is_view, plain_meta, rebase

__all__ = ["inplace_kernel"]


class CopyBackward(ZeroNode):
    """The node of a tensor that was overwritten with constants, so that its old values have a zero gradient."""

    operator_name = "tk::copy_"


def _inplace(operator: Operator, word: int) -> Callable[..., Any]:
    functional = operator.facets["Inplace"].functional
    below = below_autograd(word)
    cache = operator.cache
    users = [] if functional is None else _users_of_first(functional)

    def kernel(x: Tensor, *args: Any) -> Tensor:
        check_inplace(operator.schema.base_name, x)
        if functional is None:
            if not args[0]._word & REQUIRES_GRAD:
                before = edge_of(x)
                silently(cache[below], x, *args)
                rebase(x, (_constants_node(x, before), 0))
                return x
            result = _copied(x, args[0])
        else:
            given = (x, *args)
            keeps = any(bool(getattr(given[i], "_word", 0) & REQUIRES_GRAD) for i in users)
            result = functional.call(_copy_of_values(x) if keeps else x, *args)
        if result.shape != x.shape or not can_hold(x.dtype, result.dtype):
            return silently(cache[below], x, *args)  # type: ignore[no-any-return]  # raises the error
        if result.dtype != x.dtype:
            result = cast(result, x.dtype)
        edge = edge_of(result)
        if edge[0] is None and x._word & REQUIRES_GRAD:
            edge = (_constants_node(x, edge_of(x)), 0)
        silently(copy_, x, result)  # increments the version
        if edge[0] is not None:
            rebase(x, edge)
        return x

    return kernel


def _put(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the kernel of an operator that writes into a part of its first argument, recorded in functional form."""
    functional = operator.facets["Put"].functional
    is_complex = any(dtype.kind == "c" for dtype in dtypes_of(word & DTYPE_MASK))
    formulas = formulas_of(functional, is_complex=is_complex)
    assert formulas is not None  # its declaration has them
    record = Writer(functional, formulas).kernel(inner_call(operator, word), word)
    whole = operator.name == "tk::put_"

    def kernel(x: Tensor, where: Any, source: Tensor) -> Tensor:
        # PyTorch's message: there, an index of slices makes a view
        check_inplace("index_put", x, LEAF if whole or where == (Ellipsis,) else VIEW_OF_LEAF)
        root = x._storage if is_view(x) else x
        own = source._storage is root and source._autograd.__class__ is ViewMeta
        if own and not whole and _is_window(x, where, source):
            return x  # the end of x[where] += y: the elements and their history are right already
        if source._word & REQUIRES_GRAD:
            if source.dtype != x.dtype:
                operator.facets["Fits"].check(operator, x, where, source)
                source = cast(source, x.dtype)
            if source._data.__class__ is not x._data.__class__ or source.device != x.device:
                source = to_device(source, x.device)
        if not (x._word | source._word) & REQUIRES_GRAD:  # an integer tensor
            return silently(operator.call, x, where, source)  # type: ignore[no-any-return]
        before, word = x._autograd, x._word
        if before is not None and word & REQUIRES_GRAD:
            x._autograd = plain_meta(before.edge)  # the edge before the version is incremented
        try:
            record(x, where, source)
            edge = edge_of(x)
        finally:
            x._autograd, x._word = before, word
        rebase(x, edge, (source,))
        return x

    return kernel


def _is_window(x: Tensor, where: Any, source: Tensor) -> bool:
    """Return whether ``source`` is the window of ``x`` that the index selects, rather than a copy."""
    data = x._data
    if data.__class__ is not np.ndarray:
        return False
    own: np.ndarray = silently(basic_index, x, where)._data
    given = source._data
    return bool(
        own.shape == given.shape
        and own.strides == given.strides
        and own.__array_interface__["data"] == given.__array_interface__["data"]
    )


def _users_of_first(functional: Operator) -> list[int]:
    """Return the positions of the arguments whose gradient depends on the values of the first."""
    names = [a.name for a in functional.schema.arguments]
    formulas = formulas_of(functional, is_complex=False) or {}
    return [names.index(name) for name, f in formulas.items() if f is not None and names[0] in f.names]


def _copy_of_values(x: Tensor) -> Tensor:
    """Return a copy with the history of ``x``, to be saved in its place (Note [Views and reference cycles])."""
    made = silently(clone, x)
    if x._word & REQUIRES_GRAD:
        made._word |= REQUIRES_GRAD
        made._autograd = plain_meta(edge_of(x))
    return made


def _constants_node(x: Tensor, before: Edge) -> CopyBackward:
    """Make the node of constants written into ``x``."""
    node = CopyBackward()
    record_node(node, (before,), [x], attach=False)
    return node


def _copied(x: Tensor, source: Tensor) -> Tensor:
    moved = source if source.dtype == x.dtype else cast(source, x.dtype)
    if moved.device != x.device:
        moved = to_device(moved, x.device)
    return broadcast_to(moved, x.shape).clone()


def _refuse(operator: Operator, word: int) -> Callable[..., Any]:
    if "Out" in operator.facets:
        message = (
            f"[{operator.schema.base_name}] functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad: omit out=, or call it under tk.no_grad()."
        )
    else:
        name = next(a.name for a in operator.schema.arguments if a.is_mutable)
        message = (
            f"[{operator.name}] mutates its argument {name!r} and a gradient is requested, but it has no gradient "
            "formula: call it under tk.no_grad() or on x.detach()."
        )

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(message)

    return kernel


def inplace_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the kernel that records a call that writes into an argument, or raises."""
    if "Inplace" in operator.facets:
        return _inplace(operator, word)
    return (_put if "Put" in operator.facets else _refuse)(operator, word)
