"""Limiting values: ``clip``, and ``nan_to_num`` for values that are not finite."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.dtypes.limits import finfo, iinfo
from ....core.tensor import Tensor
from ....core.word import WEAK_TRAIT
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import ORDERED, REAL_TO_FLOAT, composite, elementwise, normal, pointwise
from ...shapes import broadcast_shapes
from .arithmetic import maximum, minimum, positive
from .complex import complex_from, imag, real

_SMALL: Final = 1 << 14  # elements; above, the kernels for large arrays are faster than NumPy
_MODERATE: Final = 6e4  # within the range of every floating dtype


def _clip_samples(rng: np.random.Generator) -> Any:
    x = rng.uniform(-2, 2, (3, 4))
    below, above = np.array([-0.9, -1.1, -0.4, -0.2]), np.array([[0.3], [0.8], [1.4]])
    return [
        ((x,), {}),
        ((x, -1), {"max": 1}),
        ((x,), {"max": 1}),
        ((x, below), {}),
        ((x, below, above), {}),
        ((np.asarray(rng.uniform(-2, 2)), below, 1), {}),
        ((rng.uniform(-2, 2, (0, 4)), below, None), {}),
    ]


def _is_limit(bound: Tensor | None, x: Tensor, *, below: bool) -> bool:
    """Return whether ``bound`` limits anything: a Python int does not if every integer of the dtype is within it."""
    if bound is None:
        return False
    if not bound._word & WEAK_TRAIT[int] or x.dtype.kind not in "iu":
        return True
    limits, value = iinfo(x.dtype), bound.item()
    return bool(value > limits.min if below else value < limits.max)


def _numpy_clip(x: np.ndarray, min: Any = None, max: Any = None) -> Any:
    dtype = x.dtype
    kind = dtype.kind
    if kind not in "fiu" or x.size >= _SMALL:
        return NotImplemented
    for bound in (min, max):
        if bound.__class__ is float:
            if kind != "f" or not -_MODERATE < bound < _MODERATE:
                return NotImplemented
        elif bound.__class__ is int:
            if not -_MODERATE < bound < _MODERATE:
                return NotImplemented
        elif bound is not None and (bound.__class__ is not np.ndarray or bound.dtype is not dtype):
            return NotImplemented
    if min is None:
        return NotImplemented if max is None else np.minimum(x, max)
    return np.maximum(x, min) if max is None else numpy_functions.clip(x, min, max)


@elementwise(promote=ORDERED, tags=(Tag.INTERNAL,))
def clip_between(T: Any, x: Any, low: Any, high: Any) -> Any:
    """Limit the elements to an interval, in one pass that saves ``x`` and the limits for the gradient."""
    return s.minimum(s.maximum(x, low), high)


@composite(
    "clip(Tensor x, Tensor? min=None, Tensor? max=None) -> Tensor",
    sample_inputs=_clip_samples,
    numpy=_numpy_clip,
    quiet=True,
    methods=("clip",),
)
def clip(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Limit the elements to the interval from ``min`` to ``max``; where these cross, the result is ``max``.

    Args: x: real tensor; min, max: tensors that broadcast with it, Python numbers, or None for no limit.
    Returns the promoted dtype: that of ``x`` for limits of the same kind. nan in any of the three gives nan. An element
    that equals a limit which is a tensor shares the gradient with it. Raises TypeError for bool and complex dtypes.

    >>> tk.clip(tk.asarray([-5, 0, 5]), 0, 3).tolist()
    [0, 0, 3]
    """
    if x.dtype.kind in "bc":
        raise TypeError(f"[clip] got dtype {x.dtype}: it takes real numeric dtypes. Convert with tk.astype(x, dtype).")
    try:
        above, below = _is_limit(min, x, below=True), _is_limit(max, x, below=False)
        if above and below:
            return clip_between(x, min, max)
        if above or below:
            return maximum(x, min) if above else minimum(x, max)
    except ValueError:
        broadcast_shapes("clip", *[t.shape for t in (x, min, max) if t is not None])  # the error that names clip
        raise
    return positive(x)


replace_nonfinite = pointwise(
    "replace_nonfinite(Tensor x, float nan, float posinf, float neginf) -> Tensor",
    scalar=lambda T: (
        lambda x, nan, posinf, neginf: s.where(s.isnan(x), nan, s.where(s.isinf(x), s.where(x > 0, posinf, neginf), x))
    ),
    promote=REAL_TO_FLOAT,
    tags=(Tag.INTERNAL,),
    doc="Replace nan and the infinities by numbers.",
)


@composite(
    "nan_to_num(Tensor x, *, float nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
    sample_inputs=normal([2, 3], [], [0, 2]),
    methods=("nan_to_num",),
)
def nan_to_num(x: Tensor, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Return a copy with nan replaced by ``nan`` and infinities by ``posinf`` and ``neginf``.

    The infinities default to the largest finite numbers of the dtype. The parts of complex numbers are replaced
    separately; integers are copied. No gradient reaches replaced elements.

    >>> tk.nan_to_num(tk.asarray([1.0, float("nan"), float("inf")]), posinf=9.0).tolist()
    [1.0, 0.0, 9.0]
    """
    kind = x.dtype.kind
    if kind in "biu":
        return x.clone()
    if kind == "c":
        parts = [nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(x), imag(x))]
        return complex_from(*parts)
    largest = finfo(x.dtype).max
    above, below = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return replace_nonfinite(x, nan, above, below)
