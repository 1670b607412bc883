"""Programs: scalar expressions made executable for one dtype, by NumPy at once and compiled when it pays.

Note [Which programs are compiled]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An expression that is a single NumPy ufunc limited by memory (``add``, ``maximum``, comparisons), or one whose loop in
NumPy is as good (``pow``), is left to NumPy. A transcendental function of NumPy keeps NumPy for small calls, where the
loop does not matter, and is compiled for large ones; every other expression is compiled after a large call or many
small ones. Where Numba has no counterpart (complex numbers, float16, an operation missing from the table), NumPy keeps
the program; a custom operator with such an operation causes a warning: Note [A kernel that is not compiled].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....dispatch.calling import codegen
from ....ops.declare.facets import Pointwise
from ....ops.scalar import NUMPY, OperationTable, UnsupportedOperationError, function_source
from ....ops.scalar.expression import Expression
from ... import libm
from ..complex_functions import COMPLEX_FUNCTIONS
from ..fp_warnings import silenced
from ..pool.pieces import Pace
from . import compiler

__all__ = ["Program", "program_of"]

_CALLS_BEFORE_COMPILING: Final = 64
_SAME_NAME: Final = (
    "add subtract multiply divide floor_divide remainder maximum minimum negative abs sign sqrt square floor ceil "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan "
    "isfinite isinf exp expm1 log log1p sin cos tanh tan sinh cosh exp2 log2 log10 cbrt hypot copysign trunc "
    "bitwise_and bitwise_or bitwise_xor nextafter signbit"
)
_UFUNC: Final[dict[str, np.ufunc]] = {name: getattr(np, name) for name in _SAME_NAME.split()} | {
    "pow": np.power, "round": np.rint, "atan2": np.arctan2, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "bitwise_invert": np.invert,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
}  # fmt: skip
_LEFT_TO_NUMPY: Final = frozenset([
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "negative", "abs", "sqrt", "square", "floor", "ceil",
    "round", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "logical_not", "isnan", "isfinite", "isinf", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift", "copysign", "nextafter", "pow", "signbit", "trunc",
])  # fmt: skip
_HEAVY: Final = frozenset(["sqrt", "pow", "nextafter"])  # not limited by memory, so that threads always pay
_SILENT: Final = frozenset([
    "variable", "maximum", "minimum", "negative", "abs", "copysign", "signbit", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal",
])  # fmt: skip
"""Operations in which NumPy never warns, whatever the elements."""
_BY_ELEMENT: Final = ("erf", "erfc", "lgamma", "digamma", "trigamma")
_ON_INTEGERS: Final = frozenset(["floor", "ceil", "trunc", "round"])  # the identity on integers


class Program:
    """One pointwise expression for one compute dtype.

    ``call(*arrays)`` serves small calls, ``large`` large ones: a NumPy ufunc, a function of several, or a compiled
    ufunc. ``is_ufunc`` tells whether ``call`` is a ufunc, which takes ``out=``; ``light`` whether it is limited by
    memory; ``silent`` whether NumPy never warns in it (Note [Floating-point flags]).
    """

    __slots__ = (
        "_calls", "_expression", "_requested", "_signature", "call", "compiled", "dtype", "is_ufunc", "large", "light",
        "name", "pace", "parameters", "result", "silent",
    )  # fmt: skip

    def __init__(self, name: str, facet: Pointwise, dtype: np.dtype, result: np.dtype) -> None:
        self.name = name
        self.parameters = (*facet.parameters, *facet.indices)
        self.dtype = dtype
        self.result = result
        self._expression: Expression = facet.expression
        self._signature = tuple([np.dtype(bool) if p in facet.boolean else dtype for p in self.parameters])
        self._calls = 0
        self.compiled = False
        ufunc = facet.ufunc
        if ufunc is None:
            ufunc = _single_ufunc(self._expression, self.parameters, dtype)
        self.is_ufunc = ufunc is not None
        self.call: Callable[..., Any] = ufunc if ufunc is not None else self._numpy_function()
        if ufunc is np.power and dtype.kind in "iu":
            self.call = _whole_power
        self.large = self.call
        self.pace = Pace()
        operation = self._expression.operation
        self.silent = ufunc is not None and (
            (operation in _SILENT and dtype.kind != "c")  # the magnitude of a complex number may overflow
            or operation.startswith(("is", "logical_", "bitwise_"))
            or (dtype.kind in "iub" and operation in {"add", "subtract", "multiply", "square"})
        )
        left = ufunc is not None and operation in _LEFT_TO_NUMPY
        self.light = left and operation not in _HEAVY
        self._requested = left or not self._can_compile()

    def _numpy_function(self) -> Callable[..., Any]:
        scope: dict[str, Any] = {}
        kind = self.dtype.type

        def constant(value: Any, kind_: str) -> str:
            if kind_ == "boolean":
                return f"np.bool_({value!r})"
            name = f"_c{len(scope)}"
            fraction = isinstance(value, float) and self.dtype.kind in "iu"
            if fraction or (self.dtype.kind == "b" and value not in (0, 1)):
                scope[name] = value
                return name
            scope[name] = silenced(kind, value)  # infinite beyond the range of float16, as in compiled code
            return name

        eps = repr(float(np.finfo(self.dtype).eps)) if self.dtype.kind in "fc" else "0"
        table = NUMPY.extended("NumPy", constant=constant, eps=eps)
        if self.dtype.kind == "c":
            table = table.extended("NumPy", **{name: f"_{name}({{0}})" for name in COMPLEX_FUNCTIONS})
            scope |= {f"_{name}": function for name, function in COMPLEX_FUNCTIONS.items()}
        if self.dtype.kind in "iub":
            table = table.extended("NumPy", **dict.fromkeys(_ON_INTEGERS, "{0}"))
        for name in _BY_ELEMENT:  # Python functions, which return double precision for any dtype
            table = table.extended("NumPy", **{name: f"np.asarray({NUMPY[name]}, _dtype)"})
        source = function_source("program", self.parameters, [self._expression], table)
        scope["_dtype"] = self.dtype
        exec("\n".join(table.imports), scope)
        function = codegen.define(source, scope, f"<NumPy program of {self.name}>")
        if self.dtype.kind == "c" and self.result.kind == "f":  # the constants were complex
            whole = function
            result = self.result

            def function(*arrays: Any) -> Any:
                return np.array(np.real(whole(*arrays)), result)

        root = self._expression
        while root.operation in _ON_INTEGERS and self.dtype.kind in "iub":
            (root,) = root.operands
        if root.operands:
            return function

        def program(*arrays: Any) -> Any:  # a constant or a variable: gets the shape of the operands, and is copied
            shape = np.broadcast_shapes(*[np.shape(a) for a in arrays])
            return np.array(np.broadcast_to(function(*arrays), shape), self.result)

        return program

    def _can_compile(self) -> bool:
        if self.dtype.name not in ("float32", "float64", "int32", "int64", "bool") or not self._expression.operands:
            return False
        try:
            self._source()
        except UnsupportedOperationError:
            if self.name.startswith("tk::"):
                return False
            # The author of a custom operator is told why it is slow: compiling it fails with the same error.
        return compiler.mode() != "off"

    def _source(self) -> str:
        return kernel_source(self._expression, self.parameters, self.dtype)

    def count(self) -> None:
        """Count a small call; after many the program is compiled."""
        self._calls += 1
        if self._calls == _CALLS_BEFORE_COMPILING and not self.is_ufunc:
            self.request()

    def request(self) -> None:
        """Request compilation, once."""
        if not self._requested:
            self._requested = True
            compiler.request(f"{self.name} for {self.dtype}", self._compile)

    def _compile(self) -> None:
        ufunc = compiler.compile_ufunc(self._source(), self._signature, self.result)
        self.large = ufunc
        if not self.is_ufunc:
            self.call = ufunc
        self.compiled = True


def _whole_power(base: Any, exponent: Any) -> Any:
    try:
        return np.power(base, exponent)
    except ValueError:
        if np.any(exponent < 0):
            raise ValueError(
                f"[pow] integers to the power of {np.min(exponent)} are fractions, which integers do not hold: "
                "convert with tk.astype(x, tk.float64), or give a float exponent."
            ) from None
        raise


def _single_ufunc(expression: Expression, parameters: tuple[str, ...], dtype: np.dtype) -> np.ufunc | None:
    ufunc = _UFUNC.get(expression.operation)
    if ufunc is None or tuple(node.name for node in expression.operands) != parameters:
        squares = expression.operation == "multiply" and {node.name for node in expression.operands} == set(parameters)
        return np.square if squares and len(parameters) == 1 else None
    if expression.operation in _ON_INTEGERS and dtype.kind in "iub":
        return None
    if expression.operation in COMPLEX_FUNCTIONS and dtype.kind == "c":
        return None
    return ufunc


def kernel_source(expression: Expression, parameters: tuple[str, ...], dtype: np.dtype) -> str:
    """Return the source of a scalar function ``kernel`` for Numba, preceded by the library functions that it uses."""
    kind = "bool_" if dtype.kind == "b" else dtype.name
    constants: dict[str, str] = {}
    used: list[str] = []

    def constant(value: Any, kind_: str) -> str:
        if kind_ == "boolean":
            return repr(bool(value))
        if dtype.kind in "iub" and value != int(value):
            raise UnsupportedOperationError("a fraction in an integer expression stays with NumPy")
        text = {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(repr(value), repr(value))
        return constants.setdefault(f"np.{kind}({text})", f"_c{len(constants)}")

    def library(name: str) -> Callable[..., str]:
        def call(node: Expression, *operands: str) -> str:
            if name not in used:
                used.append(name)
            return f"{name}_{dtype.name}({', '.join(operands)})"

        return call

    entries: dict[str, Any] = {
        "constant": constant,
        "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "negative": "(-{0})",
        "less": "({0} < {1})", "less_equal": "({0} <= {1})", "greater": "({0} > {1})", "greater_equal": "({0} >= {1})",
        "equal": "({0} == {1})", "not_equal": "({0} != {1})", "logical_and": "({0} & {1})",
        "logical_or": "({0} | {1})", "logical_xor": "({0} ^ {1})", "logical_not": "(not {0})",
        "where": "llvm_select({0}, {1}, {2})", "square": "({0} * {0})",
        "maximum": "llvm_select(({0} > {1}) | ({0} != {0}), {0}, {1})",
        "minimum": "llvm_select(({0} < {1}) | ({0} != {0}), {0}, {1})",
        "isnan": "({0} != {0})",
    }  # fmt: skip
    if dtype.kind == "f":
        one, zero = (constant(v, "number") for v in (1, 0))
        entries |= {
            "divide": "({0} / {1})", "reciprocal": f"({one} / {{0}})", "sqrt": "llvm_sqrt({0})",
            "rsqrt": f"({one} / llvm_sqrt({{0}}))", "abs": "llvm_fabs({0})", "floor": "llvm_floor({0})",
            "ceil": "llvm_ceil({0})", "trunc": "llvm_trunc({0})", "round": "llvm_rint({0})",
            "copysign": "llvm_copysign({0}, {1})", "fma": "llvm_fma({0}, {1}, {2})",
            "isfinite": f"(llvm_fabs({{0}}) < {constant(float('inf'), 'number')})",
            "isinf": f"(llvm_fabs({{0}}) == {constant(float('inf'), 'number')})",
            "signbit": f"(llvm_copysign({one}, {{0}}) < {zero})",
            "sign": f"llvm_select({{0}} > {zero}, {one}, llvm_select({{0}} < {zero}, -{one}, {{0}}))",
            "eps": constant(float(np.finfo(dtype).eps), "number"),
        }  # fmt: skip
        entries |= {name: library(name) for name in libm.names(dtype.name) if name not in entries}  # type: ignore[arg-type]
    elif dtype.kind in "iub":
        entries |= {"isfinite": "True", "isinf": "False", "isnan": "False"} | dict.fromkeys(_ON_INTEGERS, "{0}")
    table = OperationTable("Numba", entries)
    body = function_source("kernel", parameters, [expression], table)
    head = "".join(f"{name} = {text}\n" for text, name in constants.items())
    if used:  # Note [Nothing waits for a compiler]: numba.vectorize does not inline large bodies by itself
        first, rest = body.split("\n", 1)
        body = f"{first}\n    always_inline()\n{rest}"
    needed = libm.sources([(name, dtype.name) for name in used]) if used else ""  # type: ignore[misc]
    return f"{needed}\n\n{head}\n\n{body}"


def program_of(name: str, facet: Pointwise, compute: np.dtype, result: np.dtype) -> Program:
    """Return the program of a pointwise facet for one compute dtype, made once and kept with the facet."""
    program: Program | None = facet.programs.get((compute, result))
    if program is None:
        program = facet.programs.setdefault((compute, result), Program(name, facet, compute, result))
    return program
