"""The short way of a small operator: the same results, memory and errors as the long one."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device import prepared_launches
from tenkey.backends.cuda.device.streams import Stream, current_stream

X = np.arange(24, dtype=np.float32).reshape(4, 6)
ROUNDS = range(4)  # from the third on with a plan


def there(values: Any, device: str = "cuda") -> tk.Tensor:
    return tk.asarray(values, device=device)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each call that takes the short way."""
    calls: list[int] = []
    monkeypatch.setattr(prepared_launches, "launched", lambda kernel: calls.append(1))
    return calls


def test_layouts(either: Any, prepared: list[int]) -> None:
    layouts = [lambda x: x, lambda x: x[1:, ::2], lambda x: x[:, 1:2], lambda x: x[2], lambda x: x[1, 2]]
    for a in layouts:
        for b in layouts:
            expected = None
            for k in ROUNDS:
                try:
                    expected = a(X + k) * b(X - k)
                except ValueError:
                    break
                np.testing.assert_array_equal((a(there(X + k)) * b(there(X - k))).numpy(), expected)
    assert len(prepared) > 30


def test_numbers_and_three_operands(either: Any, prepared: list[int]) -> None:
    for k in ROUNDS:
        x = there(X + k)
        np.testing.assert_array_equal((x * 2.5 - 1).numpy(), (X + k) * np.float32(2.5) - 1)
        np.testing.assert_array_equal((1 - x).numpy(), 1 - (X + k))
        np.testing.assert_array_equal(tk.where(x > 5, x, there(X)).numpy(), np.where(X + k > 5, X + k, X))
        np.testing.assert_array_equal((there(X.astype(np.int32)) + x).numpy(), X + X + k)
    assert len(prepared) >= 6 * (len(ROUNDS) - 2)


def test_three_windows(either: Any, prepared: list[int]) -> None:
    """Plans of three windows distinguish layouts and dtypes of each operand."""
    for k in ROUNDS:
        x, y, c = there(X + k), there(X - k), there(X > 5)
        for a, b, chosen in ((x, y, c), (x, y[:1], c), (x[:, :1], y, c[:, 1:2]), (y, there(X.astype(np.int32)), c)):
            expected = np.where(chosen.numpy(), a.numpy(), b.numpy())
            np.testing.assert_array_equal(tk.where(chosen, a, b).numpy(), expected)
    assert len(prepared) >= 4 * (len(ROUNDS) - 2)


def test_reductions(either: Any, prepared: list[int]) -> None:
    """Each form of the kernel, results of every shape, and operands that begin elsewhere in their memory."""
    wide = np.arange(3 * 1500, dtype=np.float32).reshape(3, 1500)
    for k in ROUNDS:
        for values in (X + k, X[:, :2] - k, wide + k):
            for x, array in ((there(values), values), (there(values)[1:], values[1:]), (there(values).T, values.T)):
                for axis in (None, 0, 1):
                    for keepdims in (False, True):
                        found = tk.max(x, axis=axis, keepdims=keepdims)
                        expected = array.max(axis, keepdims=keepdims)
                        assert found.shape == expected.shape
                        np.testing.assert_array_equal(found.numpy(), expected)
                total = tk.sum(x, axis=1, dtype=tk.float64)
                np.testing.assert_array_equal(total.numpy(), array.sum(1, dtype=np.float64))
    assert len(prepared) > 100


def test_in_place(either: Any, prepared: list[int]) -> None:
    x, y, expected = there(X), there(X[0]), X.copy()
    for _ in ROUNDS:
        x.__iadd__(y)
        x[1:].__imul__(0.5)
        x.T.__isub__(1)
        expected += X[0]
        expected[1:] *= 0.5
        expected -= 1
    np.testing.assert_array_equal(x.numpy(), expected)
    assert len(prepared) >= 3 * (len(ROUNDS) - 1)


