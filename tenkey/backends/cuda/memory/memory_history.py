"""The history of a device's memory: what was allocated and freed, where in the program, and snapshots of it.

Note [Where a block was allocated]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
While history is recorded, each allocation and each return of a block keeps the stack of the Python program as pairs of
a code object and a line, which costs a fraction of what text would cost; text is made for a snapshot. Entries are
appended to a deque by one atomic operation, because a block may be given back by a finalizer, at any place.
Guarded by ``tests/backends/cuda/memory/test_memory_history.py``.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from .segments import PENDING, USED, Segment

__all__ = ["Entry", "History", "described", "dump", "segment_rows", "trace_rows"]

Frames = tuple[tuple[CodeType, int], ...]

_STATES: Final = {USED: "active_allocated", PENDING: "active_pending_free"}
_PROTOCOL: Final = 4  # the newest that the viewer reads


class Entry(NamedTuple):
    """One event: an action under the name that PyTorch gives it."""

    action: str
    address: int
    size: int
    stream: int
    frames: Frames
    time_us: int
    pool: tuple[int, int]


class History:
    """The latest events of a device; ``stacks`` says whether each keeps the place in the program."""

    def __init__(self, most: int, *, stacks: bool, events: bool) -> None:
        self.stacks = stacks
        self.events = events
        self.entries: deque[Entry] = deque(maxlen=most)

    def frames(self) -> Frames:
        """Return the stack of the program from the caller on, the innermost first, if stacks are kept."""
        frame: FrameType | None = sys._getframe(1) if self.stacks else None
        found = []
        while frame is not None:
            found.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return tuple(found)

    def note(
        self, action: str, address: int, size: int, stream: int, frames: Frames, pool: tuple[int, int] = (0, 0)
    ) -> None:
        """Append an event."""
        if self.events:
            self.entries.append(Entry(action, address, size, stream, frames, time.time_ns() // 1000, pool))


def described(frames: Frames | None) -> list[dict[str, Any]]:
    """Return a stack in the form of a snapshot: file name, line and function of each frame."""
    return [{"filename": code.co_filename, "line": line or 0, "name": code.co_qualname} for code, line in frames or ()]


def segment_rows(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """Return segments and their blocks in the form of a snapshot, by address."""
    rows = []
    for segment in sorted(segments, key=lambda one: one.address):
        blocks: list[dict[str, Any]] = []
        sums = {"allocated": 0, "active": 0, "requested": 0}
        for block in segment.blocks():
            state = _STATES.get(block.state, "inactive")
            in_use = block.state in (USED, PENDING)
            sums["allocated"] += block.size * (block.state == USED)
            sums["active"] += block.size * in_use
            sums["requested"] += block.requested * in_use
            blocks.append(
                {
                    "address": block.address, "size": block.size,
                    "requested_size": block.requested if in_use else 0, "state": state,
                    "frames": described(block.frames) if in_use else [],
                }
            )  # fmt: skip
        rows.append(
            {
                "device": segment.arena.device, "address": segment.address, "total_size": segment.size,
                "allocated_size": sums["allocated"], "active_size": sums["active"],
                "requested_size": sums["requested"], "stream": segment.arena.stream,
                "segment_type": "small" if segment.is_small else "large",
                "segment_pool_id": segment.arena.pool_id, "is_expandable": False,
                "frames": described(segment.frames), "blocks": blocks,
            }
        )  # fmt: skip
    return rows


def trace_rows(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return events in the form of a snapshot."""
    rows = []
    for entry in [*entries]:
        row = {
            "action": entry.action, "addr": entry.address, "size": entry.size, "stream": entry.stream,
            "time_us": entry.time_us, "frames": described(entry.frames), "segment_pool_id": entry.pool,
        }  # fmt: skip
        if entry.action == "oom":  # its address is that of nothing: the bytes that the device had left
            row["device_free"] = row.pop("addr")
        rows.append(row)
    return rows


def dump(snapshot: dict[str, Any], file: str | Path) -> None:
    """Write a snapshot for PyTorch's viewer, https://pytorch.org/memory_viz.

    The viewer has its own reader of pickles, which knows numbers, strings, lists and dicts up to protocol 4.
    """
    Path(file).write_bytes(pickle.dumps(snapshot, protocol=_PROTOCOL))
