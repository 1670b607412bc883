"""Pinned memory, and copies that are not waited for."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device.driver import OutOfMemoryError
from tenkey.backends.cuda.device.streams import Stream
from tenkey.backends.cuda.memory import pinned
from tests.backends.cuda._emulated import emulated, on_device


def start(x: tk.Tensor) -> int:
    return int(x.numpy().__array_interface__["data"][0])


def test_pinned_tensors_and_their_views() -> None:
    with emulated():
        x = tk.arange(12.0)
        assert not x.is_pinned()
        p = x.pin_memory()
        assert p.is_pinned()
        assert p.tolist() == x.tolist()
        assert p.pin_memory() is p
        assert p[3:].is_pinned()
        assert tk.reshape(p, (3, 4)).T.is_pinned()
        assert tk.asarray(p.numpy()).is_pinned()
        assert not (p + 1).is_pinned()
        assert not p.clone().is_pinned()
        with pytest.raises(RuntimeError, match=r"\[pin_memory\] the tensor is on cuda"):
            p.to("cuda").pin_memory()
        assert not p.to("cuda").is_pinned()
        empty = tk.zeros((0, 3)).pin_memory()
        assert empty.shape == (0, 3)
        assert tk.tensor(2.5).pin_memory().item() == 2.5


def test_backends_without_pinned_memory_say_so() -> None:
    with pytest.raises(NotImplementedError, match=r"\[pin_memory\] the backend of 'cpu' has no pinned memory"):
        tk.ones(2).pin_memory("cpu")


def test_pinning_is_part_of_the_graph() -> None:
    with emulated():
        x = tk.tensor([1.0, 2.0], requires_grad=True)
        y = (x.pin_memory().to("cuda", non_blocking=True) * 3).sum()
        y.backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]


def test_a_copy_from_pinned_memory_is_not_waited_for() -> None:
    with emulated(deferred=True) as emulator:
        p = tk.arange(1000.0).pin_memory()
        emulator.reset_counts()
        x = p.to("cuda", non_blocking=True)
        assert emulator.counts.host_to_device == 1
        assert emulator.counts.synchronisations == emulator.counts.implicit_synchronisations == 0
        q = p.to("cuda")
        assert emulator.counts.synchronisations > 0
        np.testing.assert_array_equal(x.cpu().numpy(), np.arange(1000))
        np.testing.assert_array_equal(q.cpu().numpy(), np.arange(1000))


def test_a_copy_to_the_host_is_not_waited_for() -> None:
    with emulated(deferred=True) as emulator:
        x = on_device(np.arange(1000))
        emulator.reset_counts()
        y = x.to("cpu", non_blocking=True)
        assert emulator.counts.synchronisations == emulator.counts.implicit_synchronisations == 0
        assert y.is_pinned()
        tk.cuda.current_stream().synchronize()
        np.testing.assert_array_equal(y.numpy(), np.arange(1000))
        strided = on_device(np.arange(6).reshape(2, 3)).T.to("cpu", non_blocking=True)
        tk.cuda.synchronize()
        assert strided.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_ordinary_memory_may_change_after_a_copy_that_is_not_waited_for() -> None:
    with emulated(deferred=True):
        for n in (10, 100_000):  # staged, and waited for
            values = np.arange(n, dtype=np.float32)
            x = tk.asarray(values).to("cuda", non_blocking=True)
            values[:] = -1
            np.testing.assert_array_equal(x.cpu().numpy(), np.arange(n))


def test_memory_is_used_again_after_its_copies() -> None:
    with emulated(deferred=True) as emulator:
        pinned.HOST_POOL.empty()
        p = tk.full(1000, 1.0).pin_memory()
        first = start(p)
        x = p.to("cuda", non_blocking=True)
        del p
        emulator.reset_counts()
        q = tk.full(1000, 2.0).pin_memory()
        assert start(q) != first, "the copy has not read it yet"
        tk.cuda.synchronize()
        del q
        gc.collect()
        r, s = tk.full(1000, 3.0).pin_memory(), tk.full(1000, 4.0).pin_memory()
        assert first in (start(r), start(s))
        assert emulator.counts.pinned_allocations <= 1
        assert set(x.tolist()) == {1.0}


def test_a_copy_in_another_stream_is_waited_for_too() -> None:
    with emulated(deferred=True):
        side = Stream()
        p = tk.full(1000, 1.0).pin_memory()
        first = start(p)
        with side:
            x = p.to("cuda", non_blocking=True)
        del p
        tk.cuda.current_stream().synchronize()
        q = tk.full(1000, 2.0).pin_memory()
        assert start(q) != first
        side.synchronize()
        assert set(x.tolist()) == {1.0}


def test_statistics_and_emptying() -> None:
    with emulated() as emulator:
        pinned.HOST_POOL.empty()
        before = tk.cuda.host_memory_stats()
        p = tk.zeros(1000).pin_memory()
        now = tk.cuda.host_memory_stats()
        assert now["active_bytes.current"] - before["active_bytes.current"] == 4000
        assert now["active_requests.current"] - before["active_requests.current"] == 1
        assert now["allocated_bytes.current"] - before["allocated_bytes.current"] >= 4000
        del p
        emulator.reset_counts()
        pinned.HOST_POOL.empty()
        assert emulator.counts.pinned_frees >= 1
        assert tk.cuda.host_memory_stats()["active_bytes.current"] == before["active_bytes.current"]


def test_lack_of_pinned_memory_is_an_error() -> None:
    with emulated() as emulator:
        pinned.HOST_POOL.empty()
        emulator.fail_next("cuMemHostAlloc", 2, times=2)
        with pytest.raises(OutOfMemoryError):
            tk.zeros(1000).pin_memory()
        assert tk.zeros(1000).pin_memory().is_pinned()


def test_threads() -> None:
    with emulated():
        failures: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for i in range(60):
                    p = tk.full(10 + i, float(number)).pin_memory()
                    assert set(p.to("cuda", non_blocking=True).tolist()) == {float(number)}
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
