"""Convolution, correlation and interpolation of sequences."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes.names import float32, int64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ...declare import Decomposition, Entry, TensorSpec, checked, composite, gather, internal, linear, normal
from ...declare.batch import VmapLevel
from ..creation import arange, concrete, zeros
from ..elementwise.arithmetic import multiply, remainder
from ..elementwise.comparison import equal, greater, less, logical_and, where
from ..elementwise.complex import conjugated, like_operand, refuse_complex
from ..elementwise.limiting import clip
from ..indexing.advanced_indexing import index, take
from ..linalg.matmul import matmul
from ..reductions.reduction import any, sum
from ..shape.copying import as_dtype, cast, clone, concat, flip
from ..shape.padding import pad_constant
from ..shape.views import expand_dims, reshape, select_index, slice, squeeze
from ..sorting.insertion import insertion_places
from ..sorting.sort import argsort

_BLOCK: Final = 1 << 22  # products that a convolution holds at once


def _check(operator: str, a: Any, v: Any, mode: str = "full") -> None:
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"[{operator}] takes two vectors, got shapes {a.shape} and {v.shape}.")
    if not a.shape[0] or not v.shape[0]:
        raise ValueError(f"[{operator}] got a vector without elements: shapes {a.shape} and {v.shape}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"[{operator}] mode must be 'full', 'same' or 'valid', got {mode!r}.")


def _full_meta(a: Any, v: Any) -> TensorSpec:
    _check("convolve", a, v)
    return TensorSpec((a.shape[0] + v.shape[0] - 1,), result_dtype((a.dtype, v.dtype), ()))


def _full_on_numpy(a: Any, v: Any) -> Any:
    dtype = result_dtype((a.dtype, v.dtype), ())
    if dtype.kind == "V":
        return np.convolve(a.astype(np.float32), v.astype(np.float32)).astype(dtype)
    return np.convolve(a.astype(dtype, copy=False), v.astype(dtype, copy=False)).astype(dtype, copy=False)


def _full_parts(a: Tensor, v: Tensor) -> Tensor:
    """Shift each row of the products by its number, and add up the columns, in blocks that fit into memory."""
    dtype = _full_meta(a, v).dtype
    short, long = sorted([a, v], key=lambda x: x.shape[0])
    n, m = short.shape[0], long.shape[0]
    wide = float32 if dtype.kind in "fV" and dtype.itemsize == 2 else dtype
    both, together = (logical_and, any) if dtype.kind == "b" else (multiply, sum)
    out = zeros((n + m - 1,), dtype=wide, device=a.device)
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        rows = min(step, n - start)
        part = expand_dims(as_dtype(slice(short, 0, start, start + rows, 1), wide), 1)
        padded = pad_constant(both(part, as_dtype(long, wide)), (0, 0), (0, rows), (0, 0, 0, 0))
        flat = slice(reshape(padded, (-1,)), 0, 0, rows * (m + rows - 1), 1)
        found = as_dtype(together(reshape(flat, (rows, m + rows - 1)), axis=0), wide)
        place = slice(out, 0, start, start + m + rows - 1, 1)
        place.copy_(place + found)
    return as_dtype(out, dtype)


def _full_vjp(g: Tensor, other: Tensor, meta: Any) -> Tensor:
    mirrored = flip(conjugated(other))
    start = other.shape[0] - 1
    return like_operand(slice(convolve_full(g, mirrored), 0, start, start + meta.shape[0], 1), meta)


def _convolve_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Multiply the windows of one vector by the other."""
    dtype = operator.facets["Meta"].rule(*args).dtype
    a, v = [cast(level.front(x), dtype) for x in args]
    n, m = a.shape[1], v.shape[1]
    padded = pad_constant(a, (0, m - 1), (0, m - 1), (0, 0, 0, 0))
    at = expand_dims(arange(n + m - 1, device=a.device), 1) - arange(m, device=a.device) + (m - 1)
    return level.batch(squeeze(matmul(index(padded, [None, at]), expand_dims(v, 2)), -1))


