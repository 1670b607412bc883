"""Large gathers and scatters: in the loops of ``loops/gathering.py`` where these can do it."""

from __future__ import annotations

import numpy as np

from ...allocation.host import allocate
from ...llvm.compiled import UnavailableError
from ..thresholds import GATHERED, GATHERED_BYTES
from .walks import Walk, carry_out, combines, walk_by_one

__all__ = ["gathered", "gathered_by_one", "scattered", "scattered_by_one"]


def gathered(x: np.ndarray, walk: Walk | None) -> np.ndarray | None:
    """Return what a walk selects; None if it is little, if an index is out of range, or if the loops cannot do it."""
    if walk is None or (walk.size * x.itemsize < GATHERED_BYTES if walk.has_runs else walk.size < GATHERED):
        return None
    out = allocate(walk.shape, x.dtype)
    try:
        return out if carry_out(x, walk, out, "get") else None
    except UnavailableError:
        return None


def gathered_by_one(
    x: np.ndarray, index: np.ndarray, axis: int, shape: tuple[int, ...], along: bool
) -> np.ndarray | None:
    """Return what one tensor of indices selects, of this shape; None if the loops cannot do it, as in ``gathered``."""
    out = allocate(shape, x.dtype)
    try:
        return out if walk_by_one(x, index, axis, out, "get", along) else None
    except UnavailableError:
        return None


def scattered_by_one(x: np.ndarray, index: np.ndarray, axis: int, source: np.ndarray, mode: str, along: bool) -> bool:
    """Combine what one tensor of indices selects with a source of the same shape, as ``scattered`` does."""
    try:
        return combines(x.dtype, mode) and walk_by_one(x, index, axis, source, mode, along)
    except UnavailableError:
        return False


def scattered(x: np.ndarray, walk: Walk | None, source: np.ndarray, mode: str) -> bool:
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
