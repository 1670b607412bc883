"""Where the time of one row goes: the call, its fixed cost, its allocation, its threads and its memory traffic."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import tenkey as tk
from benchmarks._harness import Row, Work
from benchmarks._tables import aligned

from ._groups import GROUPS
from ._scaling import copy_bandwidth, least

__all__ = ["profile"]


def _rows(name: str, size: int) -> Iterator[tuple[Row, Row | None]]:
    """Yield the rows whose name contains ``name``, and each on 4 elements."""
    for group in GROUPS:
        small = {row.name: row for row in group.rows(4, name)} if group.sized else {}
        for row in group.rows(size, name):
            yield row, small.get(row.name)


def _time(work: Work) -> float:
    timer = work.timer()
    return least(lambda: timer.timeit(1), 0.2)


def _bytes(value: Any) -> int:
    if isinstance(value, (tuple, list)):
        return sum(map(_bytes, value))
    return int(value.nbytes) if hasattr(value, "nbytes") else 0


def _result(work: Work) -> Any:
    try:
        return eval(work.statement, dict(work.names))  # a text of this package
    except SyntaxError:  # an assignment
        return None


def _shared_bandwidth(size: int) -> float:
    """Return the bytes per second of two threads that copy arrays of half the size at the same time."""
    repeats = max(1, (1 << 26) // size)
    pairs = [(np.ones(size // 2, np.float32), np.ones(size // 2, np.float32)) for _ in range(2)]

    def copy(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> None:
        for _ in range(repeats):
            np.copyto(target, source)

    def both() -> None:
        running = [threading.Thread(target=copy, args=pair) for pair in pairs]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()

    return 8 * size * repeats / least(both, 0.2)


def profile(name: str, size: int) -> str:
    """Describe the rows whose name contains ``name``; times are the least of as many calls as fit into 0.2 s."""
    found = [_describe(row, small, size) for row, small in _rows(name, size)]
    if not found:
        raise SystemExit(f"no row's name contains {name!r}")
    return "\n\n".join(found)


def _describe(row: Row, small: Row | None, size: int) -> str:
    ours = row.works.get("tenkey")
    if ours is None:
        return f"{row.name}: not measured: {row.failures.get('tenkey')}"
    begin = time.perf_counter()
    result = _result(ours)
    first = time.perf_counter() - begin
    written, read = _bytes(result), sum(map(_bytes, ours.names.values()))
    count = tk.get_num_threads()
    call = _time(ours)
    tk.set_num_threads(1)
    try:
        alone = _time(ours)
    finally:
        tk.set_num_threads(count)
    old = np.empty(max(1, written), np.uint8)
    old.fill(1)
    fresh = least(lambda: np.empty(max(1, written), np.uint8).fill(1), 0.1)
    allocation = max(0.0, fresh - least(lambda: old.fill(1), 0.1))
    fixed = _time(small.works["tenkey"]) if small is not None and "tenkey" in small.works else 0.0
    table = [
        [f"{row.name}: {ours.statement}", "us", ""],
        [f"call with {count} threads", f"{call * 1e6:.1f}", f"the first one {first * 1e6:.1f}"],
        ["with one thread", f"{alone * 1e6:.1f}", f"gain {alone / call:.2f}"],
        ["fixed cost, the same with 4 elements", f"{fixed * 1e6:.1f}", f"{fixed / call:.0%}"],
        [
            "allocation, a new result touched by NumPy less an old one",
            f"{allocation * 1e6:.1f}",
            f"{allocation / call:.0%}, {written / 1e6:.1f} MB",
        ],
        ["the rest: the kernel", f"{max(0.0, call - fixed - allocation) * 1e6:.1f}", ""],
    ]
    for name, work in row.works.items():
        if name != "tenkey":
            spent = _time(work)
            table.append([name, f"{spent * 1e6:.1f}", f"ours over it {call / spent:.2f}"])
    moved = read + written
    copied, shared = copy_bandwidth(size), _shared_bandwidth(size)
    lines = [aligned(table)]
    lines.append(
        f"It reads {read / 1e6:.1f} MB and writes {written / 1e6:.1f} MB: {moved / call / 1e9:.1f} GB/s. A copy of "
        f"{size:,} float32 elements reaches {copied / 1e9:.1f} GB/s, in two threads {shared / 1e9:.1f}: at that speed, "
        f"the traffic takes {moved / shared * 1e6:.1f} us."
    )
    lines += [f"not measured: {name}: {reason}" for name, reason in row.failures.items()]
    return "\n".join(lines)
