"""One run of a function that is differentiated: its inputs as aliases, its output, and what its graph leads to.

Note [What is recorded]
~~~~~~~~~~~~~~~~~~~~~~~
A derivative is recorded itself only if its graph leads to a leaf that somebody may ask for: one of the user's, or an
input of a run further out, whose function is being called still. The inputs of a run that is over (a pullback, a
linearization) are nobody's business but its own. So aliases carry the number of their run. Guarded by
``tests/transforms/test_derivatives.py::test_results_have_no_history_of_their_own``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..autograd.engine.functional import grad
from ..autograd.tape.node import meta_of, walk
from ..core.tensor import Tensor
from ..core.tree import flatten, tree_map, unflatten
from ..core.word import REQUIRES_GRAD
from ..core.wrapper import Wrapper, open_levels, refreshed
from ..dispatch.local_state import current_state
from ..ops.aliases import Recording, fresh, repeated, unrecorded
from ..ops.builtin.creation import zeros_like

__all__ = [
    "FUNCTION", "NO_TENSOR", "OUTPUT", "Run", "bare", "described", "differentiable",
    "positions_of", "split_aux",
]  # fmt: skip

FUNCTION: Final = "[{call}] the first argument is a function, got {type}."
_ARGNUMS: Final = "[{call}] argnums={argnums!r}: give an int or a tuple of ints that count the {count} arguments."
NO_TENSOR: Final = (
    "[{call}] argument {index} holds no floating or complex tensor to differentiate by, got {got}: give tensors, or "
    "choose others with argnums."
)
OUTPUT: Final = "[{call}] the function must return floating or complex tensors, got {got}."


def described(value: Any) -> str:
    """What an error says of a value."""
    return f"shape {value.shape}, dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def differentiable(x: Any) -> bool:
    """Whether derivatives by ``x`` exist: it is a floating or complex tensor."""
    return isinstance(x, Tensor) and x.dtype.kind in "fcV"


# ---- inputs


def _alias(x: Tensor) -> Tensor:
    """A tensor of its own on the same memory, with the history of ``x``, that requires a gradient."""
    levels = open_levels()
    return fresh(repeated(x, levels) if levels else x, REQUIRES_GRAD & current_state().keep)


def bare(x: Tensor) -> list[Tensor]:
    """The plain tensors inside of wrappers."""
    if x.__class__ is Wrapper:
        return bare(x._value) + (bare(x._extra) if isinstance(x._extra, Tensor) else [])
    return [x]


_open: Final[set[int]] = set()  # the runs whose functions are being called just now
_numbers: Final = itertools.count(1)


def _leads_elsewhere(outputs: Sequence[Tensor]) -> bool:
    """Whether the graph of the outputs ends in a leaf that somebody may ask for: see Note [What is recorded]."""
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
    """The arguments that ``argnums`` names, counted from the first; ValueError where it names none of them."""
    listed = [argnums] if isinstance(argnums, int) else argnums
    count = len(args)
    valid = isinstance(listed, (tuple, list)) and listed and not isinstance(argnums, bool)
    if not valid or not all(isinstance(i, int) and -count <= i < count for i in listed):
        raise ValueError(_ARGNUMS.format(call=call, argnums=argnums, count=count))
    positions = [i % count for i in listed]
    if len(set(positions)) < len(positions):
        raise ValueError(_ARGNUMS.format(call=call, argnums=argnums, count=count))
    return positions


class Run:
    """One run of a function on aliases of the inputs that it is differentiated by."""

    def __init__(self, call: str, fn: Callable[..., Any], chosen: list[Any], rest: Callable[[list[Any]], Any]) -> None:
        if not callable(fn):
            raise TypeError(FUNCTION.format(call=call, type=type(fn).__name__))
        for index, part in enumerate(chosen):
            if not any(differentiable(leaf) for leaf in flatten(part)):
                got = described(part)
                raise TypeError(NO_TENSOR.format(call=call, index=index, got=got))
        self.recording = bool(current_state().keep & REQUIRES_GRAD)
        leaves = flatten(chosen)
        aliases = [_alias(leaf) if differentiable(leaf) else leaf for leaf in leaves]
        self.inputs = [alias for alias in aliases if differentiable(alias)]
        self.structure = chosen
        self.is_input = [differentiable(leaf) for leaf in leaves]
        self.number = number = next(_numbers)
        self.own(self.inputs)
        _open.add(number)
        try:
            with Recording():
                self.output = rest(unflatten(chosen, aliases))
            for leaf in flatten(self.output):
                if leaf.__class__ is Wrapper:
                    refreshed(leaf)
        finally:
            _open.discard(number)

    def own(self, tensors: Sequence[Tensor]) -> None:
        """Mark leaves as those of this run; the tangents of an alias are not its own, but those of the input."""
        for tensor in tensors:
            plain: Any = tensor
            while plain.__class__ is Wrapper:
                plain = plain._value
            if plain._word & REQUIRES_GRAD and (plain._autograd is None or plain._autograd.node is None):
                meta_of(plain).run = self.number

    def elsewhere(self, outputs: Sequence[Tensor]) -> bool:
        """Whether the graph leads to more than the inputs, so that the derivative must be recorded too."""
        return self.recording and _leads_elsewhere(outputs)

    def gradients(self, outputs: list[Tensor], seeds: list[Any], *, create: bool, keep: bool) -> list[Any]:
        """The gradients in the structure of the chosen inputs; None for leaves that are no inputs."""
        outputs, seeds = _recorded(outputs, seeds)
        if outputs:
            with Recording(recorded=create):
                found = grad(
                    outputs,
                    self.inputs,
                    seeds,
                    create_graph=create,
                    retain_graph=keep or create,
                    materialize_grads=True,
                )
        else:
            found = [zeros_like(x.detach()) for x in self.inputs]
        remaining = iter(found)
        result: list[Any] = unflatten(self.structure, [next(remaining) if own else None for own in self.is_input])
        return result

    def free(self, value: Any, *, keeps: bool) -> Any:
        """The output without the history that leads to the aliases alone."""
        return value if keeps else tree_map(lambda x: unrecorded(x) if isinstance(x, Tensor) else x, value)


def _recorded(outputs: list[Tensor], seeds: list[Any]) -> tuple[list[Tensor], list[Any]]:
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o._word & REQUIRES_GRAD]
    return [o for o, _ in pairs], [s for _, s in pairs]


def split_aux(call: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """Output and auxiliary output of a function."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"[{call}] with has_aux=True the function returns a pair (output, aux), got {described(result)}."
        )
    return result
