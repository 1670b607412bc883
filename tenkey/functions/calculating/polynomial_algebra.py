"""Algebra of polynomials: sums, products, derivatives, roots and fits.

A polynomial is the vector of its coefficients, the highest power first, as in ``tk.polyval``.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes.limits import finfo
from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...dispatch.registry import registry
from ...ops.builtin.creation import arange, ones, zeros
from ...ops.builtin.elementwise.complex import conj, real
from ...ops.builtin.elementwise.exponential import sqrt
from ...ops.builtin.linalg.matmul import matmul
from ...ops.builtin.reductions.reduction import sum
from ...ops.builtin.shape.copying import cast, clone, concat, floating
from ...ops.builtin.shape.splitting import diag
from ...ops.builtin.shape.views import expand_dims, reshape
from ..creation import asarray
from ..dtypes import result_type

__all__ = [
    "PolyfitResult", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "roots",
]  # fmt: skip


def _found(name: str) -> Any:
    return registry.find(f"tk::{name}").call  # Note [Operators that are declared on first use]


def _vector(function: str, p: Any) -> Tensor:
    """Return coefficients as a vector."""
    x = asarray(p)
    if x.ndim > 1:
        raise ValueError(f"[{function}] a polynomial is a vector of coefficients, got shape {x.shape}.")
    return x if x.ndim else reshape(x, (1,))


def _padded(p: Tensor, length: int) -> Tensor:
    missing = length - p.shape[0]
    return concat([zeros((missing,), dtype=p.dtype, device=p.device), p], axis=0) if missing > 0 else p


@public
def polyadd(a1: Tensor, a2: Tensor) -> Tensor:
    """Return the sum of two polynomials.

    >>> tk.polyadd(tk.asarray([1, 2]), tk.asarray([9, 5, 4])).tolist()
    [9, 6, 6]
    """
    a1, a2 = _vector("polyadd", a1), _vector("polyadd", a2)
    return _padded(a1, a2.shape[0]) + _padded(a2, a1.shape[0])


@public
def polysub(a1: Tensor, a2: Tensor) -> Tensor:
    """Return the difference of two polynomials.

    >>> tk.polysub(tk.asarray([2, 10, -2]), tk.asarray([3, 10, -4])).tolist()
    [-1, 0, 2]
    """
    a1, a2 = _vector("polysub", a1), _vector("polysub", a2)
    return _padded(a1, a2.shape[0]) - _padded(a2, a1.shape[0])


@public
def polymul(a1: Tensor, a2: Tensor) -> Tensor:
    """Return the product of two polynomials.

    >>> tk.polymul(tk.asarray([1, 2]), tk.asarray([1, 3, 4])).tolist()
    [1, 5, 10, 8]
    """
    return _found("convolve")(_vector("polymul", a1), _vector("polymul", a2))  # type: ignore[no-any-return]


@public
def polydiv(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return quotient and remainder of two polynomials; integers give floats.

    The remainder has no leading zeros, up to rounding, unless it is zero, which is one coefficient; so its shape
    depends on the values. Raises ZeroDivisionError if the leading coefficient of ``v`` is zero.

    >>> quotient, remainder = tk.polydiv(tk.asarray([3.0, 5.0, 2.0]), tk.asarray([2.0, 1.0]))
    >>> quotient.tolist(), remainder.tolist()
    ([1.5, 1.75], [0.25])
    """
    u, v = floating(_vector("polydiv", u)), floating(_vector("polydiv", v))
    if not v.shape[0] or v[0].item() == 0:
        raise ZeroDivisionError("[polydiv] the leading coefficient of the divisor is zero.")
    m, n = u.shape[0], v.shape[0]
    dtype = result_type(u, v)
    if m < n:
        return zeros((1,), dtype=dtype, device=u.device), clone(cast(u, dtype))
    rest, quotient = cast(u, dtype), []
    for _ in range(m - n + 1):
        factor = rest[0] / v[0]
        quotient.append(factor)
        rest = concat([rest[1:n] - factor * v[1:], rest[n:]], axis=0)
    made = concat([reshape(factor, (1,)) for factor in quotient], axis=0)
    if not rest.shape[0]:
        return made, zeros((1,), dtype=dtype, device=u.device)
    values = rest.detach().numpy()
    first = 0
    while first < len(values) - 1 and abs(values[first]) <= 1e-14:
        first += 1
    return made, rest[first:]


