"""Jacobians of a function of tensors, in real components, by reverse and by forward mode.

Rows are the real components of the input, columns those of the output; a complex number has two, its real and its
imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import StateGuard
from ..engine.functional import grad
from ..forward_ad.levels import dual_level, make_dual, unpack_dual
from .numerical import as_values, components, from_array, outputs_of

__all__ = [
    "analytical",
    "forward",
    "gradients_of",
    "pushed",
    "random_seed",
]


def analytical(output: Tensor, source: Tensor) -> np.ndarray:
    """The Jacobian of an output by an input, one backward for every column."""
    values = output.detach().numpy()
    size = components(values).size
    jacobian = np.zeros((components(source.detach().numpy()).size, size))
    for component in range(size):
        seed = np.zeros(values.shape, values.dtype)
        flat = seed.reshape(-1)
        if values.dtype.kind == "c":
            flat[component // 2] = 1j if component % 2 else 1.0
        else:
            flat[component] = 1.0
        if not output.requires_grad:
            continue
        (found,) = grad(output, source, from_array(seed), retain_graph=True, allow_unused=True)
        if found is not None:
            jacobian[:, component] = components(found.detach().numpy())
    return jacobian


def forward(fn: Callable[..., Any], inputs: Sequence[Any], at: int, *, recorded: bool) -> list[np.ndarray]:
    """The Jacobian of each output by input ``at``, one push of forward mode for every row."""
    values = np.array(inputs[at].detach().numpy(), order="C")
    parts = components(values).size
    rows: list[list[np.ndarray]] = []
    for component in range(parts):
        direction = np.zeros(parts)
        direction[component] = 1.0
        rows.append(pushed(fn, inputs, at, as_values(direction, values.shape, values.dtype), recorded=recorded))
    if not rows:
        return [np.zeros((0, components(t.detach().numpy()).size)) for t in outputs_of(fn, inputs)]
    return [np.array(columns) for columns in zip(*rows, strict=True)]


def pushed(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, tangent: np.ndarray, *, recorded: bool
) -> list[np.ndarray]:
    """The tangent of each output, in components, for one of the input ``at``; unless ``recorded``, without a graph."""
    given = list(inputs) if recorded else [x.detach() if isinstance(x, Tensor) else x for x in inputs]
    with dual_level() as level, StateGuard(exclude=0 if recorded else REQUIRES_GRAD):
        given[at] = make_dual(given[at], from_array(tangent), level)
        found = []
        for out in outputs_of(fn, given):
            primal, moved = unpack_dual(out, level)
            size = components(primal.detach().numpy()).size
            found.append(np.zeros(size) if moved is None else components(moved.detach().numpy()))
    return found


def random_seed(rng: np.random.Generator, output: Tensor) -> Tensor:
    """A random gradient of an output, or tangent of an input."""
    values = np.asarray(rng.standard_normal(output.shape))
    if output.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(output.shape)
    return from_array(np.asarray(values, output.dtype))


def gradients_of(outputs: list[Tensor], sources: list[Tensor], seeds: list[Tensor]) -> list[np.ndarray]:
    """The gradients of the sources, in components."""
    found = grad(outputs, sources, seeds, retain_graph=True, allow_unused=True, materialize_grads=True)
    return [components(g.detach().numpy()) for g in found if g is not None]
