"""Walks: how the elements that a selection reads or writes are found, and how threads share them.

See Note [Walks] in ``loops/gathering.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ...llvm.compiled import UnavailableError, kernel
from ...llvm.language import Template
from ...llvm.value_types import of_dtype
from ..loops.gathering import (
    AXES,
    BLOCK_COLUMNS,
    INDICES_OF,
    LENGTHS,
    MOST,
    PART_LENGTH,
    UNITS,
    any_outside,
    scatter_parts,
    walk,
)
from ..loops.moves.strided_copies import UNSIGNED, copied
from ..pool.state_block import STATE

__all__ = ["Walk", "carry_out", "combines", "in_range", "walk_along", "walk_by_one", "walk_of"]

_BLOCK: Final = 1 << 13  # elements that a thread claims at once
_RUN: Final = 1 << 16  # bytes, if they are adjacent
_PART: Final = 1 << 21  # bytes of a vector into which a thread scatters at once: they stay in its cache
_PARTS: Final = 4  # the most parts; each costs a look at all indices
_PARTED: Final = 1 << 17  # bytes of a scatter that is worth the looks of several threads
_SLAB: Final = 64  # columns of a block whose rows come from anywhere: what it reads stays in the cache
_LINE: Final = 64  # bytes that come from memory together
_INT64: Final = np.dtype(np.int64)
_INT32: Final = np.dtype(np.int32)
_BYTES: Final = {size: np.dtype(f"V{size}") for size in UNSIGNED}


class _Layout(NamedTuple):
    """What a walk needs to know of an array, if it does not look at its elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


def _ramp(index: np.ndarray, length: int, total: int) -> int | None:
    """Return the axis along which the indices count 0, 1, 2, ...; None if they do anything else."""
    n = index.size
    axes = [k for k, m in enumerate(index.shape) if m > 1]
    if len(axes) != 1 or n > length or 4 * n > total:
        return None
    flat = index.reshape(n)
    return axes[0] - index.ndim if flat[-1] == n - 1 and bool((flat == np.arange(n)).all()) else None


def _regular(x: np.ndarray | _Layout) -> bool:
    """Tell whether the elements of an array, which is not empty, are whole elements apart."""
    size = x.dtype.itemsize
    return size in UNSIGNED and 0 not in x.shape and not any(step % size for step in x.strides)


def _far_apart(index: np.ndarray) -> bool:
    """Tell whether each index of a row comes from another line of memory, and the cache does not hold them all."""
    return index.ndim > 1 and abs(index.strides[-1]) > _LINE and index.nbytes > _RUN


def _integers(arrays: list[np.ndarray]) -> list[np.ndarray] | None:
    """Return indices as arrays of one dtype that the loops read; None if there is none."""
    kinds = {index.dtype for index in arrays}
    if (kinds in ({_INT64}, {_INT32})) and all(index.flags.aligned for index in arrays):
        return [copied(index) if _far_apart(index) else index for index in arrays]
    if not all(index.dtype.kind in "iu" and index.dtype != np.uint64 for index in arrays):
        return None
    return [index.astype(np.int64) for index in arrays]


class Walk(NamedTuple):
    """A selection from an array: the axes of the result, and the indexed axes."""

    shape: tuple[int, ...]
    axes: list[list[int]]
    """For each axis of the result its length, 0, the step in ``x``, and the steps in the tensors of indices."""
    indices: list[Any]
    lengths: list[int]
    strides: list[int]

    @property
    def size(self) -> int:
        """Return how many elements it selects."""
        return math.prod(self.shape)

    @property
    def has_runs(self) -> bool:
        """Tell whether an index selects several elements that follow each other."""
        return bool(self.axes) and not any(self.axes[-1][3:])


def walk_of(x: np.ndarray, indices: Sequence[np.ndarray | None]) -> Walk | None:
    """Return how ``x[indices]`` walks, for one tensor of integers or None per leading axis.

    None: the loop does not handle it, or it is an error.
    """
    at = [axis for axis, index in enumerate(indices) if index is not None]
    arrays = _integers([index for index in indices if index is not None]) if at and x.flags.aligned else None
    return None if arrays is None else _walk_of(x, len(indices), at, arrays)


def _walk_of(x: Any, depth: int, at: list[int], arrays: list[Any]) -> Walk | None:
    """Return how a selection walks by indices of the axes ``at`` among ``depth`` leading ones; layouts will do."""
    if depth > x.ndim or not _regular(x):
        return None
    try:
        common = arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*[index.shape for index in arrays])
    except ValueError:
        return None
    total = math.prod(common)
    if not total:
        return None
    before = at[0] if at[-1] - at[0] == len(at) - 1 else 0
    middle = [[n, 0, 0, 0, 0, 0] for n in common]
    used: list[Any] = []
    lengths, strides = [], []
    for axis, index in zip(at, arrays, strict=True):
        ramp = _ramp(index, x.shape[axis], total) if len(arrays) > 1 else None
        if ramp is not None:
            middle[ramp][2] += x.strides[axis]
            continue
        if len(used) == MOST:
            return None
        for k in range(1, index.ndim + 1):
            if index.shape[-k] != 1:
                middle[-k][3 + len(used)] = index.strides[-k]
        used.append(index)
        lengths.append(x.shape[axis])
        strides.append(x.strides[axis])
    if not used:
        return None
    rest = [[x.shape[k], 0, x.strides[k], 0, 0, 0] for k in range(x.ndim) if k not in at]
    axes = [*rest[:before], *middle, *rest[before:]]
    return Walk(tuple([axis[0] for axis in axes]), axes, used, lengths, strides)


