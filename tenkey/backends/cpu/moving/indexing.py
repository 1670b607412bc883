"""CPU kernels of indexing: gathering, scattering and assigning elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.lift import refuse_out_of_range
from ....core.plans import SMALL, Simple
from ....core.tensor import Tensor, make_tensor
from ....core.tensor_base import new_handle
from ....core.word import INHERITED, WEAK_MASK, WEAK_TRAIT
from ....dispatch.operator import Operator
from ....dispatch.registry import registry
from ....ops.builtin.indexing.setitem import check_basic_put, check_put
from ....ops.builtin.primitives import check_range
from ...allocation.host import allocate
from ...llvm.compiled import UnavailableError, compiled_or_none
from ..fp_warnings import quietly, silenced
from ..kernels import Specialized, check, own_error, wrap
from ..loops.moves.strided_copies import apart, copied, copy_into, copy_pieces, filled
from ..numpy_kernels import numpy_kernel
from ..pointwise import pointwise_into
from ..thresholds import COPIED, GATHERED, GATHERED_BYTES, LARGE, SCATTERED, TAKEN, TAKEN_ALONG
from .walks import Walk, carry_out, combines, in_range, walk_along, walk_by_one, walk_of

__all__ = ["KERNELS"]


@compiled_or_none
def _gathered(x: np.ndarray, walk: Walk | None) -> np.ndarray | None:
    """Return what a walk selects; None if it is little, if an index is out of range, or if the loops cannot do it."""
    if walk is None or (walk.size * x.itemsize < GATHERED_BYTES if walk.has_runs else walk.size < GATHERED):
        return None
    out = allocate(walk.shape, x.dtype)
    return out if carry_out(x, walk, out, "get") else None


def _gathered_by_one(
    x: np.ndarray, index: np.ndarray, axis: int, shape: tuple[int, ...], along: bool
) -> np.ndarray | None:
    """Return what one tensor of indices selects, of this shape; None if the loops cannot do it, as in ``_gathered``."""
    out = allocate(shape, x.dtype)
    try:
        return out if walk_by_one(x, index, axis, out, "get", along) else None
    except UnavailableError:
        return None


def _scattered_by_one(x: np.ndarray, index: np.ndarray, axis: int, source: np.ndarray, mode: str, along: bool) -> bool:
    """Combine what one tensor of indices selects with a source of the same shape, as ``_scattered`` does."""
    try:
        return combines(x.dtype, mode) and walk_by_one(x, index, axis, source, mode, along)
    except UnavailableError:
        return False


def _scattered(x: np.ndarray, walk: Walk | None, source: np.ndarray, mode: str) -> bool:
    """Combine what a walk selects with a source, which broadcasts to it, in place; tell whether this succeeded.

    False if the loops cannot do it, and also if an index is out of range; then ``x`` may have changed.
    """
    if walk is None or walk.size < GATHERED or not x.flags.writeable or not source.flags.aligned:
        return False
    if source.shape != walk.shape:
        try:
            source = np.broadcast_to(source, walk.shape)
        except ValueError:
            return False
    try:
        return combines(x.dtype, mode) and carry_out(x, walk, source, mode)
    except UnavailableError:
        return False


def _check_range(operator: str, indices: np.ndarray, length: int, axis: int) -> None:
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < -length or high >= length:
            index = low if low < -length else high
            raise IndexError(f"[{operator}] index {index} is out of range for axis {axis} of length {length}.")


def take_along_axis(x: Tensor, indices: Tensor, *, axis: int = -1) -> Tensor:
    a, at = x._data, indices._data
    if at.size >= TAKEN_ALONG and -a.ndim <= axis < a.ndim:
        data = _gathered_by_one(a, at, axis, at.shape, True)
        if data is None and at.size >= GATHERED:
            data = _gathered(a, walk_along(a, at, axis))
        if data is not None:
            return wrap(data)
    try:
        if a.ndim == at.ndim == 1 and at.dtype.kind in "iu" and -1 <= axis < 1:  # without NumPy's 4 us of Python
            return wrap(a[at])
        if a.ndim == at.ndim == 2 and at.dtype.kind in "iu" and axis in (-1, 1) and len(a) == len(at):
            return wrap(a[np.arange(len(a))[:, None], at])
        return wrap(np.take_along_axis(a, at, axis))
    except (ValueError, IndexError, OverflowError):
        check("take_along_axis", x, indices, axis=axis)
        own_error(_check_range, "take_along_axis", indices._data, x.shape[axis], axis)
        raise


def scatter_add_zeros(source: Tensor, indices: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    at = indices._data
    out = filled(tuple(shape), 0, source.dtype)
    if at.size >= SCATTERED and _scattered_by_one(out, at, axis, source._data, "add", True):
        return wrap(out)
    check("scatter_add_zeros", source, indices, shape, axis)
    out = filled(tuple(shape), 0, source.dtype)
    if at.size >= GATHERED and _scattered(out, walk_along(out, at, axis), source._data, "add"):
        return wrap(out)
    _check_range("scatter_add", at, shape[axis], axis)
    places: list[Any] = list(np.indices(at.shape, sparse=True))
    places[axis] = at
    silenced(np.add.at, out, tuple(places), np.broadcast_to(source._data, at.shape))
    return wrap(out)


def slice_backward(g_slice: Tensor, shape: Sequence[int], axis: int, start: int, step: int) -> Tensor:
    g = g_slice._data
    lead = (slice(None),) * axis
    length = g.shape[axis]
    stop = start + (length - 1) * step + 1
    if step == 1 and length:  # zeros before and behind the slice only
        out = allocate(tuple(shape), g.dtype)
        zero = np.zeros((), g.dtype)
        parts = ((slice(0, start), zero), (slice(start, stop), g), (slice(stop, None), zero))
        copy_pieces([(out[(*lead, part)], source) for part, source in parts])
        return wrap(out)
    out = filled(tuple(shape), 0, g.dtype)
    if length:
        copy_into(out[(*lead, slice(start, stop, step))], g)
    return wrap(out)


def basic_index_backward(g_view: Tensor, shape: Sequence[int], index: tuple[Any, ...]) -> Tensor:
    g = g_view._data
    out = filled(tuple(shape), 0, g.dtype)
    _assign(out, index, g)
    return wrap(out)


def _assign(a: np.ndarray, index: tuple[Any, ...], values: np.ndarray) -> None:
    """Assign ``a[index] = values`` for a basic index and values of the dtype of ``a``."""
    part = a[index] if a.nbytes >= COPIED else None
    if part.__class__ is np.ndarray:
        copy_into(part, values)
    else:  # little, or an element, which NumPy returns as a scalar
        a[index] = values


def _subscript(indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    if len(indices) == 1 and indices[0] is not None:
        return (indices[0]._data,)
    return tuple([slice(None) if i is None else i._data for i in indices])


def _many(a: np.ndarray, indices: Sequence[Tensor | None]) -> bool:
    """Tell whether tensors of integers select so many elements that the loops may be faster."""
    count, rest = 1, a.size
    for n, i in zip(a.shape, indices):
        if i is not None:
            count = max(count, i._data.size)
            rest //= n or 1
    return count * rest >= GATHERED


def _only(indices: Sequence[Tensor | None]) -> np.ndarray | None:
    """Return the one tensor of indices, which selects from the last of the axes; None if there are several."""
    last = indices[-1]
    for tensor in indices[:-1]:
        if tensor is not None:
            return None
    return None if last is None else last._data


def _taken(a: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray | None:
    """Return what one tensor of integers selects along an axis, if the loop is faster than NumPy."""
    shape = a.shape
    if index.dtype.kind == "b" or not a.size or axis >= len(shape):
        return None
    size = index.size * (a.size // shape[axis])
    if size < TAKEN or (axis + 1 < len(shape) and size * a.itemsize < GATHERED_BYTES):
        return None
    return _gathered_by_one(a, index, axis, (*shape[:axis], *index.shape, *shape[axis + 1 :]), False)


def _explain(operator: str, x: Tensor, indices: Sequence[Tensor | None]) -> None:
    """Raise the operator's own error for indices that NumPy refused; masks have been compared with shapes before."""
    if not any(i is not None and i.dtype.kind == "b" for i in indices):
        check("index", x, indices)
        for axis, i in enumerate(indices):
            if i is not None:
                own_error(_check_range, operator, i._data, x.shape[axis], axis)


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    a = x._data
    try:
        last = indices[-1]
        only = _only(indices)
        if last is not None and (a.size >= TAKEN or last._data.size >= TAKEN):
            data = _taken(a, only, len(indices) - 1) if only is not None else None
            if data is None and _many(a, indices):
                data = _gathered(a, walk_of(a, [None if i is None else i._data for i in indices]))
            if data is not None:
                return make_tensor(data, x._word & INHERITED)
        if only is None or not a.size:  # `take` does not look at the indices of an empty array
            data = a[_subscript(indices)]
        elif only.dtype.kind != "b":
            data = a.take(only, len(indices) - 1)
        elif len(indices) == 1 and only.shape == a.shape[:1]:
            data = a.compress(only, 0)
        else:
            data = a[_subscript(indices)]
    except (IndexError, ValueError, TypeError):
        _explain("index", x, indices)
        raise
    if data.__class__ is not np.ndarray:
        data = np.asarray(data)
    elif not data.flags.c_contiguous:  # NumPy chooses the layout of the result after that of the indices
        data = data.copy()
    made: Tensor = new_handle(Tensor)
    made._data = data
    made._word = x._word & INHERITED
    made._storage = None
    made._autograd = None
    return made


