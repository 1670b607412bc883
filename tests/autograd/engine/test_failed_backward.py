"""A backward that fails half-way: no gradient that has arrived is added a second time (Note [Failed backward])."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import Function, grad
from tenkey.autograd.engine import reentrant
from tenkey.autograd.graph import get_gradient_edge, queue_callback
from tests._interrupts import interrupted
from tests._tiers import only_full, tier
from tests.autograd._calls import Calls
from tests.autograd.engine.test_workers import Lab

AGAIN = "Trying to backward through the graph a second time after an earlier backward through it failed"


def leaf(*values: float, device: str = "cpu") -> Tensor:
    return tk.tensor(values, dtype=tk.float64, device=device).requires_grad_()


def values(x: Tensor) -> Any:
    return None if x.grad is None else x.grad.to("cpu").tolist()


class Once:
    """A hook that raises when it is called for the first time."""

    def __init__(self, error: type[BaseException] = ValueError) -> None:
        self.error = error
        self.calls = 0

    def __call__(self, *args: Any) -> None:
        self.calls += 1
        if self.calls == 1:
            raise self.error("once")


def failed(error: type[BaseException] = ValueError, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return leaves a and b, h = b + a and its sum, whose backward has failed after the gradient of b arrived."""
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = b + a
    a.register_hook(Once(error))
    y = tk.sum(h)
    with pytest.raises(error, match="once"):
        y.backward(**options)
    assert (values(a), values(b)) == (None, [1.0, 1.0])
    return a, b, h, y


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("retain_graph", [None, True])
@pytest.mark.parametrize("watched", [contextlib.nullcontext, tk.autograd.anomaly_mode, tk.autograd.profile])
def test_a_second_backward_is_refused_until_the_gradients_are_reset(
    error: type[BaseException], retain_graph: bool | None, watched: Callable[[], Any]
) -> None:
    with watched():
        a, b, _, y = failed(error, retain_graph=retain_graph)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=rf"\[SumBackward\] {AGAIN}.*\(x.grad = None\), or"):
                y.backward(retain_graph=retain_graph)
            assert (values(a), values(b)) == (None, [1.0, 1.0])
        b.grad = None
        y.backward(retain_graph=retain_graph)
    assert (values(a), values(b)) == ([1.0, 1.0], [1.0, 1.0])
    y.backward()  # as ever after a backward that succeeded
    assert (values(a), values(b)) == ([2.0, 2.0], [2.0, 2.0])


def test_a_gradient_that_was_there_before() -> None:
    a, b = leaf(1.0), leaf(2.0)
    tk.sum(b * 5.0).backward()
    before = b.grad
    a.register_hook(Once())
    y = tk.sum(b + a)
    with pytest.raises(ValueError, match="once"):
        y.backward()
    assert b.grad is before
    assert values(b) == [6.0]
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()
    b.grad = tk.asarray([5.0], dtype=tk.float64)
    y.backward()
    assert (values(a), values(b)) == ([1.0], [6.0])


def test_where_nothing_has_arrived_nothing_is_refused() -> None:
    a, b = leaf(1.0), leaf(2.0)
    h = b * 3.0 + a
    a.register_hook(Once())  # before the multiplication has run
    y = tk.sum(h)
    with pytest.raises(ValueError, match="once"):
        y.backward()
    y.backward()
    assert (values(a), values(b)) == ([1.0], [3.0])


def test_a_leaf_without_a_gradient_does_not_count() -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0], None

    a, b = leaf(1.0), leaf(2.0)
    a.register_hook(Once())
    y = First.apply(a, b)
    with pytest.raises(ValueError, match="once"):
        y.backward()
    y.backward()
    assert (values(a), values(b)) == ([1.0], None)


def test_other_ways_to_the_same_leaf() -> None:
    a, b, h, y = failed()
    with pytest.raises(RuntimeError, match=rf"\[AddBackward\] {AGAIN}"):
        h.backward(tk.ones(2, dtype=tk.float64))
    with pytest.raises(RuntimeError, match=rf"\[AddBackward\] {AGAIN}"):
        tk.sum(h * 2.0).backward()  # a new graph on top
    with pytest.raises(RuntimeError, match=rf"\[SumBackward\] {AGAIN}"):
        y.backward(inputs=[a, b])
    with pytest.raises(RuntimeError, match=rf"\[SumBackward\] {AGAIN}"):
        tk.autograd.backward([get_gradient_edge(y)])
    assert (values(a), values(b)) == (None, [1.0, 1.0])
    assert [g.tolist() for g in grad(y, [a, b])] == [[1.0, 1.0]] * 2  # it adds nothing
    y.backward(inputs=[a])  # it does not reach b
    assert (values(a), values(b)) == ([1.0, 1.0], [1.0, 1.0])
    tk.sum(b * 2.0).backward()  # not through the graph that failed
    assert values(b) == [3.0, 3.0]