def walk_along(x: np.ndarray, index: np.ndarray, axis: int) -> Walk | None:
    """Return how ``take_along_axis`` walks: ``x`` and the indices broadcast in all dimensions but ``axis``."""
    found = _integers([index]) if x.flags.aligned else None
    return None if found is None else _walk_along(x, found[0], axis)


def _walk_along(x: Any, index: Any, axis: int) -> Walk | None:
    """Return how ``take_along_axis`` walks; layouts will do."""
    axis = axis % x.ndim if x.ndim else 0
    if index.ndim != x.ndim or not index.ndim or 0 in index.shape or not _regular(x):
        return None
    axes = []
    for k, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)):
        if k != axis and n != m and 1 not in (n, m):
            return None
        x_step = 0 if k == axis or n == 1 else x.strides[k]
        axes.append([m if k == axis else max(n, m), 0, x_step, 0 if m == 1 else index.strides[k], 0, 0])
    return Walk(tuple([one[0] for one in axes]), axes, [index], [x.shape[axis]], [x.strides[axis]])


def in_range(walk_: Walk) -> bool:
    """Tell whether all indices are in range, before anything is written; False if no loop can look at them."""
    for index, length in zip(walk_.indices, walk_.lengths, strict=True):
        if length > np.iinfo(index.dtype).max:
            continue
        if index.flags.c_contiguous:
            try:
                if kernel(any_outside, INDEX=INDICES_OF[index.dtype])(STATE, index, index.size, length):
                    return False
            except UnavailableError:
                return False
        elif int(index.min()) < -length or int(index.max()) >= length:
            return False
    return True


def _merged(axes: list[list[int]], strides: Sequence[int]) -> list[list[int]]:
    """Return the axes with the steps in the other array; those that continue each other become one."""
    found: list[list[int]] = []
    for axis, step in zip(axes, strides, strict=True):
        n = axis[0]
        if n == 1:
            continue
        new = [n, step, *axis[2:]]
        if found and all(outer == n * inner for outer, inner in zip(found[-1][1:], new[1:], strict=True)):
            new[0] = n * found.pop()[0]
        found.append(new)
    return found


_NO_AXIS: Final = [1, 0, 0, 0, 0, 0]


@cache
def _kernel(
    template: Template, dtype: np.dtype, index: np.dtype, mode: str, runs: bool, count: int = 0
) -> Callable[..., Any]:
    """Return a kernel for elements of a dtype, of which V stands for bytes of any meaning."""
    T = UNSIGNED[dtype.itemsize] if dtype.kind == "V" else of_dtype(dtype)
    statics = {"T": T, "INDEX": INDICES_OF[index], "MODE": mode, "RUNS": runs}
    return kernel(template, **statics, **({"COUNT": count} if count else {}))


def _is_run(axis: list[int], size: int) -> bool:
    return axis[1] == axis[2] == size and not any(axis[3:])


def _whole(size: int, strides: list[int], axes: list[list[int]]) -> bool:
    """Tell whether ``x`` consists of elements of so many bytes."""
    return size in UNSIGNED and not any(step % size for step in (*strides, *[axis[2] for axis in axes]))


