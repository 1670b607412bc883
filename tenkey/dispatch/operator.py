"""Operators: a schema, kernels, and one callable that is built for the schema.

Note [The entry of an operator]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``operator.call`` is a Python function generated from the schema, with the schema's own parameters and defaults. It
unites the words of the arguments that are tensors, converts what the schema says must be converted, reads the local
state once, and calls what the operator's dict holds for the resulting word (Note [Dispatch word]). Everything that
depends on the schema alone was decided when the text of the function was written, so nothing generic is left to run.

The text is written and compiled at the first call: of hundreds of operators a process calls a few. Until then the
function has another code, with the same parameters, which exchanges itself and calls the function again.
Guarded by ``tests/tiny/test_dispatch.py::test_entries_are_written_at_the_first_call``.
"""

from __future__ import annotations

import inspect
import keyword
import linecache
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from .coerce import coercer
from .errors import ArgumentError, OperatorAttributeError, OperatorNotFoundError
from .kernel import Kernel
from .keys import DispatchKey, DispatchKeySet, all_runtime_keys, key_mask
from .local import current_state, get_state
from .overloads import select_overload
from .schema import Argument, BaseType, FunctionSchema, ListType, OptionalType, SchemaType
from .shadow import warn_of_lost
from .table import Slot, Table, disabling_bits, resolve
from .waiting import settle

if TYPE_CHECKING:
    from .registry import Registry

__all__ = ["Operator", "OperatorNamespace", "OperatorPacket"]

_REMOVED: Final = "[{operator}] was removed from the registry: define it again before you call it."
_WHOSE_TABLE: Final = "[{packet}] has several overloads ({overloads}), each with a table of its own: ask one of them."
_NO_KEYSET: Final = (
    "[{operator}] redispatch needs a DispatchKeySet first, got {value!r} of type {type}: pass keyset.below(key) of the "
    "keyset that the kernel was given."
)


class _Cache(dict[int, Callable[..., Any]]):
    """Dispatch word to resolved callable."""

    __slots__ = ("operator",)

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator

    def __missing__(self, word: int) -> Callable[..., Any]:
        operator = self.operator
        if operator.removed:
            raise OperatorNotFoundError(_REMOVED.format(operator=operator.name))
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

    ``facets`` holds what a declaration says of the operator; this package does not look into it. ``tags`` are the
    words of the declaration that drive derived rules. ``name`` is ``namespace::name`` or ``namespace::name.overload``.

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
        tags: frozenset[str] = frozenset(),
        site: str = "",
        doc: str | None = None,
    ) -> None:
        self.registry = registry
        self.schema = schema
        self.name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.facets: dict[str, Any] = dict(facets or {})
        self.tags = tags
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
        self.takes_single_tensors = not any(isinstance(_inner(a.type), ListType) for a in self.tensor_arguments)
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
        return "mixes_devices" in self.tags

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
            word |= _any_word(value)
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
            raise ArgumentError(_NO_KEYSET.format(operator=self.name, value=keyset, type=type(keyset).__name__))
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


