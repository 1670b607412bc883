"""The Tensor: a handle to a strided array of its backend, a dispatch word, and a slot for autograd.

Most methods are dispatch calls, which declarations of operators add to the class (``methods=("__add__", "sum")``);
``tenkey.autograd`` adds the gradient attributes. This module defines what needs no operator: shape, dtype, device,
storage, and conversion to Python and NumPy.
"""

from __future__ import annotations

import sys
from opcode import opmap
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np

from ..dispatch.errors import shown
from ..dispatch.keys import DispatchKey, DispatchKeySet
from ..dispatch.local_state import current_state
from ..dispatch.registry import registry
from ..dispatch.subclasses import ASKING, run_unasked
from .answers import NO, YES, Answer, Count, count_of
from .departures import departed
from .device import CPU, Device, base_word
from .storage import HostMemory, Storage, is_contiguous
from .tensor_base import Operations, new_handle
from .word import DTYPE_TRAIT, INHERITED, REQUIRES_GRAD, WEAK_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._tensor_methods import TensorMethods as _Attached  # a stub: Note [Generated stubs] of tools/make_stubs.py
else:
    _Attached = Operations

__all__ = [
    "NoValuesError", "Tensor", "add_methods", "make_tensor", "make_view", "replaceable", "shares_storage",
    "storage_of", "strides_of", "with_class",
]  # fmt: skip

_API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


class NoValuesError(RuntimeError):
    """Values were requested of a tensor on the device ``meta``, which has none."""


_STORE_SUBSCR: Final = opmap["STORE_SUBSCR"]
_Kind = TypeVar("_Kind", bound="Tensor")


