"""``exp`` and ``log`` of float32 by the instructions of AVX-512 that handle exponents.

Note [Exponents in one instruction]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``scalef`` multiplies by a power of two, with the results of IEEE 754 for subnormal numbers and beyond the range;
``getexp`` and ``getmant`` take a number apart, subnormal ones included. They replace the bit operations of libm: in a
cache, ``exp`` takes 0.8 of its time and ``log`` 0.75. Both are used for whole vectors of 16 elements, which all loops
over expressions have. Errors are below 1.1 ulp, as those of libm; the polynomial of ``log`` was fitted for the range of
``getmant``, [3/4, 3/2). Guarded by ``tests/backends/test_expressions.py::test_exponent_instructions``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...llvm import Value, constant, f32, fma, select
from ...llvm.values import body, emit

__all__ = ["by_exponent_instructions"]

_LANES: Final = 16
_VECTOR: Final = f"<{_LANES} x float>"
_LOG2_E: Final = 1.44269504
_LN2_HIGH: Final = 0.693359375
_LN2_LOW: Final = -0.00021219444
_MAGIC: Final = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer
# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2, error of exp 2**-28.2
_EXP: Final = (0.49999994, 0.16666517, 0.041668106, 0.008369152, 0.0013837012)
_LN2_UPPER: Final = 0.69314575
_LN2_LOWER: Final = 1.4286068e-06
# (log(1 + f) - f + f**2 / 2) / f**3 on -1/4 <= f <= 1/2, error of log 2**-30.0
_LOG: Final = (
    0.33333340287208557, -0.2500016391277313, 0.19999603927135468, -0.16655294597148895, 0.14276258647441864,
    -0.1272784173488617, 0.11700555682182312, -0.0911564975976944, 0.03766806423664093,
)  # fmt: skip


def _instruction(name: str, kinds: str, operands: str, x: Value) -> Value:
    full = f"llvm.x86.avx512.mask.{name}.ps.512"
    body().declare(f"declare {_VECTOR} @{full}({kinds})")
    return emit(x.type, f"call {_VECTOR} @{full}({operands})")


def _scalef(x: Value, n: Value) -> Value:
    kinds = f"{_VECTOR}, {_VECTOR}, {_VECTOR}, i16, i32"
    return _instruction("scalef", kinds, f"{x.text}, {n.text}, {_VECTOR} zeroinitializer, i16 -1, i32 4", x)


def _getexp(x: Value) -> Value:
    kinds = f"{_VECTOR}, {_VECTOR}, i16, i32"
    return _instruction("getexp", kinds, f"{x.text}, {_VECTOR} zeroinitializer, i16 -1, i32 4", x)


def _getmant(x: Value) -> Value:
    # the mantissa in [3/4, 3/2), NaN for negative numbers
    kinds = f"{_VECTOR}, i32, {_VECTOR}, i16, i32"
    return _instruction("getmant", kinds, f"{x.text}, i32 11, {_VECTOR} zeroinitializer, i16 -1, i32 4", x)


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    result = constant(x.type, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = fma(result, x, coefficient)
    return result


def _exp(x: Value) -> Value:
    limited = select(x > 89.0, 89.0, x)
    limited = select(limited < -104.0, -104.0, limited)
    n = fma(limited, _LOG2_E, _MAGIC) - _MAGIC
    r = fma(n, -_LN2_LOW, fma(n, -_LN2_HIGH, limited))
    return _scalef(r + r * r * _polynomial(r, _EXP) + 1.0, n)


def _log(x: Value) -> Value:
    m = _getmant(x)
    k = _getexp(x) - _getexp(m)
    f = m - 1.0
    square = f * f
    tail = fma(f * square, _polynomial(f, _LOG), k * _LN2_LOWER)
    value = fma(k, _LN2_UPPER, f - (square * 0.5 - tail))
    value = select(x > 0.0, value, select(x == 0.0, constant(x.type, -float("inf")), constant(x.type, float("nan"))))
    return select(x == float("inf"), x, value)


_FUNCTIONS: Final[dict[str, Callable[[Value], Value]]] = {"exp": _exp, "log": _log}


def by_exponent_instructions(name: str, operands: tuple[Any, ...]) -> Value | None:
    """Return the value of a function of libm, or None if the processor or the vector does not suit."""
    function = _FUNCTIONS.get(name)
    if function is None or operands[0].type.scalar != f32 or operands[0].type.lanes != _LANES:
        return None
    from ...llvm.machine_code import has_feature  # code is being translated, so LLVM is needed anyway

    return function(operands[0]) if has_feature("avx512f") else None
