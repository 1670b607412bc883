"""The observer: how a profiler sees the calls of a run.

Note [How a profiler sees calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A profiler is a dispatch key. While one is active, the local state includes the key ``Profiler``, so every operator call
in this thread or task, including calls inside composite operators and backward formulas, passes through the one
fallback that is registered for the key: a function specialised for the operator and the dispatch word, which reads the
clock, calls the kernel below and reads the clock again. The key is placed after modes and subclasses (they see the call
as it was written; the calls that they make are observed) and before the levels of transforms. Two more places check the
key, in the local state that they have read anyway: a backward, once for the whole graph, and ``Function.apply``.
Without a profiler the key is in no word, so none of this code runs.

The fallback finds the recorders in a context variable, like all local state: tasks and threads that run in a copy of
the context are observed too, and the position of an event in the tree is that of the call in its own thread or task.

Note [Time of the observer]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
If the observer counted its own work as the caller's, callers of many small operators would look slow. Therefore each
event reads the clock four times: at entry, begin, end, and exit from the observer. The time between begin and end is
the operator's; the rest, for the calls that it makes, is the observer's and is subtracted from all events above. What
remains in the caller's own time is the overhead of one more Python function, less than a microsecond per call.
Guarded by ``tests/profiler/test_profiler.py::test_the_time_of_the_observer_is_not_the_callers``.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from os import sep
from os.path import realpath
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import Any, Final, NamedTuple

from ..core.tensor import Tensor
from ..core.word import REQUIRES_GRAD
from ..core.wrapper import innermost
from ..dispatch.kernel import Kernel
from ..dispatch.keys import DispatchKey, register_key, word_below
from ..dispatch.operator import Operator

__all__ = [
    "BACKWARD", "OPERATOR", "PROFILER", "USER", "Event", "Recorder", "Recording", "active_recording", "get_event",
    "get_recording", "install_observer", "observe_function", "observed", "set_event", "set_recording",
]  # fmt: skip

KEY: Final = register_key("Profiler", before=DispatchKey.Batched)
PROFILER: Final[int] = KEY.mask
OPERATOR, BACKWARD, USER = 0, 1, 7  # the scopes of an event, numbered as in PyTorch
_LAST: Final = 2**63 - 1  # the sequence number of accumulators, which belong to no call
_PACKAGE: Final = realpath(__file__).rsplit(sep, 2)[0]

_event_ids: Final = itertools.count(1).__next__
_thread: Final = threading.get_ident


class TimeRange(NamedTuple):
    """``start`` and ``end`` in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return the length."""
        return self.end - self.start


class Event:
    """A call of an operator, a node of a backward, or a region named by ``record_function``.

    Times are in nanoseconds of ``time.perf_counter_ns``; the properties known from PyTorch are in microseconds.
    """

    __slots__ = (
        "allocated", "args", "begin", "cpu_children", "cpu_parent", "done", "dtypes", "end", "entered", "error",
        "forward", "freed", "id", "inside", "inside_allocated", "inside_freed", "key", "name", "overhead", "scope",
        "sequence_nr", "shapes", "stack", "thread", "thread_time",
    )  # fmt: skip

    def __init__(self, name: str, scope: int, parent: Event | None, thread: int, entered: int) -> None:
        self.id = _event_ids()
        self.name = self.key = name
        self.scope = scope
        self.cpu_parent = parent  # the event in which this one ran
        self.thread = thread
        self.entered = entered
        self.begin = self.end = 0
        self.inside = 0  # time spent in events below this one, including the work of the observer
        self.overhead = 0  # the work of the observer for all events below this one
        self.thread_time = 0
        self.sequence_nr = -1
        self.forward: Event | None = None
        self.shapes: tuple[Any, ...] = ()  # tuples are cheaper for the garbage collector than an object per argument
        self.dtypes: tuple[Any, ...] = ()
        self.allocated = self.freed = 0  # bytes, without those of the events below
        self.inside_allocated = self.inside_freed = 0
        self.stack: Sequence[str] = ()
        self.args: Any = None
        self.error: str | None = None
        self.done = False
        self.cpu_children: Sequence[Event] = ()  # the direct children, set when the profile has ended

    # ---- names known from PyTorch

    count = 1

    @property
    def cpu_time_total(self) -> float:
        """Microseconds between begin and end, without the work of the observer for the events below."""
        return max(self.end - self.begin - self.overhead, 0) / 1000

    cpu_time = cpu_time_total  # the mean of one call

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent in this event itself, without the events below."""
        return max(self.end - self.begin - self.inside, 0) / 1000

    @property
    def thread_time_total(self) -> float:
        """Microseconds of the total in which the thread was running, not waiting; 0 without ``thread_time=True``."""
        return min(max(self.thread_time - self.overhead, 0) / 1000, self.cpu_time_total)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of tensors allocated minus bytes freed, including the events below."""
        return self.self_cpu_memory_usage + self.inside_allocated - self.inside_freed

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes of tensors allocated minus bytes freed, without the events below."""
        return self.allocated - self.freed

    @property
    def input_shapes(self) -> list[Any]:
        """The shape of each tensor argument, a list of shapes for a list of tensors, ``[]`` for anything else."""
        return [[list(s) for s in one] if one and isinstance(one[0], tuple) else list(one) for one in self.shapes]

    @property
    def input_dtypes(self) -> list[Any]:
        """The dtype of each tensor argument, a list of dtypes for a list of tensors, the type for anything else."""
        return [list(one) if isinstance(one, tuple) else one for one in self.dtypes]

    @property
    def fwd_thread(self) -> int | None:
        """For a node: the thread of the call that recorded it."""
        return None if self.forward is None else self.forward.thread

    @property
    def is_user_annotation(self) -> bool:
        """Whether ``record_function`` created the event."""
        return self.scope == USER

    @property
    def time_range(self) -> TimeRange:
        """Begin and end in microseconds."""
        return TimeRange(self.begin / 1000, self.end / 1000)

    def __repr__(self) -> str:
        linked = f", sequence_nr={self.sequence_nr}" if self.sequence_nr >= 0 else ""
        return f"<event {self.name!r}, {self.cpu_time_total:.1f} us{linked}>"


