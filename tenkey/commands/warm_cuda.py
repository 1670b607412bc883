"""``python -m tenkey warm --cuda sm_90``: machine code for GPUs, built on any Linux machine with the extra ``cuda``."""

from __future__ import annotations

import argparse
import gc
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..backends.cpu.pool.thread_limit import allowed_cores
from .cuda_kernels import CudaKernel, kernels_of
from .progress import with_progress

__all__ = ["Built", "architectures_of", "build", "run_cuda", "table"]

_ARCHITECTURE: Final = re.compile(r"(?:sm_)?(\d+)(\d)")
_FEW: Final = 32
_INTERRUPTED: Final = 130  # the exit status of programs that Ctrl+C has ended
HEAD: Final = (
    "kernel", "arch", "registers", "spills", "local", "shared", "loads", "128 bits", "stores", "128 bits", "float64",
    "occupancy", "operator",
)  # fmt: skip


def architectures_of(names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the compute capabilities of names like ``sm_90``; raise ValueError for other names.

    >>> architectures_of(["sm_90", "sm_100"])
    [(9, 0), (10, 0)]
    """
    found = []
    for name in names:
        match = _ARCHITECTURE.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} is not an architecture such as sm_80, sm_90 or sm_100.")
        found.append((int(match[1]), int(match[2])))
    return found


def run_cuda(options: argparse.Namespace, dtypes: Sequence[np.dtype]) -> int:
    """Build the kernels, print what each of them costs, and return the exit status."""
    try:
        return _run(options, dtypes)
    except KeyboardInterrupt:
        print("Interrupted. What was compiled is in the cache: the same command goes on there.", file=sys.stderr)
        return _INTERRUPTED


def _run(options: argparse.Namespace, dtypes: Sequence[np.dtype]) -> int:
    try:
        architectures = architectures_of(options.cuda)
        folder = _made(options.out) if options.out else None
    except (ValueError, OSError) as error:
        print(f"--cuda: {error}", file=sys.stderr)
        return 2
    from ..backends.cuda.device.driver import packages_missing

    problem = packages_missing()
    if problem is not None:
        print(problem, file=sys.stderr)
        return 1
    if options.jobs is not None and options.jobs < 1:
        print(f"--jobs: {options.jobs} is not a number of processes, 1 or more.", file=sys.stderr)
        return 2
    start = time.perf_counter()
    print("Calling the operators on a driver that executes nothing, to find their kernels.", flush=True)
    kernels = _found(dtypes, options.operators)
    if not kernels:
        print(f"No operator that launches a kernel has a name like {' '.join(options.operators)}.", file=sys.stderr)
        return 2
    print(f"{len(kernels)} kernels were found in {time.perf_counter() - start:.0f} s.", flush=True)
    start = time.perf_counter()
    built = build(kernels, architectures, folder, options.jobs)
    for line in table(built.rows):
        print(line)
    place = folder or "the cache of compiled code"
    seconds, found = time.perf_counter() - start, len(built.rows) - built.compiled
    print(
        f"{len(built.rows)} kernels in {place}: {built.compiled} were compiled in {seconds:.0f} s, {found} were in the "
        f"cache; {len(built.failures)} failures."
    )
    if folder:
        size = sum(path.stat().st_size for path in Path(folder).glob("*.kernel")) / 1e6
        print(f"Copy the folder ({size:.1f} MB) to another machine, and let TENKEY_PREBUILT there be its path.")
    for text in built.failures:
        print(text, file=sys.stderr)
    return 1 if built.failures else 0


def _made(name: str) -> str:
    folder = Path(name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _found(dtypes: Sequence[np.dtype], operators: Sequence[str]) -> list[CudaKernel]:
    from ..testing.cuda_driver import cuda_emulator

    with cuda_emulator(execute=False):
        return kernels_of(dtypes, operators, progress=lambda each: with_progress(each, [*map(str, each)], "operator"))


class Built(NamedTuple):
    """Figures of each kernel with its operator, in the order of the kernels, and what went wrong.

    ``compiled`` counts the kernels that were not in the cache.
    """

    rows: list[tuple[Any, str]]
    failures: list[str]
    compiled: int


def build(
    kernels: Sequence[CudaKernel], architectures: Sequence[tuple[int, int]], folder: str | None, jobs: int | None = None
) -> Built:
    """Compile kernels in processes, one for each core by default, into a folder for other machines or into the cache.

    What the cache has is not compiled again.
    """
    tasks = [(kernel, cc, folder) for cc in architectures for kernel in kernels]
    names = [kernel.operator for kernel, _, _ in tasks]
    rows, failures, compiled = [], [], 0
    for (kernel, cc, _), (figures, problem, is_new) in zip(tasks, with_progress(_done(tasks, jobs), names, "kernel")):
        compiled += is_new
        if figures is not None:
            rows.append((figures, kernel.operator))
        else:
            failures.append(f"{kernel.operator}: {kernel.source.name} for sm_{cc[0]}{cc[1]}: {problem}")
    return Built(rows, failures, compiled)


def _done(tasks: Sequence[Any], jobs: int | None) -> Iterator[tuple[Any, str, bool]]:
    """Yield what :func:`_compiled` returns for each task, by processes where they are worth their start."""
    count = min(len(allowed_cores()) if jobs is None else jobs, len(tasks))
    if len(tasks) <= _FEW or count == 1:
        yield from map(_compiled, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    number = 0
    try:
        with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin_process) as pool:
            for done in pool.map(_compiled, tasks):
                number += 1
                yield done
    except BrokenProcessPool:
        problem = "a process that compiles has ended, perhaps for lack of memory: use fewer with --jobs"
        yield from [(None, problem, False)] * (len(tasks) - number)


def _begin_process() -> None:
    """Leave Ctrl+C to the process that started this one, and the compilers out of searches for garbage."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from ..backends.cuda.compiling import numba_compiler

    numba_compiler._scope()  # imports them
    gc.freeze()  # a tenth of the time


def _compiled(task: tuple[CudaKernel, tuple[int, int], str | None]) -> tuple[Any, str, bool]:
    """Compile one kernel, in a worker process; return its figures, what went wrong, and whether the cache lacked it."""
    from ..backends.cuda.compiling import cubin_of, figures_of, kernel_files, ptx_of, translation

    kernel, cc, folder = task
    before = translation.counts["linked"]
    try:
        if folder is not None:
            cubin, ptx = cubin_of(kernel.source, cc), ptx_of(kernel.source, cc)
            kernel_files.store_prebuilt("cubin", kernel.source, cc, cubin.packed(), folder)
            kernel_files.store_prebuilt("ptx", kernel.source, cc, ptx.encode(), folder)
        figures = figures_of(kernel.source, cc)
    except Exception as error:  # the other kernels are built nevertheless
        return None, f"{type(error).__name__}: {error}", False
    return figures, "", translation.counts["linked"] > before


def table(rows: Sequence[tuple[Any, str]]) -> Iterator[str]:
    """Yield the lines of a table of figures with the operators that need the kernels."""
    cells = [HEAD, *[(*_texts(figures), operator) for figures, operator in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEAD))]
    for row in cells:
        padded = [
            text.ljust(width) if i in (0, 1, len(HEAD) - 1) else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths))
        ]
        yield "  ".join(padded).rstrip()


def _texts(figures: Any) -> list[str]:
    return [f"{value:.2f}" if isinstance(value, float) else str(value) for value in figures]
