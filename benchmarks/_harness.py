"""Interleaved measurement of several contestants that do the same work, formatted as a table.

Note [Interleaved measurement]
    The speed of a machine drifts: clock rates change, and other processes start and stop. If each library were timed
    for a minute in turn, this drift would distort the ratio. Each *round* therefore times every contestant once, one
    right after the other, in an order that rotates from round to round. One timing is a loop calibrated to a few
    milliseconds, far above the resolution of the clock. Times are medians over the rounds, and a ratio is the median
    of the ratios within each round, which is insensitive to drift. (It may therefore differ in the last digit from
    the quotient of the two medians.)

    The garbage collector stays enabled, as in a user's program, so collections caused by a contestant count. Garbage
    is collected before each timing, outside of it. Objects that existed at the start are frozen, so collections do not
    traverse the modules of every library that happens to be loaded.

    Idle worker threads of a library (OpenMP's, for example) may spin for milliseconds after its last call, on a core
    that the next contestant needs. Each timing is therefore preceded by a short pause, and then by an untimed loop of
    the same length, which brings the contestant's code and data back into the caches.

Note [Two clocks]
    On a busy machine, wall-clock time includes time spent on other programs. For single-threaded work, such as calls on
    small arrays, the *CPU time of the thread* measures the cost itself: waiting for a core does not count. It does not
    measure multi-threaded work, because it covers only the calling thread. Only benchmarks of single-threaded work
    offer it (``--clock cpu``), and the heading of a table states which clock was used.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from math import exp, log
from pathlib import Path
from typing import Final

__all__ = [
    "INSTALL_TORCH",
    "Measurement",
    "Options",
    "Row",
    "Work",
    "describe_machine",
    "format_table",
    "geometric_mean",
    "measure",
    "measure_rows",
    "parse_options",
    "write_json",
]

INSTALL_TORCH = "PyTorch's column needs PyTorch: pip install torch==2.13.0"


@dataclass(frozen=True)
class Work:
    """The work of one contestant in a row: a statement and the names it uses, timed without a function call.

    >>> namespace = {"a": 1, "b": 2}
    >>> Work("a + b", namespace).statement
    'a + b'
    """

    statement: str
    names: Mapping[str, object] = field(repr=False)

    def timer(self, clock: Callable[[], float] = time.perf_counter) -> timeit.Timer:
        """Return a timer that leaves the garbage collector enabled: see Note [Interleaved measurement]."""
        # `setup` runs inside the function that timeit generates, where the names are local and therefore fast.
        setup = "; ".join(["_gc.enable()", *(f"{name} = _names[{name!r}]" for name in self.names)])
        return timeit.Timer(self.statement, setup, clock, {"_gc": gc, "_names": dict(self.names)})


@dataclass(frozen=True)
class Row:
    """One line of a table: the same work for each contestant, keyed by the contestant's name."""

    name: str
    works: Mapping[str, Work]


@dataclass
class Measurement:
    """Seconds per execution for each contestant and round; ``failures`` holds errors by contestant."""

    row: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, contestant: str) -> float | None:
        """Return the median seconds per execution; None if the contestant was not measured.

        >>> Measurement("add", {"ours": [3.0, 1.0, 2.0]}).median("ours")
        2.0
        """
        samples = self.seconds.get(contestant)
        return statistics.median(samples) if samples else None

    def ratio(self, contestant: str, reference: str) -> float | None:
        """Return the median over the rounds of the contestant's time divided by the reference's; None without both.

        >>> Measurement("add", {"ours": [1.0, 2.0], "theirs": [2.0, 4.0]}).ratio("ours", "theirs")
        0.5
        """
        ours, theirs = self.seconds.get(contestant), self.seconds.get(reference)
        if not ours or not theirs:
            return None
        return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))

    def fastest(self, contestants: Sequence[str]) -> str | None:
        """Return the contestant with the lowest median; None if none was measured.

        >>> Measurement("add", {"a": [2.0], "b": [1.0]}).fastest(["a", "b", "c"])
        'b'
        """
        medians = {name: value for name in contestants if (value := self.median(name)) is not None}
        return min(medians, key=medians.__getitem__) if medians else None


@dataclass(frozen=True)
class Options:
    """Settings common to the benchmarks; ``target`` is the length of one timing in seconds."""

    rounds: int
    target: float
    json: Path | None
    only: str
    clock: str = "wall"

    @property
    def heading(self) -> str:
        """Describe in one line how the tables were measured."""
        read = "CPU time of the calling thread" if self.clock == "cpu" else "wall-clock time"
        return f"{self.rounds} rounds; {read}; times are medians, `x` columns are tenkey's time over the other's."


_CLOCKS: Final[Mapping[str, Callable[[], float]]] = {"wall": time.perf_counter, "cpu": time.thread_time}


