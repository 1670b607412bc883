"""Large calls on the CPU against the faster of PyTorch and NumPy: ``python -m benchmarks.cpu``.

Every pointwise operator, other dtypes and layouts, reductions, normalizations, copies, sorting, indexing, random
numbers and products, at 2^20 elements and at 2^10, 2^14 and 2^24 (there a fourth of the rows); time per element and the
gain of a second thread; first calls in new processes. Contestants are interleaved: see Note [Interleaved measurement]
in benchmarks/_harness.py. Each row is measured only with the libraries whose results agree with ours. PyTorch's column
requires ``pip install torch==2.13.0``.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from dataclasses import replace

from benchmarks._harness import INSTALL_TORCH, Measurement, Options, parse_options
from benchmarks._tables import Target, describe_machine, format_table, geometric_mean, targets_of, write_json

from ._first_call import first_calls
from ._groups import FULL, GROUPS, compare_busy, held_core, measure_group
from ._profile import profile
from ._rows import LIBRARIES
from ._scaling import scaling

__all__ = ["main"]

CONTESTANTS = ["tenkey", "PyTorch", "NumPy"]
AGAINST = ["the faster", "PyTorch", "NumPy"]
SECTIONS = ("groups", "sizes", "scaling", "first")
OTHER_SIZES = (10, 14, 24)
WORST = 8


def _arguments(parser: argparse.ArgumentParser) -> None:
    groups = [group.name for group in GROUPS]
    parser.add_argument("--group", action="append", choices=groups, help="only this group; may be repeated")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="only this section; may be repeated")
    parser.add_argument("--size", type=int, default=20, metavar="BITS", help="2^BITS elements in `groups` (default 20)")
    parser.add_argument("--busy", action="store_true", help="measure `groups` again with a core held by a process")
    parser.add_argument("--profile", metavar="TEXT", help="describe the rows whose name contains TEXT, and stop")


def _worst(results: Sequence[Measurement]) -> str:
    ratios = {item.row: value for item in results if (value := item.ratio("tenkey", "the faster")) is not None}
    rows = sorted(ratios, key=ratios.__getitem__, reverse=True)[:WORST]
    return "worst rows: " + ", ".join(f"{row} {ratios[row]:.2f}" for row in rows)


class _Report:
    """Prints tables as they are measured, and keeps them for the file."""

    def __init__(self) -> None:
        self.tables: dict[str, Sequence[Measurement]] = {}
        self.targets: list[Target] = []

    def table(self, title: str, results: Sequence[Measurement]) -> None:
        self.tables[title] = results
        print("\n" + format_table(title, results, CONTESTANTS, against=AGAINST, spread=True))
        if results:
            print(_worst(results), flush=True)

    def target(self, *targets: Target) -> None:
        self.targets += targets
        for target in targets:
            print(target, flush=True)


def _groups(report: _Report, options: Options) -> None:
    """Measure the groups at one size, with ``--busy`` a second time."""
    values = options.values
    where = f"2^{values.size} elements"
    for group in GROUPS:
        if values.group and group.name not in values.group:
            continue
        title = f"{group.title}, {where}" if group.sized else group.title
        quiet = measure_group(group, 1 << values.size, options)
        if not quiet:
            continue
        report.table(title, quiet)
        report.target(*targets_of(title, quiet, "the faster", mean=group.mean, worst=group.worst))
        if values.busy:
            with held_core():
                busy = measure_group(group, 1 << values.size, replace(options, rounds=max(3, options.rounds // 2)))
            report.table(f"{title}, a core held", busy)
            compared = compare_busy(title, quiet, busy)
            report.target(*targets_of(f"{title}, a core held", busy, "the faster", mean=group.mean))
            report.target(*([compared] if compared else []))


def _sizes(report: _Report, options: Options) -> None:
    """Measure the groups at the other sizes, with one target for all rows of a size; of 2^24 every fourth row."""
    for bits in OTHER_SIZES:
        step = 4 if 1 << bits > FULL else 1
        ratios: dict[str, float] = {}
        for group in GROUPS:
            if not group.sized or (options.values.group and group.name not in options.values.group):
                continue
            results = measure_group(group, 1 << bits, options, step=step)
            report.table(f"{group.title}, 2^{bits} elements", results)
            for result in results:
                ratio = result.ratio("tenkey", "the faster")
                if ratio is not None:
                    ratios[f"{group.name}: {result.row}"] = ratio
        mean = geometric_mean(list(ratios.values()))
        if mean is not None:
            rows = sorted(ratios, key=ratios.__getitem__, reverse=True)[:WORST]
            worst = "worst " + ", ".join(f"{row} {ratios[row]:.2f}" for row in rows)
            report.target(Target(f"all groups, 2^{bits} elements, geometric mean", mean, 1.0, worst))


def main() -> None:
    """Measure and print the tables."""
    options = parse_options(__doc__ or "", rounds=7, single=0.0002, arguments=_arguments)
    values = options.values
    if importlib.util.find_spec("torch") is None:
        print(INSTALL_TORCH)
    machine = describe_machine(["tenkey", "torch", "numpy"])
    print(f"{machine}\n{options.heading}")
    if values.profile:
        print("\n" + profile(values.profile, 1 << values.size))
        return
    sections = values.section or (["groups"] if values.group or options.only else SECTIONS)
    report = _Report()
    if "groups" in sections:
        _groups(report, options)
    if "sizes" in sections:
        _sizes(report, replace(options, rounds=max(3, options.rounds // 3)))
    if "scaling" in sections:
        table, targets = scaling(options.quick)
        print("\n" + table)
        report.target(*targets)
    if "first" in sections:
        table, targets = first_calls(1 if options.quick else 3, options.only)
        print("\n" + table)
        report.target(*targets)
    if report.targets:
        missed = [target for target in report.targets if target.value > target.limit]
        print(f"\n{len(report.targets) - len(missed)} of {len(report.targets)} targets met with {', '.join(LIBRARIES)}")
    if options.json is not None:
        write_json(options.json, machine, report.tables, report.targets)


if __name__ == "__main__":
    main()
