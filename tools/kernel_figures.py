"""Figures of the CUDA kernels as a committed table, and the rules that they must keep.

    python -m tools.kernel_figures            # compile, and compare with tests/backends/cuda/kernel_figures.txt
    python -m tools.kernel_figures --write    # renew the table after a change that was meant
    python -m tools.kernel_figures --all      # check the rules for the kernels of all operators, without the table

A kernel must not spill registers nor use local memory, must not compute in float64 if it has no float64 parameter, must
use accesses of 128 bits where its name promises vectors, and must leave room for half of the threads of a
multiprocessor. ``EXCEPTIONS`` lists the kernels that may, with reasons. Note [Figures of kernels] says what the figures
mean. They depend on the versions of the compilers, which the table names: with others it is not compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np

__all__ = [
    "ARCHITECTURES",
    "EXCEPTIONS",
    "TABLE",
    "broken_rules",
    "changes",
    "kernels_of_table",
    "rows_of",
    "table_text",
]

TABLE: Final = Path(__file__).resolve().parents[1] / "tests" / "backends" / "cuda" / "kernel_figures.txt"
ARCHITECTURES: Final = ((8, 0), (9, 0), (10, 0))
OPERATORS: Final = {
    "float32": (
        "add", "argmax", "copy_", "cummax", "cumulative_sum", "erf", "exp", "gelu", "matmul", "max", "put", "sin",
        "softmax", "sort", "sum", "take", "where",
    ),
    "float64": ("add", "sum"),
    "float16": ("add", "sum"),
    "int32": ("add", "floor_divide", "sum"),
    "complex64": ("exp", "multiply"),
    "bool": ("any", "logical_and"),
}  # fmt: skip
"""The operators of the table by the dtype of their samples: each template, and functions of every cost."""
_REDUCTION: Final = "libdevice reduces large angles to a quarter turn with 192 bits of 2/pi, which it keeps in memory"
_ANGLES: Final = tuple(
    [f"tk_{name}_*" for name in ("sin", "cos", "tan", "sinc")]
    + [f"tk_special_{name}_*" for name in ("digamma", "gamma", "j0", "j1", "psi", "y0", "y1")]
    + [f"tk_{name}_*_complex64" for name in ("cosh", "exp", "exp2", "expm1", "pow", "sigmoid", "sinh", "tanh")]
)
_SERIES: Final = "four elements of a thread in float64, each of whose numbers takes two registers"
EXCEPTIONS: Final[dict[str, dict[str, str]]] = {
    "spills": {},
    "local": dict.fromkeys(_ANGLES, _REDUCTION),
    "float64": {
        **dict.fromkeys(_ANGLES, _REDUCTION),
        "tk_linspace_*": "positions times the step, rounded once, so that the last one is the end",
    },
    "occupancy": {
        "radix_move": "eight keys of a thread, their ranks, and the addresses of its eight loads, all on their way at "
        "once, take 70 to 90 registers, and up to 130 for sm_80, where a limit of 64 would spill some of them",
        **dict.fromkeys(("tk_random_cosine_*_float64", "tk_special_beta*_float64"), _SERIES),
    },
    "vector": {},
}
"""By rule: patterns of the names of kernels that may break it, and why."""


def kernels_of_table(operators: Mapping[str, Sequence[str]] | None = None) -> list[Any]:
    """Return the kernels of the table, found by calls of operators on a driver that executes nothing."""
    from tenkey.commands.cuda_kernels import kernels_of
    from tenkey.testing.cuda_driver import cuda_emulator

    found: dict[Any, Any] = {}
    with cuda_emulator(execute=False):
        for dtype, names in (OPERATORS if operators is None else operators).items():
            for kernel in kernels_of([np.dtype(dtype)], names):
                found.setdefault(kernel.source, kernel)
    return list(found.values())


def rows_of(kernels: Sequence[Any], architectures: Sequence[tuple[int, int]] = ARCHITECTURES) -> list[tuple[Any, Any]]:
    """Compile kernels and return each with its figures, one architecture after the other."""
    from tenkey.commands.warm_cuda import build

    built = build(kernels, architectures, None)
    if built.failures:
        raise RuntimeError("kernels do not compile:\n" + "\n".join(built.failures))
    sources = [kernel.source for _ in architectures for kernel in kernels]
    return [(source, figures) for source, (figures, _) in zip(sources, built.rows, strict=True)]


def broken_rules(rows: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return what breaks a rule, a line for each kernel and rule."""
    found = []
    for source, figures in rows:
        has_float64 = any(kind.startswith("float64") for kind in source.parameters)
        problems = {
            "spills": f"{figures.spills} bytes of spills" if figures.spills else "",
            "local": f"{figures.local} bytes of local memory" if figures.local and not figures.spills else "",
            "float64": f"{figures.float64} float64 instructions" if figures.float64 and not has_float64 else "",
            "occupancy": f"an occupancy of {figures.occupancy:.2f}" if figures.occupancy < 0.5 else "",
            "vector": "no access of 128 bits" if "_vector" in source.name and not _is_wide(source, figures) else "",
        }
        for rule, problem in problems.items():
            if problem and not any(fnmatchcase(source.name, pattern) for pattern in EXCEPTIONS[rule]):
                found.append(f"{source.name} for {figures.arch}: {problem}")
    return found


