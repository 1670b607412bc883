"""Changes in place in forward mode: of dual tensors, and of tensors that become dual by the change.

Note [Targets without a tangent]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A result with a tangent may be written into a tensor that has none: ``zeros(3)[1:] = dual``. The tensor then has a
tangent, of zeros but for what was written, and so do its base and all other views of that base, since they look at the
same memory; ``detach()`` gives no view in this sense, as in autograd. Users hold these very objects, so an object
becomes a wrapper in place (``core.wrapper.become``): a stand-in takes over its data, history and views and is the
primal, and the tangents of the family are windows on one memory that is laid out like the family's. Wrappers of this
level or one further out that had one of the objects for a part refer to its stand-in from then on, so that a dual made
of a tensor keeps the tangent that it was given. When the level ends, the objects take back what the stand-ins have, and
are plain tensors again.

Views of the family are found as in Note [Views of what needed no gradient]. A tensor that is not shared and was never
part of a dual costs no search. Guarded by ``tests/autograd/forward_ad/test_dual_inplace.py``.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from ...core.tensor import Tensor, make_tensor, make_view, storage_of
from ...core.word import INHERITED, REQUIRES_GRAD
from ...core.wrapper import Level, Wrapper, become, open_levels, refreshed, stand_in, take_back, wrap
from ...dispatch.local_state import current_state
from ...dispatch.operator import Operator
from ...ops.aliases import Recording, levels_of, repeated
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
    """Give the tangent of a dual the levels of its primal, as what is written into it may have them.

    Before there are views of it: they share the tangent's memory.
    """
    if x._value.__class__ is Wrapper and not levels_of([x._value]) <= levels_of([x._extra]):
        with Recording():  # whatever the mode, the tangent keeps its history
            x._extra = zeros_like(x._value) + x._extra
        x._word |= x._extra._word


def in_place(level: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The target's tangent is changed in place as well, so views of it see that too."""
    facet = operator.facets.get("Inplace")
    x = args[0]
    if facet is None and "Put" not in operator.facets:
        raise NotImplementedError(NO_RULE.format(operator=operator.name, why="it changes its arguments in place"))
    is_dual = level.owns(x)
    if is_dual:
        if x._apart:
            raise NotImplementedError(
                f"[{operator.schema.base_name}] forward mode: the tensor is a view whose tangent is a copy, since "
                "primal and tangent lie in different order in memory. clone() the tensor before it is viewed, or use "
                "the functional form."
            )
        fit_tangent(x)
    tangent: Any
    if facet is None:  # x[index] = source
        tangent = args[2]._extra if level.owns(args[2]) else None
    else:
        given = args
        word = 0
        for y in args:
            word |= refreshed(y) if isinstance(y, Tensor) else 0
        if word & REQUIRES_GRAD & current_state().keep and facet.functional is not None:
            copy = level.dual(x._value.clone(), x._extra.clone()) if is_dual else x.clone()
            given = (copy, *args[1:])  # what it saves is not to be changed
        result = args[1] if facet.functional is None else facet.functional.call(*given)
        tangent = result._extra if level.owns(result) else None
    family = [] if is_dual or tangent is None or x.dtype.kind not in "fcV" else _family(x, operator)
    operator.call(*[y._value if level.owns(y) else y for y in args])
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
    """The tensor with its base and the other views of that; its base is the first if it is not a wrapper."""
    if x.__class__ is Wrapper:
        inner = _family(x._value, operator)
        if len(inner) == 1:
            return [x]
        held = {id(value) for value in inner}
        return [w for w in gc.get_referrers(*inner) if _is_wrapper(w) and w._level is x._level and id(w._value) in held]
    root: Any = x._storage if is_view(x) else x
    found = [root, *views_of(root)] if has_relatives(root) else [root]
    for member in found:
        if member.__class__ is not Tensor:
            raise NotImplementedError(
                f"[{operator.schema.base_name}] forward mode: the tensor, its base or another view of its base is a "
                f"{type(member).__qualname__}, and an instance of a subclass cannot be given a tangent in place. Use "
                "the functional form, or a plain Tensor (x.as_subclass(Tensor))."
            )
    return found


def _is_wrapper(x: Any) -> bool:
    return x.__class__ is Wrapper


