"""Small arrays: calls of 40 common functions, indexing and slicing: ``python -m benchmarks.arrays``.

Compared with NumPy, whose C implementation is the lower bound, and PyTorch, interleaved in one run: see
Note [Interleaved measurement] in benchmarks/_harness.py. PyTorch's column requires ``pip install torch==2.13.0``;
without it the others are measured. Operands are float32 (indices int64) with at most 3 x 4 elements, and every library
allocates its result.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any

import numpy as np

import tenkey as tk
from benchmarks._harness import INSTALL_TORCH, Measurement, Row, Work, measure_rows, parse_options
from benchmarks._tables import Target, describe_machine, format_table, targets_of, write_json

__all__ = ["main"]

# The row, then the statements for tenkey, NumPy and PyTorch, with the names of `operands`.
FUNCTIONS = (
    ("add", "x + y", "x + y", "x + y"),
    ("multiply by 2", "x * 2.0", "x * 2.0", "x * 2.0"),
    ("divide", "xp.divide(x, y)", "xp.divide(x, y)", "xp.divide(x, y)"),
    ("pow", "x**2", "x**2", "x**2"),
    ("exp", "xp.exp(x)", "xp.exp(x)", "xp.exp(x)"),
    ("sqrt", "xp.sqrt(p)", "xp.sqrt(p)", "xp.sqrt(p)"),
    ("abs", "xp.abs(x)", "xp.abs(x)", "xp.abs(x)"),
    ("maximum", "xp.maximum(x, y)", "xp.maximum(x, y)", "xp.maximum(x, y)"),
    ("less", "x < y", "x < y", "x < y"),
    ("isfinite", "xp.isfinite(x)", "xp.isfinite(x)", "xp.isfinite(x)"),
    ("where", "xp.where(m, x, y)", "xp.where(m, x, y)", "xp.where(m, x, y)"),
    ("clip", "xp.clip(x, -1.0, 1.0)", "xp.clip(x, -1.0, 1.0)", "xp.clip(x, -1.0, 1.0)"),
    ("sum", "xp.sum(x)", "xp.sum(x)", "xp.sum(x)"),
    ("sum of an axis", "xp.sum(x, axis=0)", "xp.sum(x, axis=0)", "xp.sum(x, dim=0)"),
    ("mean", "xp.mean(x, axis=1)", "xp.mean(x, axis=1)", "xp.mean(x, dim=1)"),
    ("max", "xp.max(x)", "xp.max(x)", "xp.max(x)"),
    ("std", "xp.std(x, axis=0)", "xp.std(x, axis=0)", "xp.std(x, dim=0)"),
    ("any", "xp.any(m)", "xp.any(m)", "xp.any(m)"),
    ("argmax", "xp.argmax(x, axis=1)", "xp.argmax(x, axis=1)", "xp.argmax(x, dim=1)"),
    ("count_nonzero", "xp.count_nonzero(x)", "xp.count_nonzero(x)", "xp.count_nonzero(x)"),
    ("cumulative_sum", "xp.cumulative_sum(v)", "xp.cumulative_sum(v)", "xp.cumsum(v, 0)"),
    ("sort", "xp.sort(x, axis=1)", "xp.sort(x, axis=1)", "xp.sort(x, dim=1)"),
    ("argsort", "xp.argsort(v)", "xp.argsort(v)", "xp.argsort(v)"),
    ("unique_values", "xp.unique_values(i)", "xp.unique_values(i)", "xp.unique(i)"),
    ("searchsorted", "xp.searchsorted(s, v)", "xp.searchsorted(s, v)", "xp.searchsorted(s, v)"),
    ("nonzero", "xp.nonzero(x)", "xp.nonzero(x)", "xp.nonzero(x, as_tuple=True)"),
    ("reshape", "xp.reshape(x, (2, 6))", "xp.reshape(x, (2, 6))", "xp.reshape(x, (2, 6))"),
    ("permute_dims", "xp.permute_dims(x, (1, 0))", "xp.permute_dims(x, (1, 0))", "xp.permute(x, (1, 0))"),
    ("expand_dims", "xp.expand_dims(x, axis=0)", "xp.expand_dims(x, axis=0)", "xp.unsqueeze(x, 0)"),
    ("broadcast_to", "xp.broadcast_to(v, (3, 4))", "xp.broadcast_to(v, (3, 4))", "xp.broadcast_to(v, (3, 4))"),
    ("concat", "xp.concat([x, y])", "xp.concat([x, y])", "xp.concat([x, y])"),
    ("stack", "xp.stack([x, y])", "xp.stack([x, y])", "xp.stack([x, y])"),
    ("flip", "xp.flip(x, axis=0)", "xp.flip(x, axis=0)", "xp.flip(x, (0,))"),
    ("roll", "xp.roll(x, 1, axis=0)", "xp.roll(x, 1, axis=0)", "xp.roll(x, 1, 0)"),
    ("take", "xp.take(x, i, axis=1)", "xp.take(x, i, axis=1)", "xp.index_select(x, 1, i)"),
    ("matmul", "x @ z", "x @ z", "x @ z"),
    ("inv", "xp.linalg.inv(q)", "xp.linalg.inv(q)", "xp.linalg.inv(q)"),
    ("zeros", "xp.zeros((3, 4))", "xp.zeros((3, 4))", "xp.zeros((3, 4))"),
    ("arange", "xp.arange(4)", "xp.arange(4)", "xp.arange(4)"),
    ("asarray of a list", "xp.asarray(l)", "xp.asarray(l)", "xp.asarray(l)"),
)

INDEXING = (
    "x[0]",
    "x[-1]",
    "x[0, 1]",
    "x[1:3]",
    "x[:, 1]",
    "x[::2, 1:]",
    "x[..., None]",
    "x[1, :]",
    "x[m]",
    "x[i]",
    "x[i, 0]",
    "x[:, i]",
    "x[0] = 1.0",
    "x[1:3] = w",
    "x[m] = 0.0",
    "x[i] = 1.0",
)


def operands(convert: Any, xp: Any) -> dict[str, Any]:
    """Return the operands, with the same values for every library."""
    generator = np.random.default_rng(3)

    def normal(*shape: int) -> Any:
        return convert(generator.standard_normal(shape).astype(np.float32))

    x = normal(3, 4)
    return {
        "xp": xp,
        "x": x,
        "y": normal(3, 4),
        "p": convert(generator.uniform(1, 2, (3, 4)).astype(np.float32)),
        "z": normal(4, 3),
        "q": normal(3, 3),
        "v": normal(4),
        "w": normal(2, 4),
        "s": convert(np.linspace(-1, 1, 4, dtype=np.float32)),
        "m": convert(np.array([[True, False, True, True]] * 3)),
        "i": convert(np.array([2, 0, 1])),
        "l": [1.0, 2.0, 3.0],
    }


def make_rows(statements: Iterable[tuple[str, str, str, str]], *, gradient: bool = False) -> list[Row]:
    """Return a row for each entry, with the statement and operands of every installed library."""
    libraries: list[tuple[str, Any, Any]] = [("tenkey", tk.asarray, tk), ("NumPy", np.array, np)]
    if importlib.util.find_spec("torch") is not None:
        import torch

        libraries.append(("PyTorch", torch.tensor, torch))
    rows = []
    for name, *texts in statements:
        works: dict[str, Work] = {}
        for (library, convert, xp), text in zip(libraries, texts):
            if gradient and library == "NumPy":
                continue
            names = operands(convert, xp)
            if gradient:
                names["x"].requires_grad_()
            used = set(compile(text, "<statement>", "exec").co_names)
            works[library] = Work(text, {key: value for key, value in names.items() if key in used})
        rows.append(Row(name, works))
    return rows


def main() -> None:
    """Measure and print the tables."""
    options = parse_options(__doc__ or "", rounds=25, one_thread=True)
    if importlib.util.find_spec("torch") is None:
        print(INSTALL_TORCH)
    machine = describe_machine(["tenkey", "torch", "numpy"])
    print(f"{machine}\n{options.heading}")
    reads = [text for text in INDEXING if " = " not in text]
    results: dict[str, list[Measurement]] = {}
    targets: list[Target] = []
    for title, rows, against, limit in (
        ("Calls on small arrays", make_rows(FUNCTIONS), ["NumPy", "PyTorch"], 1.5),
        ("Indexing and slicing", make_rows((text,) * 4 for text in INDEXING), ["PyTorch", "NumPy"], 1.0),
        ("Indexing, gradient recorded", make_rows(((text,) * 4 for text in reads), gradient=True), ["PyTorch"], 1.0),
    ):
        results[title] = measure_rows(rows, options)
        targets += targets_of(title, results[title], against[0], mean=limit)
        print("\n" + format_table(title, results[title], ["tenkey", "NumPy", "PyTorch"], against=against, limit=limit))
    if options.json:
        write_json(options.json, machine, results, targets)


if __name__ == "__main__":
    main()
