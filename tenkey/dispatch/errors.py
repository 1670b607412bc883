"""Exceptions of the dispatcher; each is also the built-in exception that a caller would catch.

A message states the operator or text that it is about, what was given, the rule that was broken, and the remedy.
"""

from __future__ import annotations

import reprlib

from .diagnostics.schema_errors import excerpt

__all__ = [
    "ArgumentError", "DeviceMismatchError", "MissingKernelError", "OperatorAttributeError", "OperatorNotFoundError",
    "OutOfRangeError", "ReadOnlyError", "RegistrationError", "SchemaError", "ShadowedKernelWarning", "TenkeyError",
    "shown",
]  # fmt: skip

_repr = reprlib.Repr()
_repr.maxother = _repr.maxstring = _repr.maxlong = 200


def shown(value: object) -> str:
    """Return ``repr(value)``, cut to a length that suits a message; the type alone if ``repr`` fails.

    >>> shown(list(range(1000)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    try:
        return _repr.repr(value)
    except Exception:  # the repr of an object is user code
        return f"<{type(value).__name__} object>"


class TenkeyError(Exception):
    """Base of all exceptions that tenkey itself raises."""


class SchemaError(TenkeyError, ValueError):
    """A schema text breaks a rule of the schema language.

    Attributes: ``rule`` and ``remedy`` (sentences), ``text`` (the schema text, ``""`` if the value given was not a
    string) and ``column`` (0-based index into ``text``; ``len(text)`` where something is missing at the end).

    >>> print(SchemaError("'Tenso' is not a type.", "Did you mean 'Tensor'?", "f(Tenso x) -> int", 2))
    [schema] column 2: 'Tenso' is not a type. Did you mean 'Tensor'?
        f(Tenso x) -> int
          ^
    """

    def __init__(self, rule: str, remedy: str, text: str = "", column: int = 0) -> None:
        super().__init__(rule, remedy, text, column)  # the base class needs all of them to pickle the exception
        self.rule = rule
        self.remedy = remedy
        self.text = text
        self.column = column

    def __str__(self) -> str:
        line, caret = excerpt(self.text, self.column)
        return f"[schema] column {self.column}: {self.rule} {self.remedy}\n    {line}\n    {' ' * caret}^"


class RegistrationError(TenkeyError, RuntimeError):
    """A definition, kernel or key cannot be registered; the registry is left unchanged."""


class OperatorNotFoundError(TenkeyError, LookupError):
    """No operator, overload or namespace has this name."""


class OperatorAttributeError(OperatorNotFoundError, AttributeError):
    """An attribute of ``tk.ops`` is not an operator: ``hasattr(tk.ops.ns, "name")`` is False."""


class MissingKernelError(TenkeyError, NotImplementedError):
    """An operator has no kernel for the keys of its arguments."""


class DeviceMismatchError(TenkeyError, RuntimeError):
    """The tensor arguments of one call are on devices that the operator cannot mix."""


class ArgumentError(TenkeyError, TypeError):
    """The arguments of a call do not fit the operator's schema."""


class OutOfRangeError(TenkeyError, OverflowError, ValueError):
    """A dtype cannot hold a Python number."""


class ReadOnlyError(TenkeyError, ValueError, RuntimeError):
    """A tensor that cannot be written to: a ValueError for users of NumPy, a RuntimeError for those of PyTorch."""


class ShadowedKernelWarning(UserWarning):
    """No call can reach a registered kernel, because another registration takes precedence."""
