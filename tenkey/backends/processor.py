"""Detect the instructions that kernels may use, from /proc/cpuinfo where possible and otherwise from LLVM."""

from __future__ import annotations

import functools
import os
import platform
import sys
from contextlib import suppress
from typing import Final

__all__ = ["description", "fuses", "has_feature", "host", "is_x86", "register_bytes"]

_CPUINFO: Final = "/proc/cpuinfo"
_FIELDS: Final = (b"vendor_id", b"cpu family", b"model", b"flags")
_OTHER_NAMES: Final = {"sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2"}
"""Names that Linux gives to instructions, by LLVM's."""
_V2: Final = "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3: Final = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4: Final = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"
_LEVELS: Final = {"x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
"""The levels of the x86-64 psABI, which are names of processors in LLVM, and their features."""


def _lines() -> list[bytes] | None:
    """Return what Linux says of an x86-64 processor; None elsewhere, or if ``TENKEY_CPU`` names a level."""
    if sys.platform == "linux" and os.uname().machine == "x86_64" and not os.environ.get("TENKEY_CPU"):
        with suppress(OSError), open(_CPUINFO, "rb", buffering=0) as file:
            first, end, _ = file.read(1 << 14).partition(b"\n\n")  # the processors are alike
            lines = [line for line in first.split(b"\n") if line.split(b"\t")[0] in _FIELDS]
            if end and len(lines) == len(_FIELDS):
                return lines
    return None


@functools.cache
def host() -> tuple[str, str]:
    """Return LLVM's name of the processor to compile for, and its features: ``+sse2,-avx512f,...``.

    It is this processor, or the level of x86-64 that ``TENKEY_CPU`` names, if this processor has all its features.
    """
    from .llvm.complaints import complain
    from .llvm.llvm_library import library

    llvm = library()
    llvm.InitializeNativeTarget()
    llvm.InitializeNativeAsmPrinter()
    name, features = llvm.text("GetHostCPUName"), llvm.text("GetHostCPUFeatures")
    level = os.environ.get("TENKEY_CPU", "")
    if not level:
        return name, features
    known = set(features.split(","))
    possible = {one: has for one, has in _LEVELS.items() if known.issuperset(has.split(","))}
    if level in possible:
        return level, possible[level]
    suitable = ", ".join(possible) or "unset"
    complain(f"TENKEY_CPU is {level!r}, and must be {suitable} on this processor: it is ignored.")
    return name, features


def description() -> bytes:
    """Return the model and the instructions of the processor, or the level that ``TENKEY_CPU`` names."""
    lines = _lines()
    if lines is not None:
        return b"\n".join(lines)
    return " ".join(host()).encode()


@functools.cache
def _features() -> frozenset[str] | None:
    lines = _lines()
    flags = [] if lines is None else [line for line in lines if line.startswith(b"flags")]
    return frozenset(flags[0].partition(b":")[2].decode().split()) if flags else None


def has_feature(name: str) -> bool:
    """Return whether kernels may use some instructions, by LLVM's name for them, such as ``avx512f``.

    Raises ImportError or OSError where only LLVM could tell and cannot be loaded.
    """
    known = _features()
    if known is not None:
        return _OTHER_NAMES.get(name, name) in known
    return f"+{name}" in host()[1].split(",")


def is_x86() -> bool:
    """Return whether the names of features are those of x86."""
    return platform.machine() in ("x86_64", "AMD64", "i686", "x86")


def register_bytes() -> int:
    """Return the bytes of the widest registers of kernels."""
    return 64 if has_feature("avx512f") else 32 if has_feature("avx") else 16


def fuses() -> bool:
    """Return whether a product and a sum are one instruction, which rounds once; elsewhere it is a slow function."""
    return not is_x86() or has_feature("fma")
