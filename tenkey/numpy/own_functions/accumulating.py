"""``ufunc.at`` over operators, with gradients."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor, from_host
from ...core.tree import map_tensors
from ...interop.numpy_fallback import op
from ..converting import cast, operand

__all__ = ["apply_at"]

_RANK: Final = {"b": 0, "u": 0, "i": 0, "f": 1, "V": 1, "c": 2}


def apply_at(function: Any, a: Tensor, indices: Any, b: Any = None) -> None:
    """Apply a ufunc in place at indices; to an element that occurs several times one time after another.

    Sums are one ``index_add``. Other functions need as many calls as the most frequent element has occurrences.
    """
    on_host = map_tensors(lambda x: x._to_numpy("at"), (indices,))[0]
    places = np.arange(a.size).reshape(a.shape)[on_host]
    values = None
    if b is not None:
        values = op("reshape")(op("broadcast_to")(operand(b), places.shape), (-1,))
        if _RANK[values.dtype.kind] > _RANK[a.dtype.kind]:
            raise TypeError(
                f"[numpy.{function.__name__}.at] Cannot cast the result from {values.dtype!r} to {a.dtype!r} according "
                "to the rule 'same_kind'"
            )
    flat_places = places.reshape(-1)
    if not flat_places.size:
        return
    flat = op("reshape")(a, (-1,))
    if values is not None and function.__name__ in ("add", "subtract") and a.dtype.kind in "iufc":
        sign = -1 if function.__name__ == "subtract" else 1
        source = op("multiply")(cast(values, a.dtype), sign) if sign < 0 else cast(values, a.dtype)
        flat = op("index_add")(flat, from_host(flat_places, a.device), source, axis=0)
    else:
        for chosen in _rounds(flat_places):
            at = from_host(flat_places[chosen], a.device)
            given = [op("take")(flat, at, axis=0)]
            if values is not None:
                given.append(op("take")(values, from_host(chosen, a.device), axis=0))
            flat = op("clone")(flat)
            flat[at] = cast(function(*given), a.dtype)
    a.copy_(op("reshape")(flat, a.shape))


def _rounds(places: np.ndarray) -> list[np.ndarray]:
    """Return the positions of the first occurrences, of the second ones, and so on."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(places)])
    rank = np.empty(len(places), np.int64)
    rank[order] = np.arange(len(places)) - np.repeat(starts, lengths)
    return [np.flatnonzero(rank == k) for k in range(int(rank.max()) + 1)]
