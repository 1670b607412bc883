"""Scalar expressions as functions in numba.cuda's language, for all dtypes.

Note [Expressions in kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel's text contains each expression as a function of typed numbers, which the compiler inlines. The rules are those
of the other printers (``docs/printers.md``): integers wrap around, NaN wins in ``maximum``, floats of 16 bits arrive as
the bits of a uint16 and are computed in float32, bools are bytes. A complex number is two parameters, its parts, and a
complex result a tuple of two. The transcendental functions are those of libdevice, of which the float32 ones compute in
float32 alone, except the argument reduction of large angles. Guarded by
``tests/backends/cuda/kernels/test_emission.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from typing_extensions import override

from ....ops.scalar import Expression
from ....ops.scalar.emit.c import print_function
from ....ops.scalar.emit.writer import Writer

__all__ = ["TYPES", "NumbaWriter", "parts_count", "to_numba"]

TYPES: Final[Mapping[str, str]] = {
    "bool": "uint8", "float16": "uint16", "bfloat16": "uint16", "complex64": "float32", "complex128": "float64",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    "float32": "float32", "float64": "float64",
}  # fmt: skip
"""The types in which elements are passed; of a complex dtype that of its two parts."""


def parts_count(dtype: str) -> int:
    """Return the number of parts of an element."""
    return 2 if dtype.startswith("complex") else 1


_LANGUAGE: Final = SimpleNamespace(name="numba.cuda", types=TYPES, index="int64")
# Names in the scope of kernels: numba's types, modules, and intrinsics that occur in the source of an expression.
_SCOPE: Final = frozenset([
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "cuda",
    "math", "np", "libdevice", "select", "divide", "negative", "round_odd", "INFINITY", "NAN",
])  # fmt: skip
_UNARY: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "floor", "ceil", "trunc", "sqrt",
)  # fmt: skip
_BINARY: Final = ("pow", "atan2", "hypot", "copysign", "nextafter")


def to_numba(
    expression: Expression, parameters: Mapping[str, str], *, dtype: str, result: str | None = None,
    name: str = "scalar",
) -> str:  # fmt: skip
    """Return the source of a device function ``name`` that computes ``expression``, preceded by its helpers.

    The arguments are those of ``tk.library.scalar.to_c``. Raises NotImplementedError for what cannot be written.

    >>> from tenkey.ops.scalar import exp, variable
    >>> print(to_numba(1 / (1 + exp(-variable("x"))), {"x": "float32"}, dtype="float32", name="sigmoid"))
    def sigmoid(x_):
        x = x_
        t0 = negative(x)
        t1 = libdevice.expf(t0)
        t2 = (float32(1.0) + t1)
        t3 = divide(float32(1.0), t2)
        return t3
    <BLANKLINE>
    """
    return print_function(
        expression, parameters, dtype=dtype, result=result, name=name, writer=NumbaWriter, language=_LANGUAGE
    )


class NumbaWriter(Writer):
    """The printer of numba.cuda's language."""

    reserved = _SCOPE

    def __init__(self, language: Any, dtype: str, name: str) -> None:
        super().__init__(language, dtype, name)
        self.statements = dict.fromkeys(("number", "boolean"), "{name} = {expr}")
        self.suffix = "f" if self.compute == "float32" else ""
        # That of libdevice overflows beside the largest float64, although the length is finite.
        self.lacking = ("hypot",) if self.compute == "float64" else ()

    # ---- values

    @override
    def load(self, text: str, source: str) -> tuple[str, ...]:
        values, dtype = self._unpacked(text, source)
        if self.is_rounded(source):
            values, dtype = self._unpacked(self.store([*values], dtype, self.dtype), self.dtype)
        return tuple([self.cast(value, dtype, self.compute) for value in values])

    def _unpacked(self, text: str, source: str) -> tuple[tuple[str, ...], str]:
        """Return a parameter as numbers of an elementary dtype, and that dtype."""
        if source in ("float16", "bfloat16"):
            return (f"from_{source}({text})",), "float32"
        if source.startswith("complex"):
            return (f"{text}_re", f"{text}_im"), TYPES[source]
        return (text,), source

    @override
    def condition(self, text: str, source: str) -> str:
        values, dtype = self._unpacked(text, source)
        return "(" + " | ".join([f"({value} != {TYPES[dtype]}(0))" for value in values]) + ")"

    @override
    def store(self, values: list[str], source: str, target: str) -> str:
        if target.startswith("complex"):
            part = TYPES[target]
            parts = [self.cast(value, source, part) for value in values]
            return f"({parts[0]}, {parts[1] if len(parts) > 1 else f'{part}(0)'})"
        value = values[0]
        if target not in ("float16", "bfloat16"):
            return self.cast(value, source, target)
        value = f"round_odd({value})" if source == "float64" else self.cast(value, source, "float32")
        return f"to_{target}({value})"

    def cast(self, text: str, source: str, target: str) -> str:
        """Convert a value of dtype ``source`` to ``target``; neither is complex or has 16 bits of a float."""
        if source == target:
            return text
        kind = TYPES[target]
        if source == "condition":
            return f"select({text}, {kind}(1), {kind}(0))"
        if target == "bool":
            return f"select({text} != {TYPES[source]}(0), uint8(1), uint8(0))"
        if source.startswith("float") and not target.startswith("float"):
            whole = f"to_{'uint64' if target == 'uint64' else 'int64'}({text})"
            return whole if target in ("int64", "uint64") else f"{kind}({whole})"
        return f"{kind}({text})"

    @override
    def truth(self, value: bool) -> str:
        return str(value)

    @override
    def literal(self, value: float) -> str:
        if math.isfinite(value):
            return f"{self.type}({value!r})"
        return f"{self.type}({'NAN' if value != value else 'INFINITY' if value > 0 else '-INFINITY'})"

    @override
    def integer(self, value: int) -> str:
        if self.dtype.startswith("int") and value >> self.bits - 1:
            value -= 1 << self.bits
        return f"{self.type}({value})"

    # ---- operations

    @override
    def entries(self) -> dict[str, Any]:
        common: dict[str, Any] = {
            "logical_and": "({0} & {1})", "logical_or": "({0} | {1})", "logical_xor": "({0} != {1})",
            "logical_not": "(not {0})", "where": "select({0}, {1}, {2})",
        }  # fmt: skip
        return common | (self._float_entries() if self.is_float else self._integer_entries())

    def _float_entries(self) -> dict[str, Any]:
        one, zero, infinity = self.literal(1.0), self.literal(0.0), self.literal(math.inf)
        absolute = f"libdevice.fabs{self.suffix}({{0}})"
        calls: dict[str, Any] = {name: f"libdevice.{name}{self.suffix}({{0}})" for name in _UNARY}
        calls |= {name: f"libdevice.{name}{self.suffix}({{0}}, {{1}})" for name in _BINARY}
        return calls | {
            "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "divide": "divide({0}, {1})",
            "negative": "negative({0})", "square": "({0} * {0})", "reciprocal": f"divide({one}, {{0}})",
            "rsqrt": f"divide({one}, {calls['sqrt']})", "fma": f"libdevice.fma{self.suffix}({{0}}, {{1}}, {{2}})",
            "abs": absolute, "round": f"libdevice.rint{self.suffix}({{0}})",
            "maximum": "select(({0} > {1}) | ({0} != {0}), {0}, {1})",
            "minimum": "select(({0} < {1}) | ({0} != {0}), {0}, {1})",
            "sign": f"select({{0}} > {zero}, {one}, select({{0}} < {zero}, {self.literal(-1.0)}, {{0}} + {zero}))",
            "isnan": "({0} != {0})", "isinf": f"({absolute} == {infinity})", "isfinite": f"({absolute} < {infinity})",
            "signbit": f"(libdevice.copysign{self.suffix}({one}, {{0}}) < {zero})",
            **{name: self.helper(name) for name in ("floor_divide", "remainder", "digamma", "trigamma")},
        }  # fmt: skip

    def _integer_entries(self) -> dict[str, Any]:
        bitwise = {
            "bitwise_and": "bit_and({0}, {1})", "bitwise_or": "bit_or({0}, {1})", "bitwise_xor": "bit_xor({0}, {1})",
            "isnan": "False", "isinf": "False", "isfinite": "True",
        }  # fmt: skip
        if self.dtype == "bool":
            return bitwise | {
                "add": "bit_or({0}, {1})", "multiply": "bit_and({0}, {1})", "maximum": "bit_or({0}, {1})",
                "minimum": "bit_and({0}, {1})", "bitwise_invert": "bit_xor({0}, uint8(1))", "abs": "{0}",
                "signbit": "False",
            }  # fmt: skip
        zero, one = self.integer(0), self.integer(1)
        signed = self.dtype.startswith("int")
        sign = f"select({{0}} > {zero}, {one}, {zero})"
        if signed:
            sign = f"select({{0}} < {zero}, {self.type}(-1), {sign})"
        return bitwise | {
            "add": "wrap_add({0}, {1})", "subtract": "wrap_subtract({0}, {1})", "multiply": "wrap_multiply({0}, {1})",
            "negative": "wrap_negative({0})", "square": "wrap_multiply({0}, {0})", "pow": self.power,
            "abs": f"select({{0}} < {zero}, wrap_negative({{0}}), {{0}})" if signed else "{0}", "sign": sign,
            "maximum": "select({0} > {1}, {0}, {1})", "minimum": "select({0} < {1}, {0}, {1})",
            "bitwise_invert": "bit_invert({0})", "signbit": f"({{0}} < {zero})" if signed else "False",
            **dict.fromkeys(("floor", "ceil", "trunc", "round"), "{0}"),
            "bitwise_left_shift": "shift_left({0}, {1})", "bitwise_right_shift": "shift_right({0}, {1})",
            "floor_divide": "whole_quotient({0}, {1})", "remainder": "whole_remainder({0}, {1})",
        }  # fmt: skip

    # ---- functions

    @override
    def helper_source(self, key: str) -> str:
        unsigned = self.type if self.type.startswith("uint") else f"u{self.type}"
        words = {"NAME": f"{self.name}_{key}", "T": self.type, "U": unsigned, "F": self.suffix}
        return self.filled(_HELPERS[key], words, {})

    @override
    def function(self, parameters: list[tuple[str, str]], loads: list[tuple[str, str, str]], body: list[str],
                 value: str, result: str) -> str:  # fmt: skip
        names: list[str] = []
        for name, dtype in parameters:
            names += [f"{name}_re", f"{name}_im"] if parts_count(dtype) == 2 else [name]
        lines = [f"    {name} = {text}" for name, _, text in loads]
        return "\n".join([f"def {self.name}({', '.join(names)}):", *lines, *body, f"    return {value}", ""])