def _planned(
    walk_: Walk, dtype: np.dtype, strides: tuple[int, ...], mode: str
) -> tuple[Callable[..., Any], np.ndarray]:
    """Return the kernel and the plan for a walk with another array of the same dtype, which has these strides."""
    whole = dtype.itemsize
    if mode not in ("get", "set"):
        if dtype.kind == "b":
            dtype, mode = np.dtype(np.uint8), {"add": "maximum", "multiply": "minimum"}.get(mode, mode)
        elif dtype.kind == "c":
            dtype = np.dtype(f"f{whole // 2}")
    size = dtype.itemsize
    axes = _merged(walk_.axes, strides)
    if size != whole:  # complex numbers are pairs
        axes.append([2, size, size, 0, 0, 0])
    total = math.prod([axis[0] for axis in axes])
    column = axes.pop() if axes else _NO_AXIS
    wide = column[0] * size
    if mode in ("get", "set") and _is_run(column, size) and axes and _whole(wide, walk_.strides, axes):
        size = wide  # a run of few bytes is one element
        column = axes.pop()
    # one element for all columns; those of 16 bytes have no vectors
    if mode == "set" and column[1:3] == [0, size] and not any(column[3:]) and size in UNSIGNED and size < 16:
        mode = "fill"
    runs = mode == "fill" or _is_run(column, size)
    block = _RUN // size if runs else _BLOCK
    ordered: list[list[int]] = []
    wide = column[0]
    if mode == "get":
        row = axes.pop() if axes else _NO_AXIS
        if column[2] and not runs and not row[2]:
            wide = min(wide, _SLAB)
        wide = min(wide, block)
        many = min(row[0], max(1, block // wide))
    else:
        ordered = [axis for axis in axes if not axis[2]]
        axes = [axis for axis in axes if axis[2]]
        row = ordered.pop() if ordered and (column[2] or ordered) else _NO_AXIS
        many = row[0]
        if column[2]:  # cut the columns into parts of some size, but not into less than 256 bytes
            wide = min(wide, max(256 // size, -(-wide * block // total)))
    turns = math.prod([axis[0] for axis in ordered])
    units = -(-column[0] // wide) * -(-row[0] // many) * math.prod([axis[0] for axis in axes])
    count = len(walk_.indices)
    missing = MOST - count
    plan = np.array(
        [
            *[0] * LENGTHS, *walk_.lengths, *[0] * missing, *walk_.strides, *[0] * missing, 0, many, wide, len(axes),
            len(ordered), turns, units, max(1, block // (many * wide * turns)), *column, *row,
            *[word for axis in [*axes[::-1], *ordered[::-1]] for word in axis],
        ],
        np.int64,
    )  # fmt: skip
    index = walk_.indices[0].dtype
    if mode in ("get", "set", "fill"):
        in_bytes = runs and mode != "fill"
        if in_bytes:
            plan[BLOCK_COLUMNS], plan[AXES : AXES + 3] = wide * size, (column[0] * size, 1, 1)
        dtype = _BYTES[1 if in_bytes else size]
    by_index = row if runs else column
    # along an axis of ``x`` no two elements share a place: the threads divide it, without parts
    alone = by_index[2:4] == [0, index.itemsize] and len(axes) == len(ordered) == 0
    if mode != "get" and count == 1 and alone and total * size >= _PARTED:
        length, stride = walk_.lengths[0], abs(walk_.strides[0])
        parts = min(max(2, length * stride // _PART), _PARTS, length)
        if (runs or row[0] == 1) and by_index[0] < 1 << 31:
            plan[PART_LENGTH] = part = -(-length // parts)
            plan[UNITS] = -(-length // part)
            return _kernel(scatter_parts, dtype, index, mode, runs), plan
    return _kernel(walk, dtype, index, mode, runs, count), plan


def carry_out(x: np.ndarray, walk_: Walk, other: np.ndarray, mode: str) -> bool:
    """Gather into another array (``get``) or scatter from it; tell whether all indices are in range.

    ``other`` has the dtype of ``x`` and the shape of the selection. An index out of range stands for 0.
    """
    call, plan = _planned(walk_, x.dtype, other.strides, mode)
    return not call(STATE, plan, x, other, *(walk_.indices * MOST)[:MOST])


@lru_cache(maxsize=1024)
def _known(
    mode: str, along: bool, axis: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...],
    index: np.dtype, index_shape: tuple[int, ...], index_strides: tuple[int, ...],
    other_shape: tuple[int, ...], other: tuple[int, ...],
) -> tuple[Callable[..., Any], np.ndarray] | None:  # fmt: skip
    """Return the kernel and the plan for a walk by one tensor of indices, and remember them; None as from walks."""
    ndim = len(shape)
    if index not in INDICES_OF or not -ndim <= axis < ndim:
        return None
    x, at = _Layout(shape, strides, dtype), _Layout(index_shape, index_strides, index)
    walk_ = _walk_along(x, at, axis) if along else _walk_of(x, axis + 1, [axis], [at])
    if walk_ is None or walk_.shape != other_shape:
        return None
    axis = axis % ndim
    if along and mode != "get" and (shape[:axis], shape[axis + 1 :]) != (other_shape[:axis], other_shape[axis + 1 :]):
        return None  # several threads would write to places that rows share
    return _planned(walk_, dtype, other, mode)


def walk_by_one(x: np.ndarray, index: np.ndarray, axis: int, other: np.ndarray, mode: str, along: bool) -> bool:
    """Gather into or scatter from another array by one tensor of indices; tell whether all are in range.

    False also if the walk is none that ``walk_along`` or, unless ``along``, ``walk_of`` finds without copying indices.
    """
    found = _known(
        mode, along, axis, x.dtype, x.shape, x.strides, index.dtype, index.shape, index.strides, other.shape,
        other.strides,
    )  # fmt: skip
    if found is None or not (x.flags.aligned and index.flags.aligned and other.flags.aligned) or _far_apart(index):
        return False
    call, plan = found
    return not call(STATE, plan.copy(), x, other, index, index, index)


def combines(dtype: np.dtype, mode: str) -> bool:
    """Return whether scatter supports a mode for a dtype."""
    return mode == "set" or dtype.kind in "biuf" or (dtype.kind == "c" and mode == "add")
