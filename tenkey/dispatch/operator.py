"""Operators: a schema, kernels, and one callable that is generated for the schema. Data, which the registry fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from .errors import ArgumentError
from .kernel import Handle, Kernel
from .keys import DispatchKey, DispatchKeySet, all_runtime_keys, key_mask
from .local_state import current_state
from .schema import Argument, BaseType, FunctionSchema, ListType
from .tags import Tag

__all__ = ["Hooks", "Operator", "Slot", "Table", "any_word", "is_device"]


class Slot(NamedTuple):
    """The kernel for one runtime key, and the rule of Note [Precedence] that selected it."""

    rule: str
    kernel: Kernel | None
    conditional: tuple[Kernel, ...] = ()

    @property
    def falls_through(self) -> bool:
        """Whether a call skips this key."""
        return self.kernel is None and not self.conditional and self.rule == "4 falls through"


class Table(dict[DispatchKey, Any]):
    """Runtime key to slot, in the order of dispatch; prints as a table."""

    def __str__(self) -> str:
        shown = [(key, slot) for key, slot in self.items() if slot.rule != "4 falls through"]
        rows = [(key.name, slot.rule, repr(slot.kernel) if slot.kernel else "-") for key, slot in shown]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


class Hooks:
    """The functions and names that a registry gets from the layers above, which know tensors and devices.

    - ``converters``: by schema type (``"DType"``), the function that converts an argument;
    - ``as_they_are``: by schema type, the identities of objects that its converter returns unchanged and that never go;
    - ``lifters``: functions of an operator and its tensor arguments that make tensors of other values;
    - ``number``: makes a tensor of a Python number beside tensors;
    - ``operand``: makes a tensor of a number or sequence in the place of one, for a function of the given name;
    - ``device_word``: the dispatch word of a device, or of the default device for None;
    - ``device_names``: the device string of each backend key; ``removed_devices``: those whose backend was removed;
    - ``derivers``: functions that derive the operator of a given name (``ns::name_``) from another one, or give None;
    - ``foreign``: what a public function or method does with arguments that it does not have (Note [Open entries]);
    - ``unfit``: the same for a public function that is not an operator;
    - ``entry``: wraps the generated entry of an operator, or returns it as it is (Note [The compiled core]);
    - ``is_planned``: whether the compiled core has a plan for an operator and a word;
    - ``load_all``: declares the operators that wait for their first use; ``load_namesakes``: those that may have the
      name of a new one in the namespace ``tk``;
    - ``load_checks``: imports the function behind ``opcheck``, which uses every layer.
    """

    def __init__(self) -> None:
        self.converters: dict[str, Callable[[Any], Any]] = {}
        self.as_they_are: dict[str, frozenset[int]] = {}
        self.lifters: list[Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]] = []
        self.number: Callable[[Any], Any] | None = None
        self.operand: Callable[[Any, str], Any] = lambda value, function: value
        self.device_word: Callable[[Any], int] = lambda device: 0
        self.device_names: dict[str, str] = {}
        self.removed_devices: set[str] = set()
        self.derivers: list[Callable[[str], Any]] = []
        self.foreign: Callable[..., Any]
        self.unfit: Callable[..., Any]
        self.is_planned: Callable[[Any, int], bool] = lambda operator, word: False
        self.entry: Callable[[Any, Callable[..., Any]], Callable[..., Any]] = lambda operator, call: call
        self.load_all: Callable[[], None] = lambda: None
        self.load_namesakes: Callable[[str, str], None] = lambda name, site: None
        self.load_checks: Callable[[], Callable[..., Any]]

    def device_name(self, backend: str) -> str:
        """Return the device string of a backend key."""
        return self.device_names.get(backend, backend.lower())


class _Registry(Protocol):
    """What operators and packets ask of the registry that made them."""

    lock: Any
    operators: Any
    hooks: Hooks
    fallbacks: dict[DispatchKey, list[Kernel]]
    pending: dict[str, list[Kernel]]
    autograd_other: tuple[str, ...]

    def __iter__(self) -> Iterator[Operator]: ...
    def find(self, name: str) -> Operator: ...
    def derive(self, name: str) -> Operator | None: ...
    def overloads(self, name: str) -> tuple[Operator, ...]: ...
    def unknown(self, name: str) -> str: ...
    def packet(self, name: str) -> Any: ...
    def impl(self, name: str, kernel: Kernel, *, allow_override: bool = False) -> Handle: ...
    def settle(self, operator: Operator) -> None: ...
    def compute_slot(self, operator: Operator, key: DispatchKey) -> Slot: ...
    def resolve(self, operator: Operator, word: int) -> Callable[..., Any]: ...


class _Cache(dict[int, Callable[..., Any]]):
    """Dispatch word to resolved callable."""

    __slots__ = ("operator",)

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator

    def __missing__(self, word: int) -> Callable[..., Any]:
        return self.operator.registry.resolve(self.operator, word)


class Operator:
    """One overload of an operator, made by a registry; called like the function that its schema describes.

    ``facets`` holds what a declaration says about the operator; this package does not interpret it. ``tags`` drive
    derived rules. ``name`` is ``namespace::name`` or ``namespace::name.overload``; ``call`` is the generated entry.

    >>> op = tk.ops.tk.reshape.default
    >>> str(op.schema), op(tk.zeros(4), (2, 2)).shape
    ('tk::reshape(Tensor x, int[] shape, *, bool? copy=None) -> Tensor', (2, 2))
    """

    call: Callable[..., Any]

    def __init__(
        self,
        registry: _Registry,
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
        self.outstanding: tuple[Any, ...] = ()  # installers that have not run yet: Note [Installers that wait]
        self._kernels: dict[DispatchKey, list[Kernel]] = {}
        self.own_kernels: tuple[Kernel, ...] = ()  # those that the definition brought, which are removed with it
        self.removed = False
        self.cache = _Cache(self)
        self.watchers: list[Callable[[], None]] = []  # called when the kernels change, by who knows more than the cache
        self._slots: dict[DispatchKey, Slot] = {}
        self.checked = False  # whether shadowed registrations were looked for
        self.doc = doc
        self.notes: dict[Any, Any] = {}  # what other packages keep as long as there is the operator, by their own keys
        self.tensor_arguments = tuple([a for a in schema.arguments if a.type.is_tensor_like])
        self.takes_single_tensors = not any(isinstance(a.type.required, ListType) for a in self.tensor_arguments)
        self.keeps_numbers = Tag.KEEPS_PYTHON_SCALARS in tags
        self.__name__ = schema.base_name
        self.__qualname__ = self.name
        self.__doc__ = doc

    @property
    def label(self) -> str:
        """The name in errors about a call: of an internal operator, the facet ``Label``, its public function."""
        found: str = self.facets.get("Label", self.name)
        return found

    @property
    def kernels(self) -> dict[DispatchKey, list[Kernel]]:
        """The registered kernels by key; reading them runs the installers that wait."""
        if self.outstanding:
            self.registry.settle(self)
        return self._kernels

    @property
    def is_untouched(self) -> bool:
        """Whether the installers of the package still wait and nothing else has been registered for the operator."""
        return bool(self.outstanding) and not self._kernels

    @property
    def mixes_devices(self) -> bool:
        """Whether a call may take tensors of several devices."""
        return Tag.MIXES_DEVICES in self.tags

    def slot(self, key: DispatchKey) -> Slot:
        """Return the table's slot for one runtime key, computed on first use."""
        slot = self._slots.get(key)
        if slot is None:
            with self.registry.lock:  # no registration of another thread may come between computing and storing
                slot = self._slots[key] = self.registry.compute_slot(self, key)
        return slot

    def table(self) -> Table:
        """Return the dispatch table: runtime key to kernel and rule."""
        return Table({key: self.slot(key) for key in all_runtime_keys()})

    def invalidate(self) -> None:
        """Forget everything that was resolved."""
        self.checked = False
        if self.cache or self._slots:
            self._slots.clear()
            self.cache.clear()
        for forget in self.watchers:
            forget()

    def call_word(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        """Return the word that these arguments, as a kernel gets them, give a call, before the local state applies."""
        if self.tensor_arguments:
            return any_word((*args, *kwargs.values()))
        for argument in self.schema.arguments:
            if is_device(argument):
                return self.registry.hooks.device_word(self.bind(*args, **kwargs)[argument.name])
        return 0

    def redispatch(self, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel that ``keyset``, used as it is, leads to. Arguments equal to their defaults are kept.

        Traits are not part of a keyset: those of the arguments and of the local state apply as in any call.
        """
        if not isinstance(keyset, DispatchKeySet):
            raise ArgumentError(
                f"[{self.name}] redispatch needs a DispatchKeySet first, got {keyset!r} of type "
                f"{type(keyset).__name__}: pass keyset.below(key) of the keyset that the kernel was given."
            )
        state = current_state()
        traits = (any_word((*args, *kwargs.values())) | state.include) & state.keep & ~key_mask()
        return self.cache[keyset.mask | traits](*args, **kwargs)

    def bind(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the arguments by name, with defaults filled in; raise ArgumentError where they do not fit."""
        arguments = {a.name: a for a in self.schema.arguments}
        positional = [a.name for a in self.schema.arguments if not a.kwarg_only]
        if len(args) > len(positional):
            raise ArgumentError(f"[{self.name}] takes {len(positional)} arguments by position, got {len(args)}.")
        bound: dict[str, Any] = dict(zip(positional, args))
        for name, value in kwargs.items():
            if name in bound:
                raise ArgumentError(f"[{self.name}] got two values for the argument {name!r}.")
            if name not in arguments:
                raise ArgumentError(f"[{self.name}] has no argument {name!r}; its schema is {self.schema}.")
            bound[name] = value
        for name, a in arguments.items():
            if name not in bound and not a.has_default:
                raise ArgumentError(f"[{self.name}] needs the argument {name!r}; its schema is {self.schema}.")
            bound.setdefault(name, a.default)
        return bound

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator; ``operator.call`` is the same without this frame."""
        return self.call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operator {self.schema}>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (self.registry.find, (self.name,))


def is_device(argument: Argument) -> bool:
    """Whether an argument says on which device a factory makes its result."""
    return argument.type.required == BaseType("Device")


def any_word(value: Any) -> int:
    """Return the union of the words of the tensors in a value, in lists and dicts too."""
    if isinstance(value, dict):
        value = tuple(value.values())
    word: int = getattr(value, "_word", 0)
    if isinstance(value, (list, tuple)):
        for item in value:
            word |= any_word(item)
    return word
