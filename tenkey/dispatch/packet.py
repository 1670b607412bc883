"""``tk.ops.<namespace>.<name>``: the overloads of one name as a callable, and the namespaces that hold them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import ArgumentError, OperatorAttributeError, OperatorNotFoundError
from .operator import Operator, Owner, Table
from .overloads import select_overload
from .tags import Tag

__all__ = ["OperatorNamespace", "OperatorPacket"]


class OperatorPacket:
    """All overloads of one name; calling it selects the one that fits the arguments (Note [Overload resolution]).

    Most names have one overload, whose entry is called at once. The registry keeps one packet for each name and calls
    ``follow`` when the definitions change.

    >>> tk.ops.tk.add(tk.ones(()), 1).item(), tk.ops.tk.reshape.overloads()
    (2.0, ['default'])
    """

    _only: Callable[..., Any] | None

    def __init__(self, registry: Owner, name: str) -> None:
        self._registry = registry
        self._name = name
        self.__name__ = name.partition("::")[2]
        self.follow()

    def follow(self) -> None:
        """Adapt to a change of the overloads; called by the registry, under its lock."""
        candidates = self._registry.overloads(self._name)
        self._only = candidates[0].call if len(candidates) == 1 else None

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

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the overload that fits the arguments."""
        only = self._only
        if only is not None and ("out" not in kwargs or self._registry.derive(f"{self._name}.out") is None):
            return only(*args, **kwargs)
        return self._select(args, kwargs).call(*args, **kwargs)

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

    def __init__(self, registry: Owner, namespace: str) -> None:
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
        operators = self._registry.operators.values()
        return iter(sorted({op.schema.base_name for op in operators if op.schema.namespace == self._namespace}))

    def __repr__(self) -> str:
        return f"<operators of the namespace {self._namespace!r}>"
