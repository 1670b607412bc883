"""``python -m tenkey warm --cuda sm_90``: machine code for GPUs, built on any Linux machine with the extra ``cuda``."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..backends.cpu.pool.thread_limit import allowed_cores
from .cuda_kernels import CudaKernel, kernels_of

__all__ = ["architectures_of", "build", "run_cuda", "table"]

_ARCHITECTURE: Final = re.compile(r"(?:sm_)?(\d+)(\d)")
_CHUNK: Final = 8
_FEW: Final = 32
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
    start = time.perf_counter()
    print("Calling the operators on a driver that executes nothing, to find their kernels.", flush=True)
    kernels = _found(dtypes, options.operators)
    if not kernels:
        print(f"No operator that launches a kernel has a name like {' '.join(options.operators)}.", file=sys.stderr)
        return 2
    print(f"{len(kernels)} kernels were found in {time.perf_counter() - start:.0f} s.", flush=True)
    start = time.perf_counter()
    rows, failures = build(kernels, architectures, folder)
    for line in table(rows):
        print(line)
    place = folder or "the cache of compiled code"
    seconds = time.perf_counter() - start
    print(f"{len(rows)} kernels in {place}, built in {seconds:.0f} s, {len(failures)} failures.")
    if folder:
        print(f"Copy the folder to another machine, and set TENKEY_PREBUILT={folder} there to its place.")
    for text in failures:
        print(text, file=sys.stderr)
    return 1 if failures else 0


def _made(name: str) -> str:
    folder = Path(name).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def _found(dtypes: Sequence[np.dtype], operators: Sequence[str]) -> list[CudaKernel]:
    from ..testing.cuda_driver import cuda_emulator

    with cuda_emulator(execute=False):
        return kernels_of(dtypes, operators)


def build(
    kernels: Sequence[CudaKernel], architectures: Sequence[tuple[int, int]], folder: str | None
) -> tuple[list[tuple[Any, str]], list[str]]:
    """Compile kernels in a process for each core, into a folder for other machines or into the cache.

    Returns the figures of each kernel with its operator, in the order of the kernels, and what went wrong.
    """
    tasks = [(kernel, cc, folder) for cc in architectures for kernel in kernels]
    rows, failures = [], []
    for (kernel, cc, _), (figures, problem) in zip(tasks, _with_progress(_done(tasks), len(tasks))):
        if figures is not None:
            rows.append((figures, kernel.operator))
        else:
            failures.append(f"{kernel.operator}: {kernel.source.name} for sm_{cc[0]}{cc[1]}: {problem}")
    return rows, failures


def _done(tasks: Sequence[Any]) -> Iterator[tuple[Any, str]]:
    """Yield what :func:`_compiled` returns for each task, by processes where they are worth their start."""
    if len(tasks) <= _FEW:
        yield from map(_compiled, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(len(allowed_cores()), mp_context=get_context("spawn")) as pool:
        yield from pool.map(_compiled, tasks, chunksize=_CHUNK)


def _compiled(task: tuple[CudaKernel, tuple[int, int], str | None]) -> tuple[Any, str]:
    """Compile one kernel, in a worker process; return its figures, or what went wrong."""
    from ..backends.cuda.compiling import cubin_of, figures_of, kernel_files, ptx_of

    kernel, cc, folder = task
    try:
        if folder is not None:
            cubin, ptx = cubin_of(kernel.source, cc), ptx_of(kernel.source, cc)
            kernel_files.store_prebuilt("cubin", kernel.source, cc, cubin.packed(), folder)
            kernel_files.store_prebuilt("ptx", kernel.source, cc, ptx.encode(), folder)
        return figures_of(kernel.source, cc), ""
    except Exception as error:  # the other kernels are built nevertheless
        return None, f"{type(error).__name__}: {error}"


def _with_progress(done: Iterable[Any], count: int) -> Iterator[Any]:
    try:
        from tqdm import tqdm
    except ImportError:
        yield from done
        return
    yield from tqdm(done, total=count, unit="kernel")


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
