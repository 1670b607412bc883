"""Differences, numerical differentiation and integration, and phases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ...declare import composite, internal_composite, normal
from ...shapes import broadcast_shapes, normalize_axes, normalize_axis
from ..creation import concrete
from ..elementwise.arithmetic import abs, subtract
from ..elementwise.comparison import equal, greater, less, not_equal, where
from ..elementwise.rounding import floor
from ..reductions.cumulative import cumulative_sum
from ..reductions.reduction import sum
from ..shape.copying import clone, concat, floating, stack
from ..shape.views import along_axis, broadcast_to, reshape, select_index, slice


def _edge(x: Tensor, value: Tensor, axis: int) -> Tensor:
    """Return what ``diff`` joins to a tensor: a number becomes one element along the axis."""
    if value.ndim:
        return value
    return broadcast_to(concrete(value, x), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


@composite(
    "diff(Tensor x, *, int n=1, int axis=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    sample_inputs=normal(
        [3, 4],
        ([3, 4], {"axis": 0, "n": 2}),
        ([4], {"n": 0}),
        ([4], {"n": 6}),
        ([0, 3], {"axis": 0}),
        ([2, 3], {"prepend": [2, 1], "append": [2, 2]}),
    ),
    positional=2,
)
def diff(
    x: Tensor, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the differences of neighbours along an axis, which becomes shorter by one, ``n`` times over.

    ``prepend`` and ``append`` are first joined to the tensor: numbers, or tensors of its shape except along the axis.
    The difference of bools is whether they differ. Raises ValueError for a negative ``n``.

    >>> tk.diff(tk.asarray([1, 4, 9, 16])).tolist(), tk.diff(tk.asarray([1, 4, 9, 16]), n=2).tolist()
    ([3, 5, 7], [2, 2])
    >>> tk.diff(tk.asarray([1, 4, 9]), prepend=0).tolist()
    [1, 3, 5]
    """
    i = normalize_axis("diff", axis, x.ndim)
    if n < 0:
        raise ValueError(f"[diff] n is the number of differences, at least 0, got {n}.")
    parts = [None if prepend is None else _edge(x, prepend, i), x, None if append is None else _edge(x, append, i)]
    given = [part for part in parts if part is not None]
    if len(given) > 1 and n:
        x = concat(given, axis=i)
    subtracted = not_equal if x.dtype.kind == "b" else subtract
    result = x
    for _ in range(n):
        length = result.shape[i]
        later, sooner = slice(result, i, 1, length, 1), slice(result, i, 0, max(length - 1, 0), 1)
        result = subtracted(later, sooner)
        if length <= 1:
            break
    return clone(x) if result is x else result


@composite(
    "ediff1d(Tensor x, Tensor? to_end=None, Tensor? to_begin=None) -> Tensor",
    sample_inputs=normal([2, 3], ([5], [2], [1]), [1]),
)
def ediff1d(x: Tensor, to_end: Tensor | None = None, to_begin: Tensor | None = None) -> Tensor:
    """Return the differences of consecutive elements in row-major order, between ``to_begin`` and ``to_end``.

    >>> tk.ediff1d(tk.asarray([1, 4, 9]), to_begin=tk.asarray([0])).tolist()
    [0, 3, 5]
    """
    for part in (to_end, to_begin):
        if part is not None:
            x = concrete(x, part)
    flat = reshape(x, (-1,))
    made = flat[1:] - flat[:-1]
    parts = [reshape(concrete(part, x), (-1,)) for part in (to_begin, made, to_end) if part is not None]
    return parts[0] if len(parts) == 1 else concat(parts, axis=0)


# ---- derivatives and integrals


def _gradient_even(x: Tensor, h: Any, axis: int, order: int) -> Tensor:
    inner = (slice(x, axis, 2, x.shape[axis]) - slice(x, axis, 0, -2)) / (2 * h)
    n = x.shape[axis]
    a, b, y, z = [slice(x, axis, k, k + 1) for k in (0, 1, n - 2, n - 1)]
    if order == 1:
        first, last = (b - a) / h, (z - y) / h
    else:
        c, w = slice(x, axis, 2, 3), slice(x, axis, n - 3, n - 2)
        first = (a * -1.5 + b * 2 - c * 0.5) / h
        last = (w * 0.5 - y * 2 + z * 1.5) / h
    return concat([first, inner, last], axis=axis)


