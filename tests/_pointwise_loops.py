"""Runs the compiled pointwise loop of a scalar expression on NumPy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tenkey.backends.cpu.loops.expressions import ScalarLoop
from tenkey.backends.cpu.loops.pointwise_loop import lanes_for, pointwise
from tenkey.backends.llvm import address_of

__all__ = ["run", "run_into"]

Array = np.ndarray[Any, Any]
_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def run_into(function: ScalarLoop, arrays: list[Array], outs: list[Array]) -> None:
    """Compile the pointwise loop of an expression for these dtypes, and call it for vectors of one length."""
    inputs, outputs = tuple(a.dtype for a in arrays), tuple(a.dtype for a in outs)
    statics = {"FUNCTION": function, "INPUTS": inputs, "OUTPUTS": outputs}
    address = address_of(pointwise, **statics, LANES=lanes_for(function, inputs, outputs))
    every = [*arrays, *outs]
    args = (ctypes.c_void_p * len(every))(*[a.ctypes.data for a in every])
    steps = (ctypes.c_int64 * len(every))(*[a.strides[0] for a in every])
    _LOOP(address)(args, ctypes.byref(ctypes.c_int64(len(outs[0]))), steps, None)


def run(function: ScalarLoop, *arrays: Array, result: Any = None) -> Array:
    """Return the results of an expression, whose variables take the elements of the arrays."""
    out = np.zeros(arrays[0].shape, result or function.result or function.dtype)
    run_into(function, list(arrays), [out])
    return out
