"""Streams and events: what is current, order between streams, reuse of handles."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device import contexts, launching, streams
from tenkey.backends.cuda.device.driver import CudaError
from tenkey.backends.cuda.device.streams import Event, ExternalStream, Stream, current_stream, default_stream
from tests.backends.cuda.device._kernels import ADD, Memory

X = np.arange(100, dtype=np.float32)
SEEDS = range(8)


class TestCurrent:
    def test_a_with_block_nests_and_restores(self, emulator: Any) -> None:
        first, second = Stream(), Stream()
        assert current_stream() is default_stream()
        with first:
            assert current_stream() is first
            with second:
                assert current_stream() is second
                with first:
                    assert current_stream() is first
            assert current_stream() is first
        assert current_stream() is default_stream()
        with pytest.raises(ZeroDivisionError), first:
            1 / 0  # noqa: B018
        assert current_stream() is default_stream()

    def test_a_stream_makes_its_device_current(self, start: Any) -> None:
        start(devices=2)
        stream = Stream(1)
        with stream:
            assert contexts.current_device() == 1
            assert current_stream() is stream
            assert current_stream(0) is default_stream(0)
            assert tk.ones(2, device="cuda").device == "cuda:1"
        assert contexts.current_device() == 0
        assert current_stream(1) is default_stream(1)

    def test_a_thread_begins_with_the_default_stream(self, emulator: Any) -> None:
        found: list[Stream] = []
        with Stream():
            thread = threading.Thread(target=lambda: found.append(current_stream()))
            thread.start()
            thread.join()
        assert found == [default_stream()]

    def test_tasks_have_their_own(self, emulator: Any) -> None:
        async def task(stream: Stream) -> bool:
            with stream:
                await asyncio.sleep(0)
                return current_stream() is stream

        async def run() -> list[bool]:
            return await asyncio.gather(*[task(Stream()) for _ in range(3)])

        assert asyncio.run(run()) == [True] * 3
        assert current_stream() is default_stream()

    def test_one_stream_in_several_threads(self, emulator: Any) -> None:
        stream, wrong = Stream(), []
        barrier = threading.Barrier(3)

        def work() -> None:
            with stream:
                barrier.wait()
                if current_stream() is not stream:
                    wrong.append(1)
            if current_stream() is not default_stream():
                wrong.append(2)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_devices_and_their_names(self, start: Any) -> None:
        start(devices=2)
        assert [Stream(d).device for d in (None, 1, "cuda:1", "cuda", tk.device("cuda:1"))] == [0, 1, 1, 0, 1]
        with pytest.raises(ValueError, match="device 2 does not exist: there are 2"):
            Stream(2)
        with pytest.raises(ValueError, match="got the device 'cpu'"):
            Stream("cpu")


def pipeline(right: bool) -> np.ndarray:
    """Compute in one stream what another one uses; ``right``: with the order that this needs."""
    kernel = launching.kernel(ADD)
    first, second = Stream(), Stream()
    a, b, c = (Memory(np.zeros_like(X)) for _ in range(3))
    x = Memory(X)
    kernel(1, 128, 100, a.address, x.address, 1.0, stream=first)
    kernel(1, 128, 100, b.address, a.address, 1.0, stream=first)
    if right:
        second.wait_event(first.record_event())
    kernel(1, 128, 100, c.address, b.address, 1.0, stream=second)
    return c.read(second)


class TestOrder:
    def test_an_event_orders_two_streams(self, start: Any) -> None:
        for seed in SEEDS:
            emulator = start(deferred=True, seed=seed)
            np.testing.assert_array_equal(pipeline(right=True), X + 3)
            emulator.stop()

    def test_without_the_event_the_order_is_lost(self, start: Any) -> None:
        """The test above can fail."""
        wrong = 0
        for seed in SEEDS:
            emulator = start(deferred=True, seed=seed)
            wrong += not np.array_equal(pipeline(right=False), X + 3)
            emulator.stop()
        assert wrong > 0

    def test_tensors_in_two_streams(self, start: Any) -> None:
        for seed in SEEDS:
            emulator = start(deferred=True, seed=seed)
            main, side = current_stream(), Stream()
            x = tk.asarray(X, device="cuda") * 2
            side.wait_stream(main)
            with side:
                y = x * 10
                for _ in range(5):
                    y = y + 1
            x.device.backend.record_stream(x._data.buffer, side)
            main.wait_stream(side)
            x.device.backend.record_stream(y._data.buffer, main)
            z = y + 1
            del x, y
            np.testing.assert_array_equal(z.numpy(), X * 20 + 6)
            del z
            emulator.stop()

    def test_events_of_another_device(self, start: Any) -> None:
        for seed in SEEDS:
            emulator = start(devices=2, deferred=True, seed=seed)
            a = tk.asarray(X, device="cuda:0") + 1
            b = a.to_device("cuda:1") * 2
            c = b.to_device("cuda:0") + a
            np.testing.assert_array_equal(c.numpy(), 3 * (X + 1))
            del a, b, c
            emulator.stop()

    def test_query_and_wait(self, start: Any) -> None:
        start(deferred=True)
        stream, kernel = Stream(), launching.kernel(ADD)
        x = Memory(X)
        assert stream.query()
        kernel(1, 128, 100, x.address, x.address, 1.0, stream=stream)
        event = stream.record_event()
        assert not event.query()
        assert not stream.query()
        event.synchronize()
        assert event.query()
        assert stream.query()
        np.testing.assert_array_equal(x.read(stream), X + 1)


class TestEvents:
    def test_elapsed_time(self, emulator: Any) -> None:
        begin, end = Event(enable_timing=True), Event(enable_timing=True)
        with pytest.raises(RuntimeError, match=r"not recorded yet: call record\(\)"):
            begin.elapsed_time(end)
        begin.record()
        end.record()
        end.synchronize()
        assert begin.elapsed_time(end) >= 0
        with pytest.raises(ValueError, match="enable_timing=True"):
            begin.elapsed_time(current_stream().record_event())

    def test_elapsed_time_of_unfinished_work(self, start: Any) -> None:
        start(deferred=True)
        begin, end = Event(enable_timing=True), Event(enable_timing=True)
        begin.record()
        end.record()
        with pytest.raises(RuntimeError, match=r"call end.synchronize\(\) first"):
            begin.elapsed_time(end)

    def test_an_event_that_was_not_recorded_is_done(self, emulator: Any) -> None:
        event = Event()
        assert event.query()
        event.synchronize()
        event.wait()
        current_stream().wait_event(event)

    def test_an_event_belongs_to_one_device(self, start: Any) -> None:
        start(devices=2)
        event = Event()
        event.record(default_stream(1))
        assert event.device == 1
        with pytest.raises(ValueError, match="create an event for each device"):
            event.record(default_stream(0))

    def test_events_of_the_backend_have_times(self, emulator: Any) -> None:
        backend = tk.ones(1, device="cuda").device.backend
        begin, end = backend.event(), backend.event()
        begin.record()
        end.record()
        end.synchronize()
        assert begin.elapsed_time(end) >= 0


class TestHandles:
    def test_handles_are_used_again(self, emulator: Any) -> None:
        stream = Stream()
        handle = stream.handle
        event = stream.record_event()
        number = event.handle
        del event
        assert stream.record_event().handle == number
        del stream
        gc.collect()
        assert Stream().handle == handle

    def test_finalizers_call_nothing(self, emulator: Any) -> None:
        stream = Stream()
        events = [stream.record_event() for _ in range(3)]
        before = emulator.calls("cu*")
        del stream, events
        gc.collect()
        assert emulator.calls("cu*") == before

    def test_an_external_stream(self, emulator: Any) -> None:
        own = Stream()
        other = ExternalStream(own.handle)
        assert other == own
        assert hash(other) == hash(own)
        with other:
            x = tk.ones(3, device="cuda") + 1
        other.synchronize()
        assert x.tolist() == [2.0] * 3
        del other
        gc.collect()
        assert Stream().handle != own.handle
        assert own.__cuda_stream__() == (0, own.cuda_stream)

    def test_another_driver_takes_the_place(self, start: Any) -> None:
        first = start()
        old = Stream()
        first.stop()
        start()
        del old
        gc.collect()
        new = Stream()
        x = tk.ones(3, device="cuda")
        new.wait_stream(current_stream())
        with new:
            assert (x + 1).tolist() == [2.0] * 3

    def test_priority(self, emulator: Any) -> None:
        low, high = Stream(), Stream(priority=-1)
        assert (low.priority, high.priority) == (0, -1)
        handle = high.handle
        del high
        gc.collect()
        assert Stream().handle != handle
        assert Stream(priority=-1).handle == handle


def test_errors_of_the_driver_are_raised(emulator: Any) -> None:
    stream = Stream()
    emulator.fail_next("cuStreamSynchronize", 719)
    with pytest.raises(CudaError, match="719"):
        stream.synchronize()
    emulator.fail_next("cuEventRecord*", 400)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_HANDLE"):
        stream.record_event()
    emulator.fail_next("cuStreamQuery", 700)
    with pytest.raises(CudaError, match="ILLEGAL_ADDRESS"):
        stream.query()
    stream.synchronize()


def test_synchronize_waits_for_all_streams(start: Any) -> None:
    emulator = start(deferred=True)
    kernel, made = launching.kernel(ADD), [Stream() for _ in range(3)]
    memory = [Memory(X) for _ in made]
    for stream, x in zip(made, memory):
        kernel(1, 128, 100, x.address, x.address, 1.0, stream=stream)
    before = emulator.counts.synchronisations
    streams.synchronize(0)
    assert emulator.counts.synchronisations == before + 1
    assert all(stream.query() for stream in made)
