"""One run of a function that is differentiated: aliases of its inputs, its output, and where its graph leads.

Note [What is recorded]
~~~~~~~~~~~~~~~~~~~~~~~
A derivative is recorded only if its graph leads to a leaf whose gradient may still be requested: a leaf of the user, or
an input of an enclosing run whose function has not returned. The inputs of a finished run (a pullback, a
linearization) do not count. Aliases therefore carry the number of their run. Guarded by
``tests/transforms/test_derivatives.py::test_results_have_no_history_of_their_own``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from ..autograd.engine.functional import grad, private_gradients
from ..autograd.tape.node import AutogradMeta, mark_leaf, walk
from ..core.dtypes.names import default_complex, default_float
from ..core.tensor import Tensor, from_host, storage_of, with_class
from ..core.tree import flatten, map_tensors, tree_map, unflatten
from ..core.word import DTYPE_TRAIT, INFERENCE, REQUIRES_GRAD
from ..core.wrapper import (
    Wrapper,
    classed,
    from_scalar,
    is_kept,
    open_levels,
    refreshed,
    stand_in,
    wrapper_classes,
)
from ..dispatch.local_state import current_state, get_state
from ..ops.aliases import fresh, recording, repeated, unrecorded
from ..ops.builtin.creation import zeros_like

__all__ = [
    "Run", "as_inputs", "bare", "check_function", "check_outputs", "described", "differentiable", "in_class",
    "positions_of", "refuse_input", "refuse_output", "split_aux", "with_chosen",
]  # fmt: skip


def described(value: Any) -> str:
    """Describe a value in an error: shape and dtype of a tensor, or the type."""
    return f"shape {value.shape}, dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def differentiable(x: Any) -> bool:
    """Return whether ``x`` is a floating or complex tensor."""
    return isinstance(x, Tensor) and x.dtype.kind in "fcV"


def as_inputs(chosen: Sequence[Any]) -> list[Any]:
    """Return the arguments with tensors for NumPy's arrays of floating numbers.

    In an argument that holds neither tensors nor arrays, Python's floats and complex numbers become tensors too; beside
    tensors they are constants.
    """
    return [
        part if part.__class__ is Tensor or all(isinstance(x, Tensor) for x in flatten(part)) else _converted(part)
        for part in chosen
    ]


def _converted(part: Any) -> Any:
    numbers = not any(isinstance(x, (Tensor, np.ndarray)) for x in flatten(part))

    def convert(x: Any) -> Any:
        if isinstance(x, (np.ndarray, np.inexact)):
            return from_host(np.asarray(x)) if np.asarray(x).dtype in DTYPE_TRAIT and x.dtype.kind in "fcV" else x
        if numbers and isinstance(x, (float, complex)):
            return from_host(np.asarray(x, default_float() if isinstance(x, float) else default_complex()))
        return x

    return tree_map(convert, part)


def check_function(call: str, fn: Any) -> None:
    """Raise TypeError if ``fn`` cannot be called."""
    if not callable(fn):
        raise TypeError(f"[{call}] the first argument is a function, got {type(fn).__name__}.")


def check_outputs(call: str, ends: Sequence[Any]) -> None:
    """Raise TypeError if a leaf of the output is not a tensor."""
    for end in ends:
        if not isinstance(end, Tensor):
            refuse_output(call, end)


def refuse_output(call: str, got: Any) -> NoReturn:
    """Raise TypeError for an output that has no derivative."""
    raise TypeError(f"[{call}] the function must return floating or complex tensors, got {described(got)}.")


def refuse_input(call: str, index: int, got: Any) -> NoReturn:
    """Raise TypeError for an argument that has no derivative."""
    raise TypeError(
        f"[{call}] argument {index} holds no floating or complex tensor to differentiate by, got {described(got)}: "
        "give tensors, arrays or floats, or choose others with argnums."
    )


def with_chosen(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], positions: Sequence[int]
) -> Callable[[Sequence[Any]], Any]:
    """Return ``fn`` as a function of a list of the arguments at ``positions``; the others are fixed."""

    def call(chosen: Sequence[Any]) -> Any:
        given = list(args)
        for i, value in zip(positions, chosen, strict=True):
            given[i] = value
        return fn(*given, **kwargs)

    return call


# ---- inputs


def _alias(x: Tensor, run: int) -> Tensor:
    """Return a new tensor on the same memory, with the history of ``x``, that requires a gradient, for a run."""
    state, levels, kind = get_state(), open_levels(), x.__class__
    if state is None and not levels and not x._word & _UNUSUAL and (kind is Tensor or is_kept(kind)):
        made = Tensor.detach(x)
        made._word |= REQUIRES_GRAD
        meta = made._autograd = AutogradMeta()
        meta.run = run
    else:
        made = fresh(repeated(x, levels) if levels else x, REQUIRES_GRAD & current_state().keep)
        mark_leaf(made, run)
    return with_class(kind, made) if made.__class__ is Tensor is not kind and is_kept(kind) else classed(made, kind)


def in_class(x: Any, kind: type[Tensor]) -> Any:
    """Return a plain tensor in a class without a handler, which aliases and gradients have like their inputs.

    A wrapper gets the class of wrappers that stands for it.
    """
    if x.__class__ is Wrapper:
        return x if kind is Tensor else classed(stand_in(x), kind)
    if kind in wrapper_classes:
        kind = wrapper_classes[kind].stands_for
    if kind is Tensor or x.__class__ is not Tensor or not is_kept(kind):
        return x
    if x._word & REQUIRES_GRAD:
        return x.as_subclass(kind)
    storage_of(x)  # which the new handle shares
    return with_class(kind, x)


def bare(x: Tensor) -> list[Tensor]:
    """Return the plain tensors inside nested wrappers."""
    if isinstance(x, Wrapper):
        return bare(x._value) + (bare(x._extra) if isinstance(x._extra, Tensor) else [])
    return [x]


_UNUSUAL: Final = REQUIRES_GRAD | INFERENCE
_open: Final[set[int]] = set()  # the runs whose functions have not returned yet
_numbers: Final = itertools.count(1)


def _leads_elsewhere(outputs: Sequence[Tensor]) -> bool:
    """Return whether the graph of the outputs ends in a leaf that counts: see Note [What is recorded]."""
    nodes: list[Any] = []
    for tensor in outputs:
        for plain in bare(tensor):
            meta = plain._autograd
            if meta is not None and meta.node is not None:
                nodes.append(meta.node)
            elif plain._word & REQUIRES_GRAD and (meta is None or not meta.run or meta.run in _open):
                return True
    for node in walk(*nodes):
        leaf = None if node.next_edges else getattr(node, "variable", None)
        if leaf is not None and (not leaf._autograd.run or leaf._autograd.run in _open):
            return True
    return False


def positions_of(call: str, argnums: Any, args: tuple[Any, ...]) -> list[int]:
    """Return the arguments that ``argnums`` names, counted from the first; ValueError if it does not name any."""
    count = len(args)
    if argnums.__class__ is int and -count <= argnums < count:
        return [argnums % count]
    listed = [argnums] if isinstance(argnums, int) else argnums
    valid = isinstance(listed, (tuple, list)) and listed and not isinstance(argnums, bool)
    if valid and all(isinstance(i, int) and -count <= i < count for i in listed):
        positions = [i % count for i in listed]
        if len(set(positions)) == len(positions):
            return positions
    raise ValueError(f"[{call}] argnums={argnums!r}: give an int or a tuple of ints that count the {count} arguments.")


class Run:
    """One run of a function on aliases of the inputs that it is differentiated by."""

    def __init__(self, call: str, chosen: list[Any], fn: Callable[[list[Any]], Any]) -> None:
        chosen = as_inputs(chosen)
        self.recording = bool(current_state().keep & REQUIRES_GRAD)
        self.number = number = next(_numbers)
        self.structure = chosen
        leaves = flatten(chosen)
        self.is_input = is_input = [differentiable(leaf) for leaf in leaves]
        if not all(is_input):
            for index, part in enumerate(chosen):
                if not any(differentiable(leaf) for leaf in flatten(part)):
                    refuse_input(call, index, part)
        aliases = [_alias(leaf, number) if own else leaf for leaf, own in zip(leaves, is_input)]
        self.inputs = aliases if all(is_input) else [alias for alias, own in zip(aliases, is_input) if own]
        try:
            _open.add(number)
            restore = recording()
            try:
                self.output = fn(unflatten(chosen, aliases))
            finally:
                restore()
            if self.output.__class__ is not Tensor:
                for leaf in flatten(self.output):
                    if isinstance(leaf, Wrapper):
                        refreshed(leaf)
        finally:
            _open.discard(number)

    def own(self, tensors: Sequence[Tensor]) -> None:
        """Mark leaves as belonging to this run."""
        for tensor in tensors:
            mark_leaf(tensor, self.number)

    def elsewhere(self, outputs: Sequence[Tensor]) -> bool:
        """Return whether the graph leads beyond the inputs, so that the derivative must be recorded too."""
        return self.recording and _leads_elsewhere(outputs)

    def scalar_gradients(self, value: Tensor) -> tuple[list[Any], bool]:
        """Return the gradients of a scalar in the structure of the chosen inputs, and whether they are recorded."""
        found = private_gradients(value, self.inputs, self._records)
        if found is not None:
            return self._structured(found[0]), found[1]
        create = self.elsewhere([value])
        return self.gradients([value], [None], create=create, keep=create), create

    def _records(self, reached: Sequence[Tensor]) -> bool:
        """Return whether the graph leads beyond these inputs: only that of an input with a history can."""
        histories = [x for x in reached if x._autograd.node is not None]
        return bool(histories) and self.elsewhere(histories)

    def gradients(self, outputs: list[Tensor], seeds: list[Any], *, create: bool, keep: bool) -> list[Any]:
        """Return the gradients in the structure of the chosen inputs; None for leaves without one."""
        pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o._word & REQUIRES_GRAD]
        if pairs:
            ends, given = [o for o, _ in pairs], [s for _, s in pairs]
            options: dict[str, Any] = {"create_graph": create, "retain_graph": keep or create}
            restore = recording(recorded=create)
            try:
                found = grad(ends, self.inputs, given, materialize_grads=True, **options)
            finally:
                restore()
        else:
            found = [zeros_like(x.detach()) for x in self.inputs]
        return self._structured(found)

    def _structured(self, found: Sequence[Any]) -> list[Any]:
        """Return what belongs to the inputs in the structure of the chosen arguments; None for other leaves."""
        remaining = iter([in_class(g, x.__class__) for x, g in zip(self.inputs, found)])
        return unflatten(self.structure, [next(remaining) if own else None for own in self.is_input])  # type: ignore[no-any-return]

    def free(self, value: Any, *, keeps: bool) -> Any:
        """Return the output without a history that leads only to the aliases."""
        if keeps:
            return value
        return unrecorded(value) if value.__class__ is Tensor else map_tensors(unrecorded, value)


def split_aux(call: str, result: Any, has_aux: bool, inputs: Sequence[Any]) -> tuple[Any, Any]:
    """Return the output of a function of these inputs, with tensors for NumPy's scalars, and the auxiliary output."""
    if not has_aux:
        return result if isinstance(result, Tensor) else tree_map(lambda x: from_scalar(x, inputs), result), None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"[{call}] with has_aux=True the function returns a pair (output, aux), got {described(result)}."
        )
    return split_aux(call, result[0], False, inputs)[0], result[1]
