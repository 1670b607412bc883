"""Batching rules of the built-in operators, and those that follow from facets.

A rule gets the level, the operator, and the arguments as the function gave them; it calls the operator on values that
hold the whole batch and wraps the result. Shapes are checked as the function sees them, so that errors speak of these.

Note [Tags of batching]
~~~~~~~~~~~~~~~~~~~~~~~
A block that is neither pointwise nor a reduction nor made of others says by a tag how its function meets a dimension
more: ``elementwise``, its tensors broadcast; ``stacked``, its first tensor may be a stack of what it works on, and
other tensors broadcast with the stack; ``looked_up``, each element of the first tensor is looked up in the others, as
they are; ``one_by_one``, its work is one sample's, and the loop is what there is.
Guarded by ``tests/transforms/test_vmap.py::test_no_builtin_operator_takes_the_loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...core.tree import flatten, unflatten
from ...core.wrapper import Wrapper
from ...dispatch.operator import Operator
from ...ops.builtin.creation import arange
from ...ops.builtin.elementwise.arithmetic import multiply
from ...ops.builtin.elementwise.comparison import logical_and, where
from ...ops.builtin.indexing.advanced_indexing import index
from ...ops.builtin.indexing.basic_indexing import FULL, window_of
from ...ops.builtin.linalg.matmul import matmul
from ...ops.builtin.shape.copying import cast, concatenate
from ...ops.builtin.shape.padding import pad_constant
from ...ops.builtin.shape.views import broadcast_to, expand_dims, matrix_transpose, reshape, squeeze
from ...ops.shapes import broadcast_shapes, infer_reshape, normalize_axes, normalize_axis
from ...ops.variants import write_out
from .level import BatchLevel, Rule, _by_loop, check_mutation, derived_rules, move, named_rules, tagged_rules

__all__ = ["check_call", "rule_for"]


def rule_for(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of these built-in operators."""

    def register(rule: Rule) -> Rule:
        for name in names:
            named_rules[f"tk::{name}"] = rule
        return rule

    return register


