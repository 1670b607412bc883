"""Functions that are composed of scalar operations, written so that they neither overflow nor lose derivatives."""

from __future__ import annotations

from .conditions import isinf, logical_and, where
from .expression import Operand
from .functions import exp, log1p, maximum, minimum, reciprocal
from .signatures import binary, ternary, unary

__all__ = ["clip", "logaddexp", "sigmoid", "softplus"]


@ternary
def clip(x: Operand, low: Operand, high: Operand) -> Operand:
    """minimum(maximum(x, low), high); at a limit the derivative is shared equally with it.

    >>> clip(7.0, 0.0, 6.0)
    6.0
    """
    return minimum(maximum(x, low), high)


@unary
def sigmoid(x: Operand) -> Operand:
    """The logistic function 1 / (1 + exp(-x)): accurate to the last bits for both signs, as no part of it cancels.

    Its derivative is written with the result alone: see Note [Logistic quotient].

    >>> sigmoid(0.0), sigmoid(-1000.0)
    (0.5, 0.0)
    """
    return reciprocal(1 + exp(-x))


# Note [Smooth branches]
#     softplus and logaddexp are usually written max(x, y) + log1p(exp(-abs(x - y))). The kinks of its parts at x == y
#     cancel in the sum but not in second derivatives, which come out as 0 instead of 1/4 there. Here each branch is
#     the whole function, smooth everywhere, and the condition only chooses the one that does not overflow, so
#     derivatives of every order are right at the tie as well. Guarded by `test_smooth_at_the_tie`.


@unary
def softplus(x: Operand) -> Operand:
    """log(1 + exp(x)) without overflow; see Note [Smooth branches].

    >>> softplus(1000.0), softplus(-1000.0)
    (1000.0, 0.0)
    """
    above = x + log1p(exp(-x))
    return where(x > 0, above, log1p(exp(x)))


@binary
def logaddexp(x: Operand, y: Operand) -> Operand:
    """log(exp(x) + exp(y)) without overflow, infinities included; see Note [Smooth branches].

    >>> logaddexp(float("-inf"), float("-inf")), logaddexp(1000.0, 0.0)
    (-inf, 1000.0)
    """
    above = x + log1p(exp(y - x))
    below = y + log1p(exp(x - y))
    same_infinity = logical_and(x == y, isinf(x))  # where x - y would be NaN
    return where(same_infinity, x, where(x > y, above, below))
