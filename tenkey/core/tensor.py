"""The Tensor: a handle to a strided array of its backend, a dispatch word, and a slot for autograd.

Operators and most methods are dispatch calls, put on the class from the declarations of the operators (a block that
says ``methods=("__add__", "sum")``); the gradient attributes are put on it by ``tenkey.autograd``. This module holds
what needs no operator: shape, dtype, device, storage, conversion to Python and NumPy, printing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np

from ..dispatch.keys import DispatchKey, DispatchKeySet, highest_backend
from ..dispatch.local_state import current_state
from ..dispatch.registry import registry
from ..dispatch.subclasses import ASKING, run_unasked
from .device import CPU, Device, base_word
from .storage import Storage, is_contiguous
from .word import DTYPE_TRAIT, INHERITED, REQUIRES_GRAD, WEAK_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._tensor_methods import TensorMethods as _Attached  # a stub: Note [Generated stubs] of tools/make_stubs.py
else:
    _Attached = object

__all__ = ["NoValuesError", "Tensor", "make_tensor", "make_view", "shares_storage", "storage_of", "with_class"]

_API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class NoValuesError(RuntimeError):
    """The values of a tensor on the device ``meta`` were needed."""


_Kind = TypeVar("_Kind", bound="Tensor")


class Tensor(_Attached):
    """A multi-dimensional array with one dtype on one device.

    Made by :func:`tenkey.tensor`, :func:`tenkey.asarray` and the creation functions.

    >>> import tenkey as tk
    >>> x = tk.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.dtype, x.device, x.strides
    ((2, 2), dtype('float32'), device('cpu'), (2, 1))
    """

    # the last four are those of a Wrapper, which a tensor can become (core.wrapper.become)
    __slots__ = (
        "__weakref__",
        "_apart",
        "_autograd",
        "_data",
        "_extra",
        "_level",
        "_storage",
        "_value",
        "_word",
    )  # fmt: skip

    _word: int
    _data: Any
    _storage: Storage | Tensor | None  # a Tensor: the root of the views (Note [Views share a version counter])
    _autograd: Any

    __array_priority__ = 1000
    __hash__ = object.__hash__
    _asks: ClassVar[int] = 0  # the key that makes the dispatcher ask the class, or 0 (Note [Tensor subclasses])

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """Refuse: tensors are made by functions."""
        raise TypeError(
            "a Tensor is made by tk.tensor(data), tk.asarray(data) or a creation function, not by Tensor(...)."
        )

    # ---- subclasses

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Find out whether the class has a handler, and where it wants to be asked (Note [Tensor subclasses])."""
        super().__init_subclass__(**kwargs)
        handler = next(vars(kind)["__tk_dispatch__"] for kind in cls.__mro__ if "__tk_dispatch__" in vars(kind))
        if not isinstance(handler, classmethod):
            raise TypeError(
                f"the __tk_dispatch__ of the Tensor subclass {cls.__qualname__} is a {type(handler).__name__}, not a "
                "classmethod: put @classmethod above its def."
            )
        if handler is vars(Tensor)["__tk_dispatch__"]:
            cls._asks = 0
        else:
            below = getattr(cls, "__tk_dispatch_below_autograd__", False)
            cls._asks = (DispatchKey.Python if below else DispatchKey.Subclass).mask

    @classmethod
    def __tk_dispatch__(cls, op: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """For handlers of subclasses: run the operator with the protocol off and give plain results this class.

        >>> import tenkey as tk
        >>> class Logged(tk.Tensor):
        ...     @classmethod
        ...     def __tk_dispatch__(cls, op, types, args, kwargs):
        ...         print(op)
        ...         return super().__tk_dispatch__(op, types, args, kwargs)
        >>> type(tk.exp(tk.ones(2).as_subclass(Logged)) + 1).__name__
        tk::exp
        tk::add
        'Logged'
        """
        return _given_class(cls, run_unasked(op, args, kwargs))

    def as_subclass(self, cls: type[_Kind]) -> _Kind:
        """The same tensor as an instance of ``cls``, a subclass of Tensor or Tensor itself; a view, also in the graph.

        It shares storage and history, gets no attributes from this one, and is no operator call to modes and handlers.

        >>> import tenkey as tk
        >>> class Celsius(tk.Tensor):
        ...     unit = "°C"
        >>> x = tk.zeros(2)
        >>> t = x.as_subclass(Celsius)
        >>> t.unit, tk.shares_storage(x, t)
        ('°C', True)
        """
        given: Any = cls
        if not isinstance(given, type) or not issubclass(given, Tensor):
            raise TypeError(
                f"[as_subclass] needs a subclass of Tensor, or Tensor itself, got {getattr(cls, '__qualname__', cls)}."
            )
        if self._word & WEAK_MASK:  # a Python number among the arguments of a handler stays one
            return with_class(cls, make_tensor(self._data, self._word & INHERITED))
        state = current_state()
        word = (self._word | state.include) & state.keep & ~_UNSEEN
        plain: Tensor = registry.find("tk::alias").cache[word](self)
        if plain.__class__ is not Tensor:
            raise TypeError(
                f"[as_subclass] the tensor stands for a {type(plain).__name__} inside of a transform, which has no "
                "subclasses: convert it outside."
            )
        return with_class(cls, plain)

    # ---- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each dimension."""
        shape: tuple[int, ...] = self._data.shape
        return shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype, a NumPy ``np.dtype``."""
        dtype: np.dtype = self._data.dtype
        return dtype

    @property
    def device(self) -> Device:
        """The device that the elements are on."""
        data = self._data
        return CPU if data.__class__ is np.ndarray else data.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._data.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size: int = self._data.size
        return size

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance between neighbours of each dimension, in elements."""
        itemsize = self._data.dtype.itemsize
        return tuple([stride // itemsize for stride in self._data.strides])

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        data = self._data  # NumPy gives an empty array strides of its own
        return data.size == 0 or is_contiguous(data.shape, data.strides, data.dtype.itemsize)

    @property
    def keyset(self) -> DispatchKeySet:
        """The dispatch keys that the tensor brings to a call."""
        return DispatchKeySet.from_word(self._word)

    @property
    def data(self) -> Any:
        """The array native to the backend: an ``ndarray`` on the CPU, else a ``StridedArray`` on the backend's buffer.

        For authors of kernels and backends. Changing it does not bump the version counter.
        """
        return self._data

    # ---- to Python and NumPy

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array: on the CPU without copying, from other devices copied.

        >>> import tenkey as tk
        >>> tk.tensor([1, 2]).numpy()
        array([1, 2])
        """
        return self._to_numpy("numpy")

    def _to_numpy(self, what: str) -> np.ndarray:
        if self._word & REQUIRES_GRAD & current_state().keep:
            raise RuntimeError(
                f"[{what}] Can't call numpy() on Tensor that requires grad, which NumPy would lose: call "
                "x.detach().numpy()."
            )
        return self._values(what)

    def _values(self, what: str) -> np.ndarray:
        data = self._data
        if data.__class__ is np.ndarray:
            array: np.ndarray = data
            return array
        if data.device.backend is None:
            raise NoValuesError(f"[{what}] a tensor on the device 'meta' has no values: make it on another device.")
        host: np.ndarray = registry.find("tk::to_device").call(self.detach(), CPU)._data
        return host

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._to_numpy("__array__"), dtype=dtype, copy=copy)

    def item(self) -> Any:
        """The one element as a Python bool, int, float or complex."""
        if self.size != 1:
            raise ValueError(
                f"[item] only a tensor of one element converts to a Python scalar, got shape {self.shape}: index it "
                "first."
            )
        value = self._values("item").item()
        return float(value) if self._data.dtype.kind == "V" else value  # bfloat16 has a scalar type of its own

    def tolist(self) -> Any:
        """The values as nested Python lists."""
        values = self._values("tolist")
        return (values.astype(np.float32) if values.dtype.kind == "V" else values).tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"[bool] the truth of a tensor with shape {self.shape} is ambiguous: use tk.any(x) or tk.all(x), or "
                "index one element."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def _real_item(self, what: str) -> Any:
        value = self.item()
        if value.__class__ is complex:
            raise TypeError(
                f"[{what}] the element {value} is complex: take its real part with tk.real(x), or convert with "
                "complex(x)."
            )
        return value

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.ndim != 0 or self.dtype.kind not in "iu":
            raise TypeError(
                f"[index] only a 0-d tensor of integers converts to an index, got shape {self.shape}, "
                f"dtype {self.dtype}."
            )
        return int(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("[len] a 0-d tensor has no length; its value is x.item().")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("[iter] a 0-d tensor cannot be iterated over.")
        return map(self.__getitem__, range(self.shape[0]))  # lazy: numpy.iterable(x) asks for no element

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The namespace of functions for this array (array API standard); ValueError for an unknown version."""
        if api_version is not None and api_version not in _API_VERSIONS:
            raise ValueError(
                f"[__array_namespace__] got api_version={api_version!r}: the versions of the standard here "
                f"are {', '.join(_API_VERSIONS)}."
            )
        return sys.modules["tenkey"]


def with_class(cls: type[_Kind], tensor: Tensor) -> _Kind:
    """A fresh plain tensor, which nobody else has a handle to, as an instance of a subclass."""
    if cls is Tensor:
        return tensor  # type: ignore[return-value]
    made: _Kind = _new(cls)
    made._data = tensor._data
    made._word = tensor._word | cls._asks
    made._storage = tensor._storage
    made._autograd = tensor._autograd
    return made


def _given_class(cls: type[Tensor], result: Any) -> Any:
    """The plain tensors in a result as instances of a class."""
    if result.__class__ is Tensor:
        return result.as_subclass(cls)
    if result.__class__ is tuple or result.__class__ is list:
        return result.__class__([_given_class(cls, item) for item in result])
    return result


_new = object.__new__
_UNSEEN: Final = ASKING | DispatchKey.Mode.mask


def make_tensor(data: Any, word: int, *, new: Any = _new, kind: type[Tensor] = Tensor) -> Tensor:
    """A tensor around native data; ``word`` must hold the key bits of its device and the trait of its dtype."""
    made: Tensor = new(kind)
    made._data = data
    made._word = word
    made._storage = None
    made._autograd = None
    return made


def make_view(source: Tensor, data: Any) -> Tensor:
    """A tensor around a window on the memory of ``source``; shares its storage and has its dtype and keys."""
    made: Tensor = _new(Tensor)
    made._data = data
    made._word = source._word & INHERITED
    storage = source._storage
    made._storage = source if storage is None or storage.__class__ is Storage else storage
    made._autograd = None
    return made


def storage_of(tensor: Tensor) -> Storage:
    """The storage of a tensor, made if nobody needed it before (Note [Views share a version counter])."""
    storage = tensor._storage
    if storage.__class__ is Storage:
        return storage
    if storage is None:
        data = tensor._data
        if data.__class__ is np.ndarray:
            made = Storage(data if data.base is None else data.base, CPU)
        else:
            made = Storage(data.buffer, data.device)
    else:  # a view, which goes on referring to its root
        return storage_of(storage)  # type: ignore[arg-type]
    tensor._storage = made
    return made


def version_of(tensor: Tensor) -> int:
    """How often the memory of a tensor was changed in place."""
    storage = tensor._storage
    if storage is None:
        return 0
    if storage.__class__ is Storage:
        return storage.version
    own: Any = storage._storage  # type: ignore[union-attr]  # of the root
    return 0 if own is None else own.version


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are windows on one memory.

    >>> import tenkey as tk
    >>> x = tk.zeros((2, 3))
    >>> tk.shares_storage(x, x[0]), tk.shares_storage(x, x + 0)
    (True, False)
    """
    for given in (a, b):
        if not isinstance(given, Tensor):
            raise TypeError(f"[shares_storage] takes tensors, got {type(given).__name__}.")
    if a is b or storage_of(a) is storage_of(b):
        return True
    if a._data.__class__ is np.ndarray and b._data.__class__ is np.ndarray:
        try:
            return bool(np.shares_memory(a._data, b._data, max_work=1))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:  # strided windows that interleave: the one memory is what counts
            return bool(np.may_share_memory(a._data, b._data))
    return getattr(a._data, "buffer", None) is not None and a._data.buffer is getattr(b._data, "buffer", None)


_CPU_WORD: Final = base_word("cpu")


def cpu_word(dtype: np.dtype) -> int:
    """The dispatch word of a CPU tensor of this dtype."""
    return _CPU_WORD | DTYPE_TRAIT[dtype]


def word_for(device: Device, dtype: np.dtype) -> int:
    """The dispatch word of a tensor of this dtype on a device."""
    return base_word(device.type) | DTYPE_TRAIT[dtype]


def is_weak(tensor: Tensor) -> bool:
    """Whether the tensor stands for a Python scalar (Note [Weak scalars])."""
    return bool(tensor._word & WEAK_MASK)


def backend_name(tensor: Tensor) -> str | None:
    """The name of the backend key of a tensor."""
    return highest_backend(tensor._word)