def check_call(operator: Operator, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Let the operator's own rule for shapes refuse bad arguments."""
    meta = operator.facets.get("Meta")
    if meta is not None:
        meta.rule(*args, **kwargs)
    elif "View" in operator.facets:
        operator.facets["View"].window(*args, **kwargs)


# ---- from facets


def _pointwise(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    if not kwargs:
        values = _as_they_are(level, args)
        if values is not None:
            try:
                return level.batch(operator.call(*values), 0)
            except ValueError:
                pass  # shapes that do not fit: said below, of the samples
    return _broadcast(level, operator, args, kwargs)


def _as_they_are(level: BatchLevel, args: tuple[Any, ...]) -> list[Any] | None:
    """The values, if they broadcast without being moved: batches of equally many dimensions, and what is smaller."""
    values: list[Any] = []
    ndim = largest = 0
    for x in args:
        if x.__class__ is Wrapper and x._level is level:
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


def _broadcast(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    ndim = max([x.ndim for x in tensors])
    broadcast_shapes(operator.schema.base_name, *[x.shape for x in tensors])
    values = [level.aligned(x, ndim) for x in args]
    keywords = {name: level.aligned(x, ndim) for name, x in kwargs.items()}
    return level.batch(operator.call(*values, **keywords), 0)


def _reduction(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    if len(args) == 1 and level.owns(args[0]):  # the usual way to write it
        axes = normalize_axes(operator.schema.base_name, kwargs.get("axis"), len(args[0]._data.shape))
        axes = tuple([i + 1 for i in axes])
        return level.batch(operator.call(level.front(args[0]), **{**kwargs, "axis": axes}), 0)
    bound = operator.bind(*args, **kwargs)
    x = bound["x"]
    axes = tuple([i + 1 for i in normalize_axes(operator.schema.base_name, bound["axis"], x.ndim)])
    bound |= {"x": level.front(x), "axis": axes}
    arguments = operator.schema.arguments
    positional = [bound[a.name] for a in arguments if not a.kwarg_only]
    return level.batch(operator.call(*positional, **{a.name: bound[a.name] for a in arguments if a.kwarg_only}), 0)


def _inplace(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_mutation(level, operator, args, kwargs)
    x = args[0]
    others = [y for y in args[1:] if isinstance(y, Tensor)]
    fits = operator.facets.get("Fits")
    if fits is not None:
        fits.check(operator, *args)
    broadcast_shapes(operator.schema.base_name, x.shape, *[y.shape for y in others])
    value, dim = level.split(x)
    operator.call(move(value, dim, 0), *[level.aligned(y, x.ndim) for y in args[1:]])
    x._word |= value._word  # it may have become a recorded result
    return x  # type: ignore[no-any-return]


def _out(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_mutation(level, operator, args, kwargs)
    return write_out(operator.facets["Out"].functional, *args, **kwargs)


derived_rules.update({"Out": _out, "Pointwise": _pointwise, "Reduce": _reduction, "Inplace": _inplace})


# ---- from tags


def _elementwise(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    check_call(operator, args, kwargs)
    ndim = max([x.ndim for x in (*args, *kwargs.values()) if isinstance(x, Tensor)])
    values = [level.aligned(x, ndim) for x in args]
    return _wrapped(level, operator.call(*values, **{name: level.aligned(x, ndim) for name, x in kwargs.items()}))


def _stacked(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What takes a stack of matrices takes the samples as one."""
    check_call(operator, args, kwargs)
    stack = args[0].ndim - 2
    values = [level.front(args[0]), *[level.aligned(x, stack) for x in args[1:]]]
    return _wrapped(level, operator.call(*values, **{name: level.aligned(x, stack) for name, x in kwargs.items()}))


def _wrapped(level: BatchLevel, out: Any) -> Any:
    return level.batch(out, 0) if isinstance(out, Tensor) else unflatten(out, [level.batch(t, 0) for t in flatten(out)])


def _by_loop_on_purpose(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _by_loop(level, operator, args, kwargs)


def _looked_up(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Elements are looked up one by one in data that all samples share; other data are those of each sample."""
    check_call(operator, args, kwargs)
    if any(level.owns(x) for x in (*args[1:], *kwargs.values())):
        return _by_loop(level, operator, args, kwargs)
    return _wrapped(level, operator.call(level.front(args[0]), *args[1:], **kwargs))


tagged_rules.update(
    {"elementwise": _elementwise, "stacked": _stacked, "looked_up": _looked_up, "one_by_one": _by_loop_on_purpose}
)


# ---- element by element, the batch dimension where it is


@rule_for("alias", "clone", "cast", "conj", "real", "imag", "to_device")
def _unary(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    value, dim = level.split(args[0])
    return level.batch(operator.call(value, *args[1:], **kwargs), dim)


@rule_for("zeros_like", "ones_like", "empty_like", "full_like")
def _like(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Batched, so that batched values can be written into it."""
    value, dim = level.split(args[0])
    return level.batch(operator.call(value, *args[1:], **kwargs), dim)


@rule_for("complex_from")
def _complex_from(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_call(operator, args, kwargs)
    return level.batch(operator.call(*[level.front(x) for x in args]), 0)


# ---- views


@rule_for("reshape")
def _reshape(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, shape = args
    target = shape if x._data.shape == shape else infer_reshape(x.shape, shape)
    return level.batch(reshape(level.front(x), (level.size, *target), **kwargs), 0)


@rule_for("permute_dims")
def _permute(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, axes = args
    order = normalize_axes("permute_dims", axes, x.ndim)
    if len(order) != x.ndim:
        raise ValueError(f"[permute_dims] axes {tuple(axes)} must name each of the {x.ndim} dimensions once.")
    return level.batch(operator.call(level.front(x), (0, *[i + 1 for i in order])), 0)


@rule_for("broadcast_to")
def _broadcast_to(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, shape = args
    target = tuple(shape)
    if broadcast_shapes("broadcast_to", x.shape, target) != target or any(n < 0 for n in target):
        raise ValueError(f"[broadcast_to] a tensor of shape {x.shape} cannot be broadcast to {target}.")
    return level.batch(operator.call(level.aligned(x, len(target)), (level.size, *target)), 0)


@rule_for("squeeze")
def _squeeze(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, axis = args
    axes = normalize_axes("squeeze", axis, x.ndim)
    for i in axes:
        if x.shape[i] != 1:
            raise ValueError(f"[squeeze] dimension {i} of shape {x.shape} has length {x.shape[i]}, not 1.")
    return level.batch(operator.call(level.front(x), tuple([i + 1 for i in axes])), 0)


@rule_for("expand_dims")
def _expand_dims(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    bound = operator.bind(*args, **kwargs)
    x = bound["x"]
    axis = bound["axis"]
    given = (axis,) if isinstance(axis, int) else axis
    axes = normalize_axes("expand_dims", given, x.ndim + len(given))
    return level.batch(operator.call(level.front(x), tuple([i + 1 for i in axes])), 0)


@rule_for("select_index")
def _select_index(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, axis, index = args
    i = normalize_axis("select_index", axis, x.ndim)
    n = x.shape[i]
    if not -n <= index < n:
        raise IndexError(f"[index] index {index} is out of range for dimension {i} of shape {x.shape}.")
    return level.batch(operator.call(level.front(x), i + 1, index), 0)


@rule_for("slice")
def _slice(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, axis, *rest = args
    return level.batch(operator.call(level.front(x), normalize_axis("slice", axis, x.ndim) + 1, *rest, **kwargs), 0)


@rule_for("basic_index")
def _basic_index(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, index = args
    window_of(x.shape, x.strides, index)
    return level.batch(operator.call(level.front(x), (FULL, *index)), 0)


@rule_for("basic_index_backward")
def _basic_index_backward(
    level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Tensor:
    g, shape, index = args
    return level.batch(operator.call(level.front(g), (level.size, *shape), (FULL, *index)), 0)


@rule_for("slice_backward")
def _slice_backward(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    g, shape, axis, start, step = args
    i = normalize_axis("slice", axis, len(shape))
    return level.batch(operator.call(level.front(g), (level.size, *shape), i + 1, start, step), 0)


# ---- copies


@rule_for("flip")
def _flip(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    (x,) = args
    axes = normalize_axes("flip", kwargs.get("axis"), x.ndim)
    return level.batch(operator.call(level.front(x), axis=tuple([i + 1 for i in axes])), 0)


@rule_for("concatenate")
def _concatenate(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    (arrays,) = args
    check_call(operator, args, kwargs)
    axis = normalize_axis("concat", kwargs.get("axis", 0), arrays[0].ndim)
    return level.batch(concatenate([level.front(x) for x in arrays], axis=axis + 1), 0)


# ---- reductions that are no Reduce


@rule_for("argmax", "argmin", "nanargmax", "nanargmin")
def _argmax(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    bound = operator.bind(*args, **kwargs)
    x, axis, keepdims = bound["x"], bound["axis"], bound["keepdims"]
    check_call(operator, args, kwargs)
    value = level.front(x)
    if axis is None:
        found = operator.call(reshape(value, (level.size, x.size)), 1)
        return level.batch(reshape(found, (level.size, *[1] * x.ndim)) if keepdims else found, 0)
    i = normalize_axis(operator.schema.base_name, axis, x.ndim)
    return level.batch(operator.call(value, i + 1, keepdims=keepdims), 0)


# ---- matrix products


@rule_for("matmul")
def _matmul(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x1, x2 = args
    if not isinstance(x1, Tensor) or not isinstance(x2, Tensor):
        return operator.call(level.split(x1)[0], level.split(x2)[0])  # type: ignore[no-any-return]  # raises
    check_call(operator, args, kwargs)
    a, left = level.split(x1)
    b, right = level.split(x2)
    if right is None and x1.ndim == 1 and x2.ndim == 2:  # one product of matrices for all vectors
        return level.batch(matmul(move(a, left, 0), b), 0)
    if left is None and x2.ndim == 1 and x1.ndim == 2:
        return level.batch(matmul(move(b, right, 0), matrix_transpose(a)), 0)
    if right is None and x1.ndim == 2 and x2.ndim == 2 and left == 0:
        return level.batch(matmul(a, b), 0)
    ndim = max(x1.ndim, x2.ndim, 2)
    first = _matrices(level, x1, ndim, -2)
    second = _matrices(level, x2, ndim, -1)
    product = matmul(first, second)
    if x1.ndim == 1:
        product = squeeze(product, -2)
    if x2.ndim == 1:
        product = squeeze(product, -1)
    return level.batch(product, 0)


def _matrices(level: BatchLevel, x: Tensor, ndim: int, place: int) -> Tensor:
    """The operand as a stack of matrices, aligned for broadcasting; a vector gets its missing dimension."""
    value, dim = level.split(x)
    if dim is not None:
        value = move(value, dim, 0)
    own = x.ndim
    if own == 1:
        value = expand_dims(value, place)
        own = 2
    if dim is not None and own < ndim:
        value = reshape(value, (level.size, *[1] * (ndim - own), *value.shape[1:]))
    return value  # type: ignore[no-any-return]


# ---- linear algebra and Fourier transforms


@rule_for("diagonal_embed")
def _diagonal_embed(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    g, shape, offset = args
    check_call(operator, args, kwargs)
    return level.batch(operator.call(level.front(g), (level.size, *shape), offset), 0)


@rule_for("vecdot")
def _vecdot(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_call(operator, args, kwargs)
    ndim = max(args[0].ndim, args[1].ndim)
    axis = kwargs.get("axis", -1)
    values = [level.aligned(x, ndim) for x in args]
    return level.batch(operator.call(*values, axis=axis if axis < 0 else axis - ndim), 0)


@rule_for("outer")
def _outer(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_call(operator, args, kwargs)
    x1, x2 = args
    column, row = expand_dims(level.front(x1), -1), expand_dims(level.front(x2), -2)
    both = logical_and if x1.dtype.kind == x2.dtype.kind == "b" else multiply
    return level.batch(both(column, row), 0)


@rule_for("linalg_solve", "lapack_lstsq")
def _solve(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x1, x2, *rest = args
    check_call(operator, args, kwargs)
    vector = x2.ndim == 1
    ndim = max(x1.ndim, 2 if vector else x2.ndim)
    right = level.front(x2) if vector else level.aligned(x2, ndim)
    rest = [level.aligned(x, ndim - 2) for x in (*rest, *kwargs.values())]  # rtol, one for each matrix
    found = operator.call(level.aligned(x1, ndim), _columns(right, ndim) if vector else right, *rest)
    return level.batch(squeeze(found, -1) if vector else found, 0)


def _columns(vectors: Tensor, ndim: int) -> Tensor:
    """One vector for each sample, as matrices that broadcast with stacks."""
    batch, n = vectors.shape
    return reshape(vectors, (batch, *[1] * (ndim - 2), n, 1))


@rule_for("linalg_vector_norm")
def _norm(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    (x,) = args
    check_call(operator, args, kwargs)
    axes = tuple([i + 1 for i in normalize_axes("linalg.vector_norm", kwargs.get("axis"), x.ndim)])
    return level.batch(operator.call(level.front(x), **{**kwargs, "axis": axes}), 0)


@rule_for("fft_fft", "fft_ifft", "fft_rfft", "fft_irfft")
def _fft(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    check_call(operator, args, kwargs)
    bound = operator.bind(*args, **kwargs)
    axis = normalize_axis(operator.schema.base_name, bound["axis"], bound["x"].ndim) + 1
    return level.batch(operator.call(level.front(bound["x"]), bound["n"], axis, bound["norm"]), 0)


# ---- along one axis: sorting, cumulative sums


@rule_for(
    "sort", "argsort", "argpartition", "cumulative_sum", "cumulative_prod", "invert_order", "top_indices",
    "cummax_indices", "cummin_indices", "repeat_each",
)  # fmt: skip
def _along_axis(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """What works along the axis of one tensor works along the next of all samples."""
    check_call(operator, args, kwargs)
    bound = operator.bind(*args, **kwargs)
    x = next(iter(bound.values()))
    axis = normalize_axis(operator.schema.base_name, 0 if bound["axis"] is None else bound["axis"], x.ndim) + 1
    return level.batch(_call_with(operator, {**bound, next(iter(bound)): level.front(x), "axis": axis}), 0)


@rule_for("mean_of_runs", "linear_recurrence")
def _along_axis_of_two(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    bound = operator.bind(*args, **kwargs)
    given = {
        name: level.front(value) if level.owns(value) else broadcast_to(value, (level.size, *value.shape))
        for name, value in list(bound.items())[:2]
    }
    return level.batch(_call_with(operator, {**bound, **given, "axis": bound["axis"] + 1}), 0)


def _call_with(operator: Operator, bound: dict[str, Any]) -> Any:
    names = {a.name for a in operator.schema.arguments if a.kwarg_only}
    positional = [value for name, value in bound.items() if name not in names]
    return operator.call(*positional, **{name: value for name, value in bound.items() if name in names})


@rule_for("place_sorted")
def _place_sorted(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ordered, values, *rest = args
    if any(level.owns(x) for x in (ordered, *rest)):
        return _by_loop(level, operator, args, kwargs)
    return level.batch(operator.call(ordered, level.front(values), *rest, **kwargs), 0)


# ---- bins, convolutions, borders


@rule_for("bin_sums")
def _bin_sums(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Each sample has bins of its own, behind those of the one before."""
    check_call(operator, args, kwargs)
    indices, weights, n = args
    own = level.front(indices)
    first = reshape(arange(level.size, device=own.device) * n, (level.size, *[1] * indices.ndim))
    placed = where((own >= 0) & (own < n), own + first, -1)
    sums = operator.call(placed, None if weights is None else level.front(weights), level.size * n)
    return level.batch(reshape(sums, (level.size, n)), 0)


@rule_for("convolve_full")
def _convolve_full(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """Products of the windows of the one with the other."""
    dtype = operator.facets["Meta"].rule(*args).dtype
    a, v = [cast(level.front(x), dtype) for x in args]
    n, m = a.shape[1], v.shape[1]
    padded = pad_constant(a, (0, m - 1), (0, m - 1), (0, 0, 0, 0))
    at = expand_dims(arange(n + m - 1, device=a.device), 1) - arange(m, device=a.device) + (m - 1)
    return level.batch(squeeze(matmul(index(padded, [None, at]), expand_dims(v, 2)), -1), 0)


@rule_for("pad_constant")
def _pad_constant(level: BatchLevel, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    x, before, after, values = args
    check_call(operator, args, kwargs)
    return level.batch(operator.call(level.front(x), (0, *before), (0, *after), (0, 0, *values)), 0)
