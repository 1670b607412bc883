"""Imports in new processes, beside NumPy and PyTorch: ``python -m benchmarks.imports``.

Each turn starts Python, which loads the modules from bytecode, and ends it: wall-clock time with that of Python itself.
The row "and x + 1" adds a first call, which in tenkey imports the CPU backend.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final

from benchmarks._harness import INSTALL_TORCH, Measurement, parse_options, with_bytecode
from benchmarks._tables import Target, describe_machine, format_table, write_json

__all__ = ["PROGRAMS", "main"]

_TITLE: Final = "Imports in new processes"
_FIRST: Final = "import {} as n; n.ones(3) + 1"
PROGRAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "import": {"tenkey": "import tenkey", "NumPy": "import numpy", "PyTorch": "import torch"},
    "import of NumPy's names": {"tenkey": "import tenkey.numpy", "NumPy": "import numpy"},
    "import and x + 1": {
        "tenkey": _FIRST.format("tenkey"), "NumPy": _FIRST.format("numpy"), "PyTorch": _FIRST.format("torch"),
    },
}  # fmt: skip
"""Programs by row and contestant."""
LIMIT: Final = 1.8  # times NumPy's import


def _seconds(program: str, environment: Mapping[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print the table."""
    options = parse_options(__doc__ or "", rounds=25)
    has_torch = importlib.util.find_spec("torch") is not None
    machine = describe_machine(["tenkey", *(["torch"] if has_torch else []), "numpy"])
    print(f"{machine}\n{options.heading}" + ("" if has_torch else f"\n{INSTALL_TORCH}"))
    environment = with_bytecode(PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    results = []
    for row, programs in PROGRAMS.items():
        if options.only not in row:
            continue
        names = [name for name in programs if name != "PyTorch" or has_torch]
        for name in names:
            _seconds(programs[name], environment)  # writes bytecode
        found = Measurement(row, {name: [] for name in names})
        for turn in range(options.rounds):
            for k in range(len(names)):
                name = names[(turn + k) % len(names)]
                found.seconds[name].append(_seconds(programs[name], environment))
        results.append(found)
    print("\n" + format_table(_TITLE, results, ["tenkey", "NumPy", "PyTorch"], against=["NumPy"], unit=("ms", 1e3)))
    ratios = {one.row: one.ratio("tenkey", "NumPy") for one in results}
    targets = [Target(f"{_TITLE}, import", ratio, LIMIT) for row, ratio in ratios.items() if row == "import" and ratio]
    print(*targets, sep="\n")
    if options.json is not None:
        write_json(options.json, machine, {_TITLE: results}, targets)


if __name__ == "__main__":
    main()
