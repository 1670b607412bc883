"""``tk.autograd.profile`` and ``record_function``: which calls run, how often, how long, and how much memory they use.

Note [How a profiler sees calls] explains the origin of the events, Note [Time of the observer] their cost.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any, Self

from .._util.context_decorator import decorate
from ..dispatch.local_state import enter, leave
from .averages import Averages, EventList, FunctionAverage
from .observer import (
    PROFILER,
    USER,
    Event,
    Recorder,
    Recording,
    active_recording,
    get_event,
    get_recording,
    set_event,
    set_recording,
)

if TYPE_CHECKING:
    from .memory import Ledger, MemoryRecord

__all__ = ["Event", "profile", "record_function"]


class profile:
    """Record every operator call and every node of a backward in a ``with`` block.

    Args: enabled: False turns the profiler off; record_shapes: record the shapes and dtypes of arguments;
    profile_memory: record the bytes of tensors that operators allocate and free (Note [Whose memory]); with_stack:
    record the program lines of each call; thread_time: also record how long the thread was running, as opposed to
    waiting. Times are those of ``time.perf_counter_ns``, without the work of the profiler itself.

    The profile covers this thread or asyncio task, tasks that it starts, and threads that run in a copy of its context
    (``contextvars.copy_context().run``), including calls inside composite operators, backward formulas, hooks and
    recomputations. Under ``vmap`` and forward mode it records both the call on the wrapped tensors, as
    ``vmap(tk::add)``, and the resulting calls. Profiles nest: the inner one records its own block, the outer one
    everything.

    >>> w = tk.ones((3, 2), dtype=tk.float32).requires_grad_()
    >>> with tk.autograd.profile(record_shapes=True) as prof:
    ...     with tk.autograd.record_function("model"):
    ...         loss = tk.sum(tk.tanh(tk.ones((4, 3), dtype=tk.float32) @ w))
    ...     loss.backward()
    >>> averages = prof.key_averages()
    >>> [(row.key, row.count) for row in averages if row.key in ("model", "tk::tanh", "TanhBackward")]
    [('model', 1), ('tk::tanh', 1), ('TanhBackward', 1)]
    >>> table = averages.table(sort_by="self_cpu_time_total", row_limit=5)

    A call and the node that it recorded share a sequence number, and the node refers to the call:

    >>> node = next(event for event in prof.events() if event.name == "TanhBackward")
    >>> call = next(event for event in prof.events() if event.name == "tk::tanh")
    >>> node.sequence_nr == call.sequence_nr, node.forward is call, call.input_shapes
    (True, True, [[4, 2]])
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        thread_time: bool = False,
    ) -> None:
        self.enabled = bool(enabled)
        self.record_shapes = bool(record_shapes)
        self.profile_memory = bool(profile_memory)
        self.with_stack = bool(with_stack)
        self.thread_time = bool(thread_time)
        self._recorder = Recorder(shapes=self.record_shapes, stack=self.with_stack, thread_time=self.thread_time)
        self._ledger: Ledger | None = None
        self._first_record = 0
        self._records: list[MemoryRecord] = []
        self._begin = self._end = 0
        self._events: EventList | None = None
        self._entered = False

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError(
                "[profile] a profile runs once, and its `with` block was entered before: create another profile()."
            )
        self._entered = True
        if self.enabled:
            outer = get_recording()
            others = () if outer is None else tuple([r for r in outer.recorders if r.open])
            ledger = None if outer is None or not others else outer.ledger
            self._owns_ledger = self.profile_memory and ledger is None
            if self._owns_ledger:
                from .memory import Ledger  # needed with profile_memory=True only

                ledger = Ledger()
            self._ledger = ledger if self.profile_memory else None
            self._first_record = 0 if ledger is None else len(ledger.records)
            try:
                set_recording(Recording((*others, self._recorder), ledger))
                self._begin = now()
                enter(self, include=PROFILER)
            except BaseException:  # Note [Interrupts]
                self._finish()
                raise
        return self

    def __exit__(self, *error: object) -> None:
        if self.enabled:
            try:
                self._finish()
            except BaseException:  # Note [Interrupts]
                self._finish()
                raise

    def _finish(self) -> None:
        self._recorder.open = False
        self._end = now()
        leave(self)
        found = get_recording()
        if found is not None and self._recorder in found.recorders:
            rest = tuple([r for r in found.recorders if r is not self._recorder])
            kept = None if self._ledger is not None and self._owns_ledger else found.ledger
            set_recording(Recording(rest, kept) if rest else None)
            if not rest:
                set_event(None)  # a region whose end was interrupted
        if self._ledger is not None:
            self._records = self._ledger.records[self._first_record :]
            if self._owns_ledger:
                self._ledger.close()
            self._ledger = None

    # ---- results

    def events(self) -> EventList:
        """Return all events, in the order of their start."""
        self._check_finished("events()")
        if self._events is None:
            asked = {"memory": self.profile_memory, "thread": self.thread_time}
            self._events = EventList(self._recorder.events, frozenset(name for name, on in asked.items() if on))
        return self._events

    function_events = property(events)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """Return one row for each name; with ``group_by_input_shape``, for each name and argument shapes.

        ``group_by_stack_n`` also separates calls from different places in the program, by that many callers.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionAverage:
        """Return the sum of all events as one row."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The self times of all events, in microseconds."""
        return self.events().self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """Return ``key_averages().table(…)``."""
        return self.key_averages().table(sort_by, row_limit, **options)

    def memory_timeline(self) -> list[MemoryRecord]:
        """Return every allocation and release of tensor memory, in chronological order."""
        self._check_finished("memory_timeline()")
        if not self.profile_memory:
            raise RuntimeError("[profile] memory was not recorded: use profile(profile_memory=True).")
        return list(self._records)

    def export_chrome_trace(self, path: Any) -> None:
        """Write the trace as JSON in the Trace Event Format, which Perfetto and ``chrome://tracing`` read.

        Threads are tracks; an arrow leads from the call that recorded a node to the run of the node; memory, if
        recorded, is a counter. A file whose name ends in ``.gz`` is compressed. The file is replaced in one step.

        >>> import json, tempfile
        >>> from pathlib import Path
        >>> with tk.autograd.profile() as prof:
        ...     _ = tk.ones(3) + 1
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     prof.export_chrome_trace(f"{folder}/trace.json")
        ...     events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
        >>> [event["name"] for event in events if event["ph"] == "X"]
        ['tk::ones', 'tk::add']
        """
        from .chrome_trace import write_chrome_trace

        events = self.events()
        write_chrome_trace(path, events, self._recorder.threads, self._records, self._begin, self._end)

    def export_memory_timeline(self, path: Any, device: str | None = None) -> None:
        """Write each change of tensor memory: time in microseconds, change, total, and the responsible event.

        ``path`` ends in ``.json`` (a list of objects), ``.json.gz`` or ``.csv``; ``device`` selects one device.
        """
        from .chrome_trace import write_memory_timeline

        write_memory_timeline(path, self.memory_timeline(), self._begin, device)

    @property
    def _is_unfinished(self) -> bool:
        return self._recorder.open and self.enabled

    def _check_finished(self, what: str) -> None:
        if self._is_unfinished:
            raise RuntimeError(f"[profile] {what} is known when the profile has ended: call it after the `with` block.")

    def __str__(self) -> str:
        return "<unfinished profile>" if self._is_unfinished else str(self.events())

    def __repr__(self) -> str:
        state = "unfinished" if self._is_unfinished else f"{len(self._recorder.events)} events"
        return f"<profile: {state}>"


