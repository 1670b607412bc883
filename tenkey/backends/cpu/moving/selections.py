"""Large gathers and scatters: in the loops of ``loops/gathering.py`` where these can do it."""

from __future__ import annotations

import numpy as np

from ...allocation.host import allocate
from ...llvm.compiled import UnavailableError
from ..thresholds import GATHERED, GATHERED_BYTES
from .walks import Walk, combines, gather_into, scatter_from

__all__ = ["gathered", "scattered"]


def gathered(x: np.ndarray, walk: Walk | None) -> np.ndarray | None:
    """Return what a walk selects; None if it is little, if an index is out of range, or if the loops cannot do it."""
    if walk is None or (walk.size * x.itemsize < GATHERED_BYTES if walk.has_runs else walk.size < GATHERED):
        return None
    out = allocate(walk.shape, x.dtype)
    try:
        return out if gather_into(x, walk, out) else None
    except UnavailableError:
        return None


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
        return combines(x.dtype, mode) and scatter_from(x, walk, source, mode)
    except UnavailableError:
        return False
