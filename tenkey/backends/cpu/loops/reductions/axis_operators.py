"""CPU kernels of the operators along axes: small calls as before, large ones by the templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Final

import numpy as np

from .....core.tensor import Tensor, cpu_word, make_tensor
from .....dispatch.calling import codegen
from .....dispatch.local_state import silently
from .....dispatch.operator import Operator
from .....ops.declare import TensorSpec, scan_axis
from .....ops.declare.facets import ArgReduce, ArgScan, Scan
from .....ops.shapes import broadcast_shapes, normalize_axis
from ...numpy_kernels import numpy_kernel
from ...thresholds import COMPILED_ARG_COLUMNS, COMPILED_ARG_REDUCTION, COMPILED_RUNNING, COMPILED_SCAN
from .calls import find_places, find_running_places, scan_arrays

__all__ = ["arg_reduction_kernel", "running_kernel", "scan_kernel", "with_large_calls"]

_Kernel = Callable[..., Any]


def arg_reduction_kernel(operator: Operator, small: _Kernel) -> _Kernel:
    """Return the kernel of an operator with the facet ``ArgReduce``; ``small`` takes small calls."""
    facet: ArgReduce = operator.facets["ArgReduce"]
    name = operator.schema.base_name

    @wraps(small)
    def kernel(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        a = x._data
        last = axis is None or axis in {-1, a.ndim - 1}
        if a.size >= (COMPILED_ARG_REDUCTION if last else COMPILED_ARG_COLUMNS) and a.dtype.kind != "c":
            found = find_places(facet, a, axis if axis is None else normalize_axis(name, axis, a.ndim), keepdims)
            if found is not None:
                return make_tensor(found, _PLACES)
        return small(x, axis, keepdims=keepdims)  # type: ignore[no-any-return]

    return kernel


_PLACES: Final = cpu_word(np.dtype(np.int64))
_SOURCE: Final = """
def kernel({parameters}):
    $first = {first}._data
    if $first.size >= $limit:
        $made = $large({arguments})
        if $made is not None:
            return $made
    return $small({called})
"""


def with_large_calls(operator: Operator, first: str, limit: int, large: _Kernel) -> _Kernel:
    """Return the kernel that leaves calls on at least ``limit`` elements to ``large``, which may return None.

    The others are NumPy's or the composition's. ``first`` names the tensor whose elements are counted.
    """
    schema = operator.schema
    composite = operator.facets.get("Composite")
    if "NumPyKernel" in operator.facets:
        small: _Kernel = numpy_kernel(operator)
    else:
        assert composite is not None
        small = composite.function if composite.implicit else partial(silently, composite.function)
    source = _SOURCE.format(
        parameters=codegen.parameters(schema, defaults=True), first=first, called=codegen.call(schema),
        arguments=", ".join([argument.name for argument in schema.arguments]),
    )  # fmt: skip
    scope = {"limit": limit, "large": large, "small": small}
    return codegen.define(source.lstrip(), scope, f"<kernel of {operator.name}>", schema)


def scan_kernel(operator: Operator) -> _Kernel:
    """Return the kernel of an operator with the facet ``Scan``: small calls by NumPy or the composition."""
    facet: Scan = operator.facets["Scan"]
    schema = operator.schema
    names = tuple([argument.name for argument in schema.arguments])
    rule = operator.facets["Meta"].rule

    def large(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        tensors = [given[part] for part in facet.tensors]
        specs = rule(**given)
        several = not isinstance(specs, TensorSpec)
        dtype: np.dtype = (specs[0] if several else specs).dtype
        shape = tensors[0]._data.shape
        if len(tensors) > 1:
            shape = broadcast_shapes(schema.base_name, *[x.shape for x in tensors])
        arrays = [x._data if x._data.shape == shape else np.broadcast_to(x._data, shape) for x in tensors]
        if len({a.dtype for a in arrays}) > 1:
            arrays = [a.astype(dtype, copy=False) for a in arrays]
        if 0 in shape:
            return None
        axis = scan_axis(schema.base_name, shape, given["axis"])
        outs = scan_arrays(facet, arrays, dtype, axis, reverse=bool(given.get("reverse")),
                           initial=bool(given.get("include_initial")))  # fmt: skip
        if outs is None:
            return None
        word = cpu_word(dtype)
        made = [make_tensor(out, word) for out in outs]
        return tuple(made) if several else made[-1]

    return with_large_calls(operator, facet.tensors[0], COMPILED_SCAN, large)


def running_kernel(operator: Operator) -> _Kernel:
    """Return the kernel of an operator with the facet ``ArgScan``."""
    facet: ArgScan = operator.facets["ArgScan"]
    name = operator.schema.base_name

    def large(x: Tensor, axis: int) -> tuple[Tensor, Tensor] | None:
        a = x._data
        if a.dtype.kind == "c" or not a.ndim:
            return None
        found = find_running_places(facet, a, normalize_axis(name, axis, a.ndim))
        return None if found is None else (make_tensor(found[0], cpu_word(a.dtype)), make_tensor(found[1], _PLACES))

    return with_large_calls(operator, "x", COMPILED_RUNNING, large)
