"""Attributes that are computed at their first use, without a lock.

Before Python 3.12, ``functools.cached_property`` holds a lock while it computes. A child that is forked at that moment
waits for it for ever (Note [Locks and forks] in ``locks.py``). Here two threads may compute the same value instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["cached_property"]

T = TypeVar("T")


class cached_property(Generic[T]):
    """Replace a method by its result, which the instance keeps."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Compute the value; later the attribute of the instance hides this one."""
        if instance is None:
            return self
        value = vars(instance)[self.name] = self.function(instance)
        return value
