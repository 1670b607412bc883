"""Tables of measurements, the targets that they meet or miss, and their files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from math import exp, log
from pathlib import Path

from benchmarks._harness import Measurement

__all__ = [
    "Target",
    "aligned",
    "describe_machine",
    "format_table",
    "geometric_mean",
    "targets_of",
    "write_json",
]


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
    spread: bool = False,
) -> str:
    """Format a table with a column of times for each contestant and one of ratios for each name in ``against``.

    ``"the faster"`` in ``against`` stands for the fastest contestant other than ``ours``. ``limit`` is the
    largest ratio to the first of ``against`` that the design allows. ``spread`` adds the 90 % quantile and the least of
    the single timings to each contestant's median, and the ratio of the leasts to that of the first of ``against``.

    >>> rows = [Measurement("add", {"tenkey": [1e-6], "NumPy": [2e-6]})]
    >>> print(format_table("Small", rows, ["tenkey", "NumPy"], against=["NumPy"], limit=0.8))
    Small
                    tenkey us  NumPy us  x NumPy
    add                 1.000     2.000     0.50
    geometric mean                          0.50
    (at most 0.80 x NumPy)
    """
    present = [name for name in contestants if name == ours or any(name in result.seconds for result in results)]
    shown = [name for name in against if name == "the faster" or name in present]
    ratios: dict[str, list[float]] = {}
    header = [""]
    for name in present:
        header += [f"{name} {unit[0]}", *(["p90", "least"] if spread else [])]
    header += [f"x {name}" for name in shown] + (["x least"] if spread else [])
    body: list[list[str]] = []
    for result in results:
        cells = [result.row]
        for name in present:
            times = [result.median(name), *([result.quantile(name, 0.9), result.quantile(name, 0)] if spread else [])]
            digits = 1 if spread and min(filter(None, times), default=0) * unit[1] >= 10 else 3
            cells += ["-" if value is None else f"{value * unit[1]:.{digits}f}" for value in times]
        for name in shown:
            ratio = result.ratio(ours, name)
            cells.append("-" if ratio is None else f"{ratio:.2f}")
            if ratio is not None:
                ratios.setdefault(name, []).append(ratio)
        if spread:
            ratio = result.least_ratio(ours, shown[0]) if shown else None
            cells.append("-" if ratio is None else f"{ratio:.2f}")
            if ratio is not None:
                ratios.setdefault("least", []).append(ratio)
        body.append(cells)
    means = {name: geometric_mean(values) for name, values in ratios.items()}
    cells = ["geometric mean", *("" for _ in present for _ in range(3 if spread else 1))]
    columns = [*shown, *(["least"] if spread else [])]
    if columns:
        body.append(cells + [f"{mean:.2f}" if (mean := means.get(name)) is not None else "-" for name in columns])
    lines = [title, aligned([header, *body])]
    if limit is not None and shown and against[0] == shown[0]:
        lines.append(f"(at most {limit:.2f} x {against[0]})")
    for result in results:
        lines += [f"not measured: {result.row}, {name}: {reason}" for name, reason in result.failures.items()]
    return "\n".join(lines)


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Align the columns of a table: the first to the left.

    >>> print(aligned([["a", "1.0"], ["long", "10.0"]]))
    a      1.0
    long  10.0
    """
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = ("  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in table)
    return "\n".join(line.rstrip() for line in lines)


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


@dataclass(frozen=True)
class Target:
    """A figure, the most that it may be, and what explains it, such as the worst rows."""

    name: str
    value: float
    limit: float
    detail: str = ""

    def __str__(self) -> str:
        """Describe the target in one line.

        >>> print(Target("add", 0.5, 0.7))
        met: add: 0.50, at most 0.70
        """
        verdict = "met" if self.value <= self.limit else "MISSED"
        return f"{verdict}: {self.name}: {self.value:.2f}, at most {self.limit:.2f}" + (
            self.detail and f" ({self.detail})"
        )


def targets_of(
    title: str,
    results: Sequence[Measurement],
    against: str,
    *,
    mean: float | None = None,
    worst: float | None = None,
    ours: str = "tenkey",
) -> list[Target]:
    """Return the targets of a table: for the geometric mean of its ratios, and for the worst row.

    >>> rows = [Measurement(name, {"tenkey": [ours], "NumPy": [2.0]}) for name, ours in (("add", 1.0), ("exp", 3.0))]
    >>> for target in targets_of("Two rows", rows, "NumPy", mean=1.0, worst=1.05):
    ...     print(target)
    met: Two rows, geometric mean: 0.87, at most 1.00
    MISSED: Two rows, worst row: 1.50, at most 1.05 (exp 1.50)
    """
    ratios = {result.row: ratio for result in results if (ratio := result.ratio(ours, against)) is not None}
    found = geometric_mean(list(ratios.values()))
    if found is None:
        return []
    targets = [] if mean is None else [Target(f"{title}, geometric mean", found, mean)]
    if worst is not None:
        above = sorted((row for row in ratios if ratios[row] > worst), key=ratios.__getitem__, reverse=True)
        detail = ", ".join(f"{row} {ratios[row]:.2f}" for row in above)
        targets.append(Target(f"{title}, worst row", max(ratios.values()), worst, detail))
    return targets


def write_json(
    path: Path, machine: str, tables: Mapping[str, Sequence[Measurement]], targets: Sequence[Target] = ()
) -> None:
    """Write the seconds of every round of every row, the targets, and the description of the machine."""
    document = {
        "machine": machine,
        "unit": "seconds per execution, one entry per round",
        "targets": [asdict(target) for target in targets],
        "tables": {
            title: [
                {
                    "row": item.row,
                    "seconds": item.seconds,
                    "p90": {name: item.quantile(name, 0.9) for name in item.seconds},
                    "least": {name: item.quantile(name, 0) for name in item.seconds},
                    "failures": item.failures,
                }
                for item in results
            ]
            for title, results in tables.items()
        },
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
