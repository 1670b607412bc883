"""The context of a ``Function`` and of a custom operator: what a call hands to its backward, and its node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ...core.tensor import Tensor
from ...ops.builtin.creation import zeros
from ..engine.input_buffer import GradientTypeError
from ..grad_mode import is_grad_enabled
from ..saved_tensors.hooks import active_hooks
from ..saved_tensors.raw import RawSavedTensor
from ..saved_tensors.saved import FREED, Saved, SavedOutput, SavedTensor, refuse_to_save
from ..tape.node import Node, TensorMeta
from .saved_intermediates import guarded, positions_of_intermediates, restored

__all__ = ["NO_BACKWARD", "UNSET", "Call", "Context"]

NO_BACKWARD: Final = (
    "[{node}] has no backward: define a staticmethod backward(ctx, *grad_outputs). (You must implement either the "
    "backward or vjp method.)"
)
_NOT_TENSORS: Final = (
    "[{node}] {call} takes tensors and None, got {got}: it can only save variables, but argument {index} is "
    "of type {got}; keep other values on ctx itself."
)
_RESERVED: Final = (
    "[{node}] the context has {names} for purposes of its own (it is the node of the graph): keep your value under "
    "another name, such as ctx.my_{first}."
)


class _Unset:
    """The value of what a call sets last; None would not do, which may be a note of the user's."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "not set"


UNSET: Final = _Unset()


