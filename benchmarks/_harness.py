"""Interleaved measurement of several contestants that do the same work.

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

    A benchmark that asks for ``single`` timings divides each turn into timings of that length: one call, unless calls
    are shorter. Their 90 % quantile shows the calls that a median hides, such as those that wait for a worker without
    a core, and their least what the machine can do while nothing else runs. Ratios then compare the turns' medians.

    Idle worker threads of a library (OpenMP's, for example) may spin for milliseconds after its last call, on a core
    that the next contestant needs. Each timing is therefore preceded by a pause, until no thread of the process runs,
    and then by an untimed loop of the same length, which brings the contestant's code and data back into the caches.

Note [Two clocks]
    On a busy machine, wall-clock time includes time spent on other programs. For single-threaded work, such as calls on
    small arrays, the *CPU time of the thread* measures the cost itself: waiting for a core does not count. It does not
    measure multi-threaded work, because it covers only the calling thread. Only benchmarks of single-threaded work
    offer it (``--clock cpu``), and the heading of a table states which clock was used.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = [
    "INSTALL_TORCH",
    "Measurement",
    "Options",
    "Row",
    "Work",
    "measure",
    "measure_rows",
    "parse_options",
    "with_bytecode",
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
    """One line of a table: the same work for each contestant, keyed by the contestant's name.

    ``failures`` tells why contestants that were tried are missing.
    """

    name: str
    works: Mapping[str, Work]
    failures: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Measurement:
    """Seconds per execution for each contestant and round; ``failures`` holds errors by contestant.

    ``singles`` holds every timing of every round, and ``seconds`` their median in each round.
    """

    row: str
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    singles: dict[str, list[float]] = field(default_factory=dict)

    def median(self, contestant: str) -> float | None:
        """Return the median seconds per execution; None if the contestant was not measured.

        >>> Measurement("add", {"ours": [3.0, 1.0, 2.0]}).median("ours")
        2.0
        """
        samples = self.seconds.get(contestant)
        return statistics.median(samples) if samples else None

    def quantile(self, contestant: str, fraction: float) -> float | None:
        """Return the time that this fraction of the single timings does not exceed: 0 for the least.

        >>> Measurement("add", singles={"ours": [3.0, 1.0, 2.0]}).quantile("ours", 0.9)
        3.0
        """
        samples = sorted(self.singles.get(contestant) or self.seconds.get(contestant) or [])
        return samples[min(len(samples) - 1, int(fraction * len(samples)))] if samples else None

    def ratio(self, contestant: str, reference: str) -> float | None:
        """Return the median over the rounds of the contestant's time divided by the reference's; None without both.

        The reference ``"the faster"`` is the fastest of the other contestants.

        >>> Measurement("add", {"ours": [1.0, 2.0], "theirs": [2.0, 4.0]}).ratio("ours", "theirs")
        0.5
        """
        ours, theirs = self.seconds.get(contestant), self.seconds.get(self._other(contestant, reference))
        if not ours or not theirs:
            return None
        return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))

    def least_ratio(self, contestant: str, reference: str) -> float | None:
        """Return the least of the contestant's single timings divided by the reference's; None without both."""
        ours = self.quantile(contestant, 0)
        if reference == "the faster":
            others = [self.quantile(name, 0) for name in self.seconds if name != contestant]
            theirs = min((value for value in others if value is not None), default=None)
        else:
            theirs = self.quantile(reference, 0)
        return ours / theirs if ours and theirs else None

    def _other(self, contestant: str, reference: str) -> str:
        if reference != "the faster":
            return reference
        return self.fastest([name for name in self.seconds if name != contestant]) or ""

    def fastest(self, contestants: Sequence[str]) -> str | None:
        """Return the contestant with the lowest median; None if none was measured.

        >>> Measurement("add", {"a": [2.0], "b": [1.0]}).fastest(["a", "b", "c"])
        'b'
        """
        medians = {name: value for name in contestants if (value := self.median(name)) is not None}
        return min(medians, key=medians.__getitem__) if medians else None


@dataclass(frozen=True)
class Options:
    """Settings common to the benchmarks; ``target`` is the length of a turn in seconds, ``single`` of one timing.

    ``values`` holds the arguments that a benchmark adds.
    """

    rounds: int
    target: float
    json: Path | None
    only: str
    clock: str = "wall"
    single: float | None = None
    quick: bool = False
    values: argparse.Namespace = field(default_factory=argparse.Namespace)

    @property
    def heading(self) -> str:
        """Describe in one line how the tables were measured."""
        read = "CPU time of the calling thread" if self.clock == "cpu" else "wall-clock time"
        return f"{self.rounds} rounds; {read}; times are medians, `x` columns are tenkey's time over the other's."


_CLOCKS: Final[Mapping[str, Callable[[], float]]] = {"wall": time.perf_counter, "cpu": time.thread_time}


def parse_options(
    description: str,
    *,
    rounds: int,
    target: float = 0.003,
    single: float | None = None,
    one_thread: bool = False,
    arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> Options:
    """Parse the command line with the defaults of a benchmark, and the ``arguments`` that it adds to the parser.

    ``one_thread``: see Note [Two clocks].
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=None, help=f"rounds per row (default {rounds})")
    parser.add_argument("--target", type=float, default=target, help=f"seconds per turn (default {target})")
    parser.add_argument("--quick", action="store_true", help=f"{_quick(rounds)} rounds, for a first impression")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows whose name contains TEXT")
    if one_thread:
        parser.add_argument(
            "--clock", choices=sorted(_CLOCKS), default="wall", help="wall-clock time, or the thread's CPU time"
        )
    if arguments is not None:
        arguments(parser)
    values = parser.parse_args()
    if values.rounds is None:
        values.rounds = _quick(rounds) if values.quick else rounds
    if values.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {values.rounds}")
    clock = getattr(values, "clock", "wall")
    return Options(values.rounds, values.target, values.json, values.only, clock, single, values.quick, values)


