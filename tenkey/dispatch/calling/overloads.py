"""``tk.ops.<namespace>.<name>``: the overloads of one name as a callable, and the namespaces that hold them.

Note [Overload resolution]
~~~~~~~~~~~~~~~~~~~~~~~~~~
Of the overloads that fit the arguments, one is better than another if it fits no given argument worse and at least
one better; if both fit equally, the one that leaves fewer arguments to their defaults is better. A type fits a value
best if it is the value's own; for a Python number ``Scalar`` is next, then the types that it must be converted to, from
narrow to wide (for an int: ``int``, ``Scalar``, ``float``, ``complex``). If no overload is better than every other one,
the call is ambiguous, and the error names the candidates. The order of definition does not matter. Guarded by
``tests/tiny/test_overloads.py``.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from ..diagnostics.wrong_arguments import ambiguous_call
from ..errors import ArgumentError, OperatorAttributeError, OperatorNotFoundError
from ..operator import Operator, Table, _Registry
from ..schema import BaseType, ListType, OptionalType, TupleType
from ..tags import Tag
from .arguments import convert

__all__ = ["OperatorNamespace", "OperatorPacket"]


_DERIVING: Final = frozenset({Tag.POINTWISE, Tag.REDUCTION, Tag.OUT})  # operators with variants made on demand


class OperatorPacket:
    """All overloads of one name; calling it selects the one that fits the arguments (Note [Overload resolution]).

    Most names have one overload, whose entry is called at once. The registry keeps one packet for each name and calls
    ``follow`` when the definitions change.

    >>> tk.ops.tk.add(tk.ones(()), 1).item(), tk.ops.tk.reshape.overloads()
    (2.0, ['default'])
    """

    # ``__call__`` is a slot, so that a packet with one overload calls it without a frame of its own
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, registry: _Registry, name: str) -> None:
        self._registry = registry
        self._name = name
        self.__name__ = name.partition("::")[2]
        self.follow()

    def follow(self) -> None:
        """Adapt to a change of the overloads; called by the registry, under its lock."""
        candidates = self._registry.overloads(self._name)
        self._only = only = candidates[0].call if len(candidates) == 1 else None
        derive, out = self._registry.derive, f"{self._name}.out"

        def select(*args: Any, **kwargs: Any) -> Any:
            if only is not None and ("out" not in kwargs or derive(out) is None):
                return only(*args, **kwargs)
            return self._select(args, kwargs).call(*args, **kwargs)

        self.__call__ = select if only is None or candidates[0].tags & _DERIVING else only

    def __reduce__(self) -> tuple[object, ...]:
        return (self._registry.packet, (self._name,))

    def overloads(self) -> list[str]:
        """Return the names of the overloads; the unnamed one is called ``default``."""
        return [op.schema.overload_name or "default" for op in self._registry.overloads(self._name)]

    def table(self) -> Table:
        """Return the dispatch table of the only overload; with several, use ``packet.overload.table()``."""
        candidates = self._registry.overloads(self._name)
        if len(candidates) > 1:
            raise ArgumentError(
                f"[{self._name}] has several overloads ({', '.join(self.overloads())}), each with a table of its own: "
                "ask one of them."
            )
        return self._select((), {}).table()

    def __getattr__(self, overload: str) -> Operator:
        if overload.startswith("__"):
            if overload == "__signature__" and self._only is not None:
                return inspect.signature(self._only)  # type: ignore[return-value]
            raise AttributeError(overload)
        try:
            return self._registry.find(self._name if overload == "default" else f"{self._name}.{overload}")
        except OperatorNotFoundError as error:
            raise OperatorAttributeError(str(error)) from None

    def _select(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operator:
        """Return the overload that fits the arguments; raise ArgumentError if none or several do."""
        candidates = self._registry.overloads(self._name)
        if not candidates:
            raise OperatorNotFoundError(self._registry.unknown(self._name))
        if len(candidates) > 1 and "out" not in kwargs:  # a derived variant adds no choice to a name that had none
            written = tuple([op for op in candidates if Tag.VARIANT not in op.tags])
            candidates = written if len(written) == 1 else candidates
        return candidates[0] if len(candidates) == 1 else select_overload(self._name, candidates, args, kwargs)

    def __repr__(self) -> str:
        return f"<operator packet {self._name}: {', '.join(self.overloads())}>"

    def __str__(self) -> str:
        return self._name


class OperatorNamespace:
    """``tk.ops.<namespace>``: the operators of one namespace as attributes."""

    def __init__(self, registry: _Registry, namespace: str) -> None:
        self._registry = registry
        self._namespace = namespace

    def __getattr__(self, name: str) -> OperatorPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        registry, qualified = self._registry, f"{self._namespace}::{name}"
        with registry.lock:
            if not registry.overloads(qualified) and registry.derive(qualified) is None:
                raise OperatorAttributeError(registry.unknown(qualified))
            packet: OperatorPacket = registry.packet(qualified)
            registry.operators.cached_in(vars(self), name, qualified, packet)
            return packet

    def __dir__(self) -> Iterator[str]:
        return iter(sorted({op.schema.base_name for op in self._registry if op.schema.namespace == self._namespace}))

    def __repr__(self) -> str:
        return f"<operators of the namespace {self._namespace!r}>"


# How far a Python value of a class (row) is from a schema type (column); other types require a conversion.
_DISTANCE: Final[dict[type, dict[str, int]]] = {
    bool: {"bool": 0, "Scalar": 1, "int": 2, "float": 3, "complex": 4},
    int: {"int": 0, "Scalar": 1, "float": 2, "complex": 3},
    float: {"float": 0, "Scalar": 1, "complex": 2},
    complex: {"complex": 0, "Scalar": 1},
    str: {"str": 0},
}
_CONVERTED: Final = 5


def _distance(kind: Any, given: Any, converted: Any) -> int:
    """Return how far a value is from a type that it fits; 0 if it has this very type."""
    if isinstance(kind, OptionalType):
        return 0 if given is None else _distance(kind.element, given, converted)
    if isinstance(kind, (ListType, TupleType)):
        if not isinstance(given, (list, tuple)) or len(given) != len(converted):
            return _CONVERTED
        elements = kind.elements if isinstance(kind, TupleType) else (kind.element,) * len(given)
        return max([_distance(e, g, c) for e, g, c in zip(elements, given, converted)], default=0)
    assert isinstance(kind, BaseType)
    known = _DISTANCE.get(type(given))
    if known is not None:
        return known.get(kind.name, _CONVERTED)
    for abstract, plain in ((numbers.Integral, int), (numbers.Real, float), (numbers.Complex, complex)):
        if isinstance(given, abstract):  # NumPy's scalars
            return _DISTANCE[plain].get(kind.name, _CONVERTED)
    return 0 if kind.name == "Tensor" or type(converted) is type(given) else _CONVERTED


def _fit(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[int], int]:
    """Return the distances of the given arguments, in order, and the number of defaults; raise if they do not fit."""
    bound = operator.bind(*args, **kwargs)
    kinds = {a.name: a.type for a in operator.schema.arguments}
    converted = {name: convert(operator, name, kind, bound[name]) for name, kind in kinds.items()}
    given = [a.name for a in operator.schema.arguments if not a.kwarg_only][: len(args)] + list(kwargs)
    return [_distance(kinds[n], bound[n], converted[n]) for n in given], len(kinds) - len(given)


def _better(one: tuple[list[int], int], other: tuple[list[int], int]) -> bool:
    if one[0] == other[0]:
        return one[1] < other[1]
    return all(a <= b for a, b in zip(one[0], other[0]))


def select_overload(
    packet: str, candidates: Sequence[Operator], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Operator:
    """Return the overload that fits best (Note [Overload resolution]); raise ArgumentError if none or several do."""
    reasons: list[str] = []
    fits: list[tuple[Operator, tuple[list[int], int]]] = []
    for operator in candidates:
        try:
            fits.append((operator, _fit(operator, args, kwargs)))
        except (TypeError, ValueError, OverflowError) as error:
            reasons.append(f"  {operator.schema}: {error}")
        except OperatorNotFoundError:  # removed by another thread since
            continue
    if not fits:
        raise ArgumentError("\n".join([f"[{packet}] no overload fits the arguments:", *reasons]))
    for operator, fit in fits:
        if all(other is operator or _better(fit, otherfit) for other, otherfit in fits):
            return operator
    tied = [op for op, fit in fits if not any(_better(other, fit) for _, other in fits)] or [op for op, _ in fits]
    raise ambiguous_call(packet, tied)