def test_nodes_on_no_path_to_the_gradient_are_free() -> None:
    a, b = leaf(1.0), leaf(2.0)
    trunk = a * 3.0
    a.register_hook(Once())
    with pytest.raises(ValueError, match="once"):
        tk.sum(b + trunk).backward()
    tk.sum(trunk * 2.0).backward()
    assert (values(a), values(b)) == ([6.0], [1.0])


def test_failures_add_up() -> None:
    a, b, _, y = failed(retain_graph=True)
    a.register_post_accumulate_grad_hook(Once())
    with pytest.raises(ValueError, match="once"):
        y.backward(inputs=[a], retain_graph=True)
    assert (values(a), values(b)) == ([1.0, 1.0], [1.0, 1.0])
    for x in (a, b):
        with pytest.raises(RuntimeError, match=AGAIN):
            y.backward(retain_graph=True)
        x.grad = None
    y.backward()
    assert (values(a), values(b)) == ([1.0, 1.0], [1.0, 1.0])


def test_an_optimizer_in_backward_does_not_step_twice() -> None:
    a, b = leaf(1.0), leaf(2.0)

    def step(x: Tensor) -> None:
        with tk.no_grad():
            x.subtract_(x.grad)
        x.grad = None

    b.register_post_accumulate_grad_hook(step)
    a.register_hook(Once())
    y = tk.sum(b + a)
    with pytest.raises(ValueError, match="once"):
        y.backward()
    b.grad = None
    with pytest.raises(RuntimeError, match=rf"{AGAIN}.*\(x.grad = None\) and compute the result again"):
        y.backward()
    assert b.tolist() == [1.0]


