"""Queues of a device and marks in them.

Note [The current stream]
~~~~~~~~~~~~~~~~~~~~~~~~~
Which stream calls use is known per thread and per task, by a context variable: a new thread begins with the default
stream of each device, and a task with what was current where it was created. ``with stream:`` makes a stream current
for its device, and this device the current one. The default stream is not the driver's null stream, which orders
itself with all others and cannot be captured, but one that tenkey creates: a *blocking* one, so that work of other
libraries in the null stream is ordered with it. All other streams are independent of both.

Note [Handles are used again]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A finalizer may run at any place, also while the driver holds its locks: it calls nothing of the driver, and puts the
handle of a stream or event that is gone on a list, from which the next one takes it. A stream that is used again still
has the work that was queued in it, which comes first. Guarded by ``tests/backends/cuda/device/test_streams.py``.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Self

from ....core.device import Device, device_types, to_device
from ...allocation.counts import calling_operator
from ...external.runtime import streams as runtime
from ...external.runtime.device_errors import error_words
from .contexts import choose, context_of, current_device, enter, forgetters
from .driver import CudaError, cu

__all__ = [
    "CaptureError", "Event", "ExternalStream", "Stream", "choose_stream", "current_stream",
    "default_stream", "device_of", "expect_reports", "forget", "index_of", "is_captured", "refuse_in_capture",
    "relaxed", "synchronize",
]  # fmt: skip

_BLOCKING: Final = 0
_INDEPENDENT: Final = 1
_WITH_TIME: Final = 0
_WITHOUT_TIME: Final = 2
_SLEEPS: Final = 1
_NOT_READY: Final = 600
_RELAXED: Final = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class CaptureError(CudaError):
    """A call during the capture of a graph that a graph cannot contain."""


class _Choice(dict[int, "Stream"]):
    """The current stream of each device, and what was current before it was made."""

    __slots__ = ("before", "device")

    def __init__(self, streams: dict[int, Stream], before: _Choice | None = None, device: int = 0) -> None:
        super().__init__(streams)
        self.before = before
        self.device = device  # the one that was current before

    def __missing__(self, device: int) -> Stream:
        return default_stream(device)


_NO_CHOICE: Final = _Choice({})  # it gets the default streams, which calls thereby find with one look-up
_choice: Final[contextvars.ContextVar[_Choice]] = contextvars.ContextVar("tenkey_cuda_streams", default=_NO_CHOICE)
_defaults: Final[dict[int, Stream]] = {}
_idle_streams: Final[dict[tuple[int, int], deque[int]]] = {}
_idle_events: Final[dict[tuple[int, int], deque[int]]] = {}
_capturing: Final[dict[int, Stream]] = {}
"""The streams that are being captured, by handle, each with the stream in which its capture began."""


def index_of(device: Device | str | int | None) -> int:
    """Return the index of a CUDA device that is given by itself, its name or its index; None is the current one.

    Raises ValueError for a device of another type.
    """
    if device is None:
        return current_device()
    if isinstance(device, bool):  # such as Event(True), where enable_timing is meant
        raise TypeError(f"[cuda] got the device {device!r}: give 'cuda', 'cuda:1' or an index, other options by name.")
    if isinstance(device, int):
        return device
    found = device if isinstance(device, Device) else to_device(device)
    if found.type != "cuda":
        raise ValueError(f"[cuda] got the device {str(found)!r}: give 'cuda', 'cuda:1' or an index.")
    return current_device() if device == "cuda" and isinstance(device, str) else found.index


class Stream(runtime.Stream):
    """A queue of a CUDA device: what is queued in it runs in order, and work in other streams at the same time.

    ``device`` is an index, a device or its name, by default the current device. A stream with a lower ``priority``, an
    int from ``cuCtxGetStreamPriorityRange``, is served first where both wait. ``with stream:`` makes it the current one
    (Note [The current stream]). Raises ValueError for a device that does not exist.

    >>> side = tk.cuda.Stream()
    >>> x = tk.ones(3, device="cuda")
    >>> side.wait_stream(tk.cuda.current_stream())
    >>> with side:
    ...     y = x + 1
    >>> tk.cuda.current_stream().wait_stream(side)
    >>> y.tolist()
    [2.0, 2.0, 2.0]
    """

    __slots__ = ("_handle", "_idle", "device", "priority")

    def __init__(self, device: Device | str | int | None = None, priority: int = 0) -> None:
        index = index_of(device)
        context_of(index)  # raises for an index out of range
        idle = _idle_streams.setdefault((index, priority), deque())
        try:
            handle = idle.popleft()
        except IndexError:
            with enter(index):
                handle = int(cu.cuStreamCreateWithPriority(_INDEPENDENT, priority))
            _all_handles.setdefault(index, []).append(handle)
        self._set(index, handle, priority, idle)

    def _set(self, device: int, handle: int, priority: int, idle: deque[int] | None) -> None:
        self.device = device
        self.priority = priority
        self._handle = handle
        self._idle = idle  # None: not ours

    def __del__(self) -> None:
        if getattr(self, "_idle", None) is not None:
            self._idle.append(self._handle)  # type: ignore[union-attr]

    @property
    def backend(self) -> Any:  # type: ignore[override]
        """The backend of the devices."""
        return to_device(f"cuda:{self.device}").backend

    @property
    def handle(self) -> int:
        """The ``CUstream`` of the driver, an int."""
        return self._handle

    @property
    def cuda_stream(self) -> int:
        """The handle under PyTorch's name."""
        return self._handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return the version of this protocol of ``cuda.core`` and the handle."""
        return 0, self._handle

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._handle == self._handle and other.device == self.device

    def __hash__(self) -> int:
        return hash(self._handle)

    def __repr__(self) -> str:
        return f"<tk.cuda.Stream {self._handle:#x} of device cuda:{self.device}>"

    def query(self) -> bool:
        """Tell whether all work in the stream is done."""
        refuse_in_capture("Stream.query", "does not wait for work that is only recorded", self)
        with enter(self.device):
            return _is_done(cu.cuStreamQuery, self._handle)

    def synchronize(self) -> None:
        """Wait until all work in the stream is done, and raise the error that a kernel has reported."""
        refuse_in_capture("Stream.synchronize", "cannot wait for work that is only recorded", self)
        with enter(self.device):
            cu.cuStreamSynchronize(self._handle)
        _raise_reported(self.device)

    def record_event(self, event: runtime.Event | None = None) -> Event:
        """Record an event, a new one without a time by default, at the present end of the stream, and return it."""
        if event is None:
            event = Event(self.device, enable_timing=False)
        if not isinstance(event, Event):
            raise TypeError(f"[Stream.record_event] needs an event of CUDA, got {type(event).__name__}.")
        event.record(self)
        return event

    def wait_event(self, event: runtime.Event) -> None:
        """Make later work in this stream wait for an event, also of another device. The caller does not wait."""
        if not isinstance(event, Event):
            event.synchronize()
        elif event._handle:
            with enter(self.device):
                cu.cuStreamWaitEvent(self._handle, event._handle, 0)
            if _capturing and event._stream is not None and event._stream._handle in _capturing:
                _capturing[self._handle] = _capturing[event._stream._handle]  # this stream joins the capture

    def wait_stream(self, stream: Stream) -> None:
        """Make later work in this stream wait for the present work in another one."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Self:
        before = _choice.get()
        made = _Choice(before if before is not _NO_CHOICE else {}, before, current_device())
        made[self.device] = self
        choose(self.device)
        _choice.set(made)
        return self

    def __exit__(self, *error: object) -> None:
        made = _choice.get()
        if made.before is not None:
            choose(made.device)
            _choice.set(made.before)

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Make the stream the current one of its device in a ``with`` block; the current device stays."""
        made = _Choice(_choice.get(), _choice.get(), current_device())
        made[self.device] = self
        token = _choice.set(made)
        try:
            yield
        finally:
            _choice.reset(token)


class ExternalStream(Stream):
    """A stream that another library has made and that it destroys: ``handle`` is its ``CUstream``, an int.

    >>> side = tk.cuda.Stream()
    >>> tk.cuda.ExternalStream(side.handle) == side
    True
    """

    __slots__ = ()

    def __init__(self, handle: int, device: Device | str | int | None = None) -> None:
        self._set(index_of(device), int(handle), 0, None)


class Event(runtime.Event):
    """A mark in a stream, whose handle is created when it is first recorded.

    ``enable_timing``: whether :meth:`elapsed_time` can be asked, which makes recording slower. ``blocking``: whether
    :meth:`synchronize` lets the core sleep. ``device``: that of the streams in which it is recorded.

    >>> begin, end = [tk.cuda.Event(enable_timing=True) for _ in range(2)]
    >>> begin.record()
    >>> x = tk.ones(3, device="cuda") + 1
    >>> end.record()
    >>> end.synchronize()
    >>> begin.elapsed_time(end) >= 0.0
    True
    """

    __slots__ = ("_flags", "_handle", "_idle", "_stream", "device")

    def __init__(
        self, device: Device | str | int | None = None, *, enable_timing: bool = False, blocking: bool = False
    ) -> None:
        self.device = index_of(device)
        self._flags = (_WITH_TIME if enable_timing else _WITHOUT_TIME) | (_SLEEPS if blocking else 0)
        self._handle = 0
        self._stream: Stream | None = None

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            self._idle.append(self._handle)

    @property
    def backend(self) -> Any:  # type: ignore[override]
        """The backend of the devices."""
        return to_device(f"cuda:{self.device}").backend

    @property
    def handle(self) -> int:
        """The ``CUevent`` of the driver, an int; 0 before the event is recorded."""
        return self._handle

    def record(self, stream: Stream | None = None) -> None:
        """Mark the present end of a stream, by default of the current one. An event can be recorded again."""
        where = current_stream(self.device) if stream is None else stream
        if where.device != self.device:
            if self._handle:
                raise ValueError(
                    f"[Event.record] the event belongs to device {self.device} and the stream to device "
                    f"{where.device}: create an event for each device."
                )
            self.device = where.device
        with enter(self.device):
            if not self._handle:
                self._idle = _idle_events.setdefault((self.device, self._flags), deque())
                try:
                    self._handle = self._idle.popleft()
                except IndexError:
                    self._handle = int(cu.cuEventCreate(self._flags))
            cu.cuEventRecord(self._handle, where._handle)
        self._stream = where  # its handle is not used again while the event is waited for

    def wait(self, stream: Stream | None = None) -> None:
        """Make later work in a stream, by default the current one, wait for the event."""
        (current_stream(self.device) if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Tell whether the work before the mark is done; true for an event that was not recorded."""
        if not self._handle:
            return True
        with enter(self.device):
            return _is_done(cu.cuEventQuery, self._handle)

    def synchronize(self) -> None:
        """Wait for the work before the mark, and raise the error that a kernel has reported."""
        if self._handle:
            if self._stream is not None:
                refuse_in_capture("Event.synchronize", "cannot wait for work that is only recorded", self._stream)
            with enter(self.device):
                cu.cuEventSynchronize(self._handle)
            _raise_reported(self.device)

    def elapsed_time(self, end: runtime.Event) -> float:
        """Return the milliseconds from this event to a later one; both are recorded and done.

        Raises RuntimeError where one was not recorded, ValueError where one was made without ``enable_timing=True``.
        """
        if not isinstance(end, Event):
            raise TypeError(f"[Event.elapsed_time] needs an event of CUDA, got {type(end).__name__}.")
        for event in (self, end):
            if event._flags & _WITHOUT_TIME:
                raise ValueError(
                    "[Event.elapsed_time] an event was made without a time: make both with "
                    "tk.cuda.Event(enable_timing=True)."
                )
            if not event._handle:
                raise RuntimeError("[Event.elapsed_time] an event was not recorded yet: call record() of both first.")
        with enter(self.device):
            try:
                return float(cu.cuEventElapsedTime(self._handle, end._handle))
            except CudaError as error:
                if error.code != _NOT_READY:
                    raise
                raise RuntimeError(
                    "[Event.elapsed_time] the work before an event is not done yet: call end.synchronize() first."
                ) from None

    def __repr__(self) -> str:
        return f"<tk.cuda.Event {self._handle:#x} of device cuda:{self.device}>"


