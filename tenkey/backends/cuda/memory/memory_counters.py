"""Counters of the memory of a device, under the names that PyTorch gives them.

Note [Peaks]
~~~~~~~~~~~~
An allocation only adds to three counters. A peak can only have been reached immediately before memory is given back, so
the peaks are brought up to date there, and where the counters are read: a loop that allocates many blocks and frees
them at its end does this once. Guarded by ``tests/backends/cuda/memory/test_memory_counters.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from .segments import PENDING, USED, Segment

__all__ = ["Counters", "Metric", "Tally"]

_KINDS: Final = ("all", "large_pool", "small_pool")


class Metric:
    """A number that goes up and down: its present value, its largest one, and the sums of its changes."""

    __slots__ = ("allocated", "current", "freed", "peak")

    def __init__(self) -> None:
        self.current = self.peak = self.allocated = self.freed = 0

    def change(self, by: int) -> None:
        """Add a positive or negative number."""
        self.current += by
        if by > 0:
            self.allocated += by
            self.peak = max(self.peak, self.current)
        else:
            self.freed -= by

    def become(self, value: int) -> None:
        """Change to a value."""
        self.change(value - self.current)

    def reset_peak(self) -> None:
        """Forget larger values than the present one."""
        self.peak = self.current

    def reset_sums(self) -> None:
        """Begin the sums of changes anew."""
        self.allocated = self.freed = 0

    def rows(self, name: str) -> dict[str, int]:
        """Return the four numbers with their names."""
        return {f"{name}.{part}": getattr(self, part) for part in ("current", "peak", "allocated", "freed")}


class Tally:
    """Blocks of one kind, small or large: how many were taken and given back, of how many bytes, requested and real."""

    __slots__ = (
        "base", "changed", "given", "given_bytes", "given_requested", "peak", "peak_bytes", "peak_requested", "taken",
        "taken_bytes", "taken_requested",
    )  # fmt: skip

    def __init__(self) -> None:
        self.taken = self.taken_bytes = self.taken_requested = 0
        self.given = self.given_bytes = self.given_requested = 0
        self.peak = self.peak_bytes = self.peak_requested = 0
        self.base = [(0, 0)] * 3  # what was taken and given back when the sums were last reset
        self.changed = False

    def raise_peaks(self) -> None:
        """Bring the peaks up to date: Note [Peaks]."""
        self.changed = False
        self.peak = max(self.peak, self.taken - self.given)
        self.peak_bytes = max(self.peak_bytes, self.taken_bytes - self.given_bytes)
        self.peak_requested = max(self.peak_requested, self.taken_requested - self.given_requested)

    def reset_peaks(self) -> None:
        """Forget larger values than the present ones."""
        self.peak = self.peak_bytes = self.peak_requested = 0
        self.raise_peaks()

    def parts(self) -> list[tuple[int, int, int]]:
        """Return (taken, given back, peak) of blocks, bytes, and requested bytes."""
        return [
            (self.taken, self.given, self.peak),
            (self.taken_bytes, self.given_bytes, self.peak_bytes),
            (self.taken_requested, self.given_requested, self.peak_requested),
        ]


class Counters:
    """All counters of one device. The allocator changes them under its lock."""

    def __init__(self) -> None:
        self.large = Tally()
        self.small = Tally()
        self._all = Tally()
        self._metrics = {
            (name, kind): Metric()
            for name in ("segment", "reserved_bytes", "active", "active_bytes", "inactive_split",
                         "inactive_split_bytes")
            for kind in _KINDS
        }  # fmt: skip
        self.events = dict.fromkeys(
            ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"), 0
        )

    def raise_peaks(self) -> None:
        """Bring the peaks up to date, before memory is given back: Note [Peaks]."""
        large, small, both = self.large, self.small, self._all
        if not (large.changed or small.changed):
            return
        if large.changed:
            large.raise_peaks()
        if small.changed:
            small.raise_peaks()
        self._add_up()
        both.raise_peaks()

    def _add_up(self) -> None:
        large, small, both = self.large, self.small, self._all
        both.taken = large.taken + small.taken
        both.given = large.given + small.given
        both.taken_bytes = large.taken_bytes + small.taken_bytes
        both.given_bytes = large.given_bytes + small.given_bytes
        both.taken_requested = large.taken_requested + small.taken_requested
        both.given_requested = large.given_requested + small.given_requested

    def change(self, name: str, is_small: bool, by: int) -> None:
        """Change a counter of one kind and that of all."""
        self._metrics[name, "all"].change(by)
        self._metrics[name, "small_pool" if is_small else "large_pool"].change(by)

    @property
    def reserved(self) -> int:
        """The bytes of all segments."""
        return self._metrics["reserved_bytes", "all"].current

    @property
    def allocated(self) -> int:
        """The bytes of all blocks in use."""
        return self.large.taken_bytes - self.large.given_bytes + self.small.taken_bytes - self.small.given_bytes

    def observe(self, segments: Iterable[Segment]) -> None:
        """Bring up to date what follows from the blocks: which are active, and which rests of segments are unused.

        Called where memory is reserved or freed, and where the counters are read, so the peaks of ``inactive_split``
        are those at these times.
        """
        self.raise_peaks()
        found = {key: 0 for key in self._metrics if key[0].startswith(("active", "inactive"))}
        for segment in segments:
            kind = "small_pool" if segment.is_small else "large_pool"
            for block in segment.blocks():
                if block.state in (USED, PENDING):
                    name = "active"
                elif block.previous is None and block.next is None:
                    continue
                else:
                    name = "inactive_split"
                found[name, kind] += 1
                found[f"{name}_bytes", kind] += block.size
        for name in ("active", "active_bytes", "inactive_split", "inactive_split_bytes"):
            found[name, "all"] = found[name, "large_pool"] + found[name, "small_pool"]
        for key, value in found.items():
            self._metrics[key].become(value)

    def reset_peaks(self) -> None:
        """Make the present values the peaks."""
        self.raise_peaks()
        self._add_up()
        for tally in (self.large, self.small, self._all):
            tally.reset_peaks()
        for metric in self._metrics.values():
            metric.reset_peak()

    def reset_sums(self) -> None:
        """Begin the sums of changes, and the counts of events, anew."""
        self.raise_peaks()
        self._add_up()
        for tally in (self.large, self.small, self._all):
            tally.base = [(taken, given) for taken, given, _ in tally.parts()]
        for metric in self._metrics.values():
            metric.reset_sums()
        for name in self.events:
            self.events[name] = 0

    def table(self) -> dict[str, Any]:
        """Return all counters by the names of PyTorch's ``torch.cuda.memory_stats``."""
        made: dict[str, Any] = {}
        self.raise_peaks()
        self._add_up()
        for kind, tally in zip(_KINDS, (self._all, self.large, self.small)):
            for name, (taken, given, peak), (taken_before, given_before) in zip(
                ("allocation", "allocated_bytes", "requested_bytes"), tally.parts(), tally.base
            ):
                numbers = (taken - given, peak, taken - taken_before, given - given_before)
                for part, number in zip(("current", "peak", "allocated", "freed"), numbers):
                    made[f"{name}.{kind}.{part}"] = number
        for (name, kind), metric in self._metrics.items():
            made.update(metric.rows(f"{name}.{kind}"))
        for kind in _KINDS:  # the peak of what is active is at least that of what is allocated
            for name, allocated in (("active", "allocation"), ("active_bytes", "allocated_bytes")):
                key = f"{name}.{kind}.peak"
                made[key] = max(made[key], made[f"{allocated}.{kind}.peak"])
        for name in ("oversize_allocations", "oversize_segments"):
            made.update(Metric().rows(name))
        made["max_split_size"] = -1
        made.update(self.events)
        return dict(sorted(made.items()))
