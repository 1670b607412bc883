"""Note [Locks of autograd]: code of users that runs where a lock could be held finds all locks free or its own."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import tensor_attributes
from tenkey.autograd.engine import device_threads
from tenkey.autograd.graph import register_multi_grad_hook
from tenkey.autograd.tape.node import Hooks
from tests.autograd.engine.test_workers import Calls, FakeStream, Lab, leaf, values


def ends(function: Callable[[], Any]) -> Any:
    """Return the result of a function, called in a thread; fail if it does not end."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return results[0]


def interrupted_by(function: Callable[[], Any], place: str, finalizer: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that calls ``finalizer`` where the function named ``place`` begins, as the collector might."""

    def at(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == place:
            sys.setprofile(None)
            reached.append(place)
            with tk.enable_grad():
                finalizer()

    reached: list[str] = []

    def run() -> Any:
        sys.setprofile(at)
        try:
            return function()
        finally:
            sys.setprofile(None)
            assert reached

    return run


def test_a_backend_that_computes_with_a_leaf_when_it_is_asked_for_its_stream() -> None:
    class Computes(Lab):
        asked = 0

        def current_stream(self, device: int = 0) -> FakeStream:
            if threading.current_thread() is not threading.main_thread() and not self.asked:
                self.asked += 1
                x = tk.ones(1).requires_grad_()
                (x * 2.0).sum().backward()
            return super().current_stream(device)

    with tk.backends.register(Computes()):
        x = leaf([1.0])

        def use() -> Any:
            (x * 3.0).sum().backward()
            return values(x.grad)

        assert ends(use) == [3.0]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_a_finalizer_in_a_hook_on_several_gradients(mode: Any) -> None:
    a, b = leaf([1.0], "cpu"), leaf([2.0], "cpu")
    calls: list[Any] = []
    register_multi_grad_hook([a, b], lambda grads: calls.append(grads), mode=mode)

    def run() -> None:
        (a * 2.0 + b * 3.0).sum().backward()

    ends(interrupted_by(run, "_notes", run))
    assert len(calls) == 2
    assert (values(a.grad), values(b.grad)) == ([4.0], [6.0])


def test_a_finalizer_where_a_change_is_noted() -> None:
    def change() -> Any:
        x = tk.ones(2)
        x.add_(1.0)
        return x.tolist()

    def run() -> Any:
        with tk.autograd.anomaly_mode():
            return change()

    assert ends(interrupted_by(run, "_take", change)) == [2.0, 2.0]


def test_a_finalizer_where_a_worker_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_threads, "_queues", {})
    with tk.backends.register(Lab()):
        x, y = leaf([1.0]), leaf([1.0])

        def backward(x: Tensor) -> Any:
            (x * 2.0).sum().backward()
            return values(x.grad)

        assert ends(interrupted_by(lambda: backward(x), "start", lambda: backward(y))) == [2.0]
        assert values(y.grad) == [2.0]


def test_a_mode_that_runs_backward_on_another_device_where_gradients_are_summed() -> None:
    """The worker of that device has a node of the outer backward, whose results it delivers before it goes on."""
    inside, go_on = threading.Event(), threading.Event()

    class RunsBackward(tk.dispatch.DispatchMode):
        runs = 0

        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            if str(op) == "tk::add" and not self.runs:
                self.runs += 1
                assert inside.wait(30)
                go_on.set()
                with tk.enable_grad():
                    inner = (other * 2.0).sum()
                inner.backward()
            return NotImplemented

    def wait(g: Tensor) -> None:
        inside.set()
        assert go_on.wait(30)

    with tk.backends.register(Lab()):
        x, z, other = leaf([1.0], "cpu"), leaf([1.0], "lab:1"), leaf([1.0], "lab:1")
        h = x * 1.0
        first, second = h.to("lab:0") * 2.0, h.to("lab:0") * 3.0
        total = (first + second).to("cpu") + Calls.apply(z, wait).to("cpu")

        def run() -> Any:
            with RunsBackward() as mode:
                total.sum().backward()
            return mode.runs

        assert ends(run) == 1
        assert (values(x.grad), values(z.grad), values(other.grad)) == ([5.0], [1.0], [2.0])


def test_no_hook_is_lost_that_another_thread_registers_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowHooks(Hooks):
        def __init__(self) -> None:
            time.sleep(0.05)  # the other thread comes here too, unless it waits

    monkeypatch.setattr(tensor_attributes, "Hooks", SlowHooks)
    x = leaf([1.0], "cpu")
    y = x * 2.0
    seen: list[str] = []
    ways: list[Callable[[], Any]] = [
        lambda: x.register_hook(lambda g: seen.append("leaf")),
        lambda: y.register_hook(lambda g: seen.append("result")),
        lambda: x.register_post_accumulate_grad_hook(lambda x: seen.append("accumulated")),
    ]
    for way in ways:
        threads = [threading.Thread(target=way) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    y.sum().backward()
    assert seen == ["result"] * 2 + ["leaf"] * 2 + ["accumulated"] * 2
