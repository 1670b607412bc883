"""no_grad, enable_grad and set_grad_enabled: as contexts, decorators and calls, in threads and asyncio tasks."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor


@pytest.fixture(autouse=True)
def _mode_is_as_before() -> Iterator[None]:
    assert tk.is_grad_enabled()
    yield
    enabled = tk.is_grad_enabled()
    tk.set_grad_enabled(True)  # whatever happened, the next test starts as this one did
    assert enabled


def leaf() -> Tensor:
    return tk.tensor([1.0, 2.0], requires_grad=True)


# ---- contexts


def test_no_grad_records_nothing() -> None:
    x = leaf()
    with tk.no_grad():
        y = x * 2.0
        assert not y.requires_grad
        assert y.grad_fn is None
        assert y.is_leaf
        assert x.requires_grad  # the leaf itself is as before
        assert tk.tensor([1.0], requires_grad=True).requires_grad
    assert (x * 2.0).requires_grad


def test_modes_nest() -> None:
    states = []
    with tk.no_grad():
        states.append(tk.is_grad_enabled())
        with tk.enable_grad():
            states.append(tk.is_grad_enabled())
            assert (leaf() * 2.0).requires_grad
            with tk.no_grad(), tk.no_grad():
                states.append(tk.is_grad_enabled())
            states.append(tk.is_grad_enabled())
        states.append(tk.is_grad_enabled())
    assert states == [False, True, False, True, False]


def test_one_context_object_can_be_entered_again() -> None:
    context = tk.no_grad()
    for _ in range(2):
        with context:
            with context:
                assert not tk.is_grad_enabled()
            assert not tk.is_grad_enabled()
        assert tk.is_grad_enabled()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_restores_the_mode(error: type[BaseException]) -> None:
    for context in (tk.no_grad, lambda: tk.set_grad_enabled(False)):
        with pytest.raises(error), context():
            raise error
        assert tk.is_grad_enabled()


def test_views_and_detach_under_no_grad() -> None:
    x = leaf()
    with tk.no_grad():
        assert not x[0].requires_grad
        assert not tk.reshape(x, (2, 1)).requires_grad
    d = x.detach()
    assert not d.requires_grad
    assert tk.shares_storage(d, x)


# ---- decorators


def _product(x: Tensor, factor: float = 2.0) -> Tensor:
    """Times."""
    return x * factor


@pytest.mark.parametrize("decorator", [tk.no_grad, tk.no_grad(), tk.set_grad_enabled(True)(tk.no_grad)])
def test_a_decorator_with_and_without_parentheses(decorator: Callable[..., Any]) -> None:
    silent = decorator(_product)
    assert silent.__name__ == "_product"
    assert silent.__doc__ == "Times."
    assert silent.__wrapped__ is _product
    assert not silent(leaf(), factor=3.0).requires_grad
    assert tk.is_grad_enabled()


def test_enable_grad_as_a_decorator() -> None:
    recorded = tk.enable_grad(_product)
    again = tk.enable_grad()(_product)
    with tk.no_grad():
        assert recorded(leaf()).requires_grad
        assert again(leaf()).requires_grad
        assert not tk.is_grad_enabled()


def test_methods_can_be_decorated() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = leaf()

        @tk.no_grad
        def predict(self, x: Tensor) -> Tensor:
            return self.weight * x

        @tk.no_grad()
        def score(self, x: Tensor) -> Tensor:
            return (self.weight * x).sum()

    model = Model()
    assert not model.predict(tk.ones(2)).requires_grad
    assert not model.score(tk.ones(2)).requires_grad


def test_a_decorated_function_may_recurse() -> None:
    @tk.no_grad
    def down(depth: int) -> bool:
        with tk.enable_grad():
            assert tk.is_grad_enabled()
        return not tk.is_grad_enabled() and (depth == 0 or down(depth - 1))

    assert down(5)


def test_a_decorated_function_restores_after_an_exception() -> None:
    @tk.no_grad()
    def fail() -> None:
        raise LookupError("deliberate")

    with pytest.raises(LookupError, match="deliberate"):
        fail()
    assert tk.is_grad_enabled()


@pytest.mark.parametrize("wrong", [5, "no", leaf])
def test_only_functions_are_decorated(wrong: Any) -> None:
    given = type("Model", (), {}) if callable(wrong) else wrong
    with pytest.raises(TypeError, match=r"\[no_grad\] decorates a function, got .*`with no_grad\(\):`, `@no_grad`"):
        tk.no_grad(given)
    assert tk.is_grad_enabled()


# ---- set_grad_enabled


def test_set_grad_enabled_as_a_plain_call() -> None:
    tk.set_grad_enabled(False)
    try:
        assert not tk.is_grad_enabled()
        assert not (leaf() * 2.0).requires_grad
    finally:
        tk.set_grad_enabled(True)
    assert (leaf() * 2.0).requires_grad


def test_set_grad_enabled_as_a_context() -> None:
    with tk.set_grad_enabled(False):
        assert not tk.is_grad_enabled()
        with tk.set_grad_enabled(True):
            assert tk.is_grad_enabled()
        assert not tk.is_grad_enabled()


def test_set_grad_enabled_as_a_decorator_changes_nothing_outside() -> None:
    silent = tk.set_grad_enabled(False)(_product)
    assert tk.is_grad_enabled()
    assert not silent(leaf()).requires_grad
    with tk.no_grad():
        recorded = tk.set_grad_enabled(True)(_product)
        assert not tk.is_grad_enabled()
        assert recorded(leaf()).requires_grad


# ---- generators


@tk.no_grad
def _generator(inside: list[bool]) -> Generator[int, str | None, str]:
    received = []
    try:
        for i in range(3):
            inside.append(tk.is_grad_enabled())
            try:
                received.append((yield i))
            except LookupError:
                received.append("caught")
            inside.append(tk.is_grad_enabled())
    finally:
        inside.append(tk.is_grad_enabled())
    return ",".join(str(r) for r in received)


def test_a_generator_is_entered_at_every_step() -> None:
    inside: list[bool] = []
    outside = []
    for _ in _generator(inside):
        outside.append(tk.is_grad_enabled())
        with tk.enable_grad():
            outside.append(tk.is_grad_enabled())
    assert inside == [False] * 7
    assert outside == [True] * 6
    assert inspect.isgeneratorfunction(_generator)


def test_a_generator_passes_values_errors_and_its_result() -> None:
    inside: list[bool] = []
    steps = _generator(inside)
    assert next(steps) == 0
    assert steps.send("hello") == 1
    assert tk.is_grad_enabled()
    assert steps.throw(LookupError()) == 2
    with pytest.raises(StopIteration) as stopped:
        steps.send("last")
    assert stopped.value.value == "hello,caught,last"
    assert not any(inside)


def test_a_closed_generator_cleans_up_inside_the_mode() -> None:
    inside: list[bool] = []
    steps = _generator(inside)
    next(steps)
    steps.close()
    assert inside == [False, False]
    assert tk.is_grad_enabled()


def test_a_generator_that_is_consumed_under_another_mode() -> None:
    @tk.enable_grad()
    def recorded() -> Generator[bool, None, None]:
        for _ in range(2):
            yield (leaf() * 2.0).requires_grad

    steps = recorded()
    with tk.no_grad():
        assert next(steps)
        assert not tk.is_grad_enabled()
    assert next(steps)


def test_an_undecorated_generator_does_not_leak_its_mode_over_a_decorated_one() -> None:
    inside: list[bool] = []
    steps = _generator(inside)
    with tk.no_grad():
        next(steps)
    assert tk.is_grad_enabled()
    steps.close()


# ---- coroutines and tasks


def test_a_coroutine_is_entered_at_every_step() -> None:
    inside: list[bool] = []

    @tk.no_grad
    async def work() -> int:
        inside.append(tk.is_grad_enabled())
        await asyncio.sleep(0)
        inside.append(tk.is_grad_enabled())
        return 3

    async def main() -> None:
        assert tk.is_grad_enabled()
        assert await work() == 3
        assert tk.is_grad_enabled()

    assert inspect.iscoroutinefunction(work)
    asyncio.run(main())
    assert inside == [False, False]


def test_a_coroutine_that_fails_or_is_cancelled() -> None:
    seen: list[Any] = []

    @tk.no_grad()
    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("deliberate")

    @tk.no_grad()
    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(tk.is_grad_enabled())

    async def main() -> None:
        with pytest.raises(LookupError, match="deliberate"):
            await fail()
        assert tk.is_grad_enabled()
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tk.is_grad_enabled()

    asyncio.run(main())
    assert seen == [False]


def test_tasks_do_not_see_each_other() -> None:
    seen: dict[str, list[bool]] = {"silent": [], "plain": [], "child": []}

    async def child() -> None:
        seen["child"].append(tk.is_grad_enabled())

    async def silent() -> None:
        with tk.no_grad():
            for _ in range(3):
                await asyncio.sleep(0)
                seen["silent"].append((leaf() * 2.0).requires_grad)
            await asyncio.create_task(child())  # a task starts with its creator's mode

    async def plain() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen["plain"].append((leaf() * 2.0).requires_grad)
        tk.set_grad_enabled(False)  # stays in this task

    async def main() -> None:
        await asyncio.gather(silent(), plain())
        assert tk.is_grad_enabled()

    asyncio.run(main())
    assert seen == {"silent": [False] * 3, "plain": [True] * 3, "child": [False]}


def test_an_asynchronous_generator_is_entered_at_every_step() -> None:
    inside: list[bool] = []

    @tk.no_grad
    async def stream() -> AsyncIterator[int]:
        try:
            for i in range(3):
                inside.append(tk.is_grad_enabled())
                await asyncio.sleep(0)
                inside.append(tk.is_grad_enabled())
                yield i
        finally:
            inside.append(tk.is_grad_enabled())

    async def main() -> None:
        got = []
        async for item in stream():
            assert tk.is_grad_enabled()
            got.append(item)
        assert got == [0, 1, 2]
        assert inside == [False] * 7
        inside.clear()
        steps: Any = stream()
        assert await anext(steps) == 0
        await steps.aclose()
        assert inside == [False] * 3
        assert tk.is_grad_enabled()

    asyncio.run(main())


# ---- threads


def test_threads_start_recording() -> None:
    seen: list[bool] = []
    inside, done = threading.Event(), threading.Event()

    def work() -> None:
        seen.append(tk.is_grad_enabled())
        with tk.no_grad():
            seen.append(tk.is_grad_enabled())
            inside.set()
            done.wait(10)
        seen.append(tk.is_grad_enabled())

    with tk.no_grad():
        thread = threading.Thread(target=work)
        thread.start()
        assert inside.wait(10)
        with tk.enable_grad():
            assert tk.is_grad_enabled()
        assert not tk.is_grad_enabled()
        done.set()
        thread.join()
    assert seen == [True, False, True]


def test_threads_do_not_switch_each_other() -> None:
    wrong: list[str] = []
    start = threading.Barrier(4)

    def work(enabled: bool) -> None:
        start.wait()
        for _ in range(200):
            with tk.set_grad_enabled(enabled):
                if (leaf() * 2.0).requires_grad is not enabled:
                    wrong.append(f"expected {enabled}")
            if not tk.is_grad_enabled():
                wrong.append("left off")

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("value", [1, "yes", None, lambda: None])
def test_flags_that_are_no_bools(value: Any) -> None:
    x = tk.ones(2)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = value
    with pytest.raises(TypeError, match="requires_grad must be a bool"):
        x.requires_grad_(value)
    with pytest.raises(TypeError, match="argument 'enabled' must be bool"):
        tk.set_grad_enabled(value)
    assert not x.requires_grad
    assert tk.is_grad_enabled()
    x.requires_grad = np.True_
    with tk.set_grad_enabled(np.False_):
        assert not (x * x).requires_grad
