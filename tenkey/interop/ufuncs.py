"""NumPy ufuncs on tensors: ``np.exp(x)`` is ``tk.exp(x)``.

Note [Ufuncs on tensors]
~~~~~~~~~~~~~~~~~~~~~~~~
A NumPy ufunc that has a counterpart among the operators calls it: with gradients, on every device, and with tensors as
results. Expressions such as ``array + tensor`` arrive here too. Everything else (``out=``, ``where=``, ``dtype=``,
``np.add.reduce``, ufuncs of other libraries) is computed by NumPy from the values, which tensors that require gradients
refuse to give; the results become tensors on the device of the first one, unless ``out=`` receives them. Classes with a
handler of their own (pandas, xarray, units) are left to handle the call.
Guarded by tests/functions/test_asarray.py::test_ufuncs_of_tensors.
"""

from __future__ import annotations

import functools
import numbers
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.tensor import Tensor, add_methods
from ..core.word import DTYPE_TRAIT
from ..dispatch.registry import registry
from ..ops.builtin import load_owner
from .numpy_fallback import refuse_tensor, run_numpy, to_tensors
from .numpy_names import NUMPY_NAMES

__all__: list[str] = []


@functools.cache
def _operator_of(ufunc: np.ufunc) -> Any:
    """Return the operator that means the same as a ufunc, or None."""
    name = ufunc.__name__
    if getattr(np, name, None) is not ufunc:  # a ufunc of another library may have the same name
        return None
    ours = f"tk::{NUMPY_NAMES.get(name, name)}"
    load_owner(ours)  # Note [Operators that are declared on first use]
    return registry.operators.get(ours)


def _is_operand(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.dtype in DTYPE_TRAIT
    return isinstance(x, (Tensor, bool, int, float, complex)) or (isinstance(x, np.generic) and x.dtype.kind in "biufc")


def _is_foreign(x: Any) -> bool:
    """Return whether another class, or NumPy itself, should handle the call."""
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
    name, out = ufunc.__name__, options.get("out") or ()
    if any(isinstance(x, Tensor) for x in out):
        raise refuse_tensor(name, out=True)
    if any(x is not None and _is_foreign(x) for x in (*inputs, *out)):
        return NotImplemented
    if method == "at" and isinstance(inputs[0], Tensor):
        raise refuse_tensor(f"{name}.at", out=False, remedy="use tk.index_add(x, ...), or assign by index")
    result = run_numpy(name, getattr(ufunc, method), inputs, options)
    return result if out else to_tensors(result, next((x.device for x in inputs if isinstance(x, Tensor)), CPU))


def _array_function(self: Tensor, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from .numpy_functions import array_function  # replaces this method; most programs never need it

    return array_function(self, func, types, args, kwargs)


add_methods(__array_ufunc__=_array_ufunc, __array_function__=_array_function)
