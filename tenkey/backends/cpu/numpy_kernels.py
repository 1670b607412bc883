"""CPU kernels of operators whose block names a NumPy function (facet ``NumPyKernel``)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...core.tensor_base import new_handle
from ...core.word import WEAK_MASK
from ...dispatch.calling import codegen
from ...dispatch.local_state import silently
from ...dispatch.operator import Operator
from ...dispatch.schema import Argument, BaseType, ListType
from ...ops.declare.facets import NumPyKernel
from .fp_warnings import QUIET, errors, ignore, restore
from .kernels import WORDS, own_error, wrap

__all__ = ["numpy_kernel", "numpy_kernel_rule"]


_UNTOLD: Final = (ValueError, TypeError, IndexError, OverflowError, RuntimeError, np.linalg.LinAlgError)


def _described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Describe the arguments of a call, tensors by dtype and shape."""

    def one(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype} {value.shape}"
        if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            return f"[{', '.join(map(one, value))}]"
        return repr(value)

    return ", ".join([*map(one, args), *[f"{name}={one(value)}" for name, value in kwargs.items()]])


def _wanted(error: MemoryError) -> str:
    """Describe the array for which memory was missing, if the error says which."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return ""
    return f", {math.prod(shape) * dtype.itemsize:.1e} bytes for shape {shape} and dtype {dtype}"


def _array(value: Any) -> Any:
    """Replace tensors in an argument by arrays, and those of Python numbers by the numbers."""
    if value.__class__ is Tensor:
        return value._data.item() if value._word & WEAK_MASK else value._data
    if isinstance(value, Tensor):
        return value._data
    if isinstance(value, (list, tuple)):
        return [item._data if item.__class__ is Tensor else _array(item) for item in value]
    return value


def _tensor(data: Any) -> Tensor:
    if data.__class__ is not np.ndarray:
        data = np.asarray(data)
    # results are contiguous, as the shape rules promise; np.ascontiguousarray would add a dimension to a 0-d array
    return wrap(data if data.flags.c_contiguous else data.copy(order="C"))


_SOURCE: Final = """
def kernel({parameters}):
    {check}
    {begin}
    try:
        {silence}
        $data = $function({passed})
    except $Exception as $error:
        $data = $failed($error, {arguments})
    {end}
    if $data is $NotImplemented:
        return $otherwise({arguments})
    {result}
"""
_ONE: Final = """
    if $data.__class__ is not $ndarray:
        $data = $array0($data)
    {contiguous}
    try:
        $word = $words[$data.dtype]
    except $KeyError:
        return $tensor($data)
    $made = $new($Tensor)
    $made._data = $data
    $made._word = $word
    $made._storage = None
    $made._autograd = None
    return $made
"""


def _passed(argument: Argument) -> str:
    """Return the text of what the function gets for an argument."""
    name = argument.name
    if argument.type == BaseType("Tensor"):
        return f"{name}._data"
    if argument.type == ListType(BaseType("Tensor"), None):
        return f"[$one._data for $one in {name}]"
    return f"$array({name})" if argument.type.contains_tensor else name


def numpy_kernel(operator: Operator) -> Callable[..., Any]:
    """Generate the kernel: tensors become arrays, NumPy computes without warnings, arrays become tensors.

    The rule for shapes and dtypes runs first, because it rejects bad arguments. For a strict function it runs only
    after a failure, so that the error is the operator's and not NumPy's. For a composite, the composition is called
    instead: it may succeed.
    """
    facet: NumPyKernel = operator.facets["NumPyKernel"]
    composite = operator.facets.get("Composite")
    otherwise = operator.facets["Meta"].rule if composite is None else composite.function
    if composite is not None and not composite.implicit:  # it has a gradient of its own
        otherwise = partial(silently, otherwise)
    schema = operator.schema
    several = len(operator.schema.returns) != 1
    fresh = "Factory" in operator.facets  # a new array is contiguous

    def failed(error: Exception, *args: Any, **kwargs: Any) -> Any:
        if composite is not None:
            return NotImplemented
        if facet.strict:
            own_error(otherwise, *args, **kwargs)
        if isinstance(error, MemoryError):
            raise MemoryError(
                f"[{operator.schema.base_name}] needs more memory than available{_wanted(error)}: give a smaller "
                f"shape, or work in parts. (It was called with {_described(args, kwargs)}.)"
            ) from None
        if type(error) in _UNTOLD and not str(error).startswith("["):
            text = f"[{operator.schema.base_name}] {error} (It was called with {_described(args, kwargs)}.)"
            raise type(error)(text) from None
        raise error

    called = codegen.call(schema)
    source = _SOURCE.format(
        parameters=codegen.parameters(schema, defaults=True),
        check="" if facet.strict else f"$otherwise({called})",
        begin="" if facet.quiet else "$found = $errors()",
        silence="" if facet.quiet else "$ignore($QUIET)",
        end="" if facet.quiet else "finally: $restore($found)",
        passed=codegen.call(schema, _passed),
        arguments=called,
        result=(
            "return $tuple([$tensor($one) for $one in $data])"
            if several
            else _ONE.format(
                contiguous="" if fresh else 'elif not $data.flags.c_contiguous: $data = $data.copy(order="C")'
            )
        ).strip(),
    )
    scope: dict[str, Any] = {
        "QUIET": QUIET, "errors": errors, "ignore": ignore, "restore": restore, "array": _array, "tensor": _tensor,
        "failed": failed,
        "function": facet.function, "otherwise": otherwise, "ndarray": np.ndarray, "array0": np.array,
        "words": WORDS, "new": new_handle, "Tensor": Tensor,
    }  # fmt: skip
    kernel: Any = codegen.define(source.lstrip(), scope, f"<NumPy kernel of {operator.name}>", schema)
    kernel.small = getattr(facet.function, "small", None)  # Note [Descriptions of kernels]
    return kernel  # type: ignore[no-any-return]


def numpy_kernel_rule(operator: Operator) -> Callable[[Operator, int], Callable[..., Any]]:
    """Return the rule that generates the kernel at the first call; one kernel serves all dtypes."""
    write = cache(numpy_kernel)

    @wraps(numpy_kernel)
    def rule(operator: Operator, word: int) -> Callable[..., Any]:
        return write(operator)

    return rule
