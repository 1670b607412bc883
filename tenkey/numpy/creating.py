"""Functions of ``tenkey.numpy`` that make arrays, with NumPy's defaults."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..core.tree import tensors_in
from ..core.word import DTYPE_TRAIT
from ..functions.creation import asarray as to_tensor
from .array_class import as_ndarrays, ndarray
from .converting import cast, on_host
from .known import functions

__all__ = ["array", "asarray"]


def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0,
    like: Any = None, device: Any = None,
) -> Any:  # fmt: skip
    """Return an array of numbers, sequences, arrays or tensors, which keep their gradient; a copy by default.

    >>> import tenkey.numpy as tnp
    >>> tnp.array([1, 2], ndmin=2).shape, tnp.array([1.5, 2]).dtype
    ((1, 2), dtype('float64'))
    """
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is not None and wanted not in DTYPE_TRAIT:
        return on_host(np.array, (object, wanted), {"copy": copy})
    if isinstance(object, Tensor):
        made = object if wanted is None else cast(object, wanted)
        if device is not None:
            made = made.to_device(device)
        if copy and made is object:
            made = made.clone()
        elif copy is False and made is not object:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
    elif isinstance(object, (list, tuple)) and tensors_in(object):
        made = _stacked(object, wanted)
    else:
        source = np.asarray(object) if wanted is None else np.array(object, wanted, copy=True if copy else None)
        if source.dtype not in DTYPE_TRAIT:
            raise TypeError(
                f"[numpy.array] arrays of dtype {source.dtype} do not exist here, only bools and numbers of up to 64 "
                "bits (complex128): see docs/numpy.md."
            )
        made = to_tensor(source, device=device, copy=copy or None)
    made = as_ndarrays(made, (object,))
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made


def _stacked(items: Any, dtype: Any) -> Any:
    parts = [array(x, copy=None) for x in items]
    made = functions["stack"](parts)
    return made if dtype is None else cast(made, dtype)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    """Return an array, without a copy where the data allow it; arguments as in :func:`array`."""
    return (
        a
        if a.__class__ is ndarray and dtype is None and device is None and not copy
        else array(a, dtype, copy=copy, device=device)
    )


def _shape_of(shape: Any) -> Any:
    return shape


functions["array"] = array
functions["asarray"] = functions["asanyarray"] = functions["ascontiguousarray"] = asarray
