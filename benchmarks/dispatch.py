"""The cost of a call: ``python -m benchmarks.dispatch``.

Small operators on 4 elements with and without gradient, 1,000 chained adds forward and backward, every kind of custom
operator, a C function, a mode that counts calls, registering 1,000 operators, and the import of the package with and
without installed plug-ins, compared with PyTorch on the CPU (and NumPy where applicable), interleaved in one run: see
Note [Interleaved measurement] in benchmarks/_harness.py. PyTorch's column requires ``pip install torch==2.13.0``;
without it the others are measured.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tenkey as tk
from benchmarks import _tenkey
from benchmarks._harness import INSTALL_TORCH, Measurement, Row, Work, measure_rows, parse_options, with_bytecode
from benchmarks._tables import Target, describe_machine, format_table, targets_of, write_json

__all__ = ["main"]

CHAIN_LENGTH = 1000

# One statement for all libraries; each library binds the names differently.
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

LIBRARY = {
    "Library operator, no gradient": "library_square(x)",
    "Library operator, forward, gradient": "library_square_with_gradient(p)",
    "Library operator, forward + backward": "library_square_with_gradient(p).backward(g); p.grad = None",
    "Function.apply, no gradient": "function(x)",
    "Function.apply, forward, gradient": "function(p)",
    "Function.apply, forward + backward": "function(p).backward(g); p.grad = None",
}

NATIVE = {"C function, 16 elements": "saxpy(v, w, 2.0)"}

MODE_CALLS = 100
MODE = {"no mode": "adds(a, b)", "mode": "counted(adds, a, b)"}

PLUGINS = 50

_TIME_IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"


def _chain(a: Any, b: Any) -> Any:
    total = a
    for _ in range(CHAIN_LENGTH):
        total = total + b
    return total


def _adds(a: Any, b: Any) -> None:
    for _ in range(MODE_CALLS):
        _ = a + b


def _arrays() -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """Return the float32 operands, with the same values for every library."""
    vector = np.array([0.5, -1.0, 2.0, 0.25], dtype=np.float32)
    other = np.array([1.5, 0.75, -0.5, 3.0], dtype=np.float32)
    return {"a": vector, "b": other, "m": vector.reshape(2, 2).copy(), "n": other.reshape(2, 2).copy()}


def tenkey_names(*, gradient: bool) -> dict[str, Any]:
    """Bind the names of the statements for tenkey; with ``gradient``, a, b, m and n require gradients."""
    values = {name: tk.tensor(array, requires_grad=gradient) for name, array in _arrays().items()}
    return {**values, **_tenkey.custom(), **_shared(tk.tensor), "exp": tk.exp, "sum": tk.sum, "reshape": tk.reshape}


def torch_names(torch: Any, custom: ModuleType, *, gradient: bool) -> dict[str, Any]:
    """Bind the names of the statements for PyTorch."""
    values = {name: torch.tensor(array, requires_grad=gradient) for name, array in _arrays().items()}
    return {
        **values,
        **custom.custom(),
        **_shared(torch.tensor),
        "exp": torch.exp,
        "sum": torch.sum,
        "reshape": torch.reshape,
    }


def numpy_names() -> dict[str, Any]:
    """Bind the names of the statements for NumPy, which has no gradients."""
    return {**_arrays(), "exp": np.exp, "sum": np.sum, "reshape": np.reshape}


def _shared(tensor: Any) -> dict[str, Any]:
    array = _arrays()["a"]
    return {
        "adds": _adds,
        "chain": _chain,
        "g": tensor(np.ones_like(array)),
        "x": tensor(array),
        "p": tensor(array, requires_grad=True),
    }


def make_rows(statements: Mapping[str, str], libraries: Mapping[str, Mapping[str, object]]) -> list[Row]:
    """Return a row for each statement, with its names bound for every library."""
    rows = []
    for name, statement in statements.items():
        code = compile(statement, name, "exec")
        works = {
            library: Work(statement, {key: names[key] for key in code.co_names if key in names})
            for library, names in libraries.items()
        }
        rows.append(Row(name, works))
    return rows


def measure_programs(name: str, programs: Mapping[str, str], rounds: int, **environment: str) -> Measurement:
    """Run each contestant's program in new processes, with a warm page cache, and collect the seconds it prints."""
    result = Measurement(name, {contestant: [] for contestant in programs})
    variables = with_bytecode(**environment)
    for turn in range(-1, rounds):
        for contestant, program in programs.items():
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=variables
            )
            if turn >= 0:  # the first fills the page cache and writes bytecode
                result.seconds[contestant].append(float(done.stdout))
    return result


