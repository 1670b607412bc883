"""The operators and methods of ``ndarray``, by NumPy's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor
from ..core.word import DTYPE_MASK, DTYPE_TRAIT, WEAK_MASK, WEAK_TRAIT
from ..dispatch.registry import registry
from .array_class import as_ndarray, as_ndarrays, ndarray
from .converting import from_numpy, on_host, operand
from .namespace import functions, universal

__all__: list[str] = []

_BINARY: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "divmod": "divmod",
}  # fmt: skip
_COMPARISONS: Final = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY: Final = {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}
_FUNCTIONS: Final = (
    "all any argmax argmin argpartition argsort choose clip compress cumprod cumsum diagonal max mean min nonzero prod "
    "repeat round searchsorted std sum swapaxes take trace var ravel"
).split()


def _is_foreign(x: Any) -> bool:
    """Tell whether an operand's own class should compute: it has NumPy's protocol, and is not an array of NumPy's."""
    if isinstance(x, (Tensor, np.ndarray, np.generic, bool, int, float, complex, list, tuple)):
        return False
    return getattr(x, "__array_ufunc__", np.ndarray.__array_ufunc__) is None or hasattr(x, "__array_priority__")


def _binary(name: str, *, reflected: bool) -> Callable[..., Any]:
    call = universal[name]

    def method(self: Any, other: Any) -> Any:
        if other.__class__ is not ndarray and (_is_foreign(other) or isinstance(other, (str, dict, set, type(None)))):
            return NotImplemented
        return call(other, self) if reflected else call(self, other)

    return method


def _comparison(name: str) -> Callable[..., Any]:
    call, unequal = universal[name], name == "not_equal"

    def method(self: Any, other: Any) -> Any:
        if other.__class__ is not ndarray:
            if _is_foreign(other):
                return NotImplemented
            if other is None or isinstance(other, (str, dict, set)):
                if name not in ("equal", "not_equal"):
                    return NotImplemented
                return functions["full"](self.shape, unequal)
        return call(self, other)

    return method


