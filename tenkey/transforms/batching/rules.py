"""The interpretation of ``batch=`` (Note [Batching facet]), and the rules that follow from other facets.

A rule gets the level, the operator and the arguments of a call; it calls the operator on values that hold the whole
batch and wraps the result. Shapes are checked as the function sees them, so errors report the shapes of one sample.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...core.tree import flatten, unflatten
from ...core.wrapper import Wrapper
from ...dispatch.operator import Operator
from ...dispatch.schema import ListType
from ...ops.builtin.shape.views import reshape
from ...ops.shapes import broadcast_shapes, normalize_axes
from ...ops.variants import write_out
from .level import BatchLevel, batching_rules, derived_rules

__all__: list[str] = []


# ---- from the facet ``Batching``


def _same_dim(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    value, dim = level.split(args[0])
    return level.batch(operator.call(value, *args[1:], **kwargs), dim)


def _front(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Put the batch dimension first; adjust the axes and shapes that the facet names."""
    facet = operator.facets["Batching"]
    bound = dict(zip([a.name for a in operator.schema.arguments], args))
    bound.update(kwargs)
    for name, value in bound.items():
        if isinstance(value, Tensor):
            bound[name] = level.front(value)
        elif isinstance(value, (tuple, list)) and value and isinstance(value[0], Tensor):
            bound[name] = [level.front(x) for x in value]
    flat = False
    for name in facet.axes:
        if name not in bound:
            bound[name] = next(a.default for a in operator.schema.arguments if a.name == name)
        axis = bound[name]
        if axis.__class__ is int and axis >= 0:
            bound[name] = axis + 1
        elif axis is not None:  # negative axes count from the end, which stays where it is
            axes = (axis,) if isinstance(axis, int) else axis
            x = args[0] if isinstance(args[0], Tensor) else args[0][0]
            if axes and min(axes) < -x.ndim:  # the batch dimension must not be counted
                level.check(operator, args, kwargs)
            bound[name] = axis if isinstance(axis, int) else tuple([i if i < 0 else i + 1 for i in axes])
        elif _takes_several(operator, name):
            bound[name] = tuple(range(1, args[0].ndim + 1))
        else:
            flat = True
            first = next(iter(bound))
            bound[name], bound[first] = 1, reshape(bound[first], (level.size, args[0].size))
    for name, entries in facet.entries.items():
        bound[name] = ((level.size,) if entries is None else entries) + tuple(bound[name])
    values = list(bound.values())
    count = len(args)
    keywords = dict(zip(list(bound)[count:], values[count:])) if len(values) > count else {}
    try:
        out = operator.call(*values[:count], **keywords)
    except (IndexError, TypeError, ValueError):
        out = None
    if out is None:
        level.check(operator, args, kwargs)  # so that an error reports the shapes of one sample
        out = operator.call(*values[:count], **keywords)
    if flat and kwargs.get("keepdims"):
        out = reshape(out, (level.size, *[1] * args[0].ndim))
    return _batched(level, out)


def _takes_several(operator: Operator, name: str) -> bool:
    kind = next(a.type for a in operator.schema.arguments if a.name == name)
    return isinstance(kind.required, ListType)


def _batched(level: BatchLevel, out: Any) -> Any:
    return level.batch(out) if isinstance(out, Tensor) else unflatten(out, [level.batch(x) for x in flatten(out)])


def _core_dims(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Align the dimensions before the core dimensions, so that they broadcast."""
    level.check(operator, args, kwargs)
    counts = iter(operator.facets["Batching"].core)
    nested = kwargs or any(isinstance(x, (tuple, list)) for x in args)
    leaves = flatten((args, kwargs)) if nested else args
    core = [next(counts, 0) if isinstance(x, Tensor) else 0 for x in leaves]
    stack = max([x.ndim - n for x, n in zip(leaves, core) if isinstance(x, Tensor)])
    values = [level.aligned(x, stack + n) for x, n in zip(leaves, core)]
    positional, keywords = unflatten((args, kwargs), values) if nested else (values, kwargs)
    return _batched(level, operator.call(*positional, **keywords))


def _gather(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Look the elements of all samples up in data that the samples share; loop where each sample has its own."""
    level.check(operator, args, kwargs)
    name = operator.facets["Batching"].argument
    place = next(i for i, a in enumerate(operator.schema.arguments) if a.name == name)
    values = list(args)
    values[place] = level.front(args[place])
    if any(level.owns(x) for x in (*values, *kwargs.values())):
        return level.loop(operator, args, kwargs)
    return _batched(level, operator.call(*values, **kwargs))


batching_rules.update(
    {"same_dim": _same_dim, "front": _front, "core_dims": _core_dims, "gather": _gather, "loop": BatchLevel.loop}
)


# ---- from other facets


def _pointwise(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    axes = operator.facets["Pointwise"].indices.values()
    if axes:  # those that count from the front would count the batch dimension, and the smallest may reach it
        least = max([x.ndim for x in args if isinstance(x, Tensor)])
        if not all(axis is not None and -least <= axis < 0 for axis in axes):
            return level.loop(operator, args, kwargs)  # type: ignore[no-any-return]
    if not kwargs:
        values = _as_they_are(level, args)
        if values is not None:
            try:
                return level.batch(operator.call(*values), 0)
            except ValueError:
                pass  # shapes that do not fit: reported below, for one sample
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    ndim = max([x.ndim for x in tensors])
    broadcast_shapes(operator.schema.base_name, *[x.shape for x in tensors])
    values = [level.aligned(x, ndim) for x in args]
    keywords = {name: level.aligned(x, ndim) for name, x in kwargs.items()}
    return level.batch(operator.call(*values, **keywords), 0)


def _as_they_are(level: BatchLevel, args: tuple[Any, ...]) -> list[Any] | None:
    """Return the values if they broadcast as they are: batches of equally many dimensions, and smaller tensors."""
    values: list[Any] = []
    ndim = largest = 0
    for x in args:
        if isinstance(x, Wrapper) and x._level is level:
            count = len(x._data.shape) + 1
            if x._extra or (ndim and ndim != count):
                return None
            ndim = count
            values.append(x._value)
            continue
        if isinstance(x, Tensor):
            count = len(x._data.shape)
            largest = max(largest, count)
        values.append(x)
    return values if largest < ndim else None


def _reduction(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    usual = len(args) == 1 and level.owns(args[0])
    bound = {"x": args[0], "axis": None, **kwargs} if usual else operator.bind(*args, **kwargs)
    axes = normalize_axes(operator.schema.base_name, bound["axis"], len(bound["x"]._data.shape))
    bound["x"], bound["axis"] = level.front(bound["x"]), tuple([i + 1 for i in axes])
    return level.batch(operator.call(bound.pop("x"), **bound), 0)


def _inplace(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    level.check_mutation(operator, args, kwargs)
    x = args[0]
    others = [y for y in args[1:] if isinstance(y, Tensor)]
    fits = operator.facets.get("Fits")
    if fits is not None:
        fits.check(operator, *args)
    broadcast_shapes(operator.schema.base_name, x.shape, *[y.shape for y in others])
    value, dim = level.split(x)
    operator.call(level.move(value, dim, 0), *[level.aligned(y, x.ndim) for y in args[1:]])
    x._word |= value._word  # it may have become a recorded result
    return x  # type: ignore[no-any-return]


def _out(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    level.check_mutation(operator, args, kwargs)
    return write_out(operator.facets["Out"].functional, *args, **kwargs)


derived_rules.update({"Out": _out, "Pointwise": _pointwise, "Reduce": _reduction, "Inplace": _inplace})
