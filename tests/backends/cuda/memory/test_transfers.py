"""Copies between host and devices, on a device, and between devices."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device.driver import cu
from tenkey.backends.cuda.device.streams import Stream, current_stream
from tenkey.backends.cuda.memory import pinned, transfers
from tests.backends.cuda._emulated import emulated, on_device

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"]  # fmt: skip


def some(dtype: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray:
    return (
        (np.arange(np.prod(shape)) % 2 if dtype == "bool" else np.arange(np.prod(shape))).astype(dtype).reshape(shape)
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_and_back(dtype: str) -> None:
    with emulated():
        values = some(dtype)
        x = tk.asarray(values, device="cuda")
        assert (x.dtype, x.shape) == (values.dtype, values.shape)
        np.testing.assert_array_equal(np.asarray(x.cpu()), values)
        np.testing.assert_array_equal(np.asarray(x[1:].cpu()), values[1:])
        np.testing.assert_array_equal(np.asarray(x[2].cpu()), values[2])


def test_bfloat16() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes", reason="bfloat16 needs ml_dtypes").bfloat16
    with emulated():
        x = tk.asarray(np.arange(5).astype(bfloat16), device="cuda")
        assert x.dtype == tk.bfloat16
        assert x.cpu().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("deferred", [False, True])
def test_layouts(deferred: bool) -> None:
    with emulated(deferred=deferred):
        values = some("float32", (4, 5, 6))
        x = tk.asarray(values, device="cuda")
        views: list[Any] = [
            (tk.permute_dims(x, (2, 0, 1)), values.transpose(2, 0, 1)), (x[:, ::2], values[:, ::2]),
                (x[1:3, 2:, ::3], values[1:3, 2:, ::3]),
            (tk.broadcast_to(x[0, 0], (3, 6)), np.broadcast_to(values[0, 0], (3, 6))),
            (x[:0], values[:0]), (x[3, 4, 5], values[3, 4, 5]),
        ]  # fmt: skip
        for ours, theirs in views:
            np.testing.assert_array_equal(np.asarray(ours.cpu()), theirs)
        there = tk.asarray(values.T[::2], device="cuda")
        np.testing.assert_array_equal(np.asarray(there.cpu()), values.T[::2])


def test_writing_into_parts() -> None:
    with emulated() as emulator:
        x = on_device(np.zeros((4, 5)))
        wanted = np.zeros((4, 5), np.float32)
        emulator.reset_counts()
        x[1] = tk.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
        wanted[1] = [1, 2, 3, 4, 5]
        assert emulator.counts.device_to_host == 0, "a part without gaps was read before it was written"
        x[:, 2] = tk.asarray([7.0, 8.0, 9.0, 10.0])
        wanted[:, 2] = [7, 8, 9, 10]
        np.testing.assert_array_equal(np.asarray(x.cpu()), wanted)


def test_only_what_is_asked_for_is_read() -> None:
    with emulated() as emulator:
        x = on_device(np.arange(100_000))
        emulator.reset_counts()
        assert x[99_999].item() == 99_999
        assert emulator.counts.copied_bytes <= 16


def test_conversions_on_the_way() -> None:
    with emulated():
        x = on_device([1.5, -2.5, 3.0])
        assert x.to("cpu", dtype=tk.int32).tolist() == [1, -2, 3]
        assert tk.asarray([1.5, 2.5]).to("cuda", dtype=tk.float64).dtype == tk.float64
        y = tk.zeros(3, dtype=tk.int64, device="cuda")
        y[...] = tk.asarray([1, 2, 3])
        y.copy_(tk.asarray([4.0, 5.0, 6.0]))
        assert y.tolist() == [4, 5, 6]


class TestBetweenDevices:
    @pytest.mark.parametrize("deferred", [False, True])
    def test_without_the_host(self, deferred: bool) -> None:
        with emulated(devices=2, deferred=deferred) as emulator:
            x = on_device(np.arange(1000)) + 1
            emulator.reset_counts()
            y = x.to("cuda:1")
            assert emulator.counts.device_to_device == 1
            assert emulator.counts.device_to_host == emulator.counts.host_to_device == 0
            assert emulator.counts.synchronisations == 0
            del x
            z = y * 2
            np.testing.assert_array_equal(np.asarray(z.cpu()), (np.arange(1000) + 1) * 2)
            back = z.to("cuda:0")
            np.testing.assert_array_equal(np.asarray(back.cpu()), (np.arange(1000) + 1) * 2)

    def test_layouts_and_dtypes(self) -> None:
        with emulated(devices=2):
            values = some("float32", (4, 5))
            x = tk.asarray(values, device="cuda")
            np.testing.assert_array_equal(np.asarray(x.T.to("cuda:1").cpu()), values.T)
            np.testing.assert_array_equal(np.asarray(x[1:, 2:].to("cuda:1").cpu()), values[1:, 2:])
            y = tk.zeros((4, 5), dtype=tk.float64, device="cuda:1")
            y.copy_(x)
            np.testing.assert_array_equal(np.asarray(y.cpu()), values)
            z = tk.zeros((5, 4), device="cuda:1").T
            z.copy_(x)
            np.testing.assert_array_equal(np.asarray(z.cpu()), values)
            w = tk.zeros((4, 5), device="cuda:1")
            w.copy_(x)
            np.testing.assert_array_equal(np.asarray(w.cpu()), values)
            assert x[:0].to("cuda:1").shape == (0, 5)

    def test_a_copy_waits_for_the_memory_of_the_target(self) -> None:
        """Work that is queued on the target's stream still reads the memory that the copy gets."""
        with emulated(devices=2, deferred=True):
            for _ in range(4):
                old = on_device(np.full(1000, 5), device="cuda:1")
                result = old * 2
                del old
                new = on_device(np.full(1000, 7)).to("cuda:1")
                np.testing.assert_array_equal(np.asarray(result.cpu()), np.full(1000, 10))
                np.testing.assert_array_equal(np.asarray(new.cpu()), np.full(1000, 7))


