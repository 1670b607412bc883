"""Gradients across the CPU and CUDA devices: copies, threads, streams, checkpoints, saved tensors, autocast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.autograd import checkpoint
from tenkey.autograd.graph import save_on_cpu, saved_tensors_hooks
from tenkey.backends.cuda.device.streams import Stream, current_stream
from tests.backends.cuda._emulated import emulated

VALUES = np.array([0.3, -0.7, 1.1])


@pytest.fixture(params=[False, True], ids=["eager", "deferred"], autouse=True)
def emulator(request: pytest.FixtureRequest) -> Iterator[Any]:
    with emulated(devices=2, deferred=request.param) as made:
        yield made


def leaf(device: str, values: Any = VALUES) -> tk.Tensor:
    return tk.tensor(np.asarray(values), device=device, requires_grad=True)


def close(x: Any, wanted: Any) -> None:
    assert x is not None
    np.testing.assert_allclose(np.asarray(x.detach().cpu()), wanted, rtol=1e-6)


class TestCopies:
    def test_there_and_back(self) -> None:
        x, w = leaf("cpu"), leaf("cuda", VALUES + 1)
        y = (x.to("cuda") * w).to("cuda:1")
        z = (y * y).to("cpu")
        (z * x).sum().backward()
        v, u = VALUES, VALUES + 1
        close(x.grad, 3 * v**2 * u**2)
        close(w.grad, 2 * v**3 * u)
        assert x.grad is not None
        assert x.grad.device.type == "cpu"
        assert w.grad is not None
        assert w.grad.device == "cuda"

    def test_copies_that_are_not_waited_for(self) -> None:
        x = leaf("cpu")
        y = x.pin_memory().to("cuda", non_blocking=True)
        z = (y * y).to("cpu", non_blocking=True)
        tk.cuda.synchronize()
        z.sum().backward()
        close(x.grad, 2 * VALUES)

    def test_layouts(self) -> None:
        values = np.arange(6.0).reshape(2, 3)
        x = leaf("cpu", values)
        (x.T.to("cuda")[1:].to("cuda:1").T.to("cpu") * tk.asarray([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        close(x.grad, [[0, 1, 2], [0, 3, 4]])

    def test_copies_into_tensors(self) -> None:
        x, w = leaf("cpu"), leaf("cuda:1")
        y = tk.zeros((2, 3), dtype=tk.float64, device="cuda")
        y[0].copy_(x * 2)
        y[1] = w.to("cuda") * 3
        (y * y).sum().backward()
        close(x.grad, 8 * VALUES)
        close(w.grad, 18 * VALUES)

    def test_second_derivatives(self) -> None:
        x = leaf("cuda")
        y = (tk.sin(x).to("cuda:1") * x.to("cuda:1")).sum()
        (g,) = tk.autograd.grad(y, x, create_graph=True)
        close(g, np.sin(VALUES) + VALUES * np.cos(VALUES))
        (h,) = tk.autograd.grad(g.sum(), x)
        close(h, 2 * np.cos(VALUES) - VALUES * np.sin(VALUES))


class TestAccumulation:
    def test_gradients_of_many_devices(self) -> None:
        x = leaf("cpu")
        parts = [tk.exp(x.to(device)).to("cpu") for device in ("cpu", "cuda", "cuda:1", "cuda")]
        sum(parts[1:], parts[0]).sum().backward()
        close(x.grad, 4 * np.exp(VALUES))

    def test_in_the_order_of_the_cpu(self) -> None:
        """The sums of gradients that arrive from several devices have the bits of the same program on the CPU."""
        generator = np.random.default_rng(0)
        factors = [generator.standard_normal(3) * 10.0**k for k in (8, 0, -3, 5, 1)]

        def gradient(devices: list[str]) -> np.ndarray:
            x = leaf("cpu")
            total = tk.zeros(3, dtype=tk.float64)
            for factor, device in zip(factors, devices, strict=True):
                total = total + (x.to(device) * tk.asarray(factor, device=device)).to("cpu")
            total.sum().backward()
            assert x.grad is not None
            return x.grad.numpy()

        wanted = gradient(["cpu"] * 5)
        for _ in range(3):
            np.testing.assert_array_equal(gradient(["cuda", "cuda", "cuda", "cuda", "cuda"]), wanted)

    def test_repeated_backward(self) -> None:
        w = leaf("cuda")
        for _ in range(3):
            (w * w).sum().backward()
        close(w.grad, 6 * VALUES)
        close(w, VALUES)


class TestThreads:
    def test_one_worker_for_each_device(self) -> None:
        seen: dict[str, str] = {}

        def note(device: str) -> Callable[[tk.Tensor], None]:
            return lambda g: seen.__setitem__(device, threading.current_thread().name)

        x = leaf("cpu")
        total = tk.zeros((), dtype=tk.float64)
        for device in ("cpu", "cuda", "cuda:1"):
            y = tk.exp(x.to(device))
            y.register_hook(note(device))
            total = total + (y * y).to("cpu").sum()
        total.backward()
        assert seen["cpu"] == threading.current_thread().name
        assert len(set(seen.values())) == 3
        close(x.grad, 3 * 2 * np.exp(2 * VALUES))

    def test_backward_from_many_threads(self) -> None:
        failures: list[BaseException] = []
        w = leaf("cuda:1")

        def work() -> None:
            try:
                for _ in range(5):
                    x = leaf("cuda")
                    (tk.sin(x).to("cuda:1") * w).sum().backward()
                    close(x.grad, np.cos(VALUES) * VALUES)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a backward waits forever"
        assert not failures
        close(w.grad, 15 * np.sin(VALUES))

    def test_errors_arrive_at_the_caller(self) -> None:
        x = leaf("cuda")
        y = tk.exp(x)

        def fail(g: tk.Tensor) -> None:
            raise KeyError("in a hook")

        y.register_hook(fail)
        with pytest.raises(KeyError, match="in a hook"):
            (y * 2).to("cuda:1").sum().backward()
        x.grad = None
        (tk.exp(x) * 2).sum().backward()
        close(x.grad, 2 * np.exp(VALUES))


class TestStreams:
    def test_backward_runs_in_the_stream_of_forward(self) -> None:
        side, streams = Stream(), []
        x = leaf("cuda")
        side.wait_stream(current_stream())
        with side:
            y = tk.exp(x)
            y.register_hook(lambda g: streams.append(current_stream()))
            z = y * y
        current_stream().wait_stream(side)
        z.sum().backward()
        assert streams == [side]
        close(x.grad, 2 * np.exp(2 * VALUES))

    def test_many_streams(self) -> None:
        for _ in range(4):
            x = leaf("cuda")
            main = current_stream()
            results = []
            for k in range(3):
                side = Stream()
                side.wait_stream(main)
                with side:
                    results.append((tk.sin(x * (k + 1)), side))
            for y, side in results:
                main.wait_stream(side)
                y.device.backend.record_stream(y.array.buffer, main)
            total = results[0][0] + results[1][0] * results[2][0]
            total.sum().backward()
            s, c = [np.sin(VALUES * k) for k in (1, 2, 3)], [k * np.cos(VALUES * k) for k in (1, 2, 3)]
            close(x.grad, c[0] + c[1] * s[2] + s[1] * c[2])

    def test_the_caller_s_stream_waits(self) -> None:
        for i in range(4):
            x = leaf("cuda", np.full(1000, i + 1.0))
            side = Stream()
            side.wait_stream(current_stream())
            with side:
                y = (x * x).sum()
            current_stream().wait_stream(side)
            y.backward()
            assert x.grad is not None
            doubled = x.grad * 2  # in the caller's stream, without an order by the program
            x.grad = None
            close(doubled, np.full(1000, 4 * (i + 1.0)))


class TestSavedTensors:
    @pytest.mark.parametrize("pin", [False, True])
    def test_on_the_cpu(self, pin: bool) -> None:
        x, w = leaf("cuda"), leaf("cuda:1")
        with save_on_cpu(pin_memory=pin):
            y = tk.exp(tk.sin(x)).to("cuda:1") * w
        y.sum().backward()
        close(x.grad, np.exp(np.sin(VALUES)) * np.cos(VALUES) * VALUES)
        close(w.grad, np.exp(np.sin(VALUES)))

    def test_memory_is_pinned_and_the_device_s_is_free(self) -> None:
        kept: list[tk.Tensor] = []

        def pack(t: tk.Tensor) -> tk.Tensor:
            kept.append(t)
            return t

        x = leaf("cuda", np.full(1 << 16, 0.5))
        before = tk.cuda.memory_allocated()
        with saved_tensors_hooks(pack, lambda t: t), save_on_cpu(pin_memory=True):
            y = x
            for _ in range(4):
                y = tk.sin(y)
        assert kept
        assert all(t.is_pinned() for t in kept)
        assert tk.cuda.memory_allocated() - before <= 3 * (8 << 16), "saved tensors still hold memory of the device"
        y.sum().backward()
        v, g = np.full(1 << 16, 0.5), np.ones(1 << 16)
        for _ in range(4):
            g, v = g * np.cos(v), np.sin(v)
        close(x.grad, g)

    def test_hooks_outside_read_the_values(self) -> None:
        seen: list[list[float]] = []

        def pack(t: tk.Tensor) -> tk.Tensor:
            seen.append(t.tolist())  # at once: the copy to the host has to be done
            return t

        x = leaf("cuda")
        with saved_tensors_hooks(pack, lambda t: t), save_on_cpu(pin_memory=True):
            y = tk.square(tk.exp(x))
        y.sum().backward()
        assert all(np.isfinite(values).all() for values in seen)
        assert any(np.allclose(values, np.exp(VALUES)) for values in seen)


class TestCheckpoints:
    def test_across_devices(self) -> None:
        x, w = leaf("cpu"), leaf("cuda:1")

        def function(x: tk.Tensor, w: tk.Tensor) -> tk.Tensor:
            return tk.exp(tk.sin(x.to("cuda"))).to("cuda:1") * w

        for _ in range(3):
            x.grad = w.grad = None
            y = checkpoint(lambda x, w: checkpoint(function, x, w) * 2, x, w)
            y.to("cpu").sum().backward()
            close(x.grad, 2 * np.exp(np.sin(VALUES)) * np.cos(VALUES) * VALUES)
            close(w.grad, 2 * np.exp(np.sin(VALUES)))

    def test_devices_that_wait_for_each_other(self) -> None:
        """Each device's backward recomputes a function that computes on the other one."""
        failures: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(4):
                    x, w = leaf("cuda"), leaf("cuda:1")
                    a = checkpoint(lambda x, w: tk.sin(x) * tk.exp(w).to("cuda"), x, w)
                    b = checkpoint(lambda x, w: tk.sin(w) * tk.exp(x).to("cuda:1"), x, w)
                    (a.to("cpu") + b.to("cpu")).sum().backward()
                    close(x.grad, (np.cos(VALUES) + np.sin(VALUES)) * np.exp(VALUES))
                    close(w.grad, (np.cos(VALUES) + np.sin(VALUES)) * np.exp(VALUES))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "checkpoints of two devices wait for each other"
        if failures:
            raise failures[0]

    def test_with_saved_tensors_on_the_cpu(self) -> None:
        x = leaf("cuda")
        with save_on_cpu(pin_memory=True):
            y = checkpoint(lambda x: tk.exp(tk.sin(x)) * x, x)
            z = (y * x).sum()
        z.backward()
        e = np.exp(np.sin(VALUES))
        close(x.grad, 2 * VALUES * e + VALUES**2 * e * np.cos(VALUES))


