"""The allocator of a device on the emulator: queues, finalizers, lack of memory, limits."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.device.driver import CudaError, OutOfMemoryError
from tenkey.backends.cuda.device.streams import Stream, current_stream
from tenkey.backends.cuda.memory.device_memory import POOLS
from tenkey.backends.cuda.memory.segments import PENDING, Arena, Block
from tests.backends.cuda._emulated import emulated, on_device

MIB = 1 << 20


def address(x: tk.Tensor) -> int:
    return int(x.array.buffer.address) + int(x.array.offset)


class TestQueues:
    def test_memory_is_used_again_in_its_queue_at_once(self) -> None:
        with emulated() as emulator:
            x = on_device(np.zeros(1000))
            first = address(x)
            emulator.reset_counts()
            del x
            y = on_device(np.zeros(1000))
            assert address(y) == first
            assert emulator.counts.allocations == 0

    @pytest.mark.parametrize("seed", range(8))
    def test_memory_that_another_device_uses(self, seed: int) -> None:
        with emulated(devices=2, deferred=True, seed=seed):
            far = Stream("cuda:1")
            x = on_device(np.zeros(1000))
            tk.cuda.synchronize()
            with far:
                y = tk.ones(1000, device="cuda:1")
                sums = [y + i for i in range(20)]
            x.record_stream(far)
            del x
            POOLS.of(0).stats()
            assert far.query()
            assert len(sums) == 20

    def test_a_thread_without_a_context_waits_for_other_queues(self) -> None:
        with emulated(deferred=True):
            side = Stream()
            x = on_device(np.zeros(1000))
            tk.cuda.synchronize()
            with side:
                y = [x + 1 for _ in range(20)]  # each question lets one of them be done
            x.record_stream(side)
            first, allocator = address(x), POOLS.of(0)
            del x, y
            allocator.stats()
            found: list[int] = []

            def allocate() -> None:
                found.append(allocator.take(4000, current_stream().handle).address)

            thread = threading.Thread(target=allocate)
            thread.start()
            thread.join()
            assert found != [first]

    def test_other_queues_have_other_memory(self) -> None:
        with emulated():
            x = on_device(np.zeros(1000))
            first = address(x)
            del x
            with Stream():
                y = on_device(np.zeros(1000))
                assert address(y) != first
            assert address(on_device(np.zeros(1000))) == first

    def test_devices_have_their_own(self) -> None:
        with emulated(devices=2):
            x, y = on_device([1.0]), on_device([1.0], device="cuda:1")
            assert {allocator.device for allocator in POOLS.all()} == {0, 1}
            assert x.array.buffer.device == 0
            assert y.array.buffer.device == 1

    def test_recorded_memory_waits_for_the_other_queue(self) -> None:
        with emulated(deferred=True):
            side = Stream()
            x = on_device(np.zeros(1000))
            block = x.array.buffer
            backend = x.device.backend
            backend.record_stream(block, side)
            backend.record_stream(block, current_stream())  # its own: nothing to wait for
            assert block.users == {side.handle}
            with side:
                busy = on_device(np.zeros(4))  # queued work in the other queue
            del x
            y = on_device(np.zeros(1000))
            assert address(y) != block.address
            assert block.state == PENDING
            side.synchronize()
            z = on_device(np.zeros(1000))
            assert address(z) == block.address
            assert block.users is None
            del busy, y, z

    def test_threads(self) -> None:
        with emulated():
            failures: list[BaseException] = []

            def work(number: int) -> None:
                try:
                    kept = []
                    for i in range(150):
                        kept.append(on_device(np.full(100 + i, number)))
                        if i % 3 == 0:
                            assert set(kept.pop(0).tolist()) == {number}
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures
            gc.collect()
            assert POOLS.of(0).stats()["allocation.all.current"] == 0


class TestFinalizers:
    def test_giving_back_takes_no_lock(self) -> None:
        with emulated():
            x = on_device([1.0])
            allocator = POOLS.of(0)
            done = threading.Event()
            holder: list[Any] = [x]
            del x

            def drop() -> None:
                holder.clear()
                done.set()

            with allocator._lock:  # as during a request of this thread
                thread = threading.Thread(target=drop)
                thread.start()
                assert done.wait(10), "a finalizer waits for the lock of the allocator"
            thread.join()

    def test_a_finalizer_may_allocate_in_the_middle_of_a_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with emulated():
            on_device([1.0])
            made: list[tk.Tensor] = []
            plain = Arena.take

            def interrupted(self: Arena, size: int) -> Block | None:
                if not made:
                    made.append(tk.empty(10, device="cuda"))
                return plain(self, size)

            monkeypatch.setattr(Arena, "take", interrupted)
            outer = tk.empty(5000, device="cuda")
            monkeypatch.undo()
            assert made
            spans = sorted((address(t), address(t) + t.array.buffer.size) for t in (outer, made[0]))
            assert spans[0][1] <= spans[1][0]
            made.clear()
            del outer
            POOLS.empty()
            assert POOLS.of(0).stats()["reserved_bytes.all.current"] == 0

    def test_nothing_is_closed_at_the_end_of_the_interpreter(self) -> None:
        program = (
            "import tenkey as tk\n"
            "emulator = tk.testing.cuda_emulator()\n"
            "x = tk.ones(10, device='cuda'); y = x.to('cpu', non_blocking=True)\n"
            "class Late:\n"
            "    def __init__(self): self.x = tk.ones(3, device='cuda'); self.me = self\n"
            "late = Late()\n"
        )
        with emulated():
            pass
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class TestLackOfMemory:
    def test_what_is_kept_is_freed_before_an_error(self) -> None:
        with emulated(spare=80 * MIB) as emulator:
            before = emulator.held()[1]
            x = tk.empty(50 * MIB, dtype=tk.uint8, device="cuda")
            del x
            y = tk.empty(70 * MIB, dtype=tk.uint8, device="cuda")
            stats = POOLS.of(0).stats()
            assert stats["num_alloc_retries"] == 1
            assert stats["num_ooms"] == 0
            assert emulator.held()[1] - before == 70 * MIB
            del y

    def test_tensors_in_cycles_are_freed(self) -> None:
        with emulated(spare=80 * MIB):
            gc.disable()
            try:
                cycle: list[Any] = [tk.empty(50 * MIB, dtype=tk.uint8, device="cuda")]
                cycle.append(cycle)
                del cycle
                assert tk.empty(70 * MIB, dtype=tk.uint8, device="cuda").shape == (70 * MIB,)
            finally:
                gc.enable()

    def test_pending_memory_is_waited_for(self) -> None:
        with emulated(spare=80 * MIB, deferred=True):
            side = Stream()
            x = tk.empty(50 * MIB, dtype=tk.uint8, device="cuda")
            x.device.backend.record_stream(x.array.buffer, side)
            with side:
                busy = on_device(np.zeros(4))
            del x
            assert tk.empty(70 * MIB - 1, dtype=tk.uint8, device="cuda").size == 70 * MIB - 1
            del busy

    def test_the_error_says_what_is_held(self) -> None:
        with emulated(spare=80 * MIB):
            x = tk.empty(50 * MIB, dtype=tk.uint8, device="cuda")
            with pytest.raises(OutOfMemoryError) as caught:
                tk.empty(40_000_000, dtype=tk.uint8, device="cuda")
            text = str(caught.value)
            total = tk.cuda.mem_get_info()[1]
            for part in ("[tk::empty]", "40,000,000 bytes", "cuda:0", f"{total:,}", f"{50 * MIB:,}", "checkpoint"):
                assert part in text
            assert isinstance(caught.value, MemoryError)
            assert POOLS.of(0).stats()["num_ooms"] == 1
            del x
            assert tk.empty(40_000_000, dtype=tk.uint8, device="cuda").size == 40_000_000

    def test_an_error_of_the_driver_is_not_lack_of_memory(self) -> None:
        with emulated() as emulator:
            on_device([1.0])
            POOLS.empty()
            emulator.fail_next("cuMemAlloc*", 999)
            with pytest.raises(CudaError, match="999"):
                tk.empty(10, device="cuda")
            assert tk.empty(10, device="cuda").shape == (10,)

    def test_a_fraction_limits_the_process(self) -> None:
        with emulated(spare=120 * MIB):
            fraction = 60 * MIB / tk.cuda.mem_get_info()[1]
            tk.cuda.set_per_process_memory_fraction(fraction)
            try:
                assert tk.cuda.get_per_process_memory_fraction() == fraction
                x = tk.empty(50 * MIB, dtype=tk.uint8, device="cuda")
                with pytest.raises(OutOfMemoryError, match="limit of this process is 62,914,5"):
                    tk.empty(12 * MIB, dtype=tk.uint8, device="cuda")
                del x
            finally:
                tk.cuda.set_per_process_memory_fraction(1)
            tk.empty(90 * MIB, dtype=tk.uint8, device="cuda")
            for wrong in (-0.1, 1.1):
                with pytest.raises(ValueError, match="0 to 1"):
                    tk.cuda.set_per_process_memory_fraction(wrong)

    def test_the_limits_of_all_backends(self) -> None:
        with emulated():
            on_device([1.0])
            tk.backends.empty_cache("cuda")
            before = tk.backends.set_memory_limit("cuda", 8 * MIB, cached=0)
            try:
                with pytest.raises(MemoryError):
                    tk.empty(12 * MIB, dtype=tk.uint8, device="cuda")
                x = tk.empty(MIB // 2, dtype=tk.uint8, device="cuda")
                del x
                tk.empty(10, device="cuda")  # what was given back is not kept
                assert tk.backends.memory_statistics("cuda").cached_bytes <= 2 * MIB
            finally:
                tk.backends.set_memory_limit("cuda", before[0], cached=before[1])


def test_empty_cache_frees_segments_without_tensors() -> None:
    with emulated() as emulator:
        before = emulator.held()[1]
        x, y = on_device(np.zeros(10)), tk.empty(30 * MIB, dtype=tk.uint8, device="cuda")
        del y
        assert emulator.held()[1] - before == 32 * MIB
        tk.cuda.empty_cache()
        assert emulator.held()[1] - before == 2 * MIB
        del x
        tk.cuda.empty_cache()
        assert emulator.held()[1] == before
        assert tk.cuda.memory_reserved() == 0


def test_emptying_waits_for_queued_work() -> None:
    with emulated(deferred=True):
        x = on_device(np.arange(4 * MIB))
        y = x + 0  # a kernel that reads it later
        del x
        tk.cuda.empty_cache()
        np.testing.assert_array_equal(y.cpu().numpy(), np.arange(4 * MIB, dtype=np.float32))
