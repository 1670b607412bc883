"""Declarations of operators that walk along an axis: places of the best elements, and running results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np

from ...core.dtypes.names import int64
from ...dispatch.errors import RegistrationError
from ...dispatch.schema import FunctionSchema
from ..shapes import broadcast_shapes, normalize_axis, reduced_shape, refuse_empty
from .batch import along
from .declaration import Entry, Formula, Options, _define, _differentiation, _given, _parse
from .facets import ArgReduce, Composite, Linear, Meta, NotDifferentiable, NumPyKernel, Scan, TensorSpec
from .promotion import SAME, Promotion, refuse_lost_part

__all__ = ["arg_reduction", "place_meta", "scan", "scan_axis"]


def place_meta(operator: str) -> Callable[..., TensorSpec]:
    """Return the meta rule of an operator that finds the place of an extreme along an axis."""

    def rule(x: Any, axis: int | None = None, *, keepdims: bool = False) -> TensorSpec:
        if x.dtype.kind == "c":
            raise TypeError(
                f"[{operator}] is not defined for dtype {x.dtype}: complex numbers have no order. Consider tk.real(x)."
            )
        refuse_empty(operator, x.shape, axis)
        return TensorSpec(reduced_shape(operator, x.shape, axis, keepdims), int64)

    return rule


def arg_reduction(
    schema: str, *, better: Callable[[Any], Callable[[Any, Any], Any]], **options: Unpack[Options]
) -> Entry:
    """Declare an operator that finds the place (int64) of the best element along an axis, the first at a tie.

    The schema has the arguments ``x``, ``axis`` (None: of the flattened tensor) and ``keepdims``. An element replaces
    the best one so far if ``better(T)(element, best)`` holds. Empty rows and complex
    dtypes are refused.
    """
    parsed = _parse(schema)
    facets = [ArgReduce(better), Meta(place_meta(parsed.base_name)), NotDifferentiable()]
    options["batch"] = along("axis")
    return _define(parsed, facets, **options)


def scan_axis(operator: str, shape: tuple[int, ...], axis: int | None) -> int:
    """Return the axis of a scan counted from the front; it may be left out for one dimension."""
    if axis is None:
        if len(shape) != 1:
            raise ValueError(
                f"[{operator}] needs axis= for a tensor of shape {shape}: it may be left out only for one dimension."
            )
        return 0
    return normalize_axis(operator, axis, len(shape))


def _scan_rule(schema: FunctionSchema, facet: Scan) -> Callable[..., Any]:
    """Return the rule for shapes and dtypes: all parts broadcast, and have the dtype that the promotion gives."""
    name = schema.base_name
    parts = facet.tensors
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    defaults = {a.name: a.default for a in schema.arguments if a.has_default}
    several = len(schema.returns) > 1

    def rule(*args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(positional, args)), **kwargs}
        tensors = [given[part] for part in parts]
        shape = broadcast_shapes(name, *[x.shape for x in tensors])
        i = scan_axis(name, shape, given["axis"])
        dtype: np.dtype | None = given.get("dtype")
        if dtype is None:
            dtype = facet.promotion.dtypes(name, [x.dtype for x in tensors])[1]
        for x in tensors:
            refuse_lost_part(name, x.dtype, dtype)
        if given.get("include_initial"):
            if facet.identity is None:
                raise ValueError(
                    f"[{name}] include_initial=True needs an identity, the first result: the operator was declared "
                    "without one."
                )
            shape = (*shape[:i], shape[i] + 1, *shape[i + 1 :])
        spec = TensorSpec(shape, dtype)
        return (spec,) * len(schema.returns) if several else spec

    return rule


_OPTIONS = {"axis", "reverse", "dtype", "include_initial"}


def scan(
    schema: str | FunctionSchema,
    *,
    combine: Callable[[Any], Callable[..., Any]],
    identity: Any = None,
    promote: Promotion = SAME,
    composition: Callable[[Scan], Callable[..., Any]] | None = None,
    numpy: Callable[..., Any] | None = None,
    strict: bool = False,
    vjp: Mapping[str, Formula] | None = None,
    jvp: Callable[..., Any] | Linear | None = None,
    differentiable: bool = True,
    **options: Unpack[Options],
) -> Entry:
    """Declare an operator of running results along an axis, for an associative ``combine`` (see ``Scan``).

    The schema has tensors, the parts of the elements, ``axis``, and optionally ``reverse``, ``dtype`` and
    ``include_initial``. ``composition(facet)`` returns the operator in terms of others, which make it differentiable;
    in its place ``numpy`` is the CPU kernel and ``vjp`` the gradient.
    """
    parsed = _parse(schema)
    facet = Scan(parsed, combine, identity, promote)
    names = {a.name for a in parsed.arguments} - set(facet.tensors)
    if not facet.tensors or "axis" not in names or names - _OPTIONS:
        raise RegistrationError(
            f"[{parsed}] is not a scan: write it as 'namespace::{parsed.base_name}(Tensor x, int axis) -> Tensor', "
            f"with more tensors for elements of several parts, and optionally {', '.join(sorted(_OPTIONS))}."
        )
    facets = [facet, Meta(_scan_rule(parsed, facet)), *_differentiation(parsed, None, vjp, jvp, differentiable)]
    if composition is None:
        options["batch"] = along("axis")
    else:
        facets.append(Composite(composition(facet)))
    return _define(parsed, [*facets, _given(NumPyKernel, numpy, strict)], **options)
