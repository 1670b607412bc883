"""Scalar expressions in compiled code: functions on values, single numbers or vectors.

The results are those of Note [C keeps NumPy's rules] in ``tenkey/ops/scalar/emit/c.py``: integers wrap around, floor
division rounds down and is 0 for an integer divisor 0, minimum and maximum propagate NaN, floats of 16 bits are
computed in float32 and rounded once, and complex numbers are computed in their parts, which are passed and returned as
pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from ...._util.cached_attribute import cached_property
from ....ops.scalar import (
    PYTHON,
    Expression,
    OperationTable,
    expand,
    function_source,
    indices,
    make,
    real_parts,
    topological_order,
    variable,
)
from ....ops.scalar import constant as number
from ....ops.scalar.emit.writer import compute_dtype, constant_of
from ....ops.scalar.expansions import rewritten, settled
from ...libm import scalar_functions
from ...libm.avx512 import reciprocal_root, root
from ...llvm import (
    Type,
    Value,
    bitcast,
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
    of_dtype,
    rint,
    select,
    trunc,
    unsigned_of,
    vector,
    zeros,
)
from ...llvm.values import emit, truth

__all__ = ["ScalarLoop", "UnsupportedInLoopError", "converted", "greater_or_nan", "lesser_or_nan", "to_loop"]


class UnsupportedInLoopError(NotImplementedError):
    """An expression has an operation that compiled code does not have for this dtype: NumPy computes it."""


def to_loop(
    expression: Expression | Sequence[Expression], parameters: Sequence[str], dtype: Any, result: Any = None
) -> ScalarLoop:
    """Return a function on values of compiled code that computes ``expression`` in ``dtype``.

    It takes a value for each parameter, and for each index variable, of any numeric type: numbers or vectors of one
    length. They are converted to ``dtype``; complex ones are pairs of their parts. The function returns the value
    converted to ``result`` (default: ``dtype``, or bool for a condition), or a tuple for a sequence of expressions. A
    value of dtype bool is returned as a condition, of type ``i1``. Functions of equal expressions are equal, so they
    can be static parameters of a template. UnsupportedInLoopError: see there; it is raised here, not by the function.

    >>> from tenkey.ops.scalar import maximum, variable
    >>> combine = to_loop(maximum(variable("a"), variable("b")), ("a", "b"), "float32")
    >>> combine
    <scalar loop in float32: maximum(a, b)>
    """
    several = not isinstance(expression, Expression)
    found = tuple(expression) if several else (expression,)  # type: ignore[arg-type]
    made = ScalarLoop(found, tuple(parameters), np.dtype(dtype), None if result is None else np.dtype(result), several)
    made.check()
    return made


class ScalarLoop:
    """What :func:`to_loop` returns; ``key`` is a text that tells functions apart in every process."""

    def __init__(
        self, expressions: tuple[Expression, ...], parameters: tuple[str, ...], dtype: np.dtype,
        result: np.dtype | None, several: bool,
    ) -> None:  # fmt: skip
        self.expressions = expressions
        self.parameters = parameters
        self.dtype = dtype
        self.result = result
        self._several = several
        # a dtype equals what np.dtype() makes one of, so float64 equals None
        self._identity = (expressions, parameters, dtype.name, result and result.name, several)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScalarLoop) or self._identity[1:] != other._identity[1:]:
            return False
        both = zip(self.expressions, other.expressions)  # expressions are interned, and == builds another one
        return len(self.expressions) == len(other.expressions) and all(a is b for a, b in both)

    def __repr__(self) -> str:
        return f"<scalar loop in {self.dtype}: {', '.join(map(str, self.expressions))}>"

    @cached_property
    def key(self) -> str:
        """A text that determines what the function computes, whatever the expressions are made of later."""
        entries = {name: _named(name) for name in PYTHON} | {"constant": lambda value, kind: f"{kind} {value!r}"}
        outputs = [part for parts in self._outputs for part in parts]
        source = function_source("f", self.parameters, outputs, OperationTable("keys", entries))
        kinds = [str(self._wanted(expression)) for expression in self.expressions]
        return f"{source}{self.dtype} {kinds} {sorted(self._variables.items())} {self._several}"

    @cached_property
    def _variables(self) -> dict[str, str]:
        """The kinds of the variables that occur, by name."""
        nodes = topological_order(self.expressions)
        return {node.name: node.kind for node in nodes if node.name is not None}

    @cached_property
    def _outputs(self) -> list[list[Expression]]:
        """The expressions of each result, or of its two parts, in operations that the table has."""
        name = self.dtype.name
        lacking = _LACKING.get(compute_dtype(name), ())
        found = []
        chosen = settled(self.expressions, _EPS[name]) if name in _EPS else self.expressions
        for expression in rewritten(chosen, lambda node, operands: _constant(node, operands, name)):
            if self.dtype.kind != "c":
                parts = [expression]
            else:
                wanted = self._wanted(expression)
                if wanted.kind == "b" and expression.kind == "number":
                    expression = make("not_equal", expression, 0)
                pairs = {
                    p: (variable(f"{p}_re"), variable(f"{p}_im"))
                    for p, kind in self._variables.items() if kind == "number"
                }  # fmt: skip
                try:
                    both = real_parts(expression, pairs)
                except ValueError as error:
                    raise UnsupportedInLoopError(str(error)) from None
                parts = [*both] if wanted.kind == "c" and expression.kind == "number" else [both[0]]
            found.append(expand(parts, lacking))
        return found

    def _wanted(self, expression: Expression) -> np.dtype:
        if self.result is not None:
            return self.result
        return np.dtype(bool) if expression.kind == "boolean" else self.dtype

    def check(self) -> None:
        """Raise UnsupportedInLoopError if an operation is not available."""
        table = _operations(self.dtype.name)
        for node in topological_order([part for parts in self._outputs for part in parts]):
            if node.operation in ("variable", "index", "eps"):
                continue
            if node.operation == "constant":
                whole = isinstance(node.value, bool) or node.value == int(node.value or 0) if _finite(node) else False
                if node.kind == "number" and self.dtype.kind in "iub" and not whole:
                    raise UnsupportedInLoopError(f"the constant {node.value} in an expression on {self.dtype}")
            elif node.operation not in table or (node.operation == "pow" and not _known_power(node, self.dtype)):
                raise UnsupportedInLoopError(f"the operation {node.operation} on {self.dtype}")

    def __call__(self, *values: Any) -> Any:
        """Write the computation, and return its value."""
        lanes = max([part.type.lanes for value in values for part in _parts(value)], default=1)
        compute = _operations(self.dtype.name)
        T = compute.type
        known: dict[str, Value] = {}
        more = [name for name in indices(self.expressions) if name not in self.parameters]
        for name, value in zip([*self.parameters, *more], values, strict=True):
            kind = self._variables.get(name)
            parts = _parts(value)
            if kind == "boolean":
                known[name] = truth(parts[0]) if len(parts) == 1 else truth(parts[0]) | truth(parts[1])
            elif self.dtype.kind == "c" and kind is not None:
                known[f"{name}_re"] = converted(parts[0], T)
                known[f"{name}_im"] = converted(parts[1], T) if len(parts) == 2 else zeros(T, lanes)
            elif kind is not None:
                known[name] = converted(_narrowed(parts[0], self.dtype), T)
        flat = [part for parts in self._outputs for part in parts]
        nodes: dict[Expression, Value] = {}
        for node in topological_order(flat):
            if node.name is not None:
                nodes[node] = known[node.name]
            elif node.operation == "constant":
                kept = i1 if node.kind == "boolean" else T
                number = node.value if kept.kind != "c" else bool(node.value)
                nodes[node] = constant(vector(kept, lanes), number)
            elif node.operation == "eps":
                nodes[node] = constant(vector(T, lanes), _EPS[self.dtype.name])
            elif node.operation == "pow" and self.dtype.kind in "iu":
                nodes[node] = _power(nodes[node.operands[0]], int(node.operands[1].value or 0))
            else:
                nodes[node] = compute[node.operation](*[nodes[operand] for operand in node.operands])
        results = [
            _stored([nodes[part] for part in parts], self._wanted(expression))
            for expression, parts in zip(self.expressions, self._outputs)
        ]
        return tuple(results) if self._several else results[0]


def _named(name: str) -> Callable[..., str]:
    return lambda node, *operands: f"{name}({', '.join(operands)})"


def _finite(node: Expression) -> bool:
    return isinstance(node.value, int) or (isinstance(node.value, float) and abs(node.value) < float("inf"))


def _parts(value: Any) -> Sequence[Value]:
    return value if isinstance(value, (tuple, list)) else (value,)


def _constant(node: Expression, operands: list[Expression], dtype: str) -> Expression:
    if operands or node.operation != "constant" or node.kind == "boolean":
        return make(node.operation, *operands) if operands else node
    assert isinstance(node.value, int | float)
    return number(constant_of(node.value, dtype))


def _known_power(node: Expression, dtype: np.dtype) -> bool:
    """Tell whether a power can be computed: of integers, for an exponent that is a small constant."""
    exponent = node.operands[1].value
    return dtype.kind not in "iub" or (isinstance(exponent, int) and 0 <= exponent < 64)


def _stored(parts: list[Value], wanted: np.dtype) -> Any:
    """Return a value, or the parts of a complex one, as the dtype of the result."""
    if wanted.kind == "c":
        T = of_dtype(np.dtype(f"f{wanted.itemsize // 2}"))
        real = converted(parts[0], T)
        return real, converted(parts[1], T) if len(parts) == 2 else zeros(T, real.type.lanes)
    return converted(parts[0], i1 if wanted.kind == "b" else of_dtype(wanted))


# ---- conversions


def converted(value: Value, to: Type) -> Value:
    """Convert as NumPy does: floats to integers by truncation, where they are in range, floats to shorter ones once.

    What floats beyond the range of an integer type become is what the processor makes of them, as in NumPy.
    """
    of = value.type
    lanes = of.lanes
    T = vector(to.scalar, lanes)
    if of.kind == "h" or (of.kind == "f" and of.size == 2):
        if of == T:
            return value
        return converted(convert(value, vector(f32, lanes)), T)
    if of.kind == "f" and to.kind in "iu":
        return _whole(value, T)
    if of.kind in "iu" and of.size > 2 and to.kind in "fh" and to.size == 2:
        return converted(convert(value, vector(f64, lanes)), T)
    return convert(value, T)


def _narrowed(value: Value, dtype: np.dtype) -> Value:
    """Round integers to the floats of 16 bits that they are promoted to: 2049 becomes 2048, 10**6 infinite."""
    whole = value.type.kind in "iu" and value.type.size > 1
    return converted(value, of_dtype(dtype)) if whole and dtype.name in ("float16", "bfloat16") else value


def _whole(value: Value, to: Type) -> Value:
    """Truncate floats to integers through a signed type: integers wrap around, and nothing is undefined."""
    lanes = value.type.lanes
    through = i32 if to.size < 4 or to.scalar == i32 else i64
    wide = vector(through, lanes)
    if to.scalar.name == "u64":
        limit = 2.0**63
        above = value >= limit
        value = select(above, value - limit, value)
        found = emit(wide, f"fptosi {value.text} to {wide.ir}")
        found = emit(wide, f"freeze {found.text}")
        return convert(select(above, found ^ (-(1 << 63)), found), to)
    found = emit(wide, f"fptosi {value.text} to {wide.ir}")
    return convert(emit(wide, f"freeze {found.text}"), to)


# ---- operations

_EPS: Final = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52,
    "complex128": 2.0**-52,
}  # fmt: skip
_LACKING: Final = {"float32": ("hypot",), "float64": ("hypot",)}
"""Operations that are expressed by others, by the dtype of the arithmetic."""


class _Operations(dict[str, Callable[..., Value]]):
    """The operations on values of one type."""

    def __init__(self, type_: Type) -> None:
        super().__init__(_LOGIC)
        self.type = type_


def greater_or_nan(a: Value, b: Value) -> Value:
    """Return the greater element, or NaN if one of them is NaN."""
    return select((a > b) | (a != a), a, b)


def lesser_or_nan(a: Value, b: Value) -> Value:
    """Return the lesser element, or NaN if one of them is NaN."""
    return select((a < b) | (a != a), a, b)


_LOGIC: Final[dict[str, Callable[..., Value]]] = {
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
    "logical_and": lambda a, b: a & b, "logical_or": lambda a, b: a | b, "logical_xor": lambda a, b: a ^ b,
    "logical_not": lambda a: ~a, "where": select,
}  # fmt: skip


@cache
def _operations(dtype: str) -> _Operations:
    """Return the operations on values of the dtype in which a dtype is computed."""
    name = compute_dtype(dtype)
    if name == "bool":
        return _on_conditions()
    if not name.startswith("float"):
        return _on_integers(of_dtype(np.dtype(name)))
    found = _on_floats(f32 if name == "float32" else f64)
    if dtype in ("float16", "bfloat16"):
        del found["nextafter"]  # the neighbours in float32 are others
    return found


def _on_floats(T: Type) -> _Operations:
    found = _Operations(T)
    found |= {  # type: ignore[assignment]
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
        "divide": lambda a, b: a / b, "negative": lambda a: -a, "square": lambda a: a * a,
        "reciprocal": lambda a: 1.0 / a, "rsqrt": reciprocal_root, "sqrt": root, "abs": fabs, "floor": floor,
        "ceil": ceil, "trunc": trunc, "round": rint, "copysign": copysign, "fma": fma, "maximum": greater_or_nan,
        "minimum": lesser_or_nan, "isnan": lambda a: a != a, "isfinite": lambda a: fabs(a) < float("inf"),
        "isinf": lambda a: fabs(a) == float("inf"), "signbit": lambda a: bitcast(a, i32 if f32 == T else i64) < 0,
        "sign": lambda a: select(a > 0.0, 1.0, select(a < 0.0, -1.0, a + 0.0)),
        "nextafter": _nextafter,
    }  # fmt: skip
    found.update({name: _library_function(name, T) for name in LIBRARY})
    return found


LIBRARY: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "pow", "sin", "cos", "tan", "asin", "acos", "atan",
    "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "digamma", "trigamma",
    "floor_divide", "remainder",
)  # fmt: skip
"""Operations on floats that are functions of libm, which is loaded when code is translated."""


def _library_function(name: str, T: Type) -> Callable[..., Value]:
    def function(*operands: Value) -> Value:
        known = scalar_functions(T)
        if name not in known:  # some functions exist in double precision alone
            wide = scalar_functions(f64)
            return f32(wide.get(f"{name}_float32", wide[name])(*map(f64, operands)))  # type: ignore[no-any-return]
        return known[name](*operands)  # type: ignore[no-any-return]

    return function


def _nextafter(x: Value, y: Value) -> Value:
    """Return the neighbour of x towards y: the numbers are in the order of their bits, as integers with a sign."""
    whole = i32 if x.type.size == 4 else i64
    bits = bitcast(x, whole)
    step = select((x < y) == (x > 0.0), constant(bits.type, 1), constant(bits.type, -1))
    smallest = bitcast(copysign(bitcast(constant(bits.type, 1), x.type), y), whole)
    moved = bitcast(select(x == 0.0, smallest, bits + step), x.type)
    return select((x != x) | (y != y), x + y, select(x == y, y, moved))


def _on_conditions() -> _Operations:
    found = _Operations(i1)
    both: dict[str, Callable[..., Value]] = {
        "add": lambda a, b: a | b, "multiply": lambda a, b: a & b, "maximum": lambda a, b: a | b,
        "minimum": lambda a, b: a & b, "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b,
        "bitwise_xor": lambda a, b: a ^ b, "bitwise_invert": lambda a: ~a, "abs": lambda a: a,
        "less": lambda a, b: ~a & b, "less_equal": lambda a, b: ~a | b, "greater": lambda a, b: a & ~b,
        "greater_equal": lambda a, b: a | ~b, "equal": lambda a, b: ~(a ^ b), "not_equal": lambda a, b: a ^ b,
    }  # fmt: skip
    found |= both | _NEVER  # type: ignore[assignment]
    return found


_NEVER: Final[dict[str, Callable[..., Value]]] = {
    **dict.fromkeys(("isnan", "isinf", "signbit"), lambda a: constant(vector(i1, a.type.lanes), False)),
    "isfinite": lambda a: constant(vector(i1, a.type.lanes), True),
}
"""What integers are not."""


def _on_integers(T: Type) -> _Operations:
    found = _Operations(T)
    signed = T.is_signed
    found |= _NEVER | {  # type: ignore[assignment]
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
        "negative": lambda a: -a, "square": lambda a: a * a, "pow": _power,
        "abs": (lambda a: select(a < 0, -a, a)) if signed else (lambda a: a),
        "sign": lambda a: converted(a > 0, T) - converted(a < 0, T),
        "maximum": lambda a, b: select(a > b, a, b), "minimum": lambda a, b: select(a < b, a, b),
        "bitwise_and": lambda a, b: a & b, "bitwise_or": lambda a, b: a | b, "bitwise_xor": lambda a, b: a ^ b,
        "bitwise_invert": lambda a: ~a, "bitwise_left_shift": _left_shift, "bitwise_right_shift": _right_shift,
        "floor_divide": lambda a, b: _divided(a, b)[0], "remainder": lambda a, b: _divided(a, b)[1],
        **dict.fromkeys(("floor", "ceil", "trunc", "round"), lambda a: a),
    }  # fmt: skip
    if signed:
        found["signbit"] = lambda a: a < 0
    return found


def _power(x: Value, exponent: int) -> Value:
    """Return an integer to a power that is known."""
    result = constant(x.type, 1)
    while exponent:
        if exponent & 1:
            result = result * x
        x, exponent = x * x, exponent >> 1
    return result


def _in_range(count: Value) -> Value:
    """Return whether a shift is by fewer bits than there are."""
    return bitcast(count, unsigned_of(count.type.scalar)) < count.type.bits


def _left_shift(x: Value, count: Value) -> Value:
    return select(_in_range(count), x << select(_in_range(count), count, 0), 0)


def _right_shift(x: Value, count: Value) -> Value:
    most = constant(count.type, count.type.bits - 1)
    shifted = x >> select(_in_range(count), count, most)
    return shifted if x.type.is_signed else select(_in_range(count), shifted, 0)


def _divided(x: Value, y: Value) -> tuple[Value, Value]:
    """Return the floored quotient and the remainder, both 0 for a divisor 0.

    Processors divide integers one by one. A quotient of floats, truncated, is that of integers if these have at most
    24 or 53 bits: it is an integer or further from one than the rounding of the floats.
    """
    zero = y == 0
    signed, size = x.type.is_signed, x.type.size
    if signed:
        minus = y == -1  # the one quotient that may not fit
        divisor = select(zero | minus, 1, y)
    else:
        divisor = select(zero, 1, y)
    if size == 8:
        quotient = x // divisor
    else:
        wide = f32 if size < 4 else f64
        ratio = converted(x, wide) / converted(divisor, wide)
        quotient = converted(ratio, x.type)
    rest = x - quotient * divisor
    if signed:
        wrong = (rest != 0) & ((rest ^ divisor) < 0)
        quotient = select(wrong, quotient - 1, quotient)
        rest = select(wrong, rest + divisor, rest)
        quotient = select(minus, -x, quotient)
        rest = select(minus, 0, rest)
    return select(zero, 0, quotient), select(zero, 0, rest)