def default_stream(device: int | None = None) -> Stream:
    """Return the stream that is current where nothing else was chosen (Note [The current stream])."""
    index = current_device() if device is None else device
    found = _defaults.get(index)
    if found is None:
        context_of(index)
        made = Stream.__new__(Stream)
        with enter(index):
            made._set(index, int(cu.cuStreamCreateWithPriority(_BLOCKING, 0)), 0, None)
        found = _NO_CHOICE[index] = _defaults.setdefault(index, made)
    return found


def current_stream(device: int | None = None) -> Stream:
    """Return the stream of a device, by default the current one, that this thread and task use."""
    return _choice.get()[current_device() if device is None else device]


def choose_stream(stream: Stream) -> None:
    """Make a stream the current one of its device, and this the current device, until the end of a ``with`` block."""
    now = _choice.get()
    made = _Choice(now, now.before, now.device)
    made[stream.device] = stream
    choose(stream.device)
    _choice.set(made)


def device_of(handle: int) -> int:
    """Return the device of a stream that is given by its handle."""
    for device, stream in _defaults.items():
        if stream._handle == handle:
            return device
    return next((device for device, handles in _all_handles.items() if handle in handles), current_device())


def synchronize(device: int = 0) -> None:
    """Wait until all work on a device is done. Streams that another thread captures are left out."""
    if _capturing:
        refuse_in_capture("synchronize", "cannot wait for work that is only recorded", current_stream(device))
        if any(stream.device == device for stream in [*_capturing.values()]):
            _synchronize_others(device)
            return
    with enter(device):
        cu.cuCtxSynchronize()


