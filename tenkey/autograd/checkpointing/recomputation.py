"""The slots that ``checkpoint`` puts into the graph, and the recomputation that fills them.

Note [Checkpoints]
~~~~~~~~~~~~~~~~~~
A checkpoint is a pair of hooks on saved tensors (Note [Hooks on saved tensors]). While the function runs, the hook
replaces each saved tensor with a *slot*: a number, and a note of the operator and the kind of tensor. When backward
needs the first of them, the function runs again, and the tensors that the hook now sees fill the slots in the same
order; the run stops as soon as the last slot is filled. A slot releases its tensor when it is read.

One backward (one ``GraphTask`` of the engine) recomputes a checkpoint once, whichever of its threads asks first; the
others wait (Note [Waiting for a recomputation]). The next backward recomputes it, and so does another one that runs at
the same time in another thread: backwards never wait for each other, because one could be waited for by the function.
Tensors in slots that are never read are freed with the task. A formula that reads a slot a second time gets the same
tensor while it is alive; otherwise it is recomputed.

The inputs are saved with the hooks that are active around the checkpoint. In a checkpoint inside another one they are
slots of the outer one: its function runs again first, up to the arguments of the inner call. Slots hold no tensors, so
tensors inside belong to the inner checkpoint only. During a recomputation only its own hook is active.

A recomputation repeats the random numbers of the first run with generators of its own, which take the place of the
originals in its context, so that other threads can draw meanwhile. It restores the bits of the local state (autocast,
for example) of the first run; recording is on, since the saved tensors were recorded. Levels of transforms that were
open in the first run and have ended are open again, because the closure of the function may hold their tensors. All
this is set in a copy of the context, so an interrupt leaves nothing of it behind. Guarded by
``tests/autograd/checkpointing/test_checkpoint.py``.

Note [Waiting for a recomputation]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Each recomputation is a *turn*, and the turns that a thread is in the middle of are in its context (``_under_way``). A
thread that is about to wait for the turn of another thread enters this in a table (``_waits``), from which follows
which turns cannot end before which others. If those include one that the thread itself is in the middle of, it does not
wait but recomputes for itself. A thread of an accelerator that waits runs those nodes in its queue that the turn needs,
directly or through others. A function that needs a result of its own checkpoint, directly or by way of another one,
would be recomputed without end: this is an error that names all of them. Guarded by
``tests/autograd/checkpointing/test_checkpoint_threads.py``.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, ExitStack, nullcontext
from contextvars import Context, ContextVar, copy_context
from threading import get_ident
from typing import Any, Final, NamedTuple

import numpy as np

from ..._util.locks import new_lock
from ...core.device import Device
from ...core.random.generator import Generator, default_generator, replace_generators
from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor, storage_of
from ...core.tree import flatten, tree_map
from ...core.word import REQUIRES_GRAD
from ...core.wrapper import Wrapper, open_levels
from ...dispatch.keys import DispatchKey
from ...dispatch.local_state import LocalState, current_state, get_state, make_state, set_state
from ...dispatch.modes import DispatchMode
from ...profiler.observer import PROFILER
from ..anomaly import ANOMALY
from ..engine.device_threads import acquire
from ..engine.graph_task import current_task
from ..saved_tensors.saved import alone, unpack
from ..saved_tensors.saved_tensor_hooks import HOOKED, Saver, save
from ..tape.node import Node

__all__ = ["CheckpointError", "Frame", "generators_of", "keep", "logging", "name_of"]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function differs from the first."""


class _Note(NamedTuple):
    """The properties of a saved tensor that two runs must agree on."""

    operator: str
    what: str
    shape: tuple[int, ...]
    dtype: np.dtype
    device: Device

    def __str__(self) -> str:
        where = f"{self.what} of {self.operator}"
        return f"{where} with shape {self.shape}, dtype {self.dtype}, device {str(self.device)!r}"


def _noted(tensor: Tensor, node: Node, what: str) -> _Note:
    return _Note(node.operator_name or node.name(), what, tensor.shape, tensor.dtype, tensor.device)


class _Slot:
    """A placeholder for a tensor in the graph."""

    __slots__ = ("__weakref__", "frame", "number")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number