def index_backward(g_out: Tensor, shape: Sequence[int], indices: Sequence[Tensor | None]) -> Tensor:
    out = filled(tuple(shape), 0, g_out.dtype)
    g = g_out._data
    only = _only(indices)
    if only is not None and g.size >= SCATTERED and _scattered_by_one(out, only, len(indices) - 1, g, "add", False):
        return wrap(out)
    if _many(out, indices):
        out = filled(tuple(shape), 0, g.dtype)
        walk = walk_of(out, [None if i is None else i._data for i in indices])
        if _scattered(out, walk, g, "add"):
            return wrap(out)
    at = _subscript(indices)
    if len(at) == 1 and indices[0] is not None and at[0].dtype.kind == "b":  # no element twice
        out[at] = g
    else:
        silenced(np.add.at, out, at, g)
    return wrap(out)


def basic_put_(x: Tensor, index: tuple[Any, ...], source: Tensor) -> Tensor:
    a, values = x._data, source._data
    if values.__class__ is not np.ndarray:
        values = source._values("index_put")
    same = values.dtype is a.dtype
    if (not same and _needs_care(x, source, values)) or 0 in a.strides or (values.ndim and values.shape[0] == 1):
        check_basic_put(registry.find("tk::basic_put_"), x, index, source)
    try:
        if values.ndim == 1 and (values.base is not None or a.base is not None):  # else they do not share memory
            values = apart(values, a[index])
        if same:
            if a.nbytes < COPIED:
                a[index] = values
            else:
                _assign(a, index, values)
        else:
            try:
                quietly(_setitem, a, index, values)
            except RuntimeError:  # Note [A context without warnings]
                silenced(_setitem, a, index, values)
    except (IndexError, ValueError, TypeError):
        own_error(check_basic_put, registry.find("tk::basic_put_"), x, index, source)
        raise
    return x


