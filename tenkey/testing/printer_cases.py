"""What a printer is asked to print, and the results that NumPy gives: the cases of `check_printer`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from ..backends.cpu.programs.complex_functions import COMPLEX_FUNCTIONS
from ..ops import scalar as s
from ..ops.scalar.reference import REFERENCE

__all__ = ["COMPLEX", "FLOATS", "PrinterCase", "cases", "conversions", "kind_of", "limits", "numpy_dtype"]

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
COMPLEX: Final = ("complex64", "complex128")

_CONDITIONS: Final = ("isnan", "isinf", "isfinite", "signbit")
_COMPARISONS: Final = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_BITWISE: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")
_OF_BOOLS: Final = ("add", "multiply", "maximum", "minimum", *_BITWISE, "bitwise_invert", *_COMPARISONS)
_OF_INTEGERS: Final = (
    "add", "subtract", "multiply", "negative", "square", "abs", "sign", "maximum", "minimum", "floor_divide",
    "remainder", "floor", "ceil", "trunc", "round", "bitwise_left_shift", "bitwise_right_shift", "bitwise_invert",
    *_BITWISE, *_COMPARISONS, *_CONDITIONS,
)  # fmt: skip
_LOGICAL: Final = ("logical_and", "logical_or", "logical_xor", "logical_not", "where")
_OF_FLOATS: Final = tuple(
    name for name in s.OPERATIONS if not name.startswith("bitwise") and name not in {*_LOGICAL, "eps"}
)
_OF_COMPLEX: Final = (
    "add", "subtract", "multiply", "divide", "negative", "square", "reciprocal", "abs", "sign", "round", "exp", "log",
    "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "expm1",
    "log1p", "exp2", "log2", "log10", "pow", "equal", "not_equal", "isnan", "isinf", "isfinite",
)  # fmt: skip
_EXACT: Final = frozenset([
    "add", "subtract", "multiply", "negative", "square", "abs", "sign", "floor", "ceil", "trunc", "round", "copysign",
    "nextafter", "maximum", "minimum", "remainder", *_COMPARISONS, *_CONDITIONS,
])  # fmt: skip
_SIGNED_ZEROS: Final = frozenset([
    "add", "subtract", "multiply", "divide", "negative", "abs", "sqrt", "floor", "ceil", "trunc", "round",
    "copysign", "sign",
])  # fmt: skip
_AGAINST_ONE: Final = frozenset(["sin", "cos", "lgamma", "digamma"])
"""Functions with zeros at numbers that are not exact: their error counts against 1 there."""
_IN_PYTHON: Final = frozenset(["erf", "erfc", "lgamma", "digamma", "trigamma", "fma"])
_LIMITED: Final = frozenset(["digamma", "trigamma", "lgamma"])
"""Functions with poles, beside which the reference itself has no digits: not compared there."""


class PrinterCase(NamedTuple):
    """An expression, the dtypes of its parameters, and what it gives for ``arrays``.

    ``exact`` asks for the same bits, ``against_one`` for an error that is small against 1 where the result is smaller,
    ``zeros`` for the signs of zeros. ``compared`` are the elements that are defined; None stands for all.
    """

    title: str
    expression: Any
    parameters: dict[str, str]
    dtype: str
    result: str
    arrays: list[np.ndarray]
    expected: np.ndarray
    exact: bool = True
    against_one: bool = False
    zeros: bool = False
    compared: np.ndarray | None = None


def numpy_dtype(name: str) -> np.dtype:
    """Return the NumPy dtype of a name; bfloat16 needs ml_dtypes.

    >>> numpy_dtype("float16")
    dtype('float16')
    """
    if name == "bfloat16":
        import ml_dtypes

        kind: np.dtype = np.dtype(ml_dtypes.bfloat16)
        return kind
    return np.dtype(name)


def kind_of(dtype: str) -> str:
    """Return "bool", "integer", "float" or "complex".

    >>> kind_of("uint8"), kind_of("bfloat16")
    ('integer', 'float')
    """
    if dtype in COMPLEX:
        return "complex"
    return "float" if dtype in FLOATS else ("bool" if dtype == "bool" else "integer")


def _values(dtype: str) -> np.ndarray:
    kind = kind_of(dtype)
    if kind == "bool":
        return np.array([False, True])
    if kind == "complex":
        parts = [0.0, 1.0, -1.0, 0.5, -2.25, 1e-3, 7.5]
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    if kind == "integer":
        info = np.iinfo(dtype)
        some = [0, 1, 2, 3, 5, 7, 8, 13, 31, 32, 33, 63, 64, 100, info.max, info.max - 1, info.max // 3]
        some += [-1, -2, -3, -7, -8, -13, -100, info.min, info.min + 1] if info.min < 0 else []
        return np.array(some, dtype)
    numbers = [0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 0.1, 3.75, 7.25, 2.0, 3.0, 10.0, 1e-3, 1e-5, 0.7, 0.9999, 20.0, 88.0,
               104.0, 700.0, 12345.678, 16777217.0, 1e10, 3e18]  # fmt: skip
    with np.errstate(all="ignore"):
        every = np.array([*numbers, math.inf, math.nan], "float64").astype(numpy_dtype(dtype))
        extremes = np.array(limits(dtype), "float64").astype(every.dtype)
    every = np.concatenate([every, extremes])
    return np.unique(np.concatenate([every, -every]).view(f"u{every.itemsize}")).view(every.dtype)


def limits(dtype: str) -> tuple[float, float, float, float]:
    """Return the largest number, the smallest normal and subnormal ones, and the one after 1."""
    digits, exponent = {"float16": (10, 15), "bfloat16": (7, 127), "float32": (23, 127)}.get(dtype, (52, 1023))
    normal = 2.0 ** (1 - exponent)
    return (2.0 - 2.0**-digits) * 2.0**exponent, normal, normal * 2.0**-digits, 1 + 2.0**-digits


def _reference(expression: Any, parameters: tuple[str, ...], dtype: np.dtype) -> Callable[..., Any]:
    """Return a NumPy function for an expression, computed in ``dtype``."""
    scope: dict[str, Any] = {}

    def constant(value: Any, kind: str) -> str:
        name = f"_c{len(scope)}"
        with np.errstate(all="ignore"):
            scope[name] = np.bool_(value) if kind == "boolean" else np.asarray(value).astype(dtype)[()]
        return name

    table = s.NUMPY.extended(constant=constant)
    if dtype.kind == "c":
        table = table.extended(**{name: f"_{name}({{0}})" for name in COMPLEX_FUNCTIONS})
        scope |= {f"_{name}": function for name, function in COMPLEX_FUNCTIONS.items()}
    if dtype.kind in "iub":
        table = table.extended(**dict.fromkeys(("floor", "ceil", "trunc", "round"), "{0}"))
    source = s.function_source("reference_function", parameters, [expression], table)
    exec("\n".join(table.imports), scope)
    exec(source, scope)
    return scope["reference_function"]  # type: ignore[no-any-return]


def _expected(expression: Any, parameters: dict[str, str], arrays: list[np.ndarray], dtype: str, result: str,
              exact: bool) -> np.ndarray:  # fmt: skip
    """Compute by NumPy: floats of 16 bits in float32, functions that are not exact in float64."""
    kind = kind_of(dtype)
    wide = numpy_dtype(dtype)
    if kind == "complex":
        wide = np.dtype("complex128")
    elif kind == "float":
        wide = np.dtype("float64" if not exact or dtype == "float64" else "float32")
        if dtype in ("float16", "bfloat16") and expression.operation == "nextafter":
            wide = numpy_dtype(dtype)
    names = tuple(parameters)
    given = [
        a if parameters[n] == "bool" and kind != "bool" else a.astype(wide) for n, a in zip(names, arrays, strict=True)
    ]
    with np.errstate(all="ignore"):
        if expression.operation in _IN_PYTHON:
            columns = [a.astype("float64").tolist() for a in given]
            value = np.array([REFERENCE[expression.operation](*row) for row in zip(*columns, strict=True)])
        else:
            value = np.asarray(_reference(expression, names, wide)(*given))
        value = np.broadcast_to(value, arrays[0].shape)
        return value.astype(numpy_dtype(result))


def _grid(dtype: str, count: int) -> list[np.ndarray]:
    values = _values(dtype)
    if count == 1 and kind_of(dtype) == "float":  # between the special values, so that no interval is left out
        between = np.concatenate([np.linspace(-12, 12, 193), np.geomspace(1e-6, 6e4, 97)]).astype(values.dtype)
        values = np.concatenate([values, between])
    if count == 3:
        values = values[:: max(1, values.size // 11)]
    if kind_of(dtype) == "complex" and count == 2:
        values = values[::3]
    rows = list(itertools.product(range(values.size), repeat=count))
    return [np.ascontiguousarray(values[list(column)]) for column in zip(*rows, strict=True)]


def _operation(name: str, dtype: str) -> PrinterCase:
    operation = s.OPERATIONS[name]
    names = ("x", "y", "z")[: len(operation.operand_kinds)]
    parameters = dict.fromkeys(names, dtype)
    result = "bool" if operation.kind == "boolean" else dtype
    expression = s.make(name, *[s.variable(p) for p in names])
    arrays = _grid(dtype, len(names))
    kind = kind_of(dtype)
    exact = kind in ("integer", "bool") or (name in _EXACT and kind == "float") or result == "bool"
    if kind == "complex" and name == "abs":
        result = "float32" if dtype == "complex64" else "float64"
    zeros = name in _SIGNED_ZEROS and kind == "float"
    case = _case(name, expression, parameters, arrays, dtype, result, exact=exact, zeros=zeros)
    compared = _defined(name, kind, arrays, case.expected)
    return case._replace(against_one=name in _AGAINST_ONE, compared=compared)


def _defined(name: str, kind: str, arrays: list[np.ndarray], expected: np.ndarray) -> np.ndarray | None:
    """Return the elements for which the semantics prescribe a result; see the table in docs/printers.md."""
    x = arrays[0].astype("complex128" if kind == "complex" else "float64")
    with np.errstate(all="ignore"):
        if kind == "complex":  # beside branch points and limits NumPy's own digits are few
            return np.asarray(np.isfinite(expected))
        if name in _LIMITED:
            poles = (x <= 0) & (np.abs(x - np.rint(x)) < 1e-2)
            return np.asarray(~poles & (np.isnan(x) | ((np.abs(x) < 1e30) & (np.abs(x) > 1e-15) & (x > -100))))
        if name in ("floor_divide", "remainder") and kind == "float":
            y = arrays[1].astype("float64")
            return np.asarray(~(np.abs(x / y) > 1e6) & np.isfinite(x) & np.isfinite(y))
    return None


def _case(
    title: str, expression: Any, parameters: dict[str, str], arrays: list[np.ndarray], dtype: str,
    result: str | None = None, *, exact: bool = True, zeros: bool = False,
) -> PrinterCase:  # fmt: skip
    result = result or dtype
    expected = _expected(expression, parameters, arrays, dtype, result, exact)
    title = f"{title} on {dtype}"
    return PrinterCase(title, expression, parameters, dtype, result, arrays, expected, exact, zeros=zeros)


def _powers(dtype: str) -> Iterator[PrinterCase]:
    x, y = s.variable("x"), s.variable("y")
    array = _values(dtype)
    for exponent in (0, 1, 3):
        yield _case(f"x**{exponent}", x**exponent, {"x": dtype}, [array], dtype)
    if dtype.startswith("uint"):
        yield _case("pow", x**y, {"x": dtype, "y": dtype}, _grid(dtype, 2), dtype)


def _structures(dtype: str) -> Iterator[PrinterCase]:
    """Yield choices, conditions, constants, two roundings instead of one, shared parts, and names that may clash."""
    x, y, b = s.variable("x"), s.variable("y"), s.variable("b", "boolean")
    kind = kind_of(dtype)
    grid = _grid(dtype, 2)
    truth = np.arange(grid[0].size) % 3 == 0
    three, arrays = {"x": dtype, "y": dtype, "b": "bool"}, [*grid, truth]
    made: dict[str, Any] = {"choice by a bool": s.where(b, x, y)}
    if kind != "complex":
        made["choice by a comparison"] = s.where(x <= y, x, y)
        made["conditions"] = s.where(
            s.logical_xor(s.logical_and(x < y, b), s.logical_or(x == y, s.logical_not(b))), x, y
        )
        made["a condition as the result"] = s.logical_or(x < y, b)
        made["a bool as a number"] = s.where(b, 1, 0)
    for title, expression in made.items():
        yield _case(title, expression, three, arrays, dtype, "bool" if expression.kind == "boolean" else dtype)
    constants: list[Any] = [1, 0]
    if kind == "integer":
        constants += [int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)]
    if kind == "float":
        constants += [0.1, -0.0, math.inf, -math.inf, math.nan, *limits(dtype)[:3], 1e300]
    for value in constants:
        choice = s.where(b, value, 0)
        yield _case(f"the constant {value}", choice, {"b": "bool"}, [truth], dtype, zeros=kind == "float")
    if kind == "bool":
        return
    names = dict.fromkeys(("t0", "exp", "double", "scalar_floor_divide"), dtype)
    expression = (s.variable("t0") + s.variable("exp")) + (s.variable("double") + s.variable("scalar_floor_divide"))
    some = [np.asarray(_values(dtype)[:1] * 0 + k).astype(numpy_dtype(dtype)) for k in range(1, 5)]
    yield _case("names of parameters", expression, names, some, dtype)
    if dtype in ("float32", "float64"):
        yield from _floats(dtype)


def _floats(dtype: str) -> Iterator[PrinterCase]:
    x, y = s.variable("x"), s.variable("y")
    both = {"x": dtype, "y": dtype}
    bits = np.finfo(dtype).nmant // 2 + 1
    near = (1 + np.arange(1, 9) * 2.0**-bits).astype(dtype)  # the squares need more digits than there are
    arrays = [near, (-near * near).astype(dtype)]
    yield _case("x * x + y rounded twice", x * x + y, both, arrays, dtype)
    array = np.linspace(-30, 30, 61).astype(dtype)
    arrays = [array, array[::-1].copy()]
    for title, expression in {
        "sigmoid": s.sigmoid(x), "softplus": s.softplus(x), "logaddexp": s.logaddexp(x, y), "clip": s.clip(x, -1, y),
        "the spacing at 1": s.make("eps") + 0 * x,
        "shared parts": s.sin(x) * s.sin(x) + s.cos(x) * s.cos(x) + s.sin(x) * 0,
    }.items():  # fmt: skip
        case = _case(title, expression, both, arrays, dtype, exact=False)
        if title == "the spacing at 1":  # of this dtype, in which NumPy does not compute here
            case = case._replace(expected=np.full(array.shape, np.finfo(dtype).eps))
        yield case


def cases(dtype: str) -> Iterator[PrinterCase]:
    """Yield the cases of a compute dtype.

    >>> next(cases("int8")).title
    'add on int8'
    """
    kind = kind_of(dtype)
    names = {"bool": _OF_BOOLS, "integer": _OF_INTEGERS, "float": _OF_FLOATS, "complex": _OF_COMPLEX}[kind]
    for name in names:
        if not (name == "negative" and dtype.startswith("uint")):
            yield _operation(name, dtype)
    if kind == "integer":
        yield from _powers(dtype)
    yield from _structures(dtype)


def conversions(source: str, target: str) -> Iterator[PrinterCase]:
    """Yield the conversion of a parameter of another dtype, and that of a result.

    >>> [case.title for case in conversions("int8", "uint8")]
    ['a parameter of int8 in an expression on uint8', 'a result of uint8 from an expression on int8']
    """
    if kind_of(source) == "complex" and kind_of(target) in ("integer", "float"):
        return
    x = s.variable("x")
    array = _values(source)
    with np.errstate(all="ignore"):
        expected = array.astype(numpy_dtype(target))
    compared = None
    if kind_of(target) == "integer" and kind_of(source) == "float":  # other numbers have no counterpart
        wide, info = np.trunc(array.astype("float64")), np.iinfo(target)
        compared = (wide >= info.min) & (wide < float(info.max) + 1)
    zeros = kind_of(source) == kind_of(target) == "float"
    if target == "bool":
        title, condition = f"a parameter of {source} as a condition", s.variable("x", "boolean")
        yield PrinterCase(title, condition, {"x": source}, source, "bool", [array], expected)
    as_parameter = f"a parameter of {source} in an expression on {target}"
    as_result = f"a result of {target} from an expression on {source}"
    if kind_of(source) != "complex" or kind_of(target) == "complex":
        yield PrinterCase(
            as_parameter, x, {"x": source}, target, target, [array], expected, zeros=zeros, compared=compared
        )  # fmt: skip
    yield PrinterCase(as_result, x, {"x": source}, source, target, [array], expected, zeros=zeros, compared=compared)
