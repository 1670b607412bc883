"""Steps of a program that are captured once and launched again as a whole.

Note [What a graph keeps]
~~~~~~~~~~~~~~~~~~~~~~~~~
A graph consists of launches and copies with fixed addresses. Its own intermediate values and results lie in a pool of
memory that serves nothing else. Everything from outside that the step reads or writes, such as parameters, has to stay
where it was: a dispatch mode notes the memory of every tensor that an operator gets during the capture, and the graph
keeps what is not its own. Numbers are part of the launches, so a step that draws random numbers would draw the same
ones again, and is refused. Guarded by ``tests/backends/cuda/device/test_graphs.py``.

Note [One call, one step]
~~~~~~~~~~~~~~~~~~~~~~~~~
The first call for arguments of some kind runs the step as it is: kernels are compiled, libraries are initialized, and
what the step creates at its first run (the state of an optimizer) exists afterwards. The second call captures it, which
computes nothing, and launches the graph; every later call only launches it. So each call does the step exactly once,
and a program with graphs computes what it computes without them. Guarded by
``tests/backends/cuda/device/test_graphs.py``.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ....core.random.generator import note_draws
from ....core.storage import StridedArray
from ....core.tensor import Tensor, storage_of
from ....core.tree import flatten, tensors_in, unflatten
from ....core.word import REQUIRES_GRAD
from ....dispatch.local_state import silently
from ....dispatch.modes import DispatchMode
from ....dispatch.registry import registry
from ..memory.allocator import PrivatePool
from .contexts import enter
from .driver import CudaError, cu
from .streams import CaptureError, Stream, _capturing, current_stream, expect_reports

__all__ = ["Recording", "StepGraph"]

_THREAD_LOCAL: Final = 1  # calls of other threads are not restricted
_gone: Final[deque[int]] = deque()  # graphs to be destroyed: finalizers do not call the driver


class Recording:
    """The work of one stream, captured by ``with recording.of(stream):`` and launched by :meth:`launch`."""

    def __init__(self) -> None:
        self.pool = PrivatePool()
        self.device = 0
        self._graph = 0
        self.last: Stream | None = None  # where it was launched last
        self._end = weakref.finalize(self, _let_go, self.pool, None)
        self._end.atexit = False

    @contextlib.contextmanager
    def of(self, stream: Stream) -> Iterator[None]:
        """Capture what the block puts into a stream, which is the current one in it; nothing is done yet.

        Raises CaptureError where the block does what a graph cannot contain, and what the block raises.
        """
        from cuda.bindings import driver

        handle, self.device = stream.handle, stream.device
        _destroy_gone()
        with enter(self.device), self.pool.active(), stream:
            cu.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode(_THREAD_LOCAL))
            _capturing[handle] = stream
            try:
                yield
            except BaseException:
                with contextlib.suppress(CudaError):  # the first error is the one to report
                    cu.cuGraphDestroy(cu.cuStreamEndCapture(handle))
                raise
            finally:
                for joined in [key for key, first in _capturing.items() if first is stream]:
                    del _capturing[joined]
            try:
                graph = cu.cuStreamEndCapture(handle)
            except CudaError as error:
                raise CaptureError(
                    "[graph] the step did what a graph cannot contain, or left work in another stream that its own one "
                    f"does not wait for: {error}",
                    error.code,
                    error.name,
                ) from error
            try:
                self._graph = int(cu.cuGraphInstantiate(graph, 0))
            finally:
                cu.cuGraphDestroy(graph)
        self._end.detach()
        self._end = weakref.finalize(self, _let_go, self.pool, self._graph)
        self._end.atexit = False

    def follow(self, stream: Stream) -> None:
        """Make later work in a stream wait for the last launch and what its stream did then with the results."""
        if self.last is not None and self.last is not stream:
            stream.wait_stream(self.last)

    def launch(self, stream: Stream) -> None:
        """Do the captured work once more, in a stream. The driver lets launches follow one another."""
        with enter(self.device):
            cu.cuGraphLaunch(self._graph, stream.handle)
        expect_reports(self.device)
        self.last = stream


def _let_go(pool: PrivatePool, graph: int | None) -> None:
    """Release what a recording held; called by a finalizer."""
    pool.release()
    if graph:
        _gone.append(graph)


def _destroy_gone() -> None:
    while _gone:
        with contextlib.suppress(IndexError, CudaError):
            cu.cuGraphExecDestroy(_gone.popleft())


class _Kept(DispatchMode):
    """Notes the memory that operators get from outside a capture (Note [What a graph keeps])."""

    def __init__(self, pool: PrivatePool) -> None:
        self.windows: dict[int, StridedArray] = {}
        self._pool = pool

    def __tk_dispatch__(self, op: Any, types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        for tensor in tensors_in((args, kwargs)):
            data = tensor._data
            if data.__class__ is StridedArray and data.owner is not None and id(data.owner) not in self.windows:
                segment = getattr(data.buffer, "segment", None)
                if getattr(getattr(segment, "arena", None), "pool", None) is not self._pool:
                    self.windows[id(data.owner)] = data
        return NotImplemented


class _Captured(NamedTuple):
    """A recording, the tensors into which arguments are copied, those in which results appear, and what is kept."""

    recording: Recording
    inputs: list[Tensor]
    tree: Any
    outputs: list[Any]
    kept: list[StridedArray]


class StepGraph:
    """A function whose calls are captured and launched again: see ``tk.cuda.graph``.

    >>> isinstance(tk.cuda.graph(lambda x: x + 1), tk.cuda.StepGraph)
    True
    """

    def __init__(self, function: Callable[..., Any], *, copy_results: bool = True) -> None:
        self._function = function
        self._copies = copy_results
        self._captured: dict[Any, _Captured | None] = {}
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do the step: Note [One call, one step]."""
        given = flatten((args, kwargs))
        key = self._key(given)
        if key not in self._captured:
            result = self._first_run(args, kwargs)
            self._captured[key] = None
            return result
        tensors = [x for x in given if isinstance(x, Tensor)]
        stream = current_stream(next((x.device.index for x in tensors if x.device.type == "cuda"), None))
        captured = self._captured[key]
        if captured is None:
            captured = self._captured[key] = self._capture(args, kwargs, given, stream)
        captured.recording.follow(stream)
        for static, x in zip(captured.inputs, tensors, strict=True):
            silently(registry.find("tk::copy_").call, static, x)
        if captured.recording.last is not stream:
            for window in captured.kept:
                window.device.backend.record_stream(window.buffer, stream)
        captured.recording.launch(stream)
        results = captured.outputs
        if self._copies:
            results = [silently(_clone, x) if isinstance(x, Tensor) else x for x in results]
        return unflatten(captured.tree, results)

    def reset(self) -> None:
        """Forget what was captured, and release its memory: the next call is a first one."""
        self._captured.clear()

    def _key(self, given: list[Any]) -> Any:
        key: list[Any] = []
        for x in given:
            if isinstance(x, Tensor):
                if x._word & REQUIRES_GRAD:
                    raise ValueError(
                        f"[graph] an argument of {self._name} requires a gradient, which cannot pass through a graph: "
                        "compute loss and gradient inside the step, with parameters that it takes from its closure."
                    )
                key.append((x.shape, x.dtype, x.device, x.strides))
            else:
                try:
                    hash(x)
                except TypeError:
                    raise TypeError(
                        f"[graph] got {x!r} of type {type(x).__name__} for {self._name}: an argument is a tensor, or a "
                        "value that can be hashed, of which a graph is captured for each value."
                    ) from None
                key.append((x.__class__, x))
        return tuple(key)

    @property
    def _name(self) -> str:
        return str(getattr(self._function, "__qualname__", self._function))

    def _first_run(self, args: Any, kwargs: Any) -> Any:
        drawn: dict[Any, Any] = {}
        restore = note_draws(drawn)
        try:
            result = self._function(*args, **kwargs)
        finally:
            restore()
        if drawn:
            raise CaptureError(
                f"[graph] {self._name} draws random numbers, and a graph would draw the same ones at each launch: draw "
                "them outside, and give them to the step as an argument."
            )
        for x in tensors_in(result):
            if x._word & REQUIRES_GRAD:
                raise ValueError(
                    f"[graph] a result of {self._name} has a history, which a graph does not record again: call "
                    "backward() inside the step, and return x.detach()."
                )
        return result

    def _capture(self, args: Any, kwargs: Any, given: list[Any], stream: Stream) -> _Captured:
        inputs = [silently(_clone, x) if isinstance(x, Tensor) else x for x in given]
        statics = [x for x in inputs if isinstance(x, Tensor)]
        versions = [storage_of(x).version for x in statics]
        static_args, static_kwargs = unflatten((args, kwargs), inputs)
        recording = Recording()
        own = Stream(stream.device)
        own.wait_stream(stream)
        kept = _Kept(recording.pool)
        with recording.of(own), kept:
            result = self._function(*static_args, **static_kwargs)
        if [storage_of(x).version for x in statics] != versions:
            raise CaptureError(
                f"[graph] {self._name} changes an argument in place, and a graph works on a copy of it: let the step "
                "take the tensor from its closure, or return the new values."
            )
        windows = [*kept.windows.values(), *[x._data for x in statics if x._data.__class__ is StridedArray]]
        return _Captured(recording, statics, result, flatten(result), windows)


def _clone(x: Tensor) -> Tensor:
    return registry.find("tk::clone").call(x)  # type: ignore[no-any-return]
