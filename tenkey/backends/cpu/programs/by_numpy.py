"""Scalar expressions as NumPy functions: a ufunc where one computes the whole, else a function of several."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....dispatch.calling import codegen
from ....ops.declare.facets import Pointwise
from ....ops.scalar import NUMPY, Expression, function_source
from ....ops.scalar.expansions import settled
from ...processor import has_feature
from ..fp_warnings import silenced
from .complex_functions import COMPLEX_FUNCTIONS

__all__ = ["BY_ELEMENT", "LIGHT", "is_left_to_numpy", "is_slow", "numpy_function", "single_ufunc", "whole_power"]

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
# The time of our loop over that of NumPy's, for 2**13 elements in a cache: 0.9 to 1.3 for these operations; pow 2.4 and
# 1.6 (float64). For others: floor_divide 0.06 (int32 0.4, int64 1.1), nextafter 0.03, copysign and sign 0.3, hypot 0.1,
# exp 0.6, log 0.9, sin 0.6 (float64 0.1), asin 0.65, tanh 1.2 (float64 0.8), shifts of bytes 0.3. Of complex numbers:
# multiply 1.5, square 1.6, add 0.7, divide 0.3, equal 0.2, functions 0.02 to 0.08.
_OF_NUMBERS: Final = frozenset([
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "abs", "sqrt", "square", "floor", "ceil", "round",
    "trunc", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bitwise_invert", "pow",
])  # fmt: skip
# Leave these to NumPy only with AVX-512. Without it, our loops are faster. Ratios to NumPy's time on Zen 3 (AVX2) with
# 2**20 elements: pow 0.4; sqrt 0.6; maximum(array, number) 0.2 (uint8 0.1, int32 0.6, float64 0.9); two arrays 1.0.
_WITH_AVX512: Final = frozenset(["maximum", "minimum", "pow", "sqrt"])  # sqrt: of float32
_OF_BOOLS: Final = _OF_NUMBERS | {"logical_and", "logical_or", "logical_xor", "logical_not"}
_OF_COMPLEX: Final = frozenset(["multiply", "square"])
LIGHT: Final = _OF_BOOLS - {"sqrt", "pow"} | {
    "where", "sign", "fma", "eps", "reciprocal", "copysign", "nextafter", "negative", "isnan", "isfinite", "isinf",
    "signbit", "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip
"""Operations that are limited by memory."""
_SLOW: Final = frozenset([
    np.floor_divide, np.remainder, np.logaddexp, np.nextafter, np.hypot, np.copysign, np.sign,
    (np.sin, "float64"), (np.cos, "float64"), *itertools.product([np.left_shift, np.right_shift], ["int8", "uint8"]),
    *itertools.product([np.logical_and, np.logical_or, np.logical_xor, np.logical_not], ["float32", "float64"]),
])  # fmt: skip
"""Ufuncs (with a dtype: for this one) that take twice as long as our loop for small calls, too. Of 1,024 float32 in us:
floor_divide 9.9 : 1.2, remainder 9.3 : 0.9, logaddexp 12.8 : 2.0, nextafter 2.4 : 0.5, hypot 3.9 : 0.7, copysign
0.85 : 0.37, sign 0.69 : 0.36; sin and cos of float64 4.6 : 1.1, logical_and 1.4 : 0.4."""
BY_ELEMENT: Final = ("erf", "erfc", "lgamma", "digamma", "trigamma")
_ON_INTEGERS: Final = frozenset(["floor", "ceil", "trunc", "round"])  # the identity on integers


def is_left_to_numpy(operation: str, dtype: np.dtype) -> bool:
    """Tell whether NumPy's inner loop is as good as ours for an operation on this dtype."""
    if dtype.kind in "bc":
        return operation in (_OF_BOOLS if dtype.kind == "b" else _OF_COMPLEX)
    if operation in _WITH_AVX512 and (not _has_avx512() or (operation == "sqrt" and dtype.name == "float64")):
        return False
    return operation in _OF_NUMBERS and dtype != np.float16


@functools.cache
def _has_avx512() -> bool:
    try:
        return has_feature("avx512f")
    except (ImportError, OSError):  # nothing can be compiled
        return True


def is_slow(ufunc: np.ufunc, dtype: np.dtype) -> bool:
    """Tell whether a ufunc takes at least twice as long as our loop for small calls of this dtype, too.

    Of 1,024 elements in us: float16 add 3.6 : 0.3, sqrt 7.9 : 0.6; complex64 equal 1.5 : 0.4. Complex functions, which
    take up to 24 times as long, are not replaced: with infinite parts, and in signs of zeros, ours differ.
    """
    if dtype.kind == "c":
        return ufunc in (np.equal, np.not_equal)
    return dtype == np.float16 or ufunc in _SLOW or (ufunc, dtype.name) in _SLOW


