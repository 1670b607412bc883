"""Interrupts at one place after another, without timing.

The places of :func:`interrupted` are those where CPython runs the handlers of signals; the places of :class:`Tracer`
are all lines, or all instructions, of the files in one folder.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import dis
import gc
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Place", "Tracer", "changed_variables", "interrupted", "stacks", "watchdog"]


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


class Tracer:
    """Interrupts one thread before a line, or an instruction, of a file in a folder.

    An interrupt comes between the end of a C function and the place for its result, too, at the beginning of a handler
    and in a ``finally``. ``event``: "line" or "opcode". ``known``: the places of earlier calls, which are left out;
    ``share``: of the new places, one of so many is taken; ``note``: is called at the place.
    """

    def __init__(
        self, folder: str, event: str, known: set[tuple[Any, int]], share: int, note: Callable[[], Any]
    ) -> None:
        self.folder = folder
        self.event = event
        self.known = known
        self.share = share
        self.note = note
        self.is_on = True
        self.noted: Any = None
        self.place: Place | None = None
        self.stack: list[str] = []  # the functions around the place

    def install(self) -> None:
        """Trace the calling thread from now on, including the functions that have called this one."""
        sys.settrace(self._call)
        frame: Any = sys._getframe(1)
        while frame is not None:
            self._trace(frame)
            frame = frame.f_back

    def _trace(self, frame: Any) -> Any:
        if self.is_on and frame.f_code.co_filename.startswith(self.folder):
            frame.f_trace_lines, frame.f_trace_opcodes = self.event == "line", self.event == "opcode"
            frame.f_trace = self._at
        return frame.f_trace

    def _call(self, frame: Any, event: str, argument: Any) -> Any:
        return self._trace(frame)

    def _at(self, frame: Any, event: str, argument: Any) -> Any:
        where = (frame.f_code, frame.f_lineno if event == "line" else frame.f_lasti)
        if event == self.event and self.is_on and where not in self.known:
            self.known.add(where)
            if len(self.known) % self.share == 0:
                self.place = Place(frame.f_code.co_name, False, frame.f_lineno)
                self.is_on = False
                self.noted = self.note()
                self.stack = [one.name for one in traceback.extract_stack(frame)]
                raise KeyboardInterrupt  # Python ends the tracing
        return self._at

    def interrupts(self, function: Callable[[], Any]) -> Place | None:
        """Call a function and interrupt it; return None if it has no new place."""
        before = sys.gettrace()
        try:
            sys.settrace(self._call)
            function()
        except KeyboardInterrupt:
            if self.place is None:
                raise
        finally:
            sys.settrace(before)
        forget_handled()
        return self.place


def forget_handled() -> None:
    """Clear the exception that counts as being handled after an interrupt at the first instruction of a handler.

    CPython 3.11 to 3.13 end the handler before they have begun it, so that later exceptions have it as their context.
    """
    if sys.exc_info()[1] is not None:
        ctypes.pythonapi.PyErr_SetExcInfo(None, None, None)


def stacks() -> str:
    """Describe where all threads are."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for number, frame in sys._current_frames().items():
        parts.append(f"Thread {names.get(number, number)}:\n{''.join(traceback.format_stack(frame))}")
    return "\n".join(parts)


@contextlib.contextmanager
def watchdog(what: Callable[[], Any], seconds: float = 60.0) -> Iterator[None]:
    """Fail with the stacks of all threads if the block does not end; ``what`` describes what is running."""

    def hangs(*arguments: Any) -> None:
        raise AssertionError(f"no end at {what()}:\n{stacks()}")

    handler = signal.signal(signal.SIGALRM, hangs)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, if the first was lost in a callback
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


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