class TestAutocast:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_products_and_sums(self, dtype: str) -> None:
        if dtype == "bfloat16":
            pytest.importorskip("ml_dtypes", reason="bfloat16 needs ml_dtypes")
        lower = tk.float16 if dtype == "float16" else tk.bfloat16
        generator = np.random.default_rng(1)
        a, b = generator.standard_normal((4, 5)), generator.standard_normal((5, 3))
        x = tk.tensor(a.astype(np.float32), device="cuda", requires_grad=True)
        w = tk.tensor(b.astype(np.float32), device="cuda", requires_grad=True)
        with tk.autocast("cuda", dtype=lower):
            assert tk.is_autocast_enabled("cuda")
            y = x @ w
            loss = tk.softmax(y).sum() + y.sum()
            on_cpu = tk.ones((2, 2)) @ tk.ones((2, 2))
        assert (y.dtype, loss.dtype, on_cpu.dtype) == (lower, tk.float32, tk.float32)
        loss.backward()
        assert x.grad is not None
        assert w.grad is not None
        assert (x.grad.dtype, w.grad.dtype) == (tk.float32, tk.float32)
        step = 2.0 ** (-10 if dtype == "float16" else -7)
        close_to: Any = {"rtol": 4 * step, "atol": 4 * step * 5}
        np.testing.assert_allclose(np.asarray(y.detach().to("cpu", dtype=tk.float32)), a @ b, **close_to)
        np.testing.assert_allclose(x.grad.cpu().numpy(), np.ones((4, 3)) @ b.T, **close_to)
        np.testing.assert_allclose(w.grad.cpu().numpy(), a.T @ np.ones((4, 3)), **close_to)
