"""The groups of rows with their targets, and how a group is measured quietly and with a core held."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks._harness import Measurement, Options, Row, measure_rows
from benchmarks._tables import Target, geometric_mean

from . import _lines
from ._pointwise import pointwise_rows
from ._rows import Line, Operands, make_row

__all__ = ["BUSY", "FULL", "GROUPS", "Group", "compare_busy", "held_core", "measure_group"]

FULL: Final = 1 << 20
BUSY: Final = 2.2


@dataclass(frozen=True)
class Group:
    """Rows with a common target for the geometric mean of their ratios, and one for the worst of them.

    ``long`` names rows that are left out beyond ``FULL``, and ``sized`` tells whether the size matters at all. Beyond
    ``FULL`` results are not compared: that would take longer than to measure them.
    """

    name: str
    title: str
    mean: float
    worst: float | None = None
    lines: Sequence[Line] = ()
    long: Sequence[str] = ()
    sized: bool = True

    def rows(self, size: int, only: str = "", step: int = 1) -> Iterator[Row]:
        """Yield every ``step``-th row whose name contains ``only``, with operands of about ``size`` elements."""
        with np.errstate(all="ignore"):
            if not self.lines:
                yield from pointwise_rows(size, only, step)
                return
            operands = Operands(size)
            for line in self.lines[::step]:
                if only in line.name and not (size > FULL and line.name in self.long):
                    yield make_row(line, operands, compare=size <= FULL)


GROUPS: Final = (
    Group("pointwise", "Pointwise operators, float32", 0.55, 1.05),
    Group("dtypes", "Other dtypes, casts, comparisons, where, broadcasts, strides", 0.7, 1.1, _lines.DTYPES),
    Group("reductions", "Reductions and scans", 0.8, 1.05, _lines.REDUCTIONS),
    Group("rows", "Softmax, norms and losses", 0.7, None, _lines.ROWS),
    Group("copies", "Copies", 0.6, None, _lines.COPIES),
    Group(
        "sorting", "Sorting and searching", 0.5, None, _lines.SORTING,
        long=[line.name for line in _lines.SORTING if not line.name.endswith("float32")],
    ),
    Group("indexing", "Gather and scatter", 0.9, None, _lines.INDEXING),
    Group("random", "Random numbers", 0.8, None, _lines.RANDOM),
    Group("batched", "Batched products", 0.8, None, _lines.BATCHED),
    Group("products", "Products", 1.0, None, _lines.PRODUCTS, sized=False),
)  # fmt: skip


def measure_group(group: Group, size: int, options: Options, *, step: int = 1) -> list[Measurement]:
    """Measure every ``step``-th row of a group at one size."""
    rows = list(group.rows(size, options.only, step))
    # NumPy warns about overflow and invalid values at the edges of domains.
    with np.errstate(all="ignore"):
        return measure_rows(rows, options)


@contextmanager
def held_core() -> Iterator[None]:
    """Let another process compute on one core."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def compare_busy(title: str, quiet: Sequence[Measurement], busy: Sequence[Measurement]) -> Target | None:
    """Return the target for the 90 % quantiles with a core held, relative to those of the quiet run.

    >>> rows = [Measurement("add", {"tenkey": [1.0]})], [Measurement("add", {"tenkey": [2.0]})]
    >>> print(compare_busy("Sums", *rows))
    met: Sums, p90 with a core held over quiet, geometric mean: 2.00, at most 2.20
    """
    ratios = {}
    for before, after in zip(quiet, busy, strict=True):
        first, second = before.quantile("tenkey", 0.9), after.quantile("tenkey", 0.9)
        if first and second:
            ratios[before.row] = second / first
    mean = geometric_mean(list(ratios.values()))
    if mean is None:
        return None
    above = sorted((row for row in ratios if ratios[row] > BUSY), key=ratios.__getitem__, reverse=True)
    detail = ", ".join(f"{row} {ratios[row]:.1f}" for row in above)
    return Target(f"{title}, p90 with a core held over quiet, geometric mean", mean, BUSY, detail)
