"""Run tests with the compiled core under sanitizers of the C compiler, or under Valgrind.

    python -m tools.sanitize address,undefined tests/core/compiled tests/safety
    python -m tools.sanitize address tests/core tests/numpy     # reads and writes outside of objects, uses after free
    python -m tools.sanitize undefined tests/core               # overflows, misaligned and null pointers
    python -m tools.sanitize valgrind tests/core/compiled       # 30 times slower

Everything after the name is passed to pytest. For the sanitizers, the core is compiled with ``-fsanitize=`` in a copy
of the tree; the runtime library of the first is preloaded, because Python itself is not built with it. Valgrind needs
no build. Python's allocator is replaced by that of the C library, which both observe: with its pools, freed objects
would look alive.

The exit status is that of pytest, or 1 if there is a report although pytest passed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from . import compiled_core
from .fault_injection import ROOT, copy_tree

__all__ = ["build", "environment", "main", "reports", "run", "valgrind_command"]

_RUNTIMES: Final = {"address": "libasan.so", "undefined": "libubsan.so"}
_REPORTS: Final = (
    r"ERROR: AddressSanitizer", r"runtime error: ", r"Invalid (read|write) of size", r"Invalid free\(\)",
)  # fmt: skip
# Valgrind has no AVX-512, and the kernel describes the processor itself.
_UNDER_VALGRIND: Final = {"PYTHONMALLOC": "malloc", "TENKEY_CPU": "x86-64-v2"}
# Optimised copies of strings read whole words or vectors, beyond the end of what is allocated.
_SUPPRESSIONS: Final = """
{
   words of strings, in the loader
   Memcheck:Addr32
   ...
   obj:*/ld-linux*
}
{
   words of strings, in the C library
   Memcheck:Addr8
   fun:*strncmp*
}
"""


def build(tree: Path, sanitizers: Sequence[str]) -> None:
    """Compile the core of the tree with the sanitizers, which may be none, and with what their reports need."""
    flags = "-fno-omit-frame-pointer -g -O1 -UNDEBUG -fno-wrapv"  # overflows of signed numbers are faults
    if sanitizers:
        flags += f" -fsanitize={','.join(sanitizers)}"
    if "undefined" in sanitizers:
        flags += " -fno-sanitize=vptr"  # of C++ alone, and its library would be needed
    compiled_core.build(tree, flags)


def environment(sanitizers: Sequence[str], log: Path) -> dict[str, str]:
    """Return the environment for modules that were built with the sanitizers; reports go to files ``log.PID``."""
    compiler = os.environ.get("CC", "cc")
    found = []
    for name in sanitizers:
        command = [compiler, f"-print-file-name={_RUNTIMES[name]}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not Path(path).is_absolute():
            raise SystemExit(f"sanitize: {compiler} has no {_RUNTIMES[name]}: install its sanitizer libraries.")
        found.append(path)
    return os.environ | {
        "LD_PRELOAD": " ".join(found),
        # The interpreter leaks at its end, and tests ask for more memory than there is.
        "ASAN_OPTIONS": f"detect_leaks=0:halt_on_error=1:allocator_may_return_null=1:log_path={log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=0:log_path={log}",
        "PYTHONMALLOC": "malloc",
    }


def valgrind_command(folder: Path, log: Path) -> list[str]:
    """Return the beginning of a command line that runs Python under Valgrind; suppressions go into ``folder``."""
    if shutil.which("valgrind") is None:
        raise SystemExit("sanitize: valgrind is missing: install it with the system's package manager.")
    suppressions = folder / "python.supp"
    suppressions.write_text(_SUPPRESSIONS, encoding="utf-8")
    return [
        "valgrind", "--quiet", "--num-callers=30", f"--suppressions={suppressions}", f"--log-file={log}.%p",
        "--undef-value-errors=no",  # an optimised Python, NumPy and LLVM compute with padding on purpose
    ]  # fmt: skip


def reports(text: str) -> list[str]:
    """Return the lines of an output that begin a report."""
    return [line.strip() for line in text.splitlines() if any(re.search(report, line) for report in _REPORTS)]


def run(command: Sequence[str], folder: Path, variables: dict[str, str], log: Path) -> tuple[int, list[str]]:
    """Run a command and print what it and the tools report; return its exit status and the first lines of reports."""
    with Path(f"{log}.stderr").open("w", encoding="utf-8") as file:  # there UBSan reports beside ASan
        status = subprocess.run(command, cwd=folder, env=variables, stderr=file, check=False).returncode
    written = [file.read_text(encoding="utf-8", errors="replace") for file in sorted(log.parent.glob(f"{log.name}.*"))]
    text = "\n".join(written)
    print(text)
    found = reports(text)
    print(f"sanitize: {len(found)} reports, exit status {status}")
    return status, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.sanitize", description="Tests under a sanitizer.")
    parser.add_argument("sanitizer", help="address, undefined, address,undefined, or valgrind")
    parser.add_argument("pytest", nargs=argparse.REMAINDER, help="what pytest is given")
    options = parser.parse_args(arguments)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    pytest += ["--capture=sys", *options.pytest]  # what C code writes is not captured
    with tempfile.TemporaryDirectory(prefix="tenkey-sanitize-") as made:
        folder = Path(made)
        log = folder / "report"
        if options.sanitizer == "valgrind":
            command = [*valgrind_command(folder, log), *pytest]
            status, found = run(command, ROOT, os.environ | _UNDER_VALGRIND, log)
            return status or int(bool(found))
        sanitizers = options.sanitizer.split(",")
        if not set(sanitizers) <= set(_RUNTIMES):
            parser.error(f"unknown sanitizer {options.sanitizer!r}: choose from {', '.join(_RUNTIMES)}, valgrind")
        copy = copy_tree(ROOT, folder / "tree")
        build(copy, sanitizers)
        variables = environment(sanitizers, log)
        variables["PYTHONPATH"] = str(copy)  # before an editable installation of the checkout
        status, found = run(pytest, copy, variables, log)
        return status or int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
