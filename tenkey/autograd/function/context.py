"""The context of a ``Function`` or custom operator: it passes values from a call to its backward, and is its node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.tensor import Tensor
from ...core.word import BFLOAT16_TRAIT, DTYPE_TRAIT, INFERENCE, REQUIRES_GRAD
from ...core.wrapper import from_scalar
from ...ops.builtin.creation import zeros
from ..engine.input_buffer import GradientTypeError
from ..grad_mode import is_grad_enabled
from ..saved_tensors.raw import RawSavedTensor
from ..saved_tensors.saved import FREED, SavedOutput, SavedTensor, as_saved, refuse_to_save
from ..saved_tensors.saved_tensor_hooks import active_hooks
from ..tape.node import SEQUENCE, Edge, Node, OutputMeta, TensorMeta, settle
from .saved_intermediates import guarded, number_of, positions_of_intermediates, restored
from .unconnected import run_recorded

__all__ = ["DIFFERENTIABLE", "NO_BACKWARD", "UNSET", "Call", "Context", "record_single"]

NO_BACKWARD: Final = (
    "[{node}] has no backward: define a staticmethod backward(ctx, *grad_outputs). (You must implement either the "
    "backward or vjp method.)"
)
DIFFERENTIABLE: Final = BFLOAT16_TRAIT | sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "fc")


class _Unset:
    """Sentinel of attributes that a call sets last; `None` is ambiguous because users may store it."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "not set"


UNSET: Final = _Unset()


