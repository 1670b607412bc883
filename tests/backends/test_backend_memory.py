"""Notes [When a buffer is freed] and [Which buffer may be used again]: memory of backends, and batches of commands."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._backends import Host, TemplateHost, window

TAKEN = 512  # bytes of the smallest size class


class Counting(TemplateHost):
    """Counts calls; two devices with a little memory each."""

    name = "counting"
    caching = True
    limit = 1 << 20

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.held = [0, 0]

    def device_count(self) -> int:
        return 2

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        if self.held[device] + nbytes > self.limit:
            self.calls.append("full")
            raise MemoryError(f"{nbytes} bytes")
        self.calls.append(nbytes)
        self.held[device] += nbytes
        buffer = super().allocate(nbytes, device)
        buffer.device = device
        return buffer

    def free(self, buffer: Any) -> None:
        self.calls.append("free")
        self.held[buffer.device] -= buffer.memory.size
        super().free(buffer)

    def taken(self) -> list[Any]:
        """The calls since the last question."""
        found, self.calls = self.calls, []
        return found


@pytest.fixture
def counting() -> Iterator[Counting]:
    backend = Counting()
    with tk.backends.register(backend):
        yield backend


def new(nbytes: int, device: int = 0, name: str = "counting") -> tk.Tensor:
    return tk.empty(nbytes, dtype=tk.uint8, device=f"{name}:{device}")


class Node:
    """What a cycle is made of."""


class TestFinalizers:
    """Note [When a buffer is freed]."""

    def test_a_buffer_is_never_finalized_before_it_is_freed(self) -> None:
        order: list[tuple[str, int]] = []

        class Driver:
            def __init__(self, nbytes: int) -> None:
                self.memory = np.zeros(nbytes, np.uint8)

            def __del__(self) -> None:
                order.append(("finalizer", id(self)))

        class Finalized(Host):
            name = "finalized"

            def allocate(self, nbytes: int, device: int = 0) -> Any:
                made = Driver(nbytes)
                self.live.add(id(made))
                return made

            def free(self, buffer: Any) -> None:
                super().free(buffer)
                order.append(("free", id(buffer)))

        backend = Finalized()
        with tk.backends.register(backend):
            gc.collect()
            for i in range(20):
                node: Any = Node()
                node.myself = node
                if i % 2:
                    node.buffers = []
                node.tensors = [tk.empty(3, device="finalized") for _ in range(i % 3 + 1)]
                if i % 2:
                    node.buffers += [x.array.buffer for x in node.tensors]
                del node
            gc.collect()
            assert backend.live == set()
        calls: dict[int, list[str]] = {}
        for what, buffer in order:
            calls.setdefault(buffer, []).append(what)
        assert len(order) == 2 * sum(i % 3 + 1 for i in range(20))
        assert all(found == ["free", "finalizer"] * (len(found) // 2) for found in calls.values())

    def test_finalizers_of_users_may_read_and_keep_tensors(self) -> None:
        seen: list[Any] = []
        kept: list[tk.Tensor] = []

        class Clears(Host):
            name = "clears"

            def free(self, buffer: Any) -> None:
                super().free(buffer)
                buffer.memory[:] = 0

        class Reader:
            def __init__(self, x: tk.Tensor, keep: bool) -> None:
                self.x = x
                self.keep = keep
                self.myself = self

            def __del__(self) -> None:
                seen.append(self.x.tolist())
                if self.keep:
                    kept.append(self.x)

        backend = Clears()
        with tk.backends.register(backend):
            for i in range(20):
                Reader(tk.asarray([float(i), 7.0], device="clears"), keep=i % 2 == 0)
            gc.collect()
            assert sorted(seen) == [[float(i), 7.0] for i in range(20)]
            assert sorted(x.tolist() for x in kept) == [[float(i), 7.0] for i in range(0, 20, 2)]
            assert len(backend.live) == 10
            kept.clear()
            assert backend.live == set()

    @pytest.mark.parametrize("caching", [False, True])
    def test_nothing_is_freed_at_exit(self, caching: bool) -> None:
        script = f"""