def _gradient_uneven(x: Tensor, places: Tensor, axis: int, order: int) -> Tensor:
    n = x.shape[axis]
    steps = slice(places, 0, 1, n, 1) - slice(places, 0, 0, n - 1, 1)

    def step(k: int) -> Tensor:
        return select_index(steps, 0, k)

    a, b, y, z = [slice(x, axis, k, k + 1) for k in (0, 1, n - 2, n - 1)]
    if order == 1:
        first, last = (b - a) / step(0), (z - y) / step(n - 2)
    else:
        c, w = slice(x, axis, 2, 3), slice(x, axis, n - 3, n - 2)
        h, k = step(0), step(1)
        first = a * (-(2 * h + k) / (h * (h + k))) + b * ((h + k) / (h * k)) - c * (h / (k * (h + k)))
        h, k = step(n - 3), step(n - 2)
        last = w * (k / (h * (h + k))) - y * ((h + k) / (h * k)) + z * ((2 * k + h) / (k * (h + k)))
    parts = [first]
    if n > 2:
        before = along_axis(slice(steps, 0, 0, n - 2, 1), axis, x.ndim)
        after = along_axis(slice(steps, 0, 1, n - 1, 1), axis, x.ndim)
        lower = slice(x, axis, 0, -2) * (-after / (before * (before + after)))
        middle = slice(x, axis, 1, -1) * ((after - before) / (before * after))
        parts.append(lower + middle + slice(x, axis, 2, n) * (before / (after * (before + after))))
    parts.append(last)
    return concat(parts, axis=axis)


_UNEVEN: Final = np.array([0.7, 1.3, 2.7, 3.4, 4.9])


@internal_composite(
    "gradient_on_grid(Tensor x, float[1] spacing=[1.0], *, Tensor? places=None, int[1]? axis=None, int edge_order=1)"
    " -> Tensor",
    sample_inputs=normal(
        ([4, 5], {"axis": 1}),
        ([4, 5], 0.5, {"axis": 0, "edge_order": 2}),
        ([4, 5], (0.5, 2.0)),
        ([4, 3, 3], {"axis": (0, -1)}),
        [5],
        ([2, 5], {"places": _UNEVEN, "axis": 1}),
        ([2, 5], {"places": _UNEVEN, "axis": -1, "edge_order": 2}),
    ),
)
def gradient_on_grid(
    x: Tensor, spacing: Sequence[float] = (1.0,), *, places: Tensor | None = None, axis: Any = None, edge_order: int = 1
) -> Tensor:
    """Compute the derivative by central differences along axes: see ``tk.gradient``."""
    if x.dtype.kind == "b":
        raise TypeError("[gradient] is not defined for dtype bool: convert with tk.astype(x, tk.float32).")
    axes = normalize_axes("gradient", axis, x.ndim)
    if not axes:
        raise ValueError(f"[gradient] a tensor of shape {x.shape} has no axis to take differences along.")
    if edge_order not in (1, 2):
        raise ValueError(f"[gradient] edge_order must be 1 or 2, got {edge_order}.")
    distances = tuple(spacing) * len(axes) if len(spacing) == 1 else tuple(spacing)
    if len(distances) != len(axes):
        raise ValueError(
            f"[gradient] spacing has {len(distances)} entries for {len(axes)} axes: give one distance for all, or one "
            "for each axis."
        )
    for i in axes:
        if x.shape[i] < edge_order + 1:
            raise ValueError(
                f"[gradient] axis {i} of shape {x.shape} has too few elements: edge_order={edge_order} "
                f"needs {edge_order + 1}."
            )
    if places is not None and (len(axes) > 1 or places.shape != (x.shape[axes[0]],)):
        raise ValueError(
            f"[gradient] places of shape {places.shape} for axes {axes} of shape {x.shape}: they must be a vector "
            "as long as the one axis."
        )
    values = floating(x)
    if places is not None:
        return _gradient_uneven(values, floating(places), axes[0], edge_order)
    found = [_gradient_even(values, h, i, edge_order) for i, h in zip(axes, distances)]
    return found[0] if len(found) == 1 else stack(found)


