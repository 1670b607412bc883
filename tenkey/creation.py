"""Making tensors from data: ``tensor`` (copies) and ``asarray`` (shares memory where it can)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .core import dtypes
from .core.device import CPU, Device, default_device, to_device
from .core.dtypes import DType
from .core.tensor import Tensor, cpu_word, make_tensor
from .core.word import DTYPE_TRAIT, GRADIENT, tensor_dtype
from .dispatch.errors import OutOfRangeError, shown
from .dispatch.registry import registry

__all__ = ["asarray", "tensor"]

_RAGGED: Final = "[{function}] the nested sequence has rows of different lengths or kinds: {error}."
_KIND: Final = "[{function}] cannot make a tensor of {value} with dtype {dtype}: give numbers or bools."
_LARGE: Final = (
    "[{function}] the Python int {value} fits into no integer dtype, the widest of which has 64 bits: give a float."
)
_DEEP: Final = "[{function}] the nested sequence is deeper than {limit} levels, or contains itself."
_LEVELS: Final = 64  # of dimensions, as in NumPy
_IMAGINARY: Final = "[{function}] {given} to {dtype} would lose the imaginary part: take tk.real(x) first."
_RANGE: Final = (
    "[{function}] the value {value} is out of range for {dtype}, which holds {low} to {high}: name a wider dtype."
)
_NO_COPY: Final = "[{function}] copy=False, but {why} needs a copy."
_GRADIENT: Final = (
    "[tensor] only Tensors of floating point and complex dtype can require gradients, got {dtype}: pass dtype=."
)


def asarray(obj: Any, /, *, dtype: Any = None, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of ``obj``: a tensor, NumPy array, nested sequence or number.

    Python floats give the default dtype (float32), ints int64, complex numbers complex64; arrays keep theirs. Memory
    is shared with a NumPy array or tensor unless ``copy`` is true or dtype or device change.

    Raises TypeError for what is no number, ValueError for ragged sequences and for an impossible ``copy=False``.

    >>> import numpy as np, tenkey as tk
    >>> tk.asarray([[1.0, 2.0]]).dtype, tk.asarray(np.ones(2)).dtype
    (dtype('float32'), dtype('float64'))
    """
    return _make(obj, dtype, device, copy, "asarray")


def _make(obj: Any, dtype: Any, device: Any, copy: bool | None, function: str) -> Tensor:
    """What ``asarray`` and ``tensor`` share; ``function`` is the one that errors name."""
    wanted = None if dtype is None else tensor_dtype(dtype)
    target = None if device is None else to_device(device)
    if isinstance(obj, Tensor):
        return _from_tensor(obj, wanted, target, copy, function)
    made = _from_array(obj, wanted, copy, function)
    target = target or default_device()
    if target is CPU:
        return made
    if copy is False:
        raise ValueError(_NO_COPY.format(function=function, why=f"moving to {target}"))
    return registry.find("tk::to_device").call(made, target)  # type: ignore[no-any-return]


def _from_tensor(obj: Tensor, dtype: DType | None, device: Device | None, copy: bool | None, function: str) -> Tensor:
    changes = (dtype is not None and dtype != obj.dtype) or (device is not None and device is not obj.device)
    if copy is False and changes:
        raise ValueError(_NO_COPY.format(function=function, why="another dtype or device"))
    if changes:
        return registry.find("tk::to").call(obj, dtype=dtype, device=device)  # type: ignore[no-any-return]
    return registry.find("tk::clone").call(obj) if copy else obj


def _from_array(obj: Any, dtype: DType | None, copy: bool | None, function: str) -> Tensor:
    if hasattr(obj, "__dlpack__") and not isinstance(obj, (np.ndarray, np.generic)) and not hasattr(obj, "__array__"):
        obj = np.from_dlpack(obj)
    plain = _plain(obj, function)
    try:
        array = np.asarray(plain)
    except ValueError as error:
        raise ValueError(_RAGGED.format(function=function, error=error)) from None
    source = array
    if dtype is None and not isinstance(obj, (np.ndarray, np.generic)) and not hasattr(obj, "__array__"):
        default = {"f": dtypes.default_float, "c": dtypes.default_complex, "i": dtypes.default_int}.get(
            array.dtype.kind
        )
        dtype = default() if default is not None else None
    if dtype is None:
        dtype = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    if array.dtype.kind not in "biufcV" or dtype not in DTYPE_TRAIT:
        long = next((item for item in array.flat if isinstance(item, int)), None) if array.dtype.kind == "O" else None
        if long is not None:
            raise OutOfRangeError(_LARGE.format(function=function, value=shown(long)))
        raise TypeError(_KIND.format(function=function, value=_short(obj), dtype=dtype))
    if array.dtype != dtype:
        array = _converted(array, dtype, is_python=not hasattr(obj, "__array__"), function=function)
    if any(s < 0 or s % array.dtype.itemsize for s in array.strides) or not array.flags.aligned:
        array = array.copy()  # negative strides do not exist here, and kernels want whole elements
    if not array.flags.writeable:
        array = array.copy()
    if copy and array is source:
        array = array.copy()
    if copy is False and (array is not source or not isinstance(obj, np.ndarray)):
        raise ValueError(_NO_COPY.format(function=function, why=f"making a tensor of a {type(obj).__name__}"))
    return make_tensor(array, cpu_word(dtype))


def _converted(array: np.ndarray, dtype: DType, *, is_python: bool, function: str) -> np.ndarray:
    """``astype``; Python ints that the dtype cannot hold are refused (those of an array wrap around, as in NumPy)."""
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(_IMAGINARY.format(function=function, given=array.dtype, dtype=dtype))
    if is_python and array.size and array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = dtypes.iinfo(dtype)
        for value in (int(array.min()), int(array.max())):
            if not limits.min <= value <= limits.max:
                raise OutOfRangeError(
                    _RANGE.format(function=function, value=value, dtype=dtype, low=limits.min, high=limits.max)
                )
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _plain(obj: Any, function: str, depth: int = 0) -> Any:
    """Nested sequences with their tensors as arrays."""
    if isinstance(obj, Tensor):
        return obj._values(function)
    if isinstance(obj, (list, tuple)):
        if depth > _LEVELS:
            raise ValueError(_DEEP.format(function=function, limit=_LEVELS))
        nested = any(isinstance(i, (list, tuple, Tensor)) for i in obj)
        return [_plain(item, function, depth + 1) for item in obj] if nested else obj
    return obj


def _short(obj: Any) -> str:
    text = repr(obj)
    return text if len(text) < 60 else text[:57] + "..."


def tensor(data: Any, *, dtype: Any = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of ``data``; with ``requires_grad`` a leaf that collects a gradient.

    >>> import tenkey as tk
    >>> tk.tensor([1.0, 2.0], requires_grad=True).requires_grad
    True
    """
    source = data.detach() if isinstance(data, Tensor) else data
    made = _make(source, dtype, device, True, "tensor")
    if requires_grad:
        if made.dtype.kind not in "fc" and made.dtype.name != "bfloat16":
            raise RuntimeError(_GRADIENT.format(dtype=made.dtype))
        made._word |= GRADIENT
    return made
