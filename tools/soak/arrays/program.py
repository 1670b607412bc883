"""Programs as tuples of statements, the names that they use, and their reduction to shorter ones."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy

import tenkey as tk

from . import vocabulary

__all__ = ["FAILURES", "ArrayProgram", "Result", "namespace", "script", "smaller"]

FAILURES: Final = (
    "wrong value", "wrong dtype", "wrong shape", "wrong type", "wrong error", "internal error", "lost interrupt",
    "crash", "hang",
)  # fmt: skip


class ArrayProgram(NamedTuple):
    """Statements, the kind of check, what other threads do meanwhile, and the period of the timer in milliseconds."""

    kind: str  # "compared", "hostile", "interrupted"
    lines: tuple[str, ...]
    threads: tuple[str, ...] = ()
    timer: int = 0


class Result(NamedTuple):
    """The outcome of a program: its kind and detail, and the numbers of statements and of interrupts."""

    kind: str
    detail: str = ""
    statements: int = 0
    raised: int = 0
    arrived: int = 0


def namespace(ours: bool) -> dict[str, Any]:
    """Return the names that the statements use: those of tenkey, or of NumPy in their place."""
    scope: dict[str, Any] = {name: getattr(vocabulary, name) for name in vocabulary.__all__}
    if ours:
        return scope | {"np": tk.numpy, "tk": tk, "numpy": numpy, "tensor": vocabulary.tensor}
    return scope | {name: getattr(vocabulary.WithNumPy, name) for name in vocabulary.REPLACED} | {
        "np": numpy, "numpy": numpy,
    }  # fmt: skip


def smaller(program: ArrayProgram) -> Iterator[ArrayProgram]:
    """Yield programs with fewer statements, or with less happening around them."""
    lines = program.lines
    size = len(lines) // 2
    while size:
        for begin in range(len(lines) - size, -1, -size):
            yield program._replace(lines=lines[:begin] + lines[begin + size :])
        size //= 2
    for thread in program.threads:
        yield program._replace(threads=tuple([other for other in program.threads if other != thread]))


def script(program: ArrayProgram, detail: str) -> str:
    """Return a program that shows the failure and needs nothing of this tool."""
    text = "\n".join(program.lines)
    lines = [
        "from __future__ import annotations",
        "from typing import Any",
        "import gc, sys, threading, weakref",
        "import numpy",
        "import tenkey as tk",
        "import tenkey.numpy as np",
    ]
    if program.kind == "compared" and not program.threads:
        lines[-1] += "  # and beside it: import numpy as np"
    lines += ["from numpy import inf, nan", ""]
    named = [name for name in vocabulary.__all__ if name in text and not isinstance(getattr(vocabulary, name), float)]
    if "trap" in named and "HostileError" not in named:
        named.append("HostileError")
    for name in named:
        value = getattr(vocabulary, name)
        lines += [inspect.getsource(value) if callable(value) else f"{name} = {value!r}", ""]
    for line in program.lines:
        lines += ["try:", f"    {line}", "except Exception as error:", "    print(type(error).__name__, error)"]
    if program.threads:
        lines.append(f"# while other threads do this, in tools/soak/arrays/pressure.py: {', '.join(program.threads)}")
    if program.timer:
        lines.append(f"# in a loop, while a timer of {program.timer} ms raises an exception")
    return "\n".join([*lines, *[f"# {line}" for line in detail.splitlines()]])
