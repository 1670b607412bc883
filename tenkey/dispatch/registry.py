"""The registry: every operator, kernel, fallback, declaration and installer.

Note [Registrations are transactional]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A registration checks everything before it changes anything, under one lock, and returns a handle. Removing handles in
any order leaves the state that the remaining registrations alone would have made, because nothing derived is stored:
slots and caches are computed from the stacks of kernels and are forgotten whenever a stack changes. Guarded by
``tests/dispatch/test_registry_orders.py::test_any_order_of_registration_and_removal``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from weakref import WeakValueDictionary

from .._util.locks import new_lock
from .calling.bindings import make_entry
from .calling.overloads import OperatorNamespace, OperatorPacket
from .diagnostics.registration_checks import check_signature
from .diagnostics.shadowing import warn_of_lost, warn_of_shadowed
from .diagnostics.sites import caller_site, function_site
from .errors import ArgumentError, OperatorNotFoundError, RegistrationError
from .installers import Installers
from .kernel import Handle, Kernel
from .keys import AliasKey, DispatchKey
from .operator import Hooks, Operator
from .schema import FunctionSchema, parse_schema
from .table import compute_slot, resolve
from .tags import Tag

__all__ = ["Registry", "registry"]


class _Operators(dict[str, Operator]):
    """Operators by full name.

    ``overloads`` has them by the name without overload, in the order of definition; ``namespaces`` counts them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.overloads: dict[str, tuple[Operator, ...]] = {}
        self.namespaces: dict[str | None, int] = {}
        self.packets: WeakValueDictionary[str, OperatorPacket] = WeakValueDictionary()
        self._cached: dict[str | None, list[tuple[dict[str, Any], str]]] = {}

    def __setitem__(self, name: str, operator: Operator) -> None:
        if name in self:
            del self[name]
        super().__setitem__(name, operator)
        self._changed(operator, 1)

    def __delitem__(self, name: str) -> None:
        operator = self[name]
        super().__delitem__(name)
        self._changed(operator, -1)

    def _changed(self, operator: Operator, count: int) -> None:
        key, namespace = operator.schema.name, operator.schema.namespace
        others = tuple([other for other in self.overloads.get(key, ()) if other is not operator])
        self.overloads[key] = (*others, operator) if count > 0 else others
        self.namespaces[namespace] = self.namespaces.get(namespace, 0) + count
        places: tuple[tuple[dict[Any, Any], str | None], ...] = ((self.overloads, key), (self.namespaces, namespace))
        for index, place in places:
            if not index[place]:
                del index[place]
                for attributes, attribute in self._cached.pop(place, ()):
                    attributes.pop(attribute, None)
        packet = self.packets.get(key)
        if packet is not None:
            packet.follow()

    def cached_in(self, attributes: dict[str, Any], attribute: str, key: str, value: Any) -> None:
        """Keep the packet or namespace ``key`` as an attribute of an object while there are operators of that name."""
        attributes[attribute] = value
        self._cached.setdefault(key, []).append((attributes, attribute))


