"""Memory under deferred work in adversarial order: what is right stays right, and each planted defect is found.

The emulator does queued work as late as it may, in orders that a device may show, and overwrites memory that is freed.
A defect is found if a program computes a wrong result in at least one of its repetitions, or if the driver reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.allocation.cached_buffers import Pool
from tenkey.backends.cuda.device.contexts import context_of, enter
from tenkey.backends.cuda.device.driver import CudaError, cu
from tenkey.backends.cuda.device.streams import Stream, current_stream
from tenkey.backends.cuda.memory import pinned, transfers
from tenkey.backends.cuda.memory.allocator import DeviceAllocator
from tenkey.backends.cuda.memory.memory_exchange import CudaExchange
from tenkey.core.exchange import capsules
from tests.backends.cuda._emulated import emulated, on_device

TIMES = 5
Program = Callable[[int], bool]
PROGRAMS: dict[str, Program] = {}
DEFECTS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def defect(of: Program) -> Callable[[Callable[[pytest.MonkeyPatch], None]], None]:
    def note(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
        DEFECTS[plant.__name__] = (of.__name__, plant)

    return note


def filled(number: float, size: int = 1000) -> tk.Tensor:
    return on_device(np.full(size, number))


def all_equal(x: tk.Tensor, number: float) -> bool:
    return set(np.asarray(x.cpu()).tolist()) == {number}


# ---- programs that are right


@program
def memory_used_in_two_streams(i: int) -> bool:
    """A temporary value of the main stream is read in a side stream, and its memory is then wanted again."""
    main, side = current_stream(), Stream()
    x = filled(i) + 1
    side.wait_stream(main)
    with side:
        y = x * 2
    x.device.backend.record_stream(x.array.buffer, side)
    del x
    later = [filled(-7) for _ in range(4)]
    main.wait_stream(side)
    return all_equal(y, 2.0 * (i + 1)) and all(all_equal(z, -7) for z in later)


@program
def memory_of_a_side_stream(i: int) -> bool:
    """A value that was made in a side stream is read in the main stream, and the side stream goes on."""
    main, side = current_stream(), Stream()
    with side:
        x = filled(i) * 3
    main.wait_stream(side)
    y = x + 1
    x.device.backend.record_stream(x.array.buffer, main)
    del x
    with side:
        z = filled(50) * 2
        good = all_equal(z, 100)
    return all_equal(y, 3.0 * i + 1) and good


@program
def pinned_memory_that_is_dropped_at_once(i: int) -> bool:
    p = tk.full(1000, float(i)).pin_memory()
    x = p.to("cuda", non_blocking=True)
    del p
    q = tk.full(1000, -1.0).pin_memory()
    good = all_equal(x, float(i))
    del q
    return good


@program
def many_small_copies_from_the_host(i: int) -> bool:
    tensors = [tk.asarray(np.full(100, 10 * i + k, np.float32), device="cuda") for k in range(10)]
    return all(all_equal(x, 10.0 * i + k) for k, x in enumerate(tensors))


@program
def more_small_copies_than_a_chunk_holds(i: int) -> bool:
    tensors = [tk.asarray(np.full(10_000, 40 * i + k, np.float32), device="cuda") for k in range(40)]
    return all(all_equal(x, 40.0 * i + k) for k, x in enumerate(tensors))


@program
def a_large_array_that_changes(i: int) -> bool:
    values = np.full(50_000, i, np.float32)
    x = tk.asarray(values, device="cuda")
    values[:] = -1
    return all_equal(x, i)


@program
def a_copy_to_the_host_that_is_waited_for(i: int) -> bool:
    y = (filled(i) * 2).to("cpu", non_blocking=True)
    current_stream().synchronize()
    return all_equal(y, 2.0 * i)


@program
def a_copy_to_the_host_and_its_source(i: int) -> bool:
    """The source of a copy that is not waited for is dropped, and its memory used again."""
    y = (filled(i) * 2).to("cpu", non_blocking=True)
    z = filled(-3)
    tk.cuda.synchronize()
    return all_equal(y, 2.0 * i) and all_equal(z, -3)


@program
def a_copy_between_devices(i: int) -> bool:
    x = filled(i) * 2
    y = x.to("cuda:1")
    del x
    z = filled(-4)
    return all_equal(y + 1, 2.0 * i + 1) and all_equal(z, -4)


@program
def a_copy_into_memory_that_is_still_read(i: int) -> bool:
    old = on_device(np.full(1000, i), device="cuda:1")
    result = old * 5
    del old
    new = filled(9).to("cuda:1")
    return all_equal(result, 5.0 * i) and all_equal(new, 9)


@program
def memory_that_another_library_reads(i: int) -> bool:
    theirs = Stream()
    x = filled(i) * 2
    taken = capsules.Taken(x.__dlpack__(stream=theirs.handle))
    with theirs:
        copy = tk.empty(1000, device="cuda")
        current = taken.array.data
        cu.cuMemcpyDtoDAsync(copy.array.buffer.address, current, 4000, theirs.handle)
        theirs.synchronize()
        return all_equal(copy, 2.0 * i)


@program
def memory_that_is_freed_while_it_is_used(i: int) -> bool:
    x = on_device(np.full(4 << 20, i))
    y = x * 2
    del x
    tk.cuda.empty_cache()
    z = on_device(np.full(4 << 20, -1))
    return all_equal(y[::4096], 2.0 * i) and all_equal(z[::4096], -1)


# ---- what is planted


@defect(memory_used_in_two_streams)
def no_record_of_other_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeviceAllocator, "record", lambda self, block, stream: None)


@defect(memory_used_in_two_streams)
def no_wait_for_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "wait_stream", lambda self, stream: None)


@defect(memory_used_in_two_streams)
def events_of_blocks_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def pass_all(self: DeviceAllocator) -> None:
        while self._pending:
            self._free(self._pending.popleft()[0])

    monkeypatch.setattr(DeviceAllocator, "_ask_events", pass_all)


@defect(memory_of_a_side_stream)
def memory_of_all_streams_in_one_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = DeviceAllocator.take
    monkeypatch.setattr(DeviceAllocator, "take", lambda self, nbytes, stream: plain(self, nbytes, 0))
    monkeypatch.setattr(DeviceAllocator, "record", lambda self, block, stream: None)


@defect(pinned_memory_that_is_dropped_at_once)
def pinned_memory_without_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned.HOST_POOL, "record", lambda block, stream: None)


@defect(pinned_memory_that_is_dropped_at_once)
def pinned_events_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Pool._sort

    def sort(self: Pool) -> None:
        self._users.clear()
        plain(self)

    monkeypatch.setattr(pinned._PinnedPool, "_sort", sort)


@defect(many_small_copies_from_the_host)
def staging_memory_is_used_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = transfers._Staging.reserve

    def reserve(self: transfers._Staging, nbytes: int) -> int:
        self._next = 0
        return plain(self, nbytes)

    monkeypatch.setattr(transfers._Staging, "reserve", reserve)


@defect(more_small_copies_than_a_chunk_holds)
def chunks_are_used_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned.HOST_POOL, "record", lambda block, stream: None)


@defect(a_copy_to_the_host_that_is_waited_for)
def no_wait_for_a_copy_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stream, "synchronize", lambda self: None)


@defect(a_copy_between_devices)
def copies_between_devices_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def between(target: Any, source: Any, nbytes: int) -> None:
        stream = Stream(source.device)
        with enter(source.device):
            cu.cuMemcpyPeerAsync(
                target.address, context_of(target.device), source.address,
                context_of(source.device), nbytes, stream.handle,
            )  # fmt: skip

    monkeypatch.setattr(transfers, "between", between)


@defect(a_copy_into_memory_that_is_still_read)
def copies_between_devices_do_not_wait_for_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    def between(target: Any, source: Any, nbytes: int) -> None:
        stream, other = current_stream(source.device), current_stream(target.device)
        with enter(source.device):
            cu.cuMemcpyPeerAsync(
                target.address, context_of(target.device), source.address,
                context_of(source.device), nbytes, stream.handle,
            )  # fmt: skip
        other.wait_event(stream.record_event())

    monkeypatch.setattr(transfers, "between", between)


@defect(memory_that_another_library_reads)
def consumers_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaExchange, "release", lambda self, device, stream: None)


@defect(memory_that_is_freed_while_it_is_used)
def memory_is_freed_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def release(self: DeviceAllocator, *, wait: bool) -> None:
        for arena in self._arenas.values():
            for segment in arena.unused():
                with enter(self.device):
                    cu.cuMemFreeAsync(segment.address, Stream(self.device).handle)

    monkeypatch.setattr(DeviceAllocator, "_release", release)


# ---- the tests


def wrong_results(name: str, plant: Callable[[pytest.MonkeyPatch], None] | None = None) -> int:
    """Run a program several times, and count the wrong results."""
    wrong = 0
    for i in range(TIMES):
        with pytest.MonkeyPatch.context() as monkeypatch:
            emulator = emulated(devices=2, deferred=True, seed=i)
            try:
                if plant is not None:
                    plant(monkeypatch)
                for k in range(3):
                    try:
                        wrong += not PROGRAMS[name](3 * i + k + 1)
                    except CudaError:
                        if plant is None:
                            raise
                        wrong += 1
                        emulator.clear_error()
            finally:
                monkeypatch.undo()
                emulator.finish()
                emulator.clear_error()
                emulator.stop()
    return wrong


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right(name: str) -> None:
    assert wrong_results(name) == 0


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(name: str) -> None:
    of, plant = DEFECTS[name]
    assert wrong_results(of, plant) > 0, f"the defect {name} was not found"
