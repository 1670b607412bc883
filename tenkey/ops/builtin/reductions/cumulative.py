"""Cumulative sums and products along an axis, and the recurrence that differentiates the latter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import SUM, Entry, TensorSpec, along, checked, composite, internal, linear, normal, scan
from ...shapes import normalize_axis
from ..elementwise.complex import conjugated, like_operand
from ..shape.copying import cast, concat, flip
from ..shape.manipulation import roll
from ..shape.views import reshape, slice


def _cumulative_on_numpy(accumulate: Any, identity: int) -> Callable[..., np.ndarray]:
    def on_numpy(
        x: np.ndarray, *, axis: int | None = None, dtype: np.dtype | None = None, include_initial: bool = False
    ) -> np.ndarray:
        if axis is None and x.ndim != 1:
            raise ValueError
        i = 0 if axis is None else axis
        wanted = dtype or (x.dtype if x.dtype.kind in "fc" else SUM.dtypes("", (x.dtype,))[1])
        if dtype is not None and x.dtype.kind == "c" and dtype.kind not in "cb":
            raise TypeError
        if wanted.kind == "b":  # the sum and product of bools are "or" and "and" in NumPy
            x = x.astype(bool)
        if not include_initial:
            return accumulate(x, i, wanted)  # type: ignore[no-any-return]
        if not -x.ndim <= i < x.ndim:
            raise IndexError
        i %= x.ndim
        out = np.empty((*x.shape[:i], x.shape[i] + 1, *x.shape[i + 1 :]), wanted)
        lead: tuple[Any, ...] = (np.s_[:],) * i
        out[(*lead, 0)] = identity
        accumulate(x, i, wanted, out[(*lead, np.s_[1:])])
        return out

    return on_numpy


_cumulative_samples = normal(
    [5],
    ([3, 4], {"axis": 0}),
    ([3, 4], {"axis": -1, "include_initial": True}),
    ([4], {"dtype": np.dtype("complex128")}),
    ([0, 3], {"axis": 0, "include_initial": True}),
    ([0, 3], {"axis": 1}),
)
_cumulative: Final = partial(scan, autocast="float32", promote=SUM, strict=True, sample_inputs=_cumulative_samples)


def _to_input(g: Tensor, meta: Any) -> Tensor:
    """Return a gradient in the dtype of the input; for real data, its real part."""
    g = like_operand(g, meta)
    return g if g.dtype == meta.dtype else cast(g, meta.dtype)


def _without_initial(g: Tensor, axis: int, include_initial: bool) -> Tensor:
    return slice(g, axis, 1, g.shape[axis], 1) if include_initial else g


def _cumulative_sum_vjp(g: Tensor, x_meta: Any, axis: int | None, include_initial: bool) -> Tensor:
    i = 0 if axis is None else normalize_axis("cumulative_sum", axis, g.ndim)
    rest = flip(_without_initial(g, i, include_initial), axis=i)
    return _to_input(flip(cumulative_sum(rest, axis=i), axis=i), x_meta)


cumulative_sum: Entry = _cumulative(
    "cumulative_sum(Tensor x, *, int? axis=None, DType? dtype=None, bool include_initial=False) -> Tensor",
    combine=lambda T: lambda a, b: a + b,
    identity=0,
    numpy=_cumulative_on_numpy(np.add.accumulate, 0),
    vjp={"x": _cumulative_sum_vjp},
    jvp=linear("x"),
    doc="""Return the cumulative sums along an axis, which may be left out for one dimension.

    With ``include_initial`` a zero comes first, and the axis is longer by one. Integers and bools are summed in 64 bits
    unless ``dtype`` says otherwise. Raises ValueError for several dimensions without an axis.

    >>> tk.cumulative_sum(tk.asarray([1, 2, 3])).tolist()
    [1, 3, 6]
    >>> tk.cumulative_sum(tk.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """,
)


def _recurrence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute ``y[0] = b[0]``, ``y[i] = a[i - 1] * y[i - 1] + b[i]`` along axis 0.

    Blocks of about the square root of the length are computed all at once, and then joined.
    """
    n = b.shape[0]
    out = b.copy()
    if n <= 32:
        for i in range(1, n):
            out[i] += a[i - 1] * out[i - 1]
        return out
    width = int(n**0.5)
    blocks = -(-n // width)
    padded = np.zeros((blocks * width, *b.shape[1:]), b.dtype)
    padded[:n] = b
    factors = np.zeros_like(padded)
    factors[1:n] = a[: n - 1]
    padded = padded.reshape(blocks, width, *b.shape[1:])
    factors = factors.reshape(padded.shape)
    for i in range(1, width):
        padded[:, i] += factors[:, i] * padded[:, i - 1]
        factors[:, i] *= factors[:, i - 1]  # the factor of the end of the previous block
    ends = _recurrence(factors[1:, -1], padded[:, -1])
    padded[1:] += factors[1:] * ends[:-1, None]
    return padded.reshape(blocks * width, *b.shape[1:])[:n]


def _numpy_recurrence(a: np.ndarray, b: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    first, second = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    if reverse:
        first, second = np.concatenate([first[-2::-1], first[:1]]) if len(first) > 1 else first, second[::-1]
    out = _recurrence(first, second)
    return np.moveaxis(out[::-1] if reverse else out, 0, axis)


def _recurrence_vjp(g: Tensor, a: Tensor, out: Tensor, axis: int, reverse: bool) -> Tensor:
    # h[i + 1] * conj(y[i]) forward, h[i] * conj(y[i + 1]) in reverse; the last factor is not used
    h = linear_recurrence(conjugated(a), g, axis, not reverse)
    y = conjugated(out)
    n = g.shape[axis]
    if n == 0:
        return h
    later, sooner = (y, h) if reverse else (h, y)
    product = slice(later, axis, 1, n, 1) * slice(sooner, axis, 0, n - 1, 1)
    last = slice(g, axis, 0, 1, 1)
    return concat([product, last * 0], axis=axis)


def _affine_scan(a: np.ndarray, b: np.ndarray, axis: int, reverse: bool = False) -> np.ndarray:
    a, b = np.broadcast_arrays(a, b)
    dtype = result_dtype((a.dtype, b.dtype), ())
    a, b = [np.moveaxis(x, axis, 0).astype(dtype, copy=False) for x in (a, b)]
    if reverse:
        return np.moveaxis(_recurrence(a[-2::-1], b[::-1])[::-1], 0, axis)
    return np.moveaxis(_recurrence(a[1:], b), 0, axis)


affine_scan: Entry = scan(
    "affine_scan(Tensor a, Tensor b, int axis, bool reverse=False) -> Tensor",
    combine=lambda T: lambda a0, b0, a1, b1: (a0 * a1, b0 * a1 + b1),
    identity=(1, 0),
    numpy=_affine_scan,
    differentiable=False,
    sample_inputs=normal(([4, 2], [4, 2], 0), ([2, 5], [1, 5], 1, True), ([1], [1], 0), ([0, 2], [0, 2], 0)),
    tags=(Tag.INTERNAL,),
    doc="""Solve ``y[i] = b[i] + a[i] * y[i - 1]`` along an axis, or with ``y[i + 1]`` in ``reverse``.

    The first factor is not used.
    """,
)


def _recurrence_meta(a: Tensor, b: Tensor, axis: int, reverse: bool) -> TensorSpec:
    normalize_axis("linear_recurrence", axis, b.ndim)
    if a.shape != b.shape:
        raise ValueError(f"[linear_recurrence] the shapes {a.shape} and {b.shape} must be the same.")
    return TensorSpec(b.shape, b.dtype)


def _recurrence_by_scan(a: Tensor, b: Tensor, axis: int, reverse: bool) -> Tensor:
    n = b.shape[axis]
    if not reverse and n > 1:  # the factor of an element is that of the one before it
        a = concat([slice(a, axis, 0, 1, 1), slice(a, axis, 0, n - 1, 1)], axis=axis)
    return affine_scan(a, b, axis, reverse)


linear_recurrence: Entry = internal(
    "linear_recurrence(Tensor a, Tensor b, int axis, bool reverse) -> Tensor",
    meta=_recurrence_meta,
    numpy=_numpy_recurrence,
    decomposition=checked(_recurrence_meta, _recurrence_by_scan, "scan"),
    vjp={"a": _recurrence_vjp, "b": lambda g, a, axis, reverse: linear_recurrence(conjugated(a), g, axis, not reverse)},
    sample_inputs=normal(
        *[(n, n, i, back) for n, i in (([4, 2], 0), ([2, 5], 1), ([1], 0), ([0, 2], 0)) for back in (False, True)]
    ),
    batch=along("axis"),
    doc="""Solve ``y[i] = b[i] + a[i - 1] * y[i - 1]`` along an axis; in ``reverse``, ``y[i] = b[i] + a[i] * y[i + 1]``.

    Each is the adjoint of the other. The last factor of ``a`` is not used.
    """,
)


def _cumulative_prod_vjp(
    g: Tensor, x: Tensor, axis: int | None, dtype: np.dtype | None, include_initial: bool
) -> Tensor:
    # d/dx[i] is x[0] ... x[i-1] times the sum of g[k] * x[i+1] ... x[k]: without division, so correct at zeros too
    i = 0 if axis is None else normalize_axis("cumulative_prod", axis, x.ndim)
    n = x.shape[i]
    values = conjugated(x if dtype is None or dtype == x.dtype else cast(x, dtype))
    before = slice(cumulative_prod(values, axis=i, include_initial=True), i, 0, n, 1)
    rest = linear_recurrence(roll(values, -1, axis=i), _without_initial(g, i, include_initial), i, True)
    return _to_input(before * rest, x)


cumulative_prod: Entry = _cumulative(
    "cumulative_prod(Tensor x, *, int? axis=None, DType? dtype=None, bool include_initial=False) -> Tensor",
    combine=lambda T: lambda a, b: a * b,
    identity=1,
    numpy=_cumulative_on_numpy(np.multiply.accumulate, 1),
    vjp={"x": _cumulative_prod_vjp},
    doc="""Return the cumulative products along an axis, which may be left out for one dimension.

    With ``include_initial`` a one comes first, and the axis is longer by one. Integers and bools are multiplied in 64
    bits unless ``dtype`` says otherwise. The gradient is correct at zeros too. Raises ValueError for several dimensions
    without an axis.

    >>> tk.cumulative_prod(tk.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 6.0]
    """,
)


# ---- NumPy's names


_samples = normal(([3, 4], {"axis": 1}), [3, 4], ([2, 0], {"axis": 0}), [])


def _flattening(name: str, accumulate: Entry, what: str, shown: str) -> Entry:
    @composite(
        f"{name}(Tensor x, int? axis=None, *, DType? dtype=None) -> Tensor",
        sample_inputs=_samples,
        doc=f"""Return the cumulative {what} along an axis, or of the flattened tensor.

    >>> tk.{name}(tk.asarray([[1, 2], [3, 4]])).tolist()
    {shown}
    """,
    )
    def function(x: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        return accumulate(reshape(x, (-1,)) if axis is None else x, axis=axis, dtype=dtype)

    return function


cumsum = _flattening("cumsum", cumulative_sum, "sums", "[1, 3, 6, 10]")
cumprod = _flattening("cumprod", cumulative_prod, "products", "[1, 2, 6, 24]")
