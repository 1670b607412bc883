"""Failures of kernels: when they are reported, for which operator, and with which cause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device import launching
from tenkey.backends.cuda.device.driver import CudaError
from tenkey.backends.cuda.device.failures import KernelFailureError, recent
from tests.backends.cuda.device._kernels import ADD, OUTSIDE, Memory

X = np.arange(100, dtype=np.float32)


def launch_wrong(name: str = "tk::wrong_operator") -> None:
    kernel = launching.kernel(OUTSIDE)
    kernel.operator = name
    out, x = Memory(X), Memory(X)
    kernel(1, 128, 1 << 20, out.address, x.address)


def test_an_access_outside_is_found_at_the_next_wait(start: Any) -> None:
    emulator = start(deferred=True)
    launch_wrong()
    with pytest.raises(KernelFailureError) as caught:
        tk.cuda.synchronize()
    error = caught.value
    assert error.code in (700, 716)
    assert error.operators == ("tk::wrong_operator",)
    assert str(error).startswith("[tk::wrong_operator] the kernel 'outside' has failed. ")
    assert "Restart the process" in str(error), "the operator is known: nothing has to be searched for"
    assert error.__cause__ is not None
    assert "outside" in str(error.__cause__)
    assert isinstance(error, CudaError)
    assert isinstance(error, RuntimeError)
    emulator.clear_error()


def test_later_calls_fail_too(start: Any) -> None:
    emulator = start(deferred=True)
    x = tk.ones(3, device="cuda")
    tk.cuda.synchronize()
    launch_wrong()
    for _ in range(2):
        with pytest.raises(CudaError):
            x.tolist()
    emulator.clear_error()


def test_all_that_may_have_failed_is_named_where_the_cause_is_unknown(emulator: Any) -> None:
    recent.clear()
    x = tk.ones(3, device="cuda")
    y = tk.exp(x) + tk.negative(x)
    emulator.fail_next("cuStreamSynchronize", 700)
    emulator.fail_next("cuCtxSynchronize", 700)
    with pytest.raises(KernelFailureError) as caught:
        y.tolist()
    assert caught.value.operators[:3] == ("tk::add", "tk::negative", "tk::exp")
    assert "one of the last kernels 'tk_add_vector_float32', " in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_launch_that_is_refused_blames_no_earlier_kernel(emulator: Any) -> None:
    x = tk.ones(3, device="cuda")
    emulator.fail_next("cuLaunchKernel", 701)
    with pytest.raises(CudaError, match=r"^\[tk::exp\] .*too many resources.*use a smaller block") as caught:
        tk.exp(x)
    assert "last kernels" not in str(caught.value)
    assert not isinstance(caught.value, KernelFailureError)


def test_with_waiting_the_call_that_failed_raises(start: Any) -> None:
    emulator = start(deferred=True)
    before = launching.synchronize_launches(True)
    try:
        with pytest.raises(KernelFailureError, match=r"\[tk::first\]"):
            launch_wrong("tk::first")
    finally:
        launching.synchronize_launches(before)
    emulator.clear_error()


def test_errors_of_the_driver_itself_keep_their_text(emulator: Any) -> None:
    x = tk.ones(3, device="cuda")
    emulator.fail_next("cuCtxSynchronize", 3)
    emulator.fail_next("cuStreamSynchronize", 3)
    with pytest.raises(CudaError, match=r"^\[cuda\] cu.*Synchronize failed with CUDA_ERROR_NOT_INITIALIZED") as caught:
        x.tolist()
    assert not isinstance(caught.value, KernelFailureError)


def test_a_misaligned_pointer_is_found(start: Any) -> None:
    emulator = start(deferred=True)
    kernel = launching.kernel(ADD)
    kernel.operator = "tk::add_number"
    out, x = Memory(X), Memory(X)
    kernel(1, 128, 50, out.address + 2, x.address, 1.0)
    with pytest.raises(KernelFailureError, match=r"\[tk::add_number\] the kernel 'add_number' has failed") as caught:
        tk.cuda.synchronize()
    assert "misaligned address" in str(caught.value.__cause__)
    emulator.clear_error()


def test_memory_of_the_driver_that_is_not_aligned_takes_other_kernels(emulator: Any) -> None:
    """A kernel with accesses of 128 bits must not be prepared for memory that a driver or library gives otherwise."""
    streams = [tk.cuda.Stream() for _ in range(3)]  # each has memory of its own
    for stream, shift in zip(streams, (0, 4, 8)):  # at first what is prepared is that for aligned memory
        if shift:
            emulator.misalign_next(shift)
        with stream:
            x = tk.asarray(X, device="cuda")
            assert x._data.buffer.address % 16 == shift
            for _ in range(4):
                np.testing.assert_array_equal((x + x).numpy(), 2 * X)
                np.testing.assert_array_equal(tk.negative(x).numpy(), -X)
                np.testing.assert_array_equal((x * 3).numpy(), 3 * X)
            stream.synchronize()


class TestErrorWord:
    """An index out of range, which a kernel reports through the error word."""

    def test_it_names_the_operator(self, either: Any) -> None:
        x = tk.asarray(X, device="cuda")
        index = tk.asarray([0, 100], device="cuda")
        y = tk.take(x, index)
        with pytest.raises(IndexError, match=r"\[\w+\] an index is out of range"):
            y.tolist()
        assert tk.take(x, tk.asarray([1, 2], device="cuda")).tolist() == [1.0, 2.0]

    def test_each_way_to_wait_finds_it(self, start: Any) -> None:
        start(deferred=True)
        x = tk.asarray(X, device="cuda")
        index = tk.asarray([0, 100], device="cuda")
        waits = [
            tk.cuda.synchronize, lambda: tk.backends.synchronize("cuda"), x.tolist,
            lambda: tk.cuda.current_stream().synchronize(),
            lambda: tk.cuda.current_stream().record_event().synchronize(),
        ]  # fmt: skip
        for wait in waits:
            tk.take(x, index)
            with pytest.raises(IndexError, match="out of range"):
                wait()
            wait()

    def test_a_stream_does_not_hide_the_error_of_another(self, start: Any) -> None:
        for seed in range(6):
            emulator = start(deferred=True, seed=seed)
            x = tk.asarray(X, device="cuda")
            index = tk.asarray([0, 100], device="cuda")
            side = tk.cuda.Stream()
            side.wait_stream(tk.cuda.current_stream())
            with side:
                tk.take(x, index)
            found = 0
            for wait in (tk.cuda.Stream().synchronize, tk.cuda.synchronize):  # the first may come too early
                try:
                    wait()
                except IndexError:
                    found += 1
            assert found == 1
            del x, index
            emulator.stop()
