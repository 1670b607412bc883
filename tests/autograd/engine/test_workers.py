"""Backward on the threads of accelerators: where nodes run, streams, errors, reentrant and concurrent backward."""

from __future__ import annotations

import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad
from tenkey.autograd.graph import queue_callback
from tests._backends import Host
from tests.autograd._calls import Calls


class FakeStream(tk.backends.Stream):
    """A queue that notes what is asked of it."""

    def __init__(self, backend: Lab, device: int, name: str) -> None:
        super().__init__(backend, device)
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def record_event(self) -> Any:
        event = (self.name, len(self.log))
        self.log.append(("record", self.name))
        return event

    def wait_event(self, event: Any) -> None:
        self.log.append(("wait", self.name, event[0]))

    @property
    def log(self) -> list[Any]:
        backend: Any = self.backend
        return backend.log  # type: ignore[no-any-return]

    def __enter__(self) -> FakeStream:
        backend: Any = self.backend
        self._outer = backend.current(self.device)
        backend.local.__dict__[self.device] = self
        return self

    def __exit__(self, *error: object) -> None:
        backend: Any = self.backend
        backend.local.__dict__[self.device] = self._outer


class Lab(Host):
    """Two devices in host memory, with streams that only note what they are asked."""

    name = "lab"

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self.local = threading.local()
        self.default = [FakeStream(self, i, f"default {i}") for i in range(2)]

    def device_count(self) -> int:
        return 2

    def current(self, device: int) -> FakeStream:
        return self.local.__dict__.get(device, self.default[device])  # type: ignore[no-any-return]

    def current_stream(self, device: int = 0) -> FakeStream:
        return self.current(device)

    def record_stream(self, buffer: Any, stream: Any) -> None:
        self.log.append(("in use", stream.name))


@pytest.fixture
def lab() -> Iterator[Lab]:
    backend = Lab()
    with tk.backends.register(backend):
        yield backend


def leaf(values: Any, device: str = "lab") -> Tensor:
    return tk.tensor(values, dtype=tk.float64, device=device).requires_grad_()


def where(log: list[str]) -> Any:
    return lambda g: log.append(threading.current_thread().name)


def values(x: Tensor | None) -> Any:
    assert x is not None
    return x.to("cpu").tolist()


