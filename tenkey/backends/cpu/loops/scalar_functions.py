"""The scalar functions of ``tenkey.backends.libm`` on values of compiled code.

Note [Scalar functions run on values]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The functions of ``libm`` are straight-line Python: arithmetic, comparisons and the operations of ``libm/bits.py``. Here
the same source is executed with other operations under these names, which take values, vectors or single numbers, and
write instructions. So a loop gets the vector code of a function by calling it. The files are executed once for each
dtype, from the bytecode that Python keeps, in modules of their own, in which ``each(float32, float64)`` chooses.
Guarded by ``tests/backends/test_expressions.py``.
"""

from __future__ import annotations

import builtins
import importlib.util
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

from ... import libm
from ...llvm import (
    Type,
    Value,
    bitcast,
    call_external,
    ceil,
    constant,
    convert,
    copysign,
    f32,
    f64,
    fabs,
    floor,
    fma,
    i1,
    i32,
    i64,
    intrinsic,
    load,
    loop,
    rint,
    select,
    sqrt,
    stack,
    store,
    trunc,
    vector,
)
from .exponents import use_instructions

__all__ = ["any_lane", "by_lane", "scalar_functions"]


def any_lane(condition: Value) -> Value:
    """Return whether a condition holds in any lane."""
    return intrinsic("vector.reduce.or", condition, result=i1) if condition.type.is_vector else condition


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


def by_lane(name: str, *operands: Value) -> Value:
    """Call a function of the C library for each lane; ``name`` is that for double precision."""
    T = operands[0].type.scalar
    name += "f" if f32 == T else ""
    lanes = operands[0].type.lanes
    if lanes == 1:
        return call_external(name, *operands, returns=T)
    one = _each_lane1 if len(operands) == 1 else _each_lane2
    return one(*operands, NAME=name, T=T, LANES=lanes)  # type: ignore[no-any-return]


@loop(inline=True)
def _rarely(asks, usual, name, operands):  # type: ignore[no-untyped-def]
    """Return ``usual``, or what the C library answers where a condition holds, which is rare."""
    result = usual
    if any_lane(asks):
        result = select(asks, by_lane(name, *operands), usual)
    return result


def _library(name: str) -> Callable[[Value, Any], Value]:
    def function(x: Value, limit: Any) -> Value:
        return _rarely(fabs(x) > limit, x, name, (x,))  # type: ignore[no-any-return]

    return function


def _library_fmod(rest: Value, x: Value, y: Value) -> Value:
    return _rarely(fabs(rest) == float("inf"), rest, "fmod", (x, y))  # type: ignore[no-any-return]


def _horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    result: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * x + coefficient  # contracted where the processor has the instruction
    return result  # type: ignore[no-any-return]


def _converter(type_: Type, kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what ``np.float32`` and the like are in the source: a conversion of values, and numbers stay numbers."""
    return lambda x: convert(x, type_) if isinstance(x, Value) else kind(x)


_NUMPY: Final = SimpleNamespace(
    float32=_converter(f32, float), float64=_converter(f64, float), int32=_converter(i32, int),
    int64=_converter(i64, int), inf=float("inf"), nan=float("nan"),
)  # fmt: skip


def _bits(T: Type) -> SimpleNamespace:
    """Return the operations of ``bits.py`` for functions of this type."""

    def choose(condition: Value, chosen: Any, otherwise: Any) -> Value:
        if not isinstance(chosen, Value) and not isinstance(otherwise, Value):
            chosen = constant(vector(T, condition.type.lanes), chosen)
        return select(condition, chosen, otherwise)

    return SimpleNamespace(
        bits_from_float32=lambda x: bitcast(x, i32), bits_from_float64=lambda x: bitcast(x, i64),
        float32_from_bits=lambda x: bitcast(convert(x, i32), f32),
        float64_from_bits=lambda x: bitcast(convert(x, i64), f64),
        horner=_horner, library_sin=_library("sin"), library_cos=_library("cos"), library_tan=_library("tan"),
        library_fmod=_library_fmod, llvm_ceil=ceil, llvm_copysign=copysign, llvm_fabs=fabs, llvm_floor=floor,
        llvm_fma=fma, llvm_rint=rint, llvm_select=choose, llvm_sqrt=sqrt, llvm_trunc=trunc,
    )  # fmt: skip


_FILES: Final = ("exponentials", "gaussian_integrals", "logarithms", "angles", "division", "powers")
_DOUBLE_FILES: Final = (*_FILES, "gammas")


@cache
def scalar_functions(T: Type) -> dict[str, Callable[..., Any]]:
    """Return the functions of libm for values of type ``f32`` or ``f64``, by name."""
    modules: dict[str, Any] = {
        "_source": SimpleNamespace(each=lambda *both: both[f32 != T]), "bits": _bits(T), "numpy": _NUMPY,
    }  # fmt: skip

    def imported(name: str, scope: Any = None, local: Any = None, names: Any = (), level: int = 0) -> Any:
        if name in modules:
            return modules[name]
        return _loaded(name) if level else builtins.__import__(name, scope, local, names, level)

    def _loaded(name: str) -> Any:
        whole = f"{libm.__name__}.{name}"
        spec = importlib.util.find_spec(whole)
        code = None if spec is None else spec.loader.get_code(whole)  # type: ignore[union-attr]
        assert code is not None
        scope: dict[str, Any] = {"__name__": whole, "__package__": libm.__name__}
        scope["__builtins__"] = {**vars(builtins), "__import__": imported}
        exec(code, scope)
        use_instructions(scope)
        modules[name] = SimpleNamespace(**scope)
        return modules[name]

    found: dict[str, Callable[..., Any]] = {}
    for file in _DOUBLE_FILES if f64 == T else _FILES:
        module = _loaded(file)
        found |= {name: getattr(module, name) for name in module.__all__ if name.islower()}
    return found
