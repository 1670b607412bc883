"""Public functions in Python: an error for arguments that they do not have explains what these are called here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..registry import registry

__all__ = ["public", "public_in", "public_method"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def public(function: _Function, place: str = "tenkey") -> _Function:
    """Explain arguments that do not fit the function, as public operators do (Note [Open entries]).

    >>> tk.split(tk.arange(4), 2, dim=0)
    Traceback (most recent call last):
        ...
    tenkey.dispatch.errors.ArgumentError: [split] has no argument 'dim': here it is 'axis'.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # raised inside the function
                raise
            unfit = error
        return registry.hooks.unfit(function, call.__name__, place, args, kwargs, unfit)

    return cast("_Function", call)


def public_in(place: str) -> Callable[[_Function], _Function]:
    """Return ``public`` for the functions of a module of the namespace."""
    return functools.partial(public, place=place)


def public_method(function: _Function) -> _Function:
    """Accept PyTorch's keywords in a method, and explain other arguments that do not fit it."""
    return public(function, "Tensor")
