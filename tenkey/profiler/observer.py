"""The observer: what a profiler sees of a run, and how it comes to see it.

Note [How a profiler sees calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A profiler is a dispatch key. While one is on, the local state includes the key ``Profiler``, so every call of an
operator in this thread or task, also inside of composite operators and of backward formulas, passes the one fallback
that is registered for it: a function made for the operator and the dispatch word, which notes the time, calls the
kernel below and notes the time again. The key stands behind modes and subclasses (they see the call as it was written,
and what they make of it is what is seen here) and before the levels of transforms. Two more places ask for the key, by
the local state that they have read anyway: a backward, once for the whole graph, and ``Function.apply``. With no
profiler on there is no key in any word, so nothing of this is met.

The fallback finds who is to be told in a context variable, as all local state is kept: tasks and threads that run in a
copy of the context are seen too, and the place of an event in the tree is that of the call in its own thread or task.

Note [Time of the observer]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
An observer that counted its own work as that of the caller would make callers of many small operators look slow. So
each event takes four times: entry, begin, end, and the exit from the observer. What lies between begin and end is the
operator's; what lies outside of it, in the calls that it makes of others, is the observer's, and is subtracted from all
events above. Left over, in the caller's own time, is the way through one more Python function, less than a microsecond
a call. Guarded by ``tests/profiler/test_profiler.py::test_the_time_of_the_observer_is_not_the_callers``.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache
from os import sep
from os.path import realpath
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, Final

from ..core.tensor import Tensor
from ..core.word import REQUIRES_GRAD
from ..core.wrapper import innermost
from ..dispatch.kernel import Kernel
from ..dispatch.keys import DispatchKey, DispatchKeySet, key_mask, register_key
from ..dispatch.operator import Operator

if TYPE_CHECKING:
    from .memory import Ledger

__all__ = [
    "BACKWARD",
    "OPERATOR",
    "PROFILER",
    "USER",
    "Event",
    "Recorder",
    "Recording",
    "get_event",
    "get_recording",
    "install_observer",
    "observe_function",
    "observed",
    "set_recording",
]

KEY: Final = register_key("Profiler", before=DispatchKey.Batched)
PROFILER: Final[int] = KEY.mask
OPERATOR, BACKWARD, USER = 0, 1, 7  # the scopes of an event, with the numbers that PyTorch's have
_LAST: Final = 2**63 - 1  # the sequence number of accumulators, which belong to no call
_PACKAGE: Final = realpath(__file__).rsplit(sep, 2)[0]

_event_ids: Final = itertools.count(1).__next__
_thread: Final = threading.get_ident


class Event:
    """One call of an operator, one node of a backward, or one region that ``record_function`` named.

    Times are in nanoseconds of ``time.perf_counter_ns``; what PyTorch's users know by name is in microseconds.
    """

    __slots__ = (
        "_cpu_children",
        "allocated",
        "args",
        "begin",
        "done",
        "dtypes",
        "end",
        "error",
        "forward",
        "freed",
        "id",
        "inside",
        "inside_allocated",
        "inside_freed",
        "name",
        "overhead",
        "parent",
        "scope",
        "sequence_nr",
        "shapes",
        "stack",
        "thread",
        "thread_time",
    )  # fmt: skip

    def __init__(self, name: str, scope: int, parent: Event | None, thread: int) -> None:
        self.id = _event_ids()
        self.name = name
        self.scope = scope
        self.parent = parent
        self.thread = thread
        self.begin = self.end = 0
        self.inside = 0  # what passed in events below this one, with the work of the observer
        self.overhead = 0  # the work of the observer for all events below this one
        self.thread_time = 0
        self.sequence_nr = -1
        self.forward: Event | None = None
        self.shapes: tuple[Any, ...] = ()  # tuples: an object more for each argument is one more to the collector
        self.dtypes: tuple[Any, ...] = ()
        self.allocated = self.freed = 0  # bytes, without those of the events below
        self.inside_allocated = self.inside_freed = 0
        self.stack: Sequence[str] = ()
        self.args: Any = None
        self.error: str | None = None
        self.done = False
        self._cpu_children: list[Event] | None = None

    # ---- the names that PyTorch's users know

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def count(self) -> int:
        """One call."""
        return 1

    @property
    def cpu_time_total(self) -> float:
        """Microseconds between begin and end, less the work of the observer for the events below."""
        return max(self.end - self.begin - self.overhead, 0) / 1000

    @property
    def cpu_time(self) -> float:
        """The same: the mean of one call."""
        return self.cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds that passed in this event and in none below it."""
        return max(self.end - self.begin - self.inside, 0) / 1000

    @property
    def thread_time_total(self) -> float:
        """Microseconds of the total in which the thread was running, not waiting; 0 unless it was asked for."""
        return min(max(self.thread_time - self.overhead, 0) / 1000, self.cpu_time_total)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of tensors that were allocated less those that were freed, in the events below too."""
        return self.self_cpu_memory_usage + self.inside_allocated - self.inside_freed

    @property
    def self_cpu_memory_usage(self) -> int:
        """The same without the events below."""
        return self.allocated - self.freed

    @property
    def cpu_parent(self) -> Event | None:
        """The event that this one ran in."""
        return self.parent

    @property
    def cpu_children(self) -> list[Event]:
        """The events that ran directly in this one; known when the profile has ended."""
        return self._cpu_children or []

    @property
    def input_shapes(self) -> list[Any]:
        """For each argument the shape of a tensor, those of a list of tensors, and ``[]`` for what is none."""
        return [[list(s) for s in one] if one and isinstance(one[0], tuple) else list(one) for one in self.shapes]

    @property
    def input_dtypes(self) -> list[Any]:
        """For each argument the dtype of a tensor, those of a list of tensors, and the type of what is none."""
        return [list(one) if isinstance(one, tuple) else one for one in self.dtypes]

    @property
    def fwd_thread(self) -> int | None:
        """For a node: the thread of the call that recorded it."""
        return None if self.forward is None else self.forward.thread

    @property
    def is_user_annotation(self) -> bool:
        """Whether ``record_function`` made it."""
        return self.scope == USER

    @property
    def time_range(self) -> TimeRange:
        """Begin and end in microseconds."""
        return TimeRange(self.begin / 1000, self.end / 1000)

    def __repr__(self) -> str:
        linked = f", sequence_nr={self.sequence_nr}" if self.sequence_nr >= 0 else ""
        return f"<event {self.name!r}, {self.cpu_time_total:.1f} us{linked}>"


class TimeRange:
    """``start`` and ``end`` in microseconds."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """The length."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"TimeRange(start={self.start}, end={self.end})"


