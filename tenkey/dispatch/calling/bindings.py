"""The entry of an operator: the function that a call begins with, generated for its schema.

Note [The entry of an operator]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``operator.call`` is a Python function generated from the schema, with the schema's own parameters and defaults. It
unites the words of the tensor arguments, converts the other arguments as the schema requires, reads the local state
once, and calls the entry of the operator's dict for the resulting word (Note [Dispatch word]). Everything that depends
on the schema alone was decided when the text of the function was written, so nothing generic is left to run.

The text is written and compiled at the first call, because a process calls only a few of the hundreds of operators.
Until then the function has other code, with the same parameters, which replaces itself and calls the function again.
Guarded by ``tests/tiny/test_dispatch.py::test_entries_are_written_at_the_first_call``.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from ..diagnostics.wrong_arguments import ABSENT
from ..local_state import get_state
from ..operator import Operator, any_word, is_device
from ..schema import Argument, BaseType, ListType, OptionalType
from ..tags import Tag
from . import codegen
from .arguments import coercer, lift

__all__ = ["make_entry", "open_entry"]


def _plain(values: Any) -> Any:
    """Raise for anything but a list or tuple, which ``lift`` then lifts or explains, as other values than tensors."""
    if values.__class__ is not list and values.__class__ is not tuple:
        raise TypeError
    return values


def _union(values: Any) -> int:
    word = 0
    for value in _plain(values):
        word |= value._word
    return word


_SCOPE: Final[dict[str, Any]] = {
    "union": _union,
    "plain": _plain,
    "union_optional": lambda values: _union([value for value in _plain(values) if value is not None]),
    "union_nested": any_word,
    "get_state": get_state,
    "lift": lift,
}


def _word_expression(argument: Argument) -> str:
    kind = argument.type
    if kind == BaseType("Tensor"):
        return f"{argument.name}._word"
    if kind == OptionalType(BaseType("Tensor")):
        return f"(0 if {argument.name} is None else {argument.name}._word)"
    inner = kind.required
    holes = isinstance(inner, ListType) and isinstance(inner.element, OptionalType)
    union = f"$union{'_optional' if holes else ''}({argument.name})"
    return union if inner is kind else f"(0 if {argument.name} is None else {union})"


def _unwritten() -> Any:
    return write_entry(locals())  # type: ignore[name-defined]  # noqa: F821


def _unwritten_open(*rest: Any, **foreign: Any) -> Any:  # they are among the locals
    return write_entry(locals())  # type: ignore[name-defined]  # noqa: F821


# Note [Keywords that may be given by position]
#     In the standard most options are keyword-only, and in a schema they stand after the star, so kernels and formulas
#     get them by keyword. A declaration with ``positional=n`` lets callers give the first n of them by position as
#     well, as users of NumPy write ``concat([x, y], 1)``. Guarded by
#     ``tests/functions/test_positional_arguments.py::test_options_by_position``.
def keyword_only(operator: Operator) -> list[Argument]:
    """Return the arguments that callers must give by keyword (Note [Keywords that may be given by position])."""
    return [a for a in operator.schema.arguments if a.kwarg_only][operator.positional :]


# Note [Options of an entry]
#     A property of the result that concerns no kernel, such as ``requires_grad`` of a factory, is an option of the
#     entry alone: a keyword that is not in the schema, declared by the facet ``EntryOption``. Its function gets the
#     result and the value unless that is the default, so other calls pay for one comparison. Guarded by
#     ``tests/functions/test_leaves.py``.
#
# Note [Open entries]
#     Python itself raises an error for an argument that a function does not have, and its text cannot say what the
#     argument is called here. A public function is therefore an entry of its own, which takes any further arguments
#     and hands them over to ``hooks.foreign``. That function raises the explanation, or knows what they mean: methods
#     accept PyTorch's spelling. Required arguments have a default that no argument can be, so that one under a foreign
#     name is explained as well; the check that other values get refuses it, at no cost. ``operator.call``, which the
#     package itself uses, takes nothing that it does not have. Taking any keyword costs 20 ns, so an operator of
#     tensors alone, whose calls are the fastest, only has one more argument: NumPy's and PyTorch's ``out``, at 8 ns.
#     Guarded by ``tests/functions/test_foreign_keywords.py``.
def open_entry(operator: Operator, name: str, place: str) -> Callable[..., Any]:
    """Return an entry that explains foreign arguments (Note [Open entries]).

    ``place`` is the module of the public function, or "Tensor" for a method.
    """

    def foreign(given: dict[str, Any], rest: tuple[Any, ...], unknown: dict[str, Any]) -> Any:
        return operator.registry.hooks.foreign(operator, name, place, given, rest, unknown)

    made = make_entry(operator, foreign)
    made.__name__ = made.__qualname__ = name
    if place != "Tensor":
        made.__module__ = place
    made.__wrapped__ = operator.call  # type: ignore[attr-defined]  # whose signature ``inspect`` shows
    return operator.registry.hooks.entry(operator, made)


def make_entry(operator: Operator, foreign: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return the function of Note [The entry of an operator]; its text is written at the first call.

    ``foreign`` is called with the arguments, with those by position that are too many, and with the unknown keywords,
    if there are any (Note [Open entries]).
    """
    schema = operator.schema
    arguments = schema.arguments
    keywords = keyword_only(operator)
    option = operator.facets.get("EntryOption")
    options = () if option is None else (option.name,)
    name = schema.base_name if not keyword.iskeyword(schema.base_name) else schema.base_name + "_"
    filename = f"<operator {operator.name}>"
    further = _further(operator, foreign)
    code = (_unwritten_open if _FOREIGN in further else _unwritten).__code__.replace(
        co_name=name,
        co_qualname=name,
        co_filename=filename,
        co_firstlineno=1,
        co_varnames=(*[a.name for a in arguments], *options, *further),
        co_argcount=len(arguments) - len(keywords) + (further == _OUT),
        co_kwonlyargcount=len(keywords) + len(options),
        co_nlocals=len(arguments) + len(options) + len(further),
    )
    scope: dict[str, Any] = {}
    plain, absent = foreign is None, _absent(operator)
    positional = arguments[: len(arguments) - len(keywords)]
    defaults = tuple([a.default if a.has_default else absent for a in positional if a.has_default or not plain])
    defaults += (ABSENT,) * (further == _OUT)
    function = FunctionType(code, scope, name, defaults or None)
    extra = {} if option is None else {option.name: option.default}
    function.__kwdefaults__ = {
        a.name: a.default if a.has_default else absent for a in keywords if a.has_default or not plain
    } | extra or None

    def write_entry(values: dict[str, Any]) -> Any:
        if foreign is not None:
            found = {key: values.pop(key) for key in further}
            unknown = {} if found.get("out", ABSENT) is ABSENT else {"out": found["out"]}
            unknown |= found.get(_FOREIGN, {})
            if unknown or found.get(_REST):
                return foreign(values, found.get(_REST, ()), unknown)
        source, names = _entry_source(operator, name, foreign)
        written = codegen.define(source, names, filename, schema)
        scope.update(written.__globals__)
        function.__code__ = written.__code__
        return function(**values)

    scope["write_entry"] = write_entry
    function.__doc__ = operator.doc
    function.__module__ = "tenkey" if schema.namespace == "tk" else f"tenkey.ops.{schema.namespace}"
    if schema.namespace != "tk":
        function.__qualname__ = operator.name  # Python's own errors about arguments begin with it
    function.operator = operator  # type: ignore[attr-defined]
    return function


