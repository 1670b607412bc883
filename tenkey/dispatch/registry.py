"""The registry: every operator, kernel, fallback, declaration and installer that there is.

Note [Registrations are transactional]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A registration checks everything before it changes anything, under one lock, and returns a handle. Removing handles in
any order leaves the state that the remaining registrations alone would have made, because nothing derived is stored:
slots and caches are computed from the stacks of kernels and are forgotten whenever a stack changes. Guarded by
``tests/dispatch/test_registry_orders.py::test_any_order_of_registration_and_removal``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from . import keys as _keys
from .arguments import convert_argument
from .diagnostics.shadowing import warn_of_shadowed
from .errors import ArgumentError, OperatorNotFoundError, RegistrationError, shown
from .installers import settle
from .kernel import Handle, Kernel, caller_site, check_signature, function_site
from .keys import AliasKey, DispatchKey
from .operator import Operator, OperatorNamespace, OperatorPacket, retire
from .schema import BaseType, FunctionSchema, ListType, OptionalType, parse_schema
from .table import Slot, best, compute_slot
from .tags import Tag

__all__ = ["Registry", "registry"]

_UNKNOWN: Final = (
    "there is no operator {name!r}.{close}{waiting} Define it with tk.library.Library(namespace, 'DEF').define(schema)."
)
_NOT_A_TENSOR: Final = "[{operator}] the argument {argument!r} must be {kind}, got {value} of type {type}. {remedy}"


class _Operators(dict[str, Operator]):
    """Operators by full name.

    ``overloads`` has them by the name without overload, in the order of definition, ``namespaces`` counts them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.overloads: dict[str, tuple[Operator, ...]] = {}
        self.namespaces: dict[str | None, int] = {}
        self.packets: dict[str, OperatorPacket] = {}  # those that were asked for: they follow the definitions

    def __setitem__(self, name: str, operator: Operator) -> None:
        if name in self:
            del self[name]
        super().__setitem__(name, operator)
        key = operator.schema.name
        self.overloads[key] = (*self.overloads.get(key, ()), operator)
        namespace = operator.schema.namespace
        self.namespaces[namespace] = self.namespaces.get(namespace, 0) + 1
        if key in self.packets:
            self.packets[key].follow()

    def __delitem__(self, name: str) -> None:
        operator = self[name]
        super().__delitem__(name)
        key = operator.schema.name
        left = tuple([other for other in self.overloads[key] if other is not operator])
        if left:
            self.overloads[key] = left
        else:
            del self.overloads[key]
        namespace = operator.schema.namespace
        self.namespaces[namespace] -= 1
        if not self.namespaces[namespace]:
            del self.namespaces[namespace]
        if key in self.packets:
            self.packets[key].follow()

    def update(self, others: Mapping[str, Operator]) -> None:  # type: ignore[override]
        """Take over all of another dict."""
        for name, operator in others.items():
            self[name] = operator

    def pop(self, name: str) -> Operator:  # type: ignore[override]
        """Remove one and return it."""
        operator = self[name]
        del self[name]
        return operator


Installer = Callable[[Operator], Iterable[Handle] | None]


