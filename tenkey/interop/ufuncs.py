"""NumPy's ufuncs of tensors: ``np.exp(x)`` is ``tk.exp(x)``.

Note [Ufuncs of tensors]
~~~~~~~~~~~~~~~~~~~~~~~~
A ufunc of NumPy's with an operator of its own meaning here is that operator: with gradients, on every device, and with
tensors as results. NumPy's own operators (``array + tensor``) come this way too. All else (``out=``, ``where=``,
``dtype=``, ``np.add.reduce``, other libraries' ufuncs) is computed by NumPy from the tensors' values, which refuses
those that require gradients; what comes out are tensors again on the device of the first one, unless ``out=`` says
where the result goes. A class with a handler of its own (pandas, xarray, units) is left to do it.
Guarded by tests/functions/test_asarray.py::test_ufuncs_of_tensors.
"""

from __future__ import annotations

import numbers
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..core.tensor import Tensor, cpu_word, make_tensor
from ..core.word import DTYPE_TRAIT
from ..dispatch.registry import registry

__all__: list[str] = []

_RENAMED: Final = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "conjugate": "conj", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "power": "pow", "right_shift": "bitwise_right_shift", "rint": "round",
}  # fmt: skip
_found: dict[np.ufunc, Any] = {}


def _operator_of(ufunc: np.ufunc) -> Any:
    """The operator that means the same, or None."""
    try:
        return _found[ufunc]
    except KeyError:
        name = ufunc.__name__
        known = getattr(np, name, None) is ufunc  # not what merely is called so
        operator = registry.operators.get(f"tk::{_RENAMED.get(name, name)}") if known else None
        _found[ufunc] = operator
        return operator


def _is_operand(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype in DTYPE_TRAIT
    return isinstance(x, (Tensor, bool, int, float, complex)) or (isinstance(x, np.generic) and x.dtype.kind in "biufc")


def _is_foreign(x: Any) -> bool:
    """Whether another class wants to be asked, or NumPy knows better than we what to do with it."""
    if isinstance(x, (Tensor, numbers.Number, np.generic, list, tuple)):
        return False
    return getattr(type(x), "__array_ufunc__", None) is not np.ndarray.__array_ufunc__


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    if method == "__call__" and not options:
        operator = _operator_of(ufunc)
        if operator is not None and all(map(_is_operand, inputs)):
            return operator.call(*inputs)
        if ufunc is np.divmod and all(map(_is_operand, inputs)):
            return registry.find("tk::floor_divide").call(*inputs), registry.find("tk::remainder").call(*inputs)
    out = options.get("out") or ()
    if any(isinstance(x, Tensor) for x in out):
        raise TypeError(
            f"[numpy.{ufunc.__name__}] out= is a tensor, which NumPy does not write to: use x.copy_(result), or give "
            "a NumPy array."
        )
    if any(x is not None and _is_foreign(x) for x in (*inputs, *out)):
        return NotImplemented
    if method == "at" and isinstance(inputs[0], Tensor):
        raise TypeError(
            f"[numpy.{ufunc.__name__}.at] changes its first operand, a tensor, which NumPy does not write to: use "
            "tk.index_add(x, ...), or assign by index."
        )
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    device = tensors[0].device if tensors else CPU

    def plain(x: Any) -> Any:
        return x._to_numpy(f"numpy.{ufunc.__name__}") if isinstance(x, Tensor) else x

    result = getattr(ufunc, method)(*map(plain, inputs), **{key: plain(value) for key, value in options.items()})

    def wrapped(value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in DTYPE_TRAIT:
            return value
        made = make_tensor(np.asarray(value), cpu_word(value.dtype))
        return made if device is CPU else registry.find("tk::to_device").call(made, device)

    if out:
        return result
    return tuple(map(wrapped, result)) if isinstance(result, tuple) else wrapped(result)


_method: Any = _array_ufunc
_method.__name__, _method.__qualname__ = "__array_ufunc__", "Tensor.__array_ufunc__"
setattr(Tensor, _method.__name__, _method)
