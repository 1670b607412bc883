"""``tk.show_config()``: what tenkey runs on, in a few lines; ``python -m tenkey doctor`` begins with the same ones."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Literal, overload

import numpy as np

from ..backends.cpu import get_num_threads
from ..backends.cpu.pool import is_native
from ..backends.cpu.pool.thread_limit import allowed_cores
from ..core.compiled import loading

__all__ = ["SECTIONS", "Finding", "print_section", "show_config", "version_of"]

_FEATURES: Final = (
    "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512bf16", "avx512fp16",
    "neon", "sve",
)  # fmt: skip


@overload
def show_config(mode: Literal["stdout"] = "stdout") -> None: ...
@overload
def show_config(mode: Literal["dicts"]) -> dict[str, dict[str, str]]: ...
def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, dict[str, str]] | None:
    """Show versions, processor, threads, and whether small calls run in the compiled core or in Python.

    ``python -m tenkey doctor`` examines more, and says what is wrong.

    Args:
        mode: ``"stdout"`` prints the lines; ``"dicts"`` returns them, as in ``numpy.show_config``.

    Returns:
        None, or a dict for each section, with a string for each line.

    Raises:
        ValueError: If `mode` is neither of the two.

    Examples:
        >>> tk.show_config(mode="dicts")["Core"]["core"] in ("compiled", "Python")
        True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"[show_config] got mode={mode!r}: it must be 'stdout' or 'dicts'.")
    found = {title: [Finding(one.name, one.value) for one in section()] for title, section in SECTIONS.items()}
    if mode == "dicts":
        return {title: {finding.name: finding.value for finding in findings} for title, findings in found.items()}
    for title, findings in found.items():
        print_section(title, findings)
    return None


@dataclass(frozen=True)
class Finding:
    """A line of a report; ``problem`` says what is wrong, and how to solve it."""

    name: str
    value: str
    problem: str = ""


def version_of(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def print_section(title: str, findings: Iterable[Finding]) -> None:
    """Print the title of a section and its lines."""
    print(f"{title}:")
    for finding in findings:
        print(f"  {finding.name + ':':<22}{finding.value}{' (!)' if finding.problem else ''}")


# ---- sections


def _versions() -> Iterator[Finding]:
    yield Finding("Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}")
    yield Finding("system", f"{platform.system()} {platform.release()} {platform.machine()}")
    yield Finding("tenkey", f"{version_of('tenkey') or 'not installed, from its source'}, {Path(__file__).parents[1]}")
    yield Finding("numpy", np.__version__)
    found = version_of("llvmlite")
    remedy = "llvmlite, which compiles kernels, is not installed: pip install llvmlite."
    yield Finding("llvmlite", found or "missing", "" if found else remedy)


def _core() -> Iterator[Finding]:
    if not loading.reason:
        yield Finding("core", "compiled")
        return
    yield Finding("core", "Python", loading.remedy and f"{loading.reason}: small calls run in Python. {loading.remedy}")
    yield Finding("reason", loading.reason)


def _processor() -> Iterator[Finding]:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    yield Finding("processor", name)
    try:
        from ..backends.processor import has_feature, host

        name, _ = host()
    except (ImportError, OSError):  # the section on the compiler says why
        return
    known = [one for one in _FEATURES if has_feature(one)]
    yield Finding("compiled for", name)
    yield Finding("vector instructions", " ".join(known) or "none that are used")


def _threads() -> Iterator[Finding]:
    cores, all_cores = allowed_cores(), os.cpu_count() or 1
    yield Finding("cores", f"{len(cores)} of {all_cores} may be used")
    yield Finding("threads of a call", f"{get_num_threads()} (tk.set_num_threads changes it)")
    kind = "threads of the system" if is_native() else "Python threads, which take 20 to 50 us to wake"
    forced = os.environ.get("TENKEY_POOL") == "python"
    remedy = "TENKEY_POOL=python makes them slow to wake: unset it, unless this is a test." if forced else ""
    yield Finding("workers", kind, remedy)


SECTIONS: Final[dict[str, Callable[[], Iterator[Finding]]]] = {
    "Versions": _versions,
    "Core": _core,
    "Processor": _processor,
    "Threads": _threads,
}
