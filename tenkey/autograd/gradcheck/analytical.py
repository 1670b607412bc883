"""Derivatives by reverse and forward mode, in real components, also for batches of gradients or tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import silently
from ...ops.builtin.shape.copying import stack
from ..engine.functional import VMAP, grad
from ..forward_ad.levels import dual_level, make_dual, unpack_dual
from .numerical import as_values, components, from_array, outputs_of, parts

__all__ = ["analytical", "batched_pull", "batched_push", "pulled", "pushed"]


def analytical(output: Tensor, source: Tensor) -> np.ndarray:
    """Return the Jacobian of an output by an input, by one backward for every column."""
    size, columns = parts(source).size, parts(output).size
    if not output.requires_grad:
        return np.zeros((size, columns))
    seeds = [from_array(as_values(unit, output.shape, output.dtype)) for unit in np.eye(columns)]
    return np.array([pulled([output], [source], [seed])[0] for seed in seeds]).reshape(columns, size).T


def pulled(outputs: Sequence[Tensor], sources: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[np.ndarray]:
    """Return the gradients of the sources, in components."""
    found = grad(outputs, sources, seeds, retain_graph=True, allow_unused=True, materialize_grads=True)
    return [parts(gradient) for gradient in found if gradient is not None]


def _tangents(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, tangent: Tensor, *, recorded: bool = False
) -> tuple[Tensor, ...]:
    """Return the tangent of each output for a tangent of input ``at``; unless ``recorded``, without a graph."""
    given = list(inputs) if recorded else [x.detach() if isinstance(x, Tensor) else x for x in inputs]

    def run(level: Any) -> tuple[Tensor, ...]:
        given[at] = make_dual(given[at], tangent, level)
        found = [unpack_dual(out, level) for out in outputs_of(fn, given)]
        return tuple([primal * 0.0 if moved is None else moved for primal, moved in found])

    made: tuple[Tensor, ...] = dual_level().run(run, exclude=0 if recorded else REQUIRES_GRAD)
    return made


def pushed(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, direction: np.ndarray, *, recorded: bool
) -> list[np.ndarray]:
    """Return the tangent of each output along a direction of input ``at``; unless ``recorded``, without a graph."""
    tangent = from_array(as_values(direction, inputs[at].shape, inputs[at].dtype))
    return [parts(moved) for moved in _tangents(fn, inputs, at, tangent, recorded=recorded)]


def batched_pull(output: Tensor, sources: Sequence[Tensor], seeds: Sequence[Tensor]) -> list[np.ndarray]:
    """Return the gradients of each source for each gradient of the output, computed as one batch by ``vmap``."""

    def pull(seed: Tensor) -> Any:
        return grad([output], sources, [seed], retain_graph=True, allow_unused=True, materialize_grads=True)

    return _by_sample(VMAP[0](pull)(stack(list(seeds), axis=0)))


def batched_push(fn: Callable[..., Any], inputs: Sequence[Any], at: int, tangents: Sequence[Tensor]) -> list[Any]:
    """Return the tangents of each output for each tangent of input ``at``, computed as one batch by ``vmap``."""
    push = VMAP[0](partial(_tangents, fn, inputs, at))
    return _by_sample(silently(push, stack(list(tangents), axis=0)))


def _by_sample(batches: Sequence[Tensor]) -> list[np.ndarray]:
    return [np.stack([components(sample) for sample in batch.detach().numpy()]) for batch in batches]
