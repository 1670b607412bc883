"""Levels of function transforms (vmap, forward mode) and the tensors that they wrap.

Note [Levels]
~~~~~~~~~~~~~
A transform opens a *level* and passes the function :class:`Wrapper` tensors: a value, the level, and data of the level
(a batch dimension, a tangent). A wrapper has the key ``Batched`` (the first after the modes), so a call with one first
reaches this module, which lets the innermost level among the arguments (the one opened last) process it. That level
calls operators on the values, whose wrappers, if any, belong to outer levels. So transforms nest in any order, and the
layers below (autocast, autograd, kernels) see only plain tensors. Calls without wrappers are not affected.
Guarded by ``tests/transforms/test_vmap.py::test_levels_nest_in_any_order``.

Note [Classes of wrappers]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A subclass of Tensor whose operators follow rules of its own, ``tenkey.numpy.ndarray``, has a class of wrappers with the
same rules, which is a subclass of both. A transform makes a wrapper of this class where it wraps such a tensor
(:func:`classed`); the class has no effect on how the level processes calls. What operators return is a plain Wrapper,
as outside of transforms it is a plain Tensor, and the methods of the class give their results the class, as they do
outside. Guarded by ``tests/numpy/test_transforms.py``.
"""

from __future__ import annotations

import itertools
from contextvars import ContextVar
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeGuard, TypeVar

import numpy as np

from .._util.interrupts import switch
from ..dispatch.kernel import Kernel
from ..dispatch.keys import DispatchKey, DispatchKeySet
from ..dispatch.local_state import switched
from ..dispatch.operator import Operator
from .device import CPU, Device
from .storage import Storage, contiguous_strides
from .tensor import Tensor, from_host, with_class
from .tensor_base import new_handle
from .tree import parts_of
from .word import DTYPE_TRAIT, REQUIRES_GRAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from ..dispatch.registry import Registry

__all__ = [
    "Level", "Wrapper", "become", "class_of", "classed", "from_scalar", "innermost", "install_levels", "is_kept",
    "open_levels", "refreshed", "released", "stand_in", "take_back", "unwrapped", "wrap", "wrapper_classes",
]  # fmt: skip

_KEY: Final = DispatchKey.Batched.mask
_ESCAPED: Final = (
    "[{operator}] got a tensor that escaped from a {level} that has ended: use only what the transformed function "
    "returns, and do not store tensors from inside it in lists, globals or attributes."
)
_HOOK: Final = "register it on the tensor outside, or transform the gradient with tk.transforms."
_GRAD: Final = "use tk.autograd.grad or tk.transforms.grad, which return the gradient."

_Kind = TypeVar("_Kind", bound=Tensor)
_numbers: Final = itertools.count(1)
_open: ContextVar[tuple[Level, ...]] = ContextVar("tenkey_levels", default=())


def open_levels() -> tuple[Level, ...]:
    """Return the open levels of this thread or task, the innermost last."""
    return _open.get()


