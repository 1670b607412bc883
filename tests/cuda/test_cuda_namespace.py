"""The namespace ``tk.cuda``: without a driver, on one device and on two."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk

ABSENT = """
import sys
import tenkey as tk
assert "tenkey.cuda" not in sys.modules and "tenkey.backends.cuda" not in sys.modules
assert tk.cuda.is_available() is False
assert tk.cuda.device_count() == 0
heavy = {"numba", "numba_cuda", "cuda.bindings.driver", "cuda.core", "nvmath", "llvmlite"} & set(sys.modules)
assert not heavy, heavy
for call in (tk.cuda.current_device, tk.cuda.synchronize, tk.cuda.current_stream, tk.cuda.memory_allocated,
             tk.cuda.mem_get_info, tk.cuda.empty_cache, tk.cuda.get_device_name, lambda: tk.cuda.set_device(0),
             tk.cuda.Stream, lambda: tk.zeros(1, device="cuda")):
    try:
        call()
    except RuntimeError as error:
        text = str(error)
        assert "[cuda]" in text and ("pip install 'tenkey[cuda]'" in text or "driver" in text), text
    else:
        raise AssertionError(call)
print("done")
"""


def test_without_a_driver() -> None:
    """Everything but the questions whether there is a device says what is missing; no heavy package is imported."""
    if tk.cuda.is_available():
        pytest.skip("this machine has a driver")
    done = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


Start = Callable[..., Any]


@pytest.fixture
def start() -> Iterator[Start]:
    pytest.importorskip("numba_cuda", reason="needs the extra cuda")
    from tenkey.testing.cuda_driver import stub_building

    if stub_building.compiler() is None:
        pytest.skip("needs a C compiler")
    running: list[Any] = []

    def started(**options: Any) -> Any:
        running.append(tk.testing.cuda_emulator(**{"guard": 0} | options))
        return running[-1]

    yield started
    while running:
        running.pop().stop()


class TestDevices:
    def test_properties(self, start: Start) -> None:
        start(devices=2, cc=(8, 0), memory=1 << 31)
        assert tk.cuda.is_available()
        assert tk.cuda.device_count() == 2
        found = tk.cuda.get_device_properties(1)
        assert (found.major, found.minor) == tk.cuda.get_device_capability("cuda:1") == (8, 0)
        assert tk.cuda.get_device_name() == found.name
        assert found.total_memory == 1 << 31
        free, total = tk.cuda.mem_get_info()
        assert 0 < free <= total == 1 << 31

    def test_the_current_device(self, start: Start) -> None:
        start(devices=2)
        assert tk.cuda.current_device() == 0
        with tk.cuda.device(1):
            assert tk.cuda.current_device() == 1
            assert tk.zeros(2, device="cuda").device == "cuda:1"
            with tk.cuda.device("cuda:0"):
                assert tk.cuda.current_device() == 0
            assert tk.cuda.current_device() == 1
        assert tk.cuda.current_device() == 0
        tk.cuda.set_device("cuda:1")
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(tk.cuda.current_device()))
        thread.start()
        thread.join()
        assert (tk.cuda.current_device(), found) == (1, [0])
        tk.cuda.set_device(0)

    def test_devices_that_do_not_exist(self, start: Start) -> None:
        start()
        for call in (tk.cuda.set_device, tk.cuda.get_device_name, tk.cuda.synchronize, tk.cuda.memory_allocated):
            with pytest.raises(ValueError, match=r"\[cuda\].*device 1 does not exist: there are 1"):
                call(1)
            with pytest.raises(ValueError, match="got the device 'cpu'"):
                call("cpu")

    def test_work_on_the_second_device(self, start: Start) -> None:
        start(devices=2, deferred=True)
        x = tk.asarray(np.arange(5.0), device="cuda:1")
        for _ in range(4):
            x = x + 1
        assert x.tolist() == [4.0, 5.0, 6.0, 7.0, 8.0]
        with tk.cuda.device(1):
            assert (x * 2).sum().item() == 60.0

    def test_what_devices_can(self, start: Start) -> None:
        assert tk.cuda.is_available() or not tk.cuda.is_bf16_supported()
        start(devices=2)
        assert tk.cuda.is_bf16_supported()
        assert tk.cuda.can_device_access_peer(0, "cuda:1")
        assert not tk.cuda.can_device_access_peer(1, 1)
        with pytest.raises(ValueError, match="device 2 does not exist"):
            tk.cuda.can_device_access_peer(0, 2)

    def test_one_seed_for_all_devices(self, start: Start) -> None:
        start()
        tk.cuda.manual_seed(5)
        first = tk.random.normal((4,), device="cuda").tolist()
        tk.random.seed(5)
        assert tk.random.normal((4,)).tolist() == first

    def test_options_are_not_devices(self, start: Start) -> None:
        start(devices=2)
        with pytest.raises(TypeError, match="got the device True"):
            tk.cuda.Event(True)


class TestStreams:
    def test_set_stream(self, start: Start) -> None:
        start(devices=2)
        side, other = tk.cuda.Stream(), tk.cuda.Stream("cuda:1")
        tk.cuda.set_stream(None)
        assert tk.cuda.current_stream() == tk.cuda.default_stream()
        tk.cuda.set_stream(side)
        assert (tk.cuda.current_stream(), tk.cuda.current_device()) == (side, 0)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(tk.cuda.current_stream()))
        thread.start()
        thread.join()
        assert found == [tk.cuda.default_stream()]
        with tk.cuda.stream(tk.cuda.default_stream()):
            tk.cuda.set_stream(other)
            assert (tk.cuda.current_stream(), tk.cuda.current_device()) == (other, 1)
            assert tk.ones(2, device="cuda").device == "cuda:1"
            assert tk.cuda.current_stream(0) == tk.cuda.default_stream(0)
        assert (tk.cuda.current_stream(), tk.cuda.current_device()) == (side, 0)
        tk.cuda.set_stream(tk.cuda.default_stream())
        assert tk.cuda.current_stream() == tk.cuda.default_stream()

    def test_work_goes_to_the_stream_that_was_set(self, start: Start) -> None:
        emulator = start(deferred=True)
        x = tk.ones(3, device="cuda")
        tk.cuda.synchronize()
        tk.cuda.set_stream(tk.cuda.Stream())
        y = x + 1
        assert not tk.cuda.current_stream().query()
        assert tk.cuda.default_stream().query()
        assert y.tolist() == [2.0, 2.0, 2.0]
        emulator.stop()

    def test_events_that_let_the_core_sleep(self, start: Start) -> None:
        start()
        begin, end = [tk.cuda.Event(enable_timing=True, blocking=True) for _ in range(2)]
        begin.record()
        x = tk.ones(3, device="cuda") + 1
        end.record()
        end.synchronize()
        assert begin.elapsed_time(end) >= 0
        with pytest.raises(ValueError, match="enable_timing=True"):
            begin.elapsed_time(tk.cuda.Event(blocking=True))
        assert x.tolist() == [2, 2, 2]

    def test_whether_the_stream_is_captured(self, start: Start) -> None:
        start()
        seen = []

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            seen.append(tk.cuda.is_current_stream_capturing())
            return x + 1

        for _ in range(3):
            step(tk.ones(3, device="cuda"))
        assert seen == [False, True]
        assert not tk.cuda.is_current_stream_capturing()

    def test_stream_is_a_context_manager(self, start: Start) -> None:
        start(devices=2)
        side = tk.cuda.Stream(1)
        with tk.cuda.stream(side):
            assert tk.cuda.current_stream() == side
            assert tk.cuda.current_device() == 1
        with tk.cuda.stream(None):
            assert tk.cuda.current_stream() == tk.cuda.default_stream()
        assert tk.cuda.current_device() == 0
        assert tk.cuda.current_stream(1) == tk.cuda.default_stream("cuda:1")

    def test_gradients_run_in_the_stream_of_the_forward_call(self, start: Start) -> None:
        for seed in range(4):
            emulator = start(deferred=True, seed=seed)
            w = tk.asarray(np.arange(4, dtype=np.float32), device="cuda").requires_grad_()
            side = tk.cuda.Stream()
            side.wait_stream(tk.cuda.current_stream())
            with tk.cuda.stream(side):
                loss = (w * w * w).sum()
            tk.cuda.current_stream().wait_stream(side)
            loss.backward()
            np.testing.assert_allclose(w.grad.numpy(), 3 * np.arange(4) ** 2)
            del loss, w
            emulator.stop()


class TestMemory:
    def test_counts(self, start: Start) -> None:
        start()
        before = tk.cuda.memory_allocated()
        tk.cuda.reset_peak_memory_stats()
        x = tk.zeros((256, 1024), device="cuda")
        y = x + 1
        assert tk.cuda.memory_allocated() - before == 2 << 20
        del y
        assert tk.cuda.memory_allocated() - before == 1 << 20
        assert tk.cuda.max_memory_allocated() - before == 2 << 20
        tk.cuda.reset_peak_memory_stats()
        assert tk.cuda.max_memory_allocated() - before == 1 << 20
        assert tk.cuda.memory_reserved() >= tk.cuda.memory_allocated()
        assert tk.cuda.max_memory_reserved() >= tk.cuda.memory_reserved()
        summary = tk.cuda.memory_summary()
        assert "held by tensors" in summary
        assert "MiB" in summary
        assert len({len(line) for line in summary.splitlines()[:6]}) == 1

    def test_blocks_that_are_taken_again_at_once_are_counted(self, start: Start) -> None:
        start()
        x = tk.ones(4, device="cuda")
        for _ in range(4):
            x + 1
        names = ("allocation.all.allocated", "allocation.all.freed", "allocated_bytes.all.allocated")
        before = [tk.cuda.memory_stats()[name] for name in names]
        held = tk.cuda.memory_allocated()
        for _ in range(10):
            x + 1
        after = [tk.cuda.memory_stats()[name] for name in names]
        assert [b - a for a, b in zip(before, after)] == [10, 10, 10 * 512]
        assert tk.cuda.memory_allocated() == held

    def test_empty_cache(self, start: Start) -> None:
        start(devices=2)
        for device in range(2):
            tk.zeros((512, 1024), device=f"cuda:{device}")
        assert tk.cuda.memory_reserved(0) > 0
        tk.cuda.empty_cache(0)
        assert tk.cuda.memory_reserved(0) < tk.cuda.memory_reserved(1)
        tk.cuda.empty_cache()
        assert tk.cuda.memory_reserved(1) < 2 << 20
