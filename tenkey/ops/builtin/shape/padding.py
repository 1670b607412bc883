"""``pad``: a border around a tensor."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.device import CPU
from ....core.dtypes.names import float64, int64
from ....core.tensor import Tensor, cpu_word, make_tensor
from ...declare import FEW, Decomposition, Entry, TensorSpec, composite, internal, normal, prepend
from ..creation import full
from ..elementwise.rounding import floor, round
from ..indexing.advanced_indexing import take
from ..reductions.quantiles import median
from ..reductions.reduction import max, mean, min
from .copying import cast, clone, concat, to_device
from .views import broadcast_to, reshape, slice

_WIDTHS: Final = (
    "[pad] pad_width {given} does not fit shape {shape}: give one number, a pair (before, after), or one pair for each "
    "of the {ndim} dimensions."
)
_VALUE: Final = "[pad] the value {value} cannot stand in a tensor of {dtype}: convert with tk.astype(x, dtype)."
_MODES: Final = (
    "constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean", "median",
)  # fmt: skip


_STATISTICS: Final = ("maximum", "minimum", "mean", "median")


def vector(values: Any, like: Tensor) -> Tensor:
    """Return a vector of integers on the device of another tensor."""
    made = make_tensor(np.ascontiguousarray(values, np.int64), cpu_word(int64))
    device = like.device
    return made if device is CPU else to_device(made, device)


def pairs_of(given: Any, ndim: int, what: str, shape: Any) -> list[tuple[Any, Any]]:
    """Return one pair for each dimension."""
    if len(given) == 2 and len(given[0]) == len(given[1]) == 1:  # (before, after), for all dimensions
        return [(given[0][0], given[1][0])] * ndim
    pairs = [tuple(pair) * 2 if len(pair) == 1 else tuple(pair) for pair in given]
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or any(len(pair) != 2 for pair in pairs):
        raise ValueError(_WIDTHS.replace("pad_width", what).format(given=given, shape=shape, ndim=ndim))
    return pairs


def _constant_meta(x: Any, before: Sequence[int], after: Sequence[int], values: Sequence[Any]) -> TensorSpec:
    for value in values:
        if isinstance(value, complex) and x.dtype.kind != "c":
            raise TypeError(_VALUE.format(value=value, dtype=x.dtype))
        if x.dtype.kind in "biu" and isinstance(value, float) and value != value // 1:
            raise TypeError(_VALUE.format(value=value, dtype=x.dtype))
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            if not limits.min <= value <= limits.max:
                raise ValueError(_VALUE.format(value=value, dtype=x.dtype))
    return TensorSpec(tuple([a + n + b for a, n, b in zip(before, x.shape, after)]), x.dtype)


def _constant_on_numpy(x: Any, before: Sequence[int], after: Sequence[int], values: Sequence[Any]) -> Any:
    out = np.empty([a + n + b for a, n, b in zip(before, x.shape, after)], x.dtype)
    same = all(value == values[0] for value in values)
    if same and values:
        out.fill(values[0])
    inner = tuple([np.s_[a : a + n] for a, n in zip(before, x.shape)])
    out[inner] = x
    if not same:
        for axis, (a, n) in enumerate(zip(before, x.shape)):  # later dimensions write over the corners of earlier ones
            rest = (np.s_[:],) * axis
            out[(*rest, np.s_[:a])] = values[2 * axis]
            out[(*rest, np.s_[a + n :])] = values[2 * axis + 1]
    return out


def _constant_parts(x: Tensor, before: Sequence[int], after: Sequence[int], values: Sequence[Any]) -> Tensor:
    spec = _constant_meta(x, before, after, values)
    out = full(spec.shape, values[0] if values else 0, dtype=spec.dtype, device=x.device)
    inner = out
    for axis, (a, n) in enumerate(zip(before, x.shape)):
        inner = slice(inner, axis, a, a + n, 1)
    inner.copy_(x)
    if any(value != values[0] for value in values):
        for axis, (a, n) in enumerate(zip(before, x.shape)):  # in the order of the kernel for arrays
            for value, start, stop in ((values[2 * axis], 0, a), (values[2 * axis + 1], a + n, spec.shape[axis])):
                if start != stop:
                    slice(out, axis, start, stop, 1).copy_(value)
    return out


def _constant_vjp(g: Tensor, x_meta: Any, before: Sequence[int]) -> Tensor:
    for axis, (a, n) in enumerate(zip(before, x_meta.shape)):
        if g.shape[axis] != n:
            g = slice(g, axis, a, a + n, 1)
    return g


pad_constant: Entry = internal(
    "pad_constant(Tensor x, int[] before, int[] after, Scalar[] values) -> Tensor",
    meta=_constant_meta,
    numpy=_constant_on_numpy,
    decomposition=Decomposition(_constant_parts),
    vjp={"x": _constant_vjp},
    sample_inputs=normal(
        ([2, 3], (1, 0), (0, 2), (0, 0, 0, 0)),
        ([2, 3], (1, 1), (1, 2), (0, 1, 1, 0)),
        ([], (), (), ()),
        ([0, 2], (1, 1), (1, 1), (1, 1, 1, 1)),
    ),
    batch=prepend(before=(0,), after=(0,), values=(0, 0)),
    doc="Pad with constants; ``values`` holds two for each dimension.",
)


def _places(mode: str, n: int, before: int, after: int) -> Any:
    """Return the index of the element at each position of the padded dimension."""
    at = np.arange(-before, n + after)
    if mode == "edge":
        return np.clip(at, 0, n - 1)
    if mode == "wrap":
        return at % n
    if mode == "symmetric":
        at = at % (2 * n)
        return np.where(at < n, at, 2 * n - 1 - at)
    if n == 1:
        return np.zeros_like(at)
    at = at % (2 * n - 2)
    return np.where(at < n, at, 2 * n - 2 - at)


def _statistic(mode: str, x: Tensor, axis: int) -> Tensor:
    """Compute the value of the border; for integers in double precision, then rounded."""
    function: Entry = {"maximum": max, "minimum": min, "mean": mean, "median": median}[mode]
    if x.dtype.kind in "biu" and mode in ("mean", "median"):
        value = function(cast(x, float64), axis=axis, keepdims=True)
        return cast(value if x.dtype.kind == "b" else round(value), x.dtype)  # bools as in NumPy: true unless 0
    return function(x, axis=axis, keepdims=True)


def _border(
    mode: str, x: Tensor, axis: int, widths: tuple[int, int], ends: tuple[Any, Any], lengths: tuple[int, int]
) -> Tensor:
    """Add a computed border to a dimension."""
    n = x.shape[axis]
    parts = [x]
    shape = [1 if i == axis else m for i, m in enumerate(x.shape)]
    for side, (width, end) in enumerate(zip(widths, ends)):
        if not width:
            continue
        target = (*x.shape[:axis], width, *x.shape[axis + 1 :])
        exact = x.dtype.kind in "biu"
        if mode == "linear_ramp":
            edge = reshape(slice(x, axis, 0 if side == 0 else n - 1, 1 if side == 0 else n, 1), shape)
            line = np.arange(width) / width if side == 0 else np.arange(width, 0, -1) / width - 1 / width
            weights = cast(vector(np.rint(line * width), x), float64) / float(width)
            weights = reshape(weights, [width if i == axis else 1 for i in range(x.ndim)])
            if exact:
                made = cast(floor(end + (cast(edge, float64) - end) * weights), x.dtype)
            else:
                weights = cast(weights, x.dtype)
                made = end * (1 - weights) + edge * weights
        else:
            near = builtins.min(lengths[side], n)
            core = slice(x, axis, 0, near, 1) if side == 0 else slice(x, axis, n - near, n, 1)
            made = clone(broadcast_to(_statistic(mode, core, axis), target))
        parts = [made, *parts] if side == 0 else [*parts, made]
    return concat(parts, axis=axis) if len(parts) > 1 else x


def _lengths(mode: str, given: Any, shape: Any) -> list[tuple[int, int]]:
    """Return for each dimension how many elements at its two ends determine the border."""
    if given is None:
        return [(n, n) for n in shape]
    if mode not in _STATISTICS:
        raise ValueError(f"[pad] mode {mode!r} takes no stat_length: that is for the modes {', '.join(_STATISTICS)}.")
    lengths = pairs_of(given, len(shape), "stat_length", shape)
    if any(n < 1 for pair in lengths for n in pair):
        raise ValueError(f"[pad] got stat_length {given}: a statistic needs at least 1 element.")
    return lengths


_pad_samples = normal(
    *[([3, 4], ((1, 2), (0, 3)), {"mode": mode}) for mode in (*_MODES[:5], "mean")],
    *[([3], 2, {"mode": mode}) for mode in _MODES[:5]],
    *[([2], (5, 4), {"mode": mode}) for mode in ("reflect", "symmetric", "wrap")],
    ([3, 4], 1, {"mode": "mean", "stat_length": ((2, 1), (3, 9))}),
    ([5], (2, 1), {"mode": "mean", "stat_length": 2}),
    ([2, 3], (1, 2), {"constant_values": 1}),
    ([2, 3], 1, {"constant_values": ((1, 0), (0, 1))}),
    ([2, 0], ((1, 1), (0, 0)), {"mode": "edge"}),
    ([0, 2], 1),
    ([], 1),
)


def _numpy_pad(
    x: np.ndarray, pad_width: Any, mode: str = "constant", *, constant_values: Any, end_values: Any, stat_length: Any
) -> Any:
    """Surround a small array with zeros."""
    if mode != "constant" or stat_length is not None or x.nbytes > FEW:
        return NotImplemented
    widths = pairs_of(pad_width, x.ndim, "pad_width", x.shape)
    if constant_values != ((0,),) or constant_values[0][0].__class__ is not int:
        return NotImplemented
    shape, inner = [], []
    for n, (before, after) in zip(x.shape, widths):
        if before < 0 or after < 0:
            return NotImplemented
        shape.append(before + n + after)
        inner.append(builtins.slice(before, before + n))
    out = np.zeros(shape, x.dtype)
    out[tuple(inner)] = x
    return out


@composite(
    'pad(Tensor x, int[1][1] pad_width, str mode="constant", *, Scalar[1][1] constant_values=[[0]], '
    "Scalar[1][1] end_values=[[0]], int[1][1]? stat_length=None) -> Tensor",
    numpy=_numpy_pad,
    quiet=True,
    sample_inputs=_pad_samples,
    methods=("pad",),
)
def pad(
    x: Tensor,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = ((0,),),
    end_values: Any = ((0,),),
    stat_length: Any = None,
) -> Tensor:
    """Add a border of ``pad_width`` elements before and after each dimension.

    Args: pad_width: one number, a pair (before, after) for all dimensions, or a pair for each. mode: the content of
    the border: ``constant`` (``constant_values``, given like ``pad_width``), ``edge`` (the nearest element),
    ``reflect`` (mirrored at the outermost element), ``symmetric`` (mirrored beside it), ``wrap`` (from the other end),
    ``linear_ramp`` (from the edge to ``end_values``), ``maximum``, ``minimum``, ``mean`` or ``median`` (of the
    dimension, or of the ``stat_length`` elements, given like ``pad_width``, that are nearest to the border; those of
    integers are rounded).

    Every mode is differentiable. Raises ValueError for widths that do not fit, an unknown mode, or a border derived
    from an empty dimension.

    >>> tk.pad(tk.asarray([1, 2, 3]), (1, 2)).tolist(), tk.pad(tk.asarray([1, 2, 3]), 2, mode="reflect").tolist()
    ([0, 1, 2, 3, 0, 0], [3, 2, 1, 2, 3, 2, 1])
    >>> tk.pad(tk.asarray([1, 3, 8]), 1, mode="mean", stat_length=2).tolist()
    [2, 1, 3, 8, 6]
    """
    ndim = x.ndim
    widths = pairs_of(pad_width, ndim, "pad_width", x.shape)
    if any(a < 0 or b < 0 for a, b in widths):
        raise ValueError(
            f"[pad] pad_width {pad_width} has a negative number: widths are at least 0. To cut, index with x[1:-1]."
        )
    if mode == "constant":
        _lengths(mode, stat_length, x.shape)
        values = pairs_of(constant_values, ndim, "constant_values", x.shape)
        before, after = tuple([a for a, _ in widths]), tuple([b for _, b in widths])
        return pad_constant(x, before, after, tuple([v for pair in values for v in pair]))
    if mode not in _MODES:
        raise ValueError(f"[pad] there is no mode {mode!r}: it is one of {', '.join(_MODES)}.")
    ends = pairs_of(end_values, ndim, "end_values", x.shape)
    lengths = _lengths(mode, stat_length, x.shape)
    result = x
    for axis, (start, end) in enumerate(widths):
        if not start and not end:
            continue
        n = x.shape[axis]
        if n == 0:
            raise ValueError(
                f"[pad] mode {mode!r} cannot pad axis {axis} of shape {x.shape}, which is empty: use 'constant'."
            )
        if mode in ("edge", "wrap", "symmetric", "reflect"):
            result = take(result, vector(_places(mode, n, start, end), x), axis=axis)
        else:
            result = _border(mode, result, axis, (start, end), ends[axis], lengths[axis])
    return clone(x) if result is x else result
