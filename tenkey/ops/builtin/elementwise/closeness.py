"""Comparisons of whole tensors, and comparisons up to a tolerance."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes.names import float64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import COMPARISON, composite, elementwise, normal
from ...shapes import broadcast_shapes
from ..creation import concrete, full
from ..reductions.reduction import all
from ..shape.copying import cast
from .arithmetic import abs
from .comparison import equal, isfinite, isnan, less_equal, logical_and, logical_or

_ONES: Final = np.ones((2, 3))
_FLOATS: Final = COMPARISON._replace(name="ORDER", accepts="f", takes="floating dtypes")


@elementwise(promote=_FLOATS, differentiable=False, reference=np.isclose, tags=(Tag.INTERNAL,))
def close_floats(T: Any, x1: Any, x2: Any, rtol: Any = 1e-05, atol: Any = 1e-08) -> Any:
    """Compute ``isclose`` for floats."""
    near = s.abs(x1 - x2) <= atol + rtol * s.abs(x2)
    return s.logical_or(s.logical_and(near, s.isfinite(x2)), x1 == x2)


def _close_samples(rng: np.random.Generator) -> Any:
    a = rng.standard_normal((3, 4))
    return [
        ((a, a + 1e-9), {}),
        ((a, a + 0.5), {"rtol": 0.3}),
        ((a, a[0] + 0.25), {"atol": 0.3}),
        ((a[0, 0, ...], a), {"equal_nan": True}),
        ((a[:0], a[:0]), {}),
    ]


@composite(
    "isclose(Tensor x1, Tensor x2, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    sample_inputs=_close_samples,
    differentiable=False,
    methods=("isclose",),
)
def isclose(x1: Tensor, x2: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Test whether ``abs(x1 - x2) <= atol + rtol * abs(x2)``, element by element, with broadcasting; a bool tensor.

    Equal infinities are close; nan is close only to nan, with ``equal_nan``. The rule is not symmetric: ``rtol`` refers
    to ``x2``. Integers and complex numbers are compared in double precision.

    >>> tk.isclose(tk.asarray([1.0, 2.0]), tk.asarray([1.0000001, 2.1])).tolist()
    [True, False]
    """
    return _isclose("isclose", x1, x2, rtol, atol, equal_nan)


def _isclose(operator: str, x1: Tensor, x2: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    if not (rtol >= 0 and atol >= 0):
        raise ValueError(f"[{operator}] rtol and atol must be at least 0, got {rtol} and {atol}.")
    if x1.shape != x2.shape:
        broadcast_shapes(operator, x1.shape, x2.shape)
    kinds = x1.dtype.kind + x2.dtype.kind
    if (x1._word | x2._word) & WEAK_MASK and (equal_nan or "c" in kinds or not {"f", "V"} & set(kinds)):
        x1, x2 = concrete(x1, x2), concrete(x2, x1)
        kinds = x1.dtype.kind + x2.dtype.kind
    if "c" in kinds:
        result_dtype((x1.dtype, x2.dtype), ())
        near = less_equal(abs(x1 - x2), abs(x2) * rtol + atol)
        result = logical_or(logical_and(near, isfinite(x2)), equal(x1, x2))
    elif "f" in kinds or "V" in kinds:
        result = close_floats(x1, x2, rtol, atol)
    else:
        result = logical_or(close_floats(cast(x1, float64), cast(x2, float64), rtol, atol), equal(x1, x2))
    if equal_nan and set(kinds) - set("biu"):
        result = logical_or(result, logical_and(isnan(x1), isnan(x2)))
    return result


@composite(
    "allclose(Tensor x1, Tensor x2, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    sample_inputs=_close_samples,
    differentiable=False,
    methods=("allclose",),
)
def allclose(x1: Tensor, x2: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Test whether all elements are close (see ``tk.isclose``); a 0-d bool tensor.

    >>> tk.allclose(tk.asarray([1.0, 2.0]), tk.asarray([1.0, 2.0 + 1e-7])).item()
    True
    """
    return all(_isclose("allclose", x1, x2, rtol, atol, equal_nan))


@composite(
    "array_equal(Tensor x1, Tensor x2, *, bool equal_nan=False) -> Tensor",
    sample_inputs=normal((_ONES, _ONES), (_ONES, np.ones(3)), ([2, 3], [2, 3], {"equal_nan": True}), ([0], [0])),
    differentiable=False,
)
def array_equal(x1: Tensor, x2: Tensor, *, equal_nan: bool = False) -> Tensor:
    """Test whether two tensors have the same shape and equal elements; a 0-d bool tensor.

    With ``equal_nan``, nan equals nan.

    >>> tk.array_equal(tk.asarray([1, 2]), tk.asarray([1, 2])).item(), tk.array_equal(tk.ones(2), tk.ones(1)).item()
    (True, False)
    """
    if x1.shape != x2.shape:
        return full((), False, device=x1.device)
    same = equal(x1, x2)
    if equal_nan and set(x1.dtype.kind + x2.dtype.kind) <= set("fcV"):
        same = logical_or(same, logical_and(isnan(x1), isnan(x2)))
    return all(same)
