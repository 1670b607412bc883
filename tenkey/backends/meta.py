"""The meta backend: shapes and dtypes without values, from the rules by which other backends allocate results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.device import META, Device
from ..core.lift import refuse_out_of_range
from ..core.storage import StridedArray
from ..core.tensor import NoValuesError, Tensor, make_tensor, word_for
from ..core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry, registry
from ..ops.declare.facets import TensorSpec
from ..ops.declare.promotion import refuse_lost_part
from ..ops.shapes import broadcast_shapes, reduced_shape, refuse_empty
from ..ops.strided_views import strided_view_kernel

__all__ = ["install", "spec_rule"]


def spec_rule(operator: Operator) -> Callable[..., Any] | None:
    """Return the rule that computes a result's TensorSpec from arguments: the Meta facet, or one that others imply."""
    facets = operator.facets
    if "Meta" in facets:
        return facets["Meta"].rule  # type: ignore[no-any-return]
    if "Pointwise" in facets:
        return lambda *args: _pointwise_spec(operator, args)
    if "Reduce" in facets:
        return lambda x, *args, **options: _reduction_spec(operator, x, *args, **options)
    return None


def _pointwise_spec(operator: Operator, args: tuple[Any, ...]) -> TensorSpec:
    facet = operator.facets["Pointwise"]
    tensors = [value for value in args if isinstance(value, Tensor)]
    word = 0
    for tensor in tensors:
        word |= tensor._word
    compute, dtype = facet.promotion.dtypes(operator.name, dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK))
    if not facet.promotion.compares:
        for tensor in tensors:
            refuse_out_of_range(operator.name, tensor, compute)
    shape = broadcast_shapes(operator.schema.base_name, *[t.shape for t in tensors])
    facet.index_axes(len(shape))
    return TensorSpec(shape, dtype)


def _reduction_spec(
    operator: Operator, x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False
) -> TensorSpec:
    facet = operator.facets["Reduce"]
    if facet.identity is None:
        refuse_empty(operator.schema.base_name, x.shape, axis)
    if dtype is not None:
        refuse_lost_part(operator.schema.base_name, x.dtype, dtype)
    result = dtype or facet.promotion.dtypes(operator.name, (x.dtype,))[1]
    return TensorSpec(reduced_shape(operator.schema.base_name, x.shape, axis, keepdims), result)


def _empty(spec: TensorSpec) -> Tensor:
    return make_tensor(StridedArray(None, spec.shape, spec.dtype, META), word_for(META, spec.dtype))


def _kernel(operator: Operator) -> Callable[..., Any] | None:
    rule = spec_rule(operator)
    if "View" in operator.facets:
        return strided_view_kernel(operator, lambda x: _empty(TensorSpec(x.shape, x.dtype)))
    if operator.name == "tk::to_device":
        return _move
    mutable = operator.schema.is_mutable
    if rule is not None and not mutable:

        def meta_kernel(*args: Any, **kwargs: Any) -> Any:
            result = rule(*args, **kwargs)
            return _empty(result) if isinstance(result, TensorSpec) else tuple([_empty(one) for one in result])

        return meta_kernel
    fits = operator.facets.get("Fits")
    if fits is not None or rule is not None:

        def inplace(x: Tensor, *args: Any) -> Tensor:
            if x.device is not META:
                raise NoValuesError(
                    f"[{operator.schema.base_name}] a tensor on 'meta' has no values to write to {str(x.device)!r}."
                )
            if fits is not None:
                fits.check(operator, x, *args)
            elif rule is not None:
                rule(x, *args)
            return x

        return inplace
    return None


def _move(x: Tensor, device: Device, *, non_blocking: bool = False) -> Tensor:
    if device.type == "meta":
        return x
    raise NoValuesError(f"[to_device] a tensor on 'meta' has no values to copy to {str(device)!r}.")


def _install(operator: Operator) -> list[Handle]:
    function = _kernel(operator)
    if function is None:
        return []
    return [registry.impl(operator.name, Kernel(function, DispatchKey.Meta, origin="generated"))]


def install(registry: Registry) -> None:
    """Subscribe the meta backend to all operators, present and future."""
    registry.subscribe(_install)