class Tensor(_Attached):
    """A multi-dimensional array with one dtype on one device.

    Create one with :func:`tenkey.tensor`, :func:`tenkey.asarray` or a creation function.

    >>> x = tk.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.dtype, x.device, x.strides
    ((2, 2), dtype('float32'), device('cpu'), (2, 1))
    """

    # _apart, _extra, _level and _value are those of a Wrapper, which a tensor can become (core.wrapper.become)
    __slots__ = ("__weakref__", "_apart", "_extra", "_level", "_value")

    _word: int
    _data: Any
    _storage: Storage | Tensor | None  # a Tensor: the root of the views (Note [Views share a version counter])
    _autograd: Any

    __array_priority__ = 1000
    __hash__ = object.__hash__
    _asks: ClassVar[int] = 0  # the key that makes the dispatcher ask the class, or 0 (Note [Tensor subclasses])

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        """Raise TypeError: functions create tensors."""
        raise TypeError(
            "a Tensor is made by tk.tensor(data), tk.asarray(data) or a creation function, not by Tensor(...)."
        )

    # ---- subclasses

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Determine whether the class has a handler, and at which key it is called (Note [Tensor subclasses])."""
        super().__init_subclass__(**kwargs)
        handler = next(vars(kind)["__tk_dispatch__"] for kind in cls.__mro__ if "__tk_dispatch__" in vars(kind))
        if not isinstance(handler, classmethod):
            raise TypeError(
                f"the __tk_dispatch__ of the Tensor subclass {cls.__qualname__} is a {type(handler).__name__}, not a "
                "classmethod: put @classmethod above its def."
            )
        below = getattr(cls, "__tk_dispatch_below_autograd__", False)
        key = DispatchKey.Python if below else DispatchKey.Subclass
        cls._asks = 0 if handler is vars(Tensor)["__tk_dispatch__"] else key.mask

    @classmethod
    def __tk_dispatch__(cls, op: Any, types: tuple[type, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operator without the protocol and give plain results this class; for handlers of subclasses.

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
        """Return a view as an instance of ``cls``, a subclass of Tensor or Tensor itself.

        It shares storage and history but not attributes. Modes and handlers do not see the call.

        >>> class Celsius(tk.Tensor):
        ...     unit = "°C"
        >>> x = tk.zeros(2)
        >>> t = x.as_subclass(Celsius)
        >>> t.unit, tk.shares_storage(x, t)
        ('°C', True)
        """
        given: Any = cls
        if not isinstance(given, type) or not issubclass(given, Tensor):
            got = getattr(cls, "__qualname__", None) or shown(cls)
            raise TypeError(f"[as_subclass] needs a subclass of Tensor, or Tensor itself, got {got}.")
        if self._word & WEAK_MASK:  # a Python number among the arguments of a handler stays one
            return with_class(cls, make_tensor(self._data, self._word & INHERITED))
        state = current_state()
        word = (self._word | state.include) & state.keep & ~_UNSEEN
        plain: Tensor = registry.find("tk::alias").cache[word](self)
        if plain.__class__ is not Tensor:
            raise TypeError(
                f"[as_subclass] the tensor stands for a {type(plain).__name__} inside a transform, which has no "
                "subclasses: convert it outside."
            )
        return with_class(cls, plain)

    # ---- properties

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each dimension."""
        return self._data.shape  # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype:
        """The dtype, a NumPy ``np.dtype``."""
        return self._data.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        """The device of the elements."""
        data = self._data
        return CPU if data.__class__ is np.ndarray else data.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._data.shape)

    @property
    def size(self) -> Count:
        """Number of elements; ``x.size()`` and ``x.size(axis)`` give ``x.shape`` and one length, as in PyTorch."""
        return count_of(self._data)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._data.size * self.dtype.itemsize  # type: ignore[no-any-return]

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance between neighbours along each dimension, in elements."""
        itemsize = self._data.dtype.itemsize
        return tuple([stride // itemsize for stride in self._data.strides])

    @property
    def is_contiguous(self) -> Answer:
        """Whether the elements lie in row-major order without gaps; ``x.is_contiguous()`` says the same."""
        data = self._data  # the strides of an empty NumPy array mean nothing
        packed = data.size == 0 or is_contiguous(data.shape, data.strides, data.dtype.itemsize)
        return YES if packed else NO

    @property
    def keyset(self) -> DispatchKeySet:
        """The dispatch keys that the tensor contributes to a call."""
        return DispatchKeySet.from_word(self._word)

    @property
    def array(self) -> Any:
        """The array native to the backend, for kernels: an ``ndarray`` on the CPU, elsewhere a ``StridedArray``.

        Writing to it does not increment the version counter.

        >>> x = tk.zeros((2, 3))
        >>> type(x.array).__name__, type(x.to("meta").array).__name__
        ('ndarray', 'StridedArray')
        """
        data = self._data
        if self._word & REQUIRES_GRAD:
            departed("x.array")
        return data.view() if data.__class__ is np.ndarray else data  # Note [Arrays are exchanged as views]

    # ---- to Python and NumPy

    def numpy(self) -> np.ndarray:
        """Return the values as a NumPy array: on the CPU without copying, from other devices copied.

        >>> tk.tensor([1, 2]).numpy()
        array([1, 2])
        """
        data = self._data
        if data.__class__ is np.ndarray and not self._word & REQUIRES_GRAD:
            return data.view()  # Note [Arrays are exchanged as views]
        return self._to_numpy("numpy").view()

    def _to_numpy(self, what: str) -> np.ndarray:
        """Return the values, on the CPU as the tensor's own array, which only internal code may see."""
        if self._word & REQUIRES_GRAD & current_state().keep:
            raise RuntimeError(
                f"[{what}] Can't call numpy() on Tensor that requires grad, which NumPy would lose: call "
                "x.detach().numpy()."
            )
        return self._values(what)

    def _values(self, what: str) -> np.ndarray:
        data = self._data
        if data.__class__ is np.ndarray:
            return data
        if data.device.backend is None:
            raise NoValuesError(f"[{what}] a tensor on the device 'meta' has no values: make it on another device.")
        return registry.find("tk::to_device").call(self.detach(), CPU)._data  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self._data
        is_plain = data.__class__ is np.ndarray and not self._word & REQUIRES_GRAD
        values = data if is_plain else self._to_numpy("__array__")
        made = values if dtype is None and not copy else np.array(values, dtype=dtype, copy=copy)
        return made.view() if made is values else made  # Note [Arrays are exchanged as views]

    def item(self) -> Any:
        """Return the only element as a Python bool, int, float or complex."""
        if self._data.size != 1:
            raise ValueError(
                f"[item] only a tensor of one element converts to a Python scalar, got shape {self.shape}: index it "
                "first."
            )
        if self._word & REQUIRES_GRAD:
            departed("x.item()")
        value = self._values("item").item()
        return float(value) if self._data.dtype.kind == "V" else value  # bfloat16 has its own scalar type

    def tolist(self) -> Any:
        """Return the values as nested Python lists."""
        if self._word & REQUIRES_GRAD:
            departed("x.tolist()")
        values = self._values("tolist")
        return (values.astype(np.float32) if values.dtype.kind == "V" else values).tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"[bool] the truth of a tensor with shape {self.shape} is ambiguous: use tk.any(x) or tk.all(x), or "
                "index one element."
            )
        return bool(self.item())

    def __float__(self) -> float:
        if self._word & REQUIRES_GRAD:
            _refuse_assignment()
        return float(self._real_item("float"))

    def __int__(self) -> int:
        if self._word & REQUIRES_GRAD:
            _refuse_assignment()
        return int(self._real_item("int"))

    def _real_item(self, what: str) -> Any:
        value = self.item()
        if value.__class__ is complex:
            raise TypeError(
                f"[{what}] the element {value} is complex: take its real part with tk.real(x), or use complex(x)."
            )
        return value

    def __complex__(self) -> complex:
        if self._word & REQUIRES_GRAD:
            _refuse_assignment()
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
        return map(self.__getitem__, range(self.shape[0]))  # lazy, for numpy.iterable(x)

    def __contains__(self, value: object) -> bool:
        equal: Any = self == value
        return bool(equal.any() if isinstance(equal, Tensor) else equal)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the namespace of functions for tensors (array API standard); ValueError for an unknown version."""
        if api_version is not None and api_version not in _API_VERSIONS:
            versions = ", ".join(_API_VERSIONS)
            raise ValueError(f"[__array_namespace__] got api_version={shown(api_version)}: give one of {versions}.")
        return sys.modules["tenkey"]


# Note [Elements of NumPy arrays]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# ``array[:] = x`` asks for ``x.__array__()``, which tensors that require a gradient refuse. For ``array[0] = x[0]``
# NumPy asks for ``float(x[0])``, as a user may who wants the number. The two differ in the instruction that the caller
# executes, an assignment by index or a call. So the assignment is refused, whatever container it changes; calls are
# not: ``float(x)``, ``math.sqrt(x)``, ``np.float64(x)``, and also ``array.fill(x)``, ``np.fromiter(x, float)`` and
# ``array.__setitem__(0, x)``, which cannot be told from them.
# Guarded by tests/core/test_array_objects.py::TestElementsThatRequireAGradient.
def _refuse_assignment() -> None:
    """Raise if a method of a tensor that requires a gradient was called by an assignment to an element."""
    caller = sys._getframe(2)
    if caller.f_code.co_code[caller.f_lasti] == _STORE_SUBSCR and REQUIRES_GRAD & current_state().keep:
        raise RuntimeError(
            "[setitem] Can't assign a Tensor that requires grad to an element of an array, which would lose its "
            "gradient: assign x.detach(), or join the elements with tk.stack([...])."
        )


def with_class(cls: type[_Kind], tensor: Tensor) -> _Kind:
    """Return a fresh plain tensor, to which there is no other reference, as an instance of a subclass."""
    if cls is Tensor:
        return tensor  # type: ignore[return-value]
    made: _Kind = _new(cls)
    made._data = tensor._data
    made._word = tensor._word | cls._asks
    made._storage = tensor._storage
    made._autograd = tensor._autograd
    return made


def _given_class(cls: type[Tensor], result: Any) -> Any:
    """Return a result with its plain tensors as instances of a class."""
    if result.__class__ is Tensor:
        return result.as_subclass(cls)
    if result.__class__ is tuple or result.__class__ is list:
        return result.__class__([_given_class(cls, item) for item in result])
    return result


_new = new_handle
_UNSEEN: Final = ASKING | DispatchKey.Mode.mask


def make_tensor(data: Any, word: int, *, new: Any = _new, kind: type[Tensor] = Tensor) -> Tensor:
    """Return a tensor of native data; ``word`` has the key bits of its device and the trait of its dtype."""
    made: Tensor = new(kind)
    made._data = data
    made._word = word
    made._storage = None
    made._autograd = None
    return made


def make_view(source: Tensor, data: Any) -> Tensor:
    """Return a tensor of a window on the memory of ``source``, with its storage, dtype and keys."""
    made: Tensor = _new(Tensor)
    made._data = data
    made._word = source._word & INHERITED
    storage = source._storage
    made._storage = source if storage is None or storage.__class__ is Storage else storage
    made._autograd = None
    return made


def storage_of(tensor: Tensor) -> Storage:
    """Return the storage of a tensor, creating it at the first use (Note [Views share a version counter])."""
    storage = tensor._storage
    if storage.__class__ is Storage:
        return storage
    if storage is not None:  # a view, which keeps its reference to the root
        return storage_of(storage)  # type: ignore[arg-type]
    data = tensor._data
    if data.__class__ is np.ndarray:
        base = data.base
        made = Storage(data if base is None or isinstance(base, HostMemory) else base, CPU)
    else:
        made = Storage(data.buffer, data.device)
    tensor._storage = made
    return made


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the strides in elements, also of an instance of a subclass whose ``x.strides`` counts bytes."""
    itemsize = tensor._data.dtype.itemsize
    return tuple([stride // itemsize for stride in tensor._data.strides])


def version_of(tensor: Tensor) -> int:
    """Return how often the memory of a tensor was changed in place."""
    storage = tensor._storage
    if storage is None:
        return 0
    if storage.__class__ is Storage:
        return storage.version
    own: Any = storage._storage  # type: ignore[union-attr]  # of the root
    return 0 if own is None else own.version


def shares_storage(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are windows on the same memory.

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
        return arrays_overlap(a._data, b._data)
    return getattr(a._data, "buffer", None) is not None and a._data.buffer is getattr(b._data, "buffer", None)


def arrays_overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays have an element in common; interleaved strided windows may count as such."""
    try:
        return bool(np.shares_memory(a, b, max_work=1))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return bool(np.may_share_memory(a, b))


_CPU_WORD: Final = base_word("cpu")


def cpu_word(dtype: np.dtype) -> int:
    """Return the dispatch word of a CPU tensor of this dtype."""
    return _CPU_WORD | DTYPE_TRAIT[dtype]


def fits(array: np.ndarray, read_only: bool = False) -> bool:
    """Return whether a tensor can share this memory: writable, with aligned elements at whole steps forwards."""
    flags = array.flags
    if not (flags.aligned if read_only else flags.behaved):
        return False
    itemsize = array.itemsize
    for stride in array.strides:  # noqa: SIM110  # all() would take twice as long
        if stride < 0 or stride % itemsize:
            return False
    return True


def fitting_copy(array: np.ndarray) -> np.ndarray:
    """Return a copy that fits a tensor; its axes keep their order, so that results lie in memory as in NumPy."""
    return array.copy("C" if 0 in array.strides else "K")


# Note [Arrays are exchanged as views]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Everyone who holds an ndarray can change its dtype, shape, strides and flags, and a subclass has behaviour of its own
# (np.memmap also an attribute for each name that its user chooses). So the array of a tensor is always a plain ndarray
# object to which the tensor alone refers: arrays of users are accepted as views, ``from_host``, and users receive
# views, ``Tensor.numpy``. A view costs 40 ns. Pickling is the exception: joblib recognizes an array that it has
# already written by the identity of the object.
# Guarded by tests/core/test_array_objects.py.
def from_host(array: np.ndarray, device: Device = CPU) -> Tensor:
    """Return a tensor of a NumPy array on a device; on the CPU it shares the memory if tensors can."""
    plain = np.ndarray.view(array, np.ndarray)
    made = make_tensor(plain if fits(plain) else fitting_copy(plain), cpu_word(plain.dtype))
    return made if device is CPU else registry.find("tk::to_device").call(made, device)


def word_for(device: Device, dtype: np.dtype) -> int:
    """Return the dispatch word of a tensor of this dtype on a device."""
    return base_word(device.type) | DTYPE_TRAIT[dtype]


replaceable: Final[set[str]] = set()
"""Members of Tensor that stand for those of a backend until it is registered."""


def add_methods(**methods: Any) -> None:
    """Add functions to Tensor under these names."""
    for name, method in methods.items():
        method.__name__, method.__qualname__ = name, f"Tensor.{name}"
        setattr(Tensor, name, method)