def _in_place(name: str, own: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return ``x += y`` and its like; ``own`` is the tensor's, which floats of one dtype and their numbers share."""
    call = universal[name]

    def method(self: Any, other: Any) -> Any:
        if not self._data.shape and not getattr(other, "ndim", 0):
            return call(self, other)  # a 0-d array stands for a scalar of NumPy's, which is immutable
        return call(self, other, out=self)

    if own is None:
        return method

    def fast(self: Any, other: Any) -> Any:
        dtype = self._word & DTYPE_MASK
        if dtype in _INEXACT and self._data.shape:
            kind = other.__class__
            if kind is float or kind is int or (kind is ndarray and other._word & _DTYPE_OR_WEAK == dtype):
                return own(self, other)
        return method(self, other)

    return fast


_INEXACT: Final = frozenset([DTYPE_TRAIT[np.dtype(name)] for name in ("f2", "f4", "f8", "c8", "c16")])
_DTYPE_OR_WEAK: Final = DTYPE_MASK | WEAK_MASK
_OWN_IN_PLACE: Final = frozenset(["add", "sub", "mul", "truediv"])


def _unary(name: str) -> Callable[..., Any]:
    call = universal[name]
    return lambda self: call(self)


def _method(name: str) -> Callable[..., Any]:
    call: Any = universal.get(name) or functions[name]
    return lambda self, *args, **kwargs: call(self, *args, **kwargs)


def _getitem(self: Tensor, index: Any) -> Any:
    made = _tensor_getitem(self, _index(index))
    if made.__class__ is Tensor:
        made.__class__ = ndarray
    return made


def _index(index: Any) -> Any:
    return index


_tensor_getitem: Final[Any] = Tensor.__getitem__


def _setitem(self: Any, index: Any, value: Any) -> None:
    if not isinstance(value, Tensor):
        value = operand(value, weak=True)
    if not value._word & WEAK_MASK and value.dtype != self.dtype:
        value = _astype(value, self.dtype)
    elif value._word & WEAK_MASK and value._word & WEAK_TRAIT[complex] and self.dtype.kind != "c":
        raise TypeError(f"[setitem] a complex number cannot be written into an array of dtype {self.dtype}.")
    if isinstance(value, Tensor) and value.ndim > len(self.shape):  # NumPy drops leading axes of length 1
        value = value.reshape(value.shape[value.ndim - max(_tensor_getitem(self, index).ndim, 0) :])
    Tensor.__setitem__(self, index, value)


def _iter(self: Tensor) -> Iterator[Any]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return map(self.__getitem__, range(self.shape[0]))


def _sort(self: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    self.copy_(functions["sort"](self, axis))


def _partition(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    self.copy_(functions["partition"](self, kth, axis))


def _reshape(self: Any, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    given = shape[0] if len(shape) == 1 else shape
    return functions["reshape"](self, given, order=order, copy=copy)


def _resize(self: Any, *shape: Any, refcheck: bool = True) -> None:
    raise ValueError("[ndarray.resize] arrays keep their size: use numpy.resize(x, shape), which returns a new one.")


def _transpose(self: Any, *axes: Any) -> Any:
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        (axes,) = axes
    return functions["transpose"](self, axes or None)


def _flatten(self: Any, order: str = "C") -> Any:
    return as_ndarray(functions["ravel"](self, order).clone())


def _copy(self: Any, order: str = "C") -> Any:
    return as_ndarrays(self.clone(), (self,))


def _astype(
    self: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True,
) -> Any:  # fmt: skip
    wanted = np.dtype(dtype)
    if not np.can_cast(self.dtype, wanted, casting):
        raise TypeError(f"Cannot cast array data from {self.dtype!r} to {wanted!r} according to the rule {casting!r}")
    if wanted not in DTYPE_TRAIT:
        return self.numpy().astype(wanted)
    if self.dtype.kind == "c" and wanted.kind not in "cb":
        import warnings

        warnings.warn(
            "Casting complex values to real discards the imaginary part", np.exceptions.ComplexWarning, stacklevel=2
        )
        self = _find("real")(self)
    return as_ndarrays(_find("astype")(self, wanted, copy=copy), (self,))


def _view(self: Any, dtype: Any = None, type: Any = None) -> Any:  # noqa: A002
    if isinstance(dtype, _builtin_type) and issubclass(dtype, Tensor):
        return self.as_subclass(dtype)
    if dtype is None or np.dtype(dtype) == self.dtype:
        return self.as_subclass(ndarray)
    if self.requires_grad:
        raise RuntimeError("[ndarray.view] an array that requires a gradient has no view of another dtype: detach it.")
    made = from_shared(self.numpy().view(dtype))
    return made


_builtin_type = type


def from_shared(array: np.ndarray) -> Any:
    """Return an ndarray that shares the memory of NumPy's array."""
    from ..functions.creation import asarray

    return as_ndarrays(asarray(array))


def _item(self: Any, *args: Any) -> Any:
    return Tensor.item(self[_place(self, args)] if args else self)


def _place(self: Any, args: tuple[Any, ...]) -> Any:
    if len(args) == 1 and isinstance(args[0], tuple):
        return args[0]
    if len(args) == 1:
        return tuple(int(i) for i in np.unravel_index(args[0], self.shape))
    return args


def _itemset(self: Any, *args: Any) -> None:
    raise AttributeError("`itemset` was removed from the ndarray class in NumPy 2.0: use x[index] = value.")


def _dot(self: Any, b: Any, out: Any = None) -> Any:
    return functions["dot"](self, b, out)


def _conj(self: Any) -> Any:
    return universal["conjugate"](self) if self.dtype.kind == "c" else self


def _fill(self: Any, value: Any) -> None:
    self[...] = value


def _put(self: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    functions["put"](self, indices, values, mode)


def _tobytes(self: Any, order: str = "C") -> bytes:
    return self.numpy().tobytes(order)


def _host_method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: from_numpy(getattr(self.numpy(), name)(*args, **kwargs), self.device)


def _array_ufunc(self: Any, source: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    call = universal.get(source.__name__)
    if call is None or call._numpy is not source:
        return Tensor.__array_ufunc__(self, source, method, *inputs, **options)
    if any(_is_foreign(x) for x in inputs):
        return NotImplemented
    return getattr(call, method)(*inputs, **options)


def _array_function(self: Any, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented
    ours = _by_source().get(func)
    return on_host(func, args, kwargs) if ours is None else ours(*args, **kwargs)


_sources: dict[Any, Any] = {}


def _by_source() -> dict[Any, Any]:
    if not _sources:
        for name, function in functions.items():
            module, _, short = name.rpartition(".")
            source = getattr(getattr(np, module) if module else np, short, None)
            if source is not None:
                _sources[source] = function
    return _sources


def _new(
    cls: Any, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None, order: Any = None
) -> Any:  # fmt: skip
    """Return an array of any values, or one on the memory of a buffer, as ``numpy.ndarray(...)`` does."""
    if buffer is None and strides is None:
        return functions["empty"](shape, dtype)
    if isinstance(buffer, Tensor):
        buffer = buffer.numpy()
    return from_shared(np.ndarray(shape, dtype, buffer, offset, strides, order))


def _find(name: str) -> Callable[..., Any]:
    return registry.find(f"tk::{name}").call


class _Flat:
    """``x.flat``: the elements in row-major order, which can be read, assigned and iterated over."""

    __slots__ = ("base",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Any) -> None:
        self.base = base

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.copy())

    def __getitem__(self, index: Any) -> Any:
        return self.copy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        places = np.arange(self.base.size)[index]
        flat = np.atleast_1d(places).ravel()
        value = operand(value)
        if value.ndim:
            value = functions["resize"](value, flat.shape)
        self.base[np.unravel_index(flat, self.base.shape)] = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.copy().numpy(), dtype=dtype)

    def copy(self) -> Any:
        """Return the elements as an array of one dimension."""
        return functions["ravel"](self.base)

    def __eq__(self, other: object) -> Any:
        return self.copy() == other


def _set_shape(self: Any, shape: Any) -> None:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    view = Tensor.reshape(self, shape, copy=False)
    if self.requires_grad:
        raise RuntimeError("[ndarray.shape] an array that requires a gradient keeps its shape: use x.reshape(shape).")
    self._data = view._data


def _set_flat(self: Any, value: Any) -> None:
    self.flat[...] = value


def _part(name: str) -> property:
    find = functions[name]

    def setter(self: Any, value: Any) -> None:
        if self.dtype.kind != "c":
            if name == "imag":
                raise TypeError("array does not have imaginary part to set")
            self[...] = value
            return
        other = functions["imag" if name == "real" else "real"](self)
        self.copy_(value + 1j * other if name == "real" else other + 1j * value)

    return property(lambda self: find(self), setter)


def _repr(self: Any) -> str:
    text = np.array_repr(self.detach()._values("repr"))
    if self.device.type != "cpu":
        text = f"{text[:-1]}, device='{self.device}')"
    return f"{text[:-1]}, requires_grad=True)" if self.requires_grad else text


def _str(self: Any) -> str:
    return np.array_str(self.detach()._values("str"))


def _install() -> None:
    for name, call in _BINARY.items():
        setattr(ndarray, f"__{name}__", _binary(call, reflected=False))
        setattr(ndarray, f"__r{name}__", _binary(call, reflected=True))
        if name not in ("divmod",):
            own = getattr(Tensor, f"__i{name}__") if name in _OWN_IN_PLACE else None
            setattr(ndarray, f"__i{name}__", _in_place(call, own))
    for name, call in _COMPARISONS.items():
        setattr(ndarray, f"__{name}__", _comparison(call))
    for name, call in _UNARY.items():
        setattr(ndarray, f"__{name}__", _unary(call))
    for name in _FUNCTIONS:
        setattr(ndarray, name, _method(name))
    for name in ("tofile", "dump", "dumps", "byteswap"):
        setattr(ndarray, name, _host_method(name))
    named: dict[str, Any] = {
        "__getitem__": _getitem, "__setitem__": _setitem, "__iter__": _iter, "sort": _sort, "partition": _partition,
        "reshape": _reshape, "resize": _resize, "transpose": _transpose, "flatten": _flatten, "copy": _copy,
        "astype": _astype, "view": _view, "item": _item, "itemset": _itemset, "dot": _dot, "fill": _fill, "put": _put,
        "tobytes": _tobytes, "__array_ufunc__": _array_ufunc, "__array_function__": _array_function,
        "conj": _conj, "conjugate": _conj, "__new__": _new, "__bytes__": _tobytes, "__repr__": _repr, "__str__": _str,
        "__hash__": Tensor.__hash__,
        "detach": lambda self: as_ndarrays(Tensor.detach(self)),
        "squeeze": lambda self, axis=None: functions["squeeze"](self, axis),
        "ptp": lambda self, axis=None, out=None, keepdims=False: functions["ptp"](self, axis, out, keepdims),
        "T": property(lambda self: functions["transpose"](self)),
        "flat": property(_Flat, _set_flat),
        "shape": property(Tensor.shape.fget, _set_shape),
        "strides": property(lambda self: tuple([s * self.dtype.itemsize for s in Tensor.strides.fget(self)])),
        "base": property(lambda self: None),
        "flags": property(lambda self: self.numpy().flags if not self.requires_grad else self._data.flags),
        "data": property(lambda self: self.numpy().data),
        "real": _part("real"), "imag": _part("imag"),
        "__array_namespace__": lambda self, *, api_version=None: __import__("tenkey.numpy", fromlist=["ndarray"]),
    }  # fmt: skip
    for name, value in named.items():
        setattr(ndarray, name, value)


_install()
