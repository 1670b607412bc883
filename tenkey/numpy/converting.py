"""Operands and results of the functions of ``tenkey.numpy``, and calls that NumPy computes itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..core.dtypes import names as dtypes
from ..core.exchange.interfaces import array_of
from ..core.lift import weak_tensor
from ..core.tensor import Tensor, from_host
from ..core.tree import map_tensors, tensors_in, tree_map
from ..core.word import DTYPE_TRAIT, WEAK_MASK
from ..dispatch.errors import OutOfRangeError
from ..functions.creation import asarray
from ..interop.numpy_fallback import op
from .array_class import as_results, gives_scalars, ndarray

__all__ = [
    "NUMBERS", "cast", "from_numpy", "host_calls", "in_float64", "is_strict", "on_host", "operand", "operators_only",
    "write_out",
]  # fmt: skip

_can_cast: Final[Any] = np.can_cast

NUMBERS: Final = (bool, int, float, complex)
_DOUBLE: Final = dtypes.get_defaults()._replace(
    real_floating=dtypes.float64, complex_floating=dtypes.complex128, integral=dtypes.int64
)
host_calls: Final[dict[str, int]] = {}
"""How often NumPy computed a function of the namespace from the values, by name."""
_strict: ContextVar[bool] = ContextVar(
    "tenkey_numpy_operators_only", default=bool(os.environ.get("TENKEY_NUMPY_OPERATORS_ONLY"))
)


class operators_only:  # used like a function
    """Refuse what NumPy would compute from the values, in a ``with`` block: to find out what has no operator.

    >>> import tenkey.numpy as tnp
    >>> with tnp.operators_only():
    ...     tnp.gcd.reduce(tnp.array([4, 6]))
    Traceback (most recent call last):
    NotImplementedError: [numpy.reduce] has no operator for these arguments, and operators_only() forbids NumPy's own.
    """

    def __enter__(self) -> None:
        self._token = _strict.set(True)

    def __exit__(self, *exception: object) -> None:
        _strict.reset(self._token)


def is_strict() -> bool:
    """Return whether ``operators_only`` is in force."""
    return _strict.get()


def in_float64(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function with NumPy's default dtypes: float64, complex128, int64."""
    if dtypes.get_defaults() == _DOUBLE:
        return function(*args, **kwargs)
    token = dtypes._defaults.set(_DOUBLE)
    try:
        return function(*args, **kwargs)
    finally:
        dtypes._defaults.reset(token)


def operand(x: Any, *, weak: bool = False) -> Any:
    """Return an operand as a tensor; with ``weak`` a Python number stays one. Objects of NumPy's alone stay."""
    if isinstance(x, Tensor):
        return x if weak or not x._word & WEAK_MASK else asarray(np.asarray(x._data.item()))
    if isinstance(x, NUMBERS) and not isinstance(x, np.generic):
        weak = weak and x.__class__ in NUMBERS  # numbers of derived classes have a dtype, as in NumPy
        if not weak and isinstance(x, int) and not -(2**63) <= x < 2**64:
            raise OutOfRangeError("[asarray] a Python int without an array beside it must fit into 64 bits.")
        return weak_tensor(x) if weak else from_host(np.asarray(x))
    if tensors_in([x]) and isinstance(x, (list, tuple)):
        return in_float64(asarray, (x,), {})
    array = array_of(x, "asarray") if isinstance(x, (list, tuple)) and x else np.asarray(x)
    return from_host(array) if array.dtype in DTYPE_TRAIT else array


def cast(x: Tensor, dtype: np.dtype) -> Tensor:
    """Return a tensor in the dtype: itself if it has it. Raises OverflowError for Python ints that do not fit."""
    if x._word & WEAK_MASK:
        return from_host(np.array(x._data.item(), dtype))
    return x if x.dtype == dtype else Tensor.astype(x, dtype)  # laid out as for a ufunc, not as by x.astype


