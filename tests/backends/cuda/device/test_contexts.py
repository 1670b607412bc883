"""Devices, contexts and what the current one is."""

from __future__ import annotations

import contextvars
import threading

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


def test_the_chosen_device_belongs_to_the_task() -> None:
    with emulated(devices=2):

        def task() -> int:
            contexts.choose(1)
            return contexts.current_device()

        assert contextvars.copy_context().run(task) == 1
        assert contexts.current_device() == 0
        token = contexts.choose(1)
        contexts.restore(token)
        assert contexts.current_device() == 0
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
