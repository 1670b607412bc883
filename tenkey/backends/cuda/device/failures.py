"""Failures of kernels that the driver reports later, and what is known about their origin.

Note [Failures that are found later]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A launch returns before its kernel runs. Where the kernel fails, the driver answers the next call that waits with the
bare number of the error, and every later call too. Each launch is therefore noted, which costs one append to a list of
limited length, and the error names the launches that may have failed, the last one first, with the operators for which
their kernels were made. ``TENKEY_CUDA_SYNCHRONIZE=1`` in the environment waits after each launch, so that the error
arises in the call that caused it. An emulator knows the kernel, thread and address, and gives this as the cause
(:func:`ask`); its text names a line of the kernel's source, which is quoted, with the file and line where its author
wrote it (:data:`origins`). Guarded by ``tests/backends/cuda/device/test_failures.py``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from .driver import SEARCH, CudaError, explainers

__all__ = ["KernelFailureError", "ask", "explain", "launched", "origins", "recent", "with_sources"]

_OF_KERNELS: Final = frozenset({700, 702, 710, *range(714, 720)})  # 701 is the refusal of a launch
_SHOWN: Final = 5
_SEPARATORS: Final = r"[/\\]"
_PLACE: Final = re.compile(r"(?P<place>(?:<(?P<name>\w+)\.py>|\b(?P<c_name>\w+)\.cu):(?P<line>\d+))")

recent: Final[deque[Any]] = deque(maxlen=64)
"""The kernels that were launched last, the last one at the end."""
launched: Final = recent.append
origins: Final[dict[str, Any]] = {}
"""Where the lines of a kernel's text were written (``Origin`` of ``function_text``), by the text."""
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
    if error.code not in _OF_KERNELS or isinstance(error, KernelFailureError):
        return error
    cause = next((found for found in [asked() for asked in _asked] if found is not None), None)
    kernels = [*dict.fromkeys(reversed(recent))]
    guilty = str(getattr(cause, "kernel", "") or "")
    suspects = [kernel for kernel in kernels if kernel.source.name == guilty] or kernels
    operators = tuple(dict.fromkeys([kernel.operator for kernel in suspects if kernel.operator]))
    sources = {kernel.source.name: kernel.source.text for kernel in reversed(suspects)}
    text = with_sources(error.args[0].removeprefix("[cuda] "), sources)
    if suspects:
        names = [*dict.fromkeys([f"{kernel.source.name!r}" for kernel in suspects])]
        rest = "" if len(names) <= _SHOWN else f" and {len(names) - _SHOWN} more"
        what = "the kernel" if len(names) == 1 else "one of the last kernels"
        text = f"{what} {', '.join(names[:_SHOWN])}{rest} has failed. {text}"
        if 1 in (len(names), len(operators)):
            text = text.replace(SEARCH, "Restart")
    name = operators[0] if len(operators) == 1 else "cuda"
    made = KernelFailureError(f"[{name}] {text}", error.code, error.name, operators)
    made.__cause__ = cause
    return made


def with_sources(text: str, sources: dict[str, str]) -> str:
    """Return a text in which lines of kernels are quoted, with the files and lines where they were written.

    ``sources`` are the texts of the kernels by their names.
    """

    def quoted(found: re.Match[str]) -> str:
        source = sources.get(found["name"] or found["c_name"])
        lines = source.splitlines() if source is not None else []
        line = int(found["line"])
        if not 0 < line <= len(lines):
            return found[0]
        place = found["place"]
        for origin in origins.get(source or "", ()):
            if origin.line <= line < origin.line + origin.lines:
                place = f"{re.split(_SEPARATORS, origin.file)[-1]}:{origin.line_in_file + line - origin.line}"
        return f"{place} ({lines[line - 1].strip()})"

    return _PLACE.sub(quoted, text)


explainers.append(explain)