def parse_options(description: str, *, rounds: int, target: float = 0.003, one_thread: bool = False) -> Options:
    """Parse the command line with the defaults of a benchmark. ``one_thread``: see Note [Two clocks]."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds per row (default {rounds})")
    parser.add_argument("--target", type=float, default=target, help=f"seconds per timing (default {target})")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows whose name contains TEXT")
    if one_thread:
        parser.add_argument(
            "--clock", choices=sorted(_CLOCKS), default="wall", help="wall-clock time, or the thread's CPU time"
        )
    values = parser.parse_args()
    if values.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {values.rounds}")
    return Options(values.rounds, values.target, values.json, values.only, getattr(values, "clock", "wall"))


def _calibrate(timer: timeit.Timer, target: float) -> int:
    """Return the number of executions, at least 1, that take about ``target`` seconds together."""
    number = 1
    while True:
        elapsed = timer.timeit(number)
        if elapsed >= target / 4:
            return max(1, round(number * target / elapsed))
        number *= 4


PAUSE: Final = 0.02  # seconds; see Note [Interleaved measurement]


def measure(row: Row, *, rounds: int, target: float, warm_up: float = 0.05, clock: str = "wall") -> Measurement:
    """Time each contestant of the row; if one raises, its error is shown under the table instead."""
    result = Measurement(row.name)
    timers: dict[str, timeit.Timer] = {}
    numbers: dict[str, int] = {}
    for name, work in row.works.items():
        timer = work.timer(_CLOCKS[clock])
        try:
            end = time.perf_counter() + warm_up
            timer.timeit(1)
            while time.perf_counter() < end:
                timer.timeit(1)
            numbers[name] = _calibrate(timer, target)
        except Exception as error:
            result.failures[name] = f"{type(error).__name__}: {error}"
            continue
        timers[name] = timer
        result.seconds[name] = []
    order = list(timers)
    gc.collect()
    gc.freeze()
    try:
        for turn in range(rounds):
            start = turn % max(1, len(order))
            for name in order[start:] + order[:start]:
                gc.collect()
                time.sleep(PAUSE)
                timers[name].timeit(numbers[name])
                result.seconds[name].append(timers[name].timeit(numbers[name]) / numbers[name])
    finally:
        gc.unfreeze()
    return result


def measure_rows(
    rows: Sequence[Row], options: Options, *, settle: Callable[[], None] | None = None
) -> list[Measurement]:
    """Measure the rows in order, with progress on the error stream.

    Every contestant first runs each row once. ``settle`` is called then; it should wait until all requested kernels
    are compiled, so that the compiler does not run during a measurement.
    """
    rows = [row for row in rows if options.only in row.name]
    for row in rows:
        for work in row.works.values():
            try:
                work.timer().timeit(1)
            except Exception:
                continue
    if settle is not None:
        settle()
    results = []
    for position, row in enumerate(rows, start=1):
        _progress(f"{position}/{len(rows)} {row.name}")
        results.append(measure(row, rounds=options.rounds, target=options.target, clock=options.clock))
    _progress("")
    return results


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean of positive numbers; None for an empty sequence.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    return exp(sum(map(log, values)) / len(values)) if values else None


def format_table(
    title: str,
    results: Sequence[Measurement],
    contestants: Sequence[str],
    *,
    against: Sequence[str],
    ours: str = "tenkey",
    limit: float | None = None,
    unit: tuple[str, float] = ("us", 1e6),
) -> str:
    """Format a table with a column of times for each contestant and one of ratios for each name in ``against``.

    ``"the faster"`` in ``against`` stands for the fastest contestant other than ``ours`` and JAX. ``limit`` is the
    largest ratio to the first of ``against`` that the design allows.

    >>> rows = [Measurement("add", {"tenkey": [1e-6], "NumPy": [2e-6]})]
    >>> print(format_table("Small", rows, ["tenkey", "NumPy"], against=["NumPy"], limit=0.8))
    Small
                    tenkey us  NumPy us  x NumPy
    add                 1.000     2.000     0.50
    geometric mean                          0.50
    (at most 0.80 x NumPy)
    """
    present = [name for name in contestants if name == ours or any(name in result.seconds for result in results)]
    ratios: dict[str, list[float]] = {}
    header = ["", *(f"{name} {unit[0]}" for name in present)]
    body: list[list[str]] = []
    shown = [name for name in against if name == "the faster" or name in present]
    header += [f"x {name}" for name in shown]
    for result in results:
        cells = [result.row]
        for name in present:
            value = result.median(name)
            cells.append("-" if value is None else f"{value * unit[1]:.3f}")
        for name in shown:
            reference: str | None = name
            if name == "the faster":
                reference = result.fastest([other for other in present if other not in {ours, "JAX"}])
            ratio = None if reference is None else result.ratio(ours, reference)
            cells.append("-" if ratio is None else f"{ratio:.2f}")
            if ratio is not None:
                ratios.setdefault(name, []).append(ratio)
        body.append(cells)
    means = {name: geometric_mean(values) for name, values in ratios.items()}
    cells = ["geometric mean", *("" for _ in present)]
    body.append(cells + [f"{mean:.2f}" if (mean := means.get(name)) is not None else "-" for name in shown])
    widths = [max(len(line[column]) for line in [header, *body]) for column in range(len(header))]
    lines = [title]
    for line in [header, *body]:
        figures = (text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True))
        lines.append("  ".join([line[0].ljust(widths[0]), *figures]).rstrip())
    if limit is not None and against[0] in shown:
        lines.append(f"(at most {limit:.2f} x {against[0]})")
    for result in results:
        lines += [f"not measured: {result.row}, {name}: {reason}" for name, reason in result.failures.items()]
    return "\n".join(lines)


def describe_machine(packages: Sequence[str]) -> str:
    """Describe in one line the processor, Python and the versions of the packages."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} not installed")
    return f"{processor}, {os.cpu_count()} threads; {', '.join(versions)}"


def write_json(path: Path, machine: str, tables: Mapping[str, Sequence[Measurement]]) -> None:
    """Write the seconds of every round of every row, and the description of the machine."""
    document = {
        "machine": machine,
        "unit": "seconds per execution, one entry per round",
        "tables": {
            title: [{"row": item.row, "seconds": item.seconds, "failures": item.failures} for item in results]
            for title, results in tables.items()
        },
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
