"""Complex operands: whether an expression is defined for them, and whether it has a complex derivative.

Note [Complex expressions]
    Operations that depend on an order (`<`, `maximum`, `floor`, `hypot`) have no meaning for complex operands, so an
    operator with such an expression accepts real dtypes only; `round` follows the standard, which rounds both parts.
    `abs` and `sign` are defined but not holomorphic: their derivative is not multiplication by a complex number, and
    the rules of `differentiate` are those of real numbers. A gradient through them is refused. An operand is real if it
    consists of constants, conditions and `abs` only; conditions do not contribute to a derivative. Guarded by
    `tests/ops/test_complex_expressions.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from .expression import Expression, topological_order

__all__ = ["is_real", "not_holomorphic", "undefined_for_complex"]

_ORDERED: Final = frozenset([
    "less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "floor", "ceil", "trunc",
    "floor_divide", "remainder", "atan2", "hypot", "copysign", "nextafter", "signbit", "cbrt", "erf", "erfc",
    "lgamma", "digamma", "trigamma",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift",
])  # fmt: skip
_NOT_HOLOMORPHIC: Final = frozenset(["abs", "sign"])


def _real_nodes(order: list[Expression], real: Collection[str]) -> set[Expression]:
    found: set[Expression] = set()
    for node in order:
        if node.name is not None:
            is_real = node.name in real or node.kind == "boolean" or node.operation == "index"
        else:
            is_real = node.kind == "boolean" or node.operation == "abs"
            is_real = is_real or all(operand in found for operand in node.operands)
        if is_real:
            found.add(node)
    return found


def is_real(expression: Expression, real: Collection[str] = ()) -> bool:
    """Tell whether the expression is real for complex variables.

    >>> from tenkey.ops.scalar import abs, variable
    >>> is_real(abs(variable("z")) + 1), is_real(variable("z") + 1)
    (True, False)
    """
    return expression in _real_nodes(topological_order([expression]), real)


def undefined_for_complex(expression: Expression, real: Collection[str] = ()) -> str | None:
    """Return an operation of the expression that is undefined for complex operands, or None.

    The variables in `real` are real.

    >>> from tenkey.ops.scalar import abs, maximum, variable
    >>> z = variable("z")
    >>> undefined_for_complex(maximum(z, 0)), undefined_for_complex(maximum(abs(z), 1) * z)
    ('maximum', None)
    """
    order = topological_order([expression])
    known = _real_nodes(order, real)
    for node in order:
        if node.operation in _ORDERED and not all(operand in known for operand in node.operands):
            return node.operation
    return None


def not_holomorphic(expression: Expression, real: Collection[str] = ()) -> str | None:
    """Return an operation because of which the expression has no complex derivative, or None.

    >>> from tenkey.ops.scalar import abs, exp, variable, where
    >>> z = variable("z")
    >>> not_holomorphic(exp(z) * abs(z)), not_holomorphic(where(abs(z) == 0, z, exp(z)))
    ('abs', None)
    """
    known = _real_nodes(topological_order([expression]), real)
    seen: set[Expression] = set()
    stack = [expression]
    while stack:
        node = stack.pop()
        if node in seen or node.kind == "boolean":
            continue
        seen.add(node)
        if node.operation in _NOT_HOLOMORPHIC and node.operands[0] not in known:
            return node.operation
        stack.extend(node.operands)
    return None