def _synchronize_others(device: int) -> None:
    """Wait for the streams of a device that are not captured: the driver refuses to wait for the device."""
    for handle in [*_handles(device)]:
        if handle not in _capturing:
            with enter(device):
                cu.cuStreamSynchronize(handle)


_all_handles: Final[dict[int, list[int]]] = {}


def _handles(device: int) -> Iterator[int]:
    if device in _defaults:
        yield _defaults[device]._handle
    yield from _all_handles.get(device, ())


def refuse_in_capture(what: str, reason: str, stream: Stream | None = None) -> None:
    """Raise CaptureError if a stream, by default the current one, is being captured.

    ``what`` names the call, ``reason`` says why a graph cannot contain it: "the graph {reason}".
    """
    if _capturing and (current_stream() if stream is None else stream)._handle in _capturing:
        raise CaptureError(
            f"[{calling_operator() or what}] is called while tk.cuda.graph captures a step, but a graph {reason}: make "
            "the call before or after the step, or give the value to the step as an argument."
        )


@contextlib.contextmanager
def relaxed() -> Iterator[None]:
    """Permit calls in a ``with`` block that a capture forbids because they may wait: those that allocate memory."""
    mode = cu.cuThreadExchangeStreamCaptureMode(_RELAXED)
    try:
        yield
    finally:
        cu.cuThreadExchangeStreamCaptureMode(mode)


def is_captured(handle: int) -> bool:
    """Tell whether the work of a stream is being captured."""
    return handle in _capturing


def forget() -> None:
    """Forget all handles: another driver was loaded."""
    known: Any
    for known in (_defaults, _NO_CHOICE, _idle_streams, _idle_events, _capturing, _all_handles):
        known.clear()
    _choice.set(_NO_CHOICE)


forgetters.append(forget)


def _is_done(ask: Any, handle: int) -> bool:
    try:
        ask(handle)
    except CudaError as error:
        if error.code == _NOT_READY:
            return False
        raise
    return True


def expect_reports(device: int) -> None:
    """Let the next wait read the error word of a device, for kernels of a graph, which run without being called."""
    if "cuda" in device_types():
        error_words(to_device(f"cuda:{device}").backend).mark_again(device)


def _raise_reported(device: int) -> None:
    """Raise the error that a kernel has stored in the error word of a device (Note [The error word])."""
    if "cuda" not in device_types():  # the layers above are not loaded, so that nothing reports
        return
    words = error_words(to_device(f"cuda:{device}").backend)
    if words.unmark(device):
        words.mark(device)  # work in other streams may still report something
        words.check(device)
