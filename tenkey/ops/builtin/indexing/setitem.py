"""``x[index] = value``: works in place, and is recorded as one call on ``x`` itself.

Note [Assignment by index]
~~~~~~~~~~~~~~~~~~~~~~~~~~
``x[index] = value`` writes into the memory of ``x``. The value broadcasts to the selection (superfluous leading
dimensions of length 1 are dropped) and is converted to the dtype of ``x`` as by ``copy_``: a float is truncated to an
integer, a number becomes ``bool(number)``. A real tensor cannot hold complex values, and a tensor of integers cannot
hold NaN, infinity, or a Python int out of range. If an index selects an element twice, one of its values is kept: on
the CPU the last.

For autograd the call is ``basic_put_`` (ints, slices, None, '...') or ``put_`` (tensors) on the tensor, never a change
of a view; it is recorded as the functional ``basic_put`` or ``put``. The gradient for ``x`` is zero at the selected
elements, which pass theirs on to ``value``; of several values for one element only the one that is kept gets it. If an
index has both kinds, the selected view is copied, filled and written back. Guarded by ``tests/ops/test_assignment.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...._util.record import Record
from ....core.dtypes.names import int64
from ....core.exchange.interfaces import array_of
from ....core.lift import kept_float, kept_int, refuse_out_of_range, weak_tensor
from ....core.plans import add_method, add_table
from ....core.tensor import Tensor, from_host, strides_of
from ....core.word import DTYPE_TRAIT, REQUIRES_GRAD
from ....dispatch.errors import shown
from ....dispatch.local_state import current_state, get_state, switched
from ....dispatch.operator import Operator
from ....dispatch.registry import registry
from ....dispatch.schema import parse_schema
from ....dispatch.tags import Tag
from ...declare import internal_composite, linear
from ...declare.batch import Batching
from ...declare.declaration import operator_of
from ...declare.facets import Composite, Decomposition, SampleInputs
from ...declare.samples import normal
from ...shapes import broadcast_shapes
from ...variants import WRITING, Fits, check_fits, copy_
from ..creation import arange, zeros
from ..elementwise.comparison import equal, where
from ..shape.copying import clone, flip
from ..shape.views import expand_dims, reshape, sum_to_shape
from .advanced_indexing import index, index_shape
from .basic_indexing import adjacent, basic_index, common_shape, places_of, window_of
from .getitem import Plan, is_plain, make_plan, simple_arrays
from .places import assign
from .vmap_rules import basic_put_batch, basic_put_inplace_batch, put_batch, put_inplace_batch


class Put(Record):
    """Marks an operator that writes its last argument into a part of its first; ``functional`` returns a copy."""

    functional: Operator


def _check_value(x: Tensor, source: Tensor, selected: tuple[int, ...] | None) -> None:
    refuse_out_of_range("index_put", source, x.dtype)
    if selected is not None and broadcast_shapes("index_put", selected, source.shape) != selected:
        raise ValueError(
            f"[index_put] the result of shape {source.shape} does not fit into the first argument, shape {selected}."
        )
    check_fits("index_put", x, x.shape, source.dtype if source.dtype.kind == "c" else x.dtype)


def check_basic_put(operator: Operator, x: Tensor, index: tuple[Any, ...], source: Tensor) -> None:
    """Raise unless ``source`` broadcasts to the selection and the dtype of ``x`` can hold it."""
    _check_value(x, source, window_of(x.shape, strides_of(x), index)[0])


def check_put(operator: Operator, x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> None:
    """Raise unless ``source`` broadcasts to the selection (the kernel checks masks)."""
    _check_value(x, source, index_shape(x, indices))


# ---- functional forms, which autograd records


_basic_put_samples = normal(
    ([4, 3], (slice(1, 3),), [2, 3]), ([4, 3], (..., -1), []), ([4, 3], (slice(0, 4, 2), None), [1, 3]),
    ([3], (2,), []), ([4, 3], (slice(3, 1),), [3]),
)  # fmt: skip


def _put_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal((4, 3)), [np.array([2, -4])], rng.standard_normal((2, 3))), {}),
        ((rng.standard_normal((4, 3)), [None, np.array([0, 2])], rng.standard_normal((2,))), {}),
        ((rng.standard_normal((4, 3)), [np.array([True, False, True, True])], rng.standard_normal(())), {}),
        ((rng.standard_normal((4, 3)), [np.array([True, False, True, True])], rng.standard_normal((3, 1))), {}),
        (
            (rng.standard_normal((3, 2, 3)), [np.array([0, -1]), None, np.array([[1], [-1]])], rng.standard_normal(2)),
            {},
        ),
    ]


@internal_composite(
    "basic_put(Tensor x, Index index, Tensor source) -> Tensor",
    vjp={
        "x": lambda g, index: basic_put(g, index, 0),
        "source": lambda g, index, source_meta: sum_to_shape(basic_index(g, index), source_meta.shape),
    },
    jvp=linear(("x", "source")),
    sample_inputs=_basic_put_samples,
    batch=basic_put_batch,
)
def basic_put(x: Tensor, index: tuple[Any, ...], source: Tensor) -> Tensor:
    """Return a copy of ``x`` with ``source`` where an index of ints, slices, None and '...' selects."""
    return basic_put_(clone(x), index, source)


def _source_vjp(g: Tensor, indices: Sequence[Tensor | None], source_meta: Any) -> Tensor:
    """Return the gradient of the values that persist; it is zero for a value that a later one overwrites."""
    found = index(g, indices)
    if any(i is not None and i.dtype.kind != "b" for i in indices):  # masks alone never select an element twice
        found = where(_persists(g, indices, found.ndim), found, 0.0)
    return sum_to_shape(found, source_meta.shape)


def _persists(x: Tensor, indices: Sequence[Tensor | None], ndim: int) -> Tensor:
    """Return a mask, which broadcasts to ``ndim`` dimensions, of the selected elements whose values are kept.

    ``put`` itself writes consecutive numbers, so the answer is correct on every backend.
    """
    arrays = [i for i in indices if i is not None]
    lengths: list[int] = []
    dim = 0
    for i in indices:
        depth = i.ndim if i is not None and i.dtype.kind == "b" else 1
        if i is not None:
            lengths += x.shape[dim : dim + depth]
        dim += depth
    places = zeros(lengths, dtype=int64, device=x.device)
    common = index(places, arrays).shape
    numbers = reshape(arange(math.prod(common), dtype=int64, device=x.device), common)
    last = equal(index(put(places, arrays, numbers), arrays), numbers)
    at = places_of(indices)
    before = at[0] if adjacent(at) else 0
    return reshape(last, (*common, *[1] * (ndim - before - len(common))))


@internal_composite(
    "put(Tensor x, Tensor?[] indices, Tensor source) -> Tensor",
    vjp={"x": lambda g, indices: put(g, indices, 0), "source": _source_vjp},
    jvp=linear(("x", "source")),
    sample_inputs=_put_samples,
    batch=put_batch,
)
def put(x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> Tensor:
    """Return a copy of ``x`` with ``source`` where a list of integer or bool tensors selects, as in ``index``."""
    return put_(clone(x), indices, source)


# ---- in place


def _write(x: Tensor, index: tuple[Any, ...], source: Tensor) -> Tensor:
    restore = switched(exclude=WRITING)  # basic_put_ itself bumps the version
    try:
        check_basic_put(operator_of(basic_put_), x, index, source)
        copy_(basic_index(x, index), source)
    finally:
        restore()
    return x


basic_put_: Callable[..., Tensor] = registry.define(
    parse_schema("tk::basic_put_(Tensor(a!) x, Index index, Tensor source) -> Tensor(a!)"),
    facets={
        "Put": Put(operator_of(basic_put)),
        "Fits": Fits(check_basic_put),
        "SampleInputs": SampleInputs(_basic_put_samples),
        "Composite": Composite(_write, implicit=False),
        "Batching": Batching("function", basic_put_inplace_batch),
    },
    tags=(Tag.INPLACE_VARIANT, Tag.MIXES_DEVICES),
    doc="""Assign ``x[index] = source`` for an index of ints, slices, None and '...', and return ``x``.

    >>> x = tk.zeros((2, 2))
    >>> x[0] = tk.asarray([1.0, 2.0])
    >>> x.tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """,
).call


def _assign(x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> Tensor:
    check_put(operator_of(put_), x, indices, source)
    return assign(x, indices, source)


put_: Callable[..., Tensor] = registry.define(
    parse_schema("tk::put_(Tensor(a!) x, Tensor?[] indices, Tensor source) -> Tensor(a!)"),
    facets={
        "Put": Put(operator_of(put)),
        "Fits": Fits(check_put),
        "Decomposition": Decomposition(_assign, needs=("scatter",)),
        "SampleInputs": SampleInputs(_put_samples),
        "Batching": Batching("function", put_inplace_batch),
    },
    tags=(Tag.INPLACE_VARIANT,),
    doc="""Assign ``x[indices] = source`` for a list of integer or bool tensors, as in ``index``, and return ``x``.

    >>> x = tk.zeros(3)
    >>> x[tk.asarray([0, 2])] = 5.0
    >>> x.tolist()
    [5.0, 0.0, 5.0]
    """,
).call


# ---- x[given] = value

_BASIC: Final = operator_of(basic_put_).cache
_ARRAYS: Final = operator_of(put_).cache


def as_source(value: Any) -> Tensor:
    """Convert an assigned value to a tensor; Python numbers stay weak."""
    if isinstance(value, Tensor):
        return value
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            return weak_tensor(kind(value))  # type: ignore[arg-type]
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return weak_tensor(value.item())
    array: np.ndarray | None = None
    try:
        if isinstance(value, np.ndarray) or value.__class__ is range:
            array = np.asarray(value)
        elif isinstance(value, (list, tuple)):
            array = array_of(value, "index_put")
    except RuntimeError:  # tensors that have more than values among the items: a gradient, a device
        return registry.hooks.operand(value, "index_put")  # type: ignore[no-any-return]
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype not in DTYPE_TRAIT:
        raise TypeError(
            f"[index_put] the assigned value must be a tensor, an array or a number, got {shown(value)} of type "
            f"{type(value).__name__}."
        )
    return from_host(array)


def setitem(x: Tensor, given: Any, value: Any) -> None:
    """Assign ``x[given] = value`` in place. See Note [Assignment by index]."""
    kind = given.__class__
    if kind is int or given is Ellipsis or given is None:
        given = (given,)
    elif kind is slice:
        if not is_plain(given):
            return _planned(x, given, value)
        given = (given,)
    elif kind is tuple:
        for item in given:
            kind = item.__class__
            if kind is int or item is None or item is Ellipsis or (kind is slice and is_plain(item)):
                continue
            return _planned(x, given, value)
    else:
        return _planned(x, given, value)
    kind = value.__class__
    if kind is float or kind is int:
        known = kept_float(value) if kind is float else kept_int(value)
        value = weak_tensor(value) if known is None else known
    elif kind is not Tensor or value._data.shape[:1] == (1,):
        value = as_source(value)
        if value.shape[:1] == (1,):
            value = _without_leading(value, len(window_of(x.shape, strides_of(x), given)[0]))
    word = x._word | value._word
    local = get_state()
    if local is not None:
        word = (word | local.include) & local.keep
    _BASIC[word](x, given, value)
    return None


def _without_leading(source: Tensor, ndim: int) -> Tensor:
    """Drop leading dimensions of length 1 that exceed ``ndim`` dimensions."""
    extra = source.ndim - ndim
    if extra > 0 and all(n == 1 for n in source.shape[:extra]):
        return reshape(source, source.shape[extra:])
    return source


def _planned(x: Tensor, given: Any, value: Any) -> None:
    kind = value.__class__
    if kind is float or kind is int or (kind is Tensor and value._data.shape[:1] != (1,)):
        arrays = simple_arrays(x, given)
        if arrays is not None:
            if kind is not Tensor:
                value = weak_tensor(value)
            word = x._word | value._word
            for tensor in arrays:
                if tensor is not None:
                    word |= tensor._word
            local = get_state()
            if local is not None:
                word = (word | local.include) & local.keep
            _ARRAYS[word](x, arrays, value)
            return
    plan = make_plan(x, given)
    source = _arranged(plan, as_source(value))
    if not plan.arrays:
        basic_put_(x, plan.view, source)
    elif plan.whole:
        put_(x, plan.arrays, source)
    elif (x._word | source._word) & REQUIRES_GRAD & current_state().keep:
        basic_put_(x, plan.view, put(basic_index(x, plan.view), plan.arrays, source))
    else:
        put_(basic_index(x, plan.view), plan.arrays, source)


def _arranged(plan: Plan, source: Tensor) -> Tensor:
    """Reshape and flip the assigned tensor to fit the view and the tensors of the plan."""
    if not source.ndim:
        return source
    arrays = [i for i in plan.arrays if i is not None]
    at = places_of(plan.arrays)
    depth = len(common_shape(*[(1,) if i.dtype.kind == "b" else i.shape for i in arrays]))
    ndim = plan.ndim - sum([i.ndim if i.dtype.kind == "b" else 1 for i in arrays]) + depth
    source = _without_leading(source, ndim - (plan.tail is not None))
    if plan.tail is not None and source.ndim > plan.tail:
        source = expand_dims(source, source.ndim - plan.tail)
    axes = []
    for place, dim in plan.backwards:
        if at:
            before = sum(k < place for k in at)  # indices before it; their common dimensions precede it too
            axis = place - before + (depth if before or not adjacent(at) else 0) - ndim
        else:
            axis = dim - ndim
        if -axis <= source.ndim and source.shape[axis] != 1:
            axes.append(axis)
    return flip(source, axis=tuple(axes)) if axes else source


add_table("put", operator_of(put_))
add_method(registry.find("tk::basic_put_"), "__setitem__", setitem)
