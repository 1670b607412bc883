"""Timings on a GPU, beside other libraries, and the table of targets that they are held against."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from benchmarks import _models
from benchmarks._harness import Work

from ._libraries import Library
from ._work import Device, Part, minimum

__all__ = [
    "SMALL",
    "TRAINING",
    "Effort",
    "Report",
    "graphs",
    "large",
    "small",
    "small_times",
    "training",
]

SMALL: Final = {
    "add": "x + y",
    "exp": "exp(x)",
    "sum": "sum(x)",
    "x * 2": "x * 2",
    "where": "where(c, x, y)",
    "reshape": "x.reshape((2, 2))",
    "add, gradient recorded": "p + y",
    "forward and backward of a product": "(p * y).sum().backward()",
}
"""Operators on 4 elements, where the time is the host's."""

_GPT: Final[dict[str, Any]] = {"layers": 4, "heads": 4, "width": 128, "vocabulary": 1000, "tokens": 64}
TRAINING: Final = {
    "MLP 784-512-512-10, batch 128: a step": _models.mlp([784, 512, 512, 10], 128),
    "MLP 1024-2048-2048-100, batch 256: a step": _models.mlp([1024, 2048, 2048, 100], 256),
    "picoGPT forward and gradient": _models.gpt(**_GPT, gradient=True),
}
TINY: Final = {
    "MLP 6-5-3, batch 4: a step": _models.mlp([6, 5, 3], 4),
    "picoGPT forward and gradient": _models.gpt(
        layers=1, heads=2, width=8, vocabulary=11, tokens=5, gradient=True
    ),
}  # fmt: skip
"""The programs of TRAINING, as small as an emulator computes them."""
_GRAPHED: Final = 20  # products and sums in the step that becomes a graph
_HEADS: Final = ("tenkey", "torch", "cupy")


class Effort(NamedTuple):
    """How long a timing takes at least, in seconds, and how many there are."""

    least: float = 0.02
    rounds: int = 5


class _Figure(NamedTuple):
    name: str
    found: float | None
    limit: float
    at_least: bool

    def __str__(self) -> str:
        sign = "at least" if self.at_least else "at most"
        if self.found is None:
            return f"not measured: {self.name}: {sign} {self.limit:.2f}"
        met = self.found >= self.limit if self.at_least else self.found <= self.limit
        return f"{'met' if met else 'MISSED'}: {self.name}: {self.found:.2f}, {sign} {self.limit:.2f}"


@dataclass
class Report:
    """The figures that have a target, in the order of the measurement."""

    figures: list[_Figure] = field(default_factory=list)

    def at_least(self, name: str, found: float | None, limit: float) -> str:
        """Note a share that should be large, None where it could not be measured; return it for a table."""
        self.figures.append(_Figure(name, found, limit, True))
        return _share(found, " !" if found is not None and found < limit else "")

    def at_most(self, name: str, found: float | None, limit: float) -> str:
        """Note a ratio that should be small, None where it could not be measured; return it for a table."""
        self.figures.append(_Figure(name, found, limit, False))
        return _share(found, " !" if found is not None and found > limit else "")

    def lines(self) -> list[str]:
        """Return the table of targets."""
        return [str(figure) for figure in self.figures]


def _share(found: float | None, mark: str = "") -> str:
    return "-" if found is None else f"{found:.2f}{mark}"