class Recorder:
    """The events of one ``profile()``, collected from any thread until it is closed."""

    def __init__(self, *, shapes: bool, stack: bool, thread_time: bool) -> None:
        self.events: list[Event] = []
        self.threads: dict[int, tuple[int, str]] = {}
        self.shapes = shapes
        self.stack = stack
        self.thread_time = thread_time
        self.open = True


class Recording:
    """The active recorders of a context, the outermost first. Immutable, like all local state."""

    __slots__ = ("ledger", "recorders", "shapes", "stack", "thread_time")

    def __init__(self, recorders: tuple[Recorder, ...], ledger: Any) -> None:
        self.recorders = recorders
        self.ledger = ledger
        self.shapes = any(r.shapes for r in recorders)
        self.stack = any(r.stack for r in recorders)
        self.thread_time = any(r.thread_time for r in recorders)

    def start(self, name: str, scope: int, values: Iterable[Any] = ()) -> Event:
        """Begin an event in this thread; ``values`` are the arguments."""
        entered = now()
        thread = _thread()
        parent = get_event()
        while parent is not None and (parent.done or parent.thread != thread):
            parent = parent.cpu_parent
        event = Event(name, scope, parent, thread, entered)
        for recorder in self.recorders:
            if thread not in recorder.threads:
                found = threading.current_thread()
                recorder.threads[thread] = (found.native_id or thread, found.name)
        if self.stack:
            event.stack = _callers()
        if self.shapes:
            described = [_described(value) for value in values]
            event.shapes, event.dtypes = tuple([s for s, _ in described]), tuple([d for _, d in described])
        try:
            set_event(event)
            if self.thread_time:
                event.thread_time = -thread_time_ns()
            event.begin = now()
        except BaseException:  # Note [Interrupts]
            set_event(parent)
            raise
        return event

    def finish(self, event: Event, ended: int) -> None:
        """End an event at the given time (Note [Time of the observer]).

        The caller sets the event to ``event.cpu_parent`` in ``finally``, in case of an interrupt here.
        """
        if self.thread_time:
            event.thread_time += thread_time_ns()
        event.end = ended
        event.done = True
        found = get_event()
        while found is not None and found.done:  # also events that began later and were ended out of order
            found = found.cpu_parent
        set_event(found)
        for recorder in self.recorders:
            if recorder.open:
                recorder.events.append(event)
        parent = event.cpu_parent
        if parent is not None and not parent.done:
            parent.inside_allocated += event.allocated + event.inside_allocated
            parent.inside_freed += event.freed + event.inside_freed
            passed = now() - event.entered
            parent.inside += passed
            parent.overhead += passed - (ended - event.begin) + event.overhead