import sys, gc
import numpy as np, tenkey as tk
class Late(tk.backends.Backend):
    name = "late"
    caching = {caching}
    def allocate(self, nbytes, device=0): return bytearray(nbytes)
    def free(self, buffer): print("free", len(buffer), np.zeros(1).sum(), flush=True)
    def copy_from_host(self, buffer, array): buffer[: array.size] = array.tobytes()
    def copy_to_host(self, buffer, array): array[:] = np.frombuffer(buffer, np.uint8, array.size)
handle = tk.backends.register(Late())
x = tk.asarray([1.0, 2.0], device="late")
class Node: pass
node = Node(); node.myself = node; node.x = x + 1
x * 2
sys.modules["kept_to_the_end"] = node
print("end", flush=True)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] == "end"
        assert ("free 8 0.0" in done.stdout) == (not caching)

    def test_removed_and_registered_again(self) -> None:
        first, second = Counting(), Counting()
        with tk.backends.register(first):
            x = new(100)
        assert first.taken() == [TAKEN]
        with tk.backends.register(second):
            new(100)
            del x
            assert first.taken() == ["free"]  # by the backend that allocated it, which keeps nothing now
            assert second.taken() == [TAKEN]
        assert second.taken() == ["free"]
        with tk.backends.register(first):
            new(100)
            new(100)
            assert first.taken() == [TAKEN]
        assert first.held == second.held == [0, 0]
        assert first.memory_stats() == first.memory_stats()._replace(allocated_bytes=0, reserved_bytes=0)


