"""Note [Interrupts of backward]: interrupts at every line and at every instruction of the engine."""

from __future__ import annotations

import contextlib
import contextvars
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import engine
from tenkey.autograd.engine import reentrant
from tenkey.autograd.engine.graph_task import current_task
from tenkey.autograd.graph import register_multi_grad_hook
from tenkey.core.compiled.loading import extension
from tests._interrupts import Place, Tracer, changed_variables, stacks, watchdog
from tests._tiers import only_full, tier
from tests.autograd._calls import Calls
from tests.autograd.engine.test_workers import Lab

FOLDER = str(Path(str(engine.__file__)).parent)


@pytest.fixture(autouse=True)
def _lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "unraisablehook", lambda info: None)  # of interrupts in callbacks of weak references
    gc.collect()
    gc.disable()
    try:
        with tk.backends.register(Lab()):
            yield
    finally:
        gc.enable()


def leaf(device: str = "cpu") -> Tensor:
    return tk.tensor([1.0], dtype=tk.float64, device=device).requires_grad_()


def values(x: Tensor) -> Any:
    return None if x.grad is None else x.grad.to("cpu").tolist()


class Case:
    """A backward, the tensors that it adds gradients to, and the gradients."""

    def __init__(self, tensors: list[Tensor], run: Callable[[], Any], expected: list[Any]) -> None:
        self.tensors = tensors
        self.run = run
        self.expected = expected
        self.error: type[BaseException] | None = None  # of the backward without an interrupt
        self.finish: Callable[[], Any] = lambda: None  # waits for what else was running


def on(*devices: str) -> Case:
    """A leaf on each device, used twice."""
    leaves = [leaf(device) for device in devices]
    y = tk.sum(sum((x.to("cpu") * 2.0 + x.to("cpu") for x in leaves), tk.zeros(1, dtype=tk.float64)))
    return Case(leaves, y.backward, [[3.0]] * len(leaves))


def into_inputs() -> Case:
    a, b = leaf(), leaf("lab")
    inner = a * 2.0 + b.to("cpu")
    y = tk.sum(inner * 3.0)
    return Case([a, b, inner], lambda: y.backward(inputs=[a, b, inner]), [[6.0], [3.0], [3.0]])


def inside(device: str) -> Case:
    """A backward in a backward."""
    a, b = leaf(device), leaf("lab:1")
    inner = tk.sum(b * 2.0)
    y = Calls.apply(a * 2.0, lambda g: inner.backward())
    return Case([a, b], lambda: tk.sum(y).backward(), [[2.0], [2.0]])


def with_hooks() -> Case:
    a, b = leaf(), leaf("lab")
    seen: list[Any] = []
    register_multi_grad_hook([a, b], lambda grads: seen.append(len(grads)))
    h = a * 2.0
    h.retain_grad()
    a.register_hook(lambda g: g * 2.0)
    b.register_post_accumulate_grad_hook(lambda x: None)
    y = tk.sum(h + b.to("cpu"))
    return Case([a, b, h], y.backward, [[4.0], [1.0], [1.0]])


def fails(device: str) -> Case:
    """A hook raises, after the gradient of the other leaf has arrived."""
    a, b = leaf(device), leaf()
    y = tk.sum(b + (a * 1.0).to("cpu"))
    case = Case([a, b], y.backward, [[1.0], [1.0]])
    case.error = ValueError

    def fail(g: Tensor) -> None:
        if case.error is not None:
            raise case.error

    a.register_hook(fail)
    return case


def at_once() -> Case:
    """Another thread runs a backward through the same devices at the same time."""
    other, results = on("lab", "lab:1"), []
    case = on("lab", "lab:1", "cpu")

    def work() -> None:
        for _ in range(3):
            other.run()
            results.append([values(x) for x in other.tensors])
            for x in other.tensors:
                x.grad = None

    thread = threading.Thread(target=contextvars.Context().run, args=(work,), daemon=True)
    thread.start()

    def finish() -> None:
        thread.join()
        assert results == [other.expected] * 3

    case.finish = finish
    return case


def recomputes() -> Case:
    a, b = leaf("lab"), leaf()
    y = tk.autograd.checkpoint(lambda a, b: a.to("cpu") * b * b, a, b, use_reentrant=False)
    return Case([a, b], lambda: tk.sum(y).backward(), [[1.0], [2.0]])


LINES = {"execute", "_run"} | ({"_loop"} if extension is None else set())  # the compiled loop has no lines to trace
CASES: dict[str, Callable[[], Case]] = {
    "cpu": lambda: on("cpu", "cpu"),
    "devices": lambda: on("lab", "lab:1", "cpu"),
    "inputs": into_inputs,
    "inside": lambda: inside("cpu"),
    "inside of a helper": lambda: inside("cpu"),
    "inside of a worker": lambda: inside("lab"),
    "hooks": with_hooks,
    "fails": lambda: fails("cpu"),
    "fails on a device": lambda: fails("lab"),
    "at once": at_once,
    "recomputes": recomputes,
}