def _needs_care(x: Tensor, source: Tensor, values: np.ndarray) -> bool:
    """Tell whether the dtype of ``x`` may not hold a value that NumPy would convert nevertheless."""
    if source._word & WEAK_MASK and x._data.dtype.kind in "fc" and values.dtype.kind == "f":
        return False
    refuse_out_of_range("index_put", source, x.dtype)
    return values.dtype.kind == "c" or bool(source._word & WEAK_MASK and values.dtype.kind == "f")


_setitem: Final = operator.setitem
_WEAK_FLOAT: Final = WEAK_TRAIT[float]


def put_(x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> Tensor:
    a, values = x._data, source._data
    dtype = a.dtype
    plain = values.dtype is dtype or (source._word & _WEAK_FLOAT and dtype.kind == "f")
    # NumPy might accept repeated memory and too many dimensions, which are errors
    if (not plain and _needs_care(x, source, values)) or 0 in a.strides or values.shape[:1] == (1,):
        check_put(registry.find("tk::put_"), x, indices, source)
    if not values.shape and values.dtype is not dtype:  # NumPy converts a single number for each element
        try:
            values = quietly(values.astype, dtype)
        except RuntimeError:  # Note [A context without warnings]
            values = silenced(values.astype, dtype)
    if _many(a, indices) and not any(i is not None and i._data.dtype.kind == "b" for i in indices):
        if values.dtype is not dtype:
            values = silenced(values.astype, dtype)
        walk = walk_of(a, [None if i is None else _apart(i._data, a) for i in indices])
        if walk is not None and in_range(walk) and _scattered(a, walk, _apart(values, a), "set"):
            return x
    try:
        mask = indices[0]._data if len(indices) == 1 and indices[0] is not None else None
        if mask is not None and not values.shape and mask.dtype.kind == "b" and mask.shape == a.shape[: mask.ndim]:
            # one number for all elements needs no list of positions
            where = mask if mask.ndim == a.ndim else mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim))
            if plain and a.size >= LARGE and dtype.kind != "V":
                pointwise_into(registry.find("tk::where"), a, (wrap(where), source, x))
                return x
            assignment: tuple[Any, ...] = numpy_functions.copyto, a, values, "unsafe", where
        else:
            assignment = _setitem, a, _subscript(indices), values
        try:
            quietly(*assignment)
        except RuntimeError:  # Note [A context without warnings]
            silenced(*assignment)
    except (IndexError, ValueError, TypeError):
        own_error(check_put, registry.find("tk::put_"), x, indices, source)
        _explain("index_put", x, indices)
        selected = a[_subscript(indices)].shape
        raise ValueError(
            f"[index_put] a value of shape {values.shape} does not fit where a mask selects the shape {selected}: "
            "give one element, or as many as the mask selects."
        ) from None
    return x


