"""Run every benchmark and write its tables to benchmarks/RESULTS.md: ``python -m benchmarks``.

Each benchmark runs in a process of its own; what it prints becomes its section, after the machine, the versions, the
date and the targets that were met and missed. ``--quick`` takes fewer rounds: some minutes instead of about 25.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks._harness import INSTALL_TORCH
from benchmarks._tables import Target, describe_machine

__all__ = ["BENCHMARKS", "Benchmark", "main", "render"]

RESULTS: Final = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True)
class Benchmark:
    """A module of this folder, its arguments, and those that replace them in a quick run."""

    name: str
    title: str
    arguments: Sequence[str] = ()
    quick: Sequence[str] = ("--quick",)

    def command(self, quick: bool) -> list[str]:
        """Return the arguments of Python.

        >>> " ".join(BENCHMARKS[0].command(quick=True))
        '-m benchmarks.cpu --quick --busy'
        """
        return ["-m", f"benchmarks.{self.name}", *(self.quick if quick else self.arguments)]


BENCHMARKS: Final = (
    Benchmark("cpu", "Large calls on the CPU", ["--busy"], quick=["--quick", "--busy"]),
    Benchmark("pool", "The launch of a parallel region"),
    Benchmark("programs", "Whole programs"),
    Benchmark("numpy_programs", "NumPy programs with one import changed"),
    Benchmark("numpy_calls", "Small calls of tenkey.numpy"),
    Benchmark("dispatch", "The cost of a call", ["--rounds", "30"]),
    Benchmark("arrays", "Small arrays", ["--rounds", "15"]),
    Benchmark("autograd", "Backward passes", ["--rounds", "15"]),
    Benchmark(
        "cuda_host", "The host's part of calls on a GPU", ["--clock", "cpu"], quick=["--quick", "--clock", "cpu"]
    ),
    Benchmark("memory", "Peak memory of programs with gradients", quick=["--size", "500"]),
)

_HEAD: Final = """# Results

Written by `{command}`; do not edit. [NOTES.md](NOTES.md) says how they are measured.

- machine: {machine}
- date: {date}
- load before the run: {load}
- time taken: {minutes:.0f} minutes

Times are medians, unless a table says otherwise; `p90` is the 90 % quantile of the single calls and `least` the least.
`x` columns are tenkey's time over the other's, and "the faster" is the faster of PyTorch and NumPy in that row.
"""

_SECTION: Final = """## {title}

`{command}`, {minutes:.1f} minutes:

```text
{output}
```
"""


def run(benchmark: Benchmark, quick: bool) -> dict[str, Any]:
    """Run a benchmark; return what it printed, its targets and how long it took."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        command = [sys.executable, *benchmark.command(quick), "--json", str(file)]
        lines = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.rstrip())
        if process.returncode != 0:
            lines.append(f"The benchmark ended with status {process.returncode}.")
        targets = json.loads(file.read_text(encoding="utf-8"))["targets"] if file.exists() else []
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "command": " ".join(["python", *benchmark.command(quick)]),
        "output": "\n".join(lines).strip(),
        "targets": [str(Target(**target)) for target in targets],
        "minutes": (time.perf_counter() - begin) / 60,
        "failed": process.returncode != 0,
    }


def render(command: str, machine: str, load: str, runs: Sequence[dict[str, Any]]) -> str:
    """Return the text of the file: a head, the targets, and a section for each run.

    >>> done = {
    ...     "name": "cpu",
    ...     "title": "CPU",
    ...     "command": "python -m benchmarks.cpu",
    ...     "output": "a table",
    ...     "targets": ["met: sums: 0.50, at most 0.80"],
    ...     "minutes": 1.0,
    ... }
    >>> [line for line in render("python -m benchmarks", "a machine", "0", [done]).splitlines() if line[:1] == "#"]
    ['# Results', '## Targets', '## CPU']
    """
    date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    minutes = sum(done["minutes"] for done in runs)
    parts = [_HEAD.format(command=command, machine=machine, date=date, load=load, minutes=minutes)]
    targets = [f"- {target}" for done in runs for target in done["targets"]]
    met = sum(target.startswith("- met") for target in targets)
    parts.append(f"## Targets\n\n{met} of {len(targets)} met.\n\n" + "\n".join(targets) + "\n")
    parts += [_SECTION.format(**done) for done in runs]
    return "\n".join(parts)


def main() -> int:
    """Run the benchmarks and write the file."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [benchmark.name for benchmark in BENCHMARKS]
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", action="append", choices=names, help="only this benchmark; may be repeated")
    parser.add_argument("--output", type=Path, default=RESULTS, help="the file (default benchmarks/RESULTS.md)")
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print(INSTALL_TORCH)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
    machine = describe_machine(["tenkey", "torch", "numpy", "scipy", "llvmlite"])
    chosen = [benchmark for benchmark in BENCHMARKS if not options.only or benchmark.name in options.only]
    runs = [run(benchmark, options.quick) for benchmark in chosen]
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    options.output.write_text(render(command, machine, load, runs), encoding="utf-8")
    print(f"\nwritten: {options.output}")
    return int(any(done["failed"] for done in runs))


if __name__ == "__main__":
    raise SystemExit(main())
