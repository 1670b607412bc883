"""Parts of mathematical functions by the instructions of AVX-512 for exponents and reciprocals.

Note [Exponents in one instruction]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``scalef`` multiplies by a power of two, with the results of IEEE 754 for subnormal numbers and beyond the range;
``getexp`` and ``getmant`` take a number apart, subnormal ones included; ``rcp14`` and ``rsqrt14`` approximate to 14
bits, from which one or two of Newton's steps lead to the full precision in half the time of a division. They take the
place of functions of this package (``or_instruction``) for vectors that fill a register, which all loops over
expressions have: in a cache, ``exp`` takes 0.8 of its time, ``log`` 0.75 and ``erfc`` 0.8. ``exp`` of float64 takes a
fraction of the exponent from a table of 16 numbers in two registers. Errors are within the bounds that the docstrings
state; the polynomial of ``log`` for float32 was fitted for the range of ``getmant``, [3/4, 3/2). Guarded by
``tests/backends/test_expressions.py::test_exponent_instructions``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from ..llvm import Value, bitcast, constant, f32, f64, fma, i32, i64, select, sqrt, vector
from ..llvm.values import body, emit
from ..processor import has_feature
from . import T
from .operations import rarely

__all__ = ["fills_register", "or_instruction", "reciprocal_root", "root"]

_MAGIC: Final = 12582912.0 + 254.0  # MAGIC_SPLIT of exponentials.py
_WIDE_MAGIC: Final = 6755399441055744.0 + 2046.0
_LN2_UPPER: Final = 0.69314575
_LN2_LOWER: Final = 1.4286068e-06
# (log(1 + f) - f + f**2 / 2) / f**3 on -1/4 <= f <= 1/2, error of log 2**-30.0
_LOG: Final = (
    0.33333340287208557, -0.2500016391277313, 0.19999603927135468, -0.16655294597148895, 0.14276258647441864,
    -0.1272784173488617, 0.11700555682182312, -0.0911564975976944, 0.03766806423664093,
)  # fmt: skip


def fills_register(x: Any) -> bool:
    """Tell whether the instructions exist for a value: a vector of 64 bytes, on a processor with AVX-512."""
    if not isinstance(x, Value) or x.type.kind != "f" or x.type.lanes * x.type.scalar.size != 64:
        return False
    return has_feature("avx512f")


def _instruction(name: str, *operands: Value | int, rounds: bool = True, merges: bool = False) -> Value:
    """Call the instruction for all lanes; integers are immediate operands."""
    T = operands[0].type  # type: ignore[union-attr]
    mask, letters = ("i16", "ps") if T.scalar == f32 else ("i8", "pd")
    full = [
        ("i32", f"i32 {operand}") if isinstance(operand, int) else (operand.type.ir, operand.text)
        for operand in operands
    ]
    full += [*([] if merges else [(T.ir, f"{T.ir} zeroinitializer")]), (mask, f"{mask} -1")]
    full += [("i32", "i32 4")] if rounds else []
    name = f"llvm.x86.avx512.{name}.{letters}.512"
    body().declare(f"declare {T.ir} @{name}({', '.join(kind for kind, _ in full)})")
    return emit(T, f"call {T.ir} @{name}({', '.join(text for _, text in full)})")


def _scaled(value: Value, shifted: Value) -> Value:
    return _instruction("mask.scalef", value, shifted - (_MAGIC if value.type.scalar == f32 else _WIDE_MAGIC))


def _split(x: Value) -> tuple[Value, Value]:
    # x = 2**k * (1 + f) with 3/4 <= 1 + f < 3/2, NaN for negative numbers
    m = _instruction("mask.getmant", x, 11)
    return _instruction("mask.getexp", x) - _instruction("mask.getexp", m), m - 1.0


def _reciprocal(y: Value) -> Value:
    inverse = _instruction("rcp14", y, rounds=False)
    return inverse if y.type.scalar == f32 else fma(inverse, fma(-inverse, y, 1.0), inverse)


def _over(x: Any, y: Any) -> Value:
    inverse = _reciprocal(y)
    if not isinstance(x, Value):
        x = constant(y.type, x)
    ratio = x * inverse
    return fma(fma(-ratio, y, x), inverse, ratio)


def _over_next(x: Value) -> Value:
    inverse = _reciprocal(x + 1.0)
    ratio = x * inverse
    return fma(fma(-ratio, x, x - ratio), inverse, ratio)  # not spoilt by the rounding of x + 1


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    result = constant(x.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = fma(result, x, coefficient)
    return result


# The answers of ``fixupimm``, four bits for each class: quiet NaN, signaling NaN, 0, 1, -inf, inf, negative, positive.
# The result: 0; the argument, quiet: 2; NaN: 3; -inf: 4; inf: 5.
_OF_LOGARITHM: Final = 0x03530422


def _logarithm_cases(x: Value, value: Value) -> Value:
    table = constant(vector(i32 if x.type.scalar == f32 else i64, x.type.lanes), _OF_LOGARITHM)
    return _instruction("mask.fixupimm", value, x, table, 0, merges=True)


def _log(x: Value) -> Value:
    k, f = _split(x)
    square = f * f
    tail = fma(f * square, _polynomial(f, _LOG), k * _LN2_LOWER)
    return _logarithm_cases(x, fma(k, _LN2_UPPER, f - (square * 0.5 - tail)))


_STEPS_OF_EXP: Final = 6755399441055744.0 / 16  # a sum with it is rounded to a multiple of 1/16
_LOG2_E: Final = 1.4426950408889634
_LN2: Final = 0.6931471805599453
_LN2_REST: Final = 2.3190468138462996e-17
# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 32, error of exp 2**-56.2
_EXP: Final = (0.5000000000000006, 0.1666666666441786, 0.04166666665965023, 0.008333471923596738, 0.0013889129091406677)
_ROOTS_OF_2: Final = (  # 2**(k / 16)
    1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484,
    1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407,
    1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474,
)  # fmt: skip


def _looked_up(table: tuple[float, ...], places: Value) -> Value:
    """Return for each lane one of 16 numbers, chosen by the lowest bits of its place."""
    T = vector(f64, 8)
    halves = [", ".join(f"double {number!r}" for number in table[k : k + 8]) for k in (0, 8)]
    body().declare(f"declare {T.ir} @llvm.x86.avx512.vpermi2var.pd.512({T.ir}, {places.type.ir}, {T.ir})")
    operands = f"{T.ir} <{halves[0]}>, {places.text}, {T.ir} <{halves[1]}>"
    return emit(T, f"call {T.ir} @llvm.x86.avx512.vpermi2var.pd.512({operands})")


def _exp(x: Value) -> Value:
    # x = (n + k / 16) log(2) + r
    far = x < -746.0  # rounds to 0
    x = select(far, 0.0, select(x > 710.0, 710.0, x))
    shifted = fma(x, _LOG2_E, _STEPS_OF_EXP)
    n = shifted - _STEPS_OF_EXP
    r = fma(-n, _LN2_REST, fma(-n, _LN2, x))
    power = _looked_up(_ROOTS_OF_2, bitcast(shifted, i64))
    power = fma(power, fma(r * r, _polynomial(r, _EXP), r), power)
    return select(far, 0.0, _instruction("mask.scalef", power, n))  # by the whole part of n


def root(x: Value) -> Value:
    """Return sqrt(x), correctly rounded; float64 takes half the time of the instruction.

    Newton's last step, from an approximation within 2 ulp, errs by less than 2**-101 of the root before it is rounded.
    So only the few numbers whose roots lie that close to the middle between two floats could be rounded wrongly; the
    test computes them all. Source: Markstein, IA-64 and Elementary Functions (2000). Guarded by
    ``tests/backends/test_expressions.py::test_hardest_roots``.
    """
    if not fills_register(x) or x.type.scalar == f32:
        return sqrt(x)
    is_zero = x == 0.0
    near = select(is_zero, 1.0, x)
    inverse = _instruction("rsqrt14", near, rounds=False)
    result, half = near * inverse, inverse * 0.5
    for _ in range(2):
        missing = fma(-result, half, 0.5)
        result, half = fma(result, missing, result), fma(half, missing, half)
    result = select(is_zero, x, fma(fma(-result, result, near), half, result))
    unusual = (x < 2.0**-900) & (x != 0.0) | (x > 2.0**900)
    return rarely(unusual, result, lambda: sqrt(x))  # type: ignore[no-any-return]


_IN_PLACE_OF: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "_scale": (_scaled, "float32 float64"), "_over": (_over, "float32 float64"),
    "_over_next": (_over_next, "float32 float64"), "log": (_log, "float32"), "exp": (_exp, "float64"),
    "_split_any": (_split, "float64"), "_logarithm_cases": (_logarithm_cases, "float32 float64"),
}  # fmt: skip
"""Functions of this package, and for which types instructions compute them."""


def or_instruction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Use the AVX-512 version of a function for vectors that fill a register, where the processor has it."""
    special, names = _IN_PLACE_OF[function.__name__]
    if f"float{T.bits}" not in names:
        return function

    @functools.wraps(function)
    def either(*operands: Any) -> Any:
        last = operands[0] if isinstance(operands[0], Value) else operands[1]
        return (special if fills_register(last) else function)(*operands)

    return either


_EVEN_POWERS: Final = {f32: 64, f64: 512}  # of 2, half of the range of normal numbers


def reciprocal_root(x: Value) -> Value:
    """Return 1 / sqrt(x). Error below 1 ulp.

    The quotient ``1 / sqrt(x)`` errs by up to 1.5 ulp. A root halves the relative error of its argument, so the root of
    the reciprocal is better; `x` is scaled, because the reciprocals of the least and the greatest numbers are not
    normal.
    """
    if fills_register(x) and x.type.scalar == f32:
        near = _instruction("rsqrt14", x, rounds=False)
        missing = fma(-(x * near), near, 1.0)
        return select(missing == missing, fma(near * 0.5, missing, near), near)  # at 0 and infinity it is NaN
    power = _EVEN_POWERS[x.type.scalar]
    x = select(x < -1.0, -1.0, x)  # the reciprocal of -inf, -0.0, is its own root

    def scale(power: int) -> Value:
        return select(x < 1.0, constant(x.type, 2.0**power), constant(x.type, 2.0**-power))

    inverse = 1.0 / (x * scale(power))
    root = sqrt(inverse) * scale(power // 2)
    return select(inverse == float("-inf"), inverse, root)  # for -0.0, whose root would be NaN
