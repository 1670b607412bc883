"""Entries of the functions of ``tenkey.numpy``: NumPy's signature, and a short way for the usual calls.

Note [Entries with NumPy's signatures]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A function is generated for each row of the table. It has NumPy's parameters and defaults. A call in which all arrays
are ``ndarray`` with dispatch words that are known to be *direct* (the counterpart gives NumPy's result and dtype
without a cast), and in which all arguments without a counterpart have their defaults, goes to the counterpart at once.
All others go to the general function, which finds out whether the words are direct. The text is written and compiled at
the first call, as those of operators are (Note [The entry of an operator]).
Guarded by ``tests/numpy/test_entries.py``.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.calling import codegen
from ..interop.numpy_functions import ARRAYS, Row, row_of
from .array_class import as_ndarrays, as_results, ndarray
from .call_rules.quick_functions import head_of, lazily, native_entry, quick_lines, quick_table
from .call_rules.result_rules import ZERO_D

__all__ = ["OPERANDS", "make_entry", "words_of"]

_NO_VALUE: Final[Any] = np._NoValue
OPERANDS: Final = ARRAYS | {"m", "A", "x1", "x2", "array", "ary", "prototype", "f", "val", "z", "condition", "choices"}
"""Names of parameters that are arrays."""


_PLAIN: Final = "def {}(*args, **kwargs):\n    return general(args, kwargs)\n"
# any number of operands, beside text
_MANY: Final = """def {}(*args, **kwargs):
    if not kwargs:
        word = 0
        for x in args:
            if x.__class__ is ndarray: word |= x._word
            elif x.__class__ is not str: break
        else:
            if word in direct:
                try:
                    return finished(target(*args), args)
                except (TypeError, IndexError, ValueError, NotImplementedError):
                    pass
    return general(args, kwargs)
"""

_LATE: Final = """    if {0} is not $default_{0}:
        if len($values) == {1}: $values = (*$values, {0})
        else: $given[{0!r}] = {0}
"""


class _Option(NamedTuple):
    """A parameter that is not an operand."""

    name: str
    default: Any
    passed: str  # the keyword of the counterpart, or "" where only the default goes the short way
    instead: Any  # the counterpart's default, in the place of NumPy's "no value"

    @property
    def may_lack(self) -> bool:
        """Whether it has a default: the axis of ``take_along_axis`` has none before NumPy 2.3."""
        return self.default is not inspect.Parameter.empty


def words_of(row: Row, args: tuple[Any, ...]) -> Any:
    """Return the words of the operands of a call, by which entries know direct calls; None without any."""
    if row.positional < 0:
        found = {x._word for x in args if isinstance(x, Tensor)}
        return found.pop() if len(found) == 1 else None
    words: list[int] = []
    for name, value in zip(row.names[: row.positional], args):
        if name in row.sequences:
            union = 0
            for x in value:
                union |= x._word if isinstance(x, Tensor) else 0
            words.append(union)
        elif name in OPERANDS:
            words.append(getattr(value, "_word", 0))
    return tuple(words) if len(words) > 1 else words[0] if words else None


def make_entry(name: str, source: Any, general: Callable[..., Any], direct: set[Any]) -> Callable[..., Any]:
    """Return the function for a row; ``general`` takes the tuple of operands and the dict of other arguments."""
    made: Callable[..., Any] = lazily(
        name.rpartition(".")[2], lambda: _write(name, source, row_of(name), general, direct)
    )
    quick = quick_table().get(name)
    if quick is None:
        return made
    return native_entry(made, quick, lambda: (_parameters(source) or [], OPERANDS, row_of(name).sequences))  # type: ignore[no-any-return]


def _write(name: str, source: Any, row: Row, general: Callable[..., Any], direct: set[Any]) -> FunctionType:
    """Return the written entry."""
    scope: dict[str, Any] = {
        "target": row.target, "general": general, "direct": direct, "Tensor": Tensor, "ndarray": ndarray,
        "finished": as_ndarrays if name in ZERO_D else as_results, "novalue": _NO_VALUE,
    }  # fmt: skip
    quick, name = quick_table().get(name), name.rpartition(".")[2]
    parameters = _parameters(source)
    given = [p for p in parameters or () if p.name in row.names[: row.positional]]
    if row.positional < 0 or parameters is None or len(given) < row.positional:  # or other names than in the documents
        text = (_MANY if row.positional < 0 else _PLAIN).format(name)
        return codegen.define(text, scope, f"<numpy.{name}>")  # type: ignore[return-value]
    text, defaults = head_of(name, parameters)
    scope |= defaults
    others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
    parameters = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    options = _options([p for p in parameters if p not in given], row)
    if quick is not None:
        lines, needed = quick_lines(quick, parameters, OPERANDS, row.sequences)
        text += lines
        scope |= needed
    text += _short_way(given, options, row, scope, others)
    rest = "".join(
        f"    {f'if {o.name} is not $default_{o.name}: ' * o.may_lack}$given[{o.name!r}] = {o.name}\n" for o in options
    )
    operands = [p.name for p in given if p.default is p.empty]
    late = "".join(_LATE.format(p.name, i) for i, p in enumerate(given) if p.name not in operands)
    names = "".join(f"{x}, " for x in operands)
    start = f"dict({others})" if others else "{}"
    text += f"    $given = {start}\n    $values = ({names})\n{late}{rest}    return $general($values, $given)\n"
    return codegen.define(text, scope, f"<numpy.{name}>", args=[p.name for p in parameters])  # type: ignore[return-value]


def _parameters(source: Any) -> list[inspect.Parameter] | None:
    """Return NumPy's parameters; None where they have no plain names."""
    text = getattr(inspect.unwrap(source), "__text_signature__", None)
    if text is not None and not {*text} & {*"$<"}:  # of a compiled function: inspect would load the tokenizer for it
        source = eval(f"(lambda {text[1:-1]}: None)", {})
    try:
        found = [p for p in inspect.signature(source).parameters.values() if p.name != "like"]
    except (TypeError, ValueError):
        return None
    return None if any(p.kind is p.VAR_POSITIONAL for p in found) else found


