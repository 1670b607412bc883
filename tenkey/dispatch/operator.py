"""Operators: a schema, kernels, and one callable that is built for the schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from .bindings import any_word, make_entry
from .diagnostics.shadowing import warn_of_lost
from .errors import ArgumentError, OperatorAttributeError, OperatorNotFoundError
from .installers import settle
from .kernel import Kernel
from .keys import DispatchKey, DispatchKeySet, all_runtime_keys, key_mask
from .local_state import current_state
from .overloads import select_overload
from .schema import BaseType, FunctionSchema, ListType, OptionalType, SchemaType
from .table import Slot, Table, disabling_bits, resolve
from .tags import Tag

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["Operator", "OperatorNamespace", "OperatorPacket", "retire"]


class _Cache(dict[int, Callable[..., Any]]):
    """Dispatch word to resolved callable."""

    __slots__ = ("operator",)

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator

    def __missing__(self, word: int) -> Callable[..., Any]:
        operator = self.operator
        if operator.removed:
            raise OperatorNotFoundError(
                f"[{operator.name}] was removed from the registry: define it again before you call it."
            )
        with operator.registry.lock:
            if operator.outstanding:
                settle(operator)
            operator.registry.prepare(operator, word)
            if not operator.checked:
                operator.checked = True
                warn_of_lost(operator)
            function = resolve(operator, word)
            self[word] = function
            return function


class Operator:
    """One overload of an operator. Made by a registry; called like the function that its schema describes.

    ``facets`` holds what a declaration says of the operator; this package does not look into it. ``tags`` drive
    derived rules. ``name`` is ``namespace::name`` or ``namespace::name.overload``.

    >>> import tenkey as tk
    >>> op = tk.ops.tk.reshape.default
    >>> str(op.schema), op(tk.zeros(4), (2, 2)).shape
    ('tk::reshape(Tensor x, int[] shape, *, bool? copy=None) -> Tensor', (2, 2))
    """

    def __init__(
        self,
        registry: Registry,
        schema: FunctionSchema,
        *,
        facets: Mapping[str, Any] | None = None,
        tags: frozenset[Tag] = frozenset(),
        positional: int = 0,
        site: str = "",
        doc: str | None = None,
    ) -> None:
        self.registry = registry
        self.schema = schema
        self.name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.facets: dict[str, Any] = dict(facets or {})
        self.tags = tags
        self.positional = positional  # Note [Keywords that may be given by position]
        self.site = site
        self.outstanding: tuple[Any, ...] = ()  # installers that have not acted yet: Note [Installers that wait]
        self._kernels: dict[DispatchKey, list[Kernel]] = {}
        self.removed = False
        self.cache = _Cache(self)
        self._slots: dict[DispatchKey, Slot] = {}
        self._slots_without: dict[tuple[DispatchKey, int], Slot] = {}
        self._disabling: int | None = None
        self.checked = False  # whether shadowed registrations were looked for
        self.doc = doc
        self.tensor_arguments = tuple([a for a in schema.arguments if a.type.is_tensor_like])
        self.takes_single_tensors = ListType not in [_inner(a.type).__class__ for a in self.tensor_arguments]
        self.__name__ = schema.base_name
        self.__qualname__ = self.name
        self.__doc__ = doc
        self.call: Callable[..., Any] = make_entry(self)

    @property
    def kernels(self) -> dict[DispatchKey, list[Kernel]]:
        """The registered kernels by key; asking for them makes installers act that have waited for that."""
        if self.outstanding:
            settle(self)
        return self._kernels

    @property
    def mixes_devices(self) -> bool:
        """Whether a call may take tensors of several devices."""
        return Tag.MIXES_DEVICES in self.tags

    def slot(self, key: DispatchKey, word: int = 0) -> Slot:
        """The table's slot for one runtime key, computed when it is first asked for.

        ``word`` is the dispatch word of the call: its traits may disable kernels (Note [Disabled kernels]).
        """
        if word:
            disabled = self._disabled_in(word)
            if disabled:
                with self.registry.lock:
                    known = self._slots_without.get((key, disabled))
                    if known is None:
                        known = self.registry.compute_slot(self, key, disabled)
                        self._slots_without[key, disabled] = known
                    return known
        slot = self._slots.get(key)
        if slot is None:
            with self.registry.lock:  # a registration in another thread must not come between computing and keeping
                slot = self._slots[key] = self.registry.compute_slot(self, key, 0)
        return slot

    def _disabled_in(self, word: int) -> int:
        bits = self._disabling
        if bits is None:
            with self.registry.lock:
                bits = self._disabling = disabling_bits(self)
        return word & bits

    def table(self) -> Table:
        """The dispatch table: runtime key to kernel and rule."""
        return Table({key: self.slot(key) for key in all_runtime_keys()})

    def invalidate(self) -> None:
        """Forget everything that was resolved."""
        self._disabling = None
        self.checked = False
        if self.cache or self._slots or self._slots_without:
            self._slots.clear()
            self._slots_without.clear()
            self.cache.clear()

    def word_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        """The union of the words of all tensors among the arguments, in lists too."""
        word = 0
        for value in (*args, *kwargs.values()):
            word |= any_word(value)
        return word

    def call_word(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        """The word that these arguments, as a kernel gets them, bring to a call, before the local state counts."""
        for argument in self.schema.arguments:
            if argument.type.is_tensor_like:
                return self.word_of(args, kwargs)
        for argument in self.schema.arguments:
            if argument.type in (BaseType("Device"), OptionalType(BaseType("Device"))):
                return self.registry.device_word(self.bind(*args, **kwargs)[argument.name])
        return 0

    def redispatch(self, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel that ``keyset``, taken as it is, leads to. Arguments equal to their defaults are kept.

        Traits are not part of a keyset: those of the arguments and of the local state count as in any call.
        """
        if not isinstance(keyset, DispatchKeySet):
            raise ArgumentError(
                f"[{self.name}] redispatch needs a DispatchKeySet first, got {keyset!r} of "
                f"type {type(keyset).__name__}: pass keyset.below(key) of the keyset that the kernel was given."
            )
        state = current_state()
        traits = (self.word_of(args, kwargs) | state.include) & state.keep & ~key_mask()
        return self.cache[keyset.mask | traits](*args, **kwargs)

    def bind(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Arguments by name, with defaults filled in; raises ArgumentError where they do not fit."""
        bound: dict[str, Any] = {}
        arguments = self.schema.arguments
        positional = [a for a in arguments if not a.kwarg_only]
        if len(args) > len(positional):
            raise ArgumentError(f"[{self.name}] takes {len(positional)} arguments by position, got {len(args)}.")
        bound.update((a.name, value) for a, value in zip(positional, args))
        for name, value in kwargs.items():
            if name in bound:
                raise ArgumentError(f"[{self.name}] got two values for the argument {name!r}.")
            if all(a.name != name for a in arguments):
                raise ArgumentError(f"[{self.name}] has no argument {name!r}; its schema is {self.schema}.")
            bound[name] = value
        for a in arguments:
            if a.name not in bound:
                if not a.has_default:
                    raise ArgumentError(f"[{self.name}] needs the argument {a.name!r}; its schema is {self.schema}.")
                bound[a.name] = a.default
        return bound

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator; in a hurry, call ``operator.call``."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (self.registry.reducer, (self.name,))


def _inner(kind: SchemaType) -> SchemaType:
    return kind.element if isinstance(kind, OptionalType) else kind


def retire(operator: Operator) -> None:
    """Make every further call of a removed operator an error."""
    operator.removed = True
    operator.invalidate()


_DERIVING: Final = frozenset([Tag.POINTWISE, Tag.REDUCTION, Tag.OUT])  # tags of what may have an ``out=`` variant


class OperatorPacket:
    """All overloads of one name; calling it picks the one that the arguments fit best (Note [Overload resolution]).

    Note [Packets of one operator]
    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    Most names have one operator, and there is nothing to pick. Python looks ``__call__`` up in the class; so each
    packet has a class of its own, in which ``__call__`` is the entry of that operator: no arguments are packed and
    unpacked on the way (0.3 us of 1.6). The registry keeps one packet for a name and lets it follow the definitions.
    Operators that may have an ``out=`` variant, which is made when it is asked for, are called in the general way.
    Guarded by ``tests/tiny/test_overloads.py::TestPackets::test_follows_the_definitions``.

    >>> import tenkey as tk
    >>> tk.ops.tk.add(tk.ones(()), 1).item(), tk.ops.tk.reshape.overloads()
    (2.0, ['default'])
    """

    def __new__(cls, registry: Registry, name: str) -> OperatorPacket:
        """A packet with a class of its own."""
        return object.__new__(type("OperatorPacket", (OperatorPacket,), {"__module__": __name__}))

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry = registry
        self._index = registry.operators.overloads
        self._name = name
        self.__name__ = name.partition("::")[2]
        self.follow()

    def follow(self) -> None:
        """Act on a change of the overloads; called by the registry, under its lock."""
        kind: Any = type(self)
        candidates = self._index.get(self._name, ())
        if len(candidates) == 1 and _DERIVING.isdisjoint(candidates[0].tags):
            kind.__call__ = staticmethod(candidates[0].call)
        elif "__call__" in vars(kind):
            del kind.__call__

    def __reduce__(self) -> tuple[object, ...]:
        return (self._registry.packet, (self._name,))

    def overloads(self) -> list[str]:
        """The names of the overloads; the unnamed one is called ``default``."""
        return [op.schema.overload_name or "default" for op in self._registry.overloads(self._name)]

    def table(self) -> Table:
        """The dispatch table of the only overload; of several, ask one: ``packet.overload.table()``."""
        candidates = self._registry.overloads(self._name)
        if len(candidates) > 1:
            raise ArgumentError(
                f"[{self._name}] has several overloads ({', '.join(self.overloads())}), each with a table of its own: "
                "ask one of them."
            )
        return self._select((), {}).table()

    def __getattr__(self, overload: str) -> Operator:
        if overload.startswith("__"):
            candidates = self._index.get(self._name, ())
            if overload == "__signature__" and len(candidates) == 1:
                return inspect.signature(candidates[0].call)  # type: ignore[return-value]
            raise AttributeError(overload)
        name = self._name if overload == "default" else f"{self._name}.{overload}"
        try:
            return self._registry.find(name)
        except OperatorNotFoundError as error:
            raise OperatorAttributeError(str(error)) from None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the overload that the arguments fit."""
        candidates = self._index.get(self._name, ())
        if len(candidates) == 1 and not ("out" in kwargs and self._registry.derive(f"{self._name}.out")):
            return candidates[0].call(*args, **kwargs)
        return self._select(args, kwargs).call(*args, **kwargs)

    def _select(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operator:
        candidates = self._registry.overloads(self._name)
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            raise OperatorNotFoundError(self._registry.unknown(self._name))
        if "out" not in kwargs:  # a variant that was derived does not make a choice of a name that had none
            written = [op for op in candidates if Tag.VARIANT not in op.tags]
            if len(written) == 1:
                return written[0]
        return select_overload(self._name, candidates, args, kwargs)

    def __repr__(self) -> str:
        return f"<operator packet {self._name}: {', '.join(self.overloads())}>"

    def __str__(self) -> str:
        return self._name


class OperatorNamespace:
    """``tk.ops.<namespace>``: the operators of one namespace as attributes."""

    def __init__(self, registry: Registry, namespace: str) -> None:
        self._registry = registry
        self._namespace = namespace

    def __getattr__(self, name: str) -> OperatorPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        qualified = f"{self._namespace}::{name}"
        if not self._registry.overloads(qualified) and self._registry.derive(qualified) is None:
            raise OperatorAttributeError(self._registry.unknown(qualified))
        return self._registry.packet(qualified)

    def __dir__(self) -> Iterator[str]:
        return iter(sorted({op.schema.base_name for op in self._registry if op.schema.namespace == self._namespace}))

    def __repr__(self) -> str:
        return f"<operators of the namespace {self._namespace!r}>"