def _any_word(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        word = 0
        for item in value:
            word |= _any_word(item)
        return word
    if isinstance(value, dict):
        return _any_word(tuple(value.values()))
    found: int = getattr(value, "_word", 0)
    return found


def _plain(values: Any) -> Any:
    """A list or tuple; raises for anything else, which ``lift`` then explains."""
    if values.__class__ is not list and values.__class__ is not tuple:
        raise TypeError
    return values


def _union(values: Any) -> int:
    """The union of the words in a list of tensors; raises for anything else, which ``lift`` then explains."""
    word = 0
    for value in _plain(values):
        word |= value._word
    return word


def _union_optional(values: Any) -> int:
    """The same for a list that may hold None."""
    if values.__class__ is not list and values.__class__ is not tuple:
        raise TypeError
    word = 0
    for value in values:
        if value is not None:
            word |= value._word
    return word


# The names that an entry uses begin with a letter that no schema can contain, so no argument can hide them.
ENTRY_SCOPE: Final[dict[str, Any]] = {
    "ŧunion": _union,
    "ŧplain": _plain,
    "ŧunion_optional": _union_optional,
    "ŧunion_nested": _any_word,
    **{f"ŧ{kind.__name__}": kind for kind in (int, float, bool, str, tuple, list, len, AttributeError, TypeError)},
}


def retire(operator: Operator) -> None:
    """Make every further call of a removed operator an error."""
    operator.removed = True
    operator.invalidate()


def _word_expression(argument: Argument) -> str:
    kind = argument.type
    if kind == BaseType("Tensor"):
        return f"{argument.name}._word"
    if kind == OptionalType(BaseType("Tensor")):
        return f"(0 if {argument.name} is None else {argument.name}._word)"
    inner = kind.element if isinstance(kind, OptionalType) else kind
    holes = isinstance(inner, ListType) and isinstance(inner.element, OptionalType)
    union = f"ŧunion{'_optional' if holes else ''}({argument.name})"
    return union if inner is kind else f"(0 if {argument.name} is None else {union})"


@lru_cache(maxsize=256)
def _entry_code(source: str) -> CodeType:
    """The code of the only function in ``source``."""
    module = compile(source, "<operator>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


class _Text:
    """A file in the cache of ``linecache``, for tracebacks and ``inspect``, that is written when somebody reads it."""

    def __init__(self, operator: Operator, name: str, filename: str) -> None:
        self._operator = ref(operator)
        self._name = name
        self._filename = filename

    def __iter__(self) -> Iterator[Any]:
        operator = self._operator()
        text = "" if operator is None else _write_entry(operator, self._name)[0]
        return iter((len(text), None, text.splitlines(keepends=True), self._filename))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> Any:
        return tuple(self)[place]


def _unwritten() -> Any:
    return ŧfirst(locals())  # type: ignore[name-defined]  # noqa: F821


def make_entry(operator: Operator) -> Callable[..., Any]:
    """The function of Note [The entry of an operator], to be written when it is called."""
    schema = operator.schema
    arguments = schema.arguments
    keywords = [a for a in arguments if a.kwarg_only]
    name = schema.base_name if not keyword.iskeyword(schema.base_name) else schema.base_name + "_"
    filename = f"<operator {operator.name}>"
    code = _unwritten.__code__.replace(
        co_name=name,
        co_qualname=name,
        co_filename=filename,
        co_firstlineno=1,
        co_varnames=tuple([a.name for a in arguments]),
        co_argcount=len(arguments) - len(keywords),
        co_kwonlyargcount=len(keywords),
        co_nlocals=len(arguments),
    )
    scope: dict[str, Any] = {}
    defaults = tuple([a.default for a in arguments if a.has_default and not a.kwarg_only])
    function = FunctionType(code, scope, name, defaults or None)
    function.__kwdefaults__ = {a.name: a.default for a in keywords if a.has_default} or None

    def first(values: dict[str, Any]) -> Any:
        text, names = _write_entry(operator, name)
        scope.update(names)
        written = _entry_code(f"def entry{text[4 + len(name) :]}")  # many operators have the same arguments
        function.__code__ = written.replace(co_name=name, co_qualname=name, co_filename=filename)
        return function(**values)

    scope["ŧfirst"] = first
    linecache.cache[filename] = _Text(operator, name, filename)  # type: ignore[assignment]
    function.__doc__ = operator.doc
    function.__module__ = "tenkey" if schema.namespace == "tk" else f"tenkey.ops.{schema.namespace}"
    function.operator = operator  # type: ignore[attr-defined]
    return function


def _write_entry(operator: Operator, name: str) -> tuple[str, dict[str, Any]]:
    """The text of the entry, and the globals that it uses."""
    arguments = operator.schema.arguments
    scope: dict[str, Any] = {
        **ENTRY_SCOPE,
        "ŧoperator": operator,
        "ŧcache": operator.cache,
        "ŧstate": get_state,
        "ŧregistry": operator.registry,
    }
    parameters: list[str] = []
    starred = False
    for a in arguments:
        if a.kwarg_only and not starred:
            parameters.append("*")
            starred = True
        if a.has_default:
            parameters.append(f"{a.name}=ŧdefault_{a.name}")
        else:
            parameters.append(a.name)
    body: list[str] = []
    if operator.registry.number is not None and "keeps_python_scalars" not in operator.tags:
        scope["ŧnumber"] = operator.registry.number
        for a in arguments:  # a limit or a filler is a number as a rule: that is no reason to raise and lift
            if a.type == OptionalType(BaseType("Tensor")):
                test = f"{a.name}.__class__ is ŧfloat or {a.name}.__class__ is ŧint"
                body.append(f"if {a.name} is not None and ({test}): {a.name} = ŧnumber({a.name})")
    for a in arguments:
        text, converter = coercer(operator, a)
        if text:
            scope[f"ŧcoerce_{a.name}"] = converter
            body += text.splitlines()
    tensors = [a for a in arguments if a.type.is_tensor_like]
    nested = [f"ŧunion_nested({a.name})" for a in arguments if a.type.contains_tensor and a not in tensors]
    devices = [a.name for a in arguments if a.type in (BaseType("Device"), OptionalType(BaseType("Device")))]
    if tensors:
        union = " | ".join(_word_expression(a) for a in tensors)
        names = ", ".join(a.name for a in tensors)
        only = arguments[0] if len(tensors) == 1 else None
        attempt = [f"ŧword = {union}"]
        if only is not None and only.type == ListType(BaseType("Tensor")):  # without the call of a function
            attempt = [
                "ŧword = 0",
                f"for ŧone in {only.name} if {only.name}.__class__ is ŧlist else ŧplain({only.name}):",
                "    ŧword |= ŧone._word",
            ]
        body += [
            "try:",
            *[f"    {line}" for line in attempt],
            "except (ŧAttributeError, ŧTypeError):",
            f"    {names}, = ŧregistry.lift(ŧoperator, ({names},))",
            f"    ŧword = {union}",
            *([f"ŧword |= {' | '.join(nested)}"] if nested else []),
        ]
    elif nested:  # tuples and records of tensors, which were checked when they were converted
        body.append(f"ŧword = {' | '.join(nested)}")
    else:  # a factory that says nothing of devices makes tensors on the one that is the default
        device = devices[0] if devices else "None"
        text = f"ŧregistry.device_word({device})"
        if operator.registry.usual_word is not None:
            scope["ŧchosen"], scope["ŧusual"] = operator.registry.usual_word
            text = f"ŧusual if {f'{device} is None and ' if devices else ''}ŧchosen() is None else {text}"
        body.append(f"ŧword = {text}")
    passed = ", ".join(f"{a.name}={a.name}" if a.kwarg_only else a.name for a in arguments)
    body += [
        "ŧlocal = ŧstate()",
        "if ŧlocal is not None:",
        "    ŧword = (ŧword | ŧlocal.include) & ŧlocal.keep",
        f"return ŧcache[ŧword]({passed})",
    ]
    structure = operator.facets.get("Structure")
    if structure is not None and structure.builds_result:
        scope["ŧbuild"] = structure.build_result
        body[-1] = f"return ŧbuild(ŧcache[ŧword]({passed}))"
    source = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    return source, scope


_DERIVING: Final = frozenset(["pointwise", "reduction", "out"])  # tags of what may have an ``out=`` variant


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
        made: OperatorPacket = object.__new__(type("OperatorPacket", (OperatorPacket,), {"__module__": __name__}))
        return made

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
            raise ArgumentError(_WHOSE_TABLE.format(packet=self._name, overloads=", ".join(self.overloads())))
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
            written = [op for op in candidates if "variant" not in op.tags]
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