def measure_import(modules: Mapping[str, str], rounds: int, **environment: str) -> Measurement:
    """Measure the seconds of ``import module`` in a new process, for each contestant."""
    programs = {name: _TIME_IMPORT.format(module=module) for name, module in modules.items()}
    return measure_programs("import", programs, rounds, **environment)


def measure_plugins(rounds: int) -> Measurement:
    """Measure the import with and without installed backend plug-ins."""
    result = Measurement(f"import with {PLUGINS} plug-ins", {"tenkey": [], "without": []})
    with tempfile.TemporaryDirectory() as temporary:
        folders = {"without": Path(temporary, "none"), "tenkey": Path(temporary, "many")}
        for folder in folders.values():
            folder.mkdir()
        install_plugins(folders["tenkey"], PLUGINS)
        for turn in range(-1, rounds):
            for name, folder in folders.items():
                path = os.pathsep.join(filter(None, (str(folder), str(Path.cwd()), os.environ.get("PYTHONPATH"))))
                measured = measure_import({name: "tenkey"}, 1, PYTHONPATH=path)
                if turn >= 0:
                    result.seconds[name] += measured.seconds[name]
    return result


def install_plugins(folder: Path, count: int) -> None:
    """Write distributions with a backend entry point whose module must not be imported."""
    for i in range(count):
        (folder / f"plugin{i}.py").write_text("raise RuntimeError('a plug-in was imported')\n", encoding="utf-8")
        information = folder / f"plugin{i}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: plugin{i}\nVersion: 1.0\n", encoding="utf-8"
        )
        entry = f"[tenkey.backends]\nplugin{i} = plugin{i}:backend\n"
        (information / "entry_points.txt").write_text(entry, encoding="utf-8")


_SAXPY = """
#include <stdint.h>
void saxpy(const float *x, const float *y, double a, float *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)a * x[i] + y[i];
}
"""


