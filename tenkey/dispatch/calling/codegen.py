"""Generated functions: their parameters, the call of another function with them, and their definition from text.

Note [Names in generated code]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A function that is generated for a schema has the parameters of the schema, whose names its author chose. In the text,
every other name that the function uses (its globals, builtins and local variables) is written with a ``$`` before it.
:func:`define` removes the ``$`` and, where an argument has the same name, appends an underscore: no argument can hide
a name of the generated code, and tracebacks and debuggers show readable Python.
Guarded by ``tests/dispatch/test_codegen.py``.
"""

from __future__ import annotations

import builtins
import linecache
import re
from collections.abc import Callable, Container, Iterable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, Final
from weakref import KeyedRef

from ..schema import Argument, FunctionSchema

__all__ = ["call", "compilers", "define", "parameters"]

compilers: Final[list[Callable[[str], CodeType]]] = []
"""What compiles the texts, in the place of Python's compiler: Note [Generated functions are kept]."""
_MARKED: Final = re.compile(r"\$(\w+)")


def parameters(
    schema: FunctionSchema, *, keyword_only: Container[Argument] | None = None, defaults: bool = False, star: str = "*",
    required: str = "",
) -> str:  # fmt: skip
    """Return the parameters of a function with this schema; ``defaults``: with the schema's default values.

    ``star`` stands before the keyword-only parameters, ``required`` behind those without a default value.
    """
    keywords = [a for a in schema.arguments if a.kwarg_only] if keyword_only is None else keyword_only
    texts: list[str] = []
    for argument in schema.arguments:
        if argument in keywords and star not in texts:
            texts.append(star)
        default = f"=$default_{argument.name}" if defaults and argument.has_default else required
        texts.append(f"{argument.name}{default}")
    return ", ".join(texts)


def call(schema: FunctionSchema, value: Callable[[Argument], str] = lambda argument: argument.name) -> str:
    """Return the arguments of a call of a kernel; ``value`` gives the text for each argument."""
    return ", ".join(f"{a.name}={value(a)}" if a.kwarg_only else value(a) for a in schema.arguments)


def define(
    source: str, scope: Mapping[str, Any], filename: str, schema: FunctionSchema | None = None, args: Iterable[str] = ()
) -> Callable[..., Any]:
    """Define the function in ``source``, whose text tracebacks and ``inspect`` find under ``filename``.

    ``scope`` holds the globals of the function, by their names without ``$``; it is copied. Its parameters are the
    arguments of the schema, or those that ``args`` lists.

    >>> schema = tk.dispatch.parse_schema("f(int a, int total) -> int")
    >>> define("def f(a, total): return $total([a, total])", {"total": sum}, "<f>", schema)(1, 2)
    3
    """
    _remove_forgotten()
    own = dict(scope)
    if schema is not None:
        own |= {f"default_{a.name}": a.default for a in schema.arguments if a.has_default}
    marked = {*_MARKED.findall(source)}
    taken = {argument.name for argument in schema.arguments} if schema is not None else set(args)
    other: dict[str, str] = {}
    for name in sorted(marked & taken):
        new = f"{name}_"
        while new in taken or new in marked:
            new += "_"
        taken.add(new)
        other[name] = new
        if name in own or hasattr(builtins, name):
            own[new] = own.pop(name, getattr(builtins, name, None))
    source = _MARKED.sub(lambda match: other.get(match[1], match[1]), source) if other else source.replace("$", "")
    head, parenthesis, rest = source.partition("(")
    made: dict[str, Any] = {}
    exec(_compiled(f"def function{parenthesis}{rest}"), own, made)
    function: Callable[..., Any] = made["function"]
    name = head.removeprefix("def ")
    function.__code__ = _relabelled(function.__code__, filename).replace(co_name=name, co_qualname=name)
    function.__name__ = function.__qualname__ = name
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    _texts[filename] = KeyedRef(function.__code__, _forgotten.append, filename)
    return function


_texts: Final[dict[str, KeyedRef[str, CodeType]]] = {}  # the code that was generated last for each text
_forgotten: Final[list[KeyedRef[str, CodeType]]] = []  # code that was freed; its texts go with the next `define`


def _remove_forgotten() -> None:
    """Remove the texts of code that was freed.

    Not at once, when the collector finds the code: it may do so while ``linecache.checkcache()`` runs, which fails
    with KeyError if an entry of the cache disappears meanwhile.
    """
    while _forgotten:
        try:
            text = _forgotten.pop()
        except IndexError:  # another thread was faster
            return
        if _texts.get(text.key) is text:
            del _texts[text.key]
            linecache.cache.pop(text.key, None)


@lru_cache(maxsize=512)
def _compiled(source: str) -> CodeType:
    """The code of ``source``, kept because many operators have equal arguments, and so equal functions."""
    return compilers[-1](source) if compilers else compile(source, "<generated>", "exec")


def _relabelled(code: CodeType, filename: str) -> CodeType:
    """The same code, and that of its comprehensions, with the name of the file that tracebacks show."""
    constants = [_relabelled(c, filename) if isinstance(c, CodeType) else c for c in code.co_consts]
    return code.replace(co_filename=filename, co_consts=tuple(constants))
