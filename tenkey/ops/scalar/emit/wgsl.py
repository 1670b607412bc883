"""How WGSL, the shading language of WebGPU, writes values, operations and functions.

Note [NaN in WGSL]
~~~~~~~~~~~~~~~~~~
A compiler of WGSL may assume that there are neither NaN nor infinities, and refuses constants that are one. NaN is
therefore recognised by its bits, and infinite constants are made of bits in a function, which is not evaluated at
compile time. The accuracy of the built-in functions is that of the device (`sin` has an absolute error, `atan` one of
4096 units in the last place), hence `exp`, `log`, `sin`, `cos`, `atan` and `pow` are written here, and the other
functions are expressed by them. Subnormal numbers may be replaced by zero. Guarded by
``tests/printers/test_dialects.py``.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from typing_extensions import override

from ..expansions import EXPANSIONS
from .dialects import WGSLDialect
from .wgsl_helpers import HELPERS
from .writer import Writer

__all__ = ["WGSLWriter"]


class WGSLWriter(Writer):
    """The printer of `WGSL`."""

    language: WGSLDialect
    lacking = tuple(name for name in EXPANSIONS if name not in {"exp2", "log2"})

    def __init__(self, language: WGSLDialect, dtype: str, name: str) -> None:
        super().__init__(language, dtype, name)
        self.statements = {
            "number": f"let {{name}}: {self.type} = {{expr}};", "boolean": "let {name}: bool = {expr};",
        }  # fmt: skip
        if not self.is_float:
            self.lacking = ()

    # ---- values

    @override
    def load(self, text: str, source: str) -> tuple[str, ...]:
        parts = (f"{text}.x", f"{text}.y") if source == "complex64" else (text,)
        kind = "float32" if source in ("float16", "complex64") else source
        given = [f"f32({part})" if source == "float16" else part for part in parts]
        return tuple([self.cast(value, kind, self.compute) for value in given])

    @override
    def condition(self, text: str, source: str) -> str:
        parts = (f"{text}.x", f"{text}.y") if source == "complex64" else (text,)
        zero = f"{self.language.types[source]}(0)" if len(parts) == 1 else "0f"
        return "!(" + " && ".join([f"{part} == {zero}" for part in parts]) + ")"

    @override
    def store(self, values: list[str], source: str, target: str) -> str:
        if target == "complex64":
            parts = [self._number(value, source, "float32") for value in values]
            return f"vec2<f32>({parts[0]}, {parts[1] if len(parts) > 1 else '0f'})"
        if target == "float16":
            return f"f16({self._number(values[0], source, 'float32')})"
        return self._number(values[0], source, target)

    def _number(self, value: str, source: str, target: str) -> str:
        if source == "condition":
            value, source = f"select(0u, 1u, {value})", "bool"
        return self.cast(value, source, target)

    def cast(self, text: str, source: str, target: str) -> str:
        """Convert a number of dtype ``source``, of which bool is a number 0 or 1, to ``target``."""
        if source == target:
            return text
        if target == "bool":
            zero = {"float32": "0f", "int32": "0i"}.get(source, "0u")
            return f"select(1u, 0u, {text} == {zero})"  # NaN is true, and `!=` may be false for it
        return f"{self.language.types[target]}({text})"

    @override
    def truth(self, value: bool) -> str:
        return "true" if value else "false"

    @override
    def literal(self, value: float) -> str:
        bits = int.from_bytes(struct.pack(">f", value), "big")
        if (value != 0 and not 2.0**-126 <= abs(value) < math.inf) or bits == 1 << 31:
            return self.call("bits", f"{bits}u")
        text = f"{value!r}f"
        return f"({text})" if value < 0 else text

    @override
    def integer(self, value: int) -> str:
        if self.compute != "int32":
            return f"{value}u"
        return f"i32({value - (1 << 32) if value >> 31 else value})"

    # ---- operations

    @override
    def entries(self) -> dict[str, Any]:
        common: dict[str, Any] = {"where": "select({2}, {1}, {0})"}
        if self.is_float:
            return common | self._float_entries()
        if self.dtype == "bool":
            return common | {"bitwise_invert": "(1u - {0})"}
        signed = self.dtype == "int32"
        zero = "0i" if signed else "0u"
        return common | {
            "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "negative": f"({zero} - {{0}})",
            "square": "({0} * {0})",
            "abs": "select({0}, 0i - {0}, {0} < 0i)" if signed else "{0}",
            "sign": "(select(0i, 1i, {0} > 0i) - select(0i, 1i, {0} < 0i))" if signed else "min({0}, 1u)",
            "maximum": "max({0}, {1})", "minimum": "min({0}, {1})", "bitwise_and": "({0} & {1})",
            "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})", "bitwise_invert": "(~{0})",
            "signbit": "({0} < 0i)" if signed else "false",
        }  # fmt: skip

    def _float_entries(self) -> dict[str, Any]:
        magnitude = "(bitcast<u32>({0}) & 0x7fffffffu)"
        named = "exp exp2 log log2 sin cos atan pow copysign nextafter floor_divide remainder digamma trigamma"
        return {
            "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "divide": "({0} / {1})",
            "negative": "(-{0})", "sqrt": "sqrt({0})", "not_equal": "!({0} == {1})",
            "abs": f"bitcast<f32>({magnitude})",
            **{name: f"{name}({{0}})" for name in ("floor", "ceil", "trunc", "round")},
            "isnan": f"({magnitude} > 0x7f800000u)", "isinf": f"({magnitude} == 0x7f800000u)",
            "isfinite": f"({magnitude} < 0x7f800000u)", "signbit": "(bitcast<u32>({0}) >= 0x80000000u)",
            "maximum": f"select({{1}}, {{0}}, {{0}} > {{1}} || {magnitude} > 0x7f800000u)",
            "minimum": f"select({{1}}, {{0}}, {{0}} < {{1}} || {magnitude} > 0x7f800000u)",
            "sign": "select(select(select({0}, -1f, {0} < 0f), 1f, {0} > 0f), 0f, {0} == 0f)",
            **{name: self.helper(name) for name in named.split()},
        }  # fmt: skip

    # ---- functions

    @override
    def helper_source(self, key: str) -> str:
        source = HELPERS.get((key, self.compute)) or HELPERS[key, "any"]
        return self.filled(source, {"NAME": f"{self.name}_{key}", "T": self.type}, {})

    @override
    def function(self, parameters: list[tuple[str, str]], loads: list[tuple[str, str, str]], body: list[str],
                 value: str, result: str) -> str:  # fmt: skip
        types = self.language.types
        head = ", ".join(f"{name}: {types[dtype]}" for name, dtype in parameters)
        lines = [f"fn {self.name}({head}) -> {types[result]} {{"]
        lines += [f"    {self.statements[kind].format(name=name, expr=text)}" for name, kind, text in loads]
        return "\n".join([*lines, *body, f"    return {value};", "}", ""])
