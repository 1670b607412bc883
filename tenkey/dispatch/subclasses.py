"""The protocol by which subclasses of Tensor handle the operator calls that take their instances.

Note [Tensor subclasses]
~~~~~~~~~~~~~~~~~~~~~~~~
The classmethod ``__tk_dispatch__(cls, op, types, args, kwargs)`` of a subclass handles every operator call with an
instance among the tensors, in lists too. The rules are PyTorch's: modes come before subclasses; of several classes a
subclass comes before its superclasses, otherwise the order is from left to right; ``NotImplemented`` passes the call on
to the next class; if all pass, the call raises a TypeError that names the types.

The word of an instance has the key ``Subclass``, which is above autograd and the transforms: a handler sees the call as
it was written, and the operators that it runs are recorded as usual. Units, logging, masks and lazy tensors need this.
A class that handles the calls that remain after autograd has decomposed them (to count memory, or to represent the
values differently) sets ``__tk_dispatch_below_autograd__ = True``: its instances have the key ``Python`` instead. Plain
tensors have neither key and pay nothing.

Inside a handler there are three ways to run the operator:

- ``op(*args, **kwargs)`` with the tensors that the handler was given: the same call is not handled again, however
  often it is made while the handler runs. Results are plain tensors.
- ``op(*[x.as_subclass(tk.Tensor) ...])``: the same on plain tensors, which share storage and history.
- ``super().__tk_dispatch__(op, types, args, kwargs)``: runs with the protocol disabled for everything inside, and
  converts results that are plain tensors to the class. Attributes are not copied: that is up to the handler.

Other calls that a handler makes with instances are handled as anywhere else. A subclass without a handler changes
nothing in dispatch: results are plain tensors. Attributes of Tensor that are not operators (``shape``, ``detach()``,
``numpy()``, ``grad``) never call a handler. Guarded by ``tests/dispatch/test_subclass.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Final

from .errors import ArgumentError
from .kernel import Kernel
from .keys import DispatchKey, word_below
from .local_state import switched
from .modes import leaves, types_reader
from .operator import Operator
from .registry import Registry

__all__ = ["ASKING", "install_subclasses", "run_unasked"]

_DEEP: Final = 50

ASKING: Final = DispatchKey.Subclass.mask | DispatchKey.Python.mask
"""The bits of the two keys of the instances of subclasses with a handler."""

_asked: ContextVar[tuple[Any, ...]] = ContextVar("tenkey_subclass_calls", default=())


def _order(kinds: Iterable[type]) -> list[type]:
    """Return each class once, from left to right, but before its superclasses."""
    found: list[type] = []
    for kind in dict.fromkeys(kinds):
        place = next((i for i, other in enumerate(found) if issubclass(kind, other)), len(found))
        found.insert(place, kind)
    return found


def _asking(key: DispatchKey) -> Callable[[Operator, int], Callable[..., Any]]:
    def specialize(operator: Operator, word: int) -> Callable[..., Any]:
        below = word_below(word, key)
        cache, mask, types_of = operator.cache, key.mask, types_reader(operator)

        def ask(*args: Any, **kwargs: Any) -> Any:
            instances = [x for x in leaves((*args, *kwargs.values())) if getattr(type(x), "_asks", 0) & mask]
            call = (operator, key, *map(id, instances))
            asked = _asked.get()
            if not instances or call in asked:
                return cache[below](*args, **kwargs)
            if len(asked) > _DEEP and sum(other[0] is operator for other in asked) > _DEEP:
                raise RuntimeError(
                    f"[{operator.name}] the handler of {type(instances[0]).__qualname__} has called the operator "
                    f"within itself more than {_DEEP} times, each time with new instances: convert them with "
                    "x.as_subclass(tk.Tensor), or pass on the tensors that it was given."
                )
            types = types_of(args, kwargs)
            try:
                _asked.set((*asked, call))
                for kind in _order(map(type, instances)):
                    result = kind.__tk_dispatch__(operator, types, args, kwargs)  # type: ignore[attr-defined]
                    if result is not NotImplemented:
                        return result
            finally:
                _asked.set(asked)
            names = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in types)
            raise ArgumentError(
                f"[{operator.name}] no implementation found for the types {names}: every __tk_dispatch__ returned "
                "NotImplemented. Convert the arguments with x.as_subclass(tk.Tensor), or handle the operator in one of "
                "the classes."
            )

        return ask

    return specialize


def run_unasked(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator with the protocol disabled, for it and for everything that its kernel calls."""
    restore = switched(exclude=ASKING)
    try:
        return operator.call(*args, **kwargs)
    finally:
        restore()


def install_subclasses(registry: Registry) -> None:
    """Register the fallbacks of the two keys of subclasses."""
    for key in (DispatchKey.Subclass, DispatchKey.Python):
        ask = _asking(key)
        registry.fallback(Kernel(ask, key, boxed=True, origin="generated", specialize=ask))