class Recorder:
    """Collects the events of one ``profile()`` until it is closed, from any thread."""

    def __init__(self, *, shapes: bool, stack: bool, thread_time: bool) -> None:
        self.events: list[Event] = []
        self.threads: dict[int, tuple[int, str]] = {}
        self.shapes = shapes
        self.stack = stack
        self.thread_time = thread_time
        self.open = True


class Recording:
    """What is on in a context: the recorders, the outermost first. Immutable, as local state is."""

    __slots__ = ("ledger", "recorders", "shapes", "stack", "thread_time")

    def __init__(self, recorders: tuple[Recorder, ...], ledger: Ledger | None) -> None:
        self.recorders = recorders
        self.ledger = ledger
        self.shapes = any(r.shapes for r in recorders)
        self.stack = any(r.stack for r in recorders)
        self.thread_time = any(r.thread_time for r in recorders)

    def is_on(self) -> bool:
        """Whether anybody listens still: a thread may keep a copy of a context whose profile has ended."""
        return any(recorder.open for recorder in self.recorders)

    def start(self, name: str, scope: int) -> Event:
        """Begin an event in this thread; the time is the caller's to set."""
        thread = _thread()
        parent = get_event()
        while parent is not None and (parent.done or parent.thread != thread):
            parent = parent.parent
        event = Event(name, scope, parent, thread)
        set_event(event)
        for recorder in self.recorders:
            if thread not in recorder.threads:
                found = threading.current_thread()
                recorder.threads[thread] = (found.native_id or thread, found.name)
        if self.stack:
            event.stack = _callers()
        if self.thread_time:
            event.thread_time = -thread_time_ns()
        return event

    def finish(self, event: Event, entered: int, ended: int) -> None:
        """End an event that was entered at one time and ended at another (Note [Time of the observer])."""
        if self.thread_time:
            event.thread_time += thread_time_ns()
        event.end = ended
        event.done = True
        found = get_event()
        if found is event:
            set_event(event.parent)
        elif found is not None and found.done:  # events that began later were ended by somebody else
            while found is not None and found.done:
                found = found.parent
            set_event(found)
        for recorder in self.recorders:
            if recorder.open:
                recorder.events.append(event)
        parent = event.parent
        if parent is not None and not parent.done:
            parent.inside_allocated += event.allocated + event.inside_allocated
            parent.inside_freed += event.freed + event.inside_freed
            passed = now() - entered
            parent.inside += passed
            parent.overhead += passed - (ended - event.begin) + event.overhead


_recording: Final[ContextVar[Recording | None]] = ContextVar("tenkey_profiler", default=None)
get_recording = _recording.get
set_recording = _recording.set
_event: Final[ContextVar[Event | None]] = ContextVar("tenkey_profiler_event", default=None)
get_event = _event.get
set_event = _event.set


def _callers(limit: int = 8) -> list[str]:
    """``file(line): function`` of the callers outside of this package, the innermost first."""
    found: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(found) < limit:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE, "<")):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


@cache
def _name(dtype: Any) -> str:
    return str(dtype)


