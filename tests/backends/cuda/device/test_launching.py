"""Launches: packed arguments, configurations, devices, and errors that name the operator."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.compiling import KernelSource
from tenkey.backends.cuda.device import contexts, launching
from tenkey.backends.cuda.device.driver import CudaError
from tenkey.backends.cuda.device.failures import recent
from tenkey.backends.cuda.device.streams import Stream, current_stream
from tests.backends.cuda.device._kernels import ADD, NUMBERS, Memory

X = np.arange(100, dtype=np.float32)


def test_a_launch_computes(either: Any) -> None:
    kernel = launching.kernel(ADD)
    out, x = Memory(np.zeros_like(X)), Memory(X)
    kernel(1, 128, 100, out.address, x.address, 2.5)
    np.testing.assert_array_equal(out.read(), X + np.float32(2.5))
    kernel((1, 1), (64, 2), 40, out.address, x.address, np.float32(-1))  # 64 threads have numbers of their own
    np.testing.assert_array_equal(out.read()[:40], X[:40] - 1)


def test_each_type_of_number_arrives(emulator: Any) -> None:
    out = Memory(np.zeros(11))
    given = (True, -128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**53), 2**53, 0.1, 0.1)
    launching.kernel(NUMBERS)(1, 32, *given, out.address)
    expected = np.array([float(v) for v in given])
    expected[9] = np.float32(0.1)
    np.testing.assert_array_equal(out.read(), expected)
    types = (np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
    numbers = [kind(value) for kind, value in zip(types, given)]
    launching.kernel(NUMBERS)(1, 32, *numbers, np.float32(0.1), np.float64(0.1), out.address)
    np.testing.assert_array_equal(out.read(), expected)


def test_arguments_that_do_not_fit(emulator: Any) -> None:
    kernel = launching.kernel(ADD)
    with pytest.raises(TypeError, match=r"takes 4 arguments \(uint32, float32\*, float32\*, float32\), got 3"):
        kernel(1, 32, 1, 2, 3)
    with pytest.raises(TypeError, match=r"'x' is not a float32\*"):
        kernel(1, 32, 1, 2, "x", 1.0)
    with pytest.raises(TypeError, match="-1 is not a uint32"):
        kernel(1, 32, -1, 2, 3, 1.0)
    with pytest.raises(TypeError, match=r"a parameter of type 'complex64'.*as two parameters"):
        launching.kernel(KernelSource("k", "def k(x):\n    pass\n", ("complex64",)))
    assert emulator.counts.launches == 0


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (0, 32, "grid 0.*A call without elements launches nothing"),
        ((1, 1, 1, 1), 32, "one to three positive ints"),
        (1, (32, 0), "block"),
        (1.5, 32, "grid 1.5"),
        (1, 257, "compiled for at most 256 threads"),
        (1, (16, 17), "compiled for at most 256 threads"),
        ((1, 70000), 32, r"at most the grid \(2147483647, 65535, 65535\)"),
    ],
)
def test_configurations_that_no_device_has(emulator: Any, grid: Any, block: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launching.kernel(ADD)(grid, block, 1, 2, 3, 1.0)
    assert emulator.counts.launches == 0


def test_a_source_is_loaded_once(emulator: Any) -> None:
    assert launching.kernel(ADD) is launching.kernel(ADD._replace(threads=256))
    assert launching.kernel(ADD) is not launching.kernel(ADD._replace(threads=128))


def test_more_shared_memory_is_permitted_up_to_that_of_the_device(emulator: Any) -> None:
    before = emulator.calls("cuKernelSetAttribute")
    launching.kernel(ADD._replace(shared=100_000))
    assert emulator.calls("cuKernelSetAttribute") == before + 1
    launching.kernel(ADD._replace(shared=40_000))
    assert emulator.calls("cuKernelSetAttribute") == before + 1
    with pytest.raises(ValueError, match=r"needs 1,000,000 bytes of shared memory.*use smaller tiles"):
        launching.kernel(ADD._replace(shared=1_000_000))


def test_a_refused_launch_names_operator_kernel_and_remedy(emulator: Any) -> None:
    x = tk.ones(3, device="cuda")
    for _ in range(4):  # the long way, then the prepared one
        emulator.fail_next("cuLaunchKernel*", 701)
        with pytest.raises(
            CudaError, match=r"\[tk::negative\] the kernel '.*' could not be launched.*OUT_OF_RESOURCES"
        ):
            tk.negative(x)
        assert tk.negative(x).tolist() == [-1.0] * 3
    emulator.fail_next("cuLaunchKernel*", 701)
    with pytest.raises(CudaError) as caught:
        tk.negative(x)
    assert caught.value.code == 701
    assert "grid (1, 1, 1) and the block" in str(caught.value)
    assert "use a smaller block" in str(caught.value)


def test_a_refused_image_names_the_kernel(emulator: Any) -> None:
    emulator.fail_next("cuLibraryLoadData", 218)
    with pytest.raises(CudaError, match=r"\[add_number\] the kernel 'add_number' could not be loaded.*INVALID_PTX"):
        launching.kernel(ADD._replace(threads=64))
    launching.kernel(ADD._replace(threads=64))


def test_a_launch_needs_no_context(start: Any) -> None:
    start(devices=2)
    kernel = launching.kernel(ADD)
    memory = [(Memory(np.zeros_like(X), d), Memory(X, d)) for d in range(2)]
    with contexts.enter(0):
        for device, (out, x) in enumerate(memory):
            kernel(1, 128, 100, out.address, x.address, device + 1, stream=current_stream(device))
    errors: list[BaseException] = []

    def work() -> None:  # a new thread has no context
        try:
            for device, (out, x) in enumerate(memory):
                kernel(1, 128, 50, out.address, x.address, device + 5, stream=current_stream(device))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    for device in range(2):
        current_stream(device).synchronize()
    thread.start()
    thread.join()
    assert not errors
    for device, (out, _) in enumerate(memory):
        np.testing.assert_array_equal(out.read(), X + np.where(X < 50, device + 5, device + 1).astype(np.float32))


def test_threads_do_not_mix_their_arguments(emulator: Any) -> None:
    kernel = launching.kernel(ADD)
    out, x = Memory(np.zeros(800, np.float32)), Memory(np.zeros(800, np.float32))

    def work(k: int) -> None:
        stream = Stream()
        for _ in range(20):
            kernel(1, 128, 100, out.address + 400 * k, x.address + 400 * k, float(k), stream=stream)
        stream.synchronize()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(out.read(), np.repeat(np.arange(8, dtype=np.float32), 100))


def test_launches_that_wait(start: Any) -> None:
    emulator = start(deferred=True)
    x = tk.ones(3, device="cuda")
    before = launching.synchronize_launches(True)
    try:
        emulator.reset_counts()
        for count in range(1, 5):
            x = x + 1
            assert emulator.counts.synchronisations == count
    finally:
        launching.synchronize_launches(before)
    emulator.reset_counts()
    x = x + 1
    assert emulator.counts.synchronisations == 0


def test_launches_are_noted(emulator: Any) -> None:
    recent.clear()
    x = tk.ones(3, device="cuda")
    for _ in range(4):
        tk.negative(x)
    assert [kernel.operator for kernel in recent][-4:] == ["tk::negative"] * 4
