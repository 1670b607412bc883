"""The CUDA driver: whether it is there, and calls of its functions whose error codes become exceptions.

Note [Check for a driver first]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``cuda.core`` raises once where the driver is missing, and then waits forever for a lock that the first call holds.
Nothing of it is therefore called before :func:`missing` has found the driver's library, which the system's loader does
without any of NVIDIA's packages. An absence is not remembered: the emulator may be started later, and the library that
it loads is found by the same name. Guarded by ``tests/backends/cuda/device/test_driver.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from ...._util.locks import new_lock
from ....dispatch.errors import TenkeyError

__all__ = [
    "SEARCH", "CudaError", "DriverMissingError", "OutOfMemoryError", "cu", "error_of", "explainers", "is_available",
    "missing", "packages_missing", "starters",
]  # fmt: skip

_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_PACKAGES: Final = ("cuda.bindings", "cuda.core", "numba_cuda")
_OUT_OF_MEMORY: Final = 2
_NO_DEVICE: Final = 100
SEARCH: Final = "Set TENKEY_CUDA_SYNCHRONIZE=1 to find the operator, and restart"
_BROKEN: Final = f"{SEARCH} the process: the device cannot be used any more."
_REMEDIES: Final = {
    1: "A value given to the driver is out of its range: please report this with the call that led to it.",
    3: "The driver was not initialized: call tk.cuda.is_available() first.",
    35: "The driver is older than the CUDA libraries need: update it.",
    100: "Check with nvidia-smi that the machine has a GPU, and that CUDA_VISIBLE_DEVICES does not hide it.",
    101: "Count devices from 0: tk.cuda.device_count() says how many there are.",
    209: "The kernel was compiled for another architecture: clear the kernel cache (python -m tenkey cache).",
    218: "The driver cannot compile the PTX: update the driver.",
    222: "The PTX is newer than the driver: update the driver.",
    700: "A kernel accessed memory that is not allocated. " + _BROKEN,
    701: "The launch asks for more registers, threads or shared memory than the device has: use a smaller block.",
    702: "A kernel ran longer than the system allows for a GPU with a display: divide the work.",
    710: "An assertion in a kernel failed. " + _BROKEN,
    716: "A kernel accessed a misaligned address. " + _BROKEN,
    719: "A kernel failed. " + _BROKEN,
    900: "This call is not permitted while a graph is captured: make it before or after the capture.",
    901: "The capture was invalidated by an earlier call in it that is not permitted.",
}


class CudaError(TenkeyError, RuntimeError):
    """A function of the CUDA driver failed. ``code`` is its number, ``name`` its name in the driver's manual."""

    def __init__(self, message: str, code: int = 0, name: str = "") -> None:
        super().__init__(message, code, name)  # the base class needs all of them to pickle the exception
        self.code = code
        self.name = name

    def __str__(self) -> str:
        return str(self.args[0])


class OutOfMemoryError(CudaError, MemoryError):
    """The memory of a device, or of the host, does not suffice."""


class DriverMissingError(CudaError):
    """The driver, a device, or one of the packages of the extra ``cuda`` is missing."""


def missing() -> str | None:
    """Return what the use of CUDA lacks, with the remedy; None if packages, driver and a device are there.

    It looks anew at each call until everything was found (Note [Check for a driver first]).
    """
    if "cuInit" in vars(cu):
        return None
    try:
        cu._start()
    except DriverMissingError as error:
        return str(error)
    return None


def is_available() -> bool:
    """Tell whether the packages, a driver and at least one device are there."""
    return missing() is None


def packages_missing() -> str | None:
    """Return which package of the extra ``cuda`` is missing, with the remedy; None if all are installed."""
    for package in _PACKAGES:
        try:
            found = find_spec(package)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return (
                f"[cuda] the Python package {package} is not installed: install tenkey's extra with "
                "`pip install 'tenkey[cuda]'`."
            )
    return None


def _driver_missing() -> str | None:
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError as error:
        return (
            f"[cuda] the driver of NVIDIA is not installed, its library {_LIBRARY} cannot be loaded ({error}): install "
            "the driver of your GPU (https://www.nvidia.com/drivers; on Ubuntu `sudo ubuntu-drivers install`). On a "
            "machine without a GPU, tk.testing.cuda_emulator() computes on the CPU."
        )
    return None


