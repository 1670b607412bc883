"""What ``python -m tenkey doctor`` says about GPUs: the extra ``cuda``, its compilers, the driver and the devices."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..functions.configuration import Finding, version_of

__all__ = ["gpu_findings"]

_EXTRA: Final = "pip install 'tenkey[cuda]'"
_PACKAGES: Final = {
    "numba-cuda": "compiles kernels in Python",
    "cuda-core": "launches kernels",
    "cuda-bindings": "calls the driver and the compilers",
    "nvmath-python": "calls cuBLASLt, cuSOLVER and cuFFT",
}
_TOOLKIT: Final = 13  # the major version of CUDA that the extra brings


def gpu_findings() -> Iterator[Finding]:
    """Yield the lines on GPUs. Without the extra there is no problem: it is optional."""
    missing = [name for name in _PACKAGES if version_of(name) is None]
    for name, use in _PACKAGES.items():
        yield Finding(name, version_of(name) or f"not installed; it {use}: {_EXTRA}")
    if not missing:
        yield _compiler()
    folder = os.environ.get("TENKEY_PREBUILT")
    if folder:
        yield _prebuilt(Path(folder))
    yield from _driver(bool(missing))


def _compiler() -> Finding:
    """Compile a small kernel, which needs no driver."""
    from ..backends.cuda.compiling import KernelSource, linking, numba_compiler

    text = "def probe(x):\n    x[cuda.threadIdx.x] = 42\n"
    start = time.perf_counter()
    try:
        ptx = numba_compiler.python_to_ptx(KernelSource("probe", text, ("int32*",)), (9, 0))
        registers = linking.link(ptx, "probe", (9, 0)).registers
    except Exception as error:  # whatever NVIDIA's libraries raise where one of them is missing
        reason = str(error).strip().partition("\n")[0]
        return Finding("CUDA compiler", "does not work", f"{type(error).__name__}: {reason}. Remedy: {_EXTRA}.")
    milliseconds = 1e3 * (time.perf_counter() - start)
    return Finding("CUDA compiler", f"works (the first kernel took {milliseconds:.0f} ms, {registers} registers)")


def _prebuilt(folder: Path) -> Finding:
    if not folder.is_dir():
        return Finding(
            "prebuilt kernels", str(folder), "TENKEY_PREBUILT is not a folder: unset it, or build the folder."
        )
    count = len([*folder.glob("*.kernel")])
    remedy = (
        "" if count else "TENKEY_PREBUILT has no kernels: python -m tenkey warm --cuda sm_90 --out DIR builds them."
    )
    return Finding("prebuilt kernels", f"{count} files in {folder}", remedy)


def _driver(without_extra: bool) -> Iterator[Finding]:
    driver = _load("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    if driver is None:
        emulator = "" if without_extra else "; tk.testing.cuda_emulator() computes on the CPU instead"
        yield Finding("NVIDIA driver", f"none{emulator}")
        return
    if error := driver.cuInit(0):
        yield Finding(
            "NVIDIA driver", "does not start",
            f"cuInit returns {error}. See what nvidia-smi says; after an update of the driver, restart the machine; in "
            "a container, start it with access to the GPU (docker run --gpus all).",
        )  # fmt: skip
        return
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    major = version.value // 1000
    old = not without_extra and major < _TOOLKIT
    problem = f"the extra compiles for CUDA {_TOOLKIT}: update the driver to version 580 or later." if old else ""
    yield Finding("NVIDIA driver", f"for CUDA {major}.{version.value % 1000 // 10}", problem)
    for number in range(count.value):
        name = ctypes.create_string_buffer(256)
        driver.cuDeviceGetName(name, len(name), number)
        use = f"; tenkey needs the extra to use it: {_EXTRA}" if without_extra else ""
        yield Finding(f"device {number}", f"{name.value.decode(errors='replace')}{use}")
    if not count.value:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        problem = f"CUDA_VISIBLE_DEVICES={hidden!r} hides all GPUs: unset it." if hidden is not None else ""
        yield Finding("devices", "none", problem)


def _load(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