class Context(Node):
    """What ``forward`` hands to ``backward``; also the node of the call.

    Tensors go through ``save_for_backward``; other values may be attributes.

    >>> import tenkey as tk
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
    A tensor without a storage was never changed in place, by Note [Views share a version counter]: its version is 0.
    Where all that is saved are such tensors, and none is an output, the tuple that the user gave is what is kept; a
    tensor that has a storage at unpacking must still be at version 0. Guarded by
    ``tests/autograd/function/test_function_saved.py::test_a_modified_saved_tensor_is_found``.
    """

    runs_on_undefined = True
    _function: Any = None  # the Function, once it is called
    _saved: tuple[Any, ...] | None = ()  # None: they were let go of
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
        """Keep inputs or outputs for ``backward``, with a check that nobody changes them in between."""
        for tensor in tensors:
            if tensor.__class__ is not Tensor and tensor is not None and not isinstance(tensor, Tensor):
                raise self._not_tensors("save_for_backward", tensors)
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``jvp``, which finds them in ``saved_tensors``."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise self._not_tensors("save_for_forward", tensors)
        self._for_forward = tensors

    def _not_tensors(self, call: str, given: tuple[Any, ...]) -> TypeError:
        index, bad = next((i, x) for i, x in enumerate(given) if x is not None and not isinstance(x, Tensor))
        return TypeError(_NOT_TENSORS.format(node=self.name(), call=call, got=type(bad).__name__, index=index))

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that were saved, in order."""
        if self._intermediates and is_grad_enabled():
            return guarded(self, self._unpacked(), self._intermediates)
        return self._unpacked()

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
            yield f"saved_tensors[{nr}]", _as_saved(one)

    @property
    def _released(self) -> bool:  # type: ignore[override]
        """Whether the saved tensors were freed."""
        return self._saved is None

    @property
    def _raw_saved_tensors(self) -> tuple[RawSavedTensor, ...]:
        """Handles of the tensors given to ``save_for_backward``."""
        if self._saved is None:
            raise RuntimeError(FREED.format(node=self.name()))
        own: Any = self
        own._saved = saved = [_as_saved(one) for one in self._saved]  # a list: the handles replace its items
        return tuple([RawSavedTensor(self, f"saved_tensors[{nr}]", saved, nr) for nr in range(len(saved))])

    def _pack(self) -> None:
        """Let the active hooks pack the saved tensors (Note [Hooks on saved tensors])."""
        stack = active_hooks()
        if stack:
            self._saved = tuple([one and one.packed(stack, self, name) for name, one in self._kept_values()])

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that ``forward`` changed these inputs in place."""
        self._dirty = self._marked("mark_dirty", tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that no gradient flows through these outputs."""
        self._not_differentiable = self._marked("mark_non_differentiable", tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for what has no gradient, and ``jvp`` for tangents."""
        if value is not True and value is not False:
            raise TypeError(
                f"[{self.name()}] set_materialize_grads expected a bool, got {value!r}: pass True or False."
            )
        self._materialize = value

    def _marked(self, call: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise GradientTypeError(
                    f"[{self.name()}] {call} only accepts variable arguments, but got {type(tensor).__name__}: pass "
                    f"the tensors themselves, {call}(a, b)."
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
        """Turn what ``forward`` saved into saved variables."""
        to_save = self._to_save
        found = positions_of_intermediates(to_save, inputs, outputs)
        if found:
            self._intermediates = found
        refuse_to_save(self.name(), to_save)
        self._to_save = ()
        for tensor in to_save:
            if tensor is None or tensor._storage is not None:
                break
            for out in outputs:
                if out is tensor:
                    break
            else:
                continue
            break
        else:
            self._saved = to_save
            return
        made: list[Any] = []
        for tensor in to_save:
            nr = next((i for i, out in enumerate(outputs) if out is tensor), None)
            made.append(None if tensor is None else SavedTensor(tensor) if nr is None else SavedOutput(tensor, nr))
        self._saved = tuple(made)

    def taken(self) -> set[str]:
        """The names that the user keeps something under."""
        return set(self.__dict__)

    def describe(self, outputs: Sequence[Any], *, listed: bool = False) -> None:
        """Note shape, dtype and device of the outputs, without touching what the user keeps under these names."""
        taken = self.taken()
        if not _RESERVED_NAMES.isdisjoint(taken):
            names = sorted(_RESERVED_NAMES.intersection(taken))
            raise RuntimeError(_RESERVED.format(node=type(self).name(self), names=", ".join(names), first=names[0]))
        listed = len(outputs) != 1 or not isinstance(outputs[0], Tensor) or not _OUTPUT_NAMES.isdisjoint(taken)
        if listed:
            own: Any = self
            for name in _OUTPUT_NAMES:
                if getattr(own, name) is UNSET:
                    setattr(own, name, None)
        super().describe(outputs, listed=listed)

    def release(self) -> None:
        """Let go of the saved tensors."""
        if self._saved:
            self._saved = None

    def fill(self, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Zeros for the outputs without a gradient, unless that was switched off."""
        if not self._materialize:
            return grads
        for grad in grads:
            if grad is None:
                break
        else:
            return grads
        metas = self.outputs if self.outputs is not None else (TensorMeta(self.shape, self.dtype, self.device),)  # type: ignore[arg-type]
        return tuple(
            [
                zeros(m.shape, dtype=m.dtype, device=m.device) if g is None and m is not None else g
                for g, m in zip(grads, metas)
            ]
        )

    def apply(self, *grads: Tensor | None) -> Any:
        """The gradients of the arguments that are tensors."""
        function = self._function
        for grad in grads:
            if grad is None:
                if not self._materialize and not any(g is not None for g in grads):
                    return (None,) * len(self.next_edges)
                grads = self.fill(grads)
                break
        formula = function.vjp or function.backward  # ``vjp`` is another name for it
        if formula is function._missing_backward:
            raise NotImplementedError(NO_BACKWARD.format(node=self.name()))
        results = formula(self, *grads)
        if results.__class__ is not tuple:
            results = results if isinstance(results, tuple) else (results,)
        count = len(self.needs_input_grad)
        if len(results) != count:
            if len(results) > count and all(r is None for r in results[count:]):
                results = results[:count]
            else:
                raise RuntimeError(
                    f"[{self.name()}] returned an incorrect number of gradients (expected {count}, "
                    f"got {len(results)}): one for each argument of forward, None where there is none."
                )
        positions = self._input_positions
        if len(positions) == count:
            return results
        for index, result in enumerate(results):
            if result is not None and index not in positions:
                raise RuntimeError(
                    f"[{self.name()}] returned a gradient different than None at position {index + 1}, but the "
                    f"corresponding forward input was not a Variable: return None for the argument {index}, which is "
                    "no tensor."
                )
        return tuple([results[i] for i in positions])

    device: Any = None


def _as_saved(one: Any) -> Saved | None:
    if not isinstance(one, Tensor):
        return one  # type: ignore[no-any-return]
    saved = SavedTensor(one)
    saved.version = 0  # Note [Saved as they are]
    return saved


class Call(Context):
    """The context of a call of a Function; each Function has a subclass of its own, which knows it.

    What every call sets are slots, so that the dict of a context holds the notes of the user alone, and is not made
    where there are none.
    """

    __slots__ = (
        "_input_positions",
        "_saved",
        "_to_save",
        "_word",
        "device",
        "dtype",
        "needs_input_grad",
        "next_edges",
        "sequence_nr",
        "shape",
        "topological_nr",
    )

    def taken(self) -> set[str]:
        """The names that the user keeps something under; what is to be set has these values until then."""
        return super().taken() | {name for name, value in _SET_LAST.items() if getattr(self, name) is not value}


_SET_LAST: Final = {
    "device": UNSET, "dtype": UNSET, "shape": UNSET, "next_edges": None, "sequence_nr": None, "topological_nr": None
}  # fmt: skip
_OUTPUT_NAMES: Final = frozenset(("shape", "dtype", "device"))  # common notes of users: not needed beside ``outputs``
_RESERVED_NAMES: Final = (
    frozenset(name for name in dir(Context) if not name.startswith("_")) - _OUTPUT_NAMES - {"needs_input_grad"}
)
