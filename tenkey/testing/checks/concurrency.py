"""The row threads: concurrent calls give the same results as sequential calls.

Note [Threads take turns within a kernel]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel that keeps state between its lines fails only if another call runs between them, which rarely happens by
chance. Therefore the threads start together, the interpreter switches between them as often as possible, and in half of
the rounds a trace function yields the processor before opcodes of the operator's own code, sometimes for a few
microseconds, so that calls are interrupted at every possible place. Only the check's threads have the trace function;
a debugger or coverage measurement in the caller's thread is not affected. Guarded by
``tests/library/test_opcheck.py`` with kernels that write to a shared array in one line and in several.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final

import numpy as np

import tenkey as tk

from ...dispatch.tags import Tag
from .labels import Labelled, host_values
from .sample import Failure, Sample, Skipped, described
from .variations import differing, rolled

__all__ = ["check_threads"]

_THREADS: Final = 4
_ROUNDS: Final = 12
_SECONDS: Final = 0.4  # the time after which no new round begins
_OTHERS: Final = (str(Path(tk.__file__).parent), "<operator", str(Path(np.__file__).parent))  # code of other authors


def check_threads(sample: Sample) -> str | None:
    """Run threads with different inputs: see Note [Threads take turns within a kernel]."""
    if not sample.leaves:
        raise Skipped("no tensor argument")
    if Tag.NONDETERMINISTIC in sample.operator.tags:
        raise Skipped("tagged nondeterministic: threads draw from one generator in any order")
    inputs = []
    expected = []
    for number in range(_THREADS):
        arrays = [array if array.dtype.kind == "b" else rolled(array, number) for array in sample.arrays]
        try:
            made = sample.results(sample.tensors(arrays))
        except Exception:  # the operator refuses these values: use the sample's
            arrays = sample.arrays
            made = sample.results(sample.tensors(arrays))
        inputs.append(arrays)
        expected.append(host_values(made))
    _run(sample, inputs, expected)
    return None


def _run(sample: Sample, inputs: list[list[np.ndarray[Any, Any]]], expected: list[list[Labelled]]) -> None:
    problems: list[str] = []
    stop = time.monotonic() + _SECONDS
    barrier = threading.Barrier(_THREADS)

    def work(number: int) -> None:
        generator = random.Random(number)
        for turn in range(_ROUNDS):
            tensors = sample.tensors(inputs[number])
            try:
                barrier.wait(timeout=30)
            except threading.BrokenBarrierError:
                return
            if turn % 2:
                sys.settrace(_interrupting(generator))
            try:
                made = sample.results(tensors)
            except Exception as error:
                sys.settrace(None)
                problems.append(
                    f"{_THREADS} threads that call the operator at the same time made it raise {described(error)}, "
                    "which it does not when called alone: the kernel shares state between calls. Allocate scratch "
                    "memory in each call, or hold a lock."
                )
                barrier.abort()
                return
            finally:
                sys.settrace(None)
            wrong = differing(made, expected[number])
            if wrong is not None:
                problems.append(
                    f"{_THREADS} threads that call the operator at the same time with different arguments got wrong "
                    f"results ({wrong[0]} {wrong[1]}): the kernel shares state between calls. Allocate scratch memory "
                    "in each call, use threading.local(), or hold a lock."
                )
            if problems or (number == 0 and turn >= 3 and time.monotonic() > stop):
                barrier.abort()
                return

    threads = [threading.Thread(target=work, args=(n,), name=f"opcheck-{n}", daemon=True) for n in range(_THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if problems:
        raise Failure(problems[0])


def _interrupting(generator: random.Random) -> Any:
    """Return a trace function that yields the processor within the operator's own code."""

    def pause(frame: FrameType, event: str, argument: Any) -> Any:
        time.sleep(2e-5 * generator.random() if generator.random() < 0.3 else 0)
        return pause

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename.startswith(_OTHERS):
            return None
        frame.f_trace_opcodes = True
        return pause

    return enter
