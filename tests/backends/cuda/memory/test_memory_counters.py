"""The counters of the allocator against a log that is summed up by hand. No driver is needed."""

from __future__ import annotations

import random

import pytest

from tenkey.backends.cuda.memory.allocator import DeviceAllocator
from tenkey.backends.cuda.memory.segments import Block

# The names of torch.cuda.memory_stats (documentation of PyTorch 2.9) without those of private pools.
METRICS = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
    "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
EVENTS = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")
MIB = 1 << 20


@pytest.fixture
def allocator(monkeypatch: pytest.MonkeyPatch) -> DeviceAllocator:
    """An allocator whose driver only counts addresses up."""
    made = DeviceAllocator(0)
    next_address = [1 << 40]

    def allocate(nbytes: int, arena: object) -> int:
        next_address[0] += nbytes + 4096
        return next_address[0] - nbytes - 4096

    monkeypatch.setattr(made, "_allocate", allocate)
    return made


def test_names(allocator: DeviceAllocator) -> None:
    expected = {f"{name}.{kind}.{part}" for name in METRICS for kind in ("all", "large_pool", "small_pool")
                for part in ("current", "peak", "allocated", "freed")}  # fmt: skip
    expected |= {*EVENTS, "max_split_size"}
    expected |= {f"oversize_{n}.{part}" for n in ("allocations", "segments")
                 for part in ("current", "peak", "allocated", "freed")}  # fmt: skip
    assert set(allocator.stats()) == expected


class Log:
    """What was taken and given back, with the numbers that follow."""

    def __init__(self) -> None:
        self.live: list[tuple[Block, int]] = []
        self.rows = {kind: [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]] for kind in ("all", "small_pool", "large_pool")}

    def note(self, block: Block, nbytes: int, sign: int) -> None:
        for kind in ("all", "small_pool" if block.segment.size == 2 * MIB else "large_pool"):
            current, peak, up, down = self.rows[kind]
            for i, n in enumerate((1, block.size, nbytes)):
                current[i] += sign * n
                peak[i] = max(peak[i], current[i])
                (up if sign > 0 else down)[i] += n


@pytest.mark.parametrize("seed", range(3))
def test_numbers(allocator: DeviceAllocator, seed: int) -> None:
    rng = random.Random(seed)
    log = Log()
    for step in range(800):
        if log.live and rng.random() < 0.48:
            block, nbytes = log.live.pop(rng.randrange(len(log.live)))
            log.note(block, nbytes, -1)
            allocator.give(block)
        else:
            nbytes = rng.choice([rng.randrange(1, 5000), rng.randrange(MIB, 4 * MIB)])
            block = allocator.take(nbytes, 0)
            log.note(block, nbytes, +1)
            log.live.append((block, nbytes))
        if step % 50 == 0 or step == 799:
            found = allocator.stats()
            for kind, numbers in log.rows.items():
                for part, values in zip(("current", "peak", "allocated", "freed"), numbers, strict=True):
                    names = ("allocation", "allocated_bytes", "requested_bytes")
                    assert [found[f"{name}.{kind}.{part}"] for name in names] == values, (kind, part, step)
            segments = allocator.segments()
            assert found["segment.all.current"] == len(segments)
            assert found["reserved_bytes.all.current"] == sum(s.size for s in segments)
            assert found["active_bytes.all.current"] == sum(b.size for b, _ in log.live)
            inside = sum(
                b.size
                for s in segments
                for b in s.blocks()
                if all(b is not x for x, _ in log.live) and b.size != s.size
            )
            assert found["inactive_split_bytes.all.current"] == inside
            for name in METRICS:
                for kind in ("all", "small_pool", "large_pool"):
                    key = f"{name}.{kind}"
                    assert found[f"{key}.peak"] >= found[f"{key}.current"] >= 0
                    assert found[f"{key}.allocated"] - found[f"{key}.freed"] == found[f"{key}.current"]


def test_resets(allocator: DeviceAllocator) -> None:
    a, b = allocator.take(1000, 0), allocator.take(3 * MIB, 0)
    allocator.give(b)
    assert allocator.stats()["allocated_bytes.all.peak"] == 1024 + b.size
    allocator.reset_peaks()
    stats = allocator.stats()
    assert stats["allocated_bytes.all.peak"] == stats["allocated_bytes.all.current"] == 1024
    assert stats["allocation.all.allocated"] == 2
    allocator.reset_sums()
    stats = allocator.stats()
    assert (stats["allocation.all.allocated"], stats["allocation.all.freed"]) == (0, 0)
    assert stats["allocation.all.current"] == 1
    allocator.give(a)
    stats = allocator.stats()
    assert (stats["allocation.all.allocated"], stats["allocation.all.freed"]) == (0, 1)
    assert stats["allocation.all.current"] == 0


def test_a_peak_between_two_readings_is_found(allocator: DeviceAllocator) -> None:
    blocks = [allocator.take(512, 0) for _ in range(7)]
    while blocks:
        allocator.give(blocks.pop())
    allocator.take(512, 0)
    assert allocator.stats()["allocation.all.peak"] == 7
    assert allocator.stats()["allocated_bytes.small_pool.peak"] == 7 * 512