class Registry:
    """All registrations of a process; made anew only by tests."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.operators = _Operators()
        self.fallbacks: dict[DispatchKey, list[Kernel]] = {}
        self.autograd_other: tuple[str, ...] = ()
        self.converters: dict[str, Callable[[Any], Any]] = {}
        self.lifters: list[Callable[[Operator, tuple[Any, ...]], tuple[Any, ...]]] = []
        self.number: Callable[[Any], Any] | None = None  # what stands for a Python number among tensors
        self.device_word: Callable[[Any], int] = lambda device: 0
        # A shorter way to ``device_word(None)``: while the function gives None, it is the number.
        self.usual_word: tuple[Callable[[], Any], int] | None = None
        self.device_names: dict[str, str] = {}
        self.removed_devices: set[str] = set()
        self.preparers: list[Callable[[Operator, int], None]] = []
        self.derivers: list[Callable[[str], Operator | None]] = []
        self.pending: dict[str, list[Kernel]] = {}
        self.load_checks: Callable[[], Callable[..., Any]]  # the checks of ``opcheck``, which use every layer
        self.compute_slot: Callable[[Operator, DispatchKey, int], Slot] = compute_slot
        self._installers: list[Installer] = []
        self._installed: dict[tuple[int, str], list[Handle]] = {}
        self.puts_off = False  # Note [Installers that wait]
        self.settling: set[Operator] = set()

    # ---- operators

    def define(
        self,
        schema: str | FunctionSchema,
        *,
        facets: dict[str, Any] | None = None,
        tags: Iterable[str] = (),
        positional: int = 0,
        site: str | None = None,
        doc: str | None = None,
    ) -> Operator:
        """Make an operator and let every installer act on it. A failure leaves nothing behind."""
        parsed = schema if isinstance(schema, FunctionSchema) else parse_schema(schema)
        site = site or caller_site(2)
        if parsed.namespace is None:
            raise RegistrationError(f"[{parsed.name}] needs a namespace: write it as 'namespace::{parsed.name}(...)'.")
        with self.lock:
            operator = Operator(
                self, parsed, facets=facets, tags=frozenset(map(Tag, tags)), positional=positional, site=site, doc=doc
            )
            previous = self.operators.get(operator.name)
            if previous is not None and Tag.VARIANT in previous.tags:
                self.undefine(previous)  # derived when it was asked for: a definition takes its place
            elif previous is not None:
                raise RegistrationError(
                    f"[{operator.name}] is defined already, at {previous.site}, and again at {site}. Remove the first "
                    "definition (its handle's remove()), or choose another name or overload."
                )
            waiting = self.pending.get(operator.name, [])
            for kernel in waiting:
                _check_kernel(kernel, parsed)
            self.operators[operator.name] = operator
            try:
                for kernel in waiting:
                    operator.kernels.setdefault(kernel.key, []).append(kernel)
                for installer in self._installers:
                    self.install(installer, operator)
                warn_of_shadowed(operator, asked_for=False)
            except BaseException:
                self.undefine(operator, keep_kernels=False)
                raise
            self.pending.pop(operator.name, None)
            return operator

    def undefine(self, operator: Operator, *, keep_kernels: bool = True) -> None:
        """Remove an operator and what installers made of it; does nothing for one that was removed before.

        The kernels that were registered for it by name are registrations of their own: they wait for the next
        definition of that name, unless ``keep_kernels`` is false.
        """
        with self.lock:
            if self.operators.get(operator.name) is operator:
                for key in [k for k in self._installed if k[1] == operator.name]:
                    for handle in self._installed.pop(key):
                        handle.remove()
                operator.outstanding = ()
                del self.operators[operator.name]
                kept = [kernel for stack in operator.kernels.values() for kernel in stack]
                if kept and keep_kernels:
                    self.pending[operator.name] = kept
            retire(operator)
            for other in self:
                if other.facets.get("DerivedFrom") is operator:  # its derivatives go with it
                    self.undefine(other, keep_kernels=False)

    @contextlib.contextmanager
    def replacing(self, names: Iterable[str]) -> Iterator[None]:
        """Take operators out while others are defined in their place; they come back should that fail.

        Who holds the former ones can go on calling them.
        """
        with self.lock:
            former = {name: self.operators[name] for name in names if name in self.operators}
            for operator in former.values():
                settle(operator)
            for name in former:
                del self.operators[name]
            # what installers made of them must be found again, should the new ones fail
            installed = {key: self._installed.pop(key) for key in [*self._installed] if key[1] in former}
            try:
                yield
            except BaseException:
                for name in former:
                    if name in self.operators:
                        self.undefine(self.operators[name], keep_kernels=False)
                for name, operator in former.items():
                    self.operators[name] = operator
                self._installed.update(installed)
                raise

    def find(self, name: str) -> Operator:
        """The operator ``namespace::name[.overload]``; OperatorNotFoundError with close matches."""
        try:
            return self.operators[name]
        except KeyError:
            derived = self.derive(name)
            if derived is None:
                raise OperatorNotFoundError(self.unknown(name)) from None
            return derived

    def derive(self, name: str) -> Operator | None:
        """The operator of that name if it follows from another one and was not asked for before (``ns::name_``)."""
        with self.lock:
            known = self.operators.get(name)
            if known is not None:
                return known
            for derive in self.derivers:
                derived = derive(name)
                if derived is not None:
                    return derived
        return None

    def unknown(self, name: str) -> str:
        """The text that says that there is no such operator, and which come close."""
        import difflib  # errors alone need it

        with self.lock:
            close = difflib.get_close_matches(name, self.operators, n=3)
            waits = difflib.get_close_matches(name, self.pending, n=1)
            waiting = (
                (
                    f" A kernel waits for {waits[0]!r}, which nobody has defined yet, registered "
                    f"at {self.pending[waits[0]][-1].site}."
                )
                if waits
                else ""
            )
        return _UNKNOWN.format(name=name, close=f" Close: {', '.join(close)}." if close else "", waiting=waiting)

    def overloads(self, name: str) -> list[Operator]:
        """All operators of one qualified name, in the order of definition."""
        return list(self.operators.overloads.get(name, ()))

    def namespace(self, namespace: str) -> OperatorNamespace:
        """The operators of a namespace as attributes."""
        return OperatorNamespace(self, namespace)

    def packet(self, name: str) -> OperatorPacket:
        """The overloads of one qualified name as one object, the same for every asker."""
        packet = self.operators.packets.get(name)
        if packet is None:
            with self.lock:
                made = OperatorPacket(self, name)
                packet = self.operators.packets.setdefault(name, made)
        return packet

    def reducer(self, name: str) -> Operator:
        """Rebuild an operator from its name (pickling)."""
        return self.find(name)

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "registry"  # the registry of the process, by name; of any other one pickle says that it is not that one

    def __iter__(self) -> Iterator[Operator]:
        with self.lock:  # a collection may run other threads while the tuple is made
            return iter(tuple(self.operators.values()))

    # ---- installers

    def subscribe(self, installer: Installer) -> Handle:
        """Call ``installer`` for every operator defined so far and for every later one."""
        with self.lock:
            self._installers.append(installer)
            if self.puts_off:
                for operator in self:
                    operator.outstanding = (*operator.outstanding, installer)
                return Handle(lambda: self._unsubscribe(installer), f"installer {installer!r}")
            try:
                for operator in self:
                    self.install(installer, operator)
            except BaseException:
                self._unsubscribe(installer)
                raise
            return Handle(lambda: self._unsubscribe(installer), f"installer {installer!r}")

    def _unsubscribe(self, installer: Installer) -> None:
        with self.lock:
            for operator in self:
                if installer in operator.outstanding:
                    operator.outstanding = tuple([other for other in operator.outstanding if other is not installer])
            self._installers.remove(installer)
            for key in [k for k in self._installed if k[0] == id(installer)]:
                for handle in self._installed.pop(key):
                    handle.remove()

    def install(self, installer: Installer, operator: Operator) -> None:
        """Let one installer act on one operator; a failure leaves nothing behind."""
        before = {key: stack[:] for key, stack in operator.kernels.items()}
        try:
            handles = installer(operator)
        except BaseException:
            operator.kernels.clear()
            operator.kernels.update(before)
            operator.invalidate()
            raise
        if handles is not None:
            self._installed[id(installer), operator.name] = list(handles)

    def reinstall(self, operator: Operator) -> None:
        """Let the installers act again after the facets of an operator have changed."""
        with self.lock:
            operator.invalidate()  # what was resolved may rest on a facet that is gone
            operator.outstanding = ()
            for installer in self._installers:
                for handle in self._installed.pop((id(installer), operator.name), ()):
                    handle.remove()
                self.install(installer, operator)

    # ---- kernels

    def impl(self, name: str, kernel: Kernel, *, allow_override: bool = False) -> Handle:
        """Put a kernel on the stack of its key. An operator that is not defined yet gets it when it is."""
        if "::" not in name:
            raise RegistrationError(f"[{name}] needs a namespace: write it as 'namespace::{name}'.")
        with self.lock:
            operator = self.operators.get(name)
            stack = self.pending.get(name, []) if operator is None else operator.kernels.get(kernel.key, [])
            if operator is not None:
                _check_kernel(kernel, operator.schema)
            top = best([k for k in stack if k.key is kernel.key and k.origin == kernel.origin])
            if top is not None and kernel.when is None and not allow_override:
                raise RegistrationError(
                    f"[{name}] has a kernel for {kernel.key.name} already, registered at {top.site}, and another one "
                    f"at {kernel.site}. Pass allow_override=True to put the new one on top, or remove the first."
                )
            kernel.operator = name
            if operator is not None:
                operator.kernels.setdefault(kernel.key, []).append(kernel)
                operator.invalidate()
                try:
                    warn_of_shadowed(operator, asked_for=allow_override)
                except BaseException:  # warnings may be errors
                    self._remove_kernel(name, kernel)
                    raise
            else:
                self.pending.setdefault(name, []).append(kernel)
            return Handle(lambda: self._remove_kernel(name, kernel), f"kernel of {name} for {kernel.key.name}")

    def _remove_kernel(self, name: str, kernel: Kernel) -> None:
        with self.lock:
            operator = self.operators.get(name)
            for stack in (self.pending.get(name, []), operator.kernels.get(kernel.key, []) if operator else []):
                if kernel in stack:
                    stack.remove(kernel)
            if not self.pending.get(name, True):
                del self.pending[name]
            if operator is not None:
                if not operator.kernels.get(kernel.key, True):
                    del operator.kernels[kernel.key]
                operator.invalidate()

    def fallback(self, kernel: Kernel) -> Handle:
        """Register a kernel for all operators that have none for this key; stackable, the newest wins."""
        with self.lock:
            if isinstance(kernel.key, AliasKey) and kernel.key.name != "Autograd":
                raise RegistrationError(f"a fallback needs a runtime key, got the alias {kernel.key.name}.")
            self.fallbacks.setdefault(kernel.key, []).append(kernel)
            self.invalidate()

            def remove() -> None:
                with self.lock:
                    stack = self.fallbacks[kernel.key]
                    stack.remove(kernel)
                    if not stack:
                        del self.fallbacks[kernel.key]
                    self.invalidate()

            return Handle(remove, f"fallback for {kernel.key.name}")

    def invalidate(self) -> None:
        """Forget everything that was resolved, for every operator."""
        for operator in self:
            operator.invalidate()

    def registrations(self, key: DispatchKey) -> list[Kernel]:
        """Every kernel and fallback registered for ``key``, except those that wait for their operator.

        ``kernel.operator`` is the name of the operator, "" for a fallback.

        >>> import tenkey as tk
        >>> with tk.library.Library("docs", "DEF") as lib:
        ...     _ = lib.define("same(Tensor x) -> Tensor")
        ...     _ = lib.impl("same", lambda x: x, DispatchKey.Mode)
        ...     [kernel.operator for kernel in registry.registrations(DispatchKey.Mode)]
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
        """Kernels whose operator is not defined (yet, or because its name is misspelled), by its name.

        >>> import tenkey as tk
        >>> with tk.library.Library("docs", "IMPL") as lib:
        ...     _ = lib.impl("never_defined", lambda x: x, "cpu")
        ...     list(registry.dangling())
        ['docs::never_defined']
        """
        with self.lock:
            return {name: list(stack) for name, stack in self.pending.items()}

    # ---- what the layers above plug in

    def prepare(self, operator: Operator, word: int) -> None:
        """Called before a word is resolved: lets a layer load what was left for the first use."""
        for prepare in self.preparers:
            prepare(operator, word)

    def lift(self, operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Turn what is no tensor into one where the layers above allow it, else raise ArgumentError."""
        try:
            for lifter in self.lifters:
                values = lifter(operator, values)
            if operator.takes_single_tensors:
                for value in values:
                    if not hasattr(value, "_word"):
                        break
                else:
                    return values
            for argument, value in zip(operator.tensor_arguments, values):
                if argument.type.__class__ is BaseType and hasattr(value, "_word"):
                    continue
                kind = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
                if value is None and kind is not argument.type:
                    continue
                if isinstance(kind, ListType) and isinstance(value, (list, tuple)):
                    holes = isinstance(kind.element, OptionalType)
                    wrong = [item for item in value if not hasattr(item, "_word") and not (holes and item is None)]
                else:
                    wrong = [] if hasattr(value, "_word") and not isinstance(kind, ListType) else [value]
                if wrong:
                    item, words = wrong[0], "a list of Tensors" if isinstance(kind, ListType) else "a Tensor"
                    raise ArgumentError(
                        _NOT_A_TENSOR.format(
                            operator=operator.name,
                            argument=argument.name,
                            kind=words,
                            value=shown(item),
                            type=type(item).__name__,
                            remedy="Give a list or a tuple."
                            if item is value and words != "a Tensor"
                            else "Convert it with tk.asarray(...).",
                        )
                    )
            return tuple([_plain(value) for value in values])
        except Exception as error:
            error.__suppress_context__ = True  # the AttributeError by which the entry found out
            raise

    def check_arguments(self, operator: Operator, bound: dict[str, Any]) -> None:
        """Raise ArgumentError unless every value fits the type that the schema gives its argument."""
        for argument in operator.schema.arguments:
            convert_argument(operator, argument, bound[argument.name])

    def device_name(self, backend: str) -> str:
        """The device string of a backend key."""
        return self.device_names.get(backend, backend.lower())


def _plain(value: Any) -> Any:
    """A named tuple or another subclass of list and tuple as a plain one."""
    if isinstance(value, list):
        return list(value)
    return tuple(value) if isinstance(value, tuple) else value


def _check_kernel(kernel: Kernel, schema: FunctionSchema) -> None:
    if not kernel.is_fallthrough and kernel.specialize is None:
        check_signature(kernel.function, schema, with_keyset=kernel.with_keyset, site=kernel.site)
    if kernel.when is not None:
        check_signature(kernel.when, schema, with_keyset=False, site=function_site(kernel.when), what="condition")


registry: Final = Registry()
"""The registry of the process."""

key_mask = _keys.key_mask
