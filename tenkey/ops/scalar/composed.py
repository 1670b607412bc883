"""Functions composed of scalar operations, written so that neither values overflow nor derivatives are lost."""

from __future__ import annotations

from .elementary import exp, isinf, log1p, logical_and, maximum, minimum, reciprocal, where
from .expression import Operand
from .signatures import binary, ternary, unary

__all__ = ["clip", "logaddexp", "sigmoid", "softplus"]


@ternary
def clip(x: Operand, low: Operand, high: Operand) -> Operand:
    """minimum(maximum(x, low), high); at a limit, x and the limit share the derivative equally.

    >>> clip(7.0, 0.0, 6.0)
    6.0
    """
    return minimum(maximum(x, low), high)


@unary
def sigmoid(x: Operand) -> Operand:
    """The logistic function 1 / (1 + exp(-x)), accurate to the last bits for both signs because nothing cancels.

    Its derivative depends on the result only: see Note [Logistic quotient].

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    return reciprocal(1 + exp(-x))


# Note [Smooth branches]
#     softplus and logaddexp are usually written max(x, y) + log1p(exp(-abs(x - y))). The kinks of the two terms at
#     x == y cancel in the sum but not in second derivatives, which become 0 instead of 1/4. Here y + log1p(exp(x - y))
#     is the whole function, smooth everywhere; a condition only exchanges the operands so that it does not overflow.
#     Derivatives of every order are therefore correct at the tie too. Guarded by `test_smooth_at_the_tie`.


@unary
def softplus(x: Operand) -> Operand:
    """log(1 + exp(x)) without overflow; see Note [Smooth branches].

    >>> softplus(1000.0), softplus(-1000.0)
    (1000.0, 0.0)
    """
    positive = x > 0
    return where(positive, x, 0.0) + log1p(exp(where(positive, -x, x)))


@binary
def logaddexp(x: Operand, y: Operand) -> Operand:
    """log(exp(x) + exp(y)) without overflow, infinities included; see Note [Smooth branches].

    >>> logaddexp(float("-inf"), float("-inf")), logaddexp(1000.0, 0.0)
    (-inf, 1000.0)
    """
    exchanged = x > y
    larger, smaller = where(exchanged, x, y), where(exchanged, y, x)
    same_infinity = logical_and(x == y, isinf(x))  # where x - y would be NaN
    return where(same_infinity, x, larger + log1p(exp(smaller - larger)))