class Context(Node):
    """The context that ``forward`` passes to ``backward``; also the node of the call.

    Tensors go through ``save_for_backward``; other values may be attributes.

    >>> class Scale(tk.autograd.Function):
    ...     @staticmethod
    ...     def forward(x, factor):
    ...         return x * factor
    ...
    ...     @staticmethod
    ...     def setup_context(ctx, inputs, output):
    ...         ctx.factor = inputs[1]
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return (g * ctx.factor if ctx.needs_input_grad[0] else None), None
    >>> y = Scale.apply(tk.tensor([1.0], requires_grad=True), 3.0)
    >>> isinstance(y.grad_fn, tk.autograd.function.Context), y.grad_fn.factor
    (True, 3.0)

    Note [Saved as they are]
    ~~~~~~~~~~~~~~~~~~~~~~~~
    A tensor without a storage was never changed in place (Note [Views share a version counter]): its version is 0. If
    all saved tensors are of this kind, and none is an output, the user's tuple itself is kept; a tensor that has a
    storage when it is unpacked must still be at version 0. Guarded by
    ``tests/autograd/function/test_function_saved.py::test_a_modified_saved_tensor_is_found``.
    """

    runs_on_undefined = True
    _function: Any = None  # the Function, set by a call
    _saved: tuple[Any, ...] | None = ()  # None if freed
    _to_save: tuple[Tensor | None, ...] = ()
    _for_forward: tuple[Tensor | None, ...] | None = None
    _dirty: tuple[Tensor, ...] = ()
    _not_differentiable: tuple[Tensor, ...] = ()
    _materialize = True
    needs_input_grad: tuple[bool, ...] = ()
    _input_positions: tuple[int, ...] = ()
    _intermediates: tuple[int, ...] = ()  # Note [Saved intermediates]
    _aside: dict[str, Any] | None = None  # Note [Outputs kept on the context]

    def name(self) -> str:
        """The name of the function, with ``Backward``."""
        return f"{self._function.__name__}Backward"

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``backward``, which raises if they were changed in the meantime."""
        for tensor in tensors:
            if tensor.__class__ is not Tensor and tensor is not None and not isinstance(tensor, _SAVED):
                raise self._wrong_tensor("save_for_backward", tensors)
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``jvp``, which finds them in ``saved_tensors``."""
        if not all(tensor is None or isinstance(tensor, _SAVED) for tensor in tensors):
            raise self._wrong_tensor("save_for_forward", tensors)
        self._for_forward = tensors

    def _wrong_tensor(self, call: str, given: tuple[Any, ...]) -> TypeError:
        index, bad = next((i, x) for i, x in enumerate(given) if x is not None and not isinstance(x, _SAVED))
        got = type(bad).__name__
        return TypeError(
            f"[{self.name()}] {call} takes tensors and None, got {got}: it can only save variables, but argument "
            f"{index} is of type {got}; store other values as attributes of ctx."
        )

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors, in order."""
        tensors = self._unpacked()
        return guarded(self, tensors, self._intermediates) if self._intermediates and is_grad_enabled() else tensors

    def _unpacked(self) -> tuple[Tensor | None, ...]:
        saved = self._saved
        if saved is None:
            raise RuntimeError(FREED.format(node=self.name()))
        if self._to_save and not saved:
            return self._to_save
        for one in saved:
            if one.__class__ is not Tensor or one._storage is not None:
                break
        else:
            return saved  # Note [Saved as they are]: none was changed
        return tuple([None if one is None else one.unpack(self, name) for name, one in self._kept_values()])

    def _kept_values(self) -> Iterator[tuple[str, Any]]:
        for nr, one in enumerate(self._saved or self._to_save):
            yield f"saved_tensors[{nr}]", as_saved(one, self)

    @property
    def _released(self) -> bool:  # type: ignore[override]
        """Whether the saved tensors were freed."""
        return self._saved is None

    @property
    def _raw_saved_tensors(self) -> tuple[RawSavedTensor, ...]:
        """Handles of the tensors passed to ``save_for_backward``."""
        if self._saved is None:
            raise RuntimeError(FREED.format(node=self.name()))
        own: Any = self
        own._saved = saved = [as_saved(one, self) for one in self._saved]  # a list: the handles replace its items
        return tuple([RawSavedTensor(self, f"saved_tensors[{nr}]", saved, nr) for nr in range(len(saved))])

    def _pack(self) -> None:
        """Let the active hooks pack the saved tensors (Note [Hooks on saved tensors])."""
        stack = active_hooks()
        if stack:
            self._saved = tuple([one and one.packed(stack, self, name) for name, one in self._kept_values()])

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare that ``forward`` changed these inputs in place."""
        self._dirty = self._marked("mark_dirty", tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare that no gradient flows through these outputs."""
        self._not_differentiable = self._marked("mark_non_differentiable", tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether missing gradients in ``backward`` and tangents in ``jvp`` are zeros (default) or None."""
        if value is not True and value is not False:
            raise TypeError(
                f"[{self.name()}] set_materialize_grads expected a bool, got {value!r}: pass True or False."
            )
        self._materialize = value

    def _marked(self, call: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        for tensor in tensors:
            if not isinstance(tensor, _SAVED):
                raise GradientTypeError(
                    f"[{self.name()}] {call} only accepts variable arguments, but got {type(tensor).__name__}: pass "
                    f"the tensors themselves, as in {call}(a, b)."
                )
        return tensors

    def __getattr__(self, name: str) -> Any:
        aside = self._aside
        if aside is not None and name in aside:
            return restored(self, name, aside[name])
        raise AttributeError(
            f"[{self.name()}] the context has no attribute {name!r}: forward or setup_context did not set it.",
            name=name,
            obj=self,
        )

    def freeze(self, inputs: Any, outputs: list[Any]) -> None:
        """Turn the tensors saved by ``forward`` into saved values."""
        to_save = tuple([from_scalar(tensor, inputs) for tensor in self._to_save])
        found = positions_of_intermediates(to_save, inputs, outputs)
        if found:
            self._intermediates = found
        refuse_to_save(self.name(), to_save)
        self._to_save = ()
        for tensor in to_save:
            if tensor is None or tensor._storage is not None or number_of(tensor, outputs) >= 0:
                break
        else:  # Note [Saved as they are]
            self._saved = to_save
            return
        made: list[Any] = []
        for tensor in to_save:
            nr = number_of(tensor, outputs)
            made.append(None if tensor is None else SavedTensor.of(tensor) if nr < 0 else SavedOutput.of(tensor, nr))
        self._saved = tuple(made)

    def taken(self) -> set[str]:
        """Return the names of user attributes."""
        return set(self.__dict__)

    def describe(self, outputs: Sequence[Any], *, listed: bool = False) -> None:
        """Record shape, dtype and device of the outputs without touching user attributes of these names."""
        taken = self.taken()
        names = sorted(_RESERVED_NAMES & taken)
        if names:
            raise RuntimeError(
                f"[{type(self).name(self)}] the context has {', '.join(names)} for its own purposes (it is the node of "
                f"the graph): store your value under another name, such as ctx.my_{names[0]}."
            )
        listed = len(outputs) != 1 or not isinstance(outputs[0], Tensor) or not _OUTPUT_NAMES.isdisjoint(taken)
        if listed:
            own: Any = self
            for name in _OUTPUT_NAMES:
                if getattr(own, name) is UNSET:
                    setattr(own, name, None)
        super().describe(outputs, listed=listed)

    def release(self) -> None:
        """Free the saved tensors."""
        if self._saved:
            self._saved = None

    def fill(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Return the gradients with zeros for missing ones, unless that was switched off."""
        if not self._materialize:
            return grads
        for grad in grads:
            if grad is None:
                break
        else:
            return grads
        metas = self.outputs if self.outputs is not None else (TensorMeta(self.shape, self.dtype, self.device),)  # type: ignore[arg-type]
        pairs = zip(grads, metas)
        return tuple([zeros(m.shape, dtype=m.dtype, device=m.device) if g is None and m else g for g, m in pairs])

    def apply(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the tensor arguments."""
        function = self._function
        for grad in grads:
            if grad is None:
                if not self._materialize and all(g is None for g in grads):
                    return (None,) * len(self.next_edges)
                grads = self.fill(grads)
                break
        formula = function.vjp or function.backward  # two names for one method
        if formula is function._missing_backward:
            raise NotImplementedError(NO_BACKWARD.format(node=self.name()))
        results = run_recorded(self, formula, grads) if is_grad_enabled() else formula(self, *grads)
        if results.__class__ is not tuple:
            results = results if isinstance(results, tuple) else (results,)
        count = len(self.needs_input_grad)
        if len(results) != count:
            if len(results) < count or any(r is not None for r in results[count:]):
                raise RuntimeError(
                    f"[{self.name()}] returned an incorrect number of gradients (expected {count}, "
                    f"got {len(results)}): one for each argument of forward, None if there is none."
                )
            results = results[:count]
        positions = self._input_positions
        if len(positions) == count:
            return results
        for index, result in enumerate(results):
            if result is not None and index not in positions:
                raise RuntimeError(
                    f"[{self.name()}] returned a gradient different than None at position {index + 1}, but the "
                    f"corresponding forward input was not a Variable: return None for the argument {index}, which is "
                    "not a tensor."
                )
        return tuple([results[i] for i in positions])

    device: Any = None


class Call(Context):
    """The context of a call of a Function; each Function has its own subclass, which refers to it.

    The attributes that every call sets are slots, so the dict of a context holds only user attributes, and does
    not exist if there are none.
    """

    __slots__ = (
        "_input_positions",
        "_saved",
        "_to_save",
        "_topological_nr",
        "_word",
        "device",
        "dtype",
        "needs_input_grad",
        "next_edges",
        "sequence_nr",
        "shape",
    )  # fmt: skip

    def taken(self) -> set[str]:
        """Return the names of user attributes; slots that a call sets last have these values until then."""
        return super().taken() | {name for name, value in _SET_LAST.items() if getattr(self, name) is not value}


def record_single(context: Context, edges: tuple[Edge, ...], inputs: Sequence[Any], output: Any) -> None:
    """Record a call without user attributes that returned one new floating tensor.

    This is ``record_node``, ``freeze`` and ``set_history`` in one frame, for calls of Functions and custom operators.
    """
    own: Any = context
    data = output._data
    own.shape, own.dtype = data.shape, data.dtype
    own.sequence_nr = SEQUENCE.next()
    own.next_edges = edges
    saved = own._to_save
    if saved:
        first = saved[0]
        if len(saved) == 1 and first is inputs[0] and first._storage is None and not first._word & INFERENCE:
            own._saved = saved  # Note [Saved as they are]
            own._to_save = ()
        else:
            own.freeze(inputs, [output])
    meta = output._autograd = OutputMeta()
    meta.node = own
    meta.edge = (own, 0)
    word = output._word = output._word | REQUIRES_GRAD
    if data.__class__ is np.ndarray:
        own.device = CPU
        own._word = word
    else:
        settle(own, output)


_SAVED: Final = (Tensor, np.generic)  # NumPy's scalars are results of tenkey.numpy, and become tensors
_SET_LAST: Final = {
    "device": UNSET, "dtype": UNSET, "shape": UNSET, "next_edges": None, "sequence_nr": None,
}  # fmt: skip
_OUTPUT_NAMES: Final = frozenset(("shape", "dtype", "device"))  # users' common names: ``outputs`` replaces them
_RESERVED_NAMES: Final = (
    frozenset(name for name in dir(Context) if not name.startswith("_")) - _OUTPUT_NAMES - {"needs_input_grad"}
)
