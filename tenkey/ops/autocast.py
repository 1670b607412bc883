"""Mixed precision: ``autocast`` computes products in a lower precision and sensitive functions in float32.

Note [Autocast]
~~~~~~~~~~~~~~~
Every tensor has the ``Autocast`` key of its backend, which dispatch skips unless a word has one of the traits "on for
this backend, with this dtype"; ``autocast`` includes one. The key is above autograd, so casts are recorded and a
gradient arrives in the dtype of the parameter. Its only kernel is a fallback, specialized for each dispatch word: it
reads the ``Autocast`` facet of the operator, and for words without anything to cast it *is* the kernel below. Calls
without ``autocast`` have no overhead.

A block states its policy as ``autocast=``, and so do declarations of ``tk.library``; ``register_autocast`` sets a dtype
for one type of device instead. Autocast is off in the kernels of custom operators that take part, such as the function
of a ``custom_op``; the parts of a composite follow their own policies. float64 and complex tensors, Python numbers and
tensors that the operator changes are never cast. Guarded by ``tests/ops/test_autocast.py``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

import numpy as np

from .._util.context_decorator import decorate
from ..core.device import to_device
from ..core.dtypes.names import float16, float32, to_dtype
from ..core.tensor import Tensor
from ..core.word import DTYPE_MASK, DTYPE_TRAIT, WEAK_MASK, dtypes_of
from ..dispatch.kernel import Kernel
from ..dispatch.keys import DispatchKey, DispatchKeySet, backend_names, key_mask, register_trait
from ..dispatch.local_state import current_state, enter, get_state, leave, set_state
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry, registry
from .builtin.shape.copying import cast
from .declare.facets import Autocast

__all__ = ["autocast", "install_autocast", "is_autocast_enabled"]

_LOW: Final = ("float16", "bfloat16")
_NONE: Final = Autocast()

_FUNCTIONALITY: Final[int] = DispatchKey.AutocastFunctionality.mask
_traits: dict[str, dict[str, int]] = {}  # by the name of the backend, by the name of the dtype

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _backend_of(device_type: Any) -> str:
    """Return the name of the backend key of a device type, for ``"cuda"`` even without such a device."""
    name = str(device_type).partition(":")[0]
    if name == "cuda":
        return "CUDA"
    backend = to_device(name).key.backend
    assert backend is not None
    if backend not in _traits:  # registered after install_autocast
        _install_for(registry, backend)
    return backend


class autocast:
    """Run products in a lower precision within a ``with`` block or a decorated function.

    Args: device_type: the kind of device, such as ``"cpu"``; dtype: float16, or bfloat16 if available; enabled: False
    switches autocast off in a region. Products run in ``dtype``; functions that exceed its range, sums of many elements
    and losses run in float32; joins and selections in the widest dtype of their arguments; and all other operators as
    they are called. Each declaration states its operator's policy as ``autocast=``. Local to a thread and a task. On
    the CPU, float16 is a storage format: products are computed in float32 and rounded. Run the backward pass outside of
    the block. Raises TypeError or ValueError for other arguments.

    >>> x, w = tk.ones((2, 3)), tk.ones((3, 4), dtype=tk.float32).requires_grad_()
    >>> with tk.autocast("cpu", dtype=tk.float16):
    ...     y = x @ w
    ...     loss = tk.sum(y)
    >>> loss.backward()
    >>> y.dtype, loss.dtype, w.grad.dtype
    (dtype('float16'), dtype('float32'), dtype('float32'))
    """

    def __init__(self, device_type: Any = "cpu", dtype: Any = None, enabled: bool = True) -> None:
        if not isinstance(enabled, (bool, np.bool_)):
            raise TypeError(f"[autocast] enabled must be a bool, got {enabled!r}.")
        self.device_type = str(device_type).partition(":")[0]
        self.dtype = float16 if dtype is None else to_dtype(dtype)
        if self.dtype.name not in _LOW or self.dtype not in DTYPE_TRAIT:
            raise ValueError(f"[autocast] dtype must be float16 (or bfloat16, if available), got {self.dtype}.")
        self.enabled = bool(enabled)
        self._backend = _backend_of(device_type)
        self._own = _traits[self._backend][self.dtype.name]

    def __enter__(self) -> Self:
        others = sum(_traits[self._backend].values()) & ~self._own
        if self.enabled:
            enter(self, include=self._own, exclude=others, unexclude=self._own | _FUNCTIONALITY)
        else:
            enter(self, exclude=others | self._own)
        return self

    __exit__ = leave

    def __call__(self, function: _Function) -> _Function:
        """Decorate a function or a coroutine function."""
        given: Any = function
        if not callable(given) or isinstance(given, type):
            raise TypeError(
                f"[autocast] decorates a function, got {function!r}: write @autocast(device_type) above a def."
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                "[autocast] decorates functions, got the generator function "
                f"{getattr(function, '__qualname__', repr(function))}: its body would run with the settings of the "
                "code that iterates over it. Write `with autocast(...):` inside."
            )
        fresh = functools.partial(autocast, self.device_type, self.dtype, self.enabled)
        return decorate(function, fresh)  # type: ignore[no-any-return]


def is_autocast_enabled(device_type: Any = "cpu") -> bool:
    """Return whether calls on tensors of this kind of device are cast here.

    >>> with tk.autocast("cpu"):
    ...     tk.is_autocast_enabled("cpu"), tk.is_autocast_enabled("meta")
    (True, False)
    """
    state = current_state()
    traits = sum(_traits[_backend_of(device_type)].values())
    return bool(state.include & state.keep & traits and not state.exclude & _FUNCTIONALITY)


def _target(facet: Autocast, device: str, lower: np.dtype, present: tuple[np.dtype, ...]) -> np.dtype | None:
    """Return the dtype to which the floating tensors of a call are cast, or None if they stay as they are."""
    if device in facet.dtypes:
        return np.dtype(facet.dtypes[device])
    if facet.policy == "widest":
        floating = [d for d in present if d == float32 or d.name in _LOW]
        return max(floating, key=lambda d: d.itemsize, default=None)
    return {"lower": lower, "float32": float32, None: None}[facet.policy]


def _casting(backend: str, key: DispatchKey) -> Callable[[Operator, int], Callable[..., Any]]:
    def specialize(operator: Operator, word: int) -> Callable[..., Any]:
        keys = DispatchKeySet.from_word(word).below(key)
        on = next(name for name, trait in _traits[backend].items() if word & trait)
        present = dtypes_of(word & DTYPE_MASK)
        device = operator.registry.hooks.device_name(backend)
        facet: Autocast = operator.facets.get("Autocast", _NONE)
        target = _target(facet, device, to_dtype(on), present)
        cast_from = {d for d in present if d != target and (d == float32 or d.name in _LOW)}
        is_custom_kernel = operator.schema.namespace != "tk" and "Composite" not in operator.facets
        own = target is not None and (device in facet.dtypes or is_custom_kernel)
        if target is None or not (cast_from or own):
            return operator.cache[keys.mask | (word & ~key_mask())]
        changed = {i for i, a in enumerate(operator.schema.arguments) if a.is_mutable}
        names = {a.name for a in operator.schema.arguments if a.is_mutable}

        def converted(value: Any) -> Any:
            if isinstance(value, Tensor):
                return cast(value, target) if value.dtype in cast_from and not value._word & WEAK_MASK else value
            if value.__class__ is list or value.__class__ is tuple:
                return value.__class__([converted(item) for item in value])
            return value

        def run(*args: Any, **kwargs: Any) -> Any:
            args = tuple([value if i in changed else converted(value) for i, value in enumerate(args)])
            kwargs = {name: value if name in names else converted(value) for name, value in kwargs.items()}
            if not own:
                return operator.redispatch(keys, *args, **kwargs)
            found = get_state()
            assert found is not None
            try:
                set_state(found.changed(exclude=_FUNCTIONALITY))
                return operator.redispatch(keys, *args, **kwargs)
            finally:
                set_state(found)

        return run

    return specialize


def _install_for(target: Registry, backend: str) -> None:
    with target.lock:
        if backend in _traits:
            return
        traits = {name: register_trait(f"autocast {backend} to {name}") for name in _LOW}
        key: DispatchKey = getattr(DispatchKey, f"Autocast{backend}")
        casting, on = _casting(backend, key), sum(traits.values())
        target.fallback(Kernel(casting, key, boxed=True, origin="generated", specialize=casting, only_with=on))
        _traits[backend] = traits


def install_autocast(target: Registry) -> None:
    """Register the fallback of the Autocast keys; an operator whose facet changes is resolved again."""
    for backend in backend_names():
        _install_for(target, backend)
    target.subscribe(lambda operator: operator.invalidate() if "Autocast" in operator.facets else None)