class Registry:
    """All registrations of a process; only tests make another one.

    >>> tk.dispatch.registry.find("tk::add").schema.name
    'tk::add'
    """

    compute_slot = staticmethod(compute_slot)

    def __init__(self) -> None:
        self.lock = new_lock()
        self.operators: _Operators = _Operators()
        self.fallbacks: dict[DispatchKey, list[Kernel]] = {}
        self.pending: dict[str, list[Kernel]] = {}  # kernels whose operator is not defined yet
        self.autograd_other: tuple[str, ...] = ()
        self.hooks = Hooks()
        self.installers = Installers(self.lock, lambda: tuple(self.operators.values()))
        self.subscribe, self.deferred_installers = self.installers.subscribe, self.installers.deferred
        self.settle, self.reinstall = self.installers.settle, self.installers.reinstall
        self._namespaces: dict[str, OperatorNamespace] = {}

    def define(
        self,
        schema: str | FunctionSchema,
        *,
        facets: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        positional: int = 0,
        kernels: Iterable[Kernel] = (),
        replace: Iterable[str] = (),
        site: str | None = None,
        doc: str | None = None,
    ) -> Operator:
        """Make an operator with its kernels and let every installer act on it. A failure leaves everything as it was.

        ``replace`` names operators whose place it takes; they can still be called by code that holds them.
        """
        parsed = schema if isinstance(schema, FunctionSchema) else parse_schema(schema)
        site = site or caller_site(2)
        if parsed.namespace is None:
            raise RegistrationError(f"[{parsed.name}] needs a namespace: write it as 'namespace::{parsed.name}(...)'.")
        with self.lock:
            if parsed.namespace == "tk" and Tag.VARIANT not in tags:
                self.hooks.load_namesakes(parsed.name, site)
            operator = Operator(
                self, parsed, facets=facets, tags=frozenset(map(Tag, tags)), positional=positional, site=site, doc=doc
            )
            operator.call = self.hooks.entry(operator, make_entry(operator))
            name = operator.name
            former = [self.operators[known] for known in replace if known in self.operators]
            for one in former:
                self.settle(one)
            previous = self.operators.get(name)
            if previous is not None and Tag.VARIANT in previous.tags:
                self.undefine(previous)  # derived on demand: a definition takes its place
            elif previous is not None and previous not in former:
                raise RegistrationError(
                    f"[{name}] is defined already, at {previous.site}, and again at {site}. Remove the first "
                    "definition (its handle's remove()), or choose another name or overload."
                )
            waiting = self.pending.get(name, [])
            for kernel in waiting:
                _check_kernel(kernel, operator.schema)
            made = self.installers.made  # what was made for the former operators is put aside, not removed
            aside = {key: made.pop(key) for key in [*made] if key[1] in [one.name for one in former]} if former else {}
            try:
                for one in former:
                    del self.operators[one.name]
                self.operators[name] = operator
                for kernel in waiting:
                    operator.kernels.setdefault(kernel.key, []).append(kernel)
                self.installers.install(operator)
                if not operator.outstanding:
                    warn_of_shadowed(operator, asked_for=False)
                operator.own_kernels = tuple(kernels)
                for kernel in operator.own_kernels:
                    self.impl(name, kernel)
            except BaseException:
                self.undefine(operator, keep_kernels=False)
                for one in former:
                    self.operators[one.name] = one
                made.update(aside)
                raise
            self.pending.pop(name, None)
            return operator

    def undefine(self, operator: Operator, *, keep_kernels: bool = True) -> None:
        """Remove an operator and what installers made for it; do nothing if it was removed before.

        The kernels that were registered for it by name are registrations of their own: they wait for the next
        definition of that name, unless ``keep_kernels`` is false.
        """
        with self.lock:
            if self.operators.get(operator.name) is operator:
                self.installers.uninstall(operator)
                del self.operators[operator.name]
                kept = [k for stack in operator.kernels.values() for k in stack if k not in operator.own_kernels]
                if kept and keep_kernels:
                    self.pending[operator.name] = kept
            operator.removed = True
            operator.invalidate()
            for other in [*self.operators.values()]:
                if other.facets.get("DerivedFrom") is operator:  # its derivatives go with it
                    self.undefine(other, keep_kernels=False)

    def find(self, name: str) -> Operator:
        """Return the operator ``namespace::name[.overload]``; OperatorNotFoundError names close matches."""
        operator = self.operators.get(name) or self.derive(name)
        if operator is None:
            raise OperatorNotFoundError(self.unknown(name))
        return operator

    def derive(self, name: str) -> Operator | None:
        """Return the operator of that name, derived from another one if it must be and can be (``ns::name_``)."""
        with self.lock:
            known = self.operators.get(name)
            if known is not None:
                return known
            for derive in self.hooks.derivers:
                derived: Operator | None = derive(name)
                if derived is not None:
                    return derived
        return None

    def overloads(self, name: str) -> tuple[Operator, ...]:
        """Return all operators of one qualified name, in the order of definition."""
        return self.operators.overloads.get(name, ())

    def namespace(self, namespace: str) -> OperatorNamespace:
        """Return the object that has the operators of a namespace as attributes."""
        return self._namespaces.get(namespace) or self._namespaces.setdefault(
            namespace, OperatorNamespace(self, namespace)
        )

    def packet(self, name: str) -> OperatorPacket:
        """Return the overloads of one qualified name as one object, always the same one."""
        packets = self.operators.packets
        with self.lock:
            return packets.get(name) or packets.setdefault(name, OperatorPacket(self, name))

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "registry"  # the registry of the process, by name; for any other one pickle reports the difference

    def resolve(self, operator: Operator, word: int) -> Callable[..., Any]:
        """Return the callable for a dispatch word that the operator's cache lacks, and cache it."""
        if operator.removed:
            raise OperatorNotFoundError(
                f"[{operator.name}] was removed from the registry: define it again before you call it."
            )
        with self.lock:
            if operator.outstanding:
                self.settle(operator)
            if not operator.checked:
                operator.checked = True
                warn_of_lost(operator)
            function = operator.cache[word] = resolve(operator, word)
            return function

    def impl(self, name: str, kernel: Kernel, *, allow_override: bool = False) -> Handle:
        """Put a kernel on the stack of its key; if the operator is not defined yet, the kernel waits for it."""
        if "::" not in name:
            raise RegistrationError(f"[{name}] needs a namespace: write it as 'namespace::{name}'.")
        with self.lock:
            operator = self.derive(name)
            stacks: dict[Any, list[Kernel]] = self.pending if operator is None else operator.kernels
            place = name if operator is None else kernel.key
            if operator is not None:
                _check_kernel(kernel, operator.schema)
            same = [
                k
                for k in stacks.get(place, ())
                if k.key is kernel.key and k.origin == kernel.origin and not k.conditional
            ]
            if same and kernel.when is None and not allow_override:
                raise RegistrationError(
                    f"[{name}] has a kernel for {kernel.key.name} already, registered at {same[-1].site}, and another "
                    f"one at {kernel.site}. Pass allow_override=True to put the new one on top, or remove the first."
                )
            kernel.operator = name
            stacks.setdefault(place, []).append(kernel)
            if operator is not None:
                operator.invalidate()
                try:
                    warn_of_shadowed(operator, asked_for=allow_override)
                except BaseException:  # warnings may be errors
                    self._remove_kernel(name, kernel)
                    raise
            return Handle(lambda: self._remove_kernel(name, kernel), f"kernel of {name} for {kernel.key.name}")

    def _remove_kernel(self, name: str, kernel: Kernel) -> None:
        with self.lock:
            _take_out(self.pending, name, kernel)
            operator = self.operators.get(name)
            if operator is not None:
                _take_out(operator.kernels, kernel.key, kernel)
                operator.invalidate()

    def fallback(self, kernel: Kernel) -> Handle:
        """Register a kernel for all operators without one for this key; fallbacks stack, and the newest wins."""
        with self.lock:
            if isinstance(kernel.key, AliasKey) and kernel.key.name != "Autograd":
                raise RegistrationError(f"a fallback needs a runtime key, got the alias {kernel.key.name}.")
            self.fallbacks.setdefault(kernel.key, []).append(kernel)
            self.invalidate()

            def remove() -> None:
                with self.lock:
                    _take_out(self.fallbacks, kernel.key, kernel)
                    self.invalidate()

            return Handle(remove, f"fallback for {kernel.key.name}")

    def invalidate(self) -> None:
        """Forget everything that was resolved, for every operator."""
        for operator in [*self.operators.values()]:
            operator.invalidate()

    # ---- what is registered

    def __iter__(self) -> Iterator[Operator]:
        self.hooks.load_all()
        with self.lock:  # a garbage collection may run other threads while the tuple is made
            return iter(tuple(self.operators.values()))

    def registrations(self, key: DispatchKey) -> list[Kernel]:
        """Return every kernel and fallback registered for ``key``, except those that wait for their operator.

        ``kernel.operator`` is the name of the operator, "" for a fallback.

        >>> with tk.library.Library("docs", "DEF") as lib:
        ...     _ = lib.define("same(Tensor x) -> Tensor")
        ...     _ = lib.impl("same", lambda x: x, DispatchKey.Mode)
        ...     [kernel.operator for kernel in tk.dispatch.registrations(DispatchKey.Mode)]
        ['docs::same', '']
        """
        if not isinstance(key, DispatchKey):
            raise ArgumentError(
                f"[registrations] needs a DispatchKey such as DispatchKey.CPU, got {key!r} of "
                f"type {type(key).__name__}."
            )
        found = [kernel for op in self for kernel in op.kernels.get(key, ())]
        return found + self.fallbacks.get(key, [])

    def dangling(self) -> dict[str, list[Kernel]]:
        """Return the kernels of operators that are not defined (yet, or because of a misspelled name), by name.

        >>> with tk.library.Library("docs", "IMPL") as lib:
        ...     _ = lib.impl("never_defined", lambda x: x, "cpu")
        ...     list(tk.dispatch.dangling())
        ['docs::never_defined']
        """
        with self.lock:
            return {name: list(stack) for name, stack in self.pending.items()}

    def unknown(self, name: str) -> str:
        """Return the message that no operator has this name, with the names that come close."""
        import difflib  # only errors need it

        with self.lock:
            close = difflib.get_close_matches(name, self.operators, n=3)
            text = f"there is no operator {name!r}."
            if close:
                text += f" Close: {', '.join(close)}."
            for waiting in difflib.get_close_matches(name, self.pending, n=1):
                site = self.pending[waiting][-1].site
                text += f" A kernel registered at {site} waits for {waiting!r}, which is not defined yet."
        return f"{text} Define it with tk.library.Library(namespace, 'DEF').define(schema)."


def _take_out(stacks: dict[Any, list[Kernel]], place: object, kernel: Kernel) -> None:
    stack = stacks.get(place, [])
    if kernel in stack:
        stack.remove(kernel)
        if not stack:
            del stacks[place]


def _check_kernel(kernel: Kernel, schema: FunctionSchema) -> None:
    if not kernel.is_fallthrough and kernel.specialize is None:
        check_signature(kernel.function, schema, with_keyset=kernel.with_keyset, site=kernel.site)
    if kernel.when is not None:
        check_signature(kernel.when, schema, with_keyset=False, site=function_site(kernel.when), what="condition")


registry: Final = Registry()
"""The registry of the process."""