def check(case: Case, place: Place | None, is_complete: bool) -> None:
    """Check what an interrupted backward left: nothing is added twice, and others are not disturbed."""
    case.finish()
    other = on("lab", "lab:1")
    other.run()  # what is left in the queues of workers comes first
    assert [values(x) for x in other.tensors] == other.expected, place
    before = [values(x) for x in case.tensors]
    if is_complete:
        assert before == case.expected, place
        return
    expected = before
    with contextlib.suppress(RuntimeError):  # refused
        case.run()
        expected = case.expected
    assert [values(x) for x in case.tensors] == expected, place


def sweep(make: Callable[[], Case], event: str, share: int = 1) -> set[str]:
    """Interrupt a backward at one place after another; return the functions that were interrupted."""
    functions: set[str] = set()
    known: set[Any] = set()
    while True:
        tracer = Tracer(FOLDER, event, known, share, current_task.get)
        with watchdog(lambda tracer=tracer: (tracer.place, tracer.stack)):  # type: ignore[misc]
            place = once(make(), tracer)
        if place is None:
            return functions
        functions.add(place.function)


def once(case: Case, tracer: Tracer) -> Place | None:
    """Interrupt a backward at one place, and check what it leaves."""
    complete: list[bool] = []

    def run() -> None:
        with contextlib.nullcontext() if case.error is None else pytest.raises(case.error):
            case.run()
        complete.append(case.error is None)

    found = contextvars.copy_context()
    place = tracer.interrupts(run)
    assert changed_variables(found) == {}, (place, tracer.stack)
    case.error = None
    if place is not None and place.function in _LAST and tracer.noted is None:
        complete.append([values(x) for x in case.tensors] == case.expected)
    check(case, place, any(complete))
    return place


_LAST = ("execute", "_backward_into", "backward")  # where only the return can follow when the backward is over


@pytest.mark.parametrize("name", only_full(list(CASES), ["devices"]))
def test_an_interrupt_before_any_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reentrant, "_is_deep", lambda: name == "inside of a helper")
    assert sweep(CASES[name], "line") >= LINES


@pytest.mark.full
@pytest.mark.parametrize("name", list(CASES))
def test_an_interrupt_before_any_instruction(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reentrant, "_is_deep", lambda: name == "inside of a helper")
    share = 1 if name in ("devices", "fails") else 5  # the others have most instructions in common with these
    assert sweep(CASES[name], "opcode", share) >= LINES


@pytest.mark.wider
@pytest.mark.parametrize("event", only_full(["line", "opcode"], ["line"]))
@pytest.mark.parametrize("thread", only_full(["worker", "helper"], ["worker"]))
def test_an_exception_in_another_thread(thread: str, event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the backward that the thread works for; the thread goes on, or another one takes its place."""
    monkeypatch.setattr(reentrant, "_is_deep", lambda: thread == "helper")
    functions: set[str] = set()
    known: set[Any] = set()

    def run(tracer: Tracer) -> None:
        a, b = leaf("lab" if thread == "worker" else "cpu"), leaf("lab:1")
        inner = tk.sum(Calls.apply(a * 2.0, lambda g: tracer.install()).to("cpu") * b.to("cpu"))
        y = inner if thread == "worker" else Calls.apply(leaf(), lambda g: inner.backward())
        try:
            y.backward()
        except (KeyboardInterrupt, RuntimeError):
            assert tracer.place is not None
        else:
            assert (values(a), values(b)) == ([2.0], [2.0]), tracer.place

    while True:
        tracer = Tracer(FOLDER, event, known, tier(3, 1), current_task.get)
        with watchdog(lambda tracer=tracer: (tracer.place, tracer.stack)):  # type: ignore[misc]
            for _ in range(2):  # the end of the first is seen in the second
                run(tracer)
            tracer.is_on = False
            for _ in range(2):  # a worker may have been about to end
                with contextlib.suppress(KeyboardInterrupt):
                    on("lab", "lab:1").run()
            case = on("lab", "lab:1")
            case.run()
            assert [values(x) for x in case.tensors] == case.expected, tracer.place
        if tracer.place is None:
            break
        functions.add(tracer.place.function)
    assert functions >= ({"_work", "_process", "step"} if thread == "worker" else {"_call", "_run", "step"})


def signals(make: Callable[[], Case], rounds: int) -> int:
    """Interrupt backwards by a timer; return how many were interrupted."""
    rng, interrupted = random.Random(0), 0
    calls: list[None] = []

    def handler(*arguments: Any) -> None:
        calls.append(None)
        raise KeyboardInterrupt if len(calls) == 1 else AssertionError(f"no end:\n{stacks()}")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        longest = 1.0
        for _ in range(rounds):
            case = make()
            calls.clear()
            found = contextvars.copy_context()
            start = time.perf_counter()
            try:  # the exception comes once in a round, perhaps when the call has just returned
                try:
                    signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, longest), 60.0)
                    case.run()
                    longest = time.perf_counter() - start
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert changed_variables(found) == {}
            with watchdog(lambda: "the check"):
                check(case, None, [values(x) for x in case.tensors] == case.expected)
    finally:
        signal.signal(signal.SIGALRM, before)
    return interrupted


@pytest.mark.wider
@pytest.mark.parametrize("name", only_full(["devices", "inside", "inside of a helper", "at once"], ["devices"]))
def test_signals_at_any_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals come where Python looks for them, also if the engine is compiled."""
    monkeypatch.setattr(reentrant, "_is_deep", lambda: name == "inside of a helper")
    assert signals(CASES[name], tier(40, 1000)) > 0