convolve_full: Entry = internal(
    "convolve_full(Tensor a, Tensor v) -> Tensor",
    meta=_full_meta,
    numpy=_full_on_numpy,
    decomposition=Decomposition(_full_parts, needs=("reduction",)),
    vjp={"a": lambda g, a_meta, v: _full_vjp(g, v, a_meta), "v": lambda g, a, v_meta: _full_vjp(g, a, v_meta)},
    jvp=linear("a", "v"),
    sample_inputs=normal(([5], [3]), ([2], [4]), ([1], [1]), ([3], [3])),
    batch=_convolve_batch,
    doc="Return the full convolution of two vectors.",
)


def _convolve(a: Tensor, v: Tensor, mode: str) -> Tensor:
    found = convolve_full(a, v)
    short, long = sorted((a.shape[0], v.shape[0]))
    if mode == "same":
        start = (short - 1) // 2
        found = slice(found, 0, start, start + long, 1)
    elif mode == "valid":
        found = slice(found, 0, short - 1, long, 1)
    return found


_convolve_samples = normal(
    *[([n], [m], {"mode": how}) for n, m in ((5, 3), (3, 4), (4, 4), (1, 2)) for how in ("full", "same", "valid")]
)


@composite(
    'convolve(Tensor a, Tensor v, str mode="full") -> Tensor',
    sample_inputs=_convolve_samples,
)
def convolve(a: Tensor, v: Tensor, mode: str = "full") -> Tensor:
    """Return the convolution of two vectors: ``out[k]`` is the sum of ``a[i] * v[k - i]``.

    ``mode``: ``full`` (all n + m - 1 overlaps), ``same`` (the middle of these, with the length of the longer vector) or
    ``valid`` (complete overlaps). Raises ValueError unless both are vectors with elements.

    >>> tk.convolve(tk.asarray([1, 2, 3]), tk.asarray([0, 1])).tolist()
    [0, 1, 2, 3]
    """
    _check("convolve", a, v, mode)
    found = _convolve(a, v, mode)
    return found if mode == "full" else clone(found)


@composite(
    'correlate(Tensor a, Tensor v, str mode="valid") -> Tensor',
    sample_inputs=_convolve_samples,
)
def correlate(a: Tensor, v: Tensor, mode: str = "valid") -> Tensor:
    """Return the correlation of two vectors: ``out[k]`` is the sum of ``a[i + k] * conj(v[i])``; see ``tk.convolve``.

    >>> tk.correlate(tk.asarray([1, 2, 3]), tk.asarray([0, 1])).tolist()
    [2, 3]
    """
    _check("correlate", a, v, mode)

    if a.shape[0] >= v.shape[0]:
        return clone(_convolve(a, flip(conjugated(v)), mode))
    return flip(conjugated(_convolve(v, flip(conjugated(a)), mode)))


# ---- interpolation


def _interval_meta(x: Any, edges: Any) -> TensorSpec:
    if edges.ndim != 1:
        raise ValueError(f"[interp] got edges of shape {edges.shape}: they must be a vector.")
    for places in (x, edges):
        refuse_complex("interp", places.dtype)
    return TensorSpec(x.shape, int64)


def _interval_parts(x: Tensor, edges: Tensor) -> Tensor:
    return clip(insertion_places(edges, x, right=True) - 1, 0, max(edges.shape[0] - 2, 0))


interval_of = internal(
    "interval_of(Tensor x, Tensor edges) -> Tensor",
    meta=_interval_meta,
    numpy=lambda x, edges: np.clip(np.searchsorted(edges, x, "right") - 1, 0, max(len(edges) - 2, 0)).astype(np.int64),
    decomposition=checked(_interval_meta, _interval_parts, "gather"),
    sample_inputs=normal(([2, 3], np.array([0.0, 1.0, 2.0])), ([], np.array([0.5]))),
    batch=gather("x"),
    doc="Return the interval between ascending edges in which each element lies; the outer intervals are unbounded.",
)


