"""What a profile writes: the trace for viewers, and the timeline of memory.

Note [The trace]
~~~~~~~~~~~~~~~~
The file is JSON in the Trace Event Format ("JSON Object Format"): ``M`` events name process and threads, ``X`` events
are what was recorded, a pair ``s`` and ``f`` with one ``id`` is the arrow from a call to its node, ``C`` events are the
counter of memory. Viewers take the ``X`` events of one track for a stack, so an event that overlaps another one without
lying in it (regions of two asyncio tasks, say) goes to a second track of its thread. Times are in microseconds since
the profile began, with the nanoseconds behind the point.
Guarded by ``tests/profiler/test_profiler_trace.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .._util.atomic_write import replacing
from .memory import MemoryRecord
from .observer import BACKWARD, USER, Event

__all__ = ["chrome_trace", "write_chrome_trace", "write_memory_timeline"]

_CATEGORY: Final = {BACKWARD: "backward", USER: "user_annotation"}
_MORE_TRACKS: Final = 1 << 30  # the numbers of tracks that are no thread's


def _tracks(events: Sequence[Event]) -> dict[int, tuple[int, int]]:
    """For each event its thread and the number of its track there (Note [The trace])."""
    found: dict[int, tuple[int, int]] = {}
    open_until: dict[int, list[list[int]]] = {}  # for each thread, for each track, the ends of the events that are open
    for event in sorted(events, key=lambda e: (e.begin, -e.end, e.id)):
        tracks = open_until.setdefault(event.thread, [[]])
        parent = event.parent
        first = found[parent.id][1] if parent is not None and parent.id in found else 0
        order = [first, *[i for i in range(len(tracks)) if i != first], len(tracks)]
        for number in order:
            if number == len(tracks):
                tracks.append([])
            ends = tracks[number]
            while ends and ends[-1] <= event.begin:
                ends.pop()
            if not ends or ends[-1] >= event.end:
                ends.append(event.end)
                found[event.id] = (event.thread, number)
                break
    return found


def _arguments(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = {"Self time (us)": round(event.self_cpu_time_total, 3)}
    if event.sequence_nr >= 0:
        found["Sequence number"] = event.sequence_nr
    if event.forward is not None:
        found["Forward call"] = event.forward.name
        found["Fwd thread id"] = event.forward.thread
    if event.shapes:
        found["Input Dims"] = event.input_shapes
        found["Input type"] = event.input_dtypes
    if event.allocated or event.freed:
        found["Bytes allocated"], found["Bytes freed"] = event.allocated, event.freed
    if event.thread_time:
        found["Thread time (us)"] = event.thread_time / 1000
    if event.stack:
        found["Call stack"] = list(event.stack)
    if event.args is not None:
        found["Note"] = str(event.args)
    if event.error is not None:
        found["Raised"] = event.error
    return found


def chrome_trace(
    events: Sequence[Event],
    threads: Mapping[int, tuple[int, str]],
    records: Iterable[MemoryRecord],
    begin: int,
    end: int,
) -> dict[str, Any]:
    """The trace as what ``json`` writes (Note [The trace])."""
    process = os.getpid()
    placed = _tracks(events)
    numbers: dict[tuple[int, int], int] = {}
    made: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "tenkey"}}
    ]
    for thread, track in sorted(set(placed.values()), key=lambda key: (list(threads).index(key[0]), key[1])):
        native, name = threads[thread]
        number = native if track == 0 else _MORE_TRACKS + len(numbers)
        numbers[thread, track] = number
        shown = name if track == 0 else f"{name} ({track + 1})"
        common = {"ph": "M", "pid": process, "tid": number}
        made.append({**common, "name": "thread_name", "args": {"name": shown}})
        made.append({**common, "name": "thread_sort_index", "args": {"sort_index": len(numbers)}})

    def at(time: int) -> float:
        return (time - begin) / 1000

    for event in events:
        track_number = numbers[placed[event.id]]
        made.append(
            {
                "ph": "X", "cat": _CATEGORY.get(event.scope, "cpu_op"), "name": event.name, "pid": process,
                "tid": track_number, "ts": at(event.begin), "dur": (event.end - event.begin) / 1000,
                "args": _arguments(event),
            }
        )  # fmt: skip
        forward = event.forward
        if forward is not None and forward.id in placed:
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.id, "pid": process}
            start = {**arrow, "ph": "s", "tid": numbers[placed[forward.id]], "ts": at(forward.begin)}
            made += [start, {**arrow, "ph": "f", "bp": "e", "tid": track_number, "ts": at(event.begin)}]
    totals: dict[str, int] = {}
    for record in records:
        totals[record.device] = totals.get(record.device, 0) + record.bytes
        counter = {"ph": "C", "name": f"memory of tensors ({record.device})", "pid": process, "tid": 0}
        made.append({**counter, "ts": at(record.time), "args": {"bytes": totals[record.device]}})
    return {
        "traceEvents": made,
        "displayTimeUnit": "ms",
        "otherData": {"producer": "tenkey.autograd.profile", "duration (us)": str((end - begin) / 1000)},
    }


def _write(path: Any, text: str) -> None:
    name = os.fspath(path)
    content = text.encode()
    if name.endswith(".gz"):
        import gzip  # only who compresses needs it

        content = gzip.compress(content)
    with replacing(name) as temporary:
        Path(temporary).write_bytes(content)


def write_chrome_trace(
    path: Any,
    events: Sequence[Event],
    threads: Mapping[int, tuple[int, str]],
    records: Iterable[MemoryRecord],
    begin: int,
    end: int,
) -> None:
    """Write the trace; the file is replaced in one step."""
    import json

    _write(path, json.dumps(chrome_trace(events, threads, records, begin, end)))


def write_memory_timeline(path: Any, records: Iterable[MemoryRecord], begin: int, device: str | None) -> None:
    """Write the changes of memory as JSON or CSV; the file is replaced in one step."""
    name = os.fspath(path)
    if not name.endswith((".json", ".json.gz", ".csv")):
        raise ValueError(f"[export_memory_timeline] {path} ends in .json, .json.gz or .csv: that says what is written.")
    rows: list[dict[str, Any]] = []
    totals: dict[str, int] = {}
    for record in records:
        if device is None or record.device == str(device):
            totals[record.device] = totals.get(record.device, 0) + record.bytes
            rows.append(
                {
                    "ts": (record.time - begin) / 1000,
                    "action": "allocate" if record.bytes > 0 else "free",
                    "bytes": record.bytes,
                    "total": totals[record.device],
                    "device": record.device,
                    "name": "" if record.event is None else record.event.name,
                    "buffer": record.buffer,
                }
            )
    if name.endswith(".csv"):
        columns = ["ts", "action", "bytes", "total", "device", "name", "buffer"]
        lines = [",".join(columns)]
        for row in rows:
            quoted = {**row, "name": '"' + row["name"].replace('"', '""') + '"'}
            lines.append(",".join(str(quoted[column]) for column in columns))
        _write(name, "\n".join(lines) + "\n")
    else:
        import json

        _write(name, json.dumps(rows))
