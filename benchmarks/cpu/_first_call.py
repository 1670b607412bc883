"""The first call of an operator in a new process, compiled and cached: CPU time of the whole process.

Note [What a first call is]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
Two parts of the compiled code belong to no operator: the driver of elementwise loops, and the pool of threads. With an
empty cache, the first call that needs them compiles them, beside what it needs itself; this occurs once on a machine.
The rows "add" and "add 2^20" show what the driver takes, and the driver and the pool: their loop is NumPy's. "never
compiled" is the first call of an operator on a machine where other operators have been called: only what this call
needs itself is compiled, in a process that has compiled nothing before, so that loading LLVM counts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks._harness import Measurement, with_bytecode
from benchmarks._tables import Target, format_table

__all__ = ["CALLS", "first_calls"]

_SHARED: Final = "y + y"  # needs the driver and the pool, and no other compiled code
CALLS: Final[Mapping[str, str]] = {
    "add": "x + x",
    "add 2^20": _SHARED,
    "exp": "tk.exp(x)",
    "gelu": "tk.gelu(x)",
    "pow float64": "tk.astype(x, tk.float64) ** 1.5",
    "less": "x < 0.5",
    "where": "tk.where(x > 0, x, 0.0)",
    "add a row": "m + m[0]",
    "sum": "tk.sum(x)",
    "var axis 0": "tk.var(m, axis=0)",
    "argmax axis 1": "tk.argmax(m, axis=1)",
    "cumsum": "tk.cumsum(x, axis=0)",
    "softmax": "tk.softmax(m, axis=1)",
    "transposed copy": "tk.asarray(m.T, copy=True)",
    "cast": "tk.astype(x, tk.int32)",
    "sort": "tk.sort(x)",
    "take": "tk.take(x, i, axis=0)",
    "scatter_add": "tk.scatter_add(x, i, x, axis=0)",
    "normal": "tk.random.normal((1 << 16,))",
    "batched product": "c @ c",
    "gradient of tanh": "tk.tanh(p).sum().backward()",
}
"""Expressions of tensors of 2^16 elements, unless the name says otherwise, each run in a process of its own."""

_PROGRAM: Final = """
import time
import numpy as np
import tenkey as tk
a = np.linspace(0.1, 1, 1 << 16, dtype=np.float32)
x, m, c = tk.asarray(a), tk.asarray(a.reshape(256, 256)), tk.asarray(a.reshape(64, 32, 32))
i, p = tk.asarray(np.arange(1 << 16)), tk.tensor(a, requires_grad=True)
y = tk.ones(1 << 20)
{before}
begin = time.process_time()
{call}
print(time.process_time() - begin)
"""
_BEFORE: Final = "(-p).sum().backward()"  # loads what every operator needs

CACHED, COMPILED = 2e-3, 60e-3
STATES: Final = {"empty cache": None, "never compiled": COMPILED, "cached": CACHED, "cached, after another": CACHED}
"""What is known before a call, and the target."""


def _run(call: str, before: str, environment: Mapping[str, str]) -> float:
    program = _PROGRAM.format(call=call, before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def first_calls(rounds: int, only: str = "") -> tuple[str, list[Target]]:
    """Measure each call in all `STATES`: Note [What a first call is]. Return the table and the targets."""
    results: list[Measurement] = []
    with tempfile.TemporaryDirectory() as folder:
        shared = Path(folder, "shared")
        environment = with_bytecode(TENKEY_CACHE_DIR=str(shared))
        _run(_SHARED, "", environment)
        for name, call in CALLS.items():
            if only not in name:
                continue
            found = Measurement(name, {state: [] for state in STATES})
            environment["TENKEY_CACHE_DIR"] = str(Path(folder, f"{len(results)} bytecode"))
            _run(call, "", environment)  # writes bytecode
            for turn in range(rounds):
                for state in STATES:
                    if state in {"empty cache", "never compiled"}:
                        place = Path(folder, f"{len(results)} {turn} {state}")
                        environment["TENKEY_CACHE_DIR"] = str(place)
                        if state == "never compiled":
                            shutil.copytree(shared, place)
                    found.seconds[state].append(_run(call, _BEFORE if "after" in state else "", environment))
            results.append(found)
    if not results:
        return "", []
    table = format_table(
        "First call of an operator in a new process, CPU time of all its threads", results,
        list(STATES), against=[], ours="never compiled", unit=("ms", 1e3),
    )  # fmt: skip
    targets = []
    for state, limit in STATES.items():
        if limit is None:
            continue
        # The arithmetic and the memory of 2^20 elements are not part of the first call.
        times = {one.row: min(one.seconds[state]) for one in results if CALLS[one.row] != _SHARED}
        if not times:
            continue
        worst = max(times, key=times.__getitem__)
        above = ", ".join(f"{row} {times[row] * 1e3:.1f}" for row in times if times[row] > limit)
        targets.append(Target(f"first call, {state}, slowest in ms", times[worst] * 1e3, limit * 1e3, above))
    return table, targets
