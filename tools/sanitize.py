"""Run tests with the compiled core under a sanitizer of the C compiler, or under Valgrind.

    python -m tools.sanitize address tests/core tests/numpy      # reads and writes outside of objects, uses after free
    python -m tools.sanitize undefined tests/core                # overflows, misaligned and null pointers
    python -m tools.sanitize address,undefined tests/safety
    python -m tools.sanitize valgrind tests/safety -k interrupts

Everything after the name is passed to pytest. For the sanitizers, the extension module is built anew with
``-fsanitize=`` into a copy of the package, in a temporary folder, so that the checkout keeps its own; the runtime
library of the sanitizer is preloaded, because Python itself is not built with it. Valgrind needs no build. Python's
allocator is replaced by that of the C library, which both observe: with its pools, freed objects would look alive.

The exit status is that of pytest, or 1 if a report was found in the output although pytest passed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["CORE", "build", "environment", "main", "reports", "valgrind_command"]

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = "tenkey/core/_compiled.py"
_RUNTIMES: Final = {"address": "libasan.so", "undefined": "libubsan.so"}
_REPORTS: Final = (
    r"ERROR: AddressSanitizer", r"runtime error: ", r"Invalid (read|write) of size", r"Invalid free\(\)",
)  # fmt: skip
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


def build(source: Path, target: Path, sanitizers: Sequence[str]) -> Path:
    """Translate a module with Cython, compile it with the sanitizers into the folder `target`; return the library."""
    if shutil.which("cythonize") is None and not _has_cython():
        raise SystemExit("sanitize: Cython is missing: pip install cython")
    name = source.stem
    c = target / f"{name}.c"
    subprocess.run([sys.executable, "-m", "cython", "-3", "-o", str(c), str(source)], check=True)
    library = target / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiler = os.environ.get("CC", "cc")
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        f"-fsanitize={','.join(sanitizers)}",
    ]
    if "undefined" in sanitizers:
        command.append("-fno-sanitize=vptr")  # of C++ alone, and its library would be needed
    paths = sysconfig.get_paths()
    command += [f"-I{paths['include']}", f"-I{paths['platinclude']}", *os.environ.get("CFLAGS", "").split()]
    subprocess.run([*command, str(c), "-o", str(library)], check=True)
    return library


def _has_cython() -> bool:
    command = [sys.executable, "-c", "import Cython"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def environment(sanitizers: Sequence[str]) -> dict[str, str]:
    """Return the environment in which Python loads a module that was built with the sanitizers."""
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
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:halt_on_error=1",  # the interpreter leaks at its end
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=0",
        "PYTHONMALLOC": "malloc",
    }


def valgrind_command(folder: Path) -> list[str]:
    """Return the beginning of a command line that runs Python under Valgrind; the suppressions go into `folder`."""
    if shutil.which("valgrind") is None:
        raise SystemExit("sanitize: valgrind is missing: install it with the system's package manager.")
    suppressions = folder / "python.supp"
    suppressions.write_text(_SUPPRESSIONS, encoding="utf-8")
    return [
        "valgrind", "--quiet", "--error-exitcode=1", "--num-callers=30", f"--suppressions={suppressions}",
        "--undef-value-errors=no",  # an optimised Python, NumPy and LLVM compute with padding on purpose
    ]  # fmt: skip


def reports(text: str) -> list[str]:
    """Return the lines of an output that begin a report."""
    return [line.strip() for line in text.splitlines() if any(re.search(report, line) for report in _REPORTS)]


def _run(command: Sequence[str], folder: Path, variables: dict[str, str]) -> int:
    """Run a command, show what it prints, and return its exit status, or 1 if it printed a report."""
    process = subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    found = reports("".join(lines))
    print(f"sanitize: {len(found)} reports, exit status {process.wait()}")
    return process.returncode or int(bool(found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.sanitize", description="Tests under a sanitizer.")
    parser.add_argument("sanitizer", help="address, undefined, address,undefined, or valgrind")
    parser.add_argument("pytest", nargs=argparse.REMAINDER, help="what pytest is given")
    options = parser.parse_args(arguments)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", *options.pytest]
    with tempfile.TemporaryDirectory(prefix="tenkey-sanitize-") as made:
        folder = Path(made)
        if options.sanitizer == "valgrind":
            return _run([*valgrind_command(folder), *pytest], ROOT, os.environ | {"PYTHONMALLOC": "malloc"})
        sanitizers = options.sanitizer.split(",")
        if not set(sanitizers) <= set(_RUNTIMES):
            parser.error(f"unknown sanitizer {options.sanitizer!r}: choose from {', '.join(_RUNTIMES)}, valgrind")
        if not (ROOT / CORE).exists():
            raise SystemExit(f"sanitize: there is no {CORE} in this checkout.")
        copy = folder / "tree"
        copy.mkdir()
        for name in ("tenkey", "tests", "tools", "examples", "benchmarks", "docs"):
            left_out = shutil.ignore_patterns("__pycache__", "_compiled.*.so", "_build")
            shutil.copytree(ROOT / name, copy / name, ignore=left_out)
        for name in ("conftest.py", "pyproject.toml", "tenkey_pytest.py", "README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / name, copy / name)
        build(copy / CORE, (copy / CORE).parent, sanitizers)
        variables = environment(sanitizers)
        variables["PYTHONPATH"] = str(copy)  # before an editable installation of the checkout
        return _run(pytest, copy, variables)


if __name__ == "__main__":
    sys.exit(main())
