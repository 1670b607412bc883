"""Failures of kernels that the driver reports later, and what is known about their origin.

Note [Failures that are found later]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A launch returns before its kernel runs. Where the kernel fails, the driver answers the next call that waits with the
bare number of the error, and every later call too. Each launch is therefore noted, which costs one append to a list of
limited length, and the error names the launches that may have failed, the last one first, with the operators for which
their kernels were made. ``TENKEY_CUDA_SYNCHRONIZE=1`` in the environment waits after each launch, so that the error
arises in the call that caused it. An emulator knows the kernel, thread and address, and gives this as the cause
(:func:`ask`). Guarded by ``tests/backends/cuda/device/test_failures.py``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .driver import CudaError, explainers

__all__ = ["KernelFailureError", "ask", "explain", "launched", "recent"]

_FIRST_OF_KERNELS: Final = 700
_LAST_OF_KERNELS: Final = 719
_SHOWN: Final = 5

recent: Final[deque[Any]] = deque(maxlen=64)
"""The kernels that were launched last, the last one at the end."""
launched: Final = recent.append
_asked: Final[list[Callable[[], BaseException | None]]] = []


class KernelFailureError(CudaError):
    """A kernel has failed while it ran. ``operators`` are those that may have caused it, the last called first."""

    def __init__(self, message: str, code: int = 0, name: str = "", operators: tuple[str, ...] = ()) -> None:
        super().__init__(message, code, name)
        self.args = (message, code, name, operators)
        self.operators = operators


def ask(cause: Callable[[], BaseException | None]) -> Callable[[], None]:
    """Ask a function for the cause of each failure of a kernel; return what ends this."""
    _asked.append(cause)

    def end() -> None:
        if cause in _asked:
            _asked.remove(cause)

    return end


def explain(error: CudaError) -> CudaError:
    """Return an error with what is known about its origin if a kernel has failed, otherwise the error itself."""
    if not _FIRST_OF_KERNELS <= error.code <= _LAST_OF_KERNELS or isinstance(error, KernelFailureError):
        return error
    cause = next((found for found in [asked() for asked in _asked] if found is not None), None)
    kernels = [*dict.fromkeys(reversed(recent))]
    guilty = str(getattr(cause, "kernel", "") or "")
    suspects = [kernel for kernel in kernels if kernel.source.name == guilty] or kernels
    operators = tuple(dict.fromkeys([kernel.operator for kernel in suspects if kernel.operator]))
    one = len(suspects) == 1
    text = error.args[0].removeprefix("[cuda] ")
    if suspects:
        names = ", ".join([f"{kernel.source.name!r}" for kernel in suspects[:_SHOWN]])
        rest = "" if len(suspects) <= _SHOWN else f" and {len(suspects) - _SHOWN} more"
        text = (
            f"the kernel {names} has failed. " if one else f"one of the last kernels has failed: {names}{rest}. "
        ) + text
    made = KernelFailureError(
        f"[{operators[0] if one and operators else 'cuda'}] {text}", error.code, error.name, operators
    )
    made.__cause__ = cause
    return made


explainers.append(explain)
