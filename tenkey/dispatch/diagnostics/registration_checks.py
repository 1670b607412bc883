"""Checks of what is given to a registration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..errors import RegistrationError
from ..keys import DispatchKey
from ..schema import FunctionSchema

__all__ = ["check_kernel", "check_signature"]


def check_kernel(function: object, key: object, when: object, priority: object) -> None:
    """Raise RegistrationError unless a kernel can have these properties."""
    if not callable(function):
        raise RegistrationError(
            f"a kernel is a function, got {function!r} of type {type(function).__name__}: pass a callable."
        )
    if not isinstance(key, DispatchKey) or (key.per_backend and key.backend is None):
        name = getattr(function, "__qualname__", repr(function))
        raise RegistrationError(
            f"the kernel {name} is registered for {key!r}, which no call reaches. Give a DispatchKey such as "
            "DispatchKey.CPU, DispatchKey.AutogradCPU or DispatchKey.Autograd."
        )
    if when is not None and not callable(when):
        raise RegistrationError(
            f"[when] a condition is a function of the kernel's arguments, got {when!r} of type {type(when).__name__}."
        )
    if not isinstance(priority, (int, float)) or priority != priority:  # NaN has no order
        raise RegistrationError(
            f"[priority] is a number such as 10 of a kernel with a condition (when=), got {priority!r} of "
            f"type {type(priority).__name__}."
        )


def _fits_at_sight(function: Callable[..., Any], schema: FunctionSchema, *, with_keyset: bool) -> bool:
    """Whether a plain function certainly accepts these arguments: nearly all do, and ``inspect`` is slow."""
    if not isinstance(function, FunctionType) or function.__dict__:
        return False
    code = function.__code__
    keyword = {argument.name for argument in schema.arguments if argument.kwarg_only}
    count = with_keyset + len(schema.arguments) - len(keyword)
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    optional = {*(function.__kwdefaults__ or ()), *positional[len(positional) - len(function.__defaults__ or ()) :]}
    open_for = {*positional[count:], *named}  # keywords; each is given one or has a default
    return (
        code.co_posonlyargcount == 0
        and (count <= len(positional) or bool(code.co_flags & inspect.CO_VARARGS))
        and (keyword <= open_for or (bool(code.co_flags & inspect.CO_VARKEYWORDS) and keyword.isdisjoint(positional)))
        and open_for <= optional | keyword
    )


def check_signature(
    function: Callable[..., Any], schema: FunctionSchema, *, with_keyset: bool, site: str, what: str = "kernel"
) -> None:
    """Raise RegistrationError if ``function`` cannot be called as the kernels of ``schema`` are."""
    if _fits_at_sight(function, schema, with_keyset=with_keyset):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins without a signature cannot be checked
        return
    positional = ["the keyset"] * with_keyset + [a.name for a in schema.arguments if not a.kwarg_only]
    keyword = [a.name for a in schema.arguments if a.kwarg_only]
    try:
        signature.bind(*positional, **dict.fromkeys(keyword))
    except TypeError as error:
        by_keyword = f" and {', '.join(keyword)} by keyword" if keyword else ""
        raise RegistrationError(
            f"[{schema}] the {what} {getattr(function, '__qualname__', repr(function))} at {site} has the signature "
            f"{signature}, which cannot be called with this schema: {error}. A {what} takes "
            f"{', '.join(positional) or 'nothing'} by position{by_keyword}."
        ) from None