class TestThreads:
    def test_nodes_run_on_the_thread_of_their_device(self, lab: Lab) -> None:
        log: list[str] = []
        x = leaf([1.0, 2.0], "cpu")
        on_cpu = Calls.apply(x, where(log))
        first = Calls.apply(on_cpu.to("lab:0"), where(log))
        second = Calls.apply(first.to("cpu").to("lab:1") * 2.0, where(log))
        back = Calls.apply(second.to("cpu"), where(log))
        back.sum().backward()
        here = threading.current_thread().name
        assert log == [here, "tenkey-backward-lab:1", "tenkey-backward-lab", here]
        assert values(x.grad) == [2.0, 2.0]

    def test_accumulation_and_hooks_are_where_the_leaf_is(self, lab: Lab) -> None:
        log: list[str] = []
        x = leaf([1.0, 2.0])
        x.register_hook(where(log))
        x.register_post_accumulate_grad_hook(where(log))
        (x * x).sum().backward()
        assert log == ["tenkey-backward-lab"] * 2
        assert values(x.grad) == [2.0, 4.0]

    def test_gradients_of_every_way_to_ask(self, lab: Lab) -> None:
        x, w = leaf([1.0, 2.0]), leaf([3.0], "cpu")
        y = x * x
        z = (y.to("cpu") * w).sum()
        dy, dw = grad(z, [y, w], retain_graph=True)
        assert (values(dy), values(dw), str(dy.device)) == ([3.0, 3.0], [5.0], "lab")
        z.backward(inputs=[x], retain_graph=True)
        assert values(x.grad) == [6.0, 12.0]
        assert w.grad is None
        (first,) = grad(z, x, create_graph=True)
        (second,) = grad(first.sum(), x)
        assert values(second) == [6.0, 6.0]

    def test_a_gradient_on_another_device_is_refused(self, lab: Lab) -> None:
        x = leaf([1.0, 2.0])
        y = Calls.apply(x, lambda g: g.to("lab:1"))
        with pytest.raises(RuntimeError, match=r"\[CallsBackward\].*index 0 - expected device lab but got lab:1"):
            y.sum().backward()
        number = leaf(2.0)
        Calls.apply(number, lambda g: g.to("cpu")).backward()  # one number is taken there
        assert number.grad is not None
        assert (values(number.grad), str(number.grad.device)) == (1.0, "lab")

    def test_the_context_of_the_caller_is_inherited(self, lab: Lab) -> None:
        variable = contextvars.ContextVar("variable", default="none")
        seen: list[Any] = []
        x = leaf([1.0])
        y = Calls.apply(x, lambda g: seen.append((variable.get(), tk.is_grad_enabled())))
        token = variable.set("mine")
        try:
            y.backward(tk.ones(1, dtype=tk.float64, device="lab"), retain_graph=True)
            y.backward(tk.ones(1, dtype=tk.float64, device="lab"), create_graph=True)
        finally:
            variable.reset(token)
        assert seen == [("mine", False), ("mine", True)]

    def test_callbacks_run_on_the_thread_that_called(self, lab: Lab) -> None:
        log: list[str] = []
        x = leaf([1.0])
        Calls.apply(x, lambda g: queue_callback(lambda: log.append(threading.current_thread().name))).sum().backward()
        assert log == [threading.current_thread().name]

    def test_two_devices_work_at_the_same_time(self, lab: Lab) -> None:
        both = threading.Barrier(2, timeout=30)

        def meet(g: Tensor) -> None:
            both.wait()

        x, y = leaf([1.0], "lab:0"), leaf([1.0], "lab:1")
        total = Calls.apply(x, meet).to("cpu") + Calls.apply(y, meet).to("cpu")
        total.sum().backward()
        assert values(x.grad) == values(y.grad) == [1.0]

    def test_nothing_is_kept(self, lab: Lab) -> None:
        gc.collect()
        gc.disable()
        try:
            x = leaf([1.0])
            y = Calls.apply(x * 2.0, lambda g: None).to("cpu").sum()
            watched = weakref.ref(y.grad_fn)
            y.backward()
            del y
            for _ in range(100):  # the worker lets go of the last slot a moment later
                if watched() is None:
                    break
                time.sleep(0.01)
            assert watched() is None
        finally:
            gc.enable()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
    def test_a_child_process_gets_workers_of_its_own(self, lab: Lab) -> None:
        x = leaf([1.0])
        (x * 2.0).sum().backward()
        child = os.fork()
        if child == 0:
            try:
                x.grad = None
                (x * 3.0).sum().backward()
                os._exit(0 if values(x.grad) == [3.0] else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_without_fork(self) -> None:
        program = "import os; vars(os).pop('register_at_fork', None); import tenkey as tk\n"
        program += "x = tk.tensor([1.0, 1.0], requires_grad=True); x.sum().backward(); print(x.grad.tolist())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("[1.0, 1.0]\n", "")


class TestErrors:
    @pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
    def test_an_error_in_a_worker_arrives_with_type_and_traceback(self, lab: Lab, kind: type[BaseException]) -> None:
        def fail(g: Tensor) -> None:
            if armed:
                raise kind("on the device")

        armed = True
        x = leaf([1.0])
        y = Calls.apply(x, fail).to("cpu").sum()
        with pytest.raises(kind, match="on the device") as caught:
            y.backward(retain_graph=True)
        assert caught.traceback[-1].name == "fail"
        assert tk.is_grad_enabled()
        assert x.grad is None
        armed = False
        y.backward()
        assert values(x.grad) == [1.0]

    def test_the_first_error_stops_the_rest(self, lab: Lab) -> None:
        log: list[str] = []

        def fail(g: Tensor) -> None:
            raise ValueError("first")

        x = leaf([1.0])
        below = Calls.apply(x, where(log))
        y = below + Calls.apply(x, where(log)) + Calls.apply(below, fail)
        with pytest.raises(ValueError, match="first"):
            y.sum().backward()
        assert log == []
        assert x.grad is None

    def test_an_interrupt_of_the_thread_that_waits(self, lab: Lab) -> None:
        started = threading.Event()
        go_on = threading.Event()
        log: list[str] = []

        def slow(g: Tensor) -> None:
            started.set()
            go_on.wait(30)

        x = leaf([1.0])
        y = Calls.apply(Calls.apply(x, where(log)), slow).sum()

        def interrupt() -> None:
            started.wait(30)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever earlier tests left there
        try:
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                y.backward()
            thread.join()
        finally:
            signal.signal(signal.SIGINT, handler)
        go_on.set()
        (x * 3.0).sum().backward()  # the worker goes on with what it had, and then with this
        assert values(x.grad) == [3.0]
        assert log == []
        assert tk.is_grad_enabled()


class TestInterrupts:
    """Python sees a signal where a function begins, and when the call of a C function has returned."""

    @pytest.mark.parametrize("device", ["cpu", "lab"])
    def test_an_interrupt_at_any_place(self, lab: Lab, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
        lost: list[type] = []  # those in the callback of a weak reference
        monkeypatch.setattr(sys, "unraisablehook", lambda info: lost.append(info.exc_type))

        def graph() -> tuple[Tensor, Tensor]:
            x = leaf([1.0], device)
            y = tk.autograd.checkpoint(lambda a: a * a, x, use_reentrant=False)
            return x, Calls.apply(y, lambda g: time.sleep(0.001)).to("cpu").sum()

        def after() -> None:
            x, y = graph()
            y.backward()
            done.append(values(x.grad))

        def interrupt(frame: Any, event: str, function: Any) -> None:
            nonlocal steps
            if event in ("call", "c_return"):
                steps += 1
                if steps > place:
                    raise KeyboardInterrupt(f"{frame.f_code.co_name} {event} {function}")

        place, steps = -1, 0
        while place < steps:  # else the last interrupt came too late
            place, steps = place + 1, 0
            _, y = graph()
            try:
                sys.setprofile(interrupt)
                y.backward()
            except KeyboardInterrupt as error:
                at = str(error)
            else:
                at = "none"
                assert steps <= place or lost
            finally:
                sys.setprofile(None)
            assert tk.is_grad_enabled(), at
            with pytest.raises(RuntimeError, match="only be installed during backward"):
                queue_callback(print)
            done: list[Any] = []
            thread = threading.Thread(target=contextvars.copy_context().run, args=(after,), daemon=True)
            thread.start()
            thread.join(30)
            assert done == [[2.0]], at
        assert place > 50


class TestReentrant:
    def test_a_worker_calls_backward(self, lab: Lab) -> None:
        log: list[str] = []

        def inner(g: Tensor) -> Tensor:
            u = leaf([2.0])
            with tk.enable_grad():
                v = Calls.apply(u * u, where(log)).to("cpu")
                w = Calls.apply(v, where(log)).sum()
            w.backward()
            return g * u.grad

        x = leaf([1.0])
        Calls.apply(x, inner).sum().backward()
        assert values(x.grad) == [4.0]
        assert log == ["tenkey-backward-lab"] * 2  # what belongs to the CPU runs on the thread that called

    def test_many_levels(self, lab: Lab) -> None:
        def nested(levels: int) -> Any:
            def function(g: Tensor) -> Tensor:
                if not levels:
                    return g * 3.0
                u = leaf([1.0], f"lab:{levels % 2}")
                with tk.enable_grad():
                    v = Calls.apply(u, nested(levels - 1)).sum()
                v.backward()
                assert u.grad is not None
                return u.grad.to(g.device) * g

            return function

        x = leaf([1.0])
        Calls.apply(x, nested(200)).sum().backward()
        assert values(x.grad) == [3.0]

    def test_workers_that_wait_for_each_other(self, lab: Lab) -> None:
        both = threading.Barrier(2, timeout=30)

        def ask(other: str) -> Any:
            def function(g: Tensor) -> Tensor:
                both.wait()
                u = leaf([5.0], other)
                with tk.enable_grad():
                    v = (u * u).sum()
                v.backward()
                assert u.grad is not None
                return g * u.grad.to(g.device)

            return function

        x, y = leaf([1.0], "lab:0"), leaf([1.0], "lab:1")
        total = Calls.apply(x, ask("lab:1")).to("cpu") + Calls.apply(y, ask("lab:0")).to("cpu")
        total.sum().backward()
        assert values(x.grad) == values(y.grad) == [10.0]


class TestConcurrent:
    def test_many_threads_over_one_graph_and_their_own(self, lab: Lab) -> None:
        shared = leaf(np.zeros(4))
        graph = (shared * 3.0).to("cpu").sum()
        errors: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(10):
                    graph.backward(retain_graph=True)
                    (shared * 2.0).sum().backward()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert values(shared.grad) == [200.0] * 4


class TestStreams:
    def test_a_node_runs_in_the_stream_of_its_forward(self, lab: Lab) -> None:
        seen: list[str] = []
        side = FakeStream(lab, 0, "side")
        x = leaf([1.0])
        with side:
            y = Calls.apply(x, lambda g: seen.append(lab.current(0).name))
        z = Calls.apply(y, lambda g: seen.append(lab.current(0).name))
        z.sum().backward()
        assert seen == ["default 0", "side"]

    def test_streams_wait_where_a_gradient_goes_from_one_to_another(self, lab: Lab) -> None:
        side = FakeStream(lab, 0, "side")
        x = leaf([1.0])
        _ = x * 1.0  # a leaf is of the stream in which it was used first
        with side:
            y = x * 2.0
        z = y.sum()
        lab.log.clear()
        z.backward()
        assert lab.log[:3] == [("record", "default 0"), ("wait", "side", "default 0"), ("in use", "side")]
        # the leaf is of the default stream, and so is the caller: it waits for all that were used
        assert lab.log[3:6] == [("record", "side"), ("wait", "default 0", "side"), ("in use", "default 0")]
        assert lab.log[6:] == [("record", "side"), ("wait", "default 0", "side")]

    def test_the_streams_of_the_roots_wait_for_the_callers(self, lab: Lab) -> None:
        side, callers = FakeStream(lab, 0, "side"), FakeStream(lab, 0, "callers")
        x = leaf([1.0])
        _ = x * 1.0
        with side:
            y = x * 2.0
        with callers:
            given = tk.ones(1, dtype=tk.float64, device="lab")
            lab.log.clear()
            y.backward(given)
        assert lab.log[:3] == [("record", "callers"), ("wait", "side", "callers"), ("in use", "side")]
        assert ("wait", "callers", "side") in lab.log
        assert ("wait", "callers", "default 0") in lab.log

    def test_with_one_stream_nothing_waits(self, lab: Lab) -> None:
        x = leaf([1.0])
        y = (x * 2.0).sum()
        lab.log.clear()
        y.backward()
        assert lab.log == []