def _options(parameters: list[inspect.Parameter], row: Row) -> list[_Option]:
    theirs: dict[str, inspect.Parameter] = {}
    with contextlib.suppress(TypeError, ValueError):
        theirs = dict(inspect.signature(row.target).parameters)
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in theirs.values())
    made = []
    for p in parameters:
        ours = row.renamed.get(p.name, p.name)
        other = theirs.get(ours)
        passed = ""
        plain = p.name in row.names and p.name not in row.refused | row.ignored | ARRAYS | {"dtype", "out"}
        if plain and other is not None and other.default is not other.empty and not any_keyword:
            same = p.default is _NO_VALUE or p.default is not None or other.default is None
            passed = ours if same or (p.name == "axis" and row.flattens is not False) else ""
        made.append(_Option(p.name, p.default, passed, None if other is None else other.default))
    twice = [o.passed for o in made]
    return [o._replace(passed="") if o.passed and twice.index(o.passed) != i else o for i, o in enumerate(made)]


def _short_way(
    given: list[inspect.Parameter], options: list[_Option], row: Row, scope: dict[str, Any], others: str
) -> str:
    """Return the lines of the short way; "" where the arguments have no operand."""
    tests: list[str] = []
    words: list[str] = []
    lines = ""
    for p in given:
        if p.name in row.sequences:
            lines += (
                f"    $word = 0\n"
                f"    for $one in {p.name} if {p.name}.__class__ is list or {p.name}.__class__ is tuple else (None,):\n"
                f"        if $one.__class__ is not $ndarray:\n"
                f"            $word = -1\n"
                f"            break\n"
                f"        $word |= $one._word\n"
            )
            words.append("$word")
        elif p.name in OPERANDS:
            tests.append(f"{p.name}.__class__ is $ndarray")
            words.append(f"{p.name}._word")
    if not words:
        return ""
    tests.append(f"{words[0] if len(words) == 1 else '(' + ', '.join(words) + ')'} in $direct")
    tests += [f"not {others}"] if others else []
    passed = [p.name for p in given]
    for o in options:
        if o.name == "axis" and row.flattens is not False:
            first = given[0].name
            if first in row.sequences:
                tests.append("axis is not None")
                passed.append("axis=axis")
            else:
                tests.append(f"(axis is not None or len({first}._data.shape) == 1)")
                passed.append("axis=0 if axis is None else axis")
        elif not o.passed:
            tests.append(f"{o.name} is $default_{o.name}" if o.may_lack else "False")
        elif o.default is _NO_VALUE:
            scope[f"instead_{o.name}"] = o.instead
            passed.append(f"{o.passed}=$instead_{o.name} if {o.name} is $novalue else {o.name}")
        else:
            passed.append(f"{o.passed}={o.name}")
    same = [p.name for p in given if p.name not in row.sequences and p.name in OPERANDS]
    fresh = "".join(f" and $made is not {x}" for x in same)
    return (
        f"{lines}    if {' and '.join(tests)}:\n"
        f"        try:\n"
        f"            $made = $target({', '.join(passed)})\n"
        f"        except (TypeError, IndexError, ValueError, NotImplementedError):\n"
        f"            pass\n"
        f"        else:\n"
        f"            if $made.__class__ is $Tensor and $made._data.shape{fresh}:\n"
        f"                $made.__class__ = $ndarray\n"
        f"                return $made\n"
        f"            return $finished($made, ({''.join(x + ', ' for x in same)}))\n"
    )
