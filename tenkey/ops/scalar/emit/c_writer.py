"""How the languages of the C family write values, operations and functions."""

from __future__ import annotations

import math
from typing import Any, Final

from typing_extensions import override

from .c_helpers import HELPERS
from .dialects import CDialect
from .writer import Writer

__all__ = ["CWriter"]

_LIBRARY: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "floor", "ceil", "trunc", "sqrt",
)  # fmt: skip
_RENAMED: Final = {"round": "rint", "abs": "fabs"}


class CWriter(Writer):
    """The printer of a `CDialect`."""

    language: CDialect

    def __init__(self, language: CDialect, dtype: str, name: str) -> None:
        super().__init__(language, dtype, name)
        self.unsigned = language.types["uint64" if self.bits == 64 else "uint32"]
        self.lacking = language.lacking
        self.statements = {"number": f"const {self.type} {{name}} = {{expr}};", "boolean": "const int {name} = {expr};"}

    # ---- values

    @override
    def load(self, text: str, source: str) -> tuple[str, ...]:
        values, dtype = self._unpacked(text, source)
        if self.is_rounded(source):
            values, dtype = self._unpacked(self.store(list(values), dtype, self.dtype), self.dtype)
        return tuple([self.cast(value, dtype, self.compute) for value in values])

    def _unpacked(self, text: str, source: str) -> tuple[tuple[str, ...], str]:
        """Return a parameter as numbers of an elementary dtype, and that dtype."""
        language = self.language
        if source in language.stored_as_bits:
            return (self.call(f"from_{source}", text),), "float32"
        if source == "float16":
            return (f"({language.types['float32']}){text}",), "float32"
        if source.startswith("complex"):
            part = "float32" if source == "complex64" else "float64"
            words = {"part": language.types[part]}
            return (language.real.format(text, **words), language.imaginary.format(text, **words)), part
        return (text,), source

    @override
    def condition(self, text: str, source: str) -> str:
        return "(" + " || ".join([f"{value} != 0" for value in self._unpacked(text, source)[0]]) + ")"

    @override
    def store(self, values: list[str], source: str, target: str) -> str:
        kinds = self.language.types
        source = "bool" if source == "condition" else source
        if target.startswith("complex"):
            part = "float32" if target == "complex64" else "float64"
            parts = [self.cast(value, source, part) for value in (values * 2)[:2]]
            if len(values) == 1:
                parts[1] = "0"
            return self.language.complex.format(*parts, type=kinds[target], part=kinds[part])
        value = values[0]
        if target not in ("float16", "bfloat16"):
            return self.cast(value, source, target)
        if source == "float64":
            value = self.call("odd", value)
        elif source != "float32":
            value = self.cast(value, source, "float32")
        return (
            self.call(f"to_{target}", value) if target in self.language.stored_as_bits else f"({kinds[target]}){value}"
        )

    def cast(self, text: str, source: str, target: str) -> str:
        """Convert a value of dtype ``source`` to ``target``; neither is complex or has 16 bits of a float."""
        if source == target:
            return text
        kind = self.language.types[target]
        if target == "bool":
            return f"({kind})({text} != 0)"
        if source.startswith("float") and not target.startswith("float"):
            prefix = "unsigned" if target == "uint64" else "whole"
            whole = self.call(f"{prefix}_{source}", text)
            return whole if target in ("int64", "uint64") else f"({kind}){whole}"
        return f"({kind}){text}"

    @override
    def truth(self, value: bool) -> str:
        return "1" if value else "0"

    @override
    def literal(self, value: float) -> str:
        if not math.isfinite(value):
            return "NAN" if value != value else ("INFINITY" if value > 0 else "(-INFINITY)")
        text = repr(value) + ("f" if self.compute == "float32" else "")
        return f"({text})" if value < 0 or text.startswith("-") else text

    @override
    def integer(self, value: int) -> str:
        # These are the bits of the number in this dtype; the cast restores the sign.
        if self.dtype == "bool":
            return str(value)
        suffix = self.language.long_suffix if self.bits == 64 else ""
        return f"(({self.type}){value}U{suffix})"

    # ---- operations

    def library(self, operation: str) -> str:
        """Return the name of a function of the mathematical library for the compute dtype."""
        renamed = dict(self.language.functions or {})
        if operation in renamed:
            return renamed[operation]
        name = _RENAMED.get(operation, operation)
        return self.language.library + name + ("" if self.compute == "float64" else self.language.float_suffix)

    @override
    def entries(self) -> dict[str, Any]:
        return self._float_entries() if self.is_float else self._integer_entries()

    def _float_entries(self) -> dict[str, Any]:
        one = self.literal(1.0)
        calls: dict[str, Any] = {name: f"{self.library(name)}({{0}})" for name in (*_LIBRARY, *_RENAMED)}
        calls |= {
            # the casts select the overload in OpenCL C, since conditions and literals may have another type
            name: f"{self.library(name)}(({self.type}){{0}}, ({self.type}){{1}})"
            for name in ("pow", "atan2", "hypot", "copysign", "nextafter")
        }
        if "metal" in self.language.library:
            calls["nextafter"] = self.helper("nextafter")
        calls["fma"] = f"{self.library('fma')}({{0}}, {{1}}, {{2}})"
        absolute = calls["abs"]
        return calls | {
            "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "divide": "({0} / {1})",
            "negative": "(-{0})", "square": "({0} * {0})", "reciprocal": f"({one} / {{0}})",
            "rsqrt": f"({one} / {calls['sqrt']})",
            "maximum": "(({0} > {1} || {0} != {0}) ? {0} : {1})",
            "minimum": "(({0} < {1} || {0} != {0}) ? {0} : {1})",
            "sign": f"({{0}} > 0 ? {one} : ({{0}} < 0 ? -{one} : {{0}} + 0))",
            "isnan": "({0} != {0})", "isinf": f"({absolute} == INFINITY)", "isfinite": f"({absolute} < INFINITY)",
            "signbit": f"({self.language.library}signbit({{0}}) != 0)",
            **{name: self.helper(name) for name in ("floor_divide", "remainder", "digamma", "trigamma")},
        }  # fmt: skip

    def _integer_entries(self) -> dict[str, Any]:
        if self.dtype == "bool":
            return {"bitwise_invert": "(!{0})"}
        unsigned, kind = self.unsigned, self.type
        signed = self.dtype.startswith("int")

        def wrapping(symbol: str) -> str:
            return f"(({kind})(({unsigned}){{0}} {symbol} ({unsigned}){{1}}))"

        negative = f"(({kind})(0 - ({unsigned}){{0}}))"
        return {
            "add": wrapping("+"), "subtract": wrapping("-"), "multiply": wrapping("*"), "negative": negative,
            "square": f"(({kind})(({unsigned}){{0}} * ({unsigned}){{0}}))",
            "abs": f"({{0}} < 0 ? {negative} : {{0}})" if signed else "{0}",
            "sign": f"(({kind})(({{0}} > 0) - ({{0}} < 0)))" if signed else f"(({kind})({{0}} > 0))",
            "maximum": "({0} > {1} ? {0} : {1})", "minimum": "({0} < {1} ? {0} : {1})",
            "bitwise_and": f"(({kind})({{0}} & {{1}}))", "bitwise_or": f"(({kind})({{0}} | {{1}}))",
            "bitwise_xor": f"(({kind})({{0}} ^ {{1}}))", "bitwise_invert": f"(({kind})(~{{0}}))",
            "signbit": "({0} < 0)" if signed else "0",
        }  # fmt: skip

    # ---- functions

    @override
    def helper_source(self, key: str) -> str:
        variant = "float" if self.is_float else ("int" if self.dtype.startswith("int") else "uint")
        language, types = self.language, self.language.types
        source = HELPERS.get((key, variant)) or HELPERS[key, "any"]
        words = {
            "NAME": f"{self.name}_{key}", "T": self.type, "U": self.unsigned, "BITS": str(self.bits),
            "HEAD": _words(language.prefix, self.type), "PREFIX": _words(language.prefix, ""),
        }  # fmt: skip
        words |= {dtype.upper(): kind for dtype, kind in types.items()}
        words |= {name.upper(): self.library(name) for name in ("floor", "copysign", "log", "tan", "sin", "fmod")}
        return self.filled(source, words, {"bits": language.as_bits, "float": language.as_float})

    @override
    def function(self, parameters: list[tuple[str, str]], loads: list[tuple[str, str, str]], body: list[str],
                 value: str, result: str) -> str:  # fmt: skip
        head = ", ".join(f"{self.language.types[dtype]} {name}" for name, dtype in parameters) or "void"
        lines = [f"{_words(self.language.prefix, self.language.types[result])} {self.name}({head})", "{"]
        lines += [f"    {self.statements[kind].format(name=name, expr=text)}" for name, kind, text in loads]
        return "\n".join([*lines, *body, f"    return {value};", "}", ""])


def _words(*words: str) -> str:
    return " ".join(words) if words[0] else words[1]
