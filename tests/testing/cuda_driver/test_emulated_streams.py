"""Streams and events of the stub driver."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

import tenkey as tk
from tests.testing.cuda_driver._driver_calls import Program, checked, code

N = 64


def test_properties_of_streams(program: Program) -> None:
    stream = checked(driver.cuStreamCreateWithPriority(1, -3))
    assert checked(driver.cuStreamGetPriority(stream)) == -3
    assert checked(driver.cuStreamGetFlags(stream)) == 1
    assert int(checked(driver.cuStreamGetCtx(stream))) == int(program.context)
    assert int(checked(driver.cuStreamGetDevice(stream))) == 0
    other = checked(driver.cuStreamCreateWithPriority(0, -100))
    assert checked(driver.cuStreamGetPriority(other)) == -5  # the nearest that exists
    assert checked(driver.cuStreamGetId(stream)) != checked(driver.cuStreamGetId(other))
    assert code(driver.cuStreamCreate(2)) == 1


def test_destroyed_streams_and_events_are_refused(program: Program) -> None:
    stream, event = program.stream(), program.event()
    checked(driver.cuStreamDestroy(stream))
    checked(driver.cuEventDestroy(event))
    assert code(driver.cuStreamSynchronize(stream)) == 400
    assert code(driver.cuStreamDestroy(stream)) == 400
    assert code(driver.cuEventRecord(event, 0)) == 400
    assert code(driver.cuEventDestroy(event)) == 400
    assert code(driver.cuStreamWaitEvent(0, event, 0)) == 400


def test_a_destroyed_stream_does_its_work(emulator: Any) -> None:
    with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True):
        program = Program()
        stream = program.stream()
        x = program.device_array(np.ones(N))
        program.scale(x, 5, N, stream)
        checked(driver.cuStreamDestroy(stream))
        checked(driver.cuCtxSynchronize())
        np.testing.assert_array_equal(program.download(x, N), np.full(N, 5))


def test_elapsed_times_are_plausible(program: Program) -> None:
    stream, (a, b, c) = program.stream(), [program.event() for _ in range(3)]
    x = program.device_array(np.ones(2**20))
    checked(driver.cuEventRecord(a, stream))
    checked(driver.cuEventRecord(b, stream))
    checked(driver.cuMemcpyDtoDAsync(x, x + 2**21, 2**21, stream))
    checked(driver.cuEventRecord(c, stream))
    checked(driver.cuStreamSynchronize(stream))
    first, second = checked(driver.cuEventElapsedTime(a, b)), checked(driver.cuEventElapsedTime(b, c))
    assert 0 <= first < 100
    assert 0.01 < second < 100  # milliseconds; 2 MiB take longer than nothing


def test_events_that_cannot_be_timed(program: Program) -> None:
    stream, timed, plain = program.stream(), program.event(), program.event(timing=False)
    assert code(driver.cuEventElapsedTime(timed, timed)) == 400  # never recorded
    checked(driver.cuEventRecord(timed, stream))
    checked(driver.cuEventRecord(plain, stream))
    assert code(driver.cuEventElapsedTime(timed, plain)) == 400
    assert code(driver.cuEventCreate(8)) == 1
    checked(driver.cuCtxPushCurrent(checked(driver.cuDevicePrimaryCtxRetain(1))))
    assert code(driver.cuEventRecord(timed, 0)) == 400  # of another device
    checked(driver.cuCtxPopCurrent())


def test_questions_are_answered(emulator: Any) -> None:
    with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True):
        program = Program()
        stream, event, never = program.stream(), program.event(), program.event()
        x = program.device_array(np.ones(N))
        assert code(driver.cuStreamQuery(stream)) == 0
        assert code(driver.cuEventQuery(never)) == 0
        program.scale(x, 2, N, stream)
        checked(driver.cuEventRecord(event, stream))
        assert code(driver.cuStreamQuery(stream)) == 600
        checked(driver.cuEventSynchronize(event))
        assert code(driver.cuEventQuery(event)) == 0
        assert code(driver.cuStreamQuery(stream)) == 0
        late = program.event()
        program.scale(x, 2, N, stream)
        checked(driver.cuEventRecord(late, stream))
        assert code(driver.cuEventElapsedTime(event, late)) == 600
        checked(driver.cuCtxSynchronize())


def test_a_wait_is_for_the_work_before_the_record(emulator: Any) -> None:
    """What is recorded again later does not delay those who wait for the first record."""
    for seed in range(8):
        with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True, seed=seed):
            program = Program()
            a, b, event = program.stream(), program.stream(), program.event()
            x = program.device_array(np.ones(N))
            program.scale(x, 2, N, a)
            checked(driver.cuEventRecord(event, a))
            checked(driver.cuStreamWaitEvent(b, event, 0))
            program.scale(x, 3, N, b)
            checked(driver.cuEventRecord(event, b))
            checked(driver.cuStreamWaitEvent(a, event, 0))
            program.scale(x, 5, N, a)
            checked(driver.cuStreamSynchronize(a))
            np.testing.assert_array_equal(program.download(x, N), np.full(N, 30))


def test_the_default_stream_orders_blocking_streams(emulator: Any) -> None:
    for seed in range(8):
        with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True, seed=seed):
            program = Program()
            a, b = program.stream(blocking=True), program.stream(blocking=True)
            x, y = program.device_array(np.ones(N)), program.device_array(np.ones(N))
            program.scale(x, 2, N, a)
            program.scale(x, 3, N, 0)
            program.axpy(y, x, x, 1, N, b)
            np.testing.assert_array_equal(program.download(y, N), np.full(N, 12))


def test_each_thread_has_a_default_stream(program: Program) -> None:
    x = program.device_array(np.ones(N))
    found: list[int] = []

    def work() -> None:
        checked(driver.cuCtxSetCurrent(program.context))
        own = driver.CU_STREAM_PER_THREAD
        program.scale(x, 2, N, own)
        checked(driver.cuStreamSynchronize(own))
        found.append(int(checked(driver.cuStreamGetId(own))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 4
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 16))


@pytest.mark.parametrize("deferred", [False, True])
def test_threads_do_not_disturb_each_other(emulator: Any, deferred: bool) -> None:
    with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=deferred):
        program = Program()
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                checked(driver.cuCtxSetCurrent(program.context))
                stream = program.stream()
                for round_ in range(20):
                    x = int(checked(driver.cuMemAllocAsync(4 * N, stream)))
                    program.upload(x, np.full(N, number, np.float32), stream)
                    program.scale(x, round_ + 1, N, stream)
                    values = np.zeros(N, np.float32)
                    checked(driver.cuMemcpyDtoHAsync(values.ctypes.data, x, 4 * N, stream))
                    checked(driver.cuMemFreeAsync(x, stream))
                    np.testing.assert_array_equal(values, np.full(N, number * (round_ + 1)))
            except BaseException as error:
                errors.append(error)

        program.function("scale")
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors
        assert not any(thread.is_alive() for thread in threads)


def test_cuda_core_streams_and_events(emulator: Any) -> None:
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    a, b = device.create_stream(), device.create_stream()
    begin, end = (a.record(options=core.EventOptions(timing_enabled=True)) for _ in range(2))
    b.wait(end)
    b.wait(a)
    b.sync()
    assert end.is_done
    assert 0 <= end - begin < 1000
    assert device.default_stream is not None
    a.close()
