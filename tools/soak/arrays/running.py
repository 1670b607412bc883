"""Runs one program and says what came of it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

import numpy

import tenkey as tk

from .comparing import difference
from .differences import known
from .pressure import during
from .program import ArrayProgram, Result, namespace

__all__ = ["check", "small_calls"]

_INTERNAL: Final = (SystemError, UnboundLocalError, AssertionError)  # never the answer to an argument of a user
_REPEATS: Final = 5  # of a program, while other threads run
_INTERRUPTS: Final = 10  # that each interrupted program receives
_PATIENCE: Final = 20.0  # seconds after which an interrupt is lost


class _Interrupt(BaseException):
    """Raised by the handler of the timer."""


def check(program: ArrayProgram) -> Result:
    """Run a program in the way of its kind."""
    ways = {"compared": _compared, "hostile": _hostile}
    unraisable: list[Any] = []
    errors: list[BaseException] = []
    before = sys.unraisablehook
    sys.unraisablehook = unraisable.append  # a function in C: in one of Python, the timer's exception would be lost
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"), during(program.threads, errors):
            warnings.simplefilter("ignore")
            result = _interrupted(program, unraisable) if program.timer else ways[program.kind](program)
        gc.collect(0)
        if result.kind == "agrees":
            found = [one.exc_value for one in unraisable if isinstance(one.exc_value, _INTERNAL)]
            if program.kind == "hostile":  # a kernel that it registers may be wrong for the other threads
                errors = [error for error in errors if isinstance(error, _INTERNAL)]
            for error in [*errors, *found]:
                return result._replace(kind="internal error", detail=_text(error))
    finally:
        sys.unraisablehook = before
    return result


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-6:])


def _codes(program: ArrayProgram) -> list[CodeType]:
    return [compile(line, f"<statement {number}>", "exec") for number, line in enumerate(program.lines)]


def _outcome(code: CodeType, scope: dict[str, Any]) -> Exception | None:
    try:
        exec(code, scope)
    except Exception as error:  # of any class: the classes are compared
        return error.with_traceback(None)
    return None


# ---- compared programs


def _compared(program: ArrayProgram) -> Result:
    codes = _codes(program)
    statements = 0
    for _ in range(_REPEATS if program.threads else 1):
        theirs, ours = namespace(ours=False), namespace(ours=True)
        for line, code in zip(program.lines, codes, strict=True):
            statements += 1
            before = set(map(id, theirs.values()))
            expected, found = _outcome(code, theirs), _outcome(code, ours)
            new = {name: value for name, value in theirs.items() if id(value) not in before}
            theirs.update({name: _ordered(value, ours.get(name)) for name, value in new.items()})
            if isinstance(found, _INTERNAL):
                return Result("internal error", f"{line}\n{_text(found)}", statements)
            kind, detail = difference(theirs, ours, expected, found)
            if kind:
                reason = "" if kind == "rounding" else known(line, kind, detail)
                if reason or kind == "rounding":  # the variables differ from here on
                    return Result("known difference" if reason else kind, reason, statements)
                return Result(kind, f"{line}\n{detail}", statements)
    return Result("agrees", "", statements)


def _ordered(value: Any, ours: Any) -> Any:
    """Copy a new NumPy array where ours is a copy: negative strides, broadcast; or to row-major order as ours."""
    if isinstance(value, numpy.ndarray) and isinstance(ours, tk.Tensor):
        if min(value.strides, default=0) < 0:
            once = value[tuple([slice(None) if stride else slice(1) for stride in value.strides])].copy("K")
            strides = [new if stride else 0 for new, stride in zip(once.strides, value.strides, strict=True)]
            writeable = value.flags.writeable
            return numpy.lib.stride_tricks.as_strided(once, value.shape, strides, writeable=writeable)
        same = numpy.asarray(ours.detach())
        is_copy = value.size and _is_broadcast(value) and not _is_broadcast(same)  # of a read-only array
        if is_copy and value.shape == same.shape:
            laid_out = numpy.empty_like(same, value.dtype)
            laid_out[...] = value
            return laid_out
        return value.copy() if value.base is None and same.flags.c_contiguous else value
    return value


def _is_broadcast(x: Any) -> bool:
    return any(length > 1 and not stride for length, stride in zip(x.shape, x.strides, strict=True))


# ---- hostile programs


def _hostile(program: ArrayProgram) -> Result:
    scope = namespace(ours=True) | {"gc": gc, "threading": threading, "weakref": weakref}
    statements = 0
    for line, code in zip(program.lines, _codes(program), strict=True):
        statements += 1
        error = _outcome(code, scope)
        gc.callbacks.clear()
        for found in (error, *_read(scope)):
            if isinstance(found, _INTERNAL):
                return Result("internal error", f"{line}\n{_text(found)}", statements)
        del error
    with contextlib.suppress(Exception):  # finalizers of operands
        scope.clear()
    wrong = _later_calls()
    return Result("wrong value", f"afterwards: {wrong}", statements) if wrong else Result("agrees", "", statements)


def _read(scope: dict[str, Any]) -> list[Exception]:
    """Read all arrays to their last byte; return what this raises."""
    errors = []
    for value in [value for name, value in scope.copy().items() if len(name) == 1]:  # a thread may delete one
        if not issubclass(type(value), tk.Tensor):  # isinstance would ask the value itself
            continue
        for use in _USES:
            try:
                use(value)
            except Exception as error:
                errors.append(error)
    return errors


_USES: Final[tuple[Callable[[Any], object], ...]] = (
    lambda x: numpy.asarray(x.detach()).tobytes(), lambda x: x == x, lambda x: x + x, lambda x: x[..., :1]
)  # fmt: skip


def _later_calls() -> str:
    """Return which of a few calls gives a wrong result, or an empty text: no hostile program changes later ones."""
    x, tensor = tk.numpy.arange(4.0), tk.tensor([0.0, 1.0, 2.0, 3.0])
    found = {
        "np.add": x + 1, "np.sinh": tk.numpy.sinh(x * 0) + x + 1, "np.multiply": x * 1 + 1, "index": (x + 1)[0:],
        "tk.add": tensor + 1, "tk.mul": tensor * 1 + 1, "tk.grad": tk.grad(lambda v: tk.sum(v * v))(tensor) / 2 + 1,
    }  # fmt: skip
    return ", ".join(name for name, value in found.items() if value.tolist() != [1.0, 2.0, 3.0, 4.0])


# ---- interrupted programs


def _interrupted(program: ArrayProgram, unraisable: list[Any]) -> Result:
    """Run those statements that raise nothing: NumPy loses interrupts that come while it writes a message.

    They have run once before, since the import system loses those that come while it frees the lock of a module.
    """
    scope = namespace(ours=True)
    codes = [code for code in _codes(program) if _outcome(code, scope) is None]
    raised = arrived = statements = 0
    place = ""

    def handler(number: int, frame: Any) -> None:
        nonlocal raised, place
        raised += 1
        place = "".join(traceback.format_stack(frame)[-8:])
        raise _Interrupt

    def repeat(seen: int, end: float) -> None:
        nonlocal statements
        while raised == seen and time.monotonic() < end:
            scope = namespace(ours=True)
            for code in codes:
                statements += 1
                with contextlib.suppress(Exception):
                    exec(code, scope)

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its jobs in the background ignore it
    before = signal.signal(signal.SIGALRM, handler)
    lost = ""
    try:
        while raised < _INTERRUPTS and not lost:
            seen, end = raised, time.monotonic() + _PATIENCE
            unraisable.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, program.timer / 1000)
                repeat(seen, end)
            except (_Interrupt, KeyboardInterrupt):  # the second if a callback of the pool of threads was interrupted
                arrived += 1
                continue
            # from Python 3.14 on the message names the function
            printed = [one.object or one.err_msg for one in unraisable if isinstance(one.exc_value, _Interrupt)]
            # A finalizer has no caller, so Python names it. NumPy drops what __index__ and __buffer__ raise.
            named = any(callable(one) or "while calling" in str(one) for one in printed)
            if named or "in __index__" in place or "in buffer\n" in place:
                arrived += 1
            else:
                lost = f"the statements went on after what was raised in\n{place}Python printed it for: {printed}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if lost:
        return Result("lost interrupt", f"{arrived} of {raised} arrived; {lost}", statements, raised, arrived)
    return Result("agrees", "", statements, raised, arrived)


# ---- what runs small calls


def small_calls() -> str:
    """Return how small calls run, "compiled" or "in Python", with what `tk.show_config` says if there is one.

    The judgement itself is independent of any report: a compiled call enters no function of Python.
    """
    x = tk.numpy.ones(3)
    entered: list[str] = []
    for _ in range(3):  # the first calls may prepare later ones
        entered.clear()
        sys.setprofile(lambda frame, event, argument: entered.append(event) if event == "call" else None)
        try:
            x + x
        finally:
            sys.setprofile(None)
    show = getattr(tk, "show_config", None)
    reported = "" if show is None else str(show())
    lines = [line.strip() for line in reported.splitlines() if "small calls" in line.lower()]
    return "; ".join([f"small calls {'in Python' if entered else 'compiled'}", *itertools.islice(lines, 1)])
