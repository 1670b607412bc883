"""Check that the fast tier of the tests notices faults: one-line edits that break a kernel, a formula or a check.

    python -m tools.fault_injection               # every fault, with the tests that should notice it (6 minutes)
    python -m tools.fault_injection -k matmul     # the faults whose name contains the text
    python -m tools.fault_injection --whole       # the whole fast tier for each fault (hours)
    python -m tools.fault_injection --list        # names and files, without running anything

The tests are run once without a fault and must pass. Each fault of ``tools/faults.py`` is then applied alone, in a
copy of the source tree, and is *noticed* if its tests fail there. The exit status is 0 if every fault is noticed, 1 if
one is missed or the tests fail without a fault. The working tree is not touched. The copies share the cache of compiled
kernels (``TENKEY_CACHE_DIR``): its keys are the sources of the kernels, so only a kernel with a fault is compiled.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from .faults import FAULTS, Fault

__all__ = ["Outcome", "apply", "copy_tree", "main", "run_tests", "try_fault"]

ROOT: Final = Path(__file__).resolve().parents[1]
_COPIED: Final = (
    "tenkey", "tests", "tools", "examples", "benchmarks", "docs", "conftest.py", "pyproject.toml", "tenkey_pytest.py",
    "README.md", "CONTRIBUTING.md",
)  # fmt: skip
_NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", "_build", "_api", ".tenkey_cache", ".hypothesis")
_LIMIT: Final = 900  # seconds; tests that take longer with a fault, such as one that makes them hang, have noticed it
_MEMORY: Final = 16 << 30  # bytes of addresses


class Outcome(NamedTuple):
    """What the tests said: whether one failed, and a line that says which."""

    failed: bool
    says: str
    selects: bool = True
    """Whether there was a test to run."""


def apply(fault: Fault, root: Path) -> None:
    """Write the fault into the tree below ``root``; raise ValueError unless its text occurs once in the file."""
    path = root / fault.path
    text = path.read_text(encoding="utf-8")
    found = text.count(fault.old)
    if found != 1 or fault.old == fault.new:
        raise ValueError(
            f"[{fault.name}] {fault.old!r} occurs {found} times in {fault.path}: a fault changes a text that occurs "
            "once. Correct its entry in tools/faults.py."
        )
    modified = path.stat().st_mtime
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    os.utime(path, (modified + 2, modified + 2))  # compiled files go by seconds and size


def copy_tree(source: Path, target: Path) -> Path:
    """Copy what the tests need; return ``target``."""
    for name in _COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=_NOT_COPIED)
        elif (source / name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    return target


def run_tests(root: Path, selection: Sequence[str], *options: str, limit: float | None = None) -> Outcome:
    """Run the fast tier, or a selection of it, on the tree below ``root``, for at most ``limit`` seconds (900)."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *options, *selection]
    without = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment["PYTHONPATH"] = str(root)
    with subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        if sys.platform == "linux":  # a fault that makes a loop endless must not take all memory
            resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        try:
            said, _ = process.communicate(timeout=limit or _LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that tests have started
            return Outcome(True, f"the tests did not end in {limit or _LIMIT} s")
    if process.returncode == 5:
        return Outcome(False, "the fast tier has no test of that selection", selects=False)
    lines = said.strip().splitlines() or [""]
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return Outcome(process.returncode != 0, (failures or lines[-1:])[0])


def try_fault(fault: Fault, source: Path, *, whole: bool = False) -> Outcome:
    """Apply a fault in a copy of ``source`` and run its tests there."""
    with tempfile.TemporaryDirectory(prefix="tenkey-fault-") as folder:
        root = Path(folder) / "tree"
        shutil.copytree(source, root)  # with the compiled files that the run without a fault has left
        apply(fault, root)
        return run_tests(root, () if whole else fault.tests, "-x")


def _timed(fault: Fault, source: Path, *, whole: bool) -> tuple[Outcome, float]:
    begin = time.monotonic()
    return try_fault(fault, source, whole=whole), time.monotonic() - begin


def main(arguments: Sequence[str] | None = None, faults: Sequence[Fault] = FAULTS, root: Path = ROOT) -> int:
    """Try the faults of a list on the tree below ``root``; return 0 if each is noticed, otherwise 1."""
    parser = argparse.ArgumentParser(description="Check that the fast tier of the tests notices one-line faults.")
    parser.add_argument("-k", metavar="TEXT", default="", help="faults whose name contains TEXT")
    parser.add_argument("--whole", action="store_true", help="run the whole fast tier for each fault")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    parser.add_argument("--jobs", type=int, default=2, help="faults tried at the same time (default 2)")
    options = parser.parse_args(arguments)
    chosen = [fault for fault in faults if options.k in fault.name]
    if options.list or not chosen:
        print("\n".join(f"{fault.name}: {fault.path}" for fault in chosen) or f"no fault is called {options.k!r}")
        return 0 if chosen else 1
    with tempfile.TemporaryDirectory(prefix="tenkey-faults-") as folder:
        source = copy_tree(root, Path(folder) / "tree")
        begin = time.monotonic()
        tests = () if options.whole else sorted({test for fault in chosen for test in fault.tests})
        sound = run_tests(source, tests)
        if sound.failed or not sound.selects:
            print(f"the tests fail without a fault: {sound.says}")
            return 1
        print(f"without a fault: {sound.says} ({time.monotonic() - begin:.0f} s)", flush=True)
        missed = []
        with ThreadPoolExecutor(options.jobs) as pool:
            tried = pool.map(lambda fault: _timed(fault, source, whole=options.whole), chosen)
            for fault, (outcome, seconds) in zip(chosen, tried, strict=True):
                if not outcome.failed:
                    missed.append(fault.name)
                word = "noticed" if outcome.failed else "MISSED"
                print(f"{word:7} {seconds:5.0f} s  {fault.name}: {outcome.says}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults noticed" + "".join(f"\n  missed: {n}" for n in missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
