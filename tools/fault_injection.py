"""Check that the fast tests notice faults: one-line edits that break a kernel, a formula, a rule or a check.

    python -m tools.fault_injection               # every fault, with the tests that should notice it
    python -m tools.fault_injection -k matmul     # the faults whose name contains the text
    python -m tools.fault_injection --whole       # the whole fast tier for each fault (hours)
    python -m tools.fault_injection --list        # names and places, without running anything

Each fault of ``tools/faults.py`` is applied alone, in a copy of the source tree, and a selection of the fast tier runs
there. A fault is *noticed* if that run fails, and the same selection has passed without it. The exit status is 1 if a
fault goes unnoticed or a selection fails on the unchanged source. The working tree is not touched.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from .faults import FAULTS, Fault

__all__ = ["apply", "main", "notices"]

ROOT: Final = Path(__file__).resolve().parents[1]
_COPIED: Final = ("tenkey", "tests", "tools", "examples", "docs", "pyproject.toml", "tenkey_pytest.py", "README.md")
_TOO_LONG: Final = 900  # seconds; a fault that makes a test hang is noticed


def apply(fault: Fault, root: Path) -> None:
    """Write the fault into the tree below ``root``; ValueError unless its text occurs exactly once in the file."""
    path = root / fault.path
    text = path.read_text(encoding="utf-8")
    found = text.count(fault.old)
    if found != 1:
        raise ValueError(
            f"[{fault.name}] the text {fault.old!r} occurs {found} times in {fault.path}: update the list."
        )
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")


def _copy(target: Path) -> Path:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "_build", "_api"))
        else:
            shutil.copy2(source, target / name)
    return target


def notices(root: Path, selection: Sequence[str]) -> tuple[bool, str]:
    """Whether the fast tests of a selection fail on the tree below ``root``, and the end of their output."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *selection]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=_TOO_LONG
        )
    except subprocess.TimeoutExpired:
        return True, "the tests did not end"
    if done.returncode == 5:
        return False, f"the selection {' '.join(selection)} contains no test"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode != 0, lines[0] if lines else done.stdout[-300:].strip() or done.stderr[-300:].strip()


def _try(fault: Fault, *, whole: bool) -> tuple[bool, str, float]:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tenkey-fault-") as folder:
        root = _copy(Path(folder))
        apply(fault, root)
        noticed, says = notices(root, () if whole else fault.tests)
    return noticed, says, time.monotonic() - begin


def _sound(selections: Sequence[str]) -> str:
    """The first failure of all selections together on the unchanged source; empty if they pass."""
    with tempfile.TemporaryDirectory(prefix="tenkey-fault-") as folder:
        failed, says = notices(_copy(Path(folder)), selections)
    return says if failed or "contains no test" in says else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the list; 0 if every fault is noticed."""
    parser = argparse.ArgumentParser(description="Check that the fast tests notice one-line faults.")
    parser.add_argument("-k", metavar="TEXT", default="", help="faults whose name contains TEXT")
    parser.add_argument("--whole", action="store_true", help="run the whole fast tier for each fault")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    parser.add_argument("--jobs", type=int, default=2, help="faults tried at the same time (default 2)")
    options = parser.parse_args(arguments)
    chosen = [fault for fault in FAULTS if options.k in fault.name]
    if options.list or not chosen:
        print("\n".join(f"{fault.name}: {fault.path}" for fault in chosen) or f"no fault is called {options.k!r}")
        return 0 if chosen else 1
    if not options.whole:
        wrong = _sound(sorted({test for fault in chosen for test in fault.tests}))
        if wrong:
            print(f"the tests fail without a fault: {wrong}")
            return 1
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for fault, (noticed, says, seconds) in zip(
            chosen, pool.map(lambda fault: _try(fault, whole=options.whole), chosen), strict=True
        ):
            missed += not noticed
            print(f"{'noticed' if noticed else 'MISSED ':7} {seconds:5.0f} s  {fault.name}: {says}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} faults noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
