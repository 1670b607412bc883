"""The entry of an operator: the function that a call begins with, written for its schema.

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

import keyword
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from .arguments import coercer
from .local_state import get_state
from .schema import Argument, BaseType, ListType, OptionalType

if TYPE_CHECKING:
    from .operator import Operator

__all__ = ["ENTRY_SCOPE", "allow_alone", "any_word", "make_entry"]


def any_word(value: Any) -> int:
    """The union of the words of the tensors in a value, in lists and dicts too."""
    if isinstance(value, (list, tuple)):
        word = 0
        for item in value:
            word |= any_word(item)
        return word
    if isinstance(value, dict):
        return any_word(tuple(value.values()))
    return getattr(value, "_word", 0)


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
    "ŧunion_nested": any_word,
    **{f"ŧ{kind.__name__}": kind for kind in (int, float, bool, str, tuple, list, len, AttributeError, TypeError)},
}


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


# Note [Keywords that may be given by position]
#     In the standard most options are keyword-only, and in a schema they stand after the star, so kernels and formulas
#     get them by keyword. The tag ``positional:n`` of an operator lets its callers give the first n of them by position
#     as well, as NumPy's users write ``concat([x, y], 1)``. Guarded by
#     ``tests/functions/test_positional_arguments.py::test_options_by_position``.
_POSITIONAL: Final = "positional:"


def keyword_only(operator: Operator) -> list[Argument]:
    """The arguments that callers must give by keyword (Note [Keywords that may be given by position])."""
    keywords = [a for a in operator.schema.arguments if a.kwarg_only]
    if not keywords:
        return keywords
    loose = sum([int(tag[len(_POSITIONAL) :]) for tag in operator.tags if tag.startswith(_POSITIONAL)])
    return keywords[loose:]


def make_entry(operator: Operator) -> Callable[..., Any]:
    """The function of Note [The entry of an operator], to be written when it is called."""
    schema = operator.schema
    arguments = schema.arguments
    keywords = keyword_only(operator)
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
    defaults = tuple([a.default for a in arguments[: len(arguments) - len(keywords)] if a.has_default])
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
    if schema.namespace != "tk":
        function.__qualname__ = operator.name  # what Python's own errors about arguments begin with
    function.operator = operator  # type: ignore[attr-defined]
    return function


def allow_alone(entry: Callable[..., Any], function: Callable[[Any], Any]) -> None:
    """Let an operator of tensors be called with the first of them alone, which another function answers.

    It costs the other calls nothing: only one whose tensors are none looks whether they were left out.
    """
    operator: Operator = entry.operator  # type: ignore[attr-defined]
    operator.facets["Alone"] = function
    entry.__defaults__ = (None,) * (len(operator.schema.arguments) - 1)


def _alone(operator: Operator, scope: dict[str, Any]) -> list[str]:
    function = operator.facets.get("Alone")
    if function is None:
        return []
    scope["ŧalone"] = function
    first, *others = [a.name for a in operator.schema.arguments]
    return [f"    if {' and '.join(f'{name} is None' for name in others)}: return ŧalone({first})"]


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
    keywords = keyword_only(operator)
    for a in arguments:
        if a in keywords and not starred:
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
            *_alone(operator, scope),
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
