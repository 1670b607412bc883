"""Graphs of steps: the same results as without them, memory that stays, and errors for what a graph cannot contain."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device import launching
from tenkey.backends.cuda.device.driver import CudaError
from tenkey.backends.cuda.device.graphs import Recording
from tenkey.backends.cuda.device.streams import CaptureError, Stream, _capturing, current_stream
from tests.backends.cuda.device._kernels import ADD, Memory

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def on_device(values: Any) -> tk.Tensor:
    return tk.asarray(values, device="cuda")


class TestResults:
    def test_a_step_is_done_once_for_each_call(self, either: Any) -> None:
        total = on_device(np.zeros((3, 4), np.float32))

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            total.__iadd__(x)
            return total.sum()

        expected = np.zeros((3, 4), np.float32)
        for k in range(6):
            given = X + k
            expected += given
            assert step(on_device(given)).item() == expected.sum()
            np.testing.assert_array_equal(total.numpy(), expected)

    def test_the_graph_is_launched_instead_of_the_kernels(self, emulator: Any) -> None:
        ran = []

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            ran.append(1)
            for _ in range(10):
                x = tk.exp(-x)
            return x

        x = on_device(X)
        first = step(x).numpy()
        step(x)
        emulator.reset_counts()
        third = step(x)
        assert emulator.counts.graph_launches == 1
        assert len(ran) == 2
        np.testing.assert_array_equal(third.numpy(), first)

    def test_results_of_earlier_calls_remain(self, either: Any) -> None:
        step = tk.cuda.graph(lambda x: (x * 2, {"sum": x.sum()}, "text"))
        found = [step(on_device(X + k)) for k in range(5)]
        for k, (double, others, text) in enumerate(found):
            np.testing.assert_array_equal(double.numpy(), 2 * (X + k))
            assert others["sum"].item() == (X + k).sum()
            assert text == "text"

    def test_results_that_are_not_copied_are_the_same_tensors(self, emulator: Any) -> None:
        step = tk.cuda.graph(lambda x: x * 2, copy_results=False)
        results = [step(on_device(X + k)) for k in range(4)]
        assert results[0] is not results[1]
        assert results[1] is results[2] is results[3]
        np.testing.assert_array_equal(results[1].numpy(), 2 * (X + 3))

    def test_another_graph_for_other_arguments(self, emulator: Any) -> None:
        traced = []

        @tk.cuda.graph
        def step(x: tk.Tensor, power: int = 1, *, y: Any = None) -> tk.Tensor:
            traced.append((x.shape, power))
            return x**power if y is None else x**power + y[0]

        for _ in range(3):
            np.testing.assert_array_equal(step(on_device(X)).numpy(), X)
            np.testing.assert_array_equal(step(on_device(X), 2).numpy(), X * X)
            np.testing.assert_array_equal(step(on_device(X[0])).numpy(), X[0])
            np.testing.assert_array_equal(step(on_device(X), y=[on_device(X)]).numpy(), 2 * X)
            np.testing.assert_array_equal(step(on_device(X.T)).numpy(), X.T)
        assert len(traced) == 2 * 5
        step.reset()
        step(on_device(X))
        assert len(traced) == 2 * 5 + 1

    def test_an_index_out_of_range_in_a_later_launch(self, either: Any) -> None:
        """Nothing is called for a launch of the graph, so it is noted that its kernels may report errors."""
        step = tk.cuda.graph(lambda x, index: tk.take(x, index))
        x = on_device(X[0])
        for given in ([0, 1], [1, 2], [3, 0]):
            assert step(x, on_device(given)).tolist() == X[0][given].tolist()
        result = step(x, on_device([0, 4]))
        with pytest.raises(IndexError, match=r"\[\w+\] an index is out of range"):
            result.tolist()
        assert step(x, on_device([0, 3])).tolist() == [0, 3]

    def test_a_training_step(self, either: Any) -> None:
        """Forward, backward and update in one graph give what they give on the CPU."""

        def train(device: str, wrap: Callable[..., Any]) -> list[float]:
            rng = np.random.default_rng(0)
            w = tk.asarray(rng.normal(size=(4, 2)).astype(np.float32), device=device).requires_grad_()
            b = tk.zeros(2, device=device).requires_grad_()

            def step(x: tk.Tensor, y: tk.Tensor) -> tk.Tensor:
                loss = ((tk.tanh(x @ w + b) - y) ** 2).mean()
                gw, gb = tk.autograd.grad(loss, (w, b))
                with tk.no_grad():
                    w.__isub__(0.5 * gw)
                    b.__isub__(0.5 * gb)
                return loss.detach()

            run = wrap(step)
            data = [rng.normal(size=(8, 4)).astype(np.float32) for _ in range(6)]
            pairs = [(tk.asarray(x, device=device), tk.asarray(np.tanh(x[:, :2]), device=device)) for x in data]
            return [run(x, y).item() for x, y in pairs]

        found = train("cuda", tk.cuda.graph)
        np.testing.assert_allclose(found, train("cpu", lambda step: step), rtol=1e-5)
        assert found[-1] < found[0]

    def test_streams_without_an_order_of_their_own(self, start: Any) -> None:
        """Arguments are copied to where an earlier launch may still read, and results from where a later one writes."""
        for seed in range(12):
            emulator = start(deferred=True, seed=seed)
            step = tk.cuda.graph(lambda x: (x * 2 + 1) * x)
            streams, given, results = [Stream(), Stream()], [], []
            for k in range(8):
                with streams[k % 2]:
                    given.append(on_device(X + k))
                    results.append(step(given[-1]))
            tk.cuda.synchronize()
            for k, result in enumerate(results):
                np.testing.assert_array_equal(result.numpy(), (2 * (X + k) + 1) * (X + k))
            del step, given, results, result
            emulator.stop()

    def test_several_streams_follow_one_another(self, start: Any) -> None:
        for seed in range(4):
            emulator = start(deferred=True, seed=seed)
            total = on_device(np.zeros((3, 4), np.float32))

            @tk.cuda.graph
            def step(x: tk.Tensor, total: list[Any] = [total]) -> tk.Tensor:  # noqa: B006
                total[0].__iadd__(x)
                return total[0] * 1

            results = []
            side = Stream()
            for k in range(6):
                x = on_device(X)
                side.wait_stream(current_stream())
                if k % 2:
                    with side:
                        results.append(step(x))
                    current_stream().wait_stream(side)
                    x.device.backend.record_stream(x._data.buffer, side)
                    x.device.backend.record_stream(results[-1]._data.buffer, current_stream())
                else:
                    results.append(step(x))
            for k, result in enumerate(results):
                np.testing.assert_array_equal(result.numpy(), (k + 1) * X)
            del results, result, total, step, x
            emulator.stop()


class TestMemory:
    def test_memory_from_outside_is_kept(self, either: Any) -> None:
        w = [on_device(X)]
        step = tk.cuda.graph(lambda x: x + w[0])
        for _ in range(2):
            np.testing.assert_array_equal(step(on_device(X)).numpy(), 2 * X)
        w[0] = on_device(X * 0)  # the graph still reads the first
        gc.collect()
        others = [on_device(X * 100) for _ in range(20)]
        for _ in range(3):
            np.testing.assert_array_equal(step(on_device(X)).numpy(), 2 * X)
        del others

    def test_a_graph_shares_memory_with_nothing(self, either: Any) -> None:
        """Neither do others overwrite its values, nor does a launch overwrite theirs."""
        step = tk.cuda.graph(lambda x: tk.exp(x) + tk.exp(-x), copy_results=False)
        x, expected = on_device(X), np.exp(X) + np.exp(-X)
        for _ in range(2):
            result = step(x)
        tk.cuda.synchronize()
        gc.collect()
        others = []
        for _ in range(3):
            with Stream():  # one of them may have the handle of the stream that was captured
                others += [x * k for k in range(20)]
                tk.cuda.synchronize()
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
        np.testing.assert_allclose(step(x).numpy(), expected, rtol=1e-5)
        for k, other in enumerate(others):
            np.testing.assert_array_equal(other.numpy(), k % 20 * X)

    def test_the_memory_is_freed_with_the_graph(self, emulator: Any) -> None:
        x = on_device(np.zeros((512, 1024), np.float32))
        tk.cuda.empty_cache()
        before = tk.cuda.memory_reserved()
        step = tk.cuda.graph(lambda x: tk.exp(x) + 1)
        for _ in range(3):
            step(x)
        tk.cuda.empty_cache()
        assert tk.cuda.memory_reserved() > before
        del step
        gc.collect()
        tk.cuda.empty_cache()
        assert tk.cuda.memory_reserved() == before


class TestRefusals:
    """A call that a graph cannot contain raises where it is made, and the program goes on."""

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (lambda x: x.sum().item(), "item|to_device|copy_to_host|synchronize"),
            (lambda x: x.tolist(), "tolist|to_device|copy_to_host|synchronize"),
            (lambda x: bool((x > 0).all()), "to_device|copy_to_host|synchronize"),
            (lambda x: tk.cuda.synchronize(), "synchronize"),
            (lambda x: tk.cuda.current_stream().synchronize(), "synchronize"),
            (lambda x: tk.cuda.current_stream().query(), "query"),
            (lambda x: tk.cuda.current_stream().record_event().synchronize(), "Event.synchronize"),
        ],
    )
    def test_waiting(self, emulator: Any, call: Callable[[tk.Tensor], Any], name: str) -> None:
        x = on_device(X)

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            y = x + 1
            call(y)
            return y

        np.testing.assert_array_equal(step(x).numpy(), X + 1)
        for _ in range(2):
            with pytest.raises(CaptureError, match=rf"\[.*({name}).*\] is called while tk.cuda.graph captures a step"):
                step(x)
            assert not _capturing
            np.testing.assert_array_equal((x + 2).numpy(), X + 2)

    def test_random_numbers(self, emulator: Any) -> None:
        step = tk.cuda.graph(lambda x: x + tk.random.uniform(shape=(3, 4)).to_device("cuda"))
        with pytest.raises(CaptureError, match="draws random numbers"):
            step(on_device(X))

    def test_gradients_across_the_graph(self, emulator: Any) -> None:
        w = on_device(X).requires_grad_()
        step = tk.cuda.graph(lambda x: x * w)
        with pytest.raises(ValueError, match=r"a result of .* has a history.*x.detach\(\)"):
            step(on_device(X))
        with pytest.raises(ValueError, match=r"an argument of .* requires a gradient"):
            step(w)

    def test_an_argument_that_is_changed(self, emulator: Any) -> None:
        step = tk.cuda.graph(lambda x: x.__iadd__(1))
        step(on_device(X))
        with pytest.raises(CaptureError, match="changes an argument in place"):
            step(on_device(X))

    def test_arguments_that_cannot_be_compared(self, emulator: Any) -> None:
        with pytest.raises(TypeError, match="a value that can be hashed"):
            tk.cuda.graph(lambda x, y: x)(on_device(X), np.ones(2))

    def test_an_error_of_the_step(self, emulator: Any) -> None:
        ran = []

        def function(x: tk.Tensor) -> tk.Tensor:
            ran.append(1)
            if len(ran) == 2:
                raise ZeroDivisionError
            return x + 1

        step = tk.cuda.graph(function)
        step(on_device(X))
        with pytest.raises(ZeroDivisionError):
            step(on_device(X))
        for _ in range(3):
            np.testing.assert_array_equal(step(on_device(X)).numpy(), X + 1)

    def test_the_cache_of_memory_is_not_emptied(self, emulator: Any) -> None:
        ran = []

        def function(x: tk.Tensor) -> tk.Tensor:
            ran.append(1)
            if len(ran) == 2:
                tk.cuda.empty_cache()
            return x + 1

        step = tk.cuda.graph(function)
        step(on_device(X))
        with pytest.raises(CudaError, match=r"\[empty_cache\]"):
            step(on_device(X))

    def test_work_that_is_left_in_another_stream(self, emulator: Any) -> None:
        side = Stream()

        def function(x: tk.Tensor) -> tk.Tensor:
            side.wait_stream(current_stream())
            with side:
                return x + 1

        step = tk.cuda.graph(function)
        step(on_device(X))
        tk.cuda.synchronize()
        with pytest.raises(CaptureError, match="left work in another stream"):
            step(on_device(X))
        assert not _capturing


class TestRecording:
    def test_two_streams_in_one_graph(self, start: Any) -> None:
        for seed in range(4):
            emulator = start(deferred=True, seed=seed)
            kernel = launching.kernel(ADD)
            x, a, b, c = [Memory(np.zeros(100, np.float32)) for _ in range(4)]
            first, second, recording = Stream(), Stream(), Recording()
            with recording.of(first):
                kernel(1, 128, 100, x.address, x.address, 1.0)
                second.wait_stream(first)
                assert set(_capturing) == {first.handle, second.handle}
                kernel(1, 128, 100, a.address, x.address, 1.0)
                kernel(1, 128, 100, b.address, x.address, 2.0, stream=second)
                first.wait_stream(second)
                kernel(1, 128, 100, c.address, b.address, 3.0)
            assert not _capturing
            assert (x.read(first) == 0).all()
            main = current_stream()
            for k in range(1, 4):
                recording.launch(main)
                np.testing.assert_array_equal(
                    [m.read()[0] for m in (x, a, b, c)], [k, k + 1, k + 2, k + 5]
                )  # fmt: skip
            del recording
            emulator.stop()

    def test_launches_in_two_streams_follow_one_another(self, start: Any) -> None:
        """The values between the kernels of a graph are not those of another launch of it."""
        for seed in range(12):
            emulator = start(deferred=True, seed=seed)
            kernel = launching.kernel(ADD)
            x, a = [Memory(np.zeros(100, np.float32)) for _ in range(2)]
            streams, recording = [Stream(), Stream()], Recording()
            with recording.of(streams[0]):
                kernel(1, 128, 100, a.address, x.address, 1.0)
                for _ in range(3):
                    kernel(1, 128, 100, a.address, a.address, 1.0)
                kernel(1, 128, 100, x.address, a.address, 1.0)
            for k in range(6):
                recording.launch(streams[k % 2])
            tk.cuda.synchronize()
            np.testing.assert_array_equal(x.read(), np.full(100, 6 * 5))
            del recording
            emulator.stop()

    def test_an_error_of_the_driver(self, emulator: Any) -> None:
        stream = Stream()
        emulator.fail_next("cuGraphInstantiate*", 2)
        with pytest.raises(CudaError), Recording().of(stream):
            pass
        assert not _capturing
        with Recording().of(stream):
            pass
