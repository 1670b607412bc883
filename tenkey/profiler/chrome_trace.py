"""Export of a profile: the trace for viewers, and the timeline of memory.

Note [The trace]
~~~~~~~~~~~~~~~~
The file is JSON in the Trace Event Format ("JSON Object Format"): ``M`` events name the process and its threads, ``X``
events are the recorded events, a pair ``s`` and ``f`` with one ``id`` is the arrow from a call to its node, and ``C``
events are the memory counter. Viewers treat the ``X`` events of one track as a stack, so an event that overlaps another
one without being nested in it (regions of two asyncio tasks, for example) is moved to a second track of its thread.
Times are in microseconds since the start of the profile; decimals are nanoseconds.
Guarded by ``tests/profiler/test_profiler_trace.py``.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .._util.atomic_write import replacing
from .memory import MemoryRecord
from .observer import BACKWARD, USER, Event

__all__ = ["write_chrome_trace", "write_memory_timeline"]

_CATEGORY: Final = {BACKWARD: "backward", USER: "user_annotation"}
_MORE_TRACKS: Final = 1 << 30  # the first number of a track beside those of threads


def _tracks(events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    """Return for each event its thread and the number of its track there (Note [The trace])."""
    found: dict[int, tuple[int, int]] = {}
    open_until: dict[int, list[list[int]]] = {}  # by thread and track: the ends of the open events
    for event in sorted(events, key=lambda e: (e.begin, -e.end, e.id)):
        tracks = open_until.setdefault(event.thread, [[]])
        parent = event.cpu_parent
        first = found[parent.id][1] if parent is not None and parent.id in found else 0
        tracks.append([])
        for number in (first, *range(len(tracks))):
            ends = tracks[number]
            while ends and ends[-1] <= event.begin:
                ends.pop()
            if not ends or ends[-1] >= event.end:
                ends.append(event.end)
                found[event.id] = (event.thread, number)
                break
        if not tracks[-1]:
            tracks.pop()
    return found


def _arguments(event: Event) -> dict[str, Any]:
    forward, has_memory = event.forward, event.allocated or event.freed
    found = {
        "Self time (us)": round(event.self_cpu_time_total, 3),
        "Sequence number": event.sequence_nr if event.sequence_nr >= 0 else None,
        "Forward call": forward and forward.name,
        "Fwd thread id": forward and forward.thread,
        "Input Dims": event.input_shapes or None,
        "Input type": event.input_dtypes or None,
        "Bytes allocated": event.allocated if has_memory else None,
        "Bytes freed": event.freed if has_memory else None,
        "Thread time (us)": event.thread_time / 1000 or None,
        "Call stack": list(event.stack) or None,
        "Note": None if event.args is None else str(event.args),
        "Raised": event.error,
    }
    return {name: value for name, value in found.items() if value is not None}


def write_chrome_trace(
    path: Any,
    events: Sequence[Event],
    threads: Mapping[int, tuple[int, str]],
    records: Iterable[MemoryRecord],
    begin: int,
    end: int,
) -> None:
    """Write the trace (Note [The trace]); the file is replaced in one step."""
    process = os.getpid()
    placed = _tracks(events)
    numbers: dict[tuple[int, int], int] = {}
    made: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "tid": 0, "args": {"name": "tenkey"}}]
    for thread, track in sorted(set(placed.values()), key=lambda key: (list(threads).index(key[0]), key[1])):
        native, name = threads[thread]
        numbers[thread, track] = number = native if track == 0 else _MORE_TRACKS + len(numbers)
        shown = name if track == 0 else f"{name} ({track + 1})"
        made.append({"ph": "M", "tid": number, "name": "thread_name", "args": {"name": shown}})
        made.append({"ph": "M", "tid": number, "name": "thread_sort_index", "args": {"sort_index": len(numbers)}})

    def at(time: int) -> float:
        return (time - begin) / 1000

    for event in events:
        place = {"tid": numbers[placed[event.id]], "ts": at(event.begin)}
        kind = {"ph": "X", "cat": _CATEGORY.get(event.scope, "cpu_op"), "name": event.name}
        made.append({**kind, **place, "dur": (event.end - event.begin) / 1000, "args": _arguments(event)})
        forward = event.forward
        if forward is not None and forward.id in placed:
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.id}
            made.append({**arrow, "ph": "s", "tid": numbers[placed[forward.id]], "ts": at(forward.begin)})
            made.append({**arrow, "ph": "f", "bp": "e", **place})
    for record, total in _with_totals(records):
        counter = {"ph": "C", "name": f"memory of tensors ({record.device})", "tid": 0}
        made.append({**counter, "ts": at(record.time), "args": {"bytes": total}})
    trace = {
        "traceEvents": [{**event, "pid": process} for event in made],
        "displayTimeUnit": "ms",
        "otherData": {"producer": "tenkey.autograd.profile", "duration (us)": str((end - begin) / 1000)},
    }
    _write(path, json.dumps(trace))


def write_memory_timeline(path: Any, records: Iterable[MemoryRecord], begin: int, device: str | None) -> None:
    """Write the changes of memory as JSON or CSV; the file is replaced in one step."""
    name = os.fspath(path)
    if not name.endswith((".json", ".json.gz", ".csv")):
        raise ValueError(
            f"[export_memory_timeline] got the path {path}: a path that ends in .json, .json.gz or .csv selects the "
            "format."
        )
    rows: list[dict[str, Any]] = [
        {
            "ts": (record.time - begin) / 1000,
            "action": "allocate" if record.bytes > 0 else "free",
            "bytes": record.bytes,
            "total": total,
            "device": record.device,
            "name": "" if record.event is None else record.event.name,
            "buffer": record.buffer,
        }
        for record, total in _with_totals(records)
        if device is None or record.device == str(device)
    ]
    if not name.endswith(".csv"):
        _write(name, json.dumps(rows))
        return
    lines = ["ts,action,bytes,total,device,name,buffer"]
    for row in rows:
        row["name"] = '"' + row["name"].replace('"', '""') + '"'
        lines.append(",".join(map(str, row.values())))
    _write(name, "\n".join(lines) + "\n")


def _with_totals(records: Iterable[MemoryRecord]) -> Iterator[tuple[MemoryRecord, int]]:
    """Yield each record with the memory of its device after it."""
    totals: defaultdict[str, int] = defaultdict(int)
    for record in records:
        totals[record.device] += record.bytes
        yield record, totals[record.device]


def _write(path: Any, text: str) -> None:
    name = os.fspath(path)
    content = text.encode()
    if name.endswith(".gz"):
        import gzip  # needed for compressed files only

        content = gzip.compress(content)
    with replacing(name) as temporary:
        Path(temporary).write_bytes(content)
