"""NumPy programs with ``import tenkey.numpy as np``, beside NumPy: ``python -m benchmarks.numpy_programs``.

Each program of this folder imports NumPy and has a function ``main`` that returns its results; ``python
benchmarks/numpy_programs/heat.py`` runs it. Here its text is executed twice, the second time with the import replaced
and nothing else. The results must agree before a program is measured. Contestants are interleaved: see
Note [Interleaved measurement] in benchmarks/_harness.py. A second table has the first run in a new process, where
kernels are looked up and loaded, the second, and the time of the process with one run, from its start to its end. What
the first run takes longer than the second are first calls; the target is their share of the process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks._harness import Measurement, Row, Work, measure_rows, parse_options
from benchmarks._tables import Target, describe_machine, format_table, targets_of, write_json

__all__ = ["IMPORTS", "TOLERANCE", "differences", "load", "main", "programs"]

IMPORTS: Final = {"tenkey": "import tenkey.numpy as np", "NumPy": "import numpy as np"}
TOLERANCE: Final = 1e-6  # of the greatest number of a result
_RUNS: Final = ("first", "second", "process")
_FIRST: Final = """
import sys, time
from pathlib import Path
text = Path(sys.argv[1]).read_text(encoding="utf-8").replace("import numpy as np", sys.argv[2])
names = {"__name__": "program"}
exec(compile(text, sys.argv[1], "exec"), names)
for _ in range(2):
    start = time.perf_counter()
    names["main"]()
    print(time.perf_counter() - start)
"""


def programs() -> list[Path]:
    """Return the files of the programs.

    >>> [path.stem for path in programs()][:2]
    ['components', 'edges']
    """
    return sorted(path for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def load(path: Path, library: str) -> Callable[[], Any]:
    """Return the function ``main`` of a program, of which one import is changed.

    >>> digits = load(Path(__file__).with_name("sudoku.py"), "tenkey")()[0]
    >>> type(digits).__module__.partition(".")[0], digits[0].tolist()
    ('tenkey', [5, 3, 4, 6, 7, 8, 9, 1, 2])
    """
    text = path.read_text(encoding="utf-8")
    assert text.count(IMPORTS["NumPy"] + "\n") == 1, path
    names: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text.replace(IMPORTS["NumPy"], IMPORTS[library]), str(path), "exec"), names)
    found: Callable[[], Any] = names["main"]
    return found


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> list[str]:
    """Tell in which results two runs differ: in dtype, in shape or in numbers.

    >>> differences([np.ones(2), 1.0], [np.ones(2, dtype=np.float32), 1.0])
    ['0: float64 and float32']
    """
    found = []
    for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        first, second = np.asarray(one), np.asarray(other)
        scale = max(float(np.abs(second.astype(np.float64)).max(initial=0)), 1e-300)
        if first.dtype != second.dtype:
            found.append(f"{place}: {first.dtype} and {second.dtype}")
        elif first.shape != second.shape:
            found.append(f"{place}: the shapes {first.shape} and {second.shape}")
        elif not np.allclose(first / scale, second / scale, rtol=0, atol=TOLERANCE):
            found.append(f"{place}: other numbers")
    return found


def _row(path: Path) -> Row:
    works: dict[str, Work] = {}
    failures: dict[str, str] = {}
    expected = load(path, "NumPy")()
    for library in IMPORTS:
        step = load(path, library)
        try:
            wrong = differences(step(), expected)
        except Exception as error:
            failures[library] = f"{type(error).__name__}: {error}"
            continue
        if wrong:
            failures[library] = f"the results differ: {', '.join(wrong)}"
            continue
        works[library] = Work("step()", {"step": step})
    return Row(path.stem, works, failures)


def _first(path: Path, times: int) -> Measurement:
    """Return the first run in a new process, and the second in the same process."""
    seconds: dict[str, list[float]] = {}
    for _ in range(times):
        for library, line in IMPORTS.items():
            command = [sys.executable, "-c", _FIRST, str(path), line]
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            whole = time.perf_counter() - start
            if done.returncode == 0:
                first, second = map(float, done.stdout.split())
                for which, value in zip(_RUNS, (first, second, whole - second), strict=True):
                    seconds.setdefault(f"{library}, {which}", []).append(value)
    return Measurement(path.stem, seconds)


def _share(run: Measurement) -> float:
    """Return the share of first calls in a process that runs the program once."""
    first, second, process = (run.median(f"tenkey, {which}") for which in _RUNS)
    return 0.0 if first is None or second is None or process is None else max(0.0, first - second) / process


def main() -> None:
    """Measure and print the tables."""
    options = parse_options(__doc__ or "", rounds=11, target=0.05, single=0.001)
    chosen = [path for path in programs() if options.only in path.stem]
    machine = describe_machine(["tenkey", "numpy"])
    print(f"{machine}\n{options.heading}")
    with np.errstate(all="ignore"):
        results = measure_rows([_row(path) for path in chosen], options)
    title, first = "NumPy programs with one import changed", "The first run in a new process"
    unit = ("ms", 1e3)
    print("\n" + format_table(title, results, list(IMPORTS), against=["NumPy"], unit=unit, spread=True), flush=True)
    targets = targets_of(title, results, "NumPy", mean=1.2, worst=1.5)
    print(*targets, sep="\n")
    runs = [_first(path, 1 if options.quick else 3) for path in chosen]
    print(f"\n{first}, ms\n")
    columns = [f"{library}, {which}" for library in IMPORTS for which in _RUNS]
    print(f"{'':<12}" + "".join(f"{column:>17}" for column in columns) + f"{'first calls':>13}")
    for run in runs:
        times = [run.median(column) for column in columns]
        texts = [f"{'-' if t is None else format(t * 1e3, '.1f'):>17}" for t in times]
        print(f"{run.row:<12}" + "".join(texts) + f"{_share(run):>12.0%}")
    if runs:
        worst = max(runs, key=_share)
        targets.append(Target("The share of first calls in a process, worst program", _share(worst), 0.3, worst.row))
        print(targets[-1])
    if options.json is not None:
        write_json(options.json, machine, {title: results, first: runs}, targets)


if __name__ == "__main__":
    main()