def on_host(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what NumPy computes from the values of the tensors: arrays as ``ndarray`` where tensors have the dtype.

    An ``out=`` that is a tensor receives the result. Raises RuntimeError for a tensor that requires a gradient.
    """
    name = getattr(function, "__name__", "")
    if _strict.get():
        raise NotImplementedError(
            f"[numpy.{name}] has no operator for these arguments, and operators_only() forbids NumPy's own."
        )
    host_calls[name] = host_calls.get(name, 0) + 1
    tensors = [x for x in tensors_in((args, kwargs)) if not x._word & WEAK_MASK]
    device = tensors[0].device if tensors else CPU
    out = kwargs.get("out")
    outs = out if isinstance(out, tuple) else (out,)
    arrays: tuple[Any, ...] = ()
    if any(isinstance(x, Tensor) for x in outs):
        arrays = tuple([x._to_numpy(f"numpy.{name}").copy() if isinstance(x, Tensor) else x for x in outs])
        kwargs = {**kwargs, "out": arrays if isinstance(out, tuple) else arrays[0]}
    args, kwargs = map_tensors(lambda x: _values(x, name), (args, kwargs))
    result = function(*args, **kwargs)
    if arrays:
        for x, array in zip(outs, arrays):
            if isinstance(x, Tensor):
                x.copy_(from_host(array, device))
        return out[0] if isinstance(out, tuple) and len(out) == 1 else out
    return from_numpy(result, device)


def _values(x: Tensor, name: str) -> Any:
    if x._word & WEAK_MASK:
        return x._data.item()
    return x._to_numpy(f"numpy.{name}").view()


def from_numpy(result: Any, device: Any = CPU) -> Any:
    """Convert NumPy's results: arrays to ``ndarray``, and scalars to 0-d arrays unless they may stay scalars."""
    scalars = device is CPU and gives_scalars()

    def convert(value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in DTYPE_TRAIT:
            return value
        if scalars and isinstance(value, np.generic):
            return value
        made = from_host(np.array(value), device)
        made.__class__ = ndarray
        return made

    return tree_map(convert, result)


_GENERALIZED: Final = {"matmul": 1, "matvec": 1, "vecmat": 1, "vecdot": 0}
"""Ufuncs of vectors and matrices, whose ``out=`` may lack leading axes of length 1; the dimensions that it needs."""


def write_out(name: str, made: Any, out: Any, where: Any, casting: str, given: tuple[Any, ...] = ()) -> Any:
    """Write results to ``out`` where the condition holds, and return it; without ``out``, other elements are zero."""
    several = isinstance(made, tuple)
    results = made if several else (made,)
    outs = out if isinstance(out, tuple) else (out,) * (1 if out is None or not several else len(results))
    outs = (*outs, *(None,) * (len(results) - len(outs)))
    written = []
    for result, target in zip(results, outs):
        if target is None:
            condition = operand(where)
            written.append(as_results(op("where")(condition, result, cast(from_host(np.zeros(())), result.dtype))))
            continue
        if not isinstance(target, (Tensor, np.ndarray)):
            raise TypeError(f"[numpy.{name}] return arrays must be of ArrayType: out= is a {type(target).__name__}.")
        if not _can_cast(result.dtype, target.dtype, casting):
            raise TypeError(
                f"[numpy.{name}] Cannot cast the result of dtype {result.dtype} to out= of dtype {target.dtype} with "
                f"casting={casting!r}: give an array of the result's dtype, or casting='unsafe'."
            )
        surplus = result.ndim - target.ndim
        if surplus > 0 and target.ndim >= _GENERALIZED.get(name, result.ndim) and set(result.shape[:surplus]) == {1}:
            result = op("reshape")(result, result.shape[surplus:])
        shape = np.broadcast_shapes(result.shape, target.shape)
        if shape != target.shape:
            raise ValueError(
                f"[numpy.{name}] out= has shape {target.shape}, and the result {result.shape}: it must have the shape "
                "of the result."
            )
        if isinstance(target, np.ndarray):
            np.copyto(target, result.numpy(), casting="unsafe", where=where)
        else:
            value = cast(result, target.dtype)
            if where is not True:
                value = op("where")(operand(where), value, target)
            target.copy_(value)
        written.append(target)
    return tuple(written) if several else written[0]