class _Stop(BaseException):
    """All slots are filled. Not an Exception, so that the function does not catch it by accident."""

    def __init__(self, run: _Run) -> None:
        self.run = run


class _Run:
    """One recomputation, with the tensors for the slots."""

    __slots__ = ("count", "extra", "given", "log", "values")

    def __init__(self) -> None:
        self.values: dict[int, Tensor] = {}
        self.given: dict[int, tuple[weakref.ref[Storage], int]] = {}  # memory and word of tensors already taken
        self.count = 0
        self.extra: _Note | None = None  # the first tensor that was not saved in the forward pass
        self.log: list[str] = []

    def take(self, number: int) -> Tensor | None:
        """Return the tensor of a slot, and release it."""
        value = self.values.pop(number, None)
        if value is not None:
            storage = storage_of(value)
            if storage.buffer is value._data and not value._word & REQUIRES_GRAD:
                self.given[number] = (weakref.ref(storage), value._word)
            return value
        if number not in self.given:
            return None
        reference, word = self.given[number]
        known = reference()
        if known is not None:
            value = make_tensor(known.buffer, word)
            value._storage = known
        return value


class _Refilling(Saver):
    """The hook of a recomputation. Its results are needed only if the function itself runs backward."""

    def __init__(self, frame: Frame, run: _Run) -> None:
        self._frame = frame
        self._run = run

    def pack(self, tensor: Tensor, node: Node, what: str) -> Tensor:
        frame, run = self._frame, self._run
        value = tensor
        if tensor._autograd is not None and tensor._autograd.node is not None:  # it would keep this run's graph alive
            value = alone(tensor)
        number = run.count
        run.count += 1
        if number >= len(frame.notes):
            if run.extra is None:
                run.extra = _noted(tensor, node, what)
            return value
        if frame.checks:
            note = _noted(tensor, node, what)
            if note != frame.notes[number]:
                raise frame.differs(number, note, run)
        if frame.slots[number]() is not None:
            run.values[number] = value
        if run.count == len(frame.notes) and frame.early_stop:
            raise _Stop(run)
        return value

    unpack = staticmethod(lambda tensor: tensor)


# the node that saves the inputs, as named in error messages
_INPUTS: Final[Any] = type("checkpoint", (Node,), {"operator_name": "checkpoint"})()


class _Input:
    """A tensor argument."""

    __slots__ = ("saved", "what")

    def __init__(self, tensor: Tensor, what: str) -> None:
        self.saved = save(tensor, _INPUTS, what)
        self.what = what


def keep(value: Any, what: str) -> Any:
    """Return an argument as the checkpoint holds it: tensors are saved with the active hooks."""
    return _Input(value, what) if isinstance(value, Tensor) and not isinstance(value, Wrapper) else value


class _Turn:
    """A recomputation of a checkpoint for one backward, on which one thread works at a time."""

    __slots__ = ("frame", "lock", "run")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.lock = threading.RLock()
        self.run: _Run | None = None  # when it is complete


class _Wait:
    """A thread that waits for a turn."""

    __slots__ = ("holds", "thread", "turn")

    def __init__(self, turn: _Turn) -> None:
        self.thread = get_ident()
        self.holds: set[_Turn] = set(_under_way.get())
        for outer in list(_waits):  # a thread of an accelerator can begin to wait while it waits
            if outer.thread == self.thread:
                self.holds |= outer.holds
        self.turn = turn


_under_way: Final[ContextVar[tuple[_Turn, ...]]] = ContextVar("tenkey_recomputations", default=())
_waits: Final[dict[_Wait, None]] = {}
_waits_lock: Final = new_lock()
_CROWD: Final = 200  # more threads than any program has reason to recompute one checkpoint in at once


def _needed_by(turn: _Turn) -> set[_Turn]:
    """Return the turn, and all turns that threads wait for without which it cannot end."""
    found = {turn}
    waits = list(_waits)
    for _ in waits:
        found |= {wait.turn for wait in waits if not found.isdisjoint(wait.holds)}
    return found


def _helps(turn: _Turn, context: Context) -> bool:
    """Return whether a backward with this context was called in a recomputation without which the turn cannot end."""
    within: tuple[_Turn, ...] | None = context.get(_under_way)
    return within is not None and not _needed_by(turn).isdisjoint(within)


