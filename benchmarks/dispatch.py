"""What a call costs: ``python -m benchmarks.dispatch``.

Small operators on 4 elements with and without gradient, 1,000 chained adds forward and backward, custom operators, and
the import of the package, each beside PyTorch on the CPU (and NumPy where it has the like), interleaved in one run: see
Note [Interleaved measurement] in benchmarks/_harness.py. PyTorch's column needs ``pip install torch==2.13.0``; without
it the rest is measured.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import tenkey as tk
from benchmarks import _tenkey
from benchmarks._harness import (
    INSTALL_TORCH,
    Measurement,
    Row,
    Work,
    describe_machine,
    format_table,
    measure_rows,
    parse_options,
    write_json,
)

__all__ = ["main"]

CHAIN_LENGTH = 1000

# One statement for all libraries; what differs is what the names are bound to.
SMALL = {
    "add": "a + b",
    "mul": "a * b",
    "exp": "exp(a)",
    "sum": "sum(a)",
    "reshape": "reshape(a, (2, 2))",
    "index a[1]": "a[1]",
    "slice a[1:3]": "a[1:3]",
    "matmul 2x2": "m @ n",
}

CHAIN = {f"{CHAIN_LENGTH} chained adds": "chain(a, b).backward(g); a.grad = None; b.grad = None"}

CUSTOM = {
    "custom_op, forward, no gradient": "square(x)",
    "custom_op, forward, gradient": "square(p)",
    "custom_op, forward + backward": "square(p).backward(g); p.grad = None",
    "pointwise, forward, no gradient": "silu(x)",
    "pointwise, forward, gradient": "silu(p)",
    "pointwise, forward + backward": "silu(p).backward(g); p.grad = None",
}

_TIME_IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"


def _chain(a: Any, b: Any) -> Any:
    total = a
    for _ in range(CHAIN_LENGTH):
        total = total + b
    return total


def _arrays() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """The values, float32, the same for every library."""
    vector = np.array([0.5, -1.0, 2.0, 0.25], dtype=np.float32)
    other = np.array([1.5, 0.75, -0.5, 3.0], dtype=np.float32)
    return {"a": vector, "b": other, "m": vector.reshape(2, 2).copy(), "n": other.reshape(2, 2).copy()}


def tenkey_names(*, gradient: bool) -> dict[str, Any]:
    """What the statements' names are for tenkey; ``gradient`` makes a, b, m and n require one."""
    values = {name: tk.tensor(array, requires_grad=gradient) for name, array in _arrays().items()}
    custom = {"square": _tenkey.square, "silu": _tenkey.silu}
    return {**values, **custom, **_shared(tk.tensor), "exp": tk.exp, "sum": tk.sum, "reshape": tk.reshape}


def torch_names(torch: Any, custom: ModuleType, *, gradient: bool) -> dict[str, Any]:
    """The same for PyTorch."""
    values = {name: torch.tensor(array, requires_grad=gradient) for name, array in _arrays().items()}
    operators = {"square": custom.square, "silu": custom.silu}
    return {
        **values,
        **operators,
        **_shared(torch.tensor),
        "exp": torch.exp,
        "sum": torch.sum,
        "reshape": torch.reshape,
    }


def numpy_names() -> dict[str, Any]:
    """The same for NumPy, which has no gradients."""
    return {**_arrays(), "exp": np.exp, "sum": np.sum, "reshape": np.reshape}


def _shared(tensor: Any) -> dict[str, Any]:
    array = _arrays()["a"]
    return {
        "chain": _chain,
        "g": tensor(np.ones_like(array)),
        "x": tensor(array),
        "p": tensor(array, requires_grad=True),
    }


def make_rows(statements: Mapping[str, str], libraries: Mapping[str, Mapping[str, object]]) -> list[Row]:
    """One row for each statement, with every library's binding of the names that occur in it."""
    rows = []
    for name, statement in statements.items():
        code = compile(statement, name, "exec")
        works = {
            library: Work(statement, {key: names[key] for key in code.co_names if key in names})
            for library, names in libraries.items()
        }
        rows.append(Row(name, works))
    return rows


def measure_import(modules: Mapping[str, str], rounds: int) -> Measurement:
    """Seconds that ``import module`` takes in a new process, by contestant; the files are in the page cache."""
    result = Measurement("import", {name: [] for name in modules})
    for turn in range(-1, rounds):
        for name, module in modules.items():
            program = _TIME_IMPORT.format(module=module)
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            if turn >= 0:  # the first fills the page cache and writes bytecode
                result.seconds[name].append(float(done.stdout))
    return result


def main() -> None:
    """Measure and print every table."""
    options = parse_options(__doc__ or "", rounds=60)
    plain: dict[str, Mapping[str, object]] = {"tenkey": tenkey_names(gradient=False)}
    recorded: dict[str, Mapping[str, object]] = {"tenkey": tenkey_names(gradient=True)}
    modules = {"tenkey": "tenkey"}
    if importlib.util.find_spec("torch") is not None:
        import torch

        from benchmarks import _torch

        plain["PyTorch"] = torch_names(torch, _torch, gradient=False)
        recorded["PyTorch"] = torch_names(torch, _torch, gradient=True)
        modules["PyTorch"] = "torch"
    else:
        print(INSTALL_TORCH)
    with_numpy = {**plain, "NumPy": numpy_names()}
    machine = describe_machine(["tenkey", "torch", "numpy", "numba"])
    print(f"{machine}\n{options.rounds} rounds; times are medians, `x` columns are tenkey's time over the other's.\n")
    contestants = ["tenkey", "PyTorch", "NumPy"]
    tables: dict[str, list[Measurement]] = {}

    def show(
        title: str,
        statements: Mapping[str, str],
        libraries: Mapping[str, Mapping[str, object]],
        against: Sequence[str],
        limit: float,
    ) -> None:
        results = measure_rows(make_rows(statements, libraries), options, settle=_tenkey.settle)
        if results:
            tables[title] = results
            print(format_table(title, results, contestants, against=against, limit=limit) + "\n", flush=True)

    show("Small operators, 4 elements, no gradient", SMALL, with_numpy, ["PyTorch", "NumPy"], 0.8)
    show("Small operators, 4 elements, gradient recorded", SMALL, recorded, ["PyTorch"], 0.8)
    show("Chain of adds, forward and backward", CHAIN, recorded, ["PyTorch"], 0.8)
    show("Custom operators against torch.library.custom_op, 4 elements", CUSTOM, plain, ["PyTorch"], 0.25)
    if options.only in "import":
        title = "Import in a new process"
        tables[title] = [measure_import(modules, max(3, min(options.rounds, 9)))]
        unit = ("ms", 1e3)
        print(format_table(title, tables[title], contestants, against=["PyTorch"], limit=0.25, unit=unit))
    if options.json is not None:
        write_json(options.json, machine, tables)


if __name__ == "__main__":
    main()