@pytest.mark.parametrize("way", ["retain_grad", "inputs"])
def test_gradients_of_tensors_that_are_not_leaves(way: str) -> None:
    a = leaf(1.0)
    inner = a * 2.0
    other = a * 3.0
    options: dict[str, Any] = {}
    once = Once()
    y = tk.sum(inner + other)
    if way == "retain_grad":
        inner.retain_grad()
        a.register_hook(once)
    else:
        options = {"inputs": [inner, other]}
        other.grad = tk.zeros(1, dtype=tk.float64)

    class RefusesToAdd(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            if "add" in str(op) and options:  # to the gradient of ``other``
                once()
            return NotImplemented

    with pytest.raises(ValueError, match="once"), RefusesToAdd():
        y.backward(**options)
    assert values(inner) == [1.0]
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward(**options)
    assert values(inner) == [1.0]
    inner.grad = None
    y.backward(**options)
    assert values(inner) == [1.0]


@pytest.mark.parametrize("deeper", [False, True])
def test_a_backward_inside_of_it(deeper: bool) -> None:
    w, a = leaf(1.0), leaf(1.0)

    def inner(g: Tensor) -> None:
        with tk.enable_grad():
            loss = Calls.apply(tk.sum(w * 2.0), lambda g: None)
        if deeper:
            x = leaf(1.0)
            with tk.enable_grad():
                z = Calls.apply(x, lambda g: loss.backward())
            grad(z, x)
        else:
            loss.backward()

    first = Calls.apply(a, lambda g: None)
    a.register_hook(Once())
    y = Calls.apply(first, inner)
    with pytest.raises(ValueError, match="once"):
        y.backward()
    assert values(w) == [2.0]
    with pytest.raises(RuntimeError, match=rf"{AGAIN}.*and compute the result again"):
        y.backward()


def test_an_error_at_the_end() -> None:
    a = leaf(1.0)
    once = Once()
    a.register_hook(lambda g: queue_callback(once))
    y = a * 2.0
    with pytest.raises(ValueError, match="once"):
        y.backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()
    assert values(a) == [2.0]


def test_a_failure_keeps_nothing_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        a, b, h, y = failed()
        gradient, node, tensor = weakref.ref(b.grad), weakref.ref(h.grad_fn), weakref.ref(b)
        b.grad = None
        assert gradient() is None
        del b
        assert tensor() is None
        y.backward()  # the leaf that had its gradient is gone
        assert values(a) == [1.0, 1.0]
        del h, y
        assert node() is None
    finally:
        gc.enable()


def test_a_deep_graph() -> None:
    a, b = leaf(1.0), leaf(1.0)
    y = b + a
    for _ in range(20_000):
        y = y + 1.0
    a.register_hook(Once())
    with pytest.raises(ValueError, match="once"):
        y.backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()
    b.grad = None
    y.backward()
    assert (values(a), values(b)) == ([1.0], [1.0])


class TestWorkers:
    def test_an_error_on_one_device(self) -> None:
        arrived = threading.Event()

        class Waits(Once):
            def __call__(self, *args: Any) -> None:
                assert arrived.wait(30)
                super().__call__(*args)

        with tk.backends.register(Lab()):
            a, b = leaf(1.0, device="lab:0"), leaf(2.0, device="lab:1")
            a.register_hook(Waits())
            b.register_post_accumulate_grad_hook(lambda x: arrived.set())
            y = tk.sum(a.to("cpu") + b.to("cpu"))
            with pytest.raises(ValueError, match="once"):
                y.backward()
            assert (values(a), values(b)) == (None, [1.0])
            with pytest.raises(RuntimeError, match=AGAIN):
                y.backward()
            b.grad = None
            y.backward()
            assert (values(a), values(b)) == ([1.0], [1.0])

    @pytest.mark.parametrize("where", ["worker", "helper"])
    def test_an_interrupt_while_another_thread_adds(self, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reentrant, "_is_deep", lambda: where == "helper")
        started, go_on, done = threading.Event(), threading.Event(), threading.Event()

        def slow(g: Tensor) -> None:
            started.set()
            go_on.wait(30)

        def interrupt() -> None:
            started.wait(30)
            os.kill(os.getpid(), signal.SIGINT)

        with tk.backends.register(Lab()):
            a = leaf(1.0, device="lab" if where == "worker" else "cpu")
            a.register_hook(slow)
            a.register_post_accumulate_grad_hook(lambda x: done.set())
            y = tk.sum(a + 1.0)
            outer = y if where == "worker" else Calls.apply(leaf(1.0), lambda g: y.backward())
            thread = threading.Thread(target=interrupt)
            handler = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                thread.start()
                with pytest.raises(KeyboardInterrupt):
                    outer.backward()
                thread.join()
            finally:
                signal.signal(signal.SIGINT, handler)
            assert values(a) is None
            go_on.set()
            assert done.wait(30)  # the other thread was about to add the gradient
            for result in (y, outer):
                with pytest.raises(RuntimeError, match=AGAIN):
                    result.backward()
            assert values(a) == [1.0]


@pytest.mark.wider
@pytest.mark.parametrize("device", ["cpu", "lab"])
@pytest.mark.parametrize("way", only_full(["plain", "inputs", "nested"], fast=["plain"]))
def test_an_interrupt_at_any_place(device: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda info: None)  # of those in the callback of a weak reference
    outcomes: set[str] = set()
    number, place = 0, None
    with tk.backends.register(Lab()):
        while number == 0 or place is not None:
            number += tier(3, 1 if way == "plain" else 3)  # the ways share most places
            a, b = leaf(1.0, device=device), leaf(1.0, device=device)
            b.register_post_accumulate_grad_hook(lambda x: None)
            h = tk.sum((b + a).to("cpu") * 2.0 + 1.0)
            again = functools.partial(h.backward, retain_graph=True)
            y = Calls.apply(h, again) if way == "nested" else h + 0.0
            tensors = [a, b, h] if way == "inputs" else [a, b]
            expected: Any = [[4.0 if way == "nested" else 2.0]] * 2 + ([1.0] if way == "inputs" else [])
            complete: list[bool] = []

            def run(y: Tensor = y, tensors: Any = tensors, complete: list[bool] = complete) -> None:
                if way == "inputs":
                    y.backward(inputs=tensors)  # not through a C function, where the interrupt can come at its return
                else:
                    y.backward()
                complete.append(True)

            place = interrupted(run, number)
            tk.sum(leaf(1.0, device=device) * 1.0).backward()  # a worker that was interrupted in a node has left it now
            before = [values(x) for x in tensors]
            if place is not None and place.function == "_backward" and not place.begins:
                complete.append(before == expected)  # at the return of the engine, if that is compiled
            if any(complete):
                assert before == expected, place
                continue
            try:
                y.backward(inputs=tensors if way == "inputs" else None)
            except RuntimeError as error:
                outcomes.add(str(error).partition("] ")[2].partition(", which")[0])
                expected = before
            else:
                outcomes.add("accepted")
            assert [values(x) for x in tensors] == expected, place
    assert outcomes == {AGAIN, "accepted"}
    assert number > 50
