"""``python -m tenkey warm``: compile kernels ahead of time, into the cache on disk.

Modules of the CPU backend name the kernels: Note [Kernels that are compiled ahead] in
``tenkey/backends/llvm/compiled.py``. With ``--cuda`` those of the CUDA backend are compiled instead (``warm_cuda.py``).
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

import numpy as np

from ..backends import cpu
from ..backends.llvm import code_cache, compiled
from ..backends.llvm.compiled import Case, UnavailableError, address_of
from ..core.dtypes.names import to_dtype
from .progress import is_wanted, with_progress

__all__ = ["DESCRIPTION", "DTYPES", "HELP", "add_options", "cases_of", "run"]

HELP: Final = "compile kernels ahead of time"
DESCRIPTION: Final = (
    "Compile the CPU kernels of the built-in operators into the cache on disk, so that no program has to wait for "
    "them. With --cuda, build the machine code of the CUDA kernels instead, on a machine that needs no GPU, and print "
    "what each kernel costs: for the default dtypes, 1,800 kernels in some minutes. What was compiled is kept: a "
    "command that was interrupted goes on there. The exit status is 1 if something could not be compiled or saved."
)
DTYPES: Final = ("float32", "float64", "int32", "int64", "bool")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--dtypes", nargs="+", default=DTYPES, metavar="dtype", help=f"of which arrays; otherwise {', '.join(DTYPES)}"
    )
    parser.add_argument(
        "--operators", nargs="+", default=["*"], metavar="name", help="of which operators: names, or patterns like 'a*'"
    )
    parser.add_argument(
        "--cuda", nargs="+", metavar="sm_90", help="build the CUDA kernels for these architectures, without a GPU"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="with --cuda: a folder for other machines, which TENKEY_PREBUILT names there"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="with --cuda: compile in N processes; otherwise one for each core"
    )


def run(options: argparse.Namespace) -> int:
    """Compile, and return the exit status."""
    try:
        dtypes = [to_dtype(name) for name in options.dtypes]
    except TypeError as error:
        print(f"--dtypes: {error}", file=sys.stderr)
        return 2
    given = {"--out": options.out, "--jobs": options.jobs}
    if options.cuda or any(value is not None for value in given.values()):
        from .warm_cuda import run_cuda

        if not options.cuda:
            name = next(name for name, value in given.items() if value is not None)
            print(f"{name} is for --cuda: name the architectures, such as --cuda sm_90.", file=sys.stderr)
            return 2
        return run_cuda(options, dtypes)
    cases = cases_of(dtypes, options.operators)
    if not cases:
        print(f"No operator with compiled kernels has a name like {' '.join(options.operators)}.", file=sys.stderr)
        return 2
    start, loaded = time.perf_counter(), compiled.counts["compiled"]
    failures = _compile(cases)
    count, seconds = compiled.counts["compiled"] - loaded, time.perf_counter() - start
    place = code_cache.folder()
    print(f"{len(cases)} kernels: {count} compiled in {seconds:.1f} s, {len(failures)} failures. The cache is {place}.")
    if code_cache.limit() == 0 or place is None:
        failures.append("nothing is saved: see python -m tenkey doctor")
    for text in failures:
        print(text, file=sys.stderr)
    return 1 if failures else 0


def cases_of(dtypes: Sequence[np.dtype], operators: Sequence[str] = ("*",)) -> list[Case]:
    """Return the kernels that the modules of the CPU backend name for operators, each once, in the operators' order.

    Those that all operators share come first, unless no operator is wanted.
    """
    found: dict[tuple[object, ...], Case] = {}
    for module in _modules():
        for case in module.cases(dtypes) if hasattr(module, "cases") else ():
            if not case.operator or is_wanted(case.operator, operators):
                found.setdefault((case.template, *sorted(case.statics.items())), case)
    if not any(case.operator for case in found.values()):
        return []
    return sorted(found.values(), key=lambda case: case.operator)


def _modules() -> list[ModuleType]:
    return [import_module(found.name) for found in pkgutil.walk_packages(cpu.__path__, f"{cpu.__name__}.")]


def _compile(cases: Sequence[Case]) -> list[str]:
    """Load or compile kernels; return what went wrong."""
    failures: list[str] = []
    for case in with_progress(cases, [case.operator or "shared by operators" for case in cases], "kernel"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                address_of(case.template, **case.statics)
            except UnavailableError as error:  # so are the others
                return [*failures, str(error)]
            except Exception as error:
                failures.append(f"{case.operator or case.template}: {type(error).__name__}: {error}")
        failures += [f"{case.operator or case.template}: {warning.message}" for warning in caught]
    return failures