def _quotient(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b


def _time_of(
    work: Work, synchronize: Callable[[], None], effort: Effort, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of a statement: the median of several timings, each ended by a synchronization."""
    timer = work.timer(clock)

    def run(count: int) -> float:
        start = clock()
        timer.timeit(count)
        synchronize()
        return clock() - start

    run(3)  # kernels are compiled, and plans of calls made
    count = 1
    while (taken := run(count)) < effort.least:
        count = max(2 * count, min(16 * count, int(count * effort.least / max(taken, 1e-7))))
    return statistics.median([run(count) / count for _ in range(effort.rounds)])


def _times(
    libraries: Sequence[Library],
    work_of: Callable[[Library], Work | None],
    effort: Effort,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the seconds of the same work in each library that has it; say why it failed in others."""
    times: dict[str, float] = {}
    for library in libraries:
        try:
            work = work_of(library)
            if work is not None:
                times[library.name] = _time_of(work, library.synchronize, effort, clock)
        except Exception as error:  # a library that lacks the operator, or the memory
            text = str(error).strip().partition("\n")[0]
            print(f"  {library.name}: {type(error).__name__}: {text[:100]}")
        work = None
        gc.collect()
    return times


def _columns(times: Mapping[str, float]) -> str:
    return "".join([f"{1e6 * times[n]:>10.1f} us" if n in times else f"{'-':>13}" for n in _HEADS])


def large(libraries: Sequence[Library], work: Sequence[Part], device: Device, report: Report, effort: Effort) -> None:
    """Time the large work beside its minimum; the first part is the copy whose bandwidth others are compared with."""
    heads = "".join([f"{name:>13}" for name in _HEADS])
    print(f"{'Large work':<34}{heads}{'minimum':>13}  of minimum, of copy, of torch (! misses the target)")
    copy: float | None = None
    for part in work:

        def work_of(library: Library, part: Part = part) -> Work:
            made = {name: library.make(shape, dtype) for name, (shape, dtype) in part.operands.items()}
            return Work(part.statement, {**library.names, **made})

        times = _times(libraries, work_of, effort)
        least, _ = minimum(part, device)
        ours = times.get("tenkey")
        bandwidth = None if ours is None else part.bytes / ours
        copy = copy or bandwidth
        of_copy, of_torch = _quotient(bandwidth, copy), _quotient(times.get("torch"), ours)
        shares = [_share(_quotient(least, ours)), _share(of_copy), _share(of_torch)]
        if part.of_copy is not None and part is not work[0]:
            shares[1] = report.at_least(f"{part.name}: bandwidth over that of a copy", of_copy, part.of_copy)
        if part.of_torch is not None:
            shares[2] = report.at_least(f"{part.name}: speed over torch's", of_torch, part.of_torch)
        print(f"{part.name:<34}{_columns(times)}{1e6 * least:>10.1f} us  {', '.join(shares)}", flush=True)


def small_times(library: Library, effort: Effort, clock: Callable[[], float]) -> dict[str, float]:
    """Return the seconds of the small statements in one library, by a clock.

    Note [Two clocks] in benchmarks/_harness.py says which one.
    """
    found: dict[str, float] = {}
    for name in SMALL:
        times = _times([library], partial(_small_work, name), effort, clock)
        if library.name in times:
            found[name] = times[library.name]
    return found


def _small_work(name: str, library: Library) -> Work | None:
    if "p " in SMALL[name] and "p" not in library.names:
        return None  # without gradients
    return Work(SMALL[name], library.names)


def small(libraries: Sequence[Library], report: Report, effort: Effort) -> None:
    """Time operators on 4 elements."""
    print(f"\n{'Operators on 4 elements':<34}{''.join([f'{name:>13}' for name in _HEADS])}  over torch")
    for name in SMALL:
        times = _times(libraries, partial(_small_work, name), effort)
        ratio = _quotient(times.get("tenkey"), times.get("torch"))
        shown = report.at_most(f"{name}, 4 elements: time over torch's", ratio, 2.0)
        print(f"{name:<34}{_columns(times)}  {shown}", flush=True)


def graphs(libraries: Sequence[Library], report: Report, effort: Effort) -> None:
    """Time small kernels one after the other, and the graph of them."""
    print(f"\n{f'{2 * _GRAPHED} small kernels':<34}{''.join([f'{name:>13}' for name in _HEADS])}  over torch")

    def step_of(library: Library) -> Callable[[], Any]:
        x = library.names["x"]

        def step() -> Any:
            y = x
            for _ in range(_GRAPHED):
                y = y * 1.01 + 1
            return y

        return step

    def replayed(library: Library) -> Work | None:
        return None if library.graph is None else Work("step()", {"step": library.graph(step_of(library))})

    eager = _times(libraries, lambda library: Work("step()", {"step": step_of(library)}), effort)
    print(f"{'eager':<34}{_columns(eager)}  {_share(_quotient(eager.get('tenkey'), eager.get('torch')))}")
    graph = _times(libraries, replayed, effort)
    ratio = _quotient(graph.get("tenkey"), graph.get("torch"))
    shown = report.at_most("graph of small kernels: time over torch's", ratio, 1.05)
    print(f"{'graph':<34}{_columns(graph)}  {shown}", flush=True)


def training(
    libraries: Sequence[Library], programs: Mapping[str, _models.Program], report: Report, effort: Effort
) -> None:
    """Time programs with gradients, eager."""
    print(f"\n{'Training':<42}{''.join([f'{name:>13}' for name in _HEADS])}  over torch")

    def work_of(library: Library, program: _models.Program) -> Work | None:
        return None if library.module is None else Work("step()", {"step": program(library.module)})

    for name, program in programs.items():
        times = _times(libraries, partial(work_of, program=program), effort)
        ratio = _quotient(times.get("tenkey"), times.get("torch"))
        shown = report.at_most(f"{name}: time over torch's", ratio, 1.3)
        print(f"{name:<42}{_columns(times)}  {shown}", flush=True)