def _describe(event: Event, values: Any) -> None:
    """Note shapes and dtypes: of a tensor its shape, of a list of tensors theirs, of anything else ``()``."""
    shapes, dtypes = [], []
    for value in values:
        shape: tuple[Any, ...] = ()
        dtype: Any = ""
        if isinstance(value, Tensor):
            shape, dtype = value.shape, _name(value.dtype)
        elif isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
            shape = tuple([t.shape if isinstance(t, Tensor) else () for t in value])
            dtype = tuple([_name(t.dtype) if isinstance(t, Tensor) else "" for t in value])
        elif value is not None:
            dtype = type(value).__name__
        shapes.append(shape)
        dtypes.append(dtype)
    event.shapes, event.dtypes = tuple(shapes), tuple(dtypes)


def _node_of(value: Any) -> Any:
    """The node that recorded the call which made a tensor, or the first of several; None for a leaf."""
    if isinstance(value, Tensor):
        if not value._word & REQUIRES_GRAD or value._autograd is None:
            return None
        edge = value._autograd.edge
        node = None if edge is None else edge[0]
        return None if node is None or node.sequence_nr == _LAST else node
    if isinstance(value, (list, tuple)):
        return next((node for node in map(_node_of, value) if node is not None), None)
    return None


def _link(event: Event, node: Any) -> None:
    """Note which node a call recorded, so that its event can be found when the node runs.

    The innermost call is the one; those that it was made in have the same number.
    """
    if node is not None:
        made = node.__dict__.get("_forward_event")
        if made is None:
            node.__dict__["_forward_event"] = event
        elif made.id < event.id:
            return  # it was there before
        event.sequence_nr = node.sequence_nr


def _observing(operator: Operator, word: int) -> Callable[..., Any]:
    """The kernel of the key ``Profiler`` for an operator and a word (Note [How a profiler sees calls])."""
    below = DispatchKeySet.from_word(word).below(KEY).mask | (word & ~key_mask())
    cache, plain, mutable = operator.cache, operator.name, operator.schema.is_mutable
    in_level = bool(word & DispatchKey.Batched.mask)

    def run(*args: Any, **kwargs: Any) -> Any:
        recording = get_recording()
        if recording is None or not recording.is_on():
            return cache[below](*args, **kwargs)
        entered = now()
        name = plain
        if in_level:
            level = innermost((*args, *kwargs.values()))
            if level is not None:
                name = f"{level.name}({plain})"
        event = recording.start(name, OPERATOR)
        if recording.shapes:
            _describe(event, (*args, *kwargs.values()))
        before = _node_of(args) if mutable else None
        event.begin = now()
        try:
            result = cache[below](*args, **kwargs)
        except BaseException as error:
            ended = now()
            event.error = type(error).__name__
            recording.finish(event, entered, ended)
            raise
        ended = now()
        if not in_level:
            if mutable:
                node = _node_of(args if result is None else result)
                _link(event, node if node is not before else None)
            elif not any(result is value for value in args):
                _link(event, _node_of(result))
            if recording.ledger is not None:
                recording.ledger.note(event, result, (*args, *kwargs.values()))
        recording.finish(event, entered, ended)
        return result

    return run


def observed(run: Callable[..., Any]) -> Callable[..., Any]:
    """What the engine runs nodes with: ``run(task, buffer)``, as an event.

    The accumulator counts who refers to a gradient, so none is referred to from here while the node runs.
    """

    def step(task: Any, buffer: list[Any]) -> Any:
        recording = get_recording()
        if recording is None or not recording.is_on():
            return run(task, buffer)
        entered = now()
        _, grads, node, _ = buffer
        event = recording.start(node.name(), BACKWARD)
        if node.sequence_nr != _LAST:
            event.sequence_nr = node.sequence_nr
        event.forward = node.__dict__.get("_forward_event")
        if recording.shapes:
            _describe(event, grads if isinstance(grads, (list, tuple)) else [grads])
        del grads
        event.begin = now()
        try:
            return run(task, buffer)
        except BaseException as error:
            event.error = type(error).__name__
            raise
        finally:
            recording.finish(event, entered, now())

    return step


def observe_function(name: str, values: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """``run()``, one call of a ``Function``, as an event; ``run`` returns the result and the node."""
    recording = get_recording()
    if recording is None or not recording.is_on():
        return run()[0]
    entered = now()
    event = recording.start(name, OPERATOR)
    if recording.shapes:
        _describe(event, values)
    event.begin = now()
    try:
        result, node = run()
        ended = now()
        if any(_node_of(value) is node for value in (result if isinstance(result, (list, tuple)) else (result,))):
            _link(event, node)
    except BaseException as error:
        ended = now()
        event.error = type(error).__name__
        raise
    finally:
        recording.finish(event, entered, ended)
    return result


def install_observer(registry: Any) -> None:
    """Register the fallback of the key."""
    registry.fallback(Kernel(_observing, KEY, boxed=True, origin="generated", specialize=_observing))