def _quick(rounds: int) -> int:
    return max(3, rounds // 4)


def _calibrate(timer: timeit.Timer, target: float) -> int:
    """Return the number of executions, at least 1, that take about ``target`` seconds together."""
    number = 1
    while True:
        elapsed = timer.timeit(number)
        if elapsed >= target / 4:
            return max(1, round(number * target / elapsed))
        number *= 4


PAUSE: Final = 0.02  # seconds; see Note [Interleaved measurement]
LONGEST_PAUSE: Final = 0.2  # seconds: the threads of OpenBLAS spin for 50 ms of CPU time


def _pause() -> None:
    """Sleep until the other threads of this process sleep, too: Note [Interleaved measurement]."""
    end = time.perf_counter() + LONGEST_PAUSE
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 10:
            return


def measure(
    row: Row,
    *,
    rounds: int,
    target: float,
    warm_up: float = 0.03,
    clock: str = "wall",
    single: float | None = None,
) -> Measurement:
    """Time each contestant of the row; if one raises, its error is shown under the table instead."""
    result = Measurement(row.name, failures=dict(row.failures))
    timers: dict[str, timeit.Timer] = {}
    numbers: dict[str, tuple[int, int]] = {}  # executions per timing, timings per turn
    for name, work in row.works.items():
        timer = work.timer(_CLOCKS[clock])
        try:
            end = time.perf_counter() + warm_up
            timer.timeit(1)
            while time.perf_counter() < end:
                timer.timeit(1)
            number = _calibrate(timer, target if single is None else single)
            repeats = 1 if single is None else max(1, round(target / max(timer.timeit(number), single)))
            numbers[name] = number, repeats
        except Exception as error:
            result.failures[name] = f"{type(error).__name__}: {error}"
            continue
        timers[name] = timer
        result.seconds[name], result.singles[name] = [], []
    order = list(timers)
    gc.collect()
    gc.freeze()
    try:
        for turn in range(rounds):
            start = turn % max(1, len(order))
            for name in order[start:] + order[:start]:
                number, repeats = numbers[name]
                gc.collect()
                _pause()
                timers[name].timeit(number * repeats)
                timings = [timers[name].timeit(number) / number for _ in range(repeats)]
                result.seconds[name].append(statistics.median(timings))
                result.singles[name] += timings
    finally:
        gc.unfreeze()
    return result


def measure_rows(rows: Sequence[Row], options: Options) -> list[Measurement]:
    """Measure the rows in order, with progress on the error stream."""
    rows = [row for row in rows if options.only in row.name]
    results = []
    for position, row in enumerate(rows, start=1):
        _progress(f"{position}/{len(rows)} {row.name}")
        results.append(
            measure(row, rounds=options.rounds, target=options.target, clock=options.clock, single=options.single)
        )
    _progress("")
    return results


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def with_bytecode(**variables: str) -> dict[str, str]:
    """Return the environment with these variables, for a process that loads its modules from bytecode.

    An installed package has bytecode; that of a checkout is written by the first process, unless
    ``PYTHONDONTWRITEBYTECODE`` forbids it.
    """
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | variables
