"""Deferred work finds programs that lack an order, and accepts them when they have it.

Each defect is a program that is wrong on a device although it mostly works. It must be found in one of a few seeds: by
a wrong result, or by an error of the driver. The program with the order that was missing must be right with every seed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

import tenkey as tk
from tenkey.testing.cuda_driver import stub_building
from tests.testing.cuda_driver._driver_calls import Program, checked, driver, host_function

if stub_building.compiler() is None:
    pytest.skip("no C compiler", allow_module_level=True)

SEEDS = range(12)
N = 100
X = np.arange(1, N + 1, dtype=np.float32)
Case = Callable[[Program, bool], None]
cases: list[Case] = []


def case(function: Case) -> Case:
    cases.append(function)
    return function


def wait(p: Program, later: Any, earlier: Any) -> None:
    """Let later work of one stream wait for present work of another."""
    event = p.event(timing=False)
    checked(driver.cuEventRecord(event, earlier))
    checked(driver.cuStreamWaitEvent(later, event, 0))


def same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)


@case
def reader_before_writer(p: Program, right: bool) -> None:
    """A kernel reads in one stream what a kernel of another one writes."""
    a, b = p.stream(), p.stream()
    x, y = p.device_array(X), p.device_array(X)
    p.scale(x, 10, N, a)
    if right:
        wait(p, b, a)
    p.axpy(y, x, x, 1, N, b)
    checked(driver.cuStreamSynchronize(b))
    same(p.download(y, N), 20 * X)


@case
def writer_before_reader(p: Program, right: bool) -> None:
    """A kernel overwrites what a kernel of another stream still has to read."""
    a, b = p.stream(), p.stream()
    x, y = p.device_array(X), p.device_array(X)
    p.axpy(y, x, x, 1, N, a)
    if right:
        wait(p, b, a)
    p.scale(x, 0, N, b)
    checked(driver.cuCtxSynchronize())
    same(p.download(y, N), 2 * X)


@case
def two_writers(p: Program, right: bool) -> None:
    """Two streams write the same memory; the second one is meant to win."""
    a, b = p.stream(), p.stream()
    x = p.device_array(X)
    checked(driver.cuMemsetD32Async(x, 0, N, a))
    if right:
        wait(p, b, a)
    p.upload(x, X, b)
    checked(driver.cuCtxSynchronize())
    same(p.download(x, N), X)


@case
def event_recorded_too_early(p: Program, right: bool) -> None:
    """The event is recorded before the work that it stands for."""
    a, b = p.stream(), p.stream()
    x, y = p.device_array(X), p.device_array(X)
    event = p.event()
    if not right:
        checked(driver.cuEventRecord(event, a))
    p.scale(x, 10, N, a)
    if right:
        checked(driver.cuEventRecord(event, a))
    checked(driver.cuStreamWaitEvent(b, event, 0))
    p.axpy(y, x, x, 1, N, b)
    checked(driver.cuStreamSynchronize(b))
    same(p.download(y, N), 20 * X)


@case
def wait_before_record(p: Program, right: bool) -> None:
    """A stream waits for an event that is recorded afterwards: the wait does nothing."""
    a, b = p.stream(), p.stream()
    x, y = p.device_array(X), p.device_array(X)
    event = p.event()
    p.scale(x, 10, N, a)
    if right:
        checked(driver.cuEventRecord(event, a))
    checked(driver.cuStreamWaitEvent(b, event, 0))
    checked(driver.cuEventRecord(event, a))
    p.axpy(y, x, x, 1, N, b)
    checked(driver.cuStreamSynchronize(b))
    same(p.download(y, N), 20 * X)


@case
def pinned_memory_read_too_early(p: Program, right: bool) -> None:
    """The host reads pinned memory before the copy to it is done."""
    a = p.stream()
    x, pinned = p.device_array(X), p.pinned(N)
    pinned[:] = 0
    p.scale(x, 10, N, a)
    checked(driver.cuMemcpyDtoHAsync(pinned.ctypes.data, x, 4 * N, a))
    if right:
        checked(driver.cuStreamSynchronize(a))
    same(pinned.copy(), 10 * X)


@case
def pinned_memory_reused_too_early(p: Program, right: bool) -> None:
    """The host writes to pinned memory before the copy from it is done."""
    a = p.stream()
    x, pinned = p.allocate(N), p.pinned(N)
    pinned[:] = X
    checked(driver.cuMemcpyHtoDAsync(x, pinned.ctypes.data, 4 * N, a))
    if right:
        checked(driver.cuStreamSynchronize(a))
    pinned[:] = 0
    checked(driver.cuStreamSynchronize(a))
    same(p.download(x, N), X)


@case
def freed_in_another_stream(p: Program, right: bool) -> None:
    """Memory of a pool is freed in one stream while a kernel of another one uses it: no record_stream."""
    a, b = p.stream(), p.stream()
    x = int(checked(driver.cuMemAllocAsync(4 * N, a)))
    y = p.device_array(X)
    p.upload(x, X, a)
    wait(p, b, a)
    p.axpy(y, x, x, 1, N, b)
    if right:
        wait(p, a, b)
    checked(driver.cuMemFreeAsync(x, a))
    checked(driver.cuStreamSynchronize(a))
    checked(driver.cuStreamSynchronize(b))
    same(p.download(y, N), 2 * X)


@case
def reused_while_another_stream_reads(p: Program, right: bool) -> None:
    """Freed memory is allocated again in its stream and overwritten while another stream still reads it."""
    a, b = p.stream(), p.stream()
    x = int(checked(driver.cuMemAllocAsync(4 * N, a)))
    y = p.device_array(X)
    p.upload(x, X, a)
    wait(p, b, a)
    p.axpy(y, x, x, 1, N, b)
    if right:
        wait(p, a, b)
    checked(driver.cuMemFreeAsync(x, a))
    again = int(checked(driver.cuMemAllocAsync(4 * N, a)))
    checked(driver.cuMemsetD32Async(again, 0, N, a))
    checked(driver.cuCtxSynchronize())
    same(p.download(y, N), 2 * X)


@case
def used_before_allocated(p: Program, right: bool) -> None:
    """Memory is allocated in the order of one stream and used in another, which may come first."""
    a, b = p.stream(), p.stream()
    checked(driver.cuMemsetD32Async(p.allocate(N), 0, N, a))
    x = int(checked(driver.cuMemAllocAsync(4 * N, a)))
    if right:
        wait(p, b, a)
    p.upload(x, X, b)
    checked(driver.cuStreamSynchronize(b))
    checked(driver.cuStreamSynchronize(a))
    same(p.download(x, N), X)


@case
def used_after_free(p: Program, right: bool) -> None:
    """A kernel uses memory that was freed in the order of its own stream."""
    a = p.stream()
    x = int(checked(driver.cuMemAllocAsync(4 * N, a)))
    p.upload(x, X, a)
    if not right:
        checked(driver.cuMemFreeAsync(x, a))
    p.scale(x, 2, N, a)
    if right:
        checked(driver.cuMemFreeAsync(x, a))
    checked(driver.cuStreamSynchronize(a))


@case
def uninitialised_memory(p: Program, right: bool) -> None:
    """A kernel reads memory that was never written, which happens to be zero on many devices."""
    a = p.stream()
    x = p.allocate(N)
    checked(driver.cuMemsetD32Async(x, 0, N if right else N - 1, a))
    p.scale(x, 2, N, a)
    checked(driver.cuStreamSynchronize(a))
    same(p.download(x, N), np.zeros(N, np.float32))


@case
def default_stream_and_a_non_blocking_one(p: Program, right: bool) -> None:
    """The legacy default stream orders blocking streams only."""
    a = p.stream(blocking=right)
    x, y = p.device_array(X), p.device_array(X)
    p.scale(x, 10, N, 0)
    p.axpy(y, x, x, 1, N, a)
    checked(driver.cuStreamSynchronize(a))
    same(p.download(y, N), 20 * X)


@case
def default_stream_before_a_non_blocking_one(p: Program, right: bool) -> None:
    """The same in the other direction: a copy in the default stream does not wait for a non-blocking stream."""
    a = p.stream(blocking=right)
    x = p.device_array(X)
    p.scale(x, 10, N, a)
    same(p.download(x, N), 10 * X)  # cuMemcpyDtoH works in the default stream


@case
def synchronised_the_wrong_stream(p: Program, right: bool) -> None:
    """The host waits for another stream than the one that copies to it."""
    a, b = p.stream(), p.stream()
    x, pinned = p.device_array(X), p.pinned(N)
    pinned[:] = 0
    p.scale(x, 10, N, b)
    checked(driver.cuMemcpyDtoHAsync(pinned.ctypes.data, x, 4 * N, b))
    checked(driver.cuStreamSynchronize(b if right else a))
    same(pinned.copy(), 10 * X)


@case
def host_function_too_early(p: Program, right: bool) -> None:
    """A host function in one stream reads what a copy of another stream writes."""
    a, b = p.stream(), p.stream()
    x, pinned = p.device_array(X), p.pinned(N)
    pinned[:] = 0
    seen: list[np.ndarray] = []
    checked(driver.cuMemcpyDtoHAsync(pinned.ctypes.data, x, 4 * N, a))
    if right:
        wait(p, b, a)
    function, kept = host_function(lambda: seen.append(pinned.copy()))
    checked(driver.cuLaunchHostFunc(b, function, 0))
    checked(driver.cuCtxSynchronize())
    del kept
    same(seen[0], X)


@case
def graph_without_an_edge(p: Program, right: bool) -> None:
    """Two nodes of a graph that need an order have none."""
    x, y = p.device_array(X), p.device_array(X)
    graph = checked(driver.cuGraphCreate(0))

    def kernel(name: str, values: tuple[Any, ...], types: tuple[Any, ...], before: list[Any]) -> Any:
        parameters = driver.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = p.function(name)
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = 2, 1, 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = 64, 1, 1
        parameters.kernelParams = (values, types)
        return checked(driver.cuGraphAddKernelNode(graph, before, len(before), parameters))

    first = kernel("scale", (x, 10.0, N), (ctypes.c_uint64, ctypes.c_float, ctypes.c_uint32), [])
    kernel("axpy", (y, x, x, 1.0, N), (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_float,
                                       ctypes.c_uint32), [first] if right else [])  # fmt: skip
    executable = checked(driver.cuGraphInstantiate(graph, 0))
    a = p.stream()
    checked(driver.cuGraphLaunch(executable, a))
    checked(driver.cuStreamSynchronize(a))
    same(p.download(y, N), 20 * X)


@case
def graph_and_a_stream(p: Program, right: bool) -> None:
    """Work that follows a graph is queued in another stream."""
    a, b = p.stream(), p.stream()
    x, y = p.device_array(X), p.device_array(X)
    checked(driver.cuStreamBeginCapture(a, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    p.scale(x, 10, N, a)
    executable = checked(driver.cuGraphInstantiate(checked(driver.cuStreamEndCapture(a)), 0))
    checked(driver.cuGraphLaunch(executable, a))
    p.axpy(y, x, x, 1, N, a if right else b)
    checked(driver.cuCtxSynchronize())
    same(p.download(y, N), 20 * X)


def outcome(run: Case, right: bool, seed: int) -> str | None:
    """Run a program; return what was found, or None."""
    with tk.testing.cuda_emulator(deferred=True, seed=seed, memory=2**26) as emulator:
        program = Program()
        found = None
        try:
            run(program, right)
            emulator.finish()
            if emulator.error is not None:
                raise emulator.error
        except (AssertionError, RuntimeError) as error:
            found = str(error)
        emulator.finish()
        emulator.clear_error()
        return found


@pytest.mark.parametrize("run", cases, ids=lambda run: run.__name__)
def test_a_defect_is_found(run: Case) -> None:
    assert any(outcome(run, False, seed) for seed in SEEDS)


@pytest.mark.parametrize("run", cases, ids=lambda run: run.__name__)
def test_the_corrected_program_is_accepted(run: Case) -> None:
    assert [outcome(run, True, seed) for seed in SEEDS] == [None] * len(SEEDS)


def test_there_are_enough_defects() -> None:
    assert len(cases) >= 14


def test_work_is_not_done_before_it_is_needed() -> None:
    with tk.testing.cuda_emulator(deferred=True) as emulator:
        program = Program()
        stream = program.stream()
        x = program.device_array(X)
        emulator.reset_counts()
        program.scale(x, 2, N, stream)
        raw = np.frombuffer((ctypes.c_float * N).from_address(x), np.float32)
        same(raw, X)  # the launch returned, and nothing was computed
        assert emulator.counts.launches == 1
        assert emulator.counts.synchronisations == 0
        checked(driver.cuStreamSynchronize(stream))
        same(raw, 2 * X)


def test_a_loop_of_queries_ends() -> None:
    with tk.testing.cuda_emulator(deferred=True) as emulator:
        program = Program()
        stream, event = program.stream(), program.event()
        x = program.device_array(X)
        for _ in range(10):
            program.scale(x, 1, N, stream)
        checked(driver.cuEventRecord(event, stream))
        asked = 0
        while int(driver.cuEventQuery(event)[0]) == 600:
            asked += 1
            assert asked < 1000
        assert asked > 0
        assert emulator.counts.synchronisations == 1  # of device_array


def test_a_long_queue_is_worked_off() -> None:
    with tk.testing.cuda_emulator(deferred=True, execute=False):
        program = Program()
        stream = program.stream()
        x = program.device_array(X)
        for _ in range(9000):
            program.scale(x, 1, N, stream)
        checked(driver.cuStreamSynchronize(stream))
