"""Changes in place in forward mode, of dual tensors and of tensors that thereby become dual.

Note [Targets without a tangent]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A result with a tangent may be written into a tensor without one: ``zeros(3)[1:] = dual``. The tensor then has a
tangent, of zeros except for the written part, and so do its base and all other views of that base, since they share its
memory (``detach()`` does not create a view in this sense, as in autograd). Users hold these very objects, so an object
becomes a wrapper in place (``core.wrapper.become``): a stand-in takes over its data, history and views and is the
primal, and the tangents of the family are windows on one memory with the layout of the family's. Wrappers of this level
or an outer one that contained one of the objects refer to its stand-in from then on, so a dual made from a tensor keeps
the tangent that it was given. When the level ends, the objects take back the state of the stand-ins and are plain
tensors again.

Views of the family are found as in Note [Views of what needed no gradient]. A tensor that is not shared and was never
part of a dual needs no search. Guarded by ``tests/autograd/forward_ad/test_dual_inplace.py``.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ...core.tensor import Tensor, make_tensor, make_view, storage_of
from ...core.word import INHERITED, REQUIRES_GRAD
from ...core.wrapper import (
    Level,
    Wrapper,
    become,
    classed,
    open_levels,
    refreshed,
    stand_in,
    take_back,
    unwrapped,
    wrap,
    wrapper_classes,
)
from ...dispatch.local_state import current_state
from ...dispatch.operator import Operator
from ...ops.aliases import levels_of, recording, repeated
from ...ops.builtin.creation import zeros, zeros_like
from ...ops.builtin.shape.copying import cast
from ...ops.builtin.shape.views import broadcast_to
from ...ops.variants import copy_
from ..formulas.jvp_rules import NO_RULE
from ..tape.node import edge_of
from ..views.as_strided import first_byte
from ..views.tracking import become_view, hand_over_views, has_relatives, is_view, views_of

__all__ = ["fit_tangent", "in_place", "restore"]


def fit_tangent(x: Any) -> None:
    """Give the tangent of a dual the levels of its primal, since values written into the dual may have them.

    This must happen before there are views, which share the memory of the tangent.
    """
    if isinstance(x._value, Wrapper) and not levels_of([x._value]) <= levels_of([x._extra]):
        restore = recording()  # in every mode, the tangent keeps its history
        try:
            x._extra = zeros_like(x._value) + x._extra
        finally:
            restore()
        x._word |= x._extra._word


def in_place(level: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator that changes its first argument; the tangent is changed in place too, for its views."""
    facet = operator.facets.get("Inplace")
    x = args[0]
    if facet is None and "Put" not in operator.facets:
        raise NotImplementedError(NO_RULE.format(operator=operator.name, why="it changes its arguments in place"))
    is_dual = level.owns(x)
    if is_dual:
        if x._apart:
            raise NotImplementedError(
                f"[{operator.schema.base_name}] forward mode: the tensor is a view whose tangent is a copy, since "
                "primal and tangent have different memory layouts. clone() the tensor before it is viewed, or use the "
                "functional form."
            )
        fit_tangent(x)
    tangent: Any
    if facet is None:  # x[index] = source
        tangent = level.tangent(args[2])
    else:
        given = args
        word = 0
        for y in args:
            word |= refreshed(y) if isinstance(y, Tensor) else 0
        if word & REQUIRES_GRAD & current_state().keep and facet.functional is not None:
            copy = level.dual(x._value.clone(), x._extra.clone()) if is_dual else x.clone()
            given = (copy, *args[1:])  # the saved tensors must not be changed
        result = args[1] if facet.functional is None else facet.functional.call(*given)
        tangent = level.tangent(result)
    family = [] if is_dual or tangent is None or x.dtype.kind not in "fcV" else _family(x, operator)
    operator.call(*[level.primal(y) for y in args])
    if not is_dual:
        if not family:
            return x
        _make_dual(level, x, family, tangent, operator)
    if facet is None:
        operator.call(x._extra, args[1], 0.0 if tangent is None else tangent)
    else:
        if tangent is not None:
            tangent = broadcast_to(cast(tangent, x.dtype) if tangent.dtype != x.dtype else tangent, x.shape)
        copy_(x._extra, 0.0 if tangent is None else tangent)
    x._word |= x._value._word | x._extra._word
    return x


# ---- tensors that become dual


def _family(x: Tensor, operator: Operator) -> list[Any]:
    """Return the base of a tensor, which comes first unless it is a wrapper, and all views of the base."""
    if isinstance(x, Wrapper):
        inner = _family(x._value, operator)
        if len(inner) == 1:
            return [x]
        held = {id(value) for value in inner}
        wrappers = [w for w in gc.get_referrers(*inner) if isinstance(w, Wrapper)]
        return [w for w in wrappers if w._level is x._level and id(w._value) in held]
    root: Any = x._storage if is_view(x) else x
    found = [root, *views_of(root)] if has_relatives(root) else [root]
    for member in found:
        if member.__class__ is not Tensor and member.__class__ not in wrapper_classes:
            raise NotImplementedError(
                f"[{operator.schema.base_name}] forward mode: the tensor, its base or another view of its base is a "
                f"{type(member).__qualname__}, and an instance of a subclass cannot be given a tangent in place. Use "
                "the functional form, or a plain Tensor (x.as_subclass(Tensor))."
            )
    return found


