"""Interrupts at every place where CPython runs the handlers of signals, one after another, without timing."""

from __future__ import annotations

import contextvars
import ctypes
import dis
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Place", "changed_variables", "interrupted"]


class Place(NamedTuple):
    """Where an interrupt came: the function, and whether it was just beginning."""

    function: str
    begins: bool
    line: int


_Call = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_add_call: Any = ctypes.pythonapi.Py_AddPendingCall
_add_call.argtypes = (_Call, ctypes.c_void_p)
_raise_in: Any = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_RESUME = dis.opmap["RESUME"]


class _Pending:
    """Counts the places by a *pending call*, which CPython makes where it also runs the handlers of signals."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.place: Place | None = None
        self.on = False
        self._last: Any = None
        self._again = _Call(self._look)

    def __enter__(self) -> None:
        self.on = True
        _add_call(self._again, None)

    def __exit__(self, *error: object) -> None:
        self.on = False
        threading.Event().is_set()  # the call that is still pending is made here

    def _look(self, _: Any) -> int:
        if not self.on:
            return 0
        frame = sys._getframe(1)
        if self._last is None or self._last[0] is not frame or self._last[1] != frame.f_lasti:
            self._last = (frame, frame.f_lasti)  # CPython makes several pending calls in a row
            self.count += 1
            if self.count == self.number:
                self.on = False
                code = frame.f_code
                self.place = Place(code.co_name, code.co_code[frame.f_lasti] == _RESUME, frame.f_lineno)
                (_,) = map(_raise_in, (threading.get_ident(),), (KeyboardInterrupt,))  # it must not come here
                return 0
        _add_call(self._again, None)
        return 0


class _Profiled:
    """Counts the beginnings of functions and the ends of C functions, as far as a profiler sees them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.place: Place | None = None

    def __enter__(self) -> None:
        sys.setprofile(self._look)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: Any, event: str, _: Any) -> None:
        if event in ("call", "c_return"):
            self.count += 1
            if self.count == self.number:
                self.place = Place(frame.f_code.co_name, event == "call", frame.f_lineno)
                raise KeyboardInterrupt


def interrupted(function: Callable[[], Any], number: int) -> Place | None:
    """Call a function, and interrupt it at the place of this number, from 1; None if it has fewer places."""
    assert threading.current_thread() is threading.main_thread()
    # since 3.13 a pending call cannot arrange the next one
    counter = (_Pending if sys.version_info < (3, 13) else _Profiled)(number)
    try:
        with counter:
            function()
    except KeyboardInterrupt:
        pass
    return counter.place


def changed_variables(before: contextvars.Context) -> dict[str, Any]:
    """Return the context variables that have other values here than in ``before``, by name."""
    now = contextvars.copy_context()
    changed = {}
    for variable in {*before, *now}:
        was, found = _value(variable, before), _value(variable, now)
        if found is not was and found != was:
            changed[variable.name] = found
    return changed


def _value(variable: contextvars.ContextVar[Any], context: contextvars.Context) -> Any:
    if variable in context:
        return context[variable]
    try:
        return contextvars.Context().run(variable.get)  # its default
    except LookupError:
        return None
