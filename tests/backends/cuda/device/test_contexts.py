"""Devices, contexts and what the current one is."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

import pytest

import tenkey as tk
from tenkey.backends.cuda.device import contexts
from tenkey.backends.cuda.device.driver import cu
from tests.backends.cuda._emulated import emulated


def current() -> int:
    return int(cu.cuCtxGetCurrent())


def test_entering_restores_the_previous_context() -> None:
    with emulated(devices=3):
        first, second, third = [contexts.context_of(device) for device in range(3)]
        assert len({first, second, third}) == 3
        cu.cuCtxSetCurrent(first)
        with contexts.enter(1):
            assert current() == second
            with contexts.enter(2):
                assert current() == third
            assert current() == second
            with contexts.enter(1):
                assert current() == second
        assert current() == first
        with pytest.raises(KeyError), contexts.enter(2):
            raise KeyError
        assert current() == first


def test_a_new_thread_gets_a_context() -> None:
    with emulated(devices=2):
        seen = []

        def work() -> None:
            seen.append(current())
            with contexts.enter(1):
                seen.append(current())
            seen.append(current())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [0, contexts.context_of(1), contexts.context_of(1)]


WORK: dict[str, Callable[[tk.Tensor], tk.Tensor]] = {
    "a kernel": lambda x: x * 1,
    "a copy": lambda x: tk.conj(x),
    "a copy to another layout": lambda x: x.reshape((2, 2)).T.reshape((4,)).reshape((2, 2)).T.reshape((4,)),
    "a copy from the host": lambda x: tk.asarray([0.0, 1.0, 2.0, 3.0], dtype=tk.float32, device=x.device),
    "a copy from another device": lambda x: x.to_device("cuda:0").to_device("cuda:1"),
    "numbers": lambda x: tk.zeros(4, device=x.device) + x,
    "an event": lambda x: tk.cuda.current_stream(1).record_event().synchronize() or x,
    "a stream": lambda x: tk.cuda.Stream(1).synchronize() or x,
}


@pytest.mark.parametrize("other", [False, True], ids=["without a context", "in the context of another device"])
def test_each_kind_of_work_finds_the_context_of_its_device(other: bool) -> None:
    """As a first call, in a thread that has no context or another one: a copy by the driver takes the current one."""
    found: dict[str, list[float]] = {}
    with emulated(devices=2):
        x = tk.arange(4, dtype=tk.float32, device="cuda:1")
        x.tolist()

        def work(name: str) -> None:
            if other:
                cu.cuCtxSetCurrent(contexts.context_of(0))
            made = WORK[name](x)
            if other:
                assert current() == contexts.context_of(0)
            found[name] = made.tolist()

        for name in WORK:
            thread = threading.Thread(target=work, args=(name,))
            thread.start()
            thread.join()
    assert found == {name: [0.0, 1.0, 2.0, 3.0] for name in WORK}


def test_the_chosen_device_belongs_to_the_task() -> None:
    with emulated(devices=2):

        def task() -> int:
            contexts.choose(1)
            return contexts.current_device()

        assert contextvars.copy_context().run(task) == 1
        assert contexts.current_device() == 0
        contexts.choose(1)
        assert contexts.current_device() == 1
        contexts.choose(0)
        with pytest.raises(ValueError, match=r"\[cuda\] device 2 does not exist: there are 2"):
            contexts.choose(2)


def test_properties() -> None:
    with emulated(cc=(8, 0), memory=1 << 30):
        found = contexts.properties()
        assert (found.major, found.minor, found.warp_size, found.total_memory) == (8, 0, 32, 1 << 30)
        assert found.name
        assert found.max_threads_per_block == 1024
        assert contexts.attribute("WARP_SIZE") == 32


def test_another_driver_is_not_mixed_up_with_the_first() -> None:
    forgotten: list[int] = []

    def note() -> None:
        forgotten.append(1)

    contexts.forgetters.append(note)
    try:
        with emulated(devices=2):
            assert contexts.device_count() == 2
            assert tk.ones(2, device="cuda:1").tolist() == [1, 1]
        assert forgotten
        with emulated(devices=1):
            assert contexts.device_count() == 1
            with pytest.raises(ValueError, match="cuda"):
                tk.ones(2, device="cuda:1")
            assert tk.ones(2, device="cuda").tolist() == [1, 1]
    finally:
        contexts.forgetters.remove(note)
