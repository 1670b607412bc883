"""The launch of a parallel region: ``python -m benchmarks.pool``.

A region of two chunks of 30 us each takes 30 us on two cores if the second thread begins at once, and 60 us if the
caller does everything. The table has the time until the second thread begins and the time of the whole call, while
workers look out (calls in succession), while they sleep (calls 0.5 ms apart), and while another process computes on one
core. ``--kind python`` measures Python threads as workers instead of threads of the system.
"""

# Annotations of the functions in the language of loops are types of compiled code.
# mypy: disable-error-code="attr-defined, index, no-any-return, return, valid-type"

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks._harness import Measurement
from benchmarks._tables import aligned, describe_machine, write_json
from benchmarks.cpu._groups import held_core
from tenkey.backends.cpu import pool
from tenkey.backends.cpu.pool.region import parallel
from tenkey.backends.llvm import call, cast, function_pointer, i8, i32, i64, kernel, loop, pointer, void

WORK: Final = 30e-6
PAUSE: Final = 0.5e-3
CASES: Final = (
    ("calls in succession", 0.0, False),
    ("calls 0.5 ms apart", PAUSE, False),
    ("in succession, a core held", 0.0, True),
    ("0.5 ms apart, a core held", PAUSE, True),
)


@loop
def _now(words: pointer(i64)) -> i64:
    """Return nanoseconds: the first words are the address of clock_gettime, the clock, and space for its answer."""
    call(cast(words[0], pointer(i8)), words[1], words + 2, returns=i32)
    return words[2] * 1_000_000_000 + words[3]


@loop
def _chunk(data: pointer(i8), start: i64, stop: i64) -> void:
    """Note when the chunk begins, and work for a while."""
    words = cast(data, pointer(i64)) + start * 8
    words[4] = _now(words)
    while _now(words) < words[4] + words[5]:
        pass


@loop
def _region(state: pointer(i8), data: pointer(i8)) -> void:
    parallel(state, function_pointer(_chunk), data, 2, 1)


def measure(pause: float, calls: int) -> tuple[list[float], list[float]]:
    """Return the seconds until the second thread begins, and those of the call, for each call.

    Where the caller does both chunks, the second begins when it has done the first.
    """
    region = kernel(_region)
    words = np.zeros((2, 8), np.int64)
    words[:, 0] = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value or 0
    words[:, 1], words[:, 5] = time.CLOCK_MONOTONIC, round(WORK * 1e9)
    address = words.ctypes.data
    starts, times = [], []
    for _ in range(calls + 10):
        if pause:
            time.sleep(pause)
        began = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        region(pool.STATE, address)
        ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        starts.append((words[:, 4].max().item() - began) * 1e-9)
        times.append((ended - began) * 1e-9)
    return starts[10:], times[10:]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="calls for each row (default 2000)")
    parser.add_argument("--quick", action="store_const", dest="calls", const=200, help="200 calls for each row")
    parser.add_argument("--kind", choices=["system", "python"], default="system", help="the workers")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="write every figure to FILE")
    options = parser.parse_args()
    if (options.kind == "system") != pool.is_native():
        kind = "python" if options.kind == "python" else ""
        raise SystemExit(subprocess.call([sys.executable, "-m", "benchmarks.pool", *sys.argv[1:]],
                                         env={**os.environ, "TENKEY_POOL": kind}))  # fmt: skip
    machine = describe_machine(["tenkey", "numpy", "llvmlite"])
    title = f"Regions of 2 chunks of {WORK * 1e6:.0f} us, {options.calls} calls each, {pool.get_num_threads()} threads"
    rows, results = [["", "starts us", "median", "p90", "call us", "median", "p90"]], []
    for name, pause, held in CASES:
        with held_core() if held else nullcontext():
            starts, times = measure(pause, options.calls)
        result = Measurement(name, {"start": starts, "call": times})
        results.append(result)
        quantiles = [result.quantile(which, q) or 0.0 for which in ("start", "call") for q in (0, 0.5, 0.9)]
        rows.append([name, *[f"{seconds * 1e6:.1f}" for seconds in quantiles]])
    print(f"{machine}\n\n{title} (first the least)\n{aligned(rows)}")
    if options.json is not None:
        write_json(options.json, machine, {title: results})


if __name__ == "__main__":
    main()
