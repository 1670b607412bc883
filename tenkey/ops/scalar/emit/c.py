"""Scalar expressions as functions in C, OpenCL C and CUDA C, for backends that compile one of these.

Note [C keeps NumPy's rules]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The source computes the same as the CPU kernels, also where C leaves the result undefined or defines another: signed
integers wrap around (the arithmetic is unsigned), floor division and remainder round towards minus infinity and are 0
for an integer divisor 0, shifts by too many bits give 0 or the sign, minimum and maximum propagate NaN, `round` rounds
halves to even, bools are added by `or` and multiplied by `and`, floats become integers by truncation through 64 bits.
Operations that C cannot express (complex and half precision numbers, powers of integers, which may have to raise) cause
an UnsupportedOperationError. Compile without "fast math", which breaks NaN. Guarded by ``tests/ops/test_c_source.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..expression import Expression, topological_order
from ..operations import OPERATIONS
from ..traversal import indices
from .c_helpers import HELPERS
from .printer import Emitter, OperationTable, UnsupportedOperationError

__all__ = ["C_DIALECTS", "CDialect", "to_c"]


_NAMES: Final = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


def _types(text: str) -> dict[str, str]:
    return dict(zip(_NAMES, [name.strip() for name in text.split(",")], strict=True))


@dataclass(frozen=True)
class CDialect:
    """A language of the C family.

    ``types`` maps names of dtypes to types, ``prefix`` precedes every function, ``float_suffix`` follows the names of
    float32 functions (``expf``), ``long_suffix`` follows literals of 64 bits. ``functions`` renames functions of the
    mathematical library.

    >>> C_DIALECTS["opencl"].types["int64"]
    'long'
    """

    name: str
    types: Mapping[str, str]
    prefix: str = "static inline"
    float_suffix: str = "f"
    long_suffix: str = "LL"
    functions: Mapping[str, str] | None = None


C_DIALECTS: Final[dict[str, CDialect]] = {
    "c": CDialect(
        "C",
        _types(
            "unsigned char, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float, double"
        ),
    ),
    "opencl": CDialect(
        "OpenCL C",
        _types("uchar, char, short, int, long, uchar, ushort, uint, ulong, float, double"),
        prefix="",
        float_suffix="",
        long_suffix="L",
    ),
    "cuda": CDialect(
        "CUDA C",
        _types(
            "unsigned char, signed char, short, int, long long, unsigned char, unsigned short, unsigned int, "
            "unsigned long long, float, double"
        ),
        prefix="static __device__ inline",
    ),
}
"""C11 (with <math.h> and <stdint.h>), OpenCL C 1.2 and CUDA C++."""

_LIBRARY: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "floor", "ceil", "trunc", "sqrt",
)  # fmt: skip
_RENAMED: Final = {"round": "rint", "abs": "fabs"}


def to_c(
    expression: Expression, parameters: Mapping[str, str], *, dtype: str, result: str | None = None,
    name: str = "scalar", dialect: str | CDialect = "c",
) -> str:  # fmt: skip
    """Return the source of a function ``name`` that computes ``expression``, preceded by its helper functions.

    ``parameters`` maps each parameter, in order, to the dtype in which it is passed. It is converted to ``dtype``, in
    which the expression is computed; the value is converted to ``result`` (default: ``dtype``, or bool for a
    condition). Bools are bytes of 0 and 1. Index variables are further parameters, of dtype int64. The names of helpers
    begin with ``name``, so that one file can contain several functions. The result depends only on the arguments.
    UnsupportedOperationError is a NotImplementedError: see Note [C keeps NumPy's rules].

    >>> from tenkey.ops.scalar import exp, variable
    >>> x = variable("x")
    >>> print(to_c(1 / (1 + exp(-x)), {"x": "float32"}, dtype="float32", name="sigmoid"))
    static inline float sigmoid(float x_)
    {
        const float x = x_;
        const float t0 = (-x);
        const float t1 = expf(t0);
        const float t2 = (1.0f + t1);
        const float t3 = (1.0f / t2);
        return t3;
    }
    <BLANKLINE>
    """
    language = C_DIALECTS.get(dialect) if isinstance(dialect, str) else dialect
    if language is None:
        raise ValueError(
            f"[to_c] there is no dialect {dialect!r}: choose from {', '.join(C_DIALECTS)}, or pass a CDialect."
        )
    parameters = {**parameters, **dict.fromkeys(indices([expression]), "int64")}
    wanted = result or ("bool" if expression.kind == "boolean" else dtype)
    for used in (dtype, wanted, *parameters.values()):
        if used not in language.types:
            known = ", ".join(language.types)
            raise UnsupportedOperationError(
                f"[to_c] {language.name} has no type for {used}: it has {known}. Let the call fall back to the CPU "
                "(raise NotImplementedError or return None from the template)."
            )
    writer = _Writer(language, dtype, name)
    nodes = topological_order([expression])
    variables = {node.name: node.kind for node in nodes if node.name is not None}
    wrong = [variable for variable in variables if variable not in parameters]
    if wrong:
        raise ValueError(
            f"[to_c] the expression has the variables {', '.join(wrong)}, which are not parameters: "
            f"got {', '.join(parameters) or 'none'}."
        )
    kind = language.types[dtype]
    emitter = Emitter(
        writer.table(),
        statement={"number": f"const {kind} {{name}} = {{expr}};", "boolean": "const int {name} = {expr};"},
    )
    body, (value,) = emitter.emit([expression], reserved=[*parameters, *[f"{p}_" for p in parameters], name])
    loads = []
    for parameter, given in parameters.items():
        if parameter in variables:
            if variables[parameter] == "boolean":
                loads.append(f"    const int {parameter} = ({parameter}_ != 0);")
            else:
                loads.append(f"    const {kind} {parameter} = {writer.cast(f'{parameter}_', given, dtype)};")
    source = "bool" if expression.kind == "boolean" else dtype
    head = ", ".join(f"{language.types[given]} {parameter}_" for parameter, given in parameters.items()) or "void"
    text = f"{_words(language.prefix, language.types[wanted])} {name}({head})\n{{\n"
    text += "".join(f"{line}\n" for line in (*loads, *body))
    return f"{writer.helpers()}{text}    return {writer.cast(value, source, wanted)};\n}}\n"


def _words(*words: str) -> str:
    return " ".join(word for word in words if word)


class _Writer:
    """The operation table for a dialect and compute dtype, and the helpers that its entries call."""

    def __init__(self, language: CDialect, dtype: str, name: str) -> None:
        self.language = language
        self.dtype = dtype
        self.name = name
        self.type = language.types[dtype]
        self.is_float = dtype.startswith("float")
        self.bits = 8 if dtype == "bool" else int("".join(c for c in dtype if c.isdigit()))
        self.unsigned = language.types["uint64" if self.bits == 64 else "uint32"]
        self._used: list[str] = []

    # ---- values

    def cast(self, text: str, source: str, target: str) -> str:
        """Convert a value of dtype ``source`` to ``target``."""
        if source == target:
            return text
        kind = self.language.types[target]
        if target == "bool":
            return f"({kind})({text} != 0)"
        if source.startswith("float") and not target.startswith("float"):
            wide = self.language.types["int64"]
            if target == "uint64":
                return f"({text} < 0 ? ({kind})({wide}){text} : ({kind}){text})"
            return f"({kind})({wide}){text}"
        return f"({kind}){text}"

    def constant(self, value: Any, kind: str) -> str:
        if kind == "boolean" or self.dtype == "bool":
            return "1" if value else "0"
        return self._float(float(value)) if self.is_float else self._integer(value)

    def _float(self, value: float) -> str:
        if not math.isfinite(value):
            return "NAN" if value != value else ("INFINITY" if value > 0 else "(-INFINITY)")
        text = repr(value) + ("f" if self.dtype == "float32" else "")
        return f"({text})" if value < 0 or text.startswith("-") else text

    def _integer(self, value: Any) -> str:
        if value != int(value):
            raise UnsupportedOperationError(
                f"[to_c] the constant {value} occurs in an expression on {self.dtype}: it is not an integer."
            )
        number = int(value) % (1 << self.bits)  # the bits of the number in this dtype; the cast restores the sign
        suffix = self.language.long_suffix if self.bits == 64 else ""
        return f"(({self.type}){number}U{suffix})"

    # ---- operations

    def table(self) -> OperationTable:
        known = self._float_entries() if self.is_float else self._integer_entries()
        entries: dict[str, Any] = dict.fromkeys(OPERATIONS, self._refuse)
        entries |= {
            "constant": self.constant,
            "less": "({0} < {1})", "less_equal": "({0} <= {1})", "greater": "({0} > {1})",
            "greater_equal": "({0} >= {1})", "equal": "({0} == {1})", "not_equal": "({0} != {1})",
            "logical_and": "({0} && {1})", "logical_or": "({0} || {1})", "logical_xor": "({0} != {1})",
            "logical_not": "(!{0})", "where": "({0} ? {1} : {2})",
        }  # fmt: skip
        return OperationTable(self.language.name, entries | known)

    def _refuse(self, node: Expression, *operands: str) -> str:
        raise UnsupportedOperationError(
            f"[to_c] the operation {node.operation!r} on {self.dtype} has no counterpart in {self.language.name} with "
            "the same results."
        )

    def function(self, operation: str) -> str:
        """Return the name of a function of the mathematical library for the compute dtype."""
        renamed = dict(self.language.functions or {})
        name = renamed.get(operation, _RENAMED.get(operation, operation))
        return name if operation in renamed or self.dtype == "float64" else name + self.language.float_suffix

    def _float_entries(self) -> dict[str, Any]:
        one = self._float(1.0)
        calls = {name: f"{self.function(name)}({{0}})" for name in (*_LIBRARY, *_RENAMED)}
        calls |= {
            # the casts select the overload in OpenCL C, since conditions and literals may have another type
            name: f"{self.function(name)}(({self.type}){{0}}, ({self.type}){{1}})"
            for name in ("pow", "atan2", "hypot", "copysign", "nextafter")
        }
        calls["fma"] = f"{self.function('fma')}({{0}}, {{1}}, {{2}})"
        absolute = calls["abs"]
        return calls | {
            "eps": self._float(2.0**-23 if self.dtype == "float32" else 2.0**-52),
            "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "divide": "({0} / {1})",
            "negative": "(-{0})", "square": "({0} * {0})", "reciprocal": f"({one} / {{0}})",
            "rsqrt": f"({one} / {calls['sqrt']})",
            "maximum": "(({0} > {1} || {0} != {0}) ? {0} : {1})",
            "minimum": "(({0} < {1} || {0} != {0}) ? {0} : {1})",
            "sign": f"({{0}} > 0 ? {one} : ({{0}} < 0 ? -{one} : {{0}}))",
            "isnan": "({0} != {0})", "isinf": f"({absolute} == INFINITY)", "isfinite": f"({absolute} < INFINITY)",
            "signbit": "(signbit({0}) != 0)",
            **{name: self.helper(name) for name in ("floor_divide", "remainder", "digamma", "trigamma")},
        }  # fmt: skip

    def _integer_entries(self) -> dict[str, Any]:
        if self.dtype == "bool":
            return {
                "add": "({0} | {1})", "multiply": "({0} & {1})", "maximum": "({0} | {1})", "minimum": "({0} & {1})",
                "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})",
                "bitwise_invert": "(!{0})", "abs": "{0}", "isnan": "0", "isinf": "0", "isfinite": "1", "signbit": "0",
            }  # fmt: skip
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
            "isnan": "0", "isinf": "0", "isfinite": "1", "signbit": "({0} < 0)" if signed else "0",
            **dict.fromkeys(("floor", "ceil", "trunc", "round"), "{0}"),
            **{name: self.helper(name) for name in ("bitwise_left_shift", "bitwise_right_shift")},
            **{name: self.helper(name) for name in ("floor_divide", "remainder")},
        }  # fmt: skip

    # ---- helpers

    def helper(self, operation: str) -> Callable[..., str]:
        def call(node: Expression, *operands: str) -> str:
            if operation not in self._used:
                self._used.append(operation)
            return f"{self.name}_{operation}({', '.join(operands)})"

        return call

    def helpers(self) -> str:
        """Return the source of the helpers that the emitted entries call."""
        variant = "float" if self.is_float else ("int" if self.dtype.startswith("int") else "uint")
        text = ""
        for operation in self._used:
            source: str = HELPERS.get((operation, variant), HELPERS.get((operation, "any"), ""))
            words = {
                "NAME": f"{self.name}_{operation}", "T": self.type, "U": self.unsigned, "BITS": str(self.bits),
                "HEAD": _words(self.language.prefix, self.type),
            }  # fmt: skip
            words |= {name.upper(): self.function(name) for name in ("floor", "copysign", "log", "tan", "sin")}
            words["FMOD"] = self.function("fmod")
            for word, meaning in words.items():
                source = source.replace(f"<{word}>", meaning)
            text += source + "\n"
        return text
