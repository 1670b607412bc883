"""CPU kernels of operators whose block says how NumPy computes them (facet ``Host``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from ...ops.declare.facets import Host, is_plain_tensor
from .errors import QUIET, ignore, restore
from .kernels import wrap

__all__ = ["host_kernel"]


_FAILED: Final = "[{name}] {error} (It was called with {operands}.)"
_UNTOLD: Final = (ValueError, TypeError, IndexError, OverflowError, RuntimeError, np.linalg.LinAlgError)


def _described(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments of a call, tensors by dtype and shape."""

    def one(value: Any) -> str:
        if isinstance(value, Tensor):
            return f"{value.dtype} {value.shape}"
        if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            return f"[{', '.join(map(one, value))}]"
        return repr(value)

    return ", ".join([*map(one, args), *[f"{name}={one(value)}" for name, value in kwargs.items()]])


def _array(value: Any) -> Any:
    """An argument with arrays in place of tensors."""
    if isinstance(value, Tensor):
        return value._data
    if isinstance(value, (list, tuple)):
        return [_array(item) for item in value]
    return value


def _tensor(data: Any) -> Tensor:
    if data.__class__ is not np.ndarray:
        data = np.asarray(data)
    # results are contiguous, as the rules for shapes say; np.ascontiguousarray would give a 0-d array a dimension
    return wrap(data if data.flags.c_contiguous else data.copy(order="C"))


def host_kernel(operator: Operator) -> Callable[..., Any]:
    """The kernel: tensors become arrays, NumPy computes without warnings, arrays become tensors.

    The rule for shapes and dtypes runs first, since it is where bad arguments are refused; for a strict function it
    runs only when that fails, to give the error of the operator rather than NumPy's.
    """
    facet: Host = operator.facets["Host"]
    name = operator.schema.base_name
    function, strict = facet.function, facet.strict
    composite = operator.facets.get("Composite")
    # what is asked where the function fails: a rule, which raises, or the composition, which may know better
    otherwise = operator.facets["Meta"].rule if composite is None else composite.function
    arguments = operator.schema.arguments
    single = len(operator.schema.returns) == 1
    # the commonest kind: one tensor, which comes first
    first_alone = [a.name for a in arguments if a.type.contains_tensor] == [a.name for a in arguments[:1]]
    first_alone = first_alone and is_plain_tensor(arguments[0].type) and not arguments[0].kwarg_only

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not strict:
            otherwise(*args, **kwargs)
        token = ignore(QUIET)
        try:
            if first_alone and args and args[0] is not None:
                result = function(args[0]._data, *args[1:], **kwargs)
            else:
                arrays = [a._data if a.__class__ is Tensor else _array(a) for a in args]
                result = function(*arrays, **{name: _array(value) for name, value in kwargs.items()})
        except Exception as error:
            if composite is not None:
                result = NotImplemented
            else:
                if strict:
                    otherwise(*args, **kwargs)
                if type(error) in _UNTOLD and not str(error).startswith("["):
                    text = _FAILED.format(name=name, error=error, operands=_described(args, kwargs))
                    raise type(error)(text) from error
                raise
        finally:
            restore(token)
        if result is NotImplemented:
            return otherwise(*args, **kwargs)
        return _tensor(result) if single else tuple([_tensor(one) for one in result])

    return kernel