def _make_dual(level: Any, x: Any, family: list[Any], like: Tensor, operator: Operator) -> None:
    """Give the tensors of a family tangents of zeros in place, which also have the levels of ``like``."""
    more = [one for one in levels_of([like]) - levels_of([x]) if type(one).repeat is not Level.repeat]
    more.sort(key=lambda one: one.number)
    restore = recording()  # in every mode, the tangent keeps its history
    try:
        if not isinstance(x, Wrapper) or not more:
            memory = _Tangents(more)
            tangents = [memory.of(member) for member in family]
        elif len(family) == 1:
            tangents = [zeros_like(repeated(zeros_like(x.detach()), more))]
        else:
            raise NotImplementedError(
                f"[{operator.schema.base_name}] forward mode: the tensor has views, and its tangent would be batched "
                "by a vmap that does not batch the tensor. Use the functional form, or change the tensor before views "
                "of it are taken."
            )
    finally:
        restore()
    searched = len(family) > 1 or any(id(x) in one.shown for one in open_levels())
    values = _stand_ins(family)
    if searched:
        _redirect(level, {id(member): (member, value) for member, value in zip(family, values, strict=True)})
    for member, value, tangent in zip(family, values, tangents, strict=True):
        dual = classed(wrap(level, value, tangent, value.shape, tangent._word), value.__class__)
        become(member, dual, storage_of(value))
        if level.adopted is None:
            level.adopted = WeakValueDictionary()
        level.adopted[id(member)] = member


def _stand_ins(family: list[Any]) -> list[Any]:
    """Return tensors that take over the state of the members of a family."""
    root = family[0]
    is_plain = not isinstance(root, Wrapper)
    if is_plain:
        storage_of(root)
        if root._word & REQUIRES_GRAD:
            edge_of(root)  # the gradient of a leaf is still collected in the leaf
    values = [stand_in(member) for member in family]
    if is_plain:
        hand_over_views(values[1:], root, values[0])
    return values


def _redirect(level: Level, moved: dict[int, tuple[Any, Any]]) -> None:
    """Let wrappers of this level and of outer ones that contain a moved tensor refer to its stand-in."""
    for w in gc.get_referrers(*[member for member, _ in moved.values()]):
        if isinstance(w, Wrapper) and w._level.number <= level.number:
            if id(w._value) in moved:
                w._value = moved[id(w._value)][1]
            if id(w._extra) in moved:
                w._extra = moved[id(w._extra)][1]


class _Tangents:
    """Zeros with the memory layout of other tensors: the tangents of views are views of their base's tangent."""

    def __init__(self, levels: list[Level]) -> None:
        self.levels = levels
        self.memory: dict[int, tuple[Tensor, Tensor]] = {}  # by base: flat memory, and the tangent of the base

    def of(self, x: Any) -> Tensor:
        """Return the tangent of a tensor, or of the values below its wrappers."""
        made: Tensor
        if isinstance(x, Wrapper):
            return x._level.through(x, self.of, int)
        root: Any = x._storage if is_view(x) else x
        data = root._data
        below = sum([min(0, (n - 1) * step) for n, step in zip(data.shape, data.strides)])
        if id(root) not in self.memory:
            span = sum([(n - 1) * abs(step) for n, step in zip(data.shape, data.strides)]) // data.dtype.itemsize + 1
            flat: Tensor = zeros((span if data.size else 0,), dtype=data.dtype, device=root.device)
            if self.levels:
                flat = zeros_like(repeated(flat, self.levels))  # with memory for each sample
            row = unwrapped(flat)
            base = make_tensor(_window(row._data, data, -below), row._word & INHERITED)
            self.memory[id(root)] = (flat, base)
        flat, base = self.memory[id(root)]
        made = base
        if x is not root:
            apart = first_byte(x._data) - first_byte(data) if x.size else 0
            made = make_view(base, _window(unwrapped(flat)._data, x._data, apart - below))
        return _wrapped(flat, made)


def _wrapped(like: Any, x: Tensor) -> Tensor:
    """Wrap a tensor like another one; the batch dimensions come first in both."""
    if not isinstance(like, Wrapper):
        return x
    return like._level.through(like, lambda value: _wrapped(value, x), int)


def _window(row: Any, like: Any, offset: int) -> Any:
    """Return a window on flat memory with the shape and strides of ``like``; ``offset`` is in bytes."""
    shape, strides = (*row.shape[:-1], *like.shape), (*row.strides[:-1], *like.strides)
    if row.__class__ is not np.ndarray:
        return row.window(shape, strides, row.offset + offset)
    if not row.size:
        return np.empty(shape, row.dtype)
    return np.ndarray(shape, row.dtype, row.view(np.uint8), offset, strides)  # the base is that of the row


# ---- the end of a level


def restore(level: Any) -> None:
    """Turn the tensors that became dual at a level back into plain ones, with their present values."""
    members: list[Any] = [x for x in level.adopted.values() if isinstance(x, Wrapper) and x._level is level]
    level.adopted = None
    for x in sorted(members, key=lambda x: is_view(x._value)):  # bases first
        value = x._value
        if isinstance(value, Wrapper) or is_view(value):
            take_back(x, value)
            continue
        views = views_of(value) if has_relatives(value) else []
        take_back(x, value)
        hand_over_views(views, value, x)
        value._storage = x  # primals returned by unpack_dual or jvp are views of it now
        if value._word & REQUIRES_GRAD and not value.is_leaf:
            become_view(value, x)
