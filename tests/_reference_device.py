"""The reference device: a backend in host memory whose templates are plain Python over NumPy.

It has a kernel for every template and no other, so what runs on it without a fallback runs on every backend that has
the templates. It is also the model of what a template computes: it walks the traced expressions with NumPy's functions
and shares no emitted source with the package. One method for each template, written to be read; nothing here is fast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import scipy.special

from tenkey.backends import Operand, ScalarFunction, StridedArray
from tenkey.backends.cpu.programs.complex_functions import COMPLEX_FUNCTIONS
from tenkey.library import scalar as s
from tests._backends import Host, window

__all__ = ["Reference", "evaluated"]

_QUIETLY: Final = np.errstate(all="ignore")


def _same_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in the dtype of its operands; SciPy computes float16 in float32."""
    return lambda *x: function(*x).astype(x[0].dtype)


_ALIASES: Final = {
    "pow": "power", "round": "rint", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}  # fmt: skip
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "where": np.where,
    "fma": lambda x, y, z: x * y + z,
    "reciprocal": lambda x: np.divide(1, x, dtype=x.dtype if x.dtype.kind in "fc" else None),
    "rsqrt": lambda x: np.divide(1, np.sqrt(x), dtype=x.dtype if x.dtype.kind in "fc" else None),
    "erf": _same_dtype(scipy.special.erf),
    "erfc": _same_dtype(scipy.special.erfc),
    "lgamma": _same_dtype(lambda x: np.where(np.isneginf(x), np.inf, scipy.special.gammaln(x))),
    "digamma": _same_dtype(scipy.special.digamma),
    "trigamma": _same_dtype(lambda x: scipy.special.polygamma(1, x)),
}
_ON_INTEGERS: Final = frozenset(["floor", "ceil", "trunc", "round"])  # the identity


@functools.lru_cache(1024)
def _steps(expression: Any) -> list[Any]:
    return s.topological_order([expression])


def evaluated(scalar: ScalarFunction, arrays: Sequence[Any], positions: Sequence[Any] = ()) -> Any:
    """The value of a scalar function on arrays, in its compute dtype; ``positions`` belong to its index variables."""
    dtype = scalar.dtype
    given = dict(zip(scalar.parameters, arrays, strict=True))
    given |= {f"index_{axis}": p.astype(dtype) for axis, p in zip(scalar.indices, positions, strict=True)}
    values: dict[Any, Any] = {}
    for node in _steps(scalar.expression):
        if node.name is not None:
            values[node] = given[node.name].astype(bool if node.kind == "boolean" else dtype)
        elif node.operation == "constant":
            fits = dtype.kind in "fcV" or float(node.value).is_integer()  # a fraction makes integers floats
            values[node] = np.asarray(node.value, bool if node.kind == "boolean" else dtype if fits else None)
        elif node.operation == "eps":
            values[node] = np.asarray(np.finfo(dtype).eps if dtype.kind in "fc" else 0, dtype)
        elif node.operation in _ON_INTEGERS and dtype.kind in "iub":
            values[node] = values[node.operands[0]]
        else:
            function = COMPLEX_FUNCTIONS.get(node.operation) if dtype.kind == "c" else None
            function = function or _FUNCTIONS.get(node.operation)
            function = function or getattr(np, _ALIASES.get(node.operation, node.operation))
            values[node] = function(*[values[operand] for operand in node.operands])
    return values[scalar.expression]


