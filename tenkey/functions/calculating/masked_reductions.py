"""Reductions of the elements where a mask is true, with an initial value: NumPy's ``where=`` and ``initial=``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...core.dtypes.limits import iinfo
from ...core.dtypes.names import bool as boolean
from ...core.dtypes.names import real_of
from ...core.tensor import Tensor
from ...ops.builtin.creation import full, ones
from ...ops.builtin.elementwise.arithmetic import maximum, minimum
from ...ops.builtin.elementwise.comparison import isnan, logical_and, logical_not, not_equal
from ...ops.builtin.elementwise.comparison import where as where_true  # where= is an argument here
from ...ops.builtin.elementwise.complex import squared_size
from ...ops.builtin.elementwise.exponential import sqrt
from ...ops.builtin.reductions import reduction
from ...ops.builtin.shape.copying import cast, floating
from ...ops.builtin.shape.views import broadcast_to
from ...ops.shapes import broadcast_shapes
from ..creation import asarray, to_operand

__all__ = ["masked_reduction"]

_NEUTRAL: Final = {"sum": 0, "prod": 1, "any": False, "all": True, "count_nonzero": False}
_JOINED: Final[dict[str, Callable[..., Tensor]]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": maximum,
    "min": minimum,
}
_MOMENTS: Final = ("mean", "var", "std")


def masked_reduction(
    name: str, x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False, where: Any = True,
    initial: Any = None, correction: float = 0.0, mean: Any = None,
) -> Tensor:  # fmt: skip
    """Reduce the elements along axes where a mask is true, together with an initial value.

    Args: name: ``sum``, ``prod``, ``max``, ``min``, ``any``, ``all``, ``count_nonzero``, ``mean``, ``var`` or ``std``,
    or one of these with ``nan`` in front, which leaves out nan. dtype: elements are converted to it first. where: a
    mask that broadcasts with ``x``. initial: a number, for ``sum``, ``prod``, ``max`` and ``min``; these two need one
    if there may be a slice without elements, in particular with a mask. correction: of ``var`` and ``std``. mean: what
    their deviations are taken from, if it is known, with the axes kept. Moments of no elements are nan. Differentiable
    as ``tk.where`` and the reductions are. Raises ValueError.

    >>> from tenkey.functions.calculating.masked_reductions import masked_reduction
    >>> x = tk.asarray([1.0, 2.0, 3.0])
    >>> masked_reduction("sum", x, where=x > 1, initial=10.0).item(), masked_reduction("mean", x, where=x > 1).item()
    (15.0, 2.5)
    """
    x = to_operand(name, x)
    skips_nan = name.startswith("nan")
    kind = name[3:] if skips_nan else name
    if kind not in _NEUTRAL and kind not in _JOINED and kind not in _MOMENTS:
        raise ValueError(f"[{name}] does not take a mask or an initial value.")
    if initial is not None and kind not in _JOINED:
        raise ValueError(f"[{name}] does not take initial=.")
    if dtype is not None and x.dtype != dtype:
        x = cast(x, dtype)
    mask = None if where is True else _mask(x, where)
    if skips_nan and x.dtype.kind in "fcV":
        present = logical_not(isnan(x))
        mask = present if mask is None else logical_and(mask, present)
    if mask is not None:
        shape = broadcast_shapes(name, x.shape, mask.shape)
        x, mask = (y if y.shape == shape else broadcast_to(y, shape) for y in (x, mask))
    options = {"axis": axis, "keepdims": keepdims}
    if kind in _MOMENTS:
        least = float("nan") if skips_nan and x.dtype.kind in "fcV" else 0.0  # what NumPy divides by if nothing is left
        return _moment(kind, x, mask, options, correction, mean, least)
    if kind in ("max", "min"):
        return _extreme(name, kind, x, mask, options, initial)
    if mask is not None:
        x = _chosen(mask, x, _NEUTRAL[kind])
    if kind == "count_nonzero":
        return reduction.sum(not_equal(x, 0), **options)
    if kind in ("sum", "prod") and dtype is not None:
        options["dtype"] = x.dtype
    found: Tensor = getattr(reduction, kind)(x, **options)
    return found if initial is None else _joined(kind, found, initial)


def _chosen(mask: Tensor, x: Tensor, neutral: Any) -> Tensor:
    """Return the elements where the mask is true, and elsewhere a number in their dtype."""
    return where_true(mask, x, full((), neutral, dtype=x.dtype, device=x.device))


def _mask(x: Tensor, given: Any) -> Tensor:
    mask = given if isinstance(given, Tensor) else asarray(given, device=x.device)
    return mask if mask.dtype == boolean else not_equal(mask, 0)


def _joined(kind: str, found: Tensor, initial: Any) -> Tensor:
    value = initial if isinstance(initial, Tensor) else asarray(initial, device=found.device)
    return _JOINED[kind](found, cast(value, found.dtype))


def _extreme(name: str, kind: str, x: Tensor, mask: Tensor | None, options: dict[str, Any], initial: Any) -> Tensor:
    if mask is not None and initial is None and not name.startswith("nan"):
        raise ValueError(f"[{name}] with where= needs initial=, the result where the mask is false everywhere.")
    if initial is not None and not isinstance(initial, Tensor):
        initial = asarray(initial, dtype=x.dtype, device=x.device)
    if mask is not None:
        least = initial if initial is not None else full((), _end(x, kind), dtype=x.dtype, device=x.device)
        x_chosen = where_true(mask, x, cast(least, x.dtype))
    else:
        x_chosen = x
    if initial is not None and not x.size:
        shape = reduction.sum(x, **options).shape
        return broadcast_to(cast(initial, x.dtype), shape) * 1
    found: Tensor = getattr(reduction, kind)(x_chosen, **options)
    if initial is not None:
        return _joined(kind, found, initial)
    if mask is not None:  # of nan alone the result is nan
        found = _chosen(reduction.any(mask, **options), found, float("nan"))
    return found


def _end(x: Tensor, kind: str) -> Any:
    if x.dtype.kind in "iu":
        limits = iinfo(x.dtype)
        return limits.min if kind == "max" else limits.max
    if x.dtype.kind == "b":
        return kind == "min"
    return float("-inf" if kind == "max" else "inf")


def _moment(
    kind: str, x: Tensor, mask: Tensor | None, options: dict[str, Any], correction: float, center: Any, least: float,
) -> Tensor:  # fmt: skip
    x = floating(x)
    if mask is None:
        mask = ones(x.shape, dtype=boolean, device=x.device)
    wide = {**options, "keepdims": True}
    scalar = real_of(x.dtype) if x.dtype.kind == "c" else x.dtype
    count = cast(reduction.sum(mask, **(options if kind == "mean" else wide)), scalar)
    kept = _chosen(mask, x, 0)
    if kind == "mean":
        return reduction.sum(kept, **options) / count
    if center is None:
        center = reduction.sum(kept, **wide) / where_true(count > 0, count, full((), 1, dtype=scalar, device=x.device))
    deviation = _chosen(mask, x - center, 0)
    number = cast(reduction.sum(mask, **options), scalar) - correction
    number = where_true(number > 0, number, full((), least, dtype=scalar, device=x.device))
    found = reduction.sum(squared_size(deviation), **options) / number
    return sqrt(found) if kind == "std" else found
