"""Functions of ``tk.cuda`` that concern memory: limits, history, snapshots, pinned memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ....core.device import Device
from ..device.contexts import check, device_count
from ..device.streams import index_of
from . import pinned
from .device_memory import POOLS
from .memory_history import History, dump

__all__ = [
    "get_per_process_memory_fraction", "host_memory_stats", "memory_snapshot", "record_memory_history",
    "reset_accumulated_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def memory_snapshot(
    device: Device | str | int | None = None, *, file: str | Path | None = None
) -> list[dict[str, Any]]:
    """Return the segments of memory that the driver gave and the blocks in them, as ``torch.cuda.memory_snapshot``.

    The segments are those of one device, or of all that were used. Each block says how large it is, whether a tensor
    uses it, and after :func:`record_memory_history` where in the program it was allocated. With ``file``, a snapshot of
    all devices with the recorded history is also written there: PyTorch's viewer, https://pytorch.org/memory_viz,
    opens it, as do the functions of ``torch.cuda._memory_viz``.

    >>> x = tk.zeros(1024, device="cuda")
    >>> any(block["state"] == "active_allocated" for s in tk.cuda.memory_snapshot() for block in s["blocks"])
    True
    """
    wanted = None if device is None else check(index_of(device))
    rows = {allocator.device: allocator.snapshot() for allocator in POOLS.all()}
    if file is not None:
        traces: list[list[dict[str, Any]]] = [[] for _ in range(device_count())]
        for allocator in POOLS.all():
            traces[allocator.device] = allocator.trace()
        dump(
            {
                "segments": [row for found in rows.values() for row in found],
                "device_traces": traces,
                "allocator_settings": {"max_split_size": -1, "expandable_segments": False},
                "external_annotations": [],
            },
            file,
        )
    return [row for index, found in rows.items() if wanted in (None, index) for row in found]


def record_memory_history(
    enabled: str | None = "all", *, context: str | None = "all", max_entries: int = 100_000
) -> None:
    """Record where in the program memory is allocated and freed, for :func:`memory_snapshot`.

    ``enabled`` is ``"all"`` for a history of the latest ``max_entries`` events, ``"state"`` for the places at which the
    memory in use was allocated alone, and None to end the recording and forget the history. ``context`` is None where
    no places are wanted. Every call begins anew. An allocation then takes a few microseconds more.

    Raises ValueError for other values.

    >>> tk.cuda.record_memory_history()
    >>> x = tk.zeros(1024, device="cuda")
    >>> frames = [f for s in tk.cuda.memory_snapshot() for b in s["blocks"] for f in b["frames"]]
    >>> any("zeros" in frame["name"] for frame in frames)
    True
    >>> tk.cuda.record_memory_history(None)
    """
    if enabled not in ("all", "state", None):
        raise ValueError(f"[record_memory_history] enabled={enabled!r}: give 'all', 'state' or None.")
    if context not in ("all", "alloc", "state", None):
        raise ValueError(f"[record_memory_history] context={context!r}: give 'all' or None.")
    if max_entries < 1:
        raise ValueError(f"[record_memory_history] max_entries={max_entries}: keep at least one event.")
    for device in range(device_count()):
        made = None
        if enabled is not None:
            made = History(max_entries, stacks=context is not None, events=enabled == "all")
        POOLS.of(device).remember(made)


def set_per_process_memory_fraction(fraction: float, device: Device | str | int | None = None) -> None:
    """Limit the memory that this process reserves on a device to a fraction of it, from 0 to 1.

    An operator that needs more frees what no tensor uses, and then raises OutOfMemoryError, a MemoryError.

    >>> tk.cuda.set_per_process_memory_fraction(0.5)
    >>> tk.cuda.get_per_process_memory_fraction()
    0.5
    >>> tk.cuda.set_per_process_memory_fraction(1.0)
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"[set_per_process_memory_fraction] got {fraction!r}: a fraction is a number from 0 to 1.")
    POOLS.of(check(index_of(device))).fraction = None if fraction == 1 else float(fraction)


def get_per_process_memory_fraction(device: Device | str | int | None = None) -> float:
    """Return the fraction of the memory of a device that this process may reserve.

    >>> tk.cuda.get_per_process_memory_fraction()
    1.0
    """
    fraction = POOLS.of(check(index_of(device))).fraction
    return 1.0 if fraction is None else fraction


def reset_accumulated_memory_stats(device: Device | str | int | None = None) -> None:
    """Begin the sums of ``memory_stats``, those that end in "allocated" and "freed" and the counts of events, anew.

    >>> tk.cuda.reset_accumulated_memory_stats()
    >>> tk.cuda.memory_stats()["allocation.all.allocated"]
    0
    """
    POOLS.of(check(index_of(device))).reset_sums()


def host_memory_stats() -> dict[str, int]:
    """Return how much pinned host memory is in use and kept, with names of ``torch.cuda.host_memory_stats``.

    >>> before = tk.cuda.host_memory_stats()["active_bytes.current"]
    >>> x = tk.zeros(1024).pin_memory()
    >>> tk.cuda.host_memory_stats()["active_bytes.current"] - before
    4096
    """
    found = pinned.statistics()
    return {
        "active_bytes.current": found.allocated_bytes,
        "active_bytes.peak": found.peak_bytes,
        "active_requests.current": found.allocations - found.frees,
        "allocated_bytes.current": found.reserved_bytes,
        "allocated_bytes.peak": found.peak_reserved_bytes,
    }
