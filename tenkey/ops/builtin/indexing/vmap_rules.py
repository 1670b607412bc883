"""Batching rules of the operators that take indices (Note [Batching facet])."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.tensor import Tensor, strides_of
from ....dispatch.operator import Operator
from ...declare.batch import VmapLevel
from ...shapes import broadcast_shapes
from ..creation import arange
from ..shape.views import permute_dims, reshape, select_index
from .basic_indexing import FULL, adjacent, places_of, window_of


def _is_batched(level: VmapLevel, indices: Sequence[Any]) -> bool:
    """Return whether an index is batched; raise RuntimeError for a batched mask."""
    batched = [i for i in indices if level.owns(i)]
    if any(i.dtype.kind == "b" for i in batched):
        raise RuntimeError(
            "vmap: the shape of x[mask] depends on the values of a batched mask, and would differ from sample to "
            "sample: use tk.where(mask, x, other)."
        )
    return bool(batched)


def _has_mask(indices: Sequence[Any]) -> bool:
    return any(i is not None and i.dtype.kind == "b" for i in indices)


def _depth(indices: Sequence[Any]) -> int:
    """Return the number of dimensions of the broadcast indices."""
    return len(broadcast_shapes("index", *[(1,) if i.dtype.kind == "b" else i.shape for i in indices if i is not None]))


def _with_samples(level: VmapLevel, indices: Sequence[Any], device: Any) -> list[Any]:
    """Return indices, starting with the number of the sample, for a value with the batch dimension first."""
    ndim = _depth(indices)
    samples = reshape(arange(level.size, device=device), (level.size, *[1] * ndim))
    return [samples, *[None if i is None else level.aligned(i, ndim) for i in indices]]


def _exchanged(x: Tensor, first: int, second: int) -> Tensor:
    """Exchange the ``first`` dimensions behind dimension 0 with the ``second`` dimensions behind them."""
    end = 1 + first + second
    return permute_dims(x, (0, *range(1 + first, end), *range(1, 1 + first), *range(end, x.ndim)))


def index_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch ``x[indices]``."""
    x, indices = args
    if not _is_batched(level, indices):
        found = operator.call(level.front(x), [None, *indices])
        return level.batch(found, 0 if adjacent(places_of(indices)) else _depth(indices))
    if _has_mask(indices):
        return level.loop(operator, args, kwargs)  # type: ignore[no-any-return]
    level.check(operator, args, kwargs)
    first, depth = places_of(indices)[0], _depth(indices)
    value, dim = level.split(x)
    if dim is None:
        found = operator.call(value, [None if i is None else level.aligned(i, depth) for i in indices])
        return level.batch(found, first if adjacent(places_of(indices)) else 0)
    found = operator.call(level.front(x), _with_samples(level, indices, x.device))
    if first and adjacent(places_of(indices)):  # the common dimensions are first, but belong where the indices stand
        found = _exchanged(found, depth, first)
    return level.batch(found)


def index_backward_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch the adjoint of ``index``."""
    g, shape, indices = args
    batched = _is_batched(level, indices)
    target = (level.size, *shape)
    value = level.front(g)
    if not batched:
        if not adjacent(places_of(indices)):
            value = level.move(value, 0, _depth(indices))
        return level.batch(operator.call(value, target, [None, *indices]))
    if _has_mask(indices):
        return level.loop(operator, args, kwargs)  # type: ignore[no-any-return]
    if places_of(indices)[0] and adjacent(places_of(indices)):
        value = _exchanged(value, places_of(indices)[0], _depth(indices))
    return level.batch(operator.call(value, target, _with_samples(level, indices, g.device)))


def basic_put_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch ``x`` with a source put at a basic index."""
    x, index, source = args
    ndim = len(window_of(x.shape, strides_of(x), index)[0])
    return level.batch(operator.call(level.front(x), (FULL, *index), level.aligned(source, ndim)))


def basic_put_inplace_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch ``x[index] = source`` for a basic index."""
    level.check_mutation(operator, args, kwargs)
    x, index, source = args
    operator.facets["Fits"].check(operator, x, index, source)
    value, dim = level.split(x)
    ndim = len(window_of(x.shape, strides_of(x), index)[0])
    operator.call(level.move(value, dim, 0), (FULL, *index), level.aligned(source, ndim))
    x._word |= value._word  # it may have become a recorded result
    return x  # type: ignore[no-any-return]


def put_inplace_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch ``x[indices] = source``."""
    level.check_mutation(operator, args, kwargs)
    x, indices, source = args
    value, dim = level.split(x)
    operator.facets["Fits"].check(operator, x, indices, source)
    if _has_mask(indices):  # sample by sample, each on a view of the whole
        for b in range(level.size):
            own = [None if i is None else _sample(level, i, b) for i in indices]
            operator.call(select_index(value, dim, b), own, _sample(level, source, b))
    else:
        operator.call(level.move(value, dim, 0), *_put_arguments(level, x, indices, source))
    x._word |= value._word
    return x  # type: ignore[no-any-return]


def put_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch ``x`` with a source put at ``indices``."""
    x, indices, source = args
    if _has_mask(indices):
        return level.loop(operator, args, kwargs)  # type: ignore[no-any-return]
    return level.batch(operator.call(level.front(x), *_put_arguments(level, x, indices, source)))


def index_reduce_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch ``x`` with a source combined at ``indices``."""
    x, indices, source, *reduce = args
    level.check(operator, args, kwargs)
    return level.batch(operator.call(level.front(x), *_put_arguments(level, x, indices, source), *reduce))


def _put_arguments(level: VmapLevel, x: Tensor, indices: Sequence[Any], source: Any) -> tuple[list[Any], Any]:
    """Return the indices and the source for a value with the batch dimension first."""
    depth, first = _depth(indices), places_of(indices)[0]
    ndim = x.ndim - sum(i is not None for i in indices) + depth
    given = level.aligned(source, ndim)
    if first and given.ndim and adjacent(places_of(indices)):  # the common dimensions come first
        given = reshape(given, (*[1] * (ndim + 1 - given.ndim), *given.shape))
        given = _exchanged(given, first, depth)
    return _with_samples(level, indices, x.device), given


def _sample(level: VmapLevel, x: Any, b: int) -> Any:
    value, dim = level.split(x)
    return value if dim is None else select_index(value, dim, b)
