"""Reverse and forward mode for a batch of gradients or tangents at once, through ``vmap``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...ops.builtin.shape.copying import stack
from ..engine.functional import VMAP, grad
from ..forward_ad.levels import dual_level, make_dual, unpack_dual
from ..gradcheck.numerical import outputs_of

__all__ = ["batched_pull", "batched_push"]


def batched_pull(output: Tensor, sources: Sequence[Tensor], grad_outputs: Sequence[Tensor]) -> list[list[np.ndarray]]:
    """Return the gradients of each source, one for each gradient in ``grad_outputs``."""

    def pull(grad_output: Tensor) -> Any:
        return grad(
            [output], list(sources), [grad_output], retain_graph=True, allow_unused=True, materialize_grads=True
        )

    found = VMAP[0](pull)(stack(list(grad_outputs), axis=0))
    return [list(one.detach().numpy()) for one in found]


def batched_push(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, tangents: Sequence[Tensor]
) -> list[list[np.ndarray]]:
    """Return the tangents of each output, one for each tangent of input ``at``."""

    def push(tangent: Tensor) -> Any:
        given = list(inputs)
        with dual_level() as level:
            given[at] = make_dual(inputs[at], tangent, level)
            found = [unpack_dual(out, level) for out in outputs_of(fn, given)]
            return tuple([primal * 0.0 if moved is None else moved for primal, moved in found])

    made = VMAP[0](push)(stack(list(tangents), axis=0))
    return [list(one.detach().numpy()) for one in made]
