"""Private pools: memory that serves graphs alone."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device.driver import CudaError
from tenkey.backends.cuda.device.graphs import Recording
from tenkey.backends.cuda.device.streams import Stream
from tenkey.backends.cuda.memory.allocator import PrivatePool, active_pool
from tenkey.backends.cuda.memory.device_memory import POOLS
from tests.backends.cuda._emulated import emulated, on_device


def address(x: tk.Tensor) -> int:
    return int(x.array.buffer.address)


def test_memory_of_a_pool_serves_nothing_else() -> None:
    with emulated():
        pool = PrivatePool()
        before = on_device(np.zeros(1000))
        taken = address(before)
        del before
        with pool.active():
            assert active_pool() is pool
            x = tk.empty(1000, device="cuda")
            assert address(x) != taken, "memory of others was taken"
            private = address(x)
            del x
            again = tk.empty(1000, device="cuda")
            assert address(again) == private
            del again
        assert active_pool() is None
        others = [tk.empty(1000, device="cuda") for _ in range(600)]
        assert private not in map(address, others)
        with pool.active():
            assert address(tk.empty(1000, device="cuda")) == private
        assert {s["segment_pool_id"] for s in tk.cuda.memory_snapshot()} == {(0, 0), pool.id}


def test_a_pool_keeps_its_segments_until_it_is_released() -> None:
    with emulated() as emulator:
        before = emulator.held()[1]
        pool = PrivatePool()
        pool.hold()
        with pool.active():
            x = tk.empty(1000, device="cuda")
        address_of_x = address(x)
        del x
        tk.cuda.empty_cache()
        assert emulator.held()[1] - before == 2 << 20
        pool.release()
        tk.cuda.empty_cache()
        assert emulator.held()[1] - before == 2 << 20
        with pool.active():
            y = tk.empty(1000, device="cuda")
            assert address(y) == address_of_x
        pool.release()
        tk.cuda.empty_cache()
        assert emulator.held()[1] - before == 2 << 20, "a tensor still uses it"
        del y
        tk.cuda.empty_cache()
        assert emulator.held()[1] == before


def test_pools_of_threads_are_their_own() -> None:
    import threading

    with emulated():
        pool = PrivatePool()
        seen: list[object] = []
        with pool.active():
            thread = threading.Thread(target=lambda: seen.append(active_pool()))
            thread.start()
            thread.join()
        assert seen == [None]


class TestCapture:
    def test_memory_is_allocated_during_a_capture(self) -> None:
        with emulated():
            on_device([1.0])
            recording = Recording()
            stream = Stream()
            with recording.of(stream):
                large = tk.empty(30 << 20, dtype=tk.uint8, device="cuda")  # a segment of the driver
                small = [tk.empty(1000, device="cuda") for _ in range(3)]
            assert large.array.buffer.segment.arena.pool is recording.pool
            assert len({address(x) for x in small}) == 3

    def test_events_and_frees_wait_for_its_end(self) -> None:
        with emulated(deferred=True) as emulator:
            side = Stream()
            x = on_device(np.zeros(1000))
            first = address(x)
            x.device.backend.record_stream(x.array.buffer, side)
            recording = Recording()
            calls = emulator.calls("cuEventRecord"), emulator.calls("cuEventQuery"), emulator.calls("cuMemFree*")
            with recording.of(Stream()):
                del x
                y = tk.empty(1000, device="cuda")
                with pytest.raises(CudaError, match="graph is being captured"):
                    tk.cuda.empty_cache()
                now = emulator.calls("cuEventRecord"), emulator.calls("cuEventQuery"), emulator.calls("cuMemFree*")
                assert now == calls
            tk.cuda.synchronize()
            tk.empty(1, device="cuda")
            tk.cuda.synchronize()
            z = [tk.empty(1000, device="cuda") for _ in range(2)]
            assert first in map(address, z)
            del y

    def test_replays_find_their_memory(self) -> None:
        with emulated(deferred=True):
            w = on_device(np.arange(1000))

            @tk.cuda.graph
            def step(x: tk.Tensor) -> tk.Tensor:
                return ((x * w) + 1).sum()

            wanted = float(np.arange(1000).sum())
            noise = []
            for i in range(5):
                assert step(on_device(np.full(1000, i))).item() == pytest.approx(i * wanted + 1000)
                noise.append(on_device(np.full(1000, -1)) * 2)
                tk.cuda.empty_cache()

    def test_a_graph_that_is_gone_frees_its_memory(self) -> None:
        with emulated() as emulator:
            on_device([1.0])
            before = emulator.held()[1]
            w = on_device(np.zeros(3 << 20))

            @tk.cuda.graph
            def step(x: tk.Tensor) -> tk.Tensor:
                return x * w + 1

            for _ in range(3):
                step(w)
            assert any(s["segment_pool_id"] != (0, 0) for s in tk.cuda.memory_snapshot())
            del step, w
            tk.cuda.empty_cache()
            assert all(s["segment_pool_id"] == (0, 0) for s in tk.cuda.memory_snapshot())
            assert emulator.held()[1] - before <= 2 << 20
            assert POOLS.of(0).stats()["allocation.all.current"] <= 2