def _is_possible(wait: _Wait) -> bool:
    """Enter a wait in the table, unless the turn cannot end before this thread goes on."""
    with _waits_lock:
        if not _needed_by(wait.turn).isdisjoint(wait.holds):
            return False
        _waits[wait] = None
        return True


class Frame(Saver):
    """One call of ``checkpoint``, and the hook of its forward pass."""

    unpack = staticmethod(lambda slot: slot.frame.value(slot.number))

    def __init__(self, fn: Callable[..., Any], *, checks: bool, early_stop: bool, debug: bool) -> None:
        self.fn = fn
        self.checks = checks
        self.early_stop = early_stop
        self.debug = debug
        self.notes: list[_Note] = []
        self.slots: list[weakref.ref[_Slot]] = []
        self.arguments: Any = None
        self.context: Any = None  # the context around a recomputation
        self.generators: list[tuple[Generator, Any]] = []
        self.state = current_state()
        self.levels = open_levels()
        self.complete = False  # the forward pass is over
        self.log: list[str] = []
        self.lock = new_lock(waits=False)  # a level can be open in one thread
        self.turns: weakref.WeakKeyDictionary[Any, _Turn] = weakref.WeakKeyDictionary()
        self.threads: list[int] = []  # those that are recomputing it

    def pack(self, tensor: Tensor, node: Node, what: str) -> _Slot:
        """Return a new slot, and note the properties of the tensor."""
        slot = _Slot(self, len(self.notes))
        self.notes.append(_noted(tensor, node, what))
        self.slots.append(weakref.ref(slot))
        return slot

    def value(self, number: int) -> Tensor:
        """Return the tensor of a slot; run the function if this backward has not done so yet."""
        task = current_task.get()
        if task is None:  # node._saved_x is read outside a backward: nothing is kept
            return self.taken(self.run_again(_Turn(self)), number)
        turn = self.turns.get(task) or self.turns.setdefault(task, _Turn(self))
        run = turn.run
        found = None if run is None else run.take(number)
        return self._value(turn, number) if found is None else found

    def _value(self, turn: _Turn, number: int) -> Tensor:
        """Return the tensor of a slot when it is this thread's turn."""
        wait = _Wait(turn)
        try:  # Note [Interrupts of backward]
            if not _is_possible(wait):
                return self.taken(self.run_again(turn), number)
            acquire(turn.lock, functools.partial(_helps, turn))
            try:
                _waits.pop(wait, None)
                found = None if turn.run is None else turn.run.take(number)  # another thread may have completed it
                if found is None:
                    turn.run = self.run_again(turn)
                    found = self.taken(turn.run, number)
                return found
            finally:
                turn.lock.release()
        finally:
            _waits.pop(wait, None)

    def taken(self, run: _Run, number: int) -> Tensor:
        """Return the tensor of a slot from a run; raise CheckpointError if it has none."""
        found = run.take(number)
        if found is None:
            raise self.lacks(number, run)
        return found

    def run_again(self, turn: _Turn) -> _Run:
        """Call the function again, and fill the slots with the tensors that it saves."""
        frames = [one.frame for one in _under_way.get()]
        if self in frames:
            raise self.endless(frames[frames.index(self) :])
        run, thread = _Run(), get_ident()
        try:
            self.threads.append(thread)
            if len(self.threads) > _CROWD:
                raise self.endless([self])
            copy_context().run(self._call, turn, run)  # what it sets there ends with it, even after an interrupt
        except _Stop as stop:
            if stop.run is not run:
                raise
        finally:
            self.threads.remove(thread)
        if self.checks and self.complete and run.count != len(self.notes):
            raise self.lacks(run.count, run)
        return run

    def _call(self, turn: _Turn, run: _Run) -> None:
        """Call the function in the state of the forward pass."""
        _under_way.set((*_under_way.get(), turn))
        args, kwargs = tree_map(
            lambda x: unpack(x.saved, _INPUTS, x.what) if x.__class__ is _Input else x, self.arguments, bare=True
        )
        set_state(_state_of_recomputation(self.state, get_state(), _Refilling(self, run)))
        if self.generators:
            replace_generators(self.generators)
        with self.lock if self.levels else nullcontext(), ExitStack() as stack:
            for level in self.levels:
                if not level.is_open:
                    stack.enter_context(level)
            stack.enter_context(logging(run.log, self.debug))
            fn, context = self.fn, self.context
            if isinstance(context, ContextDecorator):  # of @contextmanager: one entry, but many as a decorator
                fn = context(lambda *args, **kwargs: self.fn(*args, **kwargs))
            elif context is not None:
                stack.enter_context(context)
            fn(*args, **kwargs)

    def differs(self, number: int, note: _Note, run: _Run) -> CheckpointError:
        """Return the error of a tensor that does not fit its slot."""
        was, count = self.notes[number], len(self.notes)
        return CheckpointError(
            f"[checkpoint] {name_of(self.fn)}: Recomputed values for the following tensors have different metadata "
            f"than during the forward pass. Saved tensor {number + 1} of {count}: in forward {was}, in the "
            f"recomputation {note}. The function must be deterministic: it must not depend on changed state (a "
            "counter, a flag, a random generator that is not among its arguments). determinism_check='none' disables "
            f"this check.{self.logged(run)}"
        )

    def lacks(self, number: int, run: _Run) -> CheckpointError:
        """Return the error of a run that saved fewer or more tensors than the first."""
        which = (
            f"The first missing one was {self.notes[number]}."
            if run.extra is None
            else f"The first additional one was {run.extra}."
        )
        return CheckpointError(
            f"[checkpoint] {name_of(self.fn)}: A different number of tensors was saved during the original forward "
            f"and recomputation. Number of tensors saved during forward: {len(self.notes)}. Number of tensors saved "
            f"during recomputation: {run.count}. {which}{self.logged(run)}"
        )

    def endless(self, frames: list[Frame]) -> CheckpointError:
        """Return the error of functions whose recomputation needs their own results."""
        names = " needs that of ".join([name_of(frame.fn) for frame in [*frames, self]])
        return CheckpointError(
            f"[checkpoint] the recomputation of {names}, without end: a checkpointed function must not run a backward "
            "(or wait for a thread that runs one) through the result of its own checkpoint."
        )

    def logged(self, run: _Run) -> str:
        """Return the operators of both runs as text, with ``debug=True``."""
        if not self.debug:
            return " debug=True lists the operators of both runs."
        lines = ["", "Operators of the forward pass:", *self.log, "Operators of the recomputation:", *run.log]
        return "\n".join(lines)