def _interp_samples(rng: np.random.Generator) -> Any:
    xp = np.cumsum(rng.uniform(0.5, 1.5, 5))
    fp = rng.standard_normal(5)
    inside = rng.uniform(xp[0], xp[-1], (2, 3))
    return [
        ((inside, xp, fp), {}),
        ((rng.uniform(xp[0] - 2, xp[-1] + 2, 6), xp, fp), {"left": -1.0, "right": 2.0}),
        ((inside[0, 0, ...], xp, fp), {}),
        ((inside[:0], xp, fp), {}),
    ]


@composite(
    "interp(Tensor x, Tensor xp, Tensor fp, float? left=None, float? right=None, float? period=None) -> Tensor",
    sample_inputs=_interp_samples,
)
def interp(
    x: Tensor,
    xp: Tensor,
    fp: Tensor,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Tensor:
    """Evaluate the piecewise linear function through the points ``(xp, fp)`` at ``x``.

    Args: xp: vector of ascending places; fp: their values. left, right: the constants outside, by default the values at
    the ends. period: the places are taken modulo this, in any order. Differentiable with respect to ``x``, ``xp`` and
    ``fp``; at a place, the derivative with respect to ``x`` is that of the interval to its right.

    >>> tk.interp(tk.asarray([0.5, 1.0, 9.0]), tk.asarray([0.0, 1.0, 2.0]), tk.asarray([0.0, 10.0, 30.0])).tolist()
    [5.0, 10.0, 30.0]
    """
    if xp.ndim != 1 or fp.ndim != 1 or xp.shape != fp.shape or not xp.shape[0]:
        raise ValueError(
            f"[interp] xp and fp must be vectors of one length, at least 1; got shapes {xp.shape} and {fp.shape}."
        )
    x = concrete(x, xp)
    for places in (x, xp):
        if places.dtype.kind == "c":
            raise TypeError(
                f"[interp] is not defined for places of dtype {places.dtype}: complex numbers have no order."
            )
    dtype = result_dtype((x.dtype, xp.dtype, fp.dtype), (float,))
    wide = dtype if dtype.kind != "c" else result_dtype((x.dtype, xp.dtype), (float,))
    x, xp, fp = as_dtype(x, wide), as_dtype(xp, wide), as_dtype(fp, dtype)
    if period is not None:
        if period == 0:
            raise ValueError("[interp] period must not be 0.")
        size = -period if period < 0 else period
        x, xp = remainder(x, size), remainder(xp, size)
        order = argsort(xp)
        xp, fp = take(xp, order, axis=0), take(fp, order, axis=0)
        n = xp.shape[0]
        xp = concat([slice(xp, 0, n - 1, n, 1) - size, xp, slice(xp, 0, 0, 1, 1) + size])
        fp = concat([slice(fp, 0, n - 1, n, 1), fp, slice(fp, 0, 0, 1, 1)])
    n = xp.shape[0]
    first, last = select_index(xp, 0, 0), select_index(xp, 0, n - 1)
    if n == 1:
        between = fp + 0 * x
    else:
        at = interval_of(x, xp)
        low, high = take(xp, at, axis=0), take(xp, at + 1, axis=0)
        start, stop = take(fp, at, axis=0), take(fp, at + 1, axis=0)
        width = high - low
        share = (x - low) / where(equal(width, 0.0), 1.0, width)
        between = where(equal(share, 1.0), stop, start + (stop - start) * share)
    before = select_index(fp, 0, 0) if left is None or period is not None else left
    after = select_index(fp, 0, n - 1) if right is None or period is not None else right
    between = where(equal(x, last), select_index(fp, 0, n - 1), between)
    return where(less(x, first), before, where(greater(x, last), after, between))
