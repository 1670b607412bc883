"""The rule and the remedy in the messages of the schema parser."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

__all__ = ["excerpt", "kind_of", "misfit", "no_alias", "no_type", "quoted", "unexpected"]

# A longer line is shown as a window around the caret, so that a message stays readable.
_MAX_SHOWN: Final = 400
_WINDOW: Final = 80

_SYNONYMS: Final = {
    "SymInt": "int",
    "double": "float",
    "number": "Scalar",
    "string": "str",
    "ScalarType": "DType",
    "Optional": "Tensor?",
    "list": "int[]",
    "tuple": "(int, int)",
}

_MARKS: Final = frozenset(("->", "::", *"()[],?*!|=.+-"))


def kind_of(token: str) -> str:
    """Return ``"name"``, ``"number"``, ``"mark"``, ``"string"``, ``"bad"`` or, for the empty token, ``"end"``."""
    if not token or token in _MARKS:
        return "mark" if token else "end"
    if token.isidentifier() and token.isascii():
        return "name"
    return "number" if token[0] in ".0123456789" else "string" if len(token) > 1 else "bad"


def quoted(source: str) -> str:
    """Return `source` in quotes, cut to a length that suits a message."""
    return repr(source if len(source) <= 40 else f"{source[:40]}...")


def unexpected(value: str, expected: str, remedy: str) -> tuple[str, str]:
    """Describe a token that stands where something else is expected."""
    kind = kind_of(value)
    if kind == "end":
        return f"the text ends where {expected} is expected.", remedy
    if kind == "bad" and value in "'\"":
        return "this string is not closed on its line.", f"Close it with {value}."
    if kind == "bad":
        return f"the character {value!r} has no meaning here.", f"Expected is {expected}. {remedy}"
    return f"{quoted(value)} stands where {expected} is expected.", remedy


def no_type(value: str, following: str, types: Collection[str]) -> tuple[str, str]:
    """Describe a token that stands where a type is expected; `following` is the next token."""
    known = f"Types are {', '.join(types)}."
    if kind_of(value) != "name":
        return unexpected(value, "a type", known)
    if following in (",", ")", "="):
        return f"{quoted(value)} has no type.", f"Write 'Tensor {value[:40]}', say."
    import difflib  # only errors need it

    close = [_SYNONYMS[value]] if value in _SYNONYMS else difflib.get_close_matches(value, types, n=2)
    return f"{quoted(value)} is not a type.", f"Did you mean {' or '.join(map(repr, close))}?" if close else known


def no_alias(names: Sequence[str], known: Collection[str], written: Collection[str]) -> tuple[str, str]:
    """Describe the alias annotation of a result whose names are not those of (written) arguments."""
    wrong = next(name for name in names if name not in known or name not in written)
    if wrong not in known:
        rule = f"the result aliases {quoted(wrong)}, which no argument is annotated with."
        return rule, f"Write 'Tensor({wrong})' at the argument that it shares memory with."
    rule = f"the result is marked as written to, but no argument in {quoted(wrong)} is."
    return rule, f"Write '({wrong}!)' at the argument, or '({wrong})' here."


def misfit(source: str, type_: str, kind: str, remedy: str) -> tuple[str, str]:
    """Describe a default that does not fit its type, a base type with a remedy or a list or tuple type."""
    if kind == "NoneType":
        remedy = f"Declare the type '{type_}?' to allow None."
    elif not remedy:
        remedy = "Write a list like [1, 2]." if type_.endswith("]") else "Write a tuple like (1, 2)."
    return f"the default {source[:40]} does not fit the type {type_}.", remedy


def excerpt(text: str, column: int) -> tuple[str, int]:
    """Return the line of ``text`` that contains ``column``, one place per character, and the position of the caret."""
    first = text.rfind("\n", 0, column) + 1
    last = text.find("\n", column)
    last = len(text) if last < 0 else last
    lead = tail = ""
    if last - first > _MAX_SHOWN:
        start, stop = max(first, column - _WINDOW), min(last, column + _WINDOW)
        lead, tail = "..." * (start > first), "..." * (stop < last)
        first, last = start, stop
    line = "".join(character if character.isprintable() else " " for character in text[first:last])
    return f"{lead}{line}{tail}", len(lead) + column - first
