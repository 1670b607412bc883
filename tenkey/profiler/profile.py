"""``tk.autograd.profile`` and ``record_function``: what runs, how often, how long, and whose memory it is.

How events come about is Note [How a profiler sees calls]; what they cost is Note [Time of the observer].
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from time import perf_counter_ns as now
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .._util.context_decorator import decorate
from ..dispatch.local_state import enter, leave
from .observer import PROFILER, USER, Event, Recorder, Recording, get_event, get_recording, set_recording

if TYPE_CHECKING:
    from .averages import Averages, EventList
    from .memory import Ledger, MemoryRecord

__all__ = ["Event", "profile", "record_function"]


class profile:
    """Record every call of an operator and every node of a backward in a ``with`` block.

    Args: enabled: False makes the block do nothing; record_shapes: note the shapes and dtypes of arguments;
    profile_memory: note the bytes of tensors that operators allocate and free (Note [Whose memory]); with_stack: note
    where in the program each call stands; thread_time: note also how long the thread was running, as opposed to
    waiting. Times are of ``time.perf_counter_ns``, without the work of the profiler itself.

    Seen are calls in this thread or asyncio task, in tasks that it starts, and in threads that run in a copy of its
    context (``contextvars.copy_context().run``); calls inside of composite operators, backward formulas, hooks and
    recomputed parts; under ``vmap`` and forward mode both the call on the wrapped tensors, as ``vmap(tk::add)``, and
    the calls that it leads to. Profiles nest: the inner one records what runs in its own block, the outer one all.

    >>> import tenkey as tk
    >>> w = tk.ones((3, 2), dtype=tk.float32).requires_grad_()
    >>> with tk.autograd.profile(record_shapes=True) as prof:
    ...     with tk.autograd.record_function("model"):
    ...         loss = tk.sum(tk.tanh(tk.ones((4, 3), dtype=tk.float32) @ w))
    ...     loss.backward()
    >>> averages = prof.key_averages()
    >>> [(row.key, row.count) for row in averages if row.key in ("model", "tk::tanh", "TanhBackward")]
    [('model', 1), ('tk::tanh', 1), ('TanhBackward', 1)]
    >>> table = averages.table(sort_by="self_cpu_time_total", row_limit=5)

    The call and the node that it recorded have one sequence number, and the node knows the call:

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
                "[profile] a profile runs once: its `with` block was entered before. Make another profile()."
            )
        self._entered = True
        if self.enabled:
            outer = get_recording()
            others = () if outer is None else tuple([r for r in outer.recorders if r.open])
            ledger = None if outer is None or not others else outer.ledger
            self._owns_ledger = self.profile_memory and ledger is None
            if self._owns_ledger:
                from .memory import Ledger  # whoever profiles needs these modules, and nobody else

                ledger = Ledger()
            self._ledger = ledger if self.profile_memory else None
            self._first_record = 0 if ledger is None else len(ledger.records)
            set_recording(Recording((*others, self._recorder), ledger))
            enter(self, include=PROFILER)
            self._begin = now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.enabled:
            return
        self._end = now()
        self._recorder.open = False
        leave(self)
        found = get_recording()
        if found is not None and self._recorder in found.recorders:
            rest = tuple([r for r in found.recorders if r is not self._recorder])
            kept = None if self._ledger is not None and self._owns_ledger else found.ledger
            set_recording(Recording(rest, kept) if rest else None)
        if self._ledger is not None:
            self._records = self._ledger.records[self._first_record :]
            if self._owns_ledger:
                self._ledger.close()
            self._ledger = None

    # ---- what was seen

    def events(self) -> EventList:
        """All events, in the order of their beginning."""
        self._finished("events()")
        if self._events is None:
            from .averages import EventList

            self._events = EventList(self._recorder.events, self._columns())
        return self._events

    @property
    def function_events(self) -> EventList:
        """The same as ``events()``."""
        return self.events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> Averages:
        """One row for each name; with ``group_by_input_shape`` for each name and shapes of the arguments.

        ``group_by_stack_n`` also tells calls from different places in the program apart, by so many callers.
        """
        return self.events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Any:
        """All events as one row."""
        return self.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events without what runs inside of them."""
        return self.events().self_cpu_time_total

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """``key_averages().table(…)``."""
        return self.key_averages().table(sort_by, row_limit, **options)

    def memory_timeline(self) -> list[MemoryRecord]:
        """Every allocation and release of a tensor's memory, in the order of time."""
        self._finished("memory_timeline()")
        if not self.profile_memory:
            raise RuntimeError("[profile] memory was not recorded: write profile(profile_memory=True).")
        return list(self._records)

    def export_chrome_trace(self, path: Any) -> None:
        """Write the trace as JSON in the Trace Event Format, which Perfetto and ``chrome://tracing`` read.

        Threads are tracks; an arrow leads from the call that recorded a node to the run of this node; memory, where it
        was recorded, is a counter. A path that ends in ``.gz`` is compressed. The file is replaced in one step.

        >>> import json, tempfile, tenkey as tk
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
        """Write how the memory of tensors grew and shrank: time in microseconds, change, total, and whose it was.

        ``path`` ends in ``.json`` (a list of objects), ``.json.gz`` or ``.csv``; ``device`` leaves out other devices.
        """
        from .chrome_trace import write_memory_timeline

        write_memory_timeline(path, self.memory_timeline(), self._begin, device)

    def _columns(self) -> frozenset[str]:
        asked = {"memory": self.profile_memory, "thread": self.thread_time, "stack": self.with_stack}
        return frozenset(name for name, on in asked.items() if on)

    def _finished(self, what: str) -> None:
        if self._recorder.open and self.enabled:
            raise RuntimeError(f"[profile] {what} is known when the profile has ended: ask after the `with` block.")

    def __str__(self) -> str:
        return "<unfinished profile>" if self._recorder.open and self.enabled else str(self.events())

    def __repr__(self) -> str:
        state = "unfinished" if self._recorder.open and self.enabled else f"{len(self._recorder.events)} events"
        return f"<profile: {state}>"


class record_function:
    """Name a region of the program for the profiler: a context manager and a decorator. ``args`` is a note.

    Without a profiler it does next to nothing. A decorated coroutine function is one event for each call, with the time
    that it waited; a generator function one event for each step.

    >>> import tenkey as tk
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
        self._open: dict[int, tuple[Recording, Event, int]] = {}  # one object may be entered by several threads

    def __enter__(self) -> Self:
        recording = get_recording()
        if recording is not None and recording.is_on():
            entered = now()
            event = recording.start(self.name, USER)
            event.args = self.args
            self._open[event.id] = (recording, event, entered)
            event.begin = now()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = now()
        if self._open:
            own = get_event()
            while own is not None and own.id not in self._open:
                own = own.parent
            if own is None:  # entered in another context, as a generator that is closed elsewhere
                return
            recording, event, entered = self._open.pop(own.id)
            if kind is not None:
                event.error = kind.__name__
            recording.finish(event, entered, ended)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate ``function``: each call is a region."""
        given: Any = function
        if not callable(given) or isinstance(given, type):
            raise TypeError(
                f"[record_function] decorates a function, got {function!r}: write @record_function({self.name!r}) "
                "above its def."
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_later(*args: Any, **kwargs: Any) -> Any:
                with record_function(self.name, self.args):
                    return await function(*args, **kwargs)

            return run_later
        decorated: Callable[..., Any] = decorate(function, lambda: record_function(self.name, self.args))
        return decorated
