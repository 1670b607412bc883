"""The complete check of a kernel's signature, for functions that do not fit their schema at sight."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..errors import RegistrationError
from ..schema import FunctionSchema

__all__ = ["check_call"]


def check_call(function: Callable[..., Any], schema: FunctionSchema, with_keyset: bool, site: str, what: str) -> None:
    """Raise RegistrationError if a call of ``function`` with the arguments of ``schema`` would fail."""
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