class TestCaching:
    """Note [Which buffer may be used again]."""

    def test_buffers_are_used_again(self, counting: Counting) -> None:
        x = new(1000)
        buffer = x.array.buffer
        del x
        assert new(1024).array.buffer is buffer
        assert new(900).array.buffer is buffer
        assert counting.taken() == [1024]
        both = [new(900), new(900)]
        assert counting.taken() == [1024]
        del both
        new(900, device=1)
        new(1100)
        assert counting.taken() == [1024, 1280]
        values = tk.asarray(np.arange(200.0), device="counting")
        for _ in range(10):
            values = (values + 1) * 2 - 2
        assert values[0].item() == 0.0
        assert counting.taken() == [1792, 1792, 1792]  # no more than are in use at a time

    def test_by_device(self, counting: Counting) -> None:
        """``tk.backends.memory_statistics`` and its companions."""
        x = new(1000, 1)
        made = tk.asarray(np.ones(100), device="counting:1") * 2
        found = tk.backends.memory_statistics("counting:1")
        assert found._replace(by_operator={}) == counting.memory_stats(1)._replace(by_operator={})
        assert found.by_operator["tk::empty"].allocated_bytes == 1000
        assert found.by_operator["tk::multiply"].allocated_bytes >= 800
        assert tk.backends.memory_statistics("counting:0").by_operator == {}
        del made
        assert tk.backends.memory_statistics("counting:1").cached_bytes > 0
        tk.backends.empty_cache("counting:1")
        assert tk.backends.memory_statistics("counting:1").cached_bytes == 0
        assert tk.backends.set_memory_limit("counting:1", 4096, cached=1024) == (None, None)
        y = new(2048, 1)
        with pytest.raises(MemoryError, match=r"\[tk::empty\] needs 1,280 bytes: the limit of this device is 4,096, "):
            new(1100, 1)
        new(1100, 0)
        del y
        new(100, 1)
        new(100, 1)
        assert tk.backends.memory_statistics("counting:1").cached_bytes <= 1024
        del x
        plain = Host()
        with tk.backends.register(plain):
            tk.backends.set_memory_limit(plain.name, 1000)
            kept = new(600, name=plain.name)
            with pytest.raises(MemoryError, match="limit"):
                new(600, name=plain.name)
            del kept
            new(600, name=plain.name)

    def test_sizes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes: dict[int, int] = {}
        made = Counting()
        monkeypatch.setattr(made, "free", lambda buffer: None)
        with tk.backends.register(made):
            for asked in [*range(1, 5000, 7), *[2**k + d for k in range(9, 36) for d in (-1, 0, 1)]]:
                monkeypatch.setattr(
                    made, "allocate", lambda nbytes, device=0, n=asked: (sizes.update({n: nbytes}), object())[1]
                )
                new(asked)
                made.empty_cache()
        assert all(asked <= taken <= max(1.25 * asked, TAKEN) for asked, taken in sizes.items())
        assert len({taken for asked, taken in sizes.items() if 1024 < asked <= 2048}) == 4

    def test_statistics(self, counting: Counting) -> None:
        statistics = tk.backends.MemoryStatistics
        for device in (0, 1):
            x, y = new(1000, device), new(100, device)
            assert counting.memory_stats(device) == statistics(1100, 1100, 2, 0, 1536, 1536)
            del y
            assert counting.memory_stats(device) == statistics(1000, 1100, 2, 1, 1536, 1536, 512)
            new(200, device)
            assert counting.memory_stats(device) == statistics(1000, 1200, 3, 2, 1536, 1536, 512)
            counting.empty_cache(device)
            assert counting.memory_stats(device) == statistics(1000, 1200, 3, 2, 1024, 1536)
            del x
            counting.empty_cache()
            assert counting.memory_stats(device) == statistics(0, 1200, 3, 3, 0, 1536)
        plain = Host()
        with tk.backends.register(plain):
            kept = tk.empty(4, device="host")
            plain.empty_cache()  # has nothing to do
            assert plain.memory_stats() == statistics(16, 16, 1, 0, 16, 16)
            del kept

    def test_memory_under_pressure(self, counting: Counting) -> None:
        many = [new(100_000, device=i // 9) for i in range(10)]
        assert counting.taken() == [114688] * 10
        del many
        large = new(900_000)
        assert counting.taken() == ["full", *["free"] * 9, 917504]
        with pytest.raises(MemoryError, match="327680 bytes"):
            new(300_000)
        node: Any = [large]
        node.append(node)
        del node, large
        counting.taken()
        new(800_000)  # the collector finds what is in cycles
        assert counting.taken() == ["full", "free", 917504]
        assert counting.held == [917504, 114688]  # that of another device is kept

    def test_threads(self, counting: Counting) -> None:
        wrong: list[Any] = []

        def work(number: int) -> None:
            for i in range(150):
                x = tk.asarray(np.full(64 * (i % 3 + 1), number, np.int32), device="counting")
                if (x + x).numpy().tolist() != [2 * number] * x.size:
                    wrong.append((number, i))
                if i % 50 == 20:
                    counting.empty_cache()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        counting.empty_cache()
        assert counting.live == set()
        assert counting.memory_stats().reserved_bytes == 0


class Queue(tk.backends.Stream):
    """A stream whose work is done when the test says so."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self.done: list[bool] = []

    def record_event(self) -> Any:
        self.done.append(False)
        return Mark(self)


class Mark(tk.backends.Event):
    """The end of the queue at some time."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue.backend)
        self.queue = queue
        self.number = len(queue.done) - 1

    def query(self) -> bool:
        return self.queue.done[self.number]

    def synchronize(self) -> None:
        self.queue.done[self.number] = True


class Streams(Counting):
    name = "streams"
    stream_now: Any = None

    def current_stream(self, device: int = 0) -> Any:
        return self.stream_now


class TestStreams:
    """Note [Which buffer may be used again], with several queues."""

    @pytest.fixture
    def backend(self) -> Iterator[Streams]:
        backend = Streams()
        with tk.backends.register(backend):
            backend.stream_now = Queue(backend)
            yield backend

    def test_buffers_belong_to_a_stream(self, backend: Streams) -> None:
        for stream in (backend.stream_now, Queue(backend)):
            backend.stream_now = stream
            for _ in range(3):
                new(100, name="streams")
            assert backend.taken() == [TAKEN]

    def test_a_buffer_waits_for_other_streams(self, backend: Streams) -> None:
        other, third = Queue(backend), Queue(backend)
        x = new(100, name="streams")
        buffer = x.array.buffer
        backend.record_stream(buffer, backend.stream_now)  # its own: nothing to wait for
        for stream in (other, third, other):
            x.record_stream(stream)
        assert other.done == []
        del x
        y = new(100, name="streams")
        assert y.array.buffer is not buffer
        assert (other.done, third.done) == ([False], [False])
        other.done[0] = True
        z = new(100, name="streams")
        assert z.array.buffer is not buffer
        third.done[0] = True
        x = new(100, name="streams")
        assert x.array.buffer is buffer
        del x
        assert new(100, name="streams").array.buffer is buffer
        assert len(other.done) == 1  # a new life begins without users
        assert backend.taken() == [TAKEN] * 3

    def test_an_event_that_fails_loses_no_buffer(self, backend: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(self: Queue) -> Any:
            raise IndexError("an error that a kernel has reported")

        other = Queue(backend)
        x = new(100, name="streams")
        backend.record_stream(x.array.buffer, other)
        del x
        monkeypatch.setattr(Queue, "record_event", fails)
        with pytest.raises(IndexError, match="a kernel has reported"):
            new(200, name="streams")
        monkeypatch.undo()
        backend.empty_cache()
        assert other.done == [True]  # it has waited
        assert backend.live == set()

    def test_empty_cache_waits(self, backend: Streams) -> None:
        other = Queue(backend)
        x = new(100, name="streams")
        backend.record_stream(x.array.buffer, other)
        del x
        backend.empty_cache(1)
        assert backend.taken() == [TAKEN]
        backend.empty_cache()
        assert backend.taken() == ["free"]
        assert other.done == [True]

    def test_finalizers_call_nothing_of_the_backend(self, backend: Streams) -> None:
        """A collection may start where a lock of the backend is held."""
        other = Queue(backend)
        x = new(100, name="streams")
        backend.record_stream(x.array.buffer, other)
        del x
        assert (backend.taken(), other.done) == ([TAKEN], [])
        new(200, name="streams")
        assert other.done == [False]


class Batched(TemplateHost):
    """Queues kernels until they are submitted; an array of the host is copied at once, past the queue."""

    name = "batched"
    batching = 3

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Any] = []
        self.log: list[str] = []

    def pointwise(self, *given: Any) -> Any:
        kernel = super().pointwise(*given)
        return lambda *arguments: self.queue.append((kernel, arguments))

    def flush(self, device: int = 0) -> None:
        if self.queue:
            self.log.append(f"flush {len(self.queue)}")
        for kernel, arguments in self.queue:
            kernel(*arguments)
        self.queue.clear()

    def synchronize(self, device: int = 0) -> None:
        assert self.queue == []
        self.log.append("synchronize")

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        assert self.queue == []
        super().copy_to_host(buffer, array)

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        assert self.queue == []
        super().copy_from_host(buffer, array)


@pytest.mark.parametrize("cached", [False, True])
def test_batches(cached: bool) -> None:
    class Case(Batched):
        caching = cached

    backend = Case()
    with tk.backends.register(backend):
        y = tk.asarray([1.0, 2.0], device="batched")
        for _ in range(7):
            y = y + 1
        assert backend.log == ["flush 3", "flush 3"]
        assert y.tolist() == [8.0, 9.0]
        assert backend.log == ["flush 3", "flush 3", "flush 1", "synchronize"]
        y += 1
        y += 1
        y.copy_(tk.asarray([5.0, 6.0]))  # behind what is queued
        backend.log.clear()
        for _ in range(3):  # counted anew after each flush
            y += 1
        assert backend.log == ["flush 3"]
        assert y.tolist() == [8.0, 9.0]
        z = y * 2
        backend.log.clear()
        tk.backends.synchronize("batched")
        assert backend.log == ["flush 1", "synchronize"]
        for action in (backend.stream().synchronize, backend.stream().record_event, lambda z=z: tk.fft.fft(z)):
            z *= 2
            assert len(backend.queue) == 1
            action()
            assert backend.queue == []
        assert window(z).tolist() == [128.0, 144.0]


def test_batches_of_several_devices() -> None:
    class Two(Batched):
        name = "two"

        def __init__(self) -> None:
            super().__init__()
            self.flushed: list[int] = []

        def device_count(self) -> int:
            return 2

        def flush(self, device: int = 0) -> None:
            self.flushed.append(device)
            super().flush(device)

    backend = Two()
    with tk.backends.register(backend):
        x, y = [tk.asarray([1.0], device=f"two:{i}") for i in range(2)]
        backend.flushed.clear()
        for _ in range(4):
            x += 1
            y += 1
        assert backend.flushed == [0, 1]
        assert y.tolist() == [5.0]
        assert backend.flushed == [0, 1, 1]


def test_a_hook_that_cannot_be_called() -> None:
    class Wrong(Host):
        name = "wrong"

        def flush(self) -> None:  # type: ignore[override]
            pass

    with pytest.raises(
        tk.dispatch.RegistrationError, match=r"the method flush\(\).* cannot be called as flush\(device\)"
    ):
        tk.backends.register(Wrong())
