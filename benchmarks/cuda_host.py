"""The host's part of calls on a GPU: ``python -m benchmarks.cuda_host``.

What a call costs the host does not depend on the device. It is measured on the stub driver of
``tk.testing.cuda_emulator(execute=False)``, which accepts launches and does nothing, so that no GPU is needed; a real
driver adds its own time to each launch. The rows are whole calls on 4 elements (dispatch, allocation of the result,
packing of the arguments, launch, and the end of the result), beside the same calls on the CPU, and single launches
beside ``cuda.core.launch`` with the same arguments. The target is 3 us for a small operator, and 5 us where dimensions
are broadcast or reduced. ``--clock cpu`` leaves out the time in which other processes have the core.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

import tenkey as tk
from benchmarks._harness import Measurement, Row, Work, measure_rows, parse_options
from benchmarks._tables import Target, describe_machine, format_table, write_json
from tenkey.backends.cuda.device.driver import packages_missing
from tenkey.testing.cuda_driver import stub_building

__all__ = ["LAUNCHES", "OPERATORS", "SMALL", "main", "make_rows"]

OPERATORS = {
    "a + b": "a + b",
    "a * 2.5": "a * 2.5",
    "exp(a)": "exp(a)",
    "where(c, a, b)": "where(c, a, b)",
    "a += b": "a += b",
    "row + column": "row + column",
    "strided + strided": "s + s",
    "sum(a)": "sum(a)",
    "a[1:3]": "a[1:3]",
    "empty(4)": "empty(4, device=device)",
    "add, kept for 64 calls": "for i in range(64): kept[i] = a + b",
}
SMALL = {
    "a + b": 3.0,
    "a * 2.5": 3.0,
    "exp(a)": 3.0,
    "where(c, a, b)": 3.0,
    "a += b": 3.0,
    "row + column": 5.0,
    "sum(a)": 5.0,
}
"""The rows that have a target, and the most microseconds that they may take."""

_CORE = "core(stream, config, loaded, n, x, y)"
LAUNCHES = {
    "launch of 2 pointers and a uint32": ("kernel(1, 32, 4, x, y)", _CORE),
    "the same, number and grid prepared": ("prepared(handle, x, y)", _CORE),
}
"""Statements of tenkey, and of ``cuda.core`` with arguments that are converted before."""


def make_rows() -> list[Row]:
    """Return the rows of whole calls; the emulator is active."""
    rows = []
    for name, statement in OPERATORS.items():
        works = {}
        for contestant, device in (("cuda", "cuda"), ("cpu", "cpu")):
            space = _operands(device)
            setup = Work(statement, space)
            works[contestant] = setup
            for _ in range(4):  # the plan of a call is made at the second
                exec(statement, space)
        rows.append(Row(name, works))
    return rows


def _operands(device: str) -> dict[str, Any]:
    values = np.arange(4, dtype=np.float32)
    matrix = tk.asarray(np.zeros((4, 6), np.float32), device=device)
    return {
        "a": tk.asarray(values, device=device), "b": tk.asarray(values, device=device),
        "c": tk.asarray(values > 1, device=device), "row": tk.asarray(values, device=device),
        "column": tk.asarray(values[:, None], device=device), "s": matrix[:, ::2], "device": device,
        "kept": [None] * 64,
        "exp": tk.exp, "where": tk.where, "sum": tk.sum, "empty": tk.empty,
    }  # fmt: skip


def _launches() -> list[Row]:
    """Return the rows of single launches, by tenkey and by ``cuda.core``."""
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    from tenkey.backends.cuda.compiling import KernelSource, ptx_of
    from tenkey.backends.cuda.device import launching
    from tenkey.backends.cuda.device.launch_functions import Arguments, launch_of

    text = "def double(n, out, x):\n    i = uint32(cuda.grid(1))\n    if i < n:\n        out[i] = x[i] + x[i]\n"
    source = KernelSource("double", text, ("uint32", "float32*", "float32*"))
    device = Device(0)
    device.set_current()
    loaded = ObjectCode.from_ptx(ptx_of(source, (9, 0)).encode()).get_kernel("double")
    kernel, stream = launching.kernel(source), device.create_stream()
    arguments = Arguments(struct.pack("@QQI", 0, 0, 4), (16, 0, 8), 2)
    space = {
        "prepared": launch_of(kernel.function, kernel.configuration(1, 32), arguments), "handle": int(stream.handle),
        "kernel": kernel, "core": launch, "stream": stream, "loaded": loaded,
        "config": LaunchConfig(grid=1, block=32), "n": np.uint32(4), "x": 1 << 20, "y": 1 << 21,
    }  # fmt: skip
    return [
        Row(name, {"cuda": Work(ours, space), "cuda.core": Work(its, space)}) for name, (ours, its) in LAUNCHES.items()
    ]


def _targets(results: list[Measurement]) -> list[Target]:
    least = {m.row: min(m.seconds["cuda"]) * 1e6 for m in results}
    return [
        Target(f"host time of {row} in us, least of the rounds", least[row], most)
        for row, most in SMALL.items()
        if row in least
    ]


def main() -> None:
    """Measure and print the tables."""
    options = parse_options(__doc__ or "", rounds=25, one_thread=True)
    missing = packages_missing()
    if missing is not None or stub_building.compiler() is None:
        print(missing or "The driver of the emulator is compiled: install a C compiler.")
        return
    machine = describe_machine(["tenkey", "numba-cuda", "cuda-core", "cuda-bindings", "numpy"])
    print(f"{machine}\n{options.heading}")
    with tk.testing.cuda_emulator(execute=False):
        calls = measure_rows(make_rows(), options)
        print("\n" + format_table("Calls", calls, ["cuda", "cpu"], against=["cpu"], ours="cuda", spread=True))
        launches = measure_rows(_launches(), options)
        print(
            "\n" + format_table("Launches", launches, ["cuda", "cuda.core"], against=["cuda.core"], ours="cuda")
        )  # fmt: skip
    targets = _targets(calls)
    print("\n" + "\n".join(map(str, targets)))
    if options.json:
        write_json(options.json, machine, {"Calls": calls, "Launches": launches}, targets)


if __name__ == "__main__":
    main()
