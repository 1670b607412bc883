"""The object that controls the emulator: faults, counts, errors, nesting; and tenkey's device on it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

import tenkey as tk
from tenkey.testing.cuda_driver import emulator_from_environment
from tests.testing.cuda_driver._driver_calls import Program, checked, code

N = 64


def test_injected_faults_happen_once(program: Program, emulator: Any) -> None:
    emulator.fail_next("cuMemAlloc", 2)
    emulator.fail_next("cuStreamSynchronize", 719)
    assert emulator.pending_faults == 2
    assert code(driver.cuMemAlloc(16)) == 2
    address = checked(driver.cuMemAlloc(16))
    assert code(driver.cuStreamSynchronize(0)) == 719
    checked(driver.cuStreamSynchronize(0))
    assert emulator.pending_faults == 0
    checked(driver.cuMemFree(address))


def test_injected_faults_by_pattern_and_number(program: Program, emulator: Any) -> None:
    stream = program.stream()
    emulator.fail_next("cuMem*Async", 999, after=1, times=2)
    x = program.device_array(np.ones(N))
    checked(driver.cuMemsetD8Async(x, 0, N, stream))
    assert code(driver.cuMemsetD8Async(x, 0, N, stream)) == 999
    assert code(driver.cuMemcpyDtoDAsync(x, x, N, stream)) == 999
    checked(driver.cuMemcpyDtoDAsync(x, x, N, stream))


def test_a_failed_launch_does_nothing(program: Program, emulator: Any) -> None:
    x = program.device_array(np.ones(N))
    emulator.fail_next("cuLaunchKernel", 701)
    with pytest.raises(AssertionError):
        program.scale(x, 2, N)
    np.testing.assert_array_equal(program.download(x, N), np.ones(N))
    program.scale(x, 2, N)


def test_a_misaligned_allocation(program: Program, emulator: Any) -> None:
    emulator.misalign_next(2)
    x = program.allocate(N)
    assert x % 4 == 2
    program.scale(x, 2, 1)
    assert code(driver.cuCtxSynchronize()) == 716
    emulator.clear_error()
    checked(driver.cuMemFree(x - 2))


def test_counts(program: Program, emulator: Any) -> None:
    stream, event = program.stream(), program.event()
    emulator.reset_counts()
    x = program.allocate(N)
    program.upload(x, np.ones(N, np.float32), stream)
    checked(driver.cuMemsetD8Async(x, 0, N, stream))
    program.scale(x, 2, N, stream)
    checked(driver.cuEventRecord(event, stream))
    counts = emulator.counts
    assert (counts.allocations, counts.host_to_device, counts.sets, counts.launches, counts.events_recorded) == (1,) * 5
    assert counts.copied_bytes == 4 * N
    assert counts.synchronisations == counts.implicit_synchronisations == counts.queries == 0
    program.download(x, N)
    assert emulator.counts.synchronisations == 1
    assert emulator.counts.device_to_host == 1
    before = emulator.calls("cuLaunchKernel")
    program.scale(x, 2, N, stream)
    assert emulator.calls("cuLaunchKernel") == before + 1
    assert emulator.calls("cuMem*") > 0


def test_held_memory(program: Program, emulator: Any) -> None:
    count, nbytes = emulator.held()
    x = program.allocate(N)
    assert emulator.held() == (count + 1, nbytes + 4 * N)
    checked(driver.cuMemFree(x))
    assert emulator.held() == (count, nbytes)


def test_kernels_can_be_left_out(program: Program, emulator: Any) -> None:
    x = program.device_array(np.ones(N))
    emulator.execute = False
    program.scale(x, 2, N)
    emulator.execute = True
    np.testing.assert_array_equal(program.download(x, N), np.ones(N))
    assert emulator.execute


def test_an_inner_emulator_changes_the_mode_and_restores_it(program: Program, emulator: Any) -> None:
    stream, x = program.stream(), program.device_array(np.ones(N))
    with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True) as inner:
        assert inner.deferred
        program.scale(x, 2, N, stream)
        assert code(driver.cuStreamQuery(stream)) == 600
    program.scale(x, 2, N, stream)
    assert code(driver.cuStreamQuery(stream)) == 0
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 4))
    with pytest.raises(RuntimeError, match="is active: stop it first"):
        tk.testing.cuda_emulator(devices=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"devices": 0}, "1 to 16 devices"), ({"cc": (7, 5)}, "compute capability"), ({"order": "left"}, "order"),
     ({"memory": 1000}, "bytes of memory"), ({"seed": -1}, "seed")],
)  # fmt: skip
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tk.testing.cuda_emulator(**options)


def test_an_error_that_nobody_saw_is_raised_at_the_end() -> None:
    def run() -> None:
        with tk.testing.cuda_emulator(memory=2**26):
            program = Program()
            program.scale(program.device_array(np.ones(N)), 2, N + 1)

    with pytest.raises(RuntimeError, match="scale: thread"):
        run()


def test_an_error_that_a_call_has_reported_is_not_raised_again() -> None:
    with tk.testing.cuda_emulator(memory=2**26) as emulator:
        program = Program()
        program.scale(program.device_array(np.ones(N)), 2, N + 1)
        assert code(driver.cuCtxSynchronize()) == 700
        assert emulator.error is not None


def test_an_exception_in_the_block_is_not_hidden() -> None:
    def run() -> None:
        with tk.testing.cuda_emulator(memory=2**26):
            program = Program()
            program.scale(program.device_array(np.ones(N)), 2, N + 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()


@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_tensors_on_the_device(order: str) -> None:
    with tk.testing.cuda_emulator(order=order, deferred=order == "random") as emulator:
        assert tk.cuda.is_available()
        assert tk.cuda.device_count() == 1
        x = tk.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), device="cuda")
        emulator.reset_counts()
        y = tk.sum(x * 2 + 1, axis=1)
        assert emulator.counts.synchronisations == 0
        np.testing.assert_array_equal(y.numpy(), [9, 27])
    assert not tk.cuda.is_available()


def test_an_emulator_can_be_started_again_with_other_devices() -> None:
    for devices, cc in ((2, (9, 0)), (1, (8, 0)), (3, (10, 0))):
        with tk.testing.cuda_emulator(devices=devices, cc=cc):
            assert tk.cuda.device_count() == devices
            assert tk.cuda.get_device_capability() == cc
            x = tk.ones(3, device=f"cuda:{devices - 1}")
            assert (x + 1).tolist() == [2, 2, 2]


PROCESS = """
import tenkey as tk
x = tk.ones(3, device="cuda")
print((x + 1).tolist(), tk.cuda.get_device_name())
"""


@pytest.mark.parametrize("value", ["1", "0"])
def test_the_environment_starts_it(value: str) -> None:
    environment = os.environ | {"TENKEY_CUDA_EMULATOR": value}
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, env=environment, check=False)
    if value == "1":
        assert done.stdout.strip() == "[2.0, 2.0, 2.0] Emulated H100", done.stderr
    else:
        assert done.returncode  # unless the machine has a GPU


def test_the_environment_gives_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_CUDA_EMULATOR", "deferred,seed=3, devices=2,cc=8.0,order=down")
    with emulator_from_environment() as emulator:  # type: ignore[union-attr]
        assert emulator.deferred
        assert tk.cuda.device_count() == 2
        assert tk.cuda.get_device_capability() == (8, 0)
    monkeypatch.setenv("TENKEY_CUDA_EMULATOR", "0")
    assert emulator_from_environment() is None
    for wrong in ("colour=red", "seed=x", "deferred=2", "cc=8"):
        monkeypatch.setenv("TENKEY_CUDA_EMULATOR", wrong)
        with pytest.raises(ValueError, match="divided by commas"):
            emulator_from_environment()


def test_memory_and_handles_survive_the_emulator() -> None:
    with tk.testing.cuda_emulator(memory=2**26) as emulator:
        held = emulator.held()
        program = Program()
        x, stream = program.device_array(np.ones(N)), program.stream()
    checked(driver.cuMemFree(x))  # as a finalizer may do late
    checked(driver.cuStreamDestroy(stream))
    with tk.testing.cuda_emulator(memory=2**26) as emulator:
        assert emulator.held() == held


WRONG_OPTIONS = """
import tenkey as tk
assert not tk.cuda.is_available()
for _ in range(2):  # the second time, too
    for call in (lambda: tk.zeros(1, device="cuda"), tk.cuda.Stream):
        try:
            call()
        except ValueError as error:
            assert "TENKEY_CUDA_EMULATOR='sed=3' has the part 'sed=3'" in str(error), error
        else:
            raise AssertionError("started")
"""


def test_wrong_options_in_the_environment_are_named_at_each_use() -> None:
    variables = {**os.environ, "TENKEY_CUDA_EMULATOR": "sed=3"}
    subprocess.run([sys.executable, "-c", WRONG_OPTIONS], env=variables, check=True)