def _order(function: str, m: Any) -> int:
    try:
        order = operator.index(m)
    except TypeError:
        raise TypeError(f"[{function}] m is a number of steps, an int, got {m!r}.") from None
    if order < 0:
        raise ValueError(f"[{function}] m must be at least 0, got {order}.")
    return order


@public
def polyder(p: Tensor, m: int = 1) -> Tensor:
    """Return the derivative of order ``m`` of a polynomial. Raises ValueError for a negative order.

    >>> tk.polyder(tk.asarray([1, 1, 1, 1])).tolist()
    [3, 2, 1]
    """
    p = _vector("polyder", p)
    for _ in range(_order("polyder", m)):
        n = p.shape[0]
        if not n:
            break
        p = p[:-1] * arange(n - 1, 0, -1, device=p.device)
    return p


@public
def polyint(p: Tensor, m: int = 1, k: Any = None) -> Tensor:
    """Return the antiderivative of order ``m`` of a polynomial; integers give floats.

    ``k`` has the constants of integration in the order of the steps, or one number for all of them; by default 0.
    Raises ValueError for a negative order and for another number of constants.

    >>> tk.polyint(tk.asarray([6.0, 4.0, 1.0]), k=5.0).tolist()
    [2.0, 2.0, 1.0, 5.0]
    """
    order = _order("polyint", m)
    p = floating(_vector("polyint", p))
    constants = zeros((order,), dtype=p.dtype, device=p.device) if k is None else _vector("polyint", k)
    if constants.shape[0] == 1 and order > 1:
        constants = concat([constants] * order, axis=0)
    if constants.shape[0] < order:
        raise ValueError(
            f"[polyint] got {constants.shape[0]} constants k for m={order}: give one, or one for each step."
        )
    for i in range(order):
        n = p.shape[0]
        p = concat([p / arange(n, 0, -1, device=p.device), constants[i : i + 1]], axis=0)
    return p


@public
def poly(zeros_or_matrix: Any) -> Tensor:
    """Return the polynomial with leading coefficient 1 that has the given roots, each as often as it is given.

    A square matrix stands for its eigenvalues: the result is its characteristic polynomial. Integers give floats.
    Complex roots give complex coefficients, of a real matrix real ones. Raises ValueError for other shapes.

    >>> tk.poly(tk.asarray([1.0, 2.0])).tolist()
    [1.0, -3.0, 2.0]
    """
    x = floating(asarray(zeros_or_matrix))
    is_real = x.ndim == 2 and x.dtype.kind != "c"
    if x.ndim == 2 and x.shape[0] == x.shape[1] and x.shape[0]:
        x = _found("linalg_eigvals")(x)
    elif x.ndim > 1:
        raise ValueError(f"[poly] takes a vector of roots or a square matrix, got shape {x.shape}.")
    x = x if x.ndim else reshape(x, (1,))
    made = ones((1,), dtype=x.dtype, device=x.device)
    one = made
    for k in range(x.shape[0]):
        made = _found("convolve")(made, concat([one, -x[k : k + 1]], axis=0))
    return real(made) if is_real and made.dtype.kind == "c" else made