def _make_dual(level: Any, x: Any, family: list[Any], like: Tensor, operator: Operator) -> None:
    """Give the tensors of a family tangents of zeros in place, which have the levels of ``like`` too."""
    more = [one for one in levels_of([like]) - levels_of([x]) if type(one).repeat is not Level.repeat]
    more.sort(key=lambda one: one.number)
    with Recording():  # whatever the mode, the tangent keeps its history
        if x.__class__ is not Wrapper:
            memory = _Tangents(more)
            tangents = [memory.of(member) for member in family]
        elif not more:
            memory = _Tangents([])
            tangents = [memory.of(member) for member in family]
        elif len(family) == 1:
            tangents = [zeros_like(repeated(zeros_like(x.detach()), more))]
        else:
            raise NotImplementedError(
                f"[{operator.schema.base_name}] forward mode: the tensor has views, and its tangent would be batched "
                "by a vmap that the tensor is not batched by. Use the functional form, or change the tensor before "
                "views of it are taken."
            )
    searched = len(family) > 1 or any(id(x) in one.shown for one in open_levels())
    values = _stand_ins(family)
    if searched:
        _redirect(level, {id(member): (member, value) for member, value in zip(family, values, strict=True)})
    for member, value, tangent in zip(family, values, tangents, strict=True):
        become(member, wrap(level, value, tangent, value.shape, tangent._word), storage_of(value))
        level.adopted[id(member)] = member


def _stand_ins(family: list[Any]) -> list[Any]:
    """Tensors that take over what the members of a family are."""
    root = family[0]
    if root.__class__ is Wrapper:
        return [stand_in(member) for member in family]
    storage_of(root)
    if root._word & REQUIRES_GRAD:
        edge_of(root)  # a leaf stays the one whose gradient is collected
    made = stand_in(root)
    values = [made]
    for member in family[1:]:
        value = stand_in(member)
        values.append(value)
    hand_over_views(values[1:], root, made)
    return values


def _redirect(level: Level, moved: dict[int, tuple[Any, Any]]) -> None:
    """Let the wrappers of a level, and of those further out, that have a tensor for a part refer to its stand-in."""
    for w in gc.get_referrers(*[member for member, _ in moved.values()]):
        if _is_wrapper(w) and w._level.number <= level.number:
            if id(w._value) in moved:
                w._value = moved[id(w._value)][1]
            if id(w._extra) in moved:
                w._extra = moved[id(w._extra)][1]


class _Tangents:
    """Zeros that lie in memory as tensors do: the tangents of a base and its views are one tensor and views of it."""

    def __init__(self, levels: list[Level]) -> None:
        self.levels = levels
        self.memory: dict[int, tuple[Tensor, Tensor]] = {}  # of a base: elements in a row, and the base's tangent

    def of(self, x: Any) -> Tensor:
        """The tangent of a tensor, or of the values below its wrappers."""
        made: Tensor
        if x.__class__ is Wrapper:
            made = x._level.through(x, self.of, int)
            return made
        root: Any = x._storage if is_view(x) else x
        data = root._data
        below = sum([min(0, (n - 1) * step) for n, step in zip(data.shape, data.strides)])
        if id(root) not in self.memory:
            span = sum([(n - 1) * abs(step) for n, step in zip(data.shape, data.strides)]) // data.dtype.itemsize + 1
            flat: Tensor = zeros((span if data.size else 0,), dtype=data.dtype, device=root.device)
            if self.levels:
                flat = zeros_like(repeated(flat, self.levels))  # with memory for each sample
            row = _bare(flat)
            base = make_tensor(_window(row._data, data, -below), row._word & INHERITED)
            self.memory[id(root)] = (flat, base)
        flat, base = self.memory[id(root)]
        made = base
        if x is not root:
            apart = first_byte(x._data) - first_byte(data) if x.size else 0
            made = make_view(base, _window(_bare(flat)._data, x._data, apart - below))
        return _wrapped(flat, made)


def _bare(x: Any) -> Any:
    while x.__class__ is Wrapper:
        x = x._value
    return x


def _wrapped(like: Any, x: Tensor) -> Tensor:
    """A tensor in the wrappers that another one has; the dimensions of batches come first in both."""
    if like.__class__ is not Wrapper:
        return x
    made: Tensor = like._level.through(like, lambda value: _wrapped(value, x), int)
    return made


def _window(row: Any, like: Any, offset: int) -> Any:
    """The window on elements in a row that has the shape and strides of ``like``; ``offset`` is in bytes."""
    shape, strides = (*row.shape[:-1], *like.shape), (*row.strides[:-1], *like.strides)
    if row.__class__ is not np.ndarray:
        return row.window(shape, strides, row.offset + offset)
    if not row.size:
        return np.empty(shape, row.dtype)
    return np.ndarray(shape, row.dtype, row.view(np.uint8), offset, strides)  # its base is the row's, as views' are


# ---- the end of a level


def restore(level: Any) -> None:
    """Make the tensors that became dual at a level what they were, with the values that they have now."""
    members: list[Any] = [x for x in level.adopted.values() if _is_wrapper(x) and x._level is level]
    level.adopted.clear()
    for x in sorted(members, key=lambda x: is_view(x._value)):  # bases first
        value = x._value
        if value.__class__ is Wrapper or is_view(value):
            take_back(x, value)
            continue
        views = views_of(value) if has_relatives(value) else []
        take_back(x, value)
        hand_over_views(views, value, x)
        value._storage = x  # what was given out as the primal, by unpack_dual or jvp, is a view of it now
        if value._word & REQUIRES_GRAD and not value.is_leaf:
            become_view(value, x)
