"""Operations on values that the functions of this package are made of, besides those of ``llvm``.

Note [Rare slow path]
~~~~~~~~~~~~~~~~~~~~~
Reducing a huge argument modulo pi takes far more work than the rest of a sine, and huge arguments are rare. So
``library_beyond(limit, "sin", x)`` is ``x`` unless some lane is beyond the limit; only then does it ask the C library,
whose reduction is exact, lane by lane. ``library_fmod(rest, x, y)`` does the same for the remainder of huge quotients:
an infinite ``rest`` asks the C library. Logarithms ask whether all lanes are normal numbers; choosing among the special
results in every vector took 0.3 of the time of ``log`` with AVX2. Guarded by
``tests/backends/test_libm.py::test_huge_angles``, ``test_huge_quotients`` and ``test_special_lanes_of_logarithms``.
"""

from __future__ import annotations

from typing import Any

from ..llvm import (
    Type,
    Value,
    bitcast,
    call_external,
    constant,
    f32,
    f64,
    fabs,
    i1,
    i32,
    i64,
    intrinsic,
    load,
    loop,
    stack,
    store,
    vector,
)
from ..llvm import select as _select
from . import T

__all__ = [
    "bits_from_float", "each", "float_from_bits", "horner", "library_beyond", "library_fmod", "rarely", "select",
]  # fmt: skip


def each(float32: Any, float64: Any) -> Any:
    """Choose by the precision of this copy of the package."""
    return float32 if f32 == T else float64


def select(condition: Value, chosen: Any, otherwise: Any) -> Value:
    """Return ``chosen`` where the condition holds and ``otherwise`` elsewhere; two numbers have the type ``T``."""
    if not isinstance(chosen, Value) and not isinstance(otherwise, Value):
        chosen = constant(vector(T, condition.type.lanes), chosen)
    return _select(condition, chosen, otherwise)


def bits_from_float(x: Value) -> Value:
    """Return the bits of floats as signed integers of the same size."""
    return bitcast(x, i32 if x.type.scalar == f32 else i64)


def float_from_bits(bits: Value) -> Value:
    """Return the floats that have these bits, as signed integers of the same size."""
    return bitcast(bits, f32 if bits.type.scalar == i32 else f64)


def horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Evaluate a polynomial, given from the constant term on, by Horner's rule."""
    result: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient  # contracted where the processor has the instruction
    return result  # type: ignore[no-any-return]


@loop(inline=False)
def _each_lane1(x: vector(T, LANES), *, NAME: str, T: Type, LANES: int) -> vector(T, LANES):
    values = stack(T, LANES)
    store(values, x)
    for lane in range(LANES):
        values[lane] = call_external(NAME, values[lane], returns=T)
    return load(values, LANES)


@loop(inline=False)
def _each_lane2(x: vector(T, LANES), y: vector(T, LANES), *, NAME: str, T: Type, LANES: int) -> vector(T, LANES):
    values, others = stack(T, LANES), stack(T, LANES)
    store(values, x)
    store(others, y)
    for lane in range(LANES):
        values[lane] = call_external(NAME, values[lane], others[lane], returns=T)
    return load(values, LANES)


def _by_lane(name: str, *operands: Value) -> Value:
    """Call a function of the C library for each lane; ``name`` is that for double precision."""
    T = operands[0].type.scalar
    name += "f" if f32 == T else ""
    lanes = operands[0].type.lanes
    if lanes == 1:
        return call_external(name, *operands, returns=T)
    one = _each_lane1 if len(operands) == 1 else _each_lane2
    return one(*operands, NAME=name, T=T, LANES=lanes)  # type: ignore[no-any-return]


def _any_lane(condition: Value) -> Value:
    return intrinsic("vector.reduce.or", condition, result=i1) if condition.type.is_vector else condition


@loop(inline=True)
def rarely(asks, usual, otherwise):  # type: ignore[no-untyped-def]
    """Return ``usual``, or what ``otherwise()`` computes if a condition holds for some lane: a branch, seldom taken."""
    result = usual
    if _any_lane(asks):
        result = otherwise()
    return result


def library_beyond(limit: Any, name: str, x: Value) -> Value:
    """Return ``x``, but the C library's function of ``x`` where its magnitude is beyond a limit."""
    asks = fabs(x) > limit
    return rarely(asks, x, lambda: _select(asks, _by_lane(name, x), x))  # type: ignore[no-any-return]


def library_fmod(rest: Value, x: Value, y: Value) -> Value:
    """Return ``rest``, or C's ``fmod(x, y)`` where it is infinite."""
    asks = fabs(rest) == float("inf")
    return rarely(asks, rest, lambda: _select(asks, _by_lane("fmod", x, y), rest))  # type: ignore[no-any-return]
