"""The cost of a backward pass: ``python -m benchmarks.autograd``.

A chain of 1,000 adds, a graph of three operators on 4 elements, an MLP of 50 layers of width 64, 150,000 chained nodes
(built, run and freed, with the memory that remains), function transforms, and the peak memory of a training step,
compared with PyTorch on the CPU, both on one thread, interleaved in one run: see Note [Interleaved measurement] in
benchmarks/_harness.py. ``--clock cpu`` reads the CPU time of the thread. PyTorch's column requires
``pip install torch==2.13.0``; without it the others are measured.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as torch.set_num_threads(1) below

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tenkey as tk
from benchmarks._autograd_transforms import TRANSFORMS, transform_names
from benchmarks._harness import INSTALL_TORCH, Measurement, Row, Work, measure_rows, parse_options
from benchmarks._tables import Target, describe_machine, format_table, targets_of, write_json
from benchmarks.memory import traced_peak

__all__ = ["TABLES", "Table", "main"]

CHAIN_LENGTH: Final = 1000
DEEP: Final = 150_000
LAYERS, WIDTH, BATCH = 50, 64, 32


@dataclass(frozen=True)
class Table:
    """Statements by row name; ``names(library)`` binds their names, and ``limit`` is the target ratio."""

    title: str
    statements: Mapping[str, str]
    names: Callable[[Any], Mapping[str, object]]
    limit: float


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    first = np.array([0.5, -1.0, 2.0, 0.25], dtype=np.float32)
    return first, np.array([1.5, 0.75, -0.5, 3.0], dtype=np.float32)


def _chain(a: Any, b: Any) -> Any:
    total = a
    for _ in range(CHAIN_LENGTH):
        total = total + b
    return total


def _small_names(library: Any) -> dict[str, object]:
    first, second = _arrays()
    return {
        "a": library.tensor(first, requires_grad=True),
        "b": library.tensor(second, requires_grad=True),
        "g": library.tensor(np.ones_like(first)),
        "chain": _chain,
    }


def _mlp(library: Any) -> tuple[list[Any], Callable[[], Any]]:
    """Return the parameters, and a function that returns the loss."""
    rng = np.random.default_rng(0)
    weights = [
        library.tensor(rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8, requires_grad=True)
        for _ in range(LAYERS)
    ]
    biases = [library.tensor(np.zeros(WIDTH, np.float32), requires_grad=True) for _ in range(LAYERS)]
    x = library.tensor(rng.normal(size=(BATCH, WIDTH)).astype(np.float32))

    def loss() -> Any:
        h = x
        for weight, bias in zip(weights, biases):
            h = library.tanh(h @ weight + bias)
        return (h * h).sum()

    return [*weights, *biases], loss


def _mlp_names(library: Any) -> dict[str, object]:
    parameters, forward = _mlp(library)

    def clear() -> None:
        for parameter in parameters:
            parameter.grad = None

    return {"loss": forward(), "forward": forward, "clear": clear}


def _deep_names(library: Any) -> dict[str, object]:
    x = library.tensor(np.ones(4, np.float32), requires_grad=True)
    g = library.tensor(np.ones(4, np.float32))

    def deep() -> None:
        y = x
        for _ in range(DEEP):
            y = y + 1.0
        y.backward(g)
        x.grad = None

    return {"deep": deep}


TABLES: list[Table] = [
    Table(
        "Chain of adds, 4 elements",
        {f"{CHAIN_LENGTH} chained adds, forward + backward": "chain(a, b).backward(g); a.grad = None; b.grad = None"},
        _small_names,
        0.8,
    ),
    Table(
        "Graph of three operators, 4 elements",
        {"(a * b + a).sum(), forward + backward": "(a * b + a).sum().backward(); a.grad = None; b.grad = None"},
        _small_names,
        0.5,
    ),
    Table(
        f"MLP, {LAYERS} layers of width {WIDTH}, batch {BATCH}",
        {
            "backward": "loss.backward(retain_graph=True); clear()",
            "forward + backward": "forward().backward(); clear()",
        },
        _mlp_names,
        1.0,
    ),
    Table(f"{DEEP:,} chained nodes", {"built, run and freed": "deep()"}, _deep_names, 1.0),
    Table("Transforms of functions", TRANSFORMS, transform_names, 1.0),
]


def make_rows(table: Table, libraries: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a table, with the names of each statement bound for every library."""
    bound = {name: table.names(library) for name, library in libraries.items()}
    rows = []
    for name, statement in table.statements.items():
        used = compile(statement, name, "exec").co_names
        works = {
            library: Work(statement, {key: names[key] for key in used if key in names})
            for library, names in bound.items()
        }
        rows.append(Row(name, works))
    return rows


def left_over() -> int:
    """Return the number of Python memory blocks that 150,000 nodes leave behind with the cyclic collector disabled."""
    deep: Any = _deep_names(tk)["deep"]
    deep()
    gc.collect()
    gc.disable()
    try:
        deep()  # fills the free lists of Python
        before = sys.getallocatedblocks()
        deep()
        return sys.getallocatedblocks() - before
    finally:
        gc.enable()


def _step(library: Any) -> Callable[[], None]:
    parameters, forward = _mlp(library)

    def step() -> None:
        forward().backward()
        for parameter in parameters:
            parameter.grad = None

    step()
    return step


def main() -> None:
    """Measure and print every table."""
    options = parse_options(__doc__ or "", rounds=40, one_thread=True)
    libraries: dict[str, Any] = {"tenkey": tk}
    torch: Any = None
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        libraries["PyTorch"] = torch
    else:
        print(INSTALL_TORCH)
    machine = describe_machine(["tenkey", "torch", "numpy"])
    print(f"{machine}\n{options.heading}\n")
    results: dict[str, Sequence[Measurement]] = {}
    targets: list[Target] = []
    for table in TABLES:
        rows = measure_rows(make_rows(table, libraries), options)
        if rows:
            results[table.title] = rows
            targets += targets_of(table.title, rows, "PyTorch", mean=table.limit)
            print(format_table(table.title, rows, list(libraries), against=["PyTorch"], limit=table.limit), "\n")
    if options.only in "memory":
        print(f"{DEEP:,} chained nodes leave {left_over()} memory blocks behind (collector off)")
        ours = traced_peak(_step(tk))
        line = f"Peak memory of a training step of the MLP: tenkey {ours:,} bytes"
        if torch is not None:
            theirs = traced_peak(_step(torch), torch)
            line += f", PyTorch {theirs:,}: {ours / theirs:.2f} x (at most 1.00 x)"
            targets.append(Target("Peak memory of a training step of the MLP over PyTorch's", ours / theirs, 1.0))
        print(line)
    if options.json is not None:
        write_json(options.json, machine, results, targets)


if __name__ == "__main__":
    main()
