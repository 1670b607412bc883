"""In-place operations under autograd.

Note [In place, recorded]
~~~~~~~~~~~~~~~~~~~~~~~~~
An in-place call that needs a gradient is recorded as its functional form; the result is then written into the tensor's
memory, and the tensor becomes that node's output. (An assignment by index is written at once, since its gradient needs
no value.) So a formula never sees a half-written tensor; one that needs what the tensor held before (``log_``,
``multiply_``) gets a copy of it. A leaf that requires a
gradient refuses; so does, for now, a tensor that has views or is one, because the history of the others would have to
be rebuilt. Guarded by ``tests/test_inplace.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..core.storage import Storage, StridedArray
from ..core.tensor import Tensor, make_tensor
from ..core.word import DTYPE_MASK, GRADIENT, dtypes_of
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.local import StateGuard
from ..dispatch.operator import Operator
from ..ops.builtin.copying import cast, clone
from ..ops.builtin.inplace import can_hold, copy_
from ..ops.builtin.view import broadcast_to
from .formulas import formulas_of
from .methods import retain_grad
from .node import AccumulateGrad
from .record import Writer, below_autograd, inner_call

__all__ = ["has_relatives", "install_inplace", "keep_retaining"]

_LEAF: Final = (
    "[{operator}] a leaf Variable that requires grad is being used in an in-place operation: do it in a "
    "tk.no_grad() block, or use the functional form."
)
_VIEW: Final = (
    "[{operator}] the tensor is a view of another one or has views, and the in-place operation needs a gradient: its "
    "history cannot be rebuilt yet. Use the functional form (tk.where for x[index] = value), or clone() first."
)
_VIEW_OF_LEAF: Final = (
    "[{operator}] a view of a leaf Variable that requires grad is being used in an in-place operation (x[index] = "
    "value is one): do it in a tk.no_grad() block, or use the functional form."
)
_MUTATING: Final = (
    "[{operator}] mutates its argument {argument!r} and a gradient is asked for, but it has no gradient formula: call "
    "it under tk.no_grad() or on x.detach()."
)

_OUT: Final = (
    "[{operator}] functions with out=... arguments don't support automatic differentiation, but one of the arguments "
    "requires grad: leave out= away, or call it under tk.no_grad()."
)


def _references(x: Tensor) -> int:
    """How many refer to the memory of a tensor, apart from its own storage."""
    storage = x._storage
    data = x._data
    if data.__class__ is np.ndarray:
        return sys.getrefcount(data) - (isinstance(storage, Storage) and storage.buffer is data)
    if data.owner is not None:  # a backend's bookkeeping may refer to the buffer as well, but not to its owner
        return sys.getrefcount(data.owner)
    return sys.getrefcount(data.buffer) - (isinstance(storage, Storage) and storage.buffer is data.buffer)


# what _references says of a tensor that nobody shares, measured because it differs between versions of Python
_UNSHARED_ARRAY: Final = _references(make_tensor(np.zeros(1), 0))
_UNSHARED_BUFFER: Final = _references(make_tensor(StridedArray(object(), (1,), np.dtype("float32"), CPU), 0))


def has_relatives(x: Tensor) -> bool:
    """Whether other tensors may look at the same memory."""
    if isinstance(x._storage, Tensor):
        return True
    if x._data.__class__ is np.ndarray:
        return x._data.base is not None or _references(x) > _UNSHARED_ARRAY
    return x._data.buffer is not None and _references(x) > _UNSHARED_BUFFER


def _refusal(operator: Operator, x: Tensor) -> RuntimeError:
    """The error for a view: of a leaf, which refuses for good, or of another tensor, whose history is to be rebuilt."""
    node = None if x._autograd is None else x._autograd.node
    below = node
    while below is not None and "View" in getattr(operator.registry.operators.get(below.operator_name), "facets", ()):
        below = below.next_edges[0][0]
    if below is not node and isinstance(below, AccumulateGrad):
        return RuntimeError(_VIEW_OF_LEAF.format(operator=operator.schema.base_name))
    return NotImplementedError(_VIEW.format(operator=operator.schema.base_name))


def _inplace(operator: Operator, word: int) -> Callable[..., Any]:
    functional = operator.facets["Inplace"].functional
    below = below_autograd(word)
    cache = operator.cache
    users = [] if functional is None else _users_of_first(functional)

    def kernel(x: Tensor, *args: Any) -> Tensor:
        if x._word & GRADIENT and x.is_leaf:
            raise RuntimeError(_LEAF.format(operator=operator.schema.base_name))
        if has_relatives(x):
            raise _refusal(operator, x)
        if functional is None:
            result = _copied(x, args[0])
        else:
            given = (x, *args)
            keeps = any(bool(getattr(given[i], "_word", 0) & GRADIENT) for i in users)
            result = functional.call(_as_it_was(x) if keeps else x, *args)
        if result.shape != x.shape or not can_hold(x.dtype, result.dtype):
            with StateGuard(exclude=GRADIENT):
                return cache[below](x, *args)  # type: ignore[no-any-return]  # raises the error that fits
        if result.dtype != x.dtype:
            result = cast(result, x.dtype)
        with StateGuard(exclude=GRADIENT):
            copy_(x, result)  # counts the version up
        before = x._autograd
        x._autograd = result._autograd
        x._word |= GRADIENT
        if before is not None and before.retains_grad:
            keep_retaining(x, before)
        return x

    return kernel


def _put(operator: Operator, word: int) -> Callable[..., Any]:
    """For what writes into a part of its first argument: the call itself, recorded as the functional form."""
    functional = operator.facets["Put"].functional
    is_complex = any(dtype.kind == "c" for dtype in dtypes_of(word & DTYPE_MASK))
    formulas = formulas_of(functional, is_complex=is_complex)
    assert formulas is not None  # its block gives them
    record = Writer(functional, formulas).kernel(inner_call(operator, word), word)
    leaf = _LEAF if operator.name == "tk::put_" else _VIEW_OF_LEAF  # PyTorch's: an index of slices makes a view there

    def kernel(x: Tensor, where: Any, source: Tensor) -> Tensor:
        if x._word & GRADIENT and x.is_leaf:
            raise RuntimeError(leaf.format(operator="index_put"))
        if has_relatives(x):
            raise _refusal(operator, x)
        if source._word & GRADIENT and source.dtype != x.dtype:
            operator.facets["Fits"].check(operator, x, where, source)
            source = cast(source, x.dtype)
        before = x._autograd
        record(x, where, source)
        if before is not None and before.retains_grad:
            keep_retaining(x, before)
        return x

    return kernel


def _users_of_first(functional: Operator) -> list[int]:
    """The positions of the arguments whose gradient is computed from the values of the first."""
    names = [a.name for a in functional.schema.arguments]
    formulas = formulas_of(functional, is_complex=False) or {}
    return [names.index(name) for name, f in formulas.items() if f is not None and names[0] in f.names]


def _as_it_was(x: Tensor) -> Tensor:
    """A copy with the history of ``x``, to be saved in its place."""
    with StateGuard(exclude=GRADIENT):
        made = clone(x)
    made._word |= x._word & GRADIENT
    made._autograd = x._autograd
    return made


def keep_retaining(x: Tensor, before: Any) -> None:
    """Move what ``retain_grad`` asked for to the new history: what is retained is the gradient of x as it is now."""
    del before.node.retain_hooks[before.output_nr]
    meta = x._autograd
    assert meta is not None  # it has a history: that is why this is called
    meta.grad = before.grad
    retain_grad(x)


def _copied(x: Tensor, source: Tensor) -> Tensor:
    moved = source if source.dtype == x.dtype else cast(source, x.dtype)
    return broadcast_to(moved, x.shape).clone()


def _refuse(operator: Operator, word: int) -> Callable[..., Any]:
    mutated = [(i, a.name) for i, a in enumerate(operator.schema.arguments) if a.is_mutable]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(_MUTATING.format(operator=operator.name, argument=mutated[0][1]))

    return kernel


def _refuse_out(operator: Operator, word: int) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(_OUT.format(operator=operator.schema.base_name))

    return kernel


def _install(operator: Operator) -> list[Handle]:
    if not operator.schema.is_mutable or "NotDifferentiable" in operator.facets:
        return []
    named = {"Inplace": _inplace, "Put": _put, "Out": _refuse_out}
    rule = next((rule for facet, rule in named.items() if facet in operator.facets), _refuse)
    kernel = Kernel(rule, DispatchKey.Autograd, origin="generated", specialize=rule, only_with=GRADIENT)
    return [operator.registry.impl(operator.name, kernel)]


def install_inplace(registry: Any) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_install)
