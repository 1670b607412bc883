"""Whole, untuned programs beside PyTorch or NumPy: ``python -m benchmarks.programs``.

Each program is one text that runs on every library, written as a user would write it first. Its results are compared
before it is timed; a library whose numbers differ is not measured, and the table says so. Programs with gradients are
compared with PyTorch on all threads, numerical ones with NumPy. Contestants are interleaved: see
Note [Interleaved measurement] in benchmarks/_harness.py. PyTorch's column requires ``pip install torch==2.13.0``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tenkey as tk
from benchmarks import _models, _numerics
from benchmarks._harness import INSTALL_TORCH, Measurement, Row, Work, measure_rows, parse_options
from benchmarks._tables import Target, describe_machine, format_table, targets_of, write_json
from benchmarks.cpu._rows import disagreement

__all__ = ["PROGRAMS", "Entry", "main"]


@dataclass(frozen=True)
class Entry:
    """A program, the library that it is compared with, and the others that can run it."""

    name: str
    make: _models.Program
    against: str
    others: Sequence[str] = ()
    tolerance: float = 1e-3


_GPT: Final[dict[str, Any]] = {"layers": 4, "heads": 4, "width": 128, "vocabulary": 1000, "tokens": 64}

PROGRAMS: Final = (
    Entry("MLP 32-64-64-10, batch 32: a step", _models.mlp([32, 64, 64, 10], 32), "PyTorch"),
    Entry("MLP 784-512-512-10, batch 128: a step", _models.mlp([784, 512, 512, 10], 128), "PyTorch"),
    Entry("MLP 1024-2048-2048-100, batch 256: a step", _models.mlp([1024, 2048, 2048, 100], 256), "PyTorch"),
    Entry("picoGPT forward", _models.gpt(**_GPT, gradient=False), "PyTorch"),
    Entry("picoGPT forward and gradient", _models.gpt(**_GPT, gradient=True), "PyTorch"),
    Entry("logistic regression, 50 steps", _models.logistic_regression(4000, 64, 50), "PyTorch"),
    Entry("Kalman filter, 200 steps", _models.kalman(200), "PyTorch", ["NumPy"]),
    Entry("k-means", _numerics.k_means(), "NumPy"),
    Entry("DBSCAN", _numerics.dbscan(), "NumPy"),
    Entry("naive Bayes", _numerics.naive_bayes(), "NumPy"),
    Entry("N-body", _numerics.n_body(), "NumPy"),
    Entry("smoke solver", _numerics.smoke(), "NumPy"),
    Entry("image filter chain", _numerics.image_filters(), "NumPy", tolerance=1 / 255),
)
LIMITS: Final = {"PyTorch": 1.0, "NumPy": 1.3}


def _modules() -> dict[str, Any]:
    found: dict[str, Any] = {"tenkey": tk, "NumPy": np}
    if importlib.util.find_spec("torch") is not None:
        found["PyTorch"] = importlib.import_module("torch")
        found["PyTorch"].set_num_threads(tk.get_num_threads())
    return found


def make_row(entry: Entry, modules: dict[str, Any]) -> Row:
    """Return the row of a program with the libraries whose first two results agree with those of tenkey."""
    works: dict[str, Work] = {}
    failures: dict[str, str] = {}
    ours: list[Any] = []
    for name in ("tenkey", entry.against, *entry.others):
        if name not in modules:
            continue
        try:
            step = entry.make(modules[name])
            results = [_numbers(step()) for _ in range(2)]
        except Exception as error:
            failures[name] = f"{type(error).__name__}: {error}"
            continue
        ours = ours or results
        found = [disagreement(mine, other, entry.tolerance) for mine, other in zip(ours, results)]
        if any(found):
            failures[name] = f"the results differ: {next(filter(None, found))}"
            continue
        works[name] = Work("step()", {"step": step})
    return Row(entry.name, works, failures)


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    found = np.asarray(value.detach() if hasattr(value, "detach") else value)
    return found.astype(np.float32 if found.dtype == np.uint8 else found.dtype)  # a level may round either way


def main() -> None:
    """Measure and print the tables."""
    options = parse_options(__doc__ or "", rounds=11, target=0.05, single=0.001)
    modules = _modules()
    if "PyTorch" not in modules:
        print(INSTALL_TORCH)
    machine = describe_machine(["tenkey", "torch", "numpy"])
    print(f"{machine}\n{options.heading}")
    tables: dict[str, Sequence[Measurement]] = {}
    targets: list[Target] = []
    for against, title in (("PyTorch", "Programs beside PyTorch"), ("NumPy", "Programs beside NumPy")):
        entries = [entry for entry in PROGRAMS if entry.against == against and options.only in entry.name]
        with np.errstate(all="ignore"):
            results = measure_rows([make_row(entry, modules) for entry in entries], options)
        if not results:
            continue
        tables[title] = results
        others = ["PyTorch", "NumPy"] if against == "PyTorch" else ["NumPy"]
        unit = ("ms", 1e3)
        print(
            "\n" + format_table(title, results, ["tenkey", *others], against=others, unit=unit, spread=True), flush=True
        )
        found = targets_of(title, results, against, mean=LIMITS[against], worst=LIMITS[against])
        print(*found, sep="\n")
        targets += found
    if options.json is not None:
        write_json(options.json, machine, tables, targets)


if __name__ == "__main__":
    main()