def _apart(values: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return values or indices that an assignment to ``a`` does not change while it reads them."""
    return values.copy() if np.may_share_memory(values, a) else values


_COMBINED: Final[dict[str, np.ufunc]] = {
    "add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip


def scatter_rows_(x: Tensor, index: Tensor, source: Tensor, mode: str, operator: str) -> Tensor:
    check("scatter_rows_", x, index, source, mode, operator)
    a = x._data
    shape = (a.shape[0], np.broadcast_shapes(index.shape, source.shape)[1], a.shape[2])
    at, values = (np.broadcast_to(_apart(one._data, a), shape) for one in (index, source))
    check_range(at, a.shape[1], operator)
    if values.size >= GATHERED and _scattered(a, walk_along(a, at, 1), values, mode):
        return x
    rows, _, columns = np.indices(shape, sparse=True)
    places = (rows, at, columns)
    if mode == "set":
        a[places] = values
    else:
        silenced(_COMBINED[mode].at, a, places, values)
    return x


def _combining_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    """Return the kernel of ``index_sum`` and ``index_reduce``, which combine a copy of ``x`` with sources."""
    general = numpy_kernel(operator)

    def kernel(x: Tensor, indices: Sequence[Tensor | None], source: Tensor, reduce: str = "add") -> Tensor:
        a, values = x._data, source._data
        more = () if operator.schema.base_name == "index_sum" else (reduce,)
        only = _only(indices)
        if only is not None and values.dtype == a.dtype and values.size >= SCATTERED:
            out = copied(a) if a.nbytes >= COPIED else a.copy("C")
            if _scattered_by_one(out, only, len(indices) - 1, values, reduce, False):
                return wrap(out)
        if values.dtype == a.dtype and _many(a, indices):
            check(operator.schema.base_name, x, indices, source, *more)
            out = copied(a)
            if _scattered(out, walk_of(out, [None if i is None else i._data for i in indices]), values, reduce):
                return wrap(out)
        return general(x, indices, source, *more)  # type: ignore[no-any-return]

    return kernel


for _kernel in (index, basic_put_, put_):
    _described: Any = _kernel
    _described.small = Simple(None, SMALL, indexed=_kernel is not basic_put_)

KERNELS: Final[dict[str, Callable[..., Tensor] | Specialized]] = {
    "tk::take_along_axis": take_along_axis, "tk::scatter_add_zeros": scatter_add_zeros,
    "tk::slice_backward": slice_backward, "tk::basic_index_backward": basic_index_backward, "tk::index": index,
    "tk::index_backward": index_backward, "tk::basic_put_": basic_put_, "tk::put_": put_,
    "tk::scatter_rows_": scatter_rows_, "tk::index_sum": Specialized(_combining_rule),
    "tk::index_reduce": Specialized(_combining_rule),
}  # fmt: skip