def test_filling_bytes() -> None:
    with emulated(deferred=True):
        x = tk.empty(10, dtype=tk.float32, device="cuda")
        transfers.fill(x.array.buffer, np.float32(1.5), 10)
        assert x.tolist() == [1.5] * 10
        y = tk.empty(10, dtype=tk.int16, device="cuda")
        transfers.fill(y.array.buffer, np.int16(-3), 10)
        assert y.tolist() == [-3] * 10
        z = tk.empty(10, dtype=tk.uint8, device="cuda")
        transfers.fill(z.array.buffer, np.uint8(200), 10)
        assert z.tolist() == [200] * 10


def test_copies_run_in_the_current_stream() -> None:
    with emulated(deferred=True):
        side = Stream()
        with side:
            x = tk.arange(1000.0).pin_memory().to("cuda", non_blocking=True)
        assert current_stream().query()
        assert not side.query()
        side.synchronize()
        np.testing.assert_array_equal(np.asarray(x.cpu()), np.arange(1000))


def test_a_thread_without_a_context_copies_on_the_device() -> None:
    with emulated():
        x = on_device(np.arange(10))
        found: list[tk.Tensor] = []
        thread = threading.Thread(target=lambda: found.append(x.clone()))
        thread.start()
        thread.join()
        assert found[0].tolist() == list(range(10))


def test_a_graph_keeps_the_values_of_its_capture() -> None:
    with emulated():
        w = on_device([1.0, 2.0, 3.0])

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            return x * w

        for i in range(4):
            noise = tk.full(8, 99.0).pin_memory()  # would take the place of staging memory that is not kept
            assert step(on_device([float(i)] * 3)).tolist() == [i, 2 * i, 3 * i]
            del noise


@pytest.mark.parametrize("size", [3, 300_000])
def test_a_graph_that_captures_the_first_array_of_the_host(size: int) -> None:
    with emulated():
        w = tk.ones(3, device="cuda")
        values = np.arange(size, dtype=np.float32)
        calls: list[int] = []

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            calls.append(len(calls))
            return x + tk.asarray(values, device="cuda")[:3] if calls[1:] else x + w

        assert step(w).tolist() == [2, 2, 2]
        assert step(w).tolist() == step(w).tolist() == [1, 2, 3]
        assert calls == [0, 1]


def test_errors_of_the_driver_pass() -> None:
    with emulated() as emulator:
        x = on_device(np.arange(10))
        emulator.fail_next("cuMemcpyDtoHAsync", 999)
        with pytest.raises(tk.cuda.CudaError, match="999"):
            x.cpu()
        assert x.tolist() == list(range(10))
        assert cu.cuMemGetInfo()[0] > 0
        assert pinned.block_of(np.zeros(3)) is None
