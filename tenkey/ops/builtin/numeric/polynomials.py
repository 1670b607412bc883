"""Polynomials: their values, and Vandermonde matrices."""

from __future__ import annotations

from ....core.tensor import Tensor
from ...declare import composite, normal
from ...shapes import refuse_shape
from ..creation import concrete, zeros_like
from ..reductions.cumulative import cumulative_prod
from ..shape.copying import flip
from ..shape.views import broadcast_to, expand_dims, select_index, slice

_VECTOR = "[{operator}] takes a vector, got shape {shape}."


@composite(
    "polyval(Tensor p, Tensor x) -> Tensor",
    sample_inputs=normal(([4], [2, 3]), ([1], [3]), ([3], [])),
)
def polyval(p: Tensor, x: Tensor) -> Tensor:
    """Evaluate the polynomial with coefficients ``p``, highest power first, at ``x``, by Horner's scheme.

    >>> tk.polyval(tk.asarray([1, 0, -2]), tk.asarray([1, 2, 3])).tolist()
    [-1, 2, 7]
    """
    if p.ndim != 1:
        raise ValueError(_VECTOR.format(operator="polyval", shape=p.shape))
    x = concrete(x, p)
    n = p.shape[0]
    total = zeros_like(x) if n else x * 0
    for k in range(n):
        total = total * x + select_index(p, 0, k)
    return total


@composite(
    "vander(Tensor x, int? N=None, *, bool increasing=False) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.uniform(0.5, 2, 3),), {}),
        ((rng.uniform(0.5, 2, 3), 2), {"increasing": True}),
        ((rng.uniform(0.5, 2, 0), 2), {}),
    ],
    positional=1,
)
def vander(x: Tensor, N: int | None = None, *, increasing: bool = False) -> Tensor:
    """Return the Vandermonde matrix of a vector: decreasing powers of ``x`` in ``N`` columns (default: square).

    With ``increasing`` the powers increase. Integers are multiplied in 64 bits, as in ``tk.prod``.

    >>> tk.vander(tk.asarray([2, 3]), 3).tolist()
    [[4, 2, 1], [9, 3, 1]]
    """
    if x.ndim != 1:
        raise ValueError(_VECTOR.format(operator="vander", shape=x.shape))
    n = x.shape[0] if N is None else N
    if n < 0:
        raise ValueError(f"[vander] N is the number of columns, at least 0; got {n}.")
    refuse_shape("vander", (x.shape[0], n), x.dtype.itemsize)
    column = expand_dims(x, 1)
    if not n:
        return slice(column, 1, 0, 0, 1)
    factors = broadcast_to(column, (x.shape[0], n - 1))
    rising = cumulative_prod(factors, axis=1, include_initial=True)
    return rising if increasing else flip(rising, axis=1)
