"""Time per element from 2^10 to 2^26 elements, and the gain from a second thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import tenkey as tk
from benchmarks._harness import PAUSE, Work
from benchmarks._tables import Target, aligned

from ._rows import Operands

__all__ = ["KERNELS", "copy_bandwidth", "least", "scaling", "sweep", "threads"]

FLAT: Final = 2.0
GAIN: Final = 1.7

SWEEP: Final[Mapping[str, tuple[str, int]]] = {
    "add": ("x + v", 12),
    "exp": ("xp.exp(x)", 8),
    "tanh": ("xp.tanh(x)", 8),
    "sum": ("xp.sum(x)", 4),
    "max axis 1": ("xp.max(X, axis=1)", 4),
    "cumsum": ("xp.cumsum(x, axis=0)", 8),
    "softmax": ("xp.softmax(X, axis=1)", 8),
    "less": ("x < v", 9),
    "sin": ("xp.sin(x)", 8),
    "uniform": ("xp.random.uniform((size,))", 4),
}
"""Statements, and the bytes that they read and write per element."""

KERNELS: Final[Mapping[str, str]] = {
    "exp": "xp.exp(x)",
    "sin": "xp.sin(x)",
    "tanh": "xp.tanh(x)",
    "pow": "xp.pow(p, v)",
    "atan2": "xp.atan2(x, v)",
    "erf": "xp.special.erf(x)",
    "log float64": "xp.log(e)",
    "softmax": "xp.softmax(X, axis=1)",
    "logsumexp axis 1": "xp.logsumexp(X, axis=1)",
    "normal": "xp.random.normal((size,))",
    "sort": "xp.sort(x)",
    "batch of 64 x 64": "C64 @ D64",
    "512 x 512": "A512 @ B512",
}
"""Statements limited by arithmetic, not by memory."""


def _statement(text: str, operands: Operands) -> Work:
    names: dict[str, Any] = {"xp": tk, "size": operands.size}
    for name in compile(text, "<statement>", "eval").co_names:
        if name not in names:
            try:
                names[name] = tk.asarray(operands[name])
            except KeyError:
                continue  # an attribute
    return Work(text, names)


def least(work: Callable[[], object], seconds: float = 0.05) -> float:
    """Return the least time of a call, of as many as fit, after a pause."""
    time.sleep(PAUSE)
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        begin = time.perf_counter()
        work()
        now = time.perf_counter()
        best = min(best, now - begin)
        if now > end:
            return best


def _call(work: Work, seconds: float = 0.05) -> float:
    timer = work.timer()
    return least(lambda: timer.timeit(1), seconds)


def copy_bandwidth(size: int) -> float:
    """Return the bytes per second of NumPy's copy of an array of ``size`` float32 elements, read and written."""
    source, target = np.ones(size, np.float32), np.ones(size, np.float32)
    return 8 * size / least(lambda: np.copyto(target, source))


def sweep(quick: bool) -> tuple[str, list[Target]]:
    """Measure the time per element at growing sizes, beside the bytes per second of a copy of as many elements."""
    sizes = [1 << bits for bits in range(10, 27, 4 if quick else 2)]
    table = [["ns per element", *(f"2^{size.bit_length() - 1}" for size in sizes), "largest / least"]]
    bandwidth = [copy_bandwidth(size) for size in sizes]
    targets = []
    for name, (text, moved) in SWEEP.items():
        overhead = _call(_statement(text, Operands(4)))
        times = [_call(_statement(text, Operands(size)), 0.05 if quick else 0.1) for size in sizes]
        flat = [spent / size for spent, size in zip(times, sizes) if spent > 10 * overhead]
        ratio = max(flat) / min(flat)
        table.append([name, *(f"{spent / size * 1e9:.3f}" for spent, size in zip(times, sizes)), f"{ratio:.2f}"])
        speed = moved * sizes[-1] / times[-1]
        detail = f"{speed / 1e9:.1f} GB/s at the largest size, one thread's copy {bandwidth[-1] / 1e9:.1f}"
        if max(bandwidth) > FLAT * bandwidth[-1]:
            detail += f"; the copy's own time per element grows {max(bandwidth) / bandwidth[-1]:.1f}-fold"
        targets.append(Target(f"time per element of {name}, largest over least", ratio, FLAT, detail))
    table.append(["copy, GB/s", *(f"{value / 1e9:.1f}" for value in bandwidth), ""])
    return "Time per element beyond 10 times that of a call of 4 elements\n" + aligned(table), targets


def threads(quick: bool) -> tuple[str, list[Target]]:
    """Measure kernels limited by arithmetic with one thread and with two, in turn."""
    operands = Operands(1 << 20)
    table = [["2^20 elements", "1 thread us", "2 threads us", "gain"]]
    gains = {}
    before = tk.get_num_threads()
    try:
        for name, text in KERNELS.items():
            work = _statement(text, operands)
            taken: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(3 if quick else 9):
                for number, times in taken.items():
                    tk.set_num_threads(number)
                    times.append(_call(work, 0.02))
            one, two = (statistics.median(taken[number]) for number in (1, 2))
            gains[name] = statistics.median(first / second for first, second in zip(taken[1], taken[2]))
            table.append([name, f"{one * 1e6:.1f}", f"{two * 1e6:.1f}", f"{gains[name]:.2f}"])
    finally:
        tk.set_num_threads(before)
    low = ", ".join(f"{name} {gain:.2f}" for name, gain in gains.items() if gain < GAIN)
    worst = min(gains.values())
    target = Target("time with two threads over one, least gain", 1 / worst, 1 / GAIN, low)
    return "Two threads\n" + aligned(table), [target]


def scaling(quick: bool) -> tuple[str, list[Target]]:
    """Measure both; return the tables and the targets."""
    first, targets = sweep(quick)
    second, more = threads(quick)
    return f"{first}\n\n{second}", targets + more