def single_ufunc(expression: Expression, parameters: tuple[str, ...], dtype: np.dtype) -> np.ufunc | None:
    """Return the ufunc that computes an expression of these parameters, or None."""
    ufunc = _UFUNC.get(expression.operation)
    if ufunc is None or tuple(node.name for node in expression.operands) != parameters:
        squares = expression.operation == "multiply" and {node.name for node in expression.operands} == set(parameters)
        return np.square if squares and len(parameters) == 1 else None
    if expression.operation in _ON_INTEGERS and dtype.kind in "iub":
        return None
    if expression.operation in COMPLEX_FUNCTIONS and dtype.kind == "c":
        return None
    return ufunc


def whole_power(base: Any, exponent: Any) -> Any:
    """Raise integers to a power; ValueError for negative exponents."""
    try:
        return np.power(base, exponent)
    except ValueError:
        if np.any(exponent < 0):
            raise ValueError(
                f"[pow] integers to the power of {np.min(exponent)} are fractions, which integers do not hold: "
                "convert with tk.astype(x, tk.float64), or give a float exponent."
            ) from None
        raise


_EVEN_POWERS: Final = {np.dtype(np.float32): 64, np.dtype(np.float64): 512}


def _reciprocal_root(x: Any) -> Any:
    """Return 1 / sqrt(x) with the bits of the compiled loop, ``reciprocal_root``, which takes over after some calls."""
    kind, power = x.dtype.type, _EVEN_POWERS[x.dtype]
    x, small = np.where(x < -1, kind(-1), x), x < 1
    inverse = kind(1) / (x * np.where(small, kind(2.0**power), kind(2.0**-power)))
    root = np.sqrt(inverse) * np.where(small, kind(2.0 ** (power // 2)), kind(2.0 ** -(power // 2)))
    return np.where(inverse == kind("-inf"), inverse, root)


def numpy_function(facet: Pointwise, dtype: np.dtype, result: np.dtype) -> Callable[..., Any]:
    """Return a function of arrays that computes the expression in ``dtype`` by NumPy's functions."""
    name, expression = facet.schema.name, facet.expression
    if dtype.kind in "fc":
        (expression,) = settled([expression], float(np.finfo(dtype).eps))
    scope: dict[str, Any] = {}
    kind = dtype.type

    def constant(value: Any, kind_: str) -> str:
        if kind_ == "boolean":
            return f"np.bool_({value!r})"
        name = f"_c{len(scope)}"
        fraction = isinstance(value, float) and dtype.kind in "iu"
        if fraction or (dtype.kind == "b" and value not in (0, 1)):
            scope[name] = value
            return name
        scope[name] = silenced(kind, value)  # infinite beyond the range of float16, as in compiled code
        return name

    eps = repr(float(np.finfo(dtype).eps)) if dtype.kind in "fc" else "0"
    table = NUMPY.extended("NumPy", constant=constant, eps=eps)
    if dtype.kind == "c":
        table = table.extended("NumPy", **{name: f"_{name}({{0}})" for name in COMPLEX_FUNCTIONS})
        scope |= {f"_{name}": function for name, function in COMPLEX_FUNCTIONS.items()}
    if dtype.kind in "iub":
        table = table.extended("NumPy", **dict.fromkeys(_ON_INTEGERS, "{0}"))
    if dtype in _EVEN_POWERS:
        table = table.extended("NumPy", rsqrt="_rsqrt({0})")
        scope["_rsqrt"] = _reciprocal_root
    for operation in BY_ELEMENT:  # Python functions, which return double precision for any dtype
        table = table.extended("NumPy", **{operation: f"np.asarray({NUMPY[operation]}, _dtype)"})
    source = function_source("program", (*facet.parameters, *facet.indices), [expression], table)
    scope["_dtype"] = dtype
    exec("\n".join(table.imports), scope)
    function = codegen.define(source, scope, f"<NumPy program of {name}>")
    if dtype.kind == "c" and result.kind == "f":  # the constants were complex
        whole = function

        def function(*arrays: Any) -> Any:
            return np.array(np.real(whole(*arrays)), result)

    root = expression
    while root.operation in _ON_INTEGERS and dtype.kind in "iub":
        (root,) = root.operands
    if root.operands:
        return function

    def program(*arrays: Any) -> Any:  # a constant or a variable: gets the shape of the operands, and is copied
        shape = np.broadcast_shapes(*[np.shape(a) for a in arrays])
        return np.array(np.broadcast_to(function(*arrays), shape), result)

    return program