def _absent(operator: Operator) -> Any:
    return None if "Alone" in operator.facets else ABSENT


_REST: Final = "further arguments"  # names that no argument can have
_FOREIGN: Final = "further keywords"
_OUT: Final = ("out",)


def _further(operator: Operator, foreign: Callable[..., Any] | None) -> tuple[str, ...]:
    """Return the names of the further parameters of an entry (Note [Open entries])."""
    if foreign is None:
        return ()
    tensors, arguments = operator.tensor_arguments, operator.schema.arguments
    plain = len(tensors) == len(arguments) and not any(a.has_default or a.name == "out" for a in arguments)
    return _OUT if plain else (_REST, _FOREIGN)


def _entry_source(
    operator: Operator, name: str, foreign: Callable[..., Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """Return the text of the entry, and the globals that it uses."""
    arguments = operator.schema.arguments
    hooks = operator.registry.hooks
    scope: dict[str, Any] = {**_SCOPE, "operator": operator, "cache": operator.cache, "device_word": hooks.device_word}
    scope |= {f"as_they_are_{kind}": known for kind, known in hooks.as_they_are.items()}
    body: list[str] = []
    option = operator.facets.get("EntryOption")
    further = _further(operator, foreign)
    if foreign is not None:
        every = [*[a.name for a in arguments], *([] if option is None else [option.name])]
        given = ", ".join(f"{each!r}: {each}" for each in every)
        if further == _OUT:
            body.append(f"if out is not $nothing: return $refer({{{given}}}, (), {{'out': out}})")
        else:
            body.append(f"if $foreign or $rest: return $refer({{{given}}}, $rest, $foreign)")
        scope |= {"refer": foreign, "nothing": ABSENT}
    if hooks.number is not None and Tag.KEEPS_PYTHON_SCALARS not in operator.tags:
        scope["number"] = hooks.number
        for i, a in enumerate(arguments):  # usually a number (a limit, x += 1.0): lifted here, without an exception
            beside_target = i > 0 and arguments[0].is_mutable and a.type == BaseType("Tensor")
            if beside_target or a.type == OptionalType(BaseType("Tensor")):
                test = f"{a.name}.__class__ is $float or {a.name}.__class__ is $int"
                body.append(f"if {a.name} is not None and ({test}): {a.name} = $number({a.name})")
    for a in arguments:
        text, converter = coercer(operator, a)
        if text:
            scope[f"coerce_{a.name}"] = converter
            body += text.splitlines()
    tensors = [a for a in arguments if a.type.is_tensor_like]
    nested = [f"$union_nested({a.name})" for a in arguments if a.type.contains_tensor and a not in tensors]
    alone: list[str] = []
    if "Alone" in operator.facets:  # a call with the first argument alone; the others have the default None
        scope["alone"] = operator.facets["Alone"]
        left_out = " and ".join(f"{a.name} is None" for a in arguments[1:])
        alone = [f"    if {left_out}: return $alone({arguments[0].name})"]
    if tensors:
        union = " | ".join(_word_expression(a) for a in tensors)
        names = ", ".join(a.name for a in tensors)
        attempt = [f"$word = {union}"]
        if len(tensors) == 1 and tensors[0].type == ListType(BaseType("Tensor")):  # without a function call
            attempt = [
                "$word = 0",
                f"for $one in {names} if {names}.__class__ is $list else $plain({names}):",
                "    $word |= $one._word",
            ]
        body += [
            "try:",
            *[f"    {line}" for line in attempt],
            "except ($AttributeError, $TypeError):",
            *alone,
            f"    {names}, = $lift($operator, ({names},))",
            f"    $word = {union}",
            *([f"$word |= {' | '.join(nested)}"] if nested else []),
        ]
    elif nested:  # tuples and records of tensors, checked when they were converted
        body.append(f"$word = {' | '.join(nested)}")
    else:  # a factory; without a device argument its result is on the default device
        body.append(f"$word = $device_word({next((a.name for a in arguments if is_device(a)), None)})")
    passed = codegen.call(operator.schema)
    body += [
        "$local = $get_state()",
        "if $local is not None:",
        "    $word = ($word | $local.include) & $local.keep",
        f"return $cache[$word]({passed})",
    ]
    structure = operator.facets.get("Structure")
    if structure is not None and structure.builds_result:
        scope["build"] = structure.build_result
        body[-1] = f"return $build($cache[$word]({passed}))"
    keywords = keyword_only(operator)
    star = "*" if foreign is None else "*$rest"
    required = "" if foreign is None else "=$absent"
    parameters = codegen.parameters(operator.schema, keyword_only=keywords, defaults=True, star=star, required=required)
    scope["absent"] = _absent(operator)
    if option is not None:
        parameters += f"{'' if keywords else f', {star}'}, {option.name}=$default_{option.name}"
        scope |= {f"default_{option.name}": option.default, "apply_option": option.function}
        plain = body.pop()
        body.append(f"if {option.name} is {option.default!r}: {plain}")
        body.append(f"return $apply_option($operator, {plain.removeprefix('return ')}, {option.name})")
    if further == _OUT:
        parameters += ", out=$nothing"
    elif foreign is not None:
        parameters += f"{'' if keywords or option is not None else f', {star}'}, **$foreign"
        parameters = parameters.removeprefix(", ")
    source = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    return source, scope
