"""Messages of ``grad`` that autograd and the levels of transforms share."""

from __future__ import annotations

from typing import Final

__all__ = ["SEED_SCALAR", "SEED_SHAPE", "UNUSED_INPUT"]

UNUSED_INPUT: Final = (
    "[grad] One of the differentiated Tensors appears to not have been used in the graph: input {index}. Set "
    "allow_unused=True if this is the desired behavior."
)
SEED_SCALAR: Final = (
    "[{call}] grad can be implicitly created only for scalar outputs, got shape {shape}: pass the gradient, a tensor "
    "of that shape."
)
SEED_SHAPE: Final = (
    "[{call}] Mismatch in shape: grad_output[{index}] has a shape of {got} and output[{index}] has a shape of {want}: "
    "they must be equal."
)
