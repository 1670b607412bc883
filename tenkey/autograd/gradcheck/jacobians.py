"""Jacobians of a function of tensors, in real components: by central differences, by reverse and by forward mode.

Rows are the real components of the input, columns those of the output; a complex number has two, its real and its
imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import StateGuard
from ..engine.functional import grad
from ..forward_ad.levels import dual_level, make_dual, unpack_dual

__all__ = [
    "analytical",
    "as_values",
    "components",
    "distance",
    "forward",
    "from_array",
    "gradients_of",
    "numerical",
    "outputs_of",
    "pushed",
    "random_seed",
    "slope",
]


def from_array(values: np.ndarray, *, word: int = 0) -> Tensor:
    """A tensor on an array."""
    return make_tensor(values, cpu_word(values.dtype) | word)


def outputs_of(fn: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """The floating and complex tensors that the function returns."""
    result = fn(*inputs)
    listed = list(result) if isinstance(result, (tuple, list)) else [result]
    found = [t for t in listed if isinstance(t, Tensor) and t.dtype.kind in "fc"]
    if not found:
        raise ValueError(
            f"[gradcheck] the function returned {type(result).__name__}, no floating or complex tensor: there is "
            "nothing to check. Return a tensor or a sequence of tensors."
        )
    return found


def components(values: np.ndarray) -> np.ndarray:
    """The real components of an array, one after the other (real part before imaginary part)."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind != "c":
        return flat.astype(np.float64)
    return flat.view(flat.real.dtype).astype(np.float64)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two arrays; equal infinities and nan on both sides count as equal."""
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))


def as_values(parts: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The array of the real components ``parts``; the inverse of ``components``."""
    flat = parts.view(np.complex128) if like.dtype.kind == "c" else parts
    return flat.astype(like.dtype).reshape(like.shape)


def slope(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float, values: np.ndarray, direction: np.ndarray
) -> list[np.ndarray]:
    """The central difference of each output along a direction of one input."""
    both = []
    moves = direction.nonzero()  # the others stay as they are, with the sign of a zero
    for step in (eps, -eps):
        moved = np.array(values)
        moved.reshape(-1).view(moved.real.dtype)[moves] += direction[moves] * step
        replaced = list(inputs)
        replaced[at] = from_array(moved, word=REQUIRES_GRAD)
        with StateGuard(exclude=REQUIRES_GRAD):
            both.append([components(t.detach().numpy()) for t in outputs_of(fn, replaced)])
    return [(plus - minus) / (2 * eps) for plus, minus in zip(*both)]


def numerical(fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float) -> list[np.ndarray]:
    """The Jacobian of each output by input ``at``, by central differences."""
    source = inputs[at]
    values = np.array(source.detach().numpy(), order="C")  # so that reshape(-1) below is a window, not a copy
    parts = components(values).size
    columns: list[list[np.ndarray]] = []
    for component in range(parts):
        direction = np.zeros(parts)
        direction[component] = 1.0
        columns.append(slope(fn, inputs, at, eps, values, direction))
    if not columns:  # an empty input
        return [np.zeros((0, components(t.detach().numpy()).size)) for t in outputs_of(fn, inputs)]
    return [np.array(rows) for rows in zip(*columns)]


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
        rows.append(pushed(fn, inputs, at, as_values(direction, values), recorded=recorded))
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
