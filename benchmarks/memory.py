"""Peak memory of programs with gradients, and the time of large results: ``python -m benchmarks.memory``.

A training step of an MLP, and forward and backward of chains of 50 pointwise operators on matrices of 1500 x 1500
float32 elements, compared with PyTorch on the CPU. PyTorch's column requires ``pip install torch==2.13.0``; without it
tenkey's is measured. Linux only. Then additions into new memory, which tenkey reuses (``fresh``: it does not).

Note [Peak of a process]
    Every program runs in a process of its own, with one thread. After some steps, in which kernels are compiled, the
    kernel's mark of the highest resident size is reset (``/proc/self/clear_refs``), and the program takes another step.
    Its peak is the new mark less the size before the step. It counts what a library really holds, buffers of its
    allocator and of BLAS included, and is measured alike for both. The C library is told to return every large block
    at once (``MALLOC_MMAP_THRESHOLD_``): otherwise the peak would depend on what it has kept of earlier steps.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks._harness import INSTALL_TORCH
from benchmarks._tables import Target, describe_machine, write_json

__all__ = ["LIMIT", "PROGRAMS", "Step", "main", "peak_of", "traced_peak"]

LIMIT: Final = 1.0
SIZE: Final = 1500
_LAYERS: Final = 4
_WARM_UP: Final = 4
_STEPS: Final = 3
_ENVIRONMENT: Final = {
    "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TENKEY_NUM_THREADS": "1",
}  # fmt: skip

Step = Callable[[], None]


def _leaf(library: Any, array: np.ndarray[Any, Any]) -> Any:
    return library.tensor(array.astype(np.float32), requires_grad=True)


def _mlp(library: Any, size: int) -> Step:
    """Return a step of gradient descent of an MLP, with the mean squared error as its loss."""
    rng = np.random.default_rng(0)
    x, target = [library.tensor(rng.standard_normal((size, size)).astype(np.float32)) for _ in range(2)]
    weights = [_leaf(library, rng.standard_normal((size, size)) / size**0.5) for _ in range(_LAYERS)]
    biases = [_leaf(library, np.zeros(size)) for _ in range(_LAYERS)]

    def step() -> None:
        h = x
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            h = h @ weight + bias
            if layer < _LAYERS - 1:
                h = library.relu(h)
        loss = ((h - target) ** 2).mean()
        loss.backward()
        with library.no_grad():
            for parameter in (*weights, *biases):
                parameter -= 0.01 * parameter.grad
                parameter.grad = None

    return step


def _chain(*operators: Callable[[Any, Any], Any]) -> Callable[[Any, int], Step]:
    """Return a program that applies operators in turn, 50 in all, and differentiates the sum."""

    def make(library: Any, size: int) -> Step:
        x = _leaf(library, np.linspace(0.1, 0.9, size * size).reshape(size, size))

        def step() -> None:
            y = x
            for i in range(50):
                y = operators[i % len(operators)](library, y)
            y.sum().backward()
            x.grad = None

        return step

    return make


PROGRAMS: Final[Mapping[str, Callable[[Any, int], Step]]] = {
    f"training step of an MLP of {_LAYERS} layers": _mlp,
    "chain of 50 operators": _chain(
        lambda xp, y: y * 1.1,
        lambda xp, y: y / 1.1,
        lambda xp, y: y + 0.5,
        lambda xp, y: xp.sin(y),
        lambda xp, y: y - 0.1,
        lambda xp, y: xp.tanh(y),
        lambda xp, y: xp.sigmoid(y),
        lambda xp, y: xp.exp(y),
        lambda xp, y: xp.sqrt(y),
        lambda xp, y: y**2,
    ),
    "chain of 50 selections and quotients": _chain(
        lambda xp, y: xp.clip(y, 0.2, 0.8),
        lambda xp, y: xp.where(y > 0.5, y, 0.4),
        lambda xp, y: xp.reciprocal(y),
        lambda xp, y: xp.rsqrt(y),
        lambda xp, y: y / (y + 0.3),
    ),
}
"""Functions of a library and a size, which return a step without arguments."""


def _resident(mark: str) -> int:
    """Return a size of this process in bytes: ``VmRSS`` now, ``VmHWM`` at its highest."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(mark):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {mark}: this benchmark runs on Linux.")