def test_in_place_with_memory_that_overlaps(emulator: Any) -> None:
    """The threads of a kernel would read what others have written; the plan of a call without overlap is not used."""
    for _ in ROUNDS:
        x, y = there(X[0]), there(X[1])
        x[1:].__iadd__(y[:-1])
    for _ in ROUNDS:
        x = there(X[0])
        x[1:].__iadd__(x[:-1])
        np.testing.assert_array_equal(x.numpy(), X[0] + np.concatenate([[0], X[0][:-1]]))


def test_work_in_several_streams(start: Any, prepared: list[int]) -> None:
    """Memory of one stream is not taken again in another one before its work is done."""
    for seed in range(6):
        emulator = start(deferred=True, seed=seed)
        x = there(X)
        streams = [current_stream(), Stream(), Stream()]
        for stream in streams[1:]:
            stream.wait_stream(streams[0])
        results = []
        for k in range(12):
            with streams[k % 3]:
                y = x + x
                for _ in range(3):
                    y = y * y - y
                results.append(y)
                del y
        for stream in streams[1:]:
            streams[0].wait_stream(stream)
        expected = X + X
        for _ in range(3):
            expected = expected * expected - expected
        for result in results:
            np.testing.assert_array_equal(result.numpy(), expected)
        del results, result, x
        emulator.stop()
    assert prepared


def test_announced_use_in_another_stream(start: Any, prepared: list[int]) -> None:
    for seed in range(6):
        emulator = start(deferred=True, seed=seed)
        side, x = Stream(), there(X)
        for k in ROUNDS:
            y = x + k
            side.wait_stream(current_stream())
            with side:
                z = y * y
            x.device.backend.record_stream(y._data.buffer, side)
            del y  # its memory must not be taken again before the work in the other stream
            w = [x * 100 for _ in range(2)]
            current_stream().wait_stream(side)
            x.device.backend.record_stream(z._data.buffer, current_stream())
            np.testing.assert_array_equal(z.numpy(), (X + k) ** 2)
            del w, z
        del x
        emulator.stop()


def test_threads(emulator: Any, prepared: list[int]) -> None:
    wrong: list[Any] = []

    def work(k: int) -> None:
        x = there(X + k)
        with Stream() if k % 2 else current_stream() as stream:
            stream.wait_stream(tk.cuda.default_stream())
            for _ in range(30):
                y = x + x
                y = y * 3 - x
            if not np.array_equal(y.numpy(), 5 * (X + k)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_another_driver_and_the_second_device(start: Any, prepared: list[int]) -> None:
    for devices in (1, 2, 1):
        emulator = start(devices=devices)
        for device in range(devices):
            for k in ROUNDS:
                x = there(X + k, f"cuda:{device}")
                y = -x + 2 * x
                assert y.device == f"cuda:{device}"
                np.testing.assert_array_equal(y.numpy(), X + k)
                x.__iadd__(y)
                np.testing.assert_array_equal(x.numpy(), 2 * (X + k))
        del x, y
        emulator.stop()


def test_memory_of_a_history_is_noted(emulator: Any) -> None:
    x = there(X)
    for _ in ROUNDS:
        x + x
    tk.cuda.record_memory_history()
    try:
        y = x + x
        blocks = [block for segment in tk.cuda.memory_snapshot() for block in segment["blocks"]]
        (block,) = [block for block in blocks if block["address"] == y._data.buffer.address]
        assert any("test_memory_of_a_history" in frame["name"] for frame in block["frames"])
    finally:
        tk.cuda.record_memory_history(None)


def test_a_failed_launch_keeps_no_memory(emulator: Any) -> None:
    x = there(X)
    for _ in ROUNDS:
        x + x
    held = tk.cuda.memory_allocated()
    for _ in range(3):
        emulator.fail_next("cuLaunchKernel*", 701)
        with pytest.raises(tk.cuda.CudaError, match=r"\[tk::add\]"):
            x + x
    assert tk.cuda.memory_allocated() == held
    np.testing.assert_array_equal((x + x).numpy(), 2 * X)


def test_a_thread_without_a_context(start: Any) -> None:
    start(devices=2)
    x = [there(X, f"cuda:{d}") for d in range(2)]
    for one in x:
        for _ in ROUNDS:
            one + one
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend([(one + one).numpy() for one in x]))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found, [2 * X, 2 * X])
