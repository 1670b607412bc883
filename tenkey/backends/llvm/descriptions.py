"""Texts that say which kernel is meant, the same in every process: the keys of the cache of compiled code.

Note [A kernel is described, not translated]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A cached kernel may not wait for its translation, so its key is the name of the template with its statics, each of which
is described by a text. What the names mean is the content of the source files that the code cache hashes: those of the
packages in ``code_cache.SOURCES``. Therefore the global names that a template reads there must depend on the sources
alone; what differs from machine to machine is passed as a static. An object may have an attribute ``key``, a text that
determines what it computes. A function from elsewhere or an object without a description has no key of this kind: the
template is then translated first, and its text in LLVM's language is the key, which takes some milliseconds more.
Guarded by ``tests/backends/test_compiled.py``.
"""

from __future__ import annotations

from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any, Final

import numpy as np

from . import code_cache
from .language import Template
from .value_types import Type

__all__ = ["describe"]

_PACKAGE: Final = __name__.rpartition(".")[0].rpartition(".")[0]  # tenkey.backends
_KNOWN: Final = tuple(f"{_PACKAGE}.{part.replace('/', '.')}" for part in code_cache.SOURCES)
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(...))


class _UnknownError(Exception):
    """An object cannot be described."""


def describe(template: Template, statics: dict[str, Any]) -> str | None:
    """Return a text for a template with its statics, or None: Note [A kernel is described, not translated]."""
    try:
        return f"{_described(template)} {_described(tuple(sorted(statics.items())))}"
    except _UnknownError:
        return None


def _described(value: Any) -> str:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)):
        name = "" if type(value) in {tuple, list} else _class(value)
        return f"{name}({', '.join(map(_described, value))})"
    if isinstance(value, Type):
        return f"<{value.name}>"
    if isinstance(value, np.dtype):
        return f"dtype({value.str} {value.name})"
    if isinstance(value, Template):
        return f"@loop {_described(value.function)}"
    if isinstance(value, FunctionType):
        return _function(value)
    if isinstance(value, (BuiltinFunctionType, np.ufunc)):
        return f"{type(value).__name__} {getattr(value, '__module__', '')}.{value.__name__}"
    key = getattr(value, "key", None)
    if isinstance(key, str):
        return f"{_class(value)} {key!r}"
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return f"{_class(value)} {_described(tuple(sorted(vars(value).items())))}"
    raise _UnknownError


def _class(value: object) -> str:
    found = type(value)
    _check(found.__module__)
    return f"{found.__module__}.{found.__qualname__}"


def _check(module: str | None) -> None:
    """Raise an error unless the code cache hashes the source of a module."""
    if module is None or not f"{module}.".startswith(tuple(f"{one}." for one in _KNOWN)):
        raise _UnknownError


def _function(function: FunctionType) -> str:
    """Describe a function: its name does not tell lambdas of one line apart, nor closures."""
    _check(function.__module__)
    try:
        free = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a cell that is still empty
        raise _UnknownError from None
    parts = free, function.__defaults__, function.__kwdefaults__ and tuple(sorted(function.__kwdefaults__.items()))
    name = f"{function.__module__}.{function.__qualname__}"
    return f"{name} {_code(function.__code__) if '<' in name else ''} {_described(parts)}"


def _code(code: CodeType) -> str:
    constants = [_code(one) if isinstance(one, CodeType) else _described(one) for one in code.co_consts]
    return f"{code.co_firstlineno} {code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