_recording: Final[ContextVar[Recording | None]] = ContextVar("tenkey_profiler", default=None)
get_recording = _recording.get
set_recording = _recording.set
_event: Final[ContextVar[Event | None]] = ContextVar("tenkey_profiler_event", default=None)
get_event = _event.get
set_event = _event.set


def active_recording() -> Recording | None:
    """Return the recording of this context; None if all its profiles have ended, as in a copy kept by a thread."""
    recording = get_recording()
    return recording if recording is not None and any(r.open for r in recording.recorders) else None


def _callers(limit: int = 8) -> list[str]:
    """Return ``file(line): function`` for the callers outside this package, the innermost first."""
    found: list[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(found) < limit:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE, "<")):
            found.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return found


_dtype_name: Final = cache(str)


def _described(value: Any) -> tuple[Any, Any]:
    """Return shape and dtype of a tensor, tuples of these for a list of tensors, ``()`` and the type otherwise."""
    if isinstance(value, Tensor):
        return value.shape, _dtype_name(value.dtype)
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        items = [_described(item) if isinstance(item, Tensor) else ((), "") for item in value]
        return tuple([shape for shape, _ in items]), tuple([dtype for _, dtype in items])
    return (), "" if value is None else type(value).__name__


def _node_of(value: Any) -> Any:
    """Return the node that recorded a tensor, or the first of several tensors; None for leaves."""
    if isinstance(value, (list, tuple)):
        return next((node for node in map(_node_of, value) if node is not None), None)
    if not isinstance(value, Tensor) or not value._word & REQUIRES_GRAD or value._autograd is None:
        return None
    node = (value._autograd.edge or (None, 0))[0]
    return None if node is None or node.sequence_nr == _LAST else node


def _link(event: Event, node: Any) -> None:
    """Note which node a call recorded, so that the run of the node can refer to its event.

    The node keeps the innermost call; the calls around it get the same sequence number.
    """
    if node is not None:
        made = node.__dict__.setdefault("_forward_event", event)
        if made.id >= event.id:  # otherwise the node was there before the call
            event.sequence_nr = node.sequence_nr


def _observing(operator: Operator, word: int) -> Callable[..., Any]:
    """Return the kernel of the key ``Profiler`` for an operator and a word (Note [How a profiler sees calls])."""
    below = word_below(word, KEY)
    cache, plain, mutable = operator.cache, operator.name, operator.schema.is_mutable
    in_level = bool(word & DispatchKey.Batched.mask)

    def run(*args: Any, **kwargs: Any) -> Any:
        recording = active_recording()
        if recording is None:
            return cache[below](*args, **kwargs)
        name = plain
        if in_level:
            level = innermost((*args, *kwargs.values()))
            if level is not None:
                name = f"{level.name}({plain})"
        before = _node_of(args) if mutable else None
        event = recording.start(name, OPERATOR, (*args, *kwargs.values()))
        try:
            try:
                result = cache[below](*args, **kwargs)
            except BaseException as error:
                ended = now()
                event.error = type(error).__name__
                recording.finish(event, ended)
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
            recording.finish(event, ended)
            return result
        finally:
            set_event(event.cpu_parent)

    return run


def observed(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``run(task, buffer)``, with which the engine runs nodes, so that each node is an event.

    Accumulators count the references to a gradient, so no gradient is referenced from here while the node runs.
    """

    def step(task: Any, buffer: list[Any]) -> Any:
        recording = active_recording()
        if recording is None:
            return run(task, buffer)
        _, grads, node, _ = buffer
        event = recording.start(node.name(), BACKWARD, grads if isinstance(grads, (list, tuple)) else [grads])
        del grads
        if node.sequence_nr != _LAST:
            event.sequence_nr = node.sequence_nr
        event.forward = node.__dict__.get("_forward_event")
        try:
            return run(task, buffer)
        except BaseException as error:
            event.error = type(error).__name__
            raise
        finally:
            try:
                recording.finish(event, now())
            finally:
                set_event(event.cpu_parent)

    return step


def observe_function(name: str, values: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """Call ``run()``, which applies a ``Function`` and returns the result and the node, as an event."""
    recording = active_recording()
    if recording is None:
        return run()[0]
    event = recording.start(name, OPERATOR, values)
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
        try:
            recording.finish(event, ended)
        finally:
            set_event(event.cpu_parent)
    return result


def install_observer(registry: Any) -> None:
    """Register the fallback of the key."""
    registry.fallback(Kernel(_observing, KEY, boxed=True, origin="generated", specialize=_observing))
