"""Aliases of tensors for derivatives, with their own history, also below wrappers of transforms (Note [Levels]).

Note [Derivatives in inference mode]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The derivative of a function is available in every mode, because its recording is private. So a run of the function is
recorded even in inference mode, which otherwise silently ignores that a tensor requires a gradient, and it may save
inference tensors. Guarded by ``tests/autograd/test_inference_mode.py::test_derivatives_of_functions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..core.tensor import Tensor
from ..core.tree import tensors_in
from ..core.word import INFERENCE, REQUIRES_GRAD
from ..core.wrapper import Level, Wrapper, classed
from ..dispatch.local_state import current_state, noted, switched
from .builtin.shape.views import reshape

__all__ = ["Recording", "fresh", "levels_of", "recording", "repeated", "spread", "unrecorded"]


class Recording:
    """The owner of the change that ``recording`` makes, for ``innermost_guard``."""

    __slots__ = ("was_inference",)

    def __init__(self) -> None:
        self.was_inference = bool(current_state().include & INFERENCE)


_UNCHANGED: Final = Recording()


def recording(*, recorded: bool = True) -> Callable[[], Any]:
    """Record the calls from now on for a derivative: see Note [Derivatives in inference mode].

    With ``recorded=False`` they only leave inference mode. Returns the function that restores the state, for
    ``finally`` (Note [Interrupts]).
    """
    return noted(_UNCHANGED) or switched(Recording(), uninclude=INFERENCE, unexclude=REQUIRES_GRAD if recorded else 0)


def fresh(x: Tensor, recorded: int) -> Tensor:
    """Return a new tensor on the same memory that requires a gradient, below all wrappers; tangents stay.

    ``recorded`` is the bit ``REQUIRES_GRAD`` if calls are recorded, else 0. If they are, a tensor with a history stays
    connected to it; any other tensor becomes a leaf.
    """
    if isinstance(x, Wrapper):
        return x._level.alias(x, lambda value: fresh(value, recorded))
    if x._word & recorded:
        return reshape(x, x.shape)
    made = x.detach()
    made._word &= ~INFERENCE
    return made.requires_grad_()


def unrecorded(x: Tensor) -> Tensor:
    """Return the same values without history; tangents stay, but lose their history too."""
    if not x._word & REQUIRES_GRAD:
        return x
    if isinstance(x, Wrapper):
        return classed(x._level.through(x, unrecorded, lambda dim: dim), x.__class__)
    return x.detach()


def repeated(x: Tensor, levels: Sequence[Level]) -> Tensor:
    """Wrap the tensor for each of these levels, of which the first is the outermost: see ``Level.repeat``."""
    if not levels:
        return x
    last = levels[-1]
    if not isinstance(x, Wrapper) or x._level.number < last.number:
        return last.repeat(repeated(x, levels[:-1]))
    rest = levels[:-1] if x._level is last else levels
    return x._level.through(x, lambda value: repeated(value, rest), lambda dim: dim)


def spread(x: Tensor, like: Iterable[Any]) -> Tensor:
    """Wrap the tensor for the levels of all wrappers in ``like``, nested ones included."""
    found = levels_of(like)
    return repeated(x, sorted(found, key=lambda level: level.number)) if found else x


def levels_of(values: Iterable[Any]) -> set[Level]:
    """Return the levels of the wrappers in ``values``, nested ones included."""
    found: set[Level] = set()
    for x in tensors_in([*values]):
        if isinstance(x, Wrapper):
            found |= {x._level, *levels_of((x._value, x._extra))}
    return found