class _Driver:
    """The functions of ``cuda.bindings.driver``, which raise :class:`CudaError` instead of returning a code.

    A function returns what the original returns after the code: None, one value, or a tuple of several. It is looked up
    when it is first used; the first use of any of them loads and initializes the driver.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._pid = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("cu"):
            raise AttributeError(f"the CUDA driver has no function {name!r}")
        self._start()
        found = _checked(getattr(_bindings(), name))
        self.__dict__[name] = found
        return found

    def _start(self) -> None:
        """Load and initialize the driver; DriverMissingError if something is missing."""
        if "cuInit" in self.__dict__:
            return
        while starters:
            starter = starters.pop()
            try:
                starter()
            except Exception:
                starters.append(starter)  # the next use says the same
                raise
        with self._lock:
            if self._pid:
                raise CudaError(
                    "[cuda] the driver cannot be used in a process that was forked from one that used it: start the "
                    "process with multiprocessing.get_context('spawn')."
                )
            problem = packages_missing() or _driver_missing()
            if problem is not None:
                raise DriverMissingError(problem)
            driver = _bindings()
            start = _checked(driver.cuInit)
            try:
                start(0)
                count = _checked(driver.cuDeviceGetCount)()
            except CudaError as error:
                if error.code != _NO_DEVICE:
                    raise DriverMissingError(
                        f"[cuda] the driver cannot be used. {error}", error.code, error.name
                    ) from None
                count = 0
            if count == 0:
                raise DriverMissingError(
                    "[cuda] the driver has found no device (CUDA_ERROR_NO_DEVICE). " + _REMEDIES[_NO_DEVICE],
                    _NO_DEVICE,
                    "CUDA_ERROR_NO_DEVICE",
                )
            self.__dict__["cuInit"] = start

    def _forked(self) -> None:
        """Forget the functions in a forked child, in which the driver does not work."""
        if "cuInit" in self.__dict__:
            self._pid = os.getpid()
            for name in [name for name in self.__dict__ if name.startswith("cu")]:
                del self.__dict__[name]


def _bindings() -> Any:
    from cuda.bindings import driver

    return driver


def _checked(function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Return a function that raises the error which the driver's function returns."""

    def call(*arguments: Any) -> Any:
        answer = function(*arguments)
        if answer[0]:
            raise error_of(function.__name__, answer[0])
        count = len(answer)
        return None if count == 1 else answer[1] if count == 2 else answer[1:]

    call.__name__ = call.__qualname__ = function.__name__
    call.__wrapped__ = function  # type: ignore[attr-defined]  # for calls whose code is an answer: cuEventQuery
    return call


def error_of(function: str, code: Any) -> CudaError:
    """Return the exception for a code of the driver, an int or a member of its enumeration."""
    with contextlib.suppress(Exception):  # a newer driver may have more codes
        code = _bindings().CUresult(int(code))
    name = getattr(code, "name", str(code))
    explanation = ""
    try:
        failed, text = _bindings().cuGetErrorString(code)
        explanation = "" if failed or text is None else text.decode(errors="replace").strip().rstrip(".")
    except Exception:  # the name of the code says enough
        pass
    number = int(code)
    kind = OutOfMemoryError if number == _OUT_OF_MEMORY else CudaError
    said = f"[cuda] {function} failed with {name} ({number})" + (f": {explanation}." if explanation else ".")
    error = kind(f"{said} {_REMEDIES.get(number, '')}".rstrip(), number, name)
    for explain in explainers:
        error = explain(error)
    return error


explainers: Final[list[Callable[[CudaError], CudaError]]] = []
"""Functions that add to an error what other modules know about its origin."""


starters: Final[list[Callable[[], object]]] = []
"""Functions that are called once, before the driver is looked for: what may take its place."""


cu: Final[Any] = _Driver()
"""The functions of the driver by their names: ``cu.cuMemAlloc(256)``."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=cu._forked)
