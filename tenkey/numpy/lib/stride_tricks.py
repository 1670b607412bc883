"""Windows on arrays, as ``numpy.lib.stride_tricks`` makes them: copies with gradients in the place of views."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.shapes import normalize_axis
from ..known import functions

__all__ = ["as_strided", "sliding_window_view"]


def as_strided(
    x: Any, shape: Sequence[int] | None = None, strides: Sequence[int] | None = None, subok: bool = False,
    writeable: bool = True,
) -> Any:  # fmt: skip
    """Return the elements of ``x`` at the places that a shape and strides in bytes describe.

    NumPy's function returns a view, and reads foreign memory if the strides lead there. This one copies, so that the
    elements have a gradient and assigning to the result does not change ``x``. Raises ValueError for places outside
    of ``x``. ``subok`` and ``writeable`` have no effect.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.arange(5)
    >>> tnp.lib.stride_tricks.as_strided(x, (3, 2), (x.strides[0],) * 2).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    x = functions["asarray"](x)
    lengths = x.shape if shape is None else tuple([operator.index(n) for n in shape])
    steps = x.strides if strides is None else tuple([operator.index(n) for n in strides])
    if len(lengths) != len(steps):
        raise ValueError(
            f"[as_strided] the shape {lengths} has {len(lengths)} entries, and the strides {steps} {len(steps)}: give "
            "one stride for each dimension."
        )
    places, known = _distances(lengths, steps), _distances(x.shape, x.strides)
    if not places.size:
        return functions["empty"](lengths, x.dtype)
    order = np.argsort(known, axis=None)
    found = np.searchsorted(known.ravel(), places, sorter=order)
    elements = order[np.minimum(found, order.size - 1)] if order.size else found
    if not order.size or not np.array_equal(known.ravel()[elements], places):
        raise ValueError(
            f"[as_strided] the shape {lengths} with strides {steps} leads to bytes that are not elements of the array, "
            f"which has shape {x.shape} and strides {x.strides}."
        )
    return functions["ravel"](x)[elements]


def _distances(lengths: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """Return how many bytes each element of an array is behind the first one."""
    return sum(np.ix_(*[np.arange(n) * step for n, step in zip(lengths, steps)]), np.zeros(lengths, np.int64))


def sliding_window_view(
    x: Any, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None, *, subok: bool = False,
    writeable: bool = False,
) -> Any:  # fmt: skip
    """Return all windows of a shape: ``(*x.shape with each window's length - 1 less, *window_shape)``.

    ``axis`` are the axes that the windows slide along, by default all. The result is a copy with a gradient; ``subok``
    and ``writeable`` have no effect.

    >>> import tenkey.numpy as tnp
    >>> tnp.lib.stride_tricks.sliding_window_view(tnp.arange(4), 2).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    x = functions["asarray"](x)
    lengths = [operator.index(n) for n in (window_shape if isinstance(window_shape, Sequence) else [window_shape])]
    given = range(x.ndim) if axis is None else axis if isinstance(axis, Sequence) else [axis]
    axes = [normalize_axis("sliding_window_view", place, x.ndim) for place in given]
    if len(axes) != len(lengths):
        raise ValueError(
            f"[sliding_window_view] got {len(lengths)} window lengths for {len(axes)} axes: give one for each axis."
        )
    if any(n < 0 for n in lengths):
        raise ValueError(f"[sliding_window_view] the window {tuple(lengths)} has a negative length.")
    for place, length in zip(axes, lengths):
        count = x.shape[place] - length + 1
        if count < 1:
            raise ValueError(
                f"[sliding_window_view] the window {tuple(lengths)} is longer than the array of shape {x.shape} along "
                f"axis {place}."
            )
        starts = np.arange(count)[:, None] + np.arange(length)
        x = functions["moveaxis"](functions["take"](x, starts, place), place + 1, -1)
    return x
