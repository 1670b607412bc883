"""Check that the conformance suite notices wrong backends: the reference device of the tests with one change each.

    python -m tools.wrong_kernels               # every wrong kernel, with the tests of the suite that should notice it
    python -m tools.wrong_kernels -k gather     # those whose name contains the text
    python -m tools.wrong_kernels --every 10    # one in ten
    python -m tools.wrong_kernels --list        # names and tests, without running anything

The tests are run once on the unchanged device, and must pass. Each wrong device then takes its place and is *noticed*
if its tests fail. The exit status is 0 if every one is noticed, 1 if one is missed or the unchanged device fails.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

import tenkey as tk

from . import NAME, WRONG
from .wrong import Wrong, device

__all__ = ["main", "run_suite"]

ROOT: Final = Path(__file__).resolve().parents[2]
SUITE: Final = "tenkey.testing.backend"
_OPTIONS: Final = (
    "-c", os.devnull, f"--rootdir={ROOT}", "-q", "-x", "--tb=short", "-p", "tenkey_pytest", "-p", "no:hypothesispytest",
    "-p", "no:cacheprovider", "-p", "no:xdist",
)  # fmt: skip


def run_suite(wrong: Wrong) -> tuple[int, str]:
    """Run tests of the suite on a device; return pytest's exit status and a line that says what failed."""
    tests = [f"{SUITE}.{test}" for test in wrong.tests]
    written = io.StringIO()
    with tk.backends.register(wrong.device()), contextlib.redirect_stdout(written):
        status = pytest.main([*_OPTIONS, "--pyargs", *tests, "--backend", NAME])
    lines = written.getvalue().splitlines()
    errors = [line.removeprefix("E  ").strip() for line in lines if line.startswith("E  ")]
    return int(status), errors[0] if errors else lines[-1] if lines else ""


def main(arguments: Sequence[str] | None = None, wrongs: Sequence[Wrong] = WRONG) -> int:
    """Try wrong devices and print a table; return 0 if each is noticed, otherwise 1."""
    parser = argparse.ArgumentParser(description="Check that the conformance suite notices wrong backends.")
    parser.add_argument("-k", metavar="TEXT", default="", help="wrong kernels whose name contains TEXT")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one in N of them")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    options = parser.parse_args(arguments)
    chosen = [one for one in wrongs if options.k in one.name][:: options.every]
    if options.list or not chosen:
        print("\n".join(f"{one.name}: {', '.join(one.tests)}" for one in chosen) or f"no name contains {options.k!r}")
        return 0 if chosen else 1
    begin = time.monotonic()
    right = device("unchanged", tuple(sorted({test for one in chosen for test in one.tests})))
    status, says = run_suite(right)
    if status:
        print(f"the suite rejects the unchanged device: {says}")
        return 1
    print(f"unchanged device: {says} ({time.monotonic() - begin:.0f} s)", flush=True)
    missed = []
    for one in chosen:
        start = time.monotonic()
        status, says = run_suite(one)
        noticed = status == pytest.ExitCode.TESTS_FAILED
        if not noticed:
            missed.append(one.name)
        print(
            f"{'noticed' if noticed else 'MISSED '} {time.monotonic() - start:4.1f} s  {one.name}: {says[:160]}",
            flush=True,
        )
    print(f"{len(chosen) - len(missed)} of {len(chosen)} wrong kernels noticed in {time.monotonic() - begin:.0f} s")
    print("".join(f"  missed: {name}\n" for name in missed), end="")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