def compile_saxpy(folder: Path) -> Path | None:
    """Compile a C function and return its shared library; None without a compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    (folder / "saxpy.c").write_text(_SAXPY, encoding="utf-8")
    made = folder / "libsaxpy.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(folder / "saxpy.c"), "-o", str(made)], check=True)
    return made


def cost_of_mode(results: Sequence[Measurement]) -> Measurement:
    """Return the cost that a mode adds to one call: in each round, the difference of the times with and without it."""
    without, with_mode = results
    return Measurement(
        "counting mode, over none",
        {
            name: [
                (more - less) / MODE_CALLS
                for more, less in zip(with_mode.seconds[name], without.seconds[name], strict=True)
            ]
            for name in without.seconds
            if name in with_mode.seconds
        },
    )


def main() -> None:
    """Measure and print every table."""
    options = parse_options(__doc__ or "", rounds=60)
    plain: dict[str, Mapping[str, object]] = {"tenkey": tenkey_names(gradient=False)}
    recorded: dict[str, Mapping[str, object]] = {"tenkey": tenkey_names(gradient=True)}
    modules = {"tenkey": "tenkey"}
    torch_side: Any = None
    if importlib.util.find_spec("torch") is not None:
        import torch

        from benchmarks import _torch

        torch_side = _torch
        plain["PyTorch"] = torch_names(torch, _torch, gradient=False)
        recorded["PyTorch"] = torch_names(torch, _torch, gradient=True)
        modules["PyTorch"] = "torch"
    else:
        print(INSTALL_TORCH)
    with_numpy = {**plain, "NumPy": numpy_names()}
    machine = describe_machine(["tenkey", "torch", "numpy"])
    print(f"{machine}\n{options.heading}\n")
    contestants = ["tenkey", "PyTorch", "NumPy"]
    tables: dict[str, list[Measurement]] = {}
    targets: list[Target] = []

    def show(
        title: str,
        statements: Mapping[str, str],
        libraries: Mapping[str, Mapping[str, object]],
        against: Sequence[str],
        limit: float,
    ) -> None:
        results = measure_rows(make_rows(statements, libraries), options)
        if results:
            tables[title] = results
            targets.extend(targets_of(title, results, against[0], mean=limit))
            print(format_table(title, results, contestants, against=against, limit=limit) + "\n", flush=True)

    show("Small operators, 4 elements, no gradient", SMALL, with_numpy, ["PyTorch", "NumPy"], 0.20)
    show("Small operators, 4 elements, gradient recorded", SMALL, recorded, ["PyTorch"], 0.40)
    show("Chain of adds, forward and backward", CHAIN, recorded, ["PyTorch"], 0.35)
    show("Custom operators against torch.library.custom_op, 4 elements", CUSTOM, plain, ["PyTorch"], 0.15)
    show("Library.define/impl and Function against PyTorch's, 4 elements", LIBRARY, plain, ["PyTorch"], 0.5)
    with tempfile.TemporaryDirectory() as temporary:
        library = compile_saxpy(Path(temporary))
        if library is None:
            print("The row of a C function needs a C compiler (cc, gcc or clang).\n")
        else:
            vectors = {"v": np.linspace(0, 1, 16, dtype=np.float32), "w": np.ones(16, np.float32)}
            native = {"tenkey": {**{k: tk.tensor(a) for k, a in vectors.items()}, "saxpy": _tenkey.load_saxpy(library)}}
            if torch_side is not None:
                tensors = {k: torch_side.torch.tensor(a) for k, a in vectors.items()}
                native["PyTorch"] = {**tensors, "saxpy": torch_side.load_saxpy(library)}
            show("Native code, float32 (tenkey: at most 3 us)", NATIVE, native, ["PyTorch"], 0.5)
    if options.only in "mode":
        title = f"A DispatchMode that counts, per call (tenkey: at most 1 us; mean of {MODE_CALLS})"
        both = measure_rows(make_rows(MODE, plain), replace(options, only=""))
        tables[title] = [cost_of_mode(both)]
        print(format_table(title, tables[title], contestants, against=["PyTorch"]) + "\n", flush=True)
    few = max(3, min(options.rounds, 9))
    unit = ("ms", 1e3)
    if options.only in "register":
        title = "Registering in a new process (tenkey: at most 500 ms)"
        tables[title] = [
            measure_programs(
                name,
                {"tenkey": program, **({"PyTorch": torch_side.REGISTER[name]} if torch_side is not None else {})},
                few,
            )
            for name, program in _tenkey.REGISTER.items()
        ]
        print(format_table(title, tables[title], contestants, against=["PyTorch"], unit=unit) + "\n", flush=True)
    if options.only in "import":
        title = "Import in a new process"
        tables[title] = [measure_import(modules, few)]
        targets += targets_of(title, tables[title], "PyTorch", mean=0.25)
        print(format_table(title, tables[title], contestants, against=["PyTorch"], limit=0.25, unit=unit) + "\n")
        title = f"Import with {PLUGINS} installed plug-ins"
        tables[title] = [measure_plugins(few)]
        print(format_table(title, tables[title], ["tenkey", "without"], against=["without"], unit=unit))
    if options.json is not None:
        write_json(options.json, machine, tables, targets)


if __name__ == "__main__":
    main()
