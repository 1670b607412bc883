"""The memory of arrays: order of elements, views of another dtype, ``x.flags``, ``x.base``, ``x.shape = ...``.

Note [Order of elements in memory]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``order=`` has NumPy's meaning in functions that copy or read elements (``array``, ``copy``, ``ravel``, ``reshape``,
``zeros`` ...), and ``x.strides`` counts bytes. Results of operators lie in row-major order whatever the order of the
operands is (NumPy keeps the operands' order, on which no value depends). Strides are never negative: ``x[::-1]`` is a
copy.
Guarded by ``tests/numpy/test_array_memory.py``.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import numpy as np

from ...core.storage import is_contiguous
from ...core.tensor import Tensor, cpu_word, fits, make_view, storage_of, with_class
from ...core.word import DTYPE_MASK, REQUIRES_GRAD
from ...functions.creation import asarray
from ..array_class import as_ndarray, as_ndarrays, ndarray
from ..converting import from_numpy
from ..known import functions

__all__ = ["Flags", "base", "imaginary_part", "new_array", "real_part", "resize", "set_flags", "set_shape", "view"]

_KEYS: Final = {
    "C": "c_contiguous", "CONTIGUOUS": "c_contiguous", "F": "f_contiguous", "FORTRAN": "f_contiguous",
    "O": "owndata", "W": "writeable", "A": "aligned", "X": "writebackifcopy",
}  # fmt: skip


class Flags:
    """``x.flags``: the layout of an array's memory, by attributes and by NumPy's names as keys."""

    __slots__ = ("_array",)
    aligned: Final = True
    writebackifcopy: Final = False

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def c_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return bool(self._array.is_contiguous)

    @property
    def f_contiguous(self) -> bool:
        """Whether the elements lie in column-major order without gaps."""
        data = self._array._data
        return data.size == 0 or is_contiguous(data.shape[::-1], data.strides[::-1], data.dtype.itemsize)

    @property
    def owndata(self) -> bool:
        """Whether the array is not a view of another one."""
        return base(self._array) is None

    @property
    def writeable(self) -> bool:
        """Whether the elements can be changed; False protects them."""
        data = self._array._data
        return data.flags.writeable if data.__class__ is np.ndarray else True

    @writeable.setter
    def writeable(self, value: bool) -> None:
        self._array._data.flags.writeable = value

    contiguous = c_contiguous

    @property
    def fortran(self) -> bool:
        """Whether the order is column-major and not row-major."""
        return self.f_contiguous and not self.c_contiguous

    fnc = fortran

    @property
    def forc(self) -> bool:
        """Whether the order is row-major or column-major."""
        return self.f_contiguous or self.c_contiguous

    def __getitem__(self, key: str) -> bool:
        name = _KEYS.get(key, key.lower())
        if name.startswith("_") or not hasattr(self, name):
            raise KeyError("Unknown flag")
        return bool(getattr(self, name))

    def __setitem__(self, key: str, value: bool) -> None:
        if _KEYS.get(key, key.lower()) != "writeable":
            raise KeyError("Unknown flag")
        self.writeable = value

    def __repr__(self) -> str:
        names = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "writebackifcopy")
        return "".join(f"  {name.upper()} : {getattr(self, name)}\n" for name in names)


def base(self: Any) -> Any:
    """The array whose memory this one shares, or None."""
    root = self._storage
    return as_ndarray(root) if isinstance(root, Tensor) else None


def _refuse_gradient(self: Any, what: str, remedy: str) -> None:
    if self._word & REQUIRES_GRAD:
        raise RuntimeError(f"[ndarray.{what}] an array that requires a gradient {remedy}.")


def view(self: Any, dtype: Any = None, type: Any = None) -> Any:
    """Return a view, with ``dtype`` of the same bytes as numbers of another dtype; or an instance of a subclass."""
    for given in (dtype, type):
        if isinstance(given, _builtin_type) and issubclass(given, Tensor):
            return self.as_subclass(given)
    if dtype is None or np.dtype(dtype) == self.dtype:
        return self.as_subclass(ndarray)
    _refuse_gradient(self, "view", "has no view of another dtype: detach it")
    if self._data.__class__ is not np.ndarray:
        return from_numpy(self.numpy().view(dtype), self.device)
    return window(self, self._data.view(dtype))


_builtin_type: Final = type


def window(self: Any, data: np.ndarray) -> Any:
    """Return a view of the memory of an array on the CPU, of any dtype, or a copy where strides do not allow one."""
    if not fits(data, read_only=True):
        return from_numpy(data)
    made = make_view(self, data)
    made._word = made._word & ~DTYPE_MASK | cpu_word(data.dtype)
    made.__class__ = ndarray
    return made


def _part(self: Any, name: str) -> Any:
    if name == "real" and self.dtype.kind != "c":
        return self
    if self.dtype.kind == "c" and not self._word & REQUIRES_GRAD and self._data.__class__ is np.ndarray:
        return window(self, getattr(self._data, name))
    return functions[name](self)


def _set_part(self: Any, name: str, value: Any) -> None:
    if self.dtype.kind != "c":
        if name == "imag":
            raise TypeError("array does not have imaginary part to set")
        self[...] = value
        return
    if not self._word & REQUIRES_GRAD and self._data.__class__ is np.ndarray:
        _part(self, name)[...] = value
        return
    real, imag = (value, _part(self, "imag")) if name == "real" else (_part(self, "real"), value)
    self[...] = real + 1j * functions["asarray"](imag)


def _property(name: str) -> property:
    return property(lambda self: _part(self, name), lambda self, value: _set_part(self, name, value))


real_part: Final = _property("real")
imaginary_part: Final = _property("imag")


def set_shape(self: Any, shape: Any) -> None:
    """Give an array another shape in place: ``x.shape = ...``."""
    _refuse_gradient(self, "shape", "keeps its shape: use x.reshape(shape)")
    wanted = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    try:
        made = Tensor.reshape(self, wanted, copy=False)
    except ValueError:
        functions["reshape"](self, wanted)  # which explains a size that does not fit
        raise AttributeError(
            f"[ndarray.shape] Incompatible shape for in-place modification: the elements of shape {self.shape}, "
            f"strides {self.strides} cannot take the shape {wanted} without a copy. Use x.reshape(shape)."
        ) from None
    self._data = made._data


def set_flags(self: Any, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
    """Protect the elements of an array from changes, or allow them (``x.setflags(write=False)``)."""
    if write is not None:
        Flags(self).writeable = bool(write)


def resize(self: Any, *shape: Any, refcheck: bool = True) -> None:
    """Give an array another shape and size in place, as ``numpy.ndarray.resize``: further elements are zero.

    Only an array on the CPU that is not a view changes its size. Views of it, which ``numpy`` refuses unless
    ``refcheck=False``, keep the old memory. Raises ValueError for a view, RuntimeError where a gradient is required.
    """
    if shape in ((), (None,)):
        return
    wanted = tuple([operator.index(n) for n in (shape[0] if isinstance(shape[0], (tuple, list)) else shape)])
    if any(n < 0 for n in wanted):
        raise ValueError(f"[ndarray.resize] got the shape {wanted}: all element lengths must be non-negative.")
    _refuse_gradient(self, "resize", "keeps its size: use numpy.resize(x, shape)")
    if math.prod(wanted) == self.size and self.is_contiguous:
        set_shape(self, wanted)
        return
    if self._data.__class__ is not np.ndarray or base(self) is not None:
        raise ValueError(
            "[ndarray.resize] cannot resize this array: it does not own its data, or is on another device. Use "
            "numpy.resize(x, shape), which returns a new one."
        )
    data = np.zeros(wanted, self._data.dtype)
    kept = min(data.size, self.size)
    data.reshape(-1)[:kept] = self._data.reshape(-1)[:kept]
    storage = storage_of(self)
    storage.buffer = self._data = data
    storage.version += 1


def new_array(
    cls: Any, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None,
    order: Any = None,
) -> Any:  # fmt: skip
    """Return an array of any values, or one on the memory of a buffer, as ``numpy.ndarray(...)`` does."""
    if buffer is None and strides is None:
        made = functions["empty"](shape, dtype, order or "C")
    else:
        if isinstance(buffer, Tensor):
            buffer = buffer.numpy()
        made = as_ndarrays(asarray(np.ndarray(shape, dtype, buffer, offset, strides, order)))
    return made if cls is ndarray else with_class(cls, made)