class Level:
    """One run of a transform; a context manager. Subclasses define how calls on their wrappers are processed.

    ``number`` orders levels: a later one is further inside.
    """

    name = "transform"
    adopted: Any = None  # what a subclass has to undo in ``_close``

    def __init__(self) -> None:
        self.number = 0
        self.is_open = False
        self.shown: set[int] = set()  # ids of tensors that users may hold, and that are parts of wrappers

    def __enter__(self) -> Self:
        if self.is_open:
            raise RuntimeError(f"[{self.name}] this level is open already: make another one.")
        self.number = next(_numbers)
        try:
            self.is_open = True
            _open.set((*_open.get(), self))
        except BaseException:  # Note [Interrupts]
            self._close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._close()
        except BaseException:  # Note [Interrupts]
            self._close()
            raise

    def _close(self) -> None:
        self.is_open = False
        _open.set(tuple([level for level in _open.get() if level is not self]))

    def run(self, function: Callable[[Any], Any], include: int = 0, exclude: int = 0) -> Any:
        """Return ``function(self)`` while the level is open, with a change of the state (Note [Interrupts])."""
        if include or exclude:
            restore = switched(None, _open, include=include, exclude=exclude)
        else:
            restore = partial(_open.set, _open.get())
        try:
            self.__enter__()
            return function(self)
        finally:
            self.is_open = False
            restore()
            if self.adopted is not None:
                self._close()

    def outside(self) -> Callable[[], Any]:
        """Hide this level and those inside it, to call code that is written for plain tensors.

        Returns the function for ``finally`` that shows them again (Note [Interrupts]).
        """
        return switch(_open, tuple([level for level in open_levels() if level.number < self.number]))

    def owns(self, x: Any) -> TypeGuard[Wrapper]:
        """Return whether ``x`` is a wrapper of this level."""
        return isinstance(x, Wrapper) and x._level is self

    def process(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute the result of a call with wrappers of this level and of no inner one."""
        raise NotImplementedError

    def escaped(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Process a call after the level has ended; raises by default."""
        raise RuntimeError(_ESCAPED.format(operator=operator.name, level=self.name))

    def values(self, wrapper: Wrapper, what: str) -> np.ndarray:
        """Return the values of a wrapper for Python and NumPy, or raise an explanatory error."""
        raise NotImplementedError

    def detach(self, wrapper: Wrapper) -> Tensor:
        """Return the wrapper without history."""
        raise NotImplementedError

    def describe(self, wrapper: Wrapper) -> str:
        """Return the ``repr`` of a wrapper."""
        raise NotImplementedError

    def through(self, wrapper: Wrapper, function: Callable[[Tensor], Tensor], dims: Callable[[int], int]) -> Tensor:
        """Return the wrapper of ``function(value)``; ``dims`` maps dimensions of the value to those of the result."""
        raise NotImplementedError

    def combine(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        """Return the wrapper of an elementwise ``function(*values)`` of tensors, some of which are of this level."""
        raise NotImplementedError

    def apply_function(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Process ``Function.apply`` on wrappers of this level."""
        raise NotImplementedError

    def escaped_function(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Process ``Function.apply`` after the level has ended; raises by default."""
        raise RuntimeError(_ESCAPED.format(operator=function.__name__, level=self.name))

    def released(self, wrapper: Wrapper) -> Tensor:
        """Return what a wrapper stands for after the level has ended; raises by default."""
        raise RuntimeError(_ESCAPED.format(operator="autograd", level=self.name))

    def alias(self, wrapper: Wrapper, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the wrapper of ``function(value)``, a tensor of the same values."""
        extra = wrapper._extra
        word = extra._word if isinstance(extra, Tensor) else 0
        made = wrap(self, function(wrapper._value), extra, wrapper.shape, word)
        made._apart = wrapper._apart
        return classed(made, wrapper.__class__)

    def repeat(self, x: Tensor) -> Tensor:
        """Return a tensor without values of this level with one copy for each sample; only ``vmap`` changes it."""
        return x

    def gradient(self, grad: Callable[..., Any], outputs: list[Any], inputs: list[Any], **options: Any) -> Any:
        """Process ``tk.autograd.grad`` for outputs and inputs the innermost of which are of this level."""
        raise NotImplementedError


class WrappedData:
    """The data of a wrapper: shape, dtype and device as the function sees them, and no memory."""

    __slots__ = ("device", "dtype", "shape")
    buffer = None
    owner = None

    shape: tuple[int, ...]
    dtype: np.dtype
    device: Device

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes, as if the elements lay in row-major order."""
        return contiguous_strides(self.shape, self.dtype.itemsize)


class Wrapper(Tensor):
    """A tensor inside a transform, created by :func:`wrap`; see Note [Levels]."""

    __slots__ = ()
    stands_for: ClassVar[type[Tensor]] = Tensor  # Note [Classes of wrappers]

    _value: Tensor
    _level: Level
    _extra: Any  # the batch dimension, or the tangent
    _apart: bool  # the value is a window on the memory of another value, and the extra is a copy

    def _values(self, what: str) -> np.ndarray:
        return self._level.values(self, what)

    def _to_numpy(self, what: str) -> np.ndarray:
        return self._level.values(self, what)

    def __repr__(self) -> str:
        return self._level.describe(self)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise self._unsupported("pickle", "pickle what the transformed function returns.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.detach().clone()

    def _unsupported(self, call: str, remedy: str) -> NotImplementedError:
        return NotImplementedError(f"[{call}] is not supported on a tensor inside {self._level.name}: {remedy}")

    # ---- autograd records the values; its attributes of them hold for the wrapper

    @property
    def _autograd(self) -> Any:
        return self._value._autograd

    @_autograd.setter
    def _autograd(self, value: Any) -> None:
        raise self._unsupported("recording", "this call has no rule for this transform.")

    @property
    def requires_grad(self) -> bool:
        """Whether calls on the tensor are recorded."""
        return bool(refreshed(self) & REQUIRES_GRAD)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Record calls on the tensor, for ``tk.autograd.grad``; the tensor outside is not affected."""
        if requires_grad != self.requires_grad:
            self._value = _own_leaf(self._value, requires_grad)
            self._word = (self._word & ~REQUIRES_GRAD) | (self._value._word & REQUIRES_GRAD)
        return self

    def detach(self) -> Tensor:
        """Return the tensor without history."""
        return classed(self._level.detach(self), self.__class__)

    @property
    def grad(self) -> Tensor | None:
        """None: gradients are not accumulated inside a transform."""
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        raise self._unsupported("grad", _GRAD)

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Raise inside the transform, where ``tk.autograd.grad`` is available."""
        if self._level.is_open:
            raise self._unsupported("backward", _GRAD)
        self._level.released(self).backward(*args, **kwargs)

    def register_hook(self, hook: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise self._unsupported("register_hook", _HOOK)

    def register_post_accumulate_grad_hook(self, hook: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise self._unsupported("register_post_accumulate_grad_hook", _HOOK)

    def retain_grad(self) -> NoReturn:
        """Raise NotImplementedError."""
        raise self._unsupported("retain_grad", _GRAD)


def refreshed(x: Tensor) -> int:
    """Return the dispatch word, with the current bit ``REQUIRES_GRAD`` of the values.

    An in-place change of a view makes the values of its root a result, which the wrapper of the root does not notice;
    so this function, not ``_word``, tells whether a result is recorded. Guarded by
    ``tests/transforms/test_transform_programs.py::test_changes_through_views``.
    """
    if isinstance(x, Wrapper):
        extra = x._extra
        x._word |= (refreshed(x._value) | (refreshed(extra) if isinstance(extra, Tensor) else 0)) & REQUIRES_GRAD
    return x._word


def unwrapped(x: Any) -> Any:
    """Return the value below all wrappers."""
    while isinstance(x, Wrapper):
        x = x._value
    return x


def _own_leaf(value: Tensor, requires_grad: bool) -> Tensor:
    """Return the tensor without its history; tangents of outer levels stay."""
    if isinstance(value, Wrapper):
        return value._level.alias(value, lambda inner: _own_leaf(inner, requires_grad))
    return value.detach().requires_grad_(requires_grad)


def wrap(level: Level, value: Tensor, extra: Any, shape: tuple[int, ...], word: int = 0) -> Wrapper:
    """Return a wrapper of ``value`` for ``level``; ``word`` adds bits to those of the value."""
    made: Wrapper = new_handle(Wrapper)
    own = value._data
    data = made._data = object.__new__(WrappedData)
    data.shape = shape
    data.dtype = own.dtype
    data.device = CPU if own.__class__ is np.ndarray else own.device
    made._word = value._word | word | _KEY
    made._storage = None
    made._value = value
    made._level = level
    made._extra = extra
    made._apart = False
    return made


wrapper_classes: Final[dict[type[Tensor], type[Wrapper]]] = {}
"""The classes of wrappers other than Wrapper itself, by the classes that they stand for, and by themselves."""


def classed(x: _Kind, kind: type[Tensor]) -> _Kind:
    """Return a fresh wrapper in the class for tensors of a class, or of its base classes; anything else as it is."""
    if x.__class__ is Wrapper and kind is not Tensor:
        for each in kind.__mro__:
            if each in wrapper_classes:
                x.__class__ = wrapper_classes[each]  # type: ignore[assignment]
                break
    return x


# ---- tensors that are wrappers temporarily

_PARTS: Final = ("_data", "_word", "_storage", "_level", "_value", "_extra", "_apart")


def is_kept(kind: type[Tensor]) -> bool:
    """Return whether aliases and gradients have this class too: a subclass that has no handler."""
    return kind is not Tensor and not issubclass(kind, Wrapper) and not kind._asks


def class_of(leaves: Sequence[Any]) -> type[Tensor]:
    """Return the class in which results are returned: the first of the leaves that has none of its own handlers."""
    for leaf in leaves:
        kind = leaf.stands_for if isinstance(leaf, Wrapper) else leaf.__class__
        if kind is not Tensor and isinstance(leaf, Tensor) and is_kept(kind):
            return kind
    return Tensor


def from_scalar(x: Any, leaves: Sequence[Any] = ()) -> Any:
    """Return NumPy's scalar, as ``tenkey.numpy`` gives them, as a tensor in the class of the leaves; others stay."""
    if not isinstance(x, np.generic) or x.dtype not in DTYPE_TRAIT:
        return x
    return with_class(class_of(leaves), from_host(np.asarray(x)))


def stand_in(x: Tensor) -> Tensor:
    """Return another object that is the same plain tensor or wrapper."""
    made: Tensor = new_handle(x.__class__)
    take_back(made, x)
    return made


def become(x: Tensor, wrapper: Wrapper, storage: Storage) -> None:
    """Turn a tensor into a wrapper, for all references to it; ``storage`` has the version that saved values know.

    The history of a plain tensor moves to its stand-in.
    """
    if not isinstance(x, Wrapper):
        x._autograd = None
    take_back(x, wrapper)
    x._storage = storage


def take_back(x: Tensor, other: Tensor) -> None:
    """Turn a tensor into the plain tensor or wrapper that another one is."""
    parts: Any = x
    parts.__class__ = other.__class__
    if isinstance(other, Wrapper):
        for name in _PARTS:
            setattr(x, name, getattr(other, name))
        return
    x._data, x._word, x._storage, x._autograd = other._data, other._word, other._storage, other._autograd
    for name in ("_level", "_value", "_extra"):
        if hasattr(x, name):
            delattr(x, name)


def innermost(values: Iterable[Any]) -> Level | None:
    """Return the level that was opened last among those of the wrappers in ``values``; None without wrappers."""
    found: Level | None = None
    for value in values:
        if isinstance(value, Wrapper):
            level: Level | None = value._level
        else:
            parts = parts_of(value)
            level = None if parts is None else innermost(parts)
        if level is not None and (found is None or level.number > found.number):
            found = level
    return found


def released(values: list[Any], level: Level) -> list[Any]:
    """Return the values with wrappers of a level that has ended replaced by what they stand for."""
    return [level.released(x) if isinstance(x, Wrapper) and x._level is level else x for x in values]


def _run(operator: Operator, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
    level: Level | None = None
    own: Level | None
    for x in args:
        if isinstance(x, Wrapper):
            own = x._level
        elif x.__class__ is list or x.__class__ is tuple:
            own = innermost(x)
        else:
            continue
        if own is not None and (level is None or own.number > level.number):
            level = own
    if kwargs:
        own = innermost(kwargs.values())
        if own is not None and (level is None or own.number > level.number):
            level = own
    if level is None:  # the key came from a guard
        return operator.redispatch(keyset.below(DispatchKey.Batched), *args, **kwargs)
    if not level.is_open:
        return level.escaped(operator, args, kwargs)
    return level.process(operator, args, kwargs)


def install_levels(registry: Registry) -> None:
    """Register the fallback of the key ``Batched``, which lets the innermost level process a call."""
    registry.fallback(Kernel(_run, DispatchKey.Batched, boxed=True, with_keyset=True, origin="generated"))
