"""Note [Waiting for a recomputation]: threads that need each other's checkpoints do not block or disturb each other."""

from __future__ import annotations

import contextvars
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import CheckpointError, checkpoint, grad
from tenkey.autograd.checkpointing import recomputation
from tests._interrupts import changed_variables, interrupted
from tests.autograd.engine.test_workers import Lab


def leaf(device: str = "cpu") -> Any:
    return tk.tensor([0.1, 0.2], dtype=tk.float64, device=device).requires_grad_()


def derivative(values: Any) -> Any:
    return np.exp(np.sin(values)) * np.cos(values)


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Call each function in a thread of its own, and return the results or errors; fail if one does not end."""
    results: list[Any] = [None] * len(functions)

    def run(number: int) -> None:
        try:
            results[number] = functions[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    return results


class Pair:
    """Two checkpoints, each of which runs a backward through the other when it is recomputed ``times`` times."""

    def __init__(self, times: float) -> None:
        self.x = leaf()
        self.times = times
        self.runs = [0, 0]
        self.both = threading.Barrier(2, timeout=20)
        self.results: list[Any] = []
        self.results = [checkpoint(self.first, self.x), checkpoint(self.second, self.x)]

    def first(self, x: Any) -> Any:
        return self.compute(x, 0)

    def second(self, x: Any) -> Any:
        return self.compute(x, 1)

    def compute(self, x: Any, number: int) -> Any:
        self.runs[number] += 1
        y = tk.sin(x)
        if self.results and self.runs[number] - 1 <= self.times:
            if self.runs[number] == 2:
                self.both.wait()  # now both are being recomputed
            grad(tk.sum(self.results[1 - number]), self.x, retain_graph=True)
        return tk.exp(y)

    def gradient(self, number: int) -> Any:
        return grad(tk.sum(self.results[number]), self.x, retain_graph=True)[0].numpy()


def test_recomputations_that_cross() -> None:
    pair = Pair(times=1)
    for found in in_threads(lambda: pair.gradient(0), lambda: pair.gradient(1)):
        np.testing.assert_allclose(found, derivative([0.1, 0.2]))
    assert pair.runs == [3, 3]  # forward, its own backward and the other's


def test_recomputations_that_cross_without_end() -> None:
    pair = Pair(times=np.inf)
    for error in in_threads(lambda: pair.gradient(0), lambda: pair.gradient(1)):
        assert isinstance(error, CheckpointError)
        names = re.findall(r"Pair\.(\w+)", str(error))
        assert names in (["first", "second", "first"], ["second", "first", "second"])


def test_a_recomputation_that_needs_itself() -> None:
    results: list[Any] = []
    x = leaf()

    def function(x: Any) -> Any:
        if results:
            grad(tk.sum(results[0]), x, retain_graph=True)
        return tk.exp(tk.sin(x))

    results.append(checkpoint(function, x))
    with pytest.raises(CheckpointError, match=r"the recomputation of .*function needs that of .*function, without end"):
        results[0].sum().backward(retain_graph=True)
    results, graph = [], results[0]
    graph.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), derivative([0.1, 0.2]))


class Waits:
    """A checkpointed function that waits for a thread which needs the checkpoint, when it is recomputed."""

    def __init__(self, times: float) -> None:
        self.x = leaf()
        self.times = times
        self.runs = 0
        self.found: list[Any] = []
        self.result: Any = None
        self.result = checkpoint(self.function, self.x)

    def function(self, x: Any) -> Any:
        self.runs += 1
        y = tk.sin(x)
        if self.result is not None and self.runs - 1 <= self.times:
            (found,) = in_threads(self.gradient)
            self.found.append(found)
            if isinstance(found, BaseException):
                raise found
        return tk.exp(y)

    def gradient(self) -> Any:
        return grad(tk.sum(self.result), self.x, retain_graph=True)[0].numpy()


def test_a_recomputation_that_waits_for_a_thread_that_needs_it() -> None:
    waits = Waits(times=1)
    for found in [*in_threads(waits.gradient), *waits.found]:
        np.testing.assert_allclose(found, derivative([0.1, 0.2]))
    assert waits.runs == 3


def test_threads_that_wait_for_each_other_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "_CROWD", 10)
    waits = Waits(times=np.inf)
    (error,) = in_threads(waits.gradient)
    assert isinstance(error, CheckpointError)
    assert "the recomputation of Waits.function needs that of Waits.function, without end" in str(error)
    assert waits.runs == 11
    waits.times = 0
    np.testing.assert_allclose(waits.gradient(), derivative([0.1, 0.2]))


def test_a_thread_in_a_copy_of_the_context_that_needs_the_same() -> None:
    x = leaf()
    result: list[Any] = []

    def function(x: Any) -> Any:
        if result:
            context = contextvars.copy_context()
            errors.extend(in_threads(lambda: context.run(lambda: result[0].grad_fn._saved_out)))
        return tk.exp(tk.sin(x))

    errors: list[Any] = []
    result.append(checkpoint(function, x))
    (g,) = grad(tk.sum(result[0]), x)
    np.testing.assert_allclose(g.numpy(), derivative([0.1, 0.2]))
    assert [type(error) for error in errors] == [CheckpointError]


def test_threads_of_one_backward_that_read_each_others_tensors() -> None:
    both = threading.Barrier(2, timeout=20)
    seen: list[Any] = []
    runs = {"cpu": 0, "lab": 0}

    def made(device: str, other: str) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            runs[device] += 1
            y = tk.sin(x)
            if runs[device] == 2:
                both.wait()
                seen.append(results[other].grad_fn._saved_out.detach().to_device("cpu").numpy())
            return tk.exp(y)

        return function

    with tk.backends.register(Lab()):
        x, z = leaf(), leaf("lab")
        results = {"cpu": checkpoint(made("cpu", "lab"), x), "lab": checkpoint(made("lab", "cpu"), z)}
        total = tk.sum(results["cpu"]) + tk.sum(results["lab"]).to_device("cpu")
        (done,) = in_threads(total.backward)
        assert done is None
        np.testing.assert_allclose(x.grad.numpy(), derivative([0.1, 0.2]))
        np.testing.assert_allclose(z.grad.numpy(), derivative([0.1, 0.2]))
        for values in seen:
            np.testing.assert_allclose(values, np.exp(np.sin([0.1, 0.2])))
        assert len(seen) == 2


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_backward_on_the_device_that_waits_for_a_nested_checkpoint(levels: int) -> None:
    waiting = threading.Event()

    with tk.backends.register(Lab()):
        w, x, z = leaf("lab"), leaf("cpu"), leaf("lab")

        def innermost(x: Any, z: Any) -> Any:
            return tk.exp(tk.sin(x)), tk.exp(tk.sin(z))

        def around(function: Any) -> Any:
            def outer(x: Any, z: Any) -> Any:
                waiting.wait(0.05)  # the thread of the device asks meanwhile
                (g,) = grad(tk.sum(w * w), w)
                return checkpoint(function, x, z + g * 0.0)

            return outer

        function: Any = innermost
        for _ in range(levels):
            function = around(function)
        a, b = checkpoint(function, x, z)
        (done,) = in_threads((tk.sum(a) + tk.sum(b).to_device("cpu")).backward)
        assert done is None
        np.testing.assert_allclose(x.grad.numpy(), derivative([0.1, 0.2]))
        np.testing.assert_allclose(z.grad.numpy(), derivative([0.1, 0.2]))


def test_random_numbers_of_recomputations_at_the_same_time() -> None:
    """The masks are those of the forward pass, whatever other threads draw from the global generator meanwhile."""
    both = threading.Barrier(3, timeout=20)
    recomputing = False

    def dropout(x: Any) -> Any:
        for _ in range(3):
            if recomputing:
                both.wait()
            x = tk.exp(x * tk.random.bernoulli(shape=x.shape, p=0.5, dtype=tk.float64))
        return x

    def plain(x: Any, state: Any) -> Any:
        tk.random.set_state(state)
        return grad(tk.sum(dropout(x)), x)[0].numpy()

    tk.random.seed(7)
    leaves = [tk.zeros(100, dtype=tk.float64).requires_grad_() for _ in range(2)]
    states, results = [], []
    for x in leaves:
        states.append(tk.random.get_state())
        results.append(checkpoint(dropout, x))
    expected = [plain(x, state) for x, state in zip(leaves, states)]
    before = tk.random.get_state()

    def draw() -> Any:
        for _ in range(3):
            both.wait()
            tk.random.uniform(5)
        return None

    recomputing = True
    first, second, error = in_threads(
        *[lambda x=x, y=y: grad(tk.sum(y), x)[0].numpy() for x, y in zip(leaves, results)], draw
    )
    assert error is None
    np.testing.assert_array_equal(first, expected[0])
    np.testing.assert_array_equal(second, expected[1])
    after = tk.random.get_state()
    assert (after.offset - before.offset, after.seed) == (15, before.seed)


def test_a_function_may_seed_the_generator() -> None:
    def function(x: Any) -> Any:
        tk.random.seed(3)
        first = tk.random.uniform(x.shape, dtype=tk.float64)
        state = tk.random.get_state()
        second = tk.random.uniform(x.shape, dtype=tk.float64)
        tk.random.set_state(state)
        third = tk.random.default_generator().split(1)[0].next_key(1)[0][0] % 7
        return tk.exp(x * first) * second * float(third)

    x = leaf()
    tk.random.seed(5)
    y = checkpoint(function, x)
    (plain,) = grad(tk.sum(function(x)), x)
    tk.random.seed(9)
    tk.random.uniform(4)
    state = tk.random.get_state()
    (again,) = grad(tk.sum(y), x)
    np.testing.assert_array_equal(again.numpy(), plain.numpy())
    assert tk.random.get_state() == state


@pytest.mark.full
def test_an_interrupt_at_any_place_of_a_recomputation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda info: None)  # of those in the callback of a weak reference

    def inner(x: Any) -> Any:
        return tk.exp(tk.sin(x) * tk.random.uniform(x.shape, dtype=tk.float64))

    x = leaf()
    y = tk.sum(checkpoint(lambda x: checkpoint(inner, x), x))
    (expected,) = grad(y, x, retain_graph=True)
    found: list[Any] = []

    def run() -> None:
        found.extend(grad(y, x, retain_graph=True))

    before, state = contextvars.copy_context(), tk.random.get_state()
    number, place = 0, None
    while number == 0 or place is not None:
        number += 3  # every third place, in half a minute
        place = interrupted(run, number)
        assert changed_variables(before) == {}, place
        assert not recomputation._waits, place
        assert tk.random.get_state() == state, place
        run()
        np.testing.assert_array_equal(found[-1].numpy(), expected.numpy())
    assert number > 100
