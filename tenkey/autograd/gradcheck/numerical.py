"""Central differences, with which ``gradcheck`` and ``tk.library.opcheck`` compare derivatives.

Functions and derivatives are split into real components: a complex number has two, its real and its imaginary part. The
rows of a Jacobian are the components of the input, its columns those of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import REQUIRES_GRAD
from ...core.wrapper import from_scalar
from ...dispatch.local_state import silently

__all__ = [
    "GradcheckError", "as_values", "components", "displaced", "distance", "from_array", "jacobians", "numerical",
    "outputs_of", "parts", "slope",
]  # fmt: skip


class GradcheckError(RuntimeError):
    """A gradient that differs from the numerical one."""

    __module__ = "tenkey.autograd.gradcheck"


def components(values: np.ndarray) -> np.ndarray:
    """Return the real components of an array in row-major order; a complex number has two.

    >>> components(np.array([1 + 2j])).tolist()
    [1.0, 2.0]
    """
    flat = np.array(values, order="C").reshape(-1)
    return (flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat).astype(np.float64)


def as_values(parts: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the array with these real components: the inverse of :func:`components`.

    >>> as_values(np.array([1.0, 2.0]), (1,), np.dtype("complex64"))
    array([1.+2.j], dtype=complex64)
    """
    flat = parts[0::2] + 1j * parts[1::2] if dtype.kind == "c" else parts
    return flat.astype(dtype).reshape(shape)


def displaced(values: np.ndarray, direction: np.ndarray, step: float) -> np.ndarray:
    """Return ``values + step * direction``; ``direction`` has a number for each real component.

    Components that do not move keep their bits, so a zero keeps its sign.
    """
    moved = np.array(values, order="C")
    flat = moved.reshape(-1)
    parts = flat.view(flat.real.dtype) if moved.dtype.kind == "c" else flat
    places = direction.nonzero()
    parts[places] = (parts[places] + direction[places] * step).astype(parts.dtype)
    return moved


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two arrays; equal infinities and nan on both sides count as equal."""
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))


def from_array(values: np.ndarray, *, word: int = 0) -> Tensor:
    """Return a tensor on an array."""
    return make_tensor(values, cpu_word(values.dtype) | word)


def parts(tensor: Tensor) -> np.ndarray:
    """Return the real components of a tensor."""
    return components(tensor.detach().numpy())


def outputs_of(fn: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    """Return the floating and complex tensors that the function returns."""
    result = fn(*inputs)
    listed = result if isinstance(result, (tuple, list)) else [result]
    found = [t for t in map(from_scalar, listed) if isinstance(t, Tensor) and t.dtype.kind in "fc"]
    if not found:
        raise ValueError(
            f"[gradcheck] the function returned {type(result).__name__}, no floating or complex tensor: there is "
            "nothing to check. Return a tensor or a sequence of tensors."
        )
    return found


def slope(fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float, direction: np.ndarray) -> list[Any]:
    """Return the central difference of each output along a direction of input ``at``."""
    both = []
    for step in (eps, -eps):
        replaced = list(inputs)
        replaced[at] = from_array(displaced(inputs[at].detach().numpy(), direction, step), word=REQUIRES_GRAD)
        both.append([parts(t) for t in silently(outputs_of, fn, replaced)])
    return [(plus - minus) / (2 * eps) for plus, minus in zip(*both)]


def jacobians(
    fn: Callable[..., Any], inputs: Sequence[Any], at: int, along: Callable[[np.ndarray], list[Any]]
) -> list[np.ndarray]:
    """Return the Jacobian of each output by input ``at``; ``along(direction)`` returns directional derivatives."""
    rows = [along(direction) for direction in np.eye(parts(inputs[at]).size)]
    if not rows:  # an empty input
        return [np.zeros((0, parts(t).size)) for t in outputs_of(fn, inputs)]
    return [np.array(columns) for columns in zip(*rows, strict=True)]


def numerical(fn: Callable[..., Any], inputs: Sequence[Any], at: int, eps: float) -> list[np.ndarray]:
    """Return the Jacobian of each output by input ``at``, by central differences."""
    return jacobians(fn, inputs, at, lambda direction: slope(fn, inputs, at, eps, direction))