_HELPERS: Final[dict[str, str]] = {
    "floor_divide": """\
def <NAME>(x, y):
    rest = libdevice.fmod<F>(x, y)
    quotient = divide(x - rest, y)
    quotient = select((rest != <T>(0)) & ((y < <T>(0)) != (rest < <T>(0))), quotient - <T>(1), quotient)
    whole = libdevice.floor<F>(quotient)
    whole = select(quotient - whole > <T>(0.5), whole + <T>(1), whole)
    whole = select(quotient == <T>(0), libdevice.copysign<F>(<T>(0), divide(x, y)), whole)
    return select(y == <T>(0), divide(x, y), whole)
""",
    "remainder": """\
def <NAME>(x, y):
    rest = libdevice.fmod<F>(x, y)
    moved = select((y < <T>(0)) != (rest < <T>(0)), rest + y, rest)
    moved = select(rest == <T>(0), libdevice.copysign<F>(<T>(0), y), moved)
    return select(y == <T>(0), rest, moved)
""",
    "pow": """\
def <NAME>(x, y):
    result = <T>(1)
    base = x
    n = <U>(y)
    while n != <U>(0):
        result = select(bit_and(n, <U>(1)) != <U>(0), wrap_multiply(result, base), result)
        base = wrap_multiply(base, base)
        n = shift_right(n, <U>(1))
    return result
""",
    # Recurrence, asymptotic series and reflection: Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18.
    "digamma": """\
def <NAME>(x):
    pi = <T>(3.14159265358979323846)
    fraction = libdevice.fmod<F>(x, <T>(1))
    reflected = x < <T>(0)
    below = select(reflected, negative(divide(pi, libdevice.tan<F>(pi * fraction))), <T>(0))
    z = select(reflected, <T>(1) - x, x)
    shift = <T>(0)
    while (z < <T>(10)) & (z > <T>(0)):
        shift = shift - divide(<T>(1), z)
        z = z + <T>(1)
    w = divide(<T>(1), z * z)
    series = w * (<T>(1. / 12) - w * (<T>(1. / 120) - w * (<T>(1. / 252) - w * (<T>(1. / 240)
        - w * (<T>(1. / 132) - w * (<T>(691. / 32760) - divide(w, <T>(12))))))))
    value = below + (shift + (libdevice.log<F>(z) - divide(<T>(0.5), z) - series))
    value = select(z == <T>(INFINITY), z, value)
    value = select(reflected & ((fraction == <T>(0)) | (x == <T>(-INFINITY))), <T>(NAN), value)
    return select(x == <T>(0), libdevice.copysign<F>(<T>(INFINITY), negative(x)), value)
""",
    # Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12.
    "trigamma": """\
def <NAME>(x):
    pi = <T>(3.14159265358979323846)
    fraction = libdevice.fmod<F>(x, <T>(1))
    reflected = x <= <T>(0)
    ratio = divide(pi, libdevice.sin<F>(pi * fraction))
    below = select(reflected, ratio * ratio, <T>(0))
    z = select(reflected, <T>(1) - x, x)
    shift = <T>(0)
    while (z < <T>(12)) & (z > <T>(0)):
        shift = shift + divide(<T>(1), z * z)
        z = z + <T>(1)
    w = divide(<T>(1), z * z)
    series = w * (<T>(1. / 6) - w * (<T>(1. / 30) - w * (<T>(1. / 42) - w * (<T>(1. / 30)
        - w * (<T>(5. / 66) - w * (<T>(691. / 2730) - w * <T>(7. / 6)))))))
    value = shift + divide(<T>(1) + divide(<T>(0.5), z) + series, z)
    value = select(z == <T>(INFINITY), <T>(0), value)
    value = select(reflected, below - value, value)
    return select(reflected & ((fraction == <T>(0)) | (x == <T>(-INFINITY))), <T>(INFINITY), value)
""",
}