class record_function:
    """Name a region of the program for the profiler: a context manager and decorator. ``args`` is a note.

    Without a profiler it costs almost nothing. Each call of a decorated coroutine function is one event, which includes
    waiting time; each step of a decorated generator function is one event.

    >>> @tk.autograd.record_function("double")
    ... def double(x):
    ...     return x * 2
    >>> with tk.autograd.profile() as prof:
    ...     _ = double(tk.ones(2))
    >>> [event.name for event in prof.events()]
    ['tk::ones', 'double', 'tk::multiply']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(
                f"[record_function] the name of a region is a str, got {name!r} of type {type(name).__name__}."
            )
        self.name = name
        self.args = args
        self._open: dict[int, Recording] = {}  # by event: several threads may have entered one object

    def __enter__(self) -> Self:
        recording = active_recording()
        if recording is not None:
            event = recording.start(self.name, USER)
            event.args = self.args
            self._open[event.id] = recording
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        try:
            self._end(kind, now())
        except BaseException:  # Note [Interrupts]
            self._end(kind, now())
            raise

    def _end(self, kind: type[BaseException] | None, ended: int) -> None:
        if self._open:
            own = get_event()
            while own is not None and own.id not in self._open:
                own = own.cpu_parent
            if own is None:  # entered in another context, like a generator that is closed elsewhere
                return
            if kind is not None:
                own.error = kind.__name__
            self._open.pop(own.id).finish(own, ended)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate ``function``: each call is a region."""
        given: Any = function
        if not callable(given) or isinstance(given, type):
            raise TypeError(
                f"[record_function] decorates a function, got {function!r}: write @record_function({self.name!r}) "
                "above a def."
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_later(*args: Any, **kwargs: Any) -> Any:
                with record_function(self.name, self.args):
                    return await function(*args, **kwargs)

            return run_later
        return decorate(function, lambda: record_function(self.name, self.args))  # type: ignore[no-any-return]
