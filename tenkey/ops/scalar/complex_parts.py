"""Complex expressions as pairs of real ones, for languages without complex numbers.

Note [Parts of complex expressions]
    Each node of a complex expression becomes two real expressions, its real and its imaginary part, from which any
    printer makes code. The formulas have the branch cuts and the limits at infinity of the array API standard where the
    parts of the operand are finite or the operand is infinite along an axis; signs of zeros that stand for a side of a
    branch cut are kept. Sources: Kahan, "Branch cuts for complex elementary functions"; Smith's division. Guarded by
    `tests/printers/test_complex_parts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from . import elementary as s
from .complex_numbers import undefined_for_complex
from .expression import Expression, constant, make, topological_order

__all__ = ["real_parts"]

Pair: TypeAlias = tuple[Any, Any]

_ZERO: Final = constant(0.0)
_ONE: Final[Pair] = (constant(1.0), _ZERO)
_NOTHING: Final[Pair] = (_ZERO, _ZERO)
_LN2: Final = math.log(2)
_FAR: Final = 1e30  # beyond it the length of a number in float32 may be infinite


def real_parts(
    expression: Expression, variables: Mapping[str, tuple[Expression, Expression]]
) -> tuple[Expression, Expression]:
    """Return the real and the imaginary part of a complex expression, as real expressions.

    `variables` gives the parts of the complex variables; the others are real. A condition has no imaginary part: the
    second result is 0. Raises ValueError for an operation that complex numbers do not have.

    >>> from tenkey.ops.scalar import variable
    >>> z = variable("z")
    >>> re, im = real_parts(z * z, {"z": (variable("a"), variable("b"))})
    >>> print(re, "|", im)
    a * a - b * b | a * b + b * a
    """
    real = [node.name for node in topological_order([expression]) if node.name and node.name not in variables]
    undefined = undefined_for_complex(expression, real)
    if undefined is not None:
        raise ValueError(f"[real_parts] {undefined} is not defined for complex numbers, in `{expression}`.")
    parts: dict[Expression, Pair] = {}
    for node in topological_order([expression]):
        operands = [parts[operand] for operand in node.operands]
        parts[node] = _parts(node, operands, variables)
    return parts[expression]


def _parts(node: Expression, operands: list[Pair], variables: Mapping[str, tuple[Expression, Expression]]) -> Pair:
    if not node.operands:
        return variables.get(node.name or "", (node, _ZERO))
    operation = node.operation
    if operation == "where":
        condition, x, y = operands
        im = _ZERO if x[1] is y[1] is _ZERO else s.where(condition[0], x[1], y[1])
        return make("where", condition[0], x[0], y[0]), im
    if operation in _CONDITIONS:
        return _CONDITIONS[operation](*operands), _ZERO
    if all(im is _ZERO for _, im in operands) and operation not in _LEAVES_THE_REALS:
        return make(operation, *[re for re, _ in operands]), _ZERO
    return _FUNCTIONS[operation](*operands)


def _multiply(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _equals(x: Pair, y: Pair) -> Any:
    """Compare both parts; constants are compared here, because compilers warn of conditions that are always true."""
    conditions = []
    for a, b in zip(x, y, strict=True):
        if a.value is None or b.value is None:
            conditions.append(a == b)
        elif a.value != b.value:
            return constant(False)
    if not conditions:
        return constant(True)
    return conditions[0] if len(conditions) == 1 else s.logical_and(*conditions)


def _divide(x: Pair, y: Pair) -> Pair:
    """Divide by the larger part of the divisor first, so that nothing overflows."""
    (a, b), (c, d) = x, y
    if d is _ZERO:
        scale, zero = 1 / c, _equals(y, _NOTHING)
        re, im = (a + b * 0.0) * scale, (b - a * 0.0) * scale  # NaN for infinite parts, as in NumPy
        return s.where(zero, a / s.abs(c), re), s.where(zero, b / s.abs(c), im)
    wide = s.abs(c) >= s.abs(d)
    large, small = s.where(wide, c, d), s.where(wide, d, c)
    zero = _equals(y, _NOTHING)
    ratio = s.where(zero, 0.0, small / large)
    scale = 1 / (large + small * ratio)
    re = s.where(wide, a + b * ratio, a * ratio + b) * scale
    im = s.where(wide, b - a * ratio, b * ratio - a) * scale
    return s.where(zero, a / s.abs(c), re), s.where(zero, b / s.abs(c), im)


def _scaled(x: Pair, factor: float) -> Pair:
    return x[0] * factor, x[1] * factor


def _times(x: Any, y: Any) -> Any:
    """Multiply, with a zero also where the other factor is not finite."""
    return s.where(y == 0, s.copysign(1.0, x) * y, s.where(x == 0, x * s.copysign(1.0, y), x * y))


def _exp(z: Pair) -> Pair:
    half = s.exp(z[0] * 0.5)  # the factors of a finite result are finite
    vanishes = z[0] == -math.inf  # whatever the angle
    cosine, sine = s.where(vanishes, 1.0, s.cos(z[1])), s.where(vanishes, s.copysign(1.0, z[1]), s.sin(z[1]))
    return half * cosine * half, _times(half, _times(half, sine))


def _expm1(z: Pair) -> Pair:
    sine = s.sin(z[1] * 0.5)
    re, im = _exp(z)
    near = s.expm1(z[0]) * s.cos(z[1]) - 2 * sine * sine
    return s.where(s.abs(z[0]) < 1, near, re - 1), im


def _log(z: Pair) -> Pair:
    x, y = s.abs(z[0]), s.abs(z[1])
    large, small = s.maximum(x, y), s.minimum(x, y)
    far = large > _FAR
    scale = s.where(far, 0.5, 1.0)  # the modulus of finite parts may be infinite
    modulus = s.hypot(x * scale, y * scale)
    near = 0.5 * s.log1p((large - 1) * (large + 1) + small * small)
    logarithm = s.log(modulus) + s.where(far, _LN2, 0.0)
    return s.where(s.logical_and(modulus > 0.5, modulus < 2), near, logarithm), s.atan2(z[1], z[0])


def _log1p(z: Pair) -> Pair:
    x, y = z
    re, im = _log((1 + x, y))
    near = s.logical_and(s.abs(x) < 0.5, s.abs(y) < 0.5)
    return s.where(near, 0.5 * s.log1p(x * (2 + x) + y * y), re), im


def _sqrt(z: Pair) -> Pair:
    x, y = z
    wide = s.maximum(s.abs(x), s.abs(y)) > 1
    scale = s.where(wide, 0.125, 2.0**63)  # large parts have an infinite modulus, and subnormal ones few digits
    size = s.abs(x) * scale + s.hypot(x * scale, y * scale)
    root = s.sqrt(size) * s.where(wide, 2.0, 2.0**-32)
    other = s.where(root == 0, s.abs(y), s.abs(y) / (2 * root))
    endless = s.isinf(y)
    re = s.where(endless, s.abs(y), s.where(x >= 0, root, other))
    im = s.where(endless, s.abs(y), s.where(x >= 0, other, root))
    nan = x != x
    return s.where(s.logical_and(nan, s.logical_not(endless)), x, re), s.copysign(im, y)


def _sinh(z: Pair) -> Pair:
    return _times(s.sinh(z[0]), s.cos(z[1])), _times(s.cosh(z[0]), s.sin(z[1]))


def _cosh(z: Pair) -> Pair:
    return _times(s.cosh(z[0]), s.cos(z[1])), _times(s.sinh(z[0]), s.sin(z[1]))


def _tanh(z: Pair) -> Pair:
    x, y = z
    bounded = s.minimum(s.maximum(x, -20.0), 20.0)  # beyond, the result is that of the limit
    sine, cosine = s.sin(y), s.cos(y)
    sinh, cosh = s.sinh(bounded), s.cosh(bounded)
    scale = 1 / (cosine * cosine + sinh * sinh)
    far = s.abs(x) > 20
    im = s.where(far, 4 * sine * cosine * s.exp(-2 * s.abs(x)), sine * cosine * scale)
    im = s.where(s.isinf(x), s.copysign(0.0, y), im)
    return s.where(far, s.copysign(1.0, x), sinh * cosh * scale), im


def _turned(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """Return `-1j * function(1j * z)`."""

    def turned(z: Pair) -> Pair:
        re, im = function((-z[1], z[0]))
        return im, -re

    return turned


# The formulas of Kahan for asin, acos and acosh contain products of parts, which overflow for a large z. There
# asin(z) is the angle atan2(x, |y|) and log |2 z|, up to terms of 1 / z**2.
def _asin(z: Pair) -> Pair:
    below, above = _sqrt((1 - z[0], -z[1])), _sqrt((1 + z[0], z[1]))
    re = s.atan2(z[0], below[0] * above[0] - below[1] * above[1])
    im = s.asinh(below[0] * above[1] - below[1] * above[0])
    return _or_limit(z, (re, im), s.atan2(z[0], s.abs(z[1])), z[1])


def _acos(z: Pair) -> Pair:
    below, above = _sqrt((1 - z[0], -z[1])), _sqrt((1 + z[0], z[1]))
    im = s.asinh(above[0] * below[1] - above[1] * below[0])
    return _or_limit(z, (2 * s.atan2(below[0], above[0]), im), s.atan2(s.abs(z[1]), z[0]), -z[1])


def _acosh(z: Pair) -> Pair:
    below, above = _sqrt((z[0] - 1, z[1])), _sqrt((z[0] + 1, z[1]))
    re = s.asinh(below[0] * above[0] + below[1] * above[1])
    im, re = _or_limit(z, (2 * s.atan2(below[1], above[0]), re), s.atan2(z[1], z[0]), constant(1.0))
    return re, im


def _or_limit(z: Pair, near: Pair, angle: Any, sign: Any) -> Pair:
    modulus = s.hypot(z[0], z[1])
    far = modulus > 1e8
    return s.where(far, angle, near[0]), s.where(far, s.copysign(s.log(modulus) + _LN2, sign), near[1])


def _atanh(z: Pair) -> Pair:
    """Use log1p for the real part; for a large z that of 1 / z, in which no square overflows."""
    x, y = z
    large = s.hypot(x, y) > 1e8
    a, b = s.where(large, 0.0, s.abs(x)), s.where(large, 0.0, y)
    near = 0.25 * s.log1p(4 * a / ((1 - a) * (1 - a) + b * b))
    far = s.where(s.logical_or(s.isinf(x), s.isinf(y)), 0.0, s.abs(_divide(_ONE, z)[0]))
    angle = 0.5 * s.atan2(2 * b, (1 - a) * (1 + a) - b * b)
    re = s.copysign(s.where(large, far, near), x)
    return re, s.where(large, s.copysign(math.pi / 2, y), angle)


def _pow(x: Pair, y: Pair) -> Pair:
    re, im = _exp(_multiply(y, _log(x)))
    zero, none = _equals(x, _NOTHING), _equals(y, _NOTHING)
    at_zero = s.where(s.logical_and(y[0] > 0, s.isfinite(y[0])), 0.0, math.nan)
    re = s.where(none, 1.0, s.where(zero, at_zero, re))
    return re, s.where(none, 0.0, s.where(zero, at_zero, im))


def _sign(z: Pair) -> Pair:
    modulus = s.hypot(z[0], z[1])
    endless, zero = s.isinf(modulus), modulus == 0
    scale = s.where(s.logical_or(zero, endless), 1.0, modulus)

    def part(x: Any) -> Any:
        return s.where(endless, s.where(s.isinf(x), s.copysign(1.0, x), 0.0), x / scale)

    return part(z[0]), part(z[1])


def _fma(x: Pair, y: Pair, z: Pair) -> Pair:
    product = _multiply(x, y)
    return product[0] + z[0], product[1] + z[1]


_FUNCTIONS: Final[dict[str, Callable[..., Pair]]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[0], x[1] - y[1]),
    "negative": lambda z: (-z[0], -z[1]),
    "multiply": _multiply, "divide": _divide, "pow": _pow, "fma": _fma, "sign": _sign,
    "square": lambda z: _multiply(z, z),
    "reciprocal": lambda z: _divide(_ONE, z),
    "rsqrt": lambda z: _divide(_ONE, _sqrt(z)),
    "abs": lambda z: (s.hypot(z[0], z[1]), _ZERO),
    "round": lambda z: (s.round(z[0]), s.round(z[1])),
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "sqrt": _sqrt,
    "exp2": lambda z: _exp(_scaled(z, _LN2)),
    "log2": lambda z: _scaled(_log(z), 1 / _LN2),
    "log10": lambda z: _scaled(_log(z), 1 / math.log(10)),
    "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "sin": _turned(_sinh), "cos": lambda z: _cosh((-z[1], z[0])), "tan": _turned(_tanh),
    "asin": _asin, "acos": _acos, "acosh": _acosh, "atanh": _atanh,
    "asinh": _turned(_asin), "atan": _turned(_atanh),
}  # fmt: skip

# Functions that may be complex for real operands, or whose limits for a real part differ.
_LEAVES_THE_REALS: Final = frozenset([
    "sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "asin", "acos", "acosh", "atanh",
])  # fmt: skip

_CONDITIONS: Final[dict[str, Callable[..., Any]]] = {
    "equal": _equals,
    "not_equal": lambda x, y: s.logical_not(_equals(x, y)),
    "isnan": lambda z: s.logical_or(s.isnan(z[0]), s.isnan(z[1])),
    "isinf": lambda z: s.logical_or(s.isinf(z[0]), s.isinf(z[1])),
    "isfinite": lambda z: s.logical_and(s.isfinite(z[0]), s.isfinite(z[1])),
    **{
        name: lambda *operands, name=name: make(name, *[re for re, _ in operands])
        for name in (
            "less", "less_equal", "greater", "greater_equal", "signbit",
            "logical_and", "logical_or", "logical_xor", "logical_not",
        )
    },
}  # fmt: skip
