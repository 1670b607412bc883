"""Copies: to another dtype, to another device, into another tensor; flipping, joining."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.device import META, Device
from ....core.dtypes.names import default_float
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ...declare import (
    FEW,
    Decomposition,
    Entry,
    TensorSpec,
    along,
    composite,
    internal,
    internal_composite,
    linear,
    normal,
    same_dim,
    structured,
)
from ...shapes import broadcast_shapes, normalize_axes, normalize_axis
from ..creation import arange
from ..elementwise.complex import like_operand
from ..primitives import gather_rows
from .views import broadcast_to, expand_dims, reshape, slice

clone = internal(
    "clone(Tensor x) -> Tensor",
    meta=lambda x: TensorSpec(x.shape, x.dtype),
    vjp={"x": lambda g: g},
    jvp=linear("x"),
    sample_inputs=normal([3, 4], [], [0, 2]),
    batch=same_dim,
    methods=("clone", "copy"),
    doc="""A contiguous copy.

    >>> x = tk.asarray([1.0])
    >>> tk.shares_storage(x, x.clone())
    False
    """,
)

cast: Entry = structured(
    "cast(Tensor x, DType dtype) -> Tensor",
    meta=lambda x, dtype: TensorSpec(x.shape, dtype),
    vjp={"x": lambda g, x_meta: cast(g, x_meta.dtype)},
    jvp=linear("x"),
    sample_inputs=normal(([3, 4], np.dtype("float64")), ([], np.dtype("complex128")), ([0, 2], np.dtype("float32"))),
    batch=same_dim,
)


def _numpy_astype(x: np.ndarray, dtype: np.dtype, *, copy: bool = True, device: Device | None = None) -> Any:
    if not copy or device is not None or x.nbytes > FEW or x.dtype.kind == "c":
        return NotImplemented
    return x.astype(dtype, "C")


@composite(
    "astype(Tensor x, DType dtype, *, bool copy=True, Device? device=None) -> Tensor",
    numpy=_numpy_astype,
    sample_inputs=normal(([3, 4], np.dtype("complex128"))),
    methods=("astype",),
)
def astype(x: Tensor, dtype: np.dtype, *, copy: bool = True, device: Device | None = None) -> Tensor:
    """The values in another dtype, on another ``device`` if one is named.

    Floats become integers by cutting off the fraction, numbers bools by the test against zero. Without ``copy`` it is
    the tensor itself where it has the dtype and is there already. Raises TypeError for complex numbers that would
    become real ones.

    >>> tk.astype(tk.asarray([1.9, -1.9]), tk.int64).tolist()
    [1, -1]
    """
    if x.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"[astype] {x.dtype} to {dtype} would lose the imaginary part: take tk.real(x) first.")
    if device is not None and device is not x.device:
        return to_device(x if dtype == x.dtype else cast(x, dtype), device)
    return x if dtype == x.dtype and not copy else cast(x, dtype)


def as_dtype(x: Tensor, dtype: np.dtype) -> Tensor:
    """Return the tensor in this dtype: itself if it has it already."""
    return x if x.dtype == dtype else cast(x, dtype)


def floating(x: Tensor) -> Tensor:
    """Return integers and bools as floats of the default dtype, and other tensors as they are."""
    return cast(x, default_float()) if x.dtype.kind in "biu" else x


to_device: Entry = internal(
    "to_device(Tensor x, Device device, *, bool non_blocking=False) -> Tensor",
    meta=lambda x, device, non_blocking=False: TensorSpec(x.shape, x.dtype),
    vjp={"x": lambda g, x_meta: to_device(g, x_meta.device)},
    jvp=linear("x"),
    sample_inputs=lambda rng: [((rng.standard_normal((3, 4)), META), {})],
    batch=same_dim,
    doc="""Copy to another device; return the tensor itself if it is there already.

    With ``non_blocking`` the call does not wait for the copy where the host memory is pinned.

    >>> str(tk.asarray([1.0]).to_device("meta").device)
    'meta'
    """,
)


@internal_composite(
    "to(Tensor x, *, DType? dtype=None, Device? device=None, bool non_blocking=False) -> Tensor",
    sample_inputs=normal(([3, 4], {"dtype": np.dtype("complex128")})),
)
def to(x: Tensor, *, dtype: np.dtype | None = None, device: Device | None = None, non_blocking: bool = False) -> Tensor:
    """Convert to another dtype, another device, or both."""
    moved = x if device is None or device is x.device else to_device(x, device, non_blocking=non_blocking)
    return moved if dtype is None else astype(moved, dtype, copy=False)


def _flip_meta(x: Tensor, *, axis: Any = None) -> TensorSpec:
    normalize_axes("flip", axis, x.ndim)
    return TensorSpec(x.shape, x.dtype)


def _flip_parts(x: Tensor, *, axis: Any = None) -> Tensor:
    made = x
    for i in normalize_axes("flip", axis, x.ndim):
        n = x.shape[i]
        rows = reshape(made, (math.prod(x.shape[:i]), n, math.prod(x.shape[i + 1 :])))
        index = reshape((n - 1) - arange(n, device=x.device), (1, n, 1))
        made = gather_rows(rows, index, "flip")
    return clone(x) if made is x else reshape(made, x.shape)


flip: Entry = structured(
    "flip(Tensor x, *, int[1]? axis=None) -> Tensor",
    meta=_flip_meta,
    decomposition=Decomposition(_flip_parts, needs=("gather",)),
    vjp={"x": lambda g, axis: flip(g, axis=axis)},
    jvp=linear("x"),
    sample_inputs=lambda rng: [
        ((rng.standard_normal(shape),), {"axis": axis})
        for shape, axis in (((3, 4), 1), ((3, 4), None), ((2, 3, 2), (0, -1)), ((3,), -1), ((), None), ((0, 2), 0))
    ],
    batch=along("axis"),
    methods=("flip",),
    positional=1,
    doc="""Reverse the order of the elements along axes; a copy.

    >>> tk.flip(tk.asarray([1, 2, 3])).tolist()
    [3, 2, 1]
    """,
)


def _concat_meta(arrays: Sequence[Tensor], *, axis: int = 0) -> TensorSpec:
    if not arrays:
        raise ValueError("[concat] needs at least one tensor.")
    first = arrays[0]
    i = normalize_axis("concat", axis, first.ndim)
    for x in arrays:
        if x.ndim != first.ndim or any(n != m for k, (n, m) in enumerate(zip(x.shape, first.shape)) if k != i):
            shapes = " and ".join(str(x.shape) for x in arrays)
            raise ValueError(f"[concat] the shapes {shapes} must agree in every dimension but axis {i}.")
    shape = (*first.shape[:i], sum(x.shape[i] for x in arrays), *first.shape[i + 1 :])
    return TensorSpec(shape, result_dtype(tuple(x.dtype for x in arrays), ()))


def _concat_vjp(g: Tensor, arrays_meta: Any, axis: int) -> list[Tensor]:
    parts: list[Tensor] = []
    start = 0
    for meta in arrays_meta:
        n = meta.shape[axis]
        parts.append(like_operand(slice(g, axis, start, start + n, 1), meta))
        start += n
    return parts


concatenate = structured(
    "concatenate(Tensor[] arrays, *, int axis=0) -> Tensor",
    autocast="widest",
    meta=_concat_meta,
    vjp={"arrays": _concat_vjp},
    jvp=linear("arrays"),
    sample_inputs=normal((([2, 3], [1, 3]), {"axis": 0}), (([2, 1], [2, 0], [2, 2]), {"axis": -1}), (([3],),)),
    batch=along("axis"),
)


def _concat_any_vjp(g: Tensor, arrays_meta: Any, axis: int | None) -> list[Tensor]:
    if axis is not None:
        return _concat_vjp(g, arrays_meta, axis)
    parts: list[Tensor] = []
    start = 0
    for meta in arrays_meta:
        n = math.prod(meta.shape)
        parts.append(like_operand(reshape(slice(g, 0, start, start + n, 1), meta.shape), meta))
        start += n
    return parts


def _numpy_concat(arrays: Sequence[np.ndarray], *, axis: int | None = 0) -> Any:
    dtype = arrays[0].dtype
    if arrays[0].nbytes * len(arrays) > FEW:
        return NotImplemented
    for a in arrays:
        if a.dtype is not dtype:
            return NotImplemented
    return numpy_functions.concatenate(arrays, axis)


@composite(
    "concat(Tensor[] arrays, *, int? axis=0) -> Tensor",
    autocast="widest",
    numpy=_numpy_concat,
    quiet=True,
    vjp={"arrays": _concat_any_vjp},
    jvp=linear("arrays"),
    sample_inputs=normal((([2, 3], [2, 1]), {"axis": 1}), (([2, 3], []), {"axis": None})),
    positional=1,
)
def concat(arrays: Sequence[Tensor], *, axis: int | None = 0) -> Tensor:
    """Join tensors along an existing axis; ``axis=None`` flattens them first.

    >>> tk.concat([tk.asarray([1, 2]), tk.asarray([3])]).tolist()
    [1, 2, 3]
    """
    if not arrays:
        raise ValueError("[concat] needs at least one tensor.")
    if axis is None:
        arrays, axis = [reshape(x, (-1,)) for x in arrays], 0
    return concatenate(list(arrays), axis=axis)


def _numpy_stack(arrays: Sequence[np.ndarray], *, axis: int = 0) -> Any:
    first = arrays[0]
    shape, dtype = first.shape, first.dtype
    for a in arrays:
        if a.dtype is not dtype or a.shape != shape:
            return NotImplemented
    ndim = len(shape)
    if first.nbytes * len(arrays) > FEW:
        return NotImplemented
    if axis in (ndim, -1):
        out = np.empty((*shape, len(arrays)), dtype)
        for k, a in enumerate(arrays):
            out[..., k] = a
        return out
    if not 0 <= axis < ndim:
        return NotImplemented
    return numpy_functions.concatenate(arrays, axis).reshape(*shape[:axis], len(arrays), *shape[axis:])


@composite(
    "stack(Tensor[] arrays, *, int axis=0) -> Tensor",
    autocast="widest",
    numpy=_numpy_stack,
    quiet=True,
    sample_inputs=lambda rng: [
        (([rng.standard_normal(shape), rng.standard_normal(shape)],), {"axis": axis})
        for shape, axis in (((2, 3), 1), ((2, 3), -1), ((), 0), ((0, 2), 0))
    ],
    positional=1,
)
def stack(arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    """Join tensors of the same shape along a new axis.

    >>> tk.stack([tk.asarray([1, 2]), tk.asarray([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    if not arrays:
        raise ValueError("[stack] needs at least one tensor.")
    shape = arrays[0].shape
    for x in arrays:
        if x.shape != shape:
            raise ValueError(
                f"[stack] the shapes {' and '.join(str(x.shape) for x in arrays)} must all be the same: tk.concat "
                "joins along an axis that exists."
            )
    i = normalize_axis("stack", axis, len(shape) + 1)
    if i == len(shape):
        return concatenate([expand_dims(x, i) for x in arrays], axis=i)
    joined = concatenate(arrays, axis=i)  # one after the other along axis i, which is then cut into the two
    return reshape(joined, (*shape[:i], len(arrays), *shape[i:]))


@internal_composite("expand_as(Tensor x, Tensor other) -> Tensor", sample_inputs=normal(([3, 1], [2, 3, 4])))
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of another tensor."""
    if broadcast_shapes("expand_as", x.shape, other.shape) != other.shape:
        raise ValueError(f"[expand_as] a tensor of shape {x.shape} cannot be broadcast to {other.shape}.")
    return broadcast_to(x, other.shape)