@composite(
    "trapezoid(Tensor y, Tensor? x=None, float dx=1.0, int axis=-1) -> Tensor",
    sample_inputs=normal(
        ([3, 4], {"axis": 0, "dx": 0.5}),
        ([3, 4], {"axis": -1, "dx": 0.5}),
        ([3, 4], [4]),
        ([3, 4], [3, 4], {"axis": 0}),
        ([2, 1, 4], [3, 4], {"axis": -1}),
        [3, 1],
        ([0, 3], {"axis": 1}),
    ),
)
def trapezoid(y: Tensor, x: Tensor | None = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    """Integrate ``y`` along an axis by the trapezoidal rule.

    Args: y: values; x: their places, a vector along the axis or a tensor that broadcasts with ``y``, or None for even
    steps of ``dx``. Integers give floats. Fewer than two values give 0.

    >>> tk.trapezoid(tk.asarray([0.0, 1.0, 4.0]), dx=0.5).item()
    1.5
    """
    i = normalize_axis("trapezoid", axis, y.ndim)
    n = y.shape[i]
    y = floating(y)

    def inner(values: Tensor, axis: int, start: int) -> Tensor:
        return slice(values, axis, start, start + n - 1) if n > 1 else slice(values, axis, 0, 0)

    both = inner(y, i, 1) + inner(y, i, 0)
    if x is None:
        return sum(both, axis=i) * (dx / 2)
    x = floating(concrete(x, y))
    j = i - y.ndim + x.ndim  # the same axis of x, counted from the last
    if x.shape == (n,):
        steps = along_axis(inner(x, 0, 1) - inner(x, 0, 0), i, y.ndim)
    elif j >= 0 and x.shape[j] == n:
        broadcast_shapes("trapezoid", y.shape, x.shape)
        steps = inner(x, j, 1) - inner(x, j, 0)
    else:
        raise ValueError(
            f"[trapezoid] x of shape {x.shape} must have the length {n} along the axis, as y of shape {y.shape}, or "
            "be a vector."
        )
    return sum(both * steps, axis=i - y.ndim) * 0.5


@composite(
    "unwrap(Tensor x, *, float? discont=None, int axis=-1, float period=6.283185307179586) -> Tensor",
    sample_inputs=lambda rng: (
        [((rng.uniform(-9, 9, (3, 5)),), {"axis": axis}) for axis in (0, -1)]
        + [((rng.uniform(-9, 9, (5,)),), {"period": 3.0, "discont": 2.0}), ((rng.uniform(-9, 9, (0,)),), {})]
    ),
)
def unwrap(x: Tensor, *, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi) -> Tensor:
    """Remove jumps of angles along an axis, by adding multiples of ``period``: no step is longer than half of it.

    Steps up to ``discont`` are kept. Integers give floats. The derivative is 1.

    >>> tk.unwrap(tk.asarray([0.0, 3.0, -2.0]), period=4.0).tolist()
    [0.0, -1.0, -2.0]
    """
    if x.dtype.kind == "c":
        raise TypeError(f"[unwrap] is not defined for dtype {x.dtype}: it takes real dtypes.")
    if not period > 0:
        raise ValueError(f"[unwrap] period must be positive, got {period}.")
    i = normalize_axis("unwrap", axis, x.ndim)
    x = floating(x)
    n = x.shape[i]
    if n < 2:
        return clone(x)
    half = period / 2
    step = slice(x, i, 1, n) - slice(x, i, 0, -1)
    turned = step + half
    wrapped = turned - floor(turned / period) * period - half
    wrapped = where(equal(wrapped, -half) & greater(step, 0.0), half, wrapped)
    correction = wrapped - step
    correction = where(less(abs(step), half if discont is None else discont), 0.0, correction)
    start = slice(x, i, 0, 1)
    return concat([start, slice(x, i, 1, n) + cumulative_sum(correction, axis=i)], axis=i)
