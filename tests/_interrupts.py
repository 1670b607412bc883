"""Interrupts at every place where CPython runs the handlers of signals, one after another, without timing."""

from __future__ import annotations

import contextvars
import ctypes
import dis
import gc
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
_TOOL = 4  # of sys.monitoring, which names none of this number


def _starts_a_thread(frame: Any) -> bool:
    """Return whether a thread is being started: until it runs, it has the number of this one, and gets its error."""
    while frame is not None and frame.f_code is not threading.Thread.start.__code__:
        frame = frame.f_back
    return frame is not None


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
        self._last = None  # frees the frames
        threading.Event().is_set()  # the call that is still pending is made here

    def _look(self, _: Any) -> int:
        if not self.on:
            return 0
        frame = sys._getframe(1)
        if _starts_a_thread(frame):
            _add_call(self._again, None)
            return 0
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


class _Monitored:
    """Counts the beginnings of functions and the ends of C functions by ``sys.monitoring``.

    It cannot count jumps backward: an error from there would be attributed to the jump, which no ``try`` contains,
    whereas that of a handler is attributed to the place that the jump leads to.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.place: Place | None = None
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined]  # since 3.12
        events = self._monitoring.events
        self._counts = {
            events.PY_START: lambda code, offset: self._look(code, True),
            events.PY_RESUME: lambda code, offset: self._look(code, False),
            events.C_RETURN: lambda code, offset, function, argument: self._look(code, False),
        }

    def __enter__(self) -> None:
        self._monitoring.use_tool_id(_TOOL, "interrupts")
        for event, count in self._counts.items():
            self._monitoring.register_callback(_TOOL, event, count)
        calls = self._monitoring.events.CALL | self._monitoring.events.C_RAISE  # C_RETURN comes with these
        self._monitoring.set_events(_TOOL, sum(self._counts) | calls)

    def __exit__(self, *error: object) -> None:
        self._monitoring.set_events(_TOOL, 0)
        self._monitoring.free_tool_id(_TOOL)

    def _look(self, code: Any, begins: bool) -> None:
        if threading.current_thread() is not threading.main_thread() or code.co_filename == __file__:
            return
        self.count += 1
        if self.count == self.number and self.place is None:
            self.place = Place(code.co_name, begins, sys._getframe(2).f_lineno)
            raise KeyboardInterrupt


def interrupted(function: Callable[[], Any], number: int) -> Place | None:
    """Call a function, and interrupt it at the place of this number, from 1; None if it has fewer places."""
    assert threading.current_thread() is threading.main_thread()
    collects = gc.isenabled()
    gc.disable()  # callbacks of weak references to cycles are places as well, in one call and not in the next
    # since 3.13 a pending call cannot arrange the next one
    counter: Any = (_Pending if sys.version_info < (3, 13) else _Monitored)(number)
    try:
        with counter:
            function()
    except KeyboardInterrupt:
        pass
    finally:
        if collects:
            gc.enable()
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