@public
def roots(p: Tensor) -> Tensor:
    """Return the complex roots of a polynomial: the eigenvalues of its companion matrix, in no particular order.

    Leading zeros are skipped, and trailing ones are roots at zero: these coefficients are read on the host. The
    gradient is correct where the roots differ. Raises ValueError for other shapes than a vector.

    >>> sorted(round(r.real, 4) for r in tk.roots(tk.asarray([1.0, -3.0, 2.0])).tolist())
    [1.0, 2.0]
    """
    p = floating(_vector("roots", p))
    found = np.flatnonzero(p.detach().numpy())
    if not len(found):
        return zeros((0,), dtype=p.dtype, device=p.device)
    first, last = int(found[0]), int(found[-1])
    behind = p.shape[0] - 1 - last
    n = last - first
    if not n:
        return zeros((behind,), dtype=p.dtype, device=p.device)
    top = reshape(-(p[first + 1 : last + 1] / p[first]), (1, n))
    below = diag(ones((n - 1,), dtype=top.dtype, device=p.device), k=-1)[1:]
    values = _found("linalg_eigvals")(concat([top, below], axis=0) if n > 1 else top)
    return concat([values, zeros((behind,), dtype=values.dtype, device=p.device)], axis=0) if behind else values


class PolyfitResult(NamedTuple):
    """The result of ``polyfit`` with ``full=True``."""

    coefficients: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor
    rcond: float


@public
def polyfit(
    x: Tensor, y: Tensor, deg: int, rcond: float | None = None, full: bool = False, w: Tensor | None = None,
    cov: bool | str = False,
) -> Any:  # fmt: skip
    """Return the polynomial of a degree that fits points best, by least squares.

    Args: x: shape (M,), the places. y: shape (M,), or (M, K) for K polynomials. deg: the degree. rcond: singular values
    below this share of the largest count as zero; by default M times the precision of the dtype. w: shape (M,), weights
    of the residuals before they are squared. Returns shape (deg + 1,) or (deg + 1, K). With ``full`` a named tuple
    with the sums of squared residuals, the rank, the singular values of the scaled Vandermonde matrix and ``rcond``.
    With ``cov`` the pair of coefficients and their covariance matrix, which ``cov="unscaled"`` does not scale by the
    residuals. Integers give floats. Raises ValueError for a negative degree, TypeError for other shapes. Source:
    ``numpy.polyfit``.

    >>> tk.polyfit(tk.asarray([0.0, 1.0, 2.0]), tk.asarray([1.0, 3.0, 5.0]), 1).round().tolist()
    [2.0, 1.0]
    """
    x, y = floating(asarray(x)), floating(asarray(y))
    degree = operator.index(deg)
    if degree < 0:
        raise ValueError(f"[polyfit] the degree must be at least 0, got {deg}.")
    if x.ndim != 1 or not x.shape[0]:
        raise TypeError(f"[polyfit] x must be a vector with elements, got shape {x.shape}.")
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise TypeError(f"[polyfit] y must have as many rows as x of shape {x.shape}, got shape {y.shape}.")
    m = x.shape[0]
    dtype = result_type(x, y)
    share = m * float(finfo(x.dtype).eps) if rcond is None else float(rcond)
    left, right = cast(_found("vander")(x, degree + 1), dtype), cast(y, dtype)
    if w is not None:
        weights = floating(asarray(w))
        if weights.shape != (m,):
            raise TypeError(f"[polyfit] w must have the shape of x, {x.shape}, got {weights.shape}.")
        left = left * expand_dims(weights, 1)
        right = right * (expand_dims(weights, 1) if y.ndim == 2 else weights)
    scale = sqrt(sum(real(left * conj(left)), axis=0))
    found = _found("linalg_lstsq")(left / scale, right, rtol=share)
    coefficients = found[0] / (expand_dims(scale, 1) if y.ndim == 2 else scale)
    if full:
        return PolyfitResult(coefficients, found[1], found[2], found[3], share)
    if not cov:
        return coefficients
    inverse = _found("linalg_inv")(matmul(conj(left).mT, left))
    if y.ndim == 2:
        inverse = expand_dims(inverse, -1)
    if cov == "unscaled":
        return coefficients, inverse
    if m <= degree + 1:
        raise ValueError(f"[polyfit] {m} points are too few to scale the covariance for degree {degree}.")
    return coefficients, inverse * (found[1] / (m - degree - 1))
