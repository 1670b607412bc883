"""The CUDA backend: ``python -m benchmarks.cuda``.

With a GPU, one call checks every operator against the CPU and times large and small work, graphs and training steps
beside PyTorch and CuPy, in less than eight minutes; it prints the least time that each part can take (Note [Roofline]
in benchmarks/cuda/_work.py) and at the end the table of targets. Without a GPU it prints what can be known: the figures
of the compiled kernels (``tools/kernel_figures.py``), the minimum times, and the time that the host needs for small
operators, measured on the driver of the emulator, which executes nothing. Such figures say nothing about the speed of
a GPU. ``--emulator`` runs the part for a GPU on the emulator, with tiny sizes: a test of this program, not of speed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

import tenkey as tk
from benchmarks._tables import describe_machine

from ._checks import check_kernels, check_operators
from ._libraries import others, tenkey_library
from ._timings import TINY, TRAINING, Effort, Report, graphs, large, small, small_times, training
from ._work import DEVICES, WORK, Device, Part, make_work, minimum

__all__ = ["main"]

_CHECK_SECONDS: Final = 200.0
_PACKAGES: Final = ("tenkey", "numba-cuda", "cuda-core", "cuda-bindings", "torch", "cupy", "numpy")


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and time what this machine can; return the exit status: 1 if a check has failed."""
    parser = argparse.ArgumentParser("python -m benchmarks.cuda", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fast", action="store_true", help="without a GPU: only the kernels of sm_90")
    parser.add_argument("--seconds", type=float, default=_CHECK_SECONDS, help="with a GPU: for the checks")
    parser.add_argument("--operators", default="", metavar="PATTERN", help="check only those whose name matches")
    parser.add_argument("--emulator", action="store_true", help="run the part for a GPU on the emulator")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    if options.emulator:
        with tk.testing.cuda_emulator():
            print("On the emulator, with tiny sizes: the times below say nothing about a GPU.")
            failed = _with_gpu(options.seconds, options.operators, make_work(1000, 16), tiny=True)
    elif tk.cuda.is_available():
        failed = _with_gpu(options.seconds, options.operators, WORK)
    else:
        failed = _without_gpu(options.fast)
    print(f"\n{(time.perf_counter() - start) / 60:.1f} minutes")
    return 1 if failed else 0


def _without_gpu(fast: bool) -> int:
    print(f"{describe_machine(_PACKAGES)}")
    print("No GPU: compiled kernels, minimum times, and the time of the host. Nothing here was measured on a GPU.\n")
    failed = check_kernels(((9, 0),) if fast else None)
    print()
    for line in _roofline_table(WORK, DEVICES):
        print(line)
    print("\nTime of the host for operators on 4 elements, on a driver that executes nothing (target: 3 us a kernel;")
    print("CPU time of the thread; `python -m benchmarks.cuda_host` has more):")
    with tk.testing.cuda_emulator(execute=False):
        for name, seconds in small_times(tenkey_library(), Effort(), time.thread_time).items():
            print(f"  {name:<40}{1e6 * seconds:>9.2f} us")
    return failed


def _roofline_table(work: Sequence[Part], devices: Sequence[Device]) -> Iterator[str]:
    heads = "".join([f"{device.name:>12} at least" for device in devices])
    yield f"{'Minimum times':<40}{'MB':>9}{'GFLOP':>9}{heads}  limit"
    for part in work:
        times = [minimum(part, device) for device in devices]
        columns = "".join([f"{1e6 * seconds:>18.4g} us" for seconds, _ in times])
        yield f"{part.name:<40}{part.bytes / 1e6:>9.4g}{part.flops / 1e9:>9.4g}{columns}  {times[-1][1]}"


def _with_gpu(seconds: float, operators: str, work: Sequence[Part], *, tiny: bool = False) -> int:
    properties = tk.cuda.get_device_properties()
    print(f"{describe_machine(_PACKAGES)}")
    print(f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, {properties.multi_processor_count} SMs\n")
    failures = check_operators(seconds, operators)
    libraries = [tenkey_library(), *others()]
    device = next((d for d in DEVICES if d.name in properties.name), DEVICES[0])
    effort = Effort(0.0, 1) if tiny else Effort()
    report = Report()
    print(f"\nMinimum times are those of {device.name}.")
    for line in _roofline_table(work, [device]):
        print(line)
    print()
    large(libraries, work, device, report, effort)
    small(libraries, report, effort)
    graphs(libraries, report, effort)
    training(libraries, TINY if tiny else TRAINING, report, effort)
    print("\nTargets" + " (times of the emulator, which mean nothing)" * tiny)
    print(*report.lines(), sep="\n")
    return failures


if __name__ == "__main__":
    sys.exit(main())
