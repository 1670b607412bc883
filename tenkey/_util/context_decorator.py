"""Use context managers as decorators of functions, generators and coroutines."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

__all__ = ["decorate"]


def decorate(function: Any, fresh: Callable[[], Any]) -> Any:
    """Run every call of ``function`` in a context of its own; generators and coroutines enter it anew at each step."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            return (yield from _stepwise(function(*args, **kwargs), fresh))

        return generator
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, fresh)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return await _stepwise(function(*args, **kwargs), fresh)

        return coroutine

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with fresh():
            return function(*args, **kwargs)

    return wrapper


def _async_generator(function: Any, fresh: Callable[[], Any]) -> Any:
    """Run each step of an asynchronous generator function in a context."""

    @functools.wraps(function)
    async def generator(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        try:
            item = await _stepwise(inner.__anext__(), fresh)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    await _stepwise(inner.aclose(), fresh)
                    raise
                except BaseException as error:
                    item = await _stepwise(inner.athrow(error), fresh)
                else:
                    item = await _stepwise(inner.asend(sent), fresh)
        except StopAsyncIteration:
            return

    return generator


@types.coroutine
def _stepwise(inner: Any, fresh: Callable[[], Any]) -> Any:
    """Run a generator or a coroutine, and enter the context around each of its steps only."""
    try:
        with fresh():
            item = inner.send(None)
        while True:
            try:
                sent = yield item
            except BaseException as error:
                with fresh():
                    item = inner.throw(error)
            else:
                with fresh():
                    item = inner.send(sent)
    except StopIteration as stop:
        return stop.value
