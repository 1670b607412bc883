"""The methods of ``ndarray``, by NumPy's rules, and their installation."""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...core.word import DTYPE_TRAIT, REQUIRES_GRAD
from ...interop.numpy_fallback import op, run_numpy
from ...interop.numpy_functions import numpys
from ...interop.numpy_order import in_order
from ...ops.declare.methods import DelayedMethod, is_method
from ..array_class import as_ndarray, as_ndarrays, is_scalar, ndarray
from ..call_rules.native_calls import SCALARS
from ..call_rules.quick_functions import quick_function
from ..converting import from_numpy, on_host, operand
from ..known import functions
from ..namespace import universal
from . import memory
from .elements import element_methods
from .flat import Flat
from .operators import is_foreign, operators

__all__ = ["install"]

_FUNCTIONS: Final = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "cumprod", "cumsum",
    "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "put", "ravel", "repeat", "round", "searchsorted",
    "squeeze", "std", "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip
_PLAIN: Final = frozenset(["as_subclass", "backward", "item", "numpy", "register_hook", "retain_grad", "tolist"])
"""Methods of tensors whose results are not to become arrays."""
_tensor: Final[Any] = Tensor  # whose properties have descriptors


# ---- elements


_tensor_reshape: Final[Any] = Tensor.reshape


def _hash(self: Any) -> int:
    if self._data.shape or self._word & REQUIRES_GRAD:
        return object.__hash__(self)
    return hash(Tensor.item(self))  # as NumPy's scalars, so that elements are keys of dicts and elements of sets


def _item(self: Any, *args: Any) -> Any:
    return Tensor.item(self[_place(self, args)] if args else self)


def _place(self: Any, args: tuple[Any, ...]) -> Any:
    if len(args) == 1 and isinstance(args[0], tuple):
        return args[0]
    if len(args) == 1:
        return tuple(int(i) for i in np.unravel_index(args[0], self.shape))
    return args


def _real_item(self: Any, what: str) -> Any:
    """Return the only element for ``float(x)`` and ``int(x)``, with NumPy's errors."""
    if self._data.size != 1:
        raise TypeError(
            f"[{what}] only 0-dimensional arrays can be converted to Python scalars, got shape {self.shape}: index the "
            "array first."
        )
    return Tensor._real_item(self, what)


def _of_number(name: str) -> Callable[..., Any]:
    """Return a method that NumPy's scalars share with Python's numbers, for arrays of one number."""

    def method(self: Any) -> Any:
        if self._data.shape:
            raise AttributeError(f"'ndarray' object has no attribute {name!r}: only single numbers do, as x[0].")
        value = Tensor.item(self)
        return getattr(float(value) if name == "is_integer" else value, name)()

    return method


def _python_round(self: Any, ndigits: int | None = None) -> Any:
    """Round as Python does: to an int, or to digits; arrays other than those for a scalar have ``x.round()``."""
    if self._data.shape or is_scalar(self):
        raise TypeError("type ndarray doesn't define __round__ method: use x.round(decimals).")
    return round(Tensor.item(self)) if ndigits is None else functions["round"](self, ndigits)


def _itemset(self: Any, *args: Any) -> None:
    raise AttributeError("`itemset` was removed from the ndarray class in NumPy 2.0: use x[index] = value.")


def _fill(self: Any, value: Any) -> None:
    value = operand(value, weak=True)
    if isinstance(value, Tensor) and value.ndim:
        raise ValueError(f"[ndarray.fill] takes one number, got shape {value.shape}: use x[...] = values.")
    self[...] = value


# ---- in place


