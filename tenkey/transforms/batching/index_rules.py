"""Batching rules of what gathers, scatters and assigns: operators that get positions (see ``rules.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from ...ops.builtin.creation import arange
from ...ops.builtin.indexing.advanced_indexing import index, index_backward
from ...ops.builtin.indexing.basic_indexing import FULL, window_of
from ...ops.builtin.shape.views import expand_dims, permute_dims, reshape, select_index
from ...ops.shapes import broadcast_shapes, normalize_axis
from .level import BatchLevel, _by_loop, check_mutation, move
from .rules import check_call, rule_for

__all__: list[str] = []


# ---- gathers and scatters


@rule_for("take_along_axis")
def _take_along_axis(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, indices = args
    check_call(operator, args, kwargs)
    axis = normalize_axis("take_along_axis", kwargs.get("axis", -1), x.ndim)
    values = [level.front(y) if level.owns(y) else expand_dims(y, 0) for y in (x, indices)]
    return level.batch(operator.call(*values, axis=axis + 1), 0)


@rule_for("scatter_add_zeros")
def _scatter_add_zeros(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    source, indices, shape, axis = args
    check_call(operator, args, kwargs)
    i = normalize_axis("scatter_add", axis, len(shape))
    source = level.aligned(source, indices.ndim)
    return level.batch(operator.call(source, level.front(indices), (level.size, *shape), i + 1), 0)


def _batched_masks(level: BatchLevel, indices: Sequence[Any]) -> None:
    if any(level.owns(i) and i.dtype.kind == "b" for i in indices):
        raise RuntimeError(
            "vmap: the shape of x[mask] depends on the values of a batched mask, and would be another one for every "
            "sample: use tk.where(mask, x, other)."
        )


def _contiguous(indices: Sequence[Any]) -> bool:
    at = [k for k, i in enumerate(indices) if i is not None]
    return at == list(range(at[0], at[-1] + 1))


def _common(indices: Sequence[Any]) -> tuple[int, ...]:
    return broadcast_shapes("index", *[(1,) if i.dtype.kind == "b" else i.shape for i in indices if i is not None])


def _with_samples(level: BatchLevel, indices: Sequence[Any], device: Any) -> list[Any]:
    """The indices with, in front, the number of the sample: together they index a value with the batch first."""
    ndim = len(_common(indices))
    samples = reshape(arange(level.size, device=device), (level.size, *[1] * ndim))
    return [samples, *[None if i is None else level.aligned(i, ndim) for i in indices]]


@rule_for("index")
def _index(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, indices = args
    _batched_masks(level, indices)
    if not any(level.owns(i) for i in indices if i is not None):
        found = index(level.front(x), [None, *indices])
        return level.batch(found, 0 if _contiguous(indices) else len(_common(indices)))
    if any(i is not None and i.dtype.kind == "b" for i in indices):
        return _by_loop(level, operator, args, kwargs)  # type: ignore[no-any-return]
    check_call(operator, args, kwargs)
    first = next(k for k, i in enumerate(indices) if i is not None)
    depth = len(_common(indices))
    value, dim = level.split(x)
    if dim is None:
        found = index(value, [None if i is None else level.aligned(i, depth) for i in indices])
        return level.batch(found, first if _contiguous(indices) else 0)
    found = index(level.front(x), _with_samples(level, indices, x.device))
    if first and _contiguous(indices):  # the common dimensions come first there, and belong where the indices stand
        order = (0, *range(1 + depth, 1 + depth + first), *range(1, 1 + depth), *range(1 + depth + first, found.ndim))
        found = permute_dims(found, order)
    return level.batch(found, 0)


@rule_for("index_backward")
def _index_backward(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    g, shape, indices = args
    _batched_masks(level, indices)
    target = (level.size, *shape)
    depth = len(_common(indices))
    value = level.front(g)
    if not any(level.owns(i) for i in indices if i is not None):
        if not _contiguous(indices):
            value = move(value, 0, depth)
        return level.batch(index_backward(value, target, [None, *indices]), 0)
    if any(i is not None and i.dtype.kind == "b" for i in indices):
        return _by_loop(level, operator, args, kwargs)  # type: ignore[no-any-return]
    first = next(k for k, i in enumerate(indices) if i is not None)
    if first and _contiguous(indices):
        order = (0, *range(1 + first, 1 + first + depth), *range(1, 1 + first), *range(1 + first + depth, value.ndim))
        value = permute_dims(value, order)
    return level.batch(index_backward(value, target, _with_samples(level, indices, g.device)), 0)


@rule_for("basic_put_")
def _basic_put_in_place(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_mutation(level, operator, args, kwargs)
    x, index, source = args
    operator.facets["Fits"].check(operator, x, index, source)
    value, dim = level.split(x)
    ndim = len(window_of(x.shape, x.strides, index)[0])
    operator.call(move(value, dim, 0), (FULL, *index), level.aligned(source, ndim))
    x._word |= value._word  # it may have become a recorded result
    return x  # type: ignore[no-any-return]


@rule_for("basic_put")
def _basic_put(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, index, source = args
    ndim = len(window_of(x.shape, x.strides, index)[0])
    return level.batch(operator.call(level.front(x), (FULL, *index), level.aligned(source, ndim)), 0)


@rule_for("put_")
def _put_in_place(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_mutation(level, operator, args, kwargs)
    x, indices, source = args
    value, dim = level.split(x)
    operator.facets["Fits"].check(operator, x, indices, source)
    if any(i is not None and i.dtype.kind == "b" for i in indices):  # sample by sample, each on a window of the whole
        for b in range(level.size):
            own = [None if i is None else _sample(level, i, b) for i in indices]
            operator.call(select_index(value, dim, b), own, _sample(level, source, b))
    else:
        operator.call(move(value, dim, 0), *_put_arguments(level, x, indices, source))
    x._word |= value._word
    return x  # type: ignore[no-any-return]


@rule_for("put")
def _put(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, indices, source = args
    if any(i is not None and i.dtype.kind == "b" for i in indices):
        return _by_loop(level, operator, args, kwargs)  # type: ignore[no-any-return]
    return level.batch(operator.call(level.front(x), *_put_arguments(level, x, indices, source)), 0)


@rule_for("index_reduce")
def _index_reduce(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, indices, source, reduce = args
    check_call(operator, args, kwargs)
    return level.batch(operator.call(level.front(x), *_put_arguments(level, x, indices, source), reduce), 0)


@rule_for("unravel_rows")
def _unravel_rows(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    return level.batch(operator.call(level.front(args[0]), *args[1:]), 1)


@rule_for("ravel_multi_index")
def _ravel_multi_index(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    indices, dims = args
    check_call(operator, args, kwargs)
    ndim = max([i.ndim for i in indices])
    return level.batch(operator.call([level.aligned(i, ndim) for i in indices], dims, **kwargs), 0)


def _put_arguments(level: BatchLevel, x: Tensor, indices: Sequence[Any], source: Any) -> tuple[list[Any], Any]:
    """What puts the sources of all samples where the indices say, in a value with the batch first."""
    depth = len(_common(indices))
    first = next(k for k, i in enumerate(indices) if i is not None)
    ndim = x.ndim - sum(i is not None for i in indices) + depth
    given = level.aligned(source, ndim)
    if first and given.ndim and _contiguous(indices):  # the common dimensions come first there
        given = reshape(given, (*[1] * (ndim + 1 - given.ndim), *given.shape))
        order = (0, *range(1 + first, 1 + first + depth), *range(1, 1 + first), *range(1 + first + depth, ndim + 1))
        given = permute_dims(given, order)
    return _with_samples(level, indices, x.device), given


def _sample(level: BatchLevel, x: Any, b: int) -> Any:
    value, dim = level.split(x)
    return value if dim is None else select_index(value, dim, b)