def _is_wide(source: Any, figures: Any) -> bool:
    """Tell whether a kernel of vectors has wide accesses; four elements of 1 or 2 bytes are narrower than that.

    Where nothing is loaded, as for the question whether integers are finite, only the result counts, which is the first
    pointer; in a reduction, which stores one element for each row, only the others.
    """
    pointers = [kind for kind in source.parameters if kind.endswith("*")]
    if not figures.loads:
        pointers = pointers[:1]
    elif "_combine_" in source.name:
        pointers = pointers[1:]
    widths = [int("".join(filter(str.isdigit, kind))) for kind in pointers]
    return bool(figures.wide_loads or figures.wide_stores) or max(widths, default=0) < 32


def table_text(rows: Sequence[tuple[Any, Any]]) -> str:
    """Return the table: the versions of the compilers, and a line for each kernel and architecture."""
    from tenkey.commands.warm_cuda import table

    lines = [line.rstrip() for line in table([(figures, "") for _, figures in rows])]
    head = [
        "# Figures of CUDA kernels: registers of a thread; bytes of spills and local memory of a thread and of shared",
        "# memory of a block; accesses to global memory and those of 128 bits; float64 instructions; occupancy.",
        "# Made by `python -m tools.kernel_figures --write` with:",
        *[f"#   {line}" for line in _versions()],
    ]
    return "\n".join([*head, lines[0].removesuffix("operator").rstrip(), *sorted(lines[1:])]) + "\n"


def _versions() -> list[str]:
    from tenkey.backends.cuda.compiling.kernel_files import compiler_versions

    return [f"{name} {version}" for name, version in compiler_versions().items() if name.islower()]


def changes(text: str, committed: str) -> list[str] | None:
    """Return the lines that differ between two tables, marked by + and -; None if other compilers made the second."""
    if _head(text) != _head(committed):
        return None
    new, old = _lines(text), _lines(committed)
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]


def _head(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#   ")]


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if not line.startswith("#")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return the exit status: 1 if a rule is broken or a figure has changed."""
    parser = argparse.ArgumentParser(description="Compare, renew or check the figures of the CUDA kernels.")
    parser.add_argument("--write", action="store_true", help="renew the table")
    parser.add_argument("--all", nargs="*", metavar="dtype", help="check the kernels of all operators for these dtypes")
    parser.add_argument("--operators", nargs="+", default=["*"], metavar="name", help="with --all: patterns of names")
    parser.add_argument("--cuda", nargs="+", metavar="sm_90", help="the architectures, otherwise sm_80, sm_90, sm_100")
    options = parser.parse_args(arguments)
    from tenkey.commands.warm_cuda import architectures_of

    architectures = tuple(architectures_of(options.cuda)) if options.cuda else ARCHITECTURES
    every = None if options.all is None else dict.fromkeys(options.all or ["float32"], options.operators)
    rows = rows_of(kernels_of_table(every), architectures)
    problems = broken_rules(rows)
    print(f"{len(rows)} kernels, {len(problems)} break a rule.")
    if every is None:
        text = table_text(rows)
        if options.write:
            TABLE.write_text(text, encoding="utf-8")
        else:
            differing = changes(text, TABLE.read_text(encoding="utf-8") if TABLE.exists() else "")
            problems += ["the table was made by other compilers"] if differing is None else differing
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