def _sort(self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    self.copy_(functions["sort"](self, axis))


def _partition(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    self.copy_(functions["partition"](self, kth, axis))


# ---- shapes and copies


def _reshape(self: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    given = shape[0] if len(shape) == 1 else shape
    if order == "C" and copy is None and (given.__class__ is tuple or given.__class__ is int):
        try:
            made = _tensor_reshape(self, (given,) if given.__class__ is int else given)
        except ValueError:
            return functions["reshape"](self, given)  # which explains it in NumPy's words
        return as_ndarrays(made, (self,))
    return functions["reshape"](self, given, order=order, copy=copy)


def _transpose(self: Any, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        (axes,) = axes
    return functions["transpose"](self, axes or None)


def _flatten(self: Any, order: str = "C") -> Any:
    made = functions["ravel"](self, order)
    return as_ndarrays(op("clone")(made), (made,))


def _copy(self: Any, order: str = "C") -> Any:
    return as_ndarrays(in_order(op("clone")(self), order, like=self))


def _astype(
    self: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True,
) -> Any:  # fmt: skip
    wanted = np.dtype(dtype)
    if not np.can_cast(self.dtype, wanted, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {self.dtype!r} to {wanted!r} according to the rule {casting!r}")
    if wanted not in DTYPE_TRAIT:
        return self.numpy().astype(wanted)
    source = self
    if self.dtype.kind == "c" and wanted.kind not in "cb":
        text = "Casting complex values to real discards the imaginary part"
        warnings.warn(text, np.exceptions.ComplexWarning, stacklevel=2)
        source = op("real")(self)
    return as_ndarrays(in_order(op("astype")(source, wanted, copy=copy), order, like=self), (self,))


def _matrix_transpose(self: Any) -> Any:
    if self.ndim < 2:
        raise ValueError(f"matrix transpose with ndim < 2 is undefined: got shape {self.shape}")
    return as_ndarray(op("matrix_transpose")(self))


def _conj(self: Any) -> Any:
    return universal["conjugate"](self) if self.dtype.kind == "c" else self


def _compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return functions["compress"](condition, self, axis, out)


def _ptp(self: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    return functions["ptp"](self, axis, out, keepdims)


# ---- text and bytes


def _tobytes(self: Any, order: str = "C") -> bytes:
    return self.numpy().tobytes(order)  # type: ignore[no-any-return]


def _repr(self: Any) -> str:
    text = np.array_repr(self.detach()._values("repr"))
    if self.device.type != "cpu":
        text = f"{text[:-1]}, device='{self.device}')"
    return f"{text[:-1]}, requires_grad=True)" if self.requires_grad else text


def _str(self: Any) -> str:
    return np.array_str(self.detach()._values("str"))


def _format(self: Any, spec: str) -> str:
    if self.ndim == 0:
        return format(Tensor.item(self), spec)
    if spec:
        raise TypeError("unsupported format string passed to numpy.ndarray.__format__")
    return str(self)


# ---- protocols


def _array_ufunc(self: Any, source: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    call = universal.get(source.__name__)
    if call is None or call._numpy is not source:
        return Tensor.__array_ufunc__(self, source, method, *inputs, **options)
    for x in inputs:
        if x.__class__ not in _USUAL and is_foreign(x):
            return NotImplemented
    if method == "__call__" and not options:  # as of a scalar and an array
        return call(*inputs)
    return getattr(call, method)(*inputs, **options)


def _array_function(self: Any, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    if func in _CONVERSIONS:
        return run_numpy(func.__name__, func, args, kwargs)
    ours = _by_source().get(func)
    return on_host(func, args, kwargs) if ours is None else ours(*args, **kwargs)


_USUAL: Final = SCALARS | {ndarray, Tensor, np.ndarray}
_CONVERSIONS: Final = frozenset([np.atleast_1d, np.atleast_2d, np.atleast_3d])
"""NumPy functions whose results stay NumPy arrays: libraries call them before compiled code (``scipy.optimize``)."""


@functools.cache
def _by_source() -> dict[Any, Any]:
    """Return our functions by NumPy's, those of ``numpy.linalg`` and ``numpy.fft`` included."""
    found: dict[Any, Any] = {}
    for name, function in functions.items():
        source = numpys(name)
        if source is not None:
            found.setdefault(source, function)
    return found


# ---- installation


def _like(source: Callable[..., Any], method: Any) -> Callable[..., Any]:
    """Return a method with the signature and the docstring of the function that it calls, for ``help``."""
    method.__wrapped__, method.__doc__ = source, source.__doc__
    return method  # type: ignore[no-any-return]


def _method(name: str) -> Callable[..., Any]:
    call: Any = universal.get(name) or functions[name]
    if hasattr(call.__class__, "__get__"):  # it binds as a method
        return call  # type: ignore[no-any-return]
    return _like(call, lambda self, *args, **kwargs: call(self, *args, **kwargs))


def _host_method(name: str) -> Callable[..., Any]:
    own: Any = getattr(np.ndarray, name)
    return _like(own, lambda self, *args, **kwargs: from_numpy(own(self.numpy(), *args, **kwargs), self.device))


def _of_tensors(name: str) -> Callable[..., Any]:
    """Return a method of tensors that NumPy's arrays do not have, whose results are arrays."""
    own: Any = getattr(Tensor, name)
    return _like(own, lambda self, *args, **kwargs: as_ndarrays(own(self, *args, **kwargs), (self, *args)))


_QUICK: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "reshape": (_reshape, "view self.reshape(*shape) / reshape"),
    "transpose": (_transpose, "view self.transpose(*axes) / permute_dims"),
    "flatten": (_flatten, "self.flatten(order) / ravel reshape clone"),
    "copy": (_copy, "self.copy(order) / clone"),
    "astype": (_astype, "real quietly(self.astype, dtype) / astype"),
    "item": (_item, "raw self.item(*args) /"),
    "tolist": (Tensor.tolist, "raw self.tolist() /"),
}
"""Methods whose small calls are NumPy's, with what computes all others (Note [Quick calls of functions])."""


def _grad(self: Any) -> Any:
    found = _tensor.grad.fget(self)
    if found.__class__ is Tensor:
        found.__class__ = ndarray
    return found


def install() -> None:
    """Give ``ndarray`` its operators and methods."""
    named: dict[str, Any] = {
        **{name: DelayedMethod(ndarray, name, _of_tensors) for name in dir(Tensor)
           if not name.startswith("_") and name not in _PLAIN and is_method(name)},
        **operators(), **element_methods(), **{name: _method(name) for name in _FUNCTIONS},
        **{name: _host_method(name) for name in ("tofile", "dump", "dumps", "byteswap")},
        **{name: _of_number(name) for name in ("as_integer_ratio", "bit_count", "is_integer")},
        "_real_item": _real_item, "__round__": _python_round, "__trunc__": lambda self: math.trunc(Tensor.item(self)),
        "__hash__": _hash, "__bytes__": _tobytes, "__repr__": _repr, "__str__": _str, "__format__": _format,
        "__new__": memory.new_array, "__array_ufunc__": _array_ufunc, "__array_function__": _array_function,
        "__array_namespace__": lambda self, *, api_version=None: sys.modules["tenkey.numpy"],
        "sort": _sort, "partition": _partition, "resize": memory.resize, "setflags": memory.set_flags,
        "fill": _fill, "itemset": _itemset,
        **{name: quick_function(general, line, name, operands=["self"]) for name, (general, line) in _QUICK.items()},
        "view": memory.view, "conj": _conj, "conjugate": _conj, "ptp": _ptp,
        "compress": _compress, "tobytes": _tobytes,
        "mT": property(_matrix_transpose),
        "flat": property(Flat, lambda self, value: Flat(self).__setitem__(slice(None), value)),
        "shape": property(attrgetter("_data.shape"), memory.set_shape), "size": property(attrgetter("_data.size")),
        "strides": property(lambda self: self._data.strides),
        "base": property(memory.base), "flags": property(memory.Flags),
        "data": property(lambda self: self.numpy().data),
        "real": memory.real_part, "imag": memory.imaginary_part,
        "grad": property(_grad, _tensor.grad.fset, _tensor.grad.fdel),
    }  # fmt: skip
    for name, value in named.items():
        setattr(ndarray, name, value)