_OBSERVERS: Final = DispatchKey.Mode.mask | ANOMALY | PROFILER


def _state_of_recomputation(forward: LocalState, found: LocalState | None, saver: Saver) -> LocalState | None:
    """Return the state of the forward pass with recording on, and with the observers that are active in backward."""
    now = found or LocalState()
    include = (forward.include & ~_OBSERVERS) | (now.include & _OBSERVERS) | HOOKED
    values = [value for value in now.values if not isinstance(value, Saver)]
    return make_state(include, forward.exclude & ~REQUIRES_GRAD, now.modes, (*values, saver))


def name_of(fn: Any) -> str:
    """Return the name of a function for error messages."""
    return str(getattr(fn, "__qualname__", None) or type(fn).__qualname__)


# ---- random numbers


def generators_of(values: Any, fn: Any) -> Iterator[Generator]:
    """Yield the global generator, those among the arguments, and those in the closure of the function."""
    yield default_generator()
    held = [values]
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # a variable without a value
            continue
    yield from (leaf for leaf in flatten(held) if isinstance(leaf, Generator))


# ---- debugging


class _Log(DispatchMode):
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __tk_dispatch__(self, op: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shown = [_shown(value) for value in args] + [f"{name}={_shown(value)}" for name, value in kwargs.items()]
        self.lines.append(f"  {op}({', '.join(shown)})")
        return NotImplemented


def _shown(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, Tensor) else repr(value)


def logging(lines: list[str], debug: bool) -> AbstractContextManager[Any]:
    """Return a context that logs the operators that are called, if ``debug``."""
    return _Log(lines) if debug else nullcontext()