def _measure(library: str, program: str, size: int) -> int:
    """Return the smallest of the peaks of several steps, in bytes above the size before the step."""
    module: Any = importlib.import_module(library)
    step = PROGRAMS[program](module, size)
    for _ in range(_WARM_UP):
        step()
    peaks = []
    for _ in range(_STEPS):
        gc.collect()
        before = _resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        step()
        peaks.append(_resident("VmHWM") - before)
    return min(peaks)


def traced_peak(step: Step, torch: Any = None) -> int:
    """Return the peak tensor memory of a step in bytes, relative to its start, as the library's profiler records it.

    ``torch`` is PyTorch for one of its steps. Blocks that a library allocates without a tensor are not counted.
    """
    if torch is None:
        import tenkey as tk

        with tk.autograd.profile(profile_memory=True) as profiler:
            step()
        changes = [record.bytes for record in profiler.memory_timeline()]
    else:
        with torch.profiler.profile(profile_memory=True) as profiler:
            step()
        changes = [e.nbytes() for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    return max([0, *itertools.accumulate(changes)])


def peak_of(library: str, program: str, size: int = SIZE) -> int:
    """Return the peak of a program in bytes, run by a process of its own (Note [Peak of a process])."""
    command = [sys.executable, "-m", "benchmarks.memory", "--library", library, "--program", program]
    found = subprocess.run(
        [*command, "--size", str(size)], env={**os.environ, **_ENVIRONMENT}, capture_output=True, text=True, check=True
    )
    return int(found.stdout.split()[-1])


def time_additions(exponents: Sequence[int] = (22, 23, 24, 25), rounds: int = 15) -> dict[int, dict[str, list[float]]]:
    """Return the seconds of ``a + b`` on 2^k float32 elements by contestant, interleaved."""
    import tenkey as tk

    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    found = {}
    before = tk.backends.set_memory_limit("cpu", None, cached=1 << 31)
    try:
        for exponent in exponents:
            a = np.ones(1 << exponent, np.float32)
            x = tk.asarray(a)
            contestants: dict[str, Any] = {"tenkey": x, "fresh": x, "numpy": a}
            if torch is not None:
                contestants["torch"] = torch.from_numpy(a)
            times: dict[str, list[float]] = {name: [] for name in contestants}
            for turn in range(-2, rounds):
                for name, operand in contestants.items():
                    if name == "fresh":
                        tk.backends.empty_cache("cpu")
                    start = time.perf_counter()
                    made = operand + operand
                    end = time.perf_counter()
                    del made
                    if turn >= 0:
                        times[name].append(end - start)
                    if name == "fresh":
                        x + x  # fills the cache again
            found[exponent] = times
    finally:
        tk.backends.set_memory_limit("cpu", before[0], cached=before[1])
        tk.backends.empty_cache("cpu")
    return found


def main() -> None:
    """Measure and print the table, or one program in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE, help=f"rows and columns of the matrices (default {SIZE})")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE", help="write the targets to FILE")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        print(_measure(options.library, options.program, options.size))
        return
    has_torch = importlib.util.find_spec("torch") is not None
    if not has_torch:
        print(INSTALL_TORCH)
    machine = describe_machine(["tenkey", "torch", "numpy"])
    targets: list[Target] = []
    print(machine)
    print(f"\nPeak of a process above its size before the step, matrices of {options.size} x {options.size} float32")
    print(f"{'':40}{'tenkey MB':>12}{'PyTorch MB':>12}{'x PyTorch':>11}")
    for program in PROGRAMS:
        ours = peak_of("tenkey", program, options.size)
        line = f"{program:40}{ours / 1e6:12.1f}"
        if has_torch:
            theirs = peak_of("torch", program, options.size)
            line += f"{theirs / 1e6:12.1f}{ours / theirs:11.3f}"
            targets.append(Target(f"Peak memory over PyTorch's: {program}", ours / theirs, LIMIT))
        print(line, flush=True)
    print(f"(at most {LIMIT:.2f} x PyTorch)")
    print("\nAddition of float32 vectors: median milliseconds (tenkey and fresh differ by the memory of the result)")
    additions = time_additions()
    print(f"{'':10}" + "".join(f"{name:>12}" for name in additions[22]))
    for exponent, times in additions.items():
        print(f"2^{exponent:<8}" + "".join(f"{statistics.median(row) * 1e3:12.2f}" for row in times.values()))
    if options.json is not None:
        write_json(options.json, machine, {}, targets)


if __name__ == "__main__":
    main()