class Reference(Host):
    """Every template of ``tk.backends.Backend``, which says what each of them computes."""

    name = "reference"

    def pointwise(self, scalar: ScalarFunction, operands: tuple[Operand, ...], result: np.dtype) -> Any:
        @_QUIETLY
        def kernel(out: StridedArray, *inputs: Any) -> None:
            arrays = [x if operand.is_number else window(x) for x, operand in zip(inputs, operands, strict=True)]
            positions = [np.indices(out.shape, sparse=True)[axis] for axis in scalar.indices]
            store(out, evaluated(scalar, arrays, positions))

        return kernel

    def reduction(self, combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, identity: Any) -> Any:
        @_QUIETLY
        def kernel(out: StridedArray, x: StridedArray) -> None:
            values = np.broadcast_to(evaluated(scalar, [window(x)]), x.shape).astype(combine.dtype)
            total = values[:, 0]
            for column in values.T[1:]:
                total = evaluated(combine, [total, column]).astype(combine.dtype)
            store(out, total)

        return kernel

    def arg_reduction(self, better: ScalarFunction, operand: np.dtype) -> Any:
        @_QUIETLY
        def kernel(out: StridedArray, x: StridedArray) -> None:
            values = window(x)
            place, found = np.zeros(len(values), np.int64), values[:, 0]
            for k, column in enumerate(values.T):
                wins = evaluated(better, [column, found])
                place, found = np.where(wins, k, place), np.where(wins, column, found)
            store(out, place)

        return kernel

    def scan(self, combine: tuple[ScalarFunction, ...], dtype: np.dtype) -> Any:
        @_QUIETLY
        def kernel(outs: tuple[StridedArray, ...], xs: tuple[StridedArray, ...], reverse: bool) -> None:
            columns = list(zip(*[window(x).T for x in xs], strict=True))
            places = range(len(columns) - 1, -1, -1) if reverse else range(len(columns))
            total: Any = None
            for k in places:
                later = columns[k]
                total = later if total is None else [evaluated(f, [*total, *later]).astype(dtype) for f in combine]
                for out, part in zip(outs, total, strict=True):
                    window(out)[:, k] = part

        return kernel

    def gather(self, dtype: np.dtype) -> Any:
        @_QUIETLY
        def kernel(out: StridedArray, x: StridedArray, index: StridedArray, error: StridedArray, code: int) -> None:
            values, places = window(x), window(index)
            for i, j, k in np.ndindex(out.shape):
                place = places[i, j, k]
                if 0 <= place < x.shape[1]:
                    window(out)[i, j, k] = values[i, place, k]
                else:
                    window(out)[i, j, k] = 0
                    window(error)[0] = code

        return kernel

    def scatter(self, mode: str, dtype: np.dtype, deterministic: bool) -> Any:
        combine: Any = {
            "set": lambda old, new: new, "add": np.add, "multiply": np.multiply, "minimum": np.minimum,
            "maximum": np.maximum,
        }[mode]  # fmt: skip

        @_QUIETLY
        def kernel(
            out: StridedArray, index: StridedArray, source: StridedArray, error: StridedArray, code: int
        ) -> None:
            values, places, new = window(out), window(index), window(source)
            for i, j, k in np.ndindex(index.shape):
                place = places[i, j, k]
                if 0 <= place < out.shape[1]:
                    values[i, place, k] = combine(values[i, place, k], new[i, j, k])
                else:
                    window(error)[0] = code

        return kernel

    def sort(self, dtype: np.dtype) -> Any:
        @_QUIETLY
        def kernel(values: StridedArray, order: StridedArray, x: StridedArray) -> None:
            places = np.argsort(window(x), axis=1, kind="stable")  # NaN last
            store(order, places)
            store(values, np.take_along_axis(window(x), places, 1))

        return kernel

    def matmul(
        self, dtype: np.dtype, epilogue: ScalarFunction | None, operands: tuple[Operand, ...], result: np.dtype
    ) -> Any:
        @_QUIETLY
        def kernel(out: StridedArray, a: StridedArray, b: StridedArray, *inputs: Any) -> None:
            product = np.matmul(window(a), window(b))
            if epilogue is not None:
                others = [x if operand.is_number else window(x) for x, operand in zip(inputs, operands, strict=True)]
                product = evaluated(epilogue, [product, *others])
            store(out, product)

        return kernel

    def copy(self, dtype: np.dtype) -> Any:
        @_QUIETLY
        def kernel(out: StridedArray, x: StridedArray) -> None:
            window(out)[...] = window(x)

        return kernel


def store(out: StridedArray, value: Any) -> None:
    """Convert a value to the dtype of a window and write it there."""
    value = np.real(value) if np.iscomplexobj(value) and out.dtype.kind not in "cb" else value
    window(out)[...] = np.asarray(value).astype(out.dtype)
