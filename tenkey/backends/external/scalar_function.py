"""What a template gets from tenkey: a scalar function, a description of each operand, a function of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ops.scalar import Expression, evaluate, indices, to_c

__all__ = ["Operand", "RowArray", "RowFunction", "RowSweep", "ScalarFunction"]


class Operand(NamedTuple):
    """An operand of a template's kernel: a window of ``dtype``, or with ``is_number`` a NumPy scalar.

    >>> tk.backends.Operand("x", tk.float32).is_number
    False
    """

    name: str
    dtype: np.dtype
    is_number: bool = False


class ScalarFunction:
    """A function that computes one element of a result, in ``dtype``, from one element of each operand.

    ``expression`` is the traced expression in the variables ``parameters``. ``indices`` are the axes whose index
    variables it contains, in ascending order: the variable ``index_0`` is the position of the element along axis 0, an
    integer that is converted to ``dtype``. Calling the function with Python numbers evaluates it.

    >>> from tenkey.library import scalar as s
    >>> function = ScalarFunction("demo", ("x",), s.exp(s.variable("x")) - 1, np.dtype("float32"))
    >>> function(0.0)
    0.0
    """

    __slots__ = ("dtype", "expression", "indices", "name", "parameters")

    def __init__(self, name: str, parameters: tuple[str, ...], expression: Expression, dtype: np.dtype) -> None:
        self.name = name
        self.parameters = parameters
        self.expression = expression
        self.dtype = dtype
        self.indices = tuple(indices([expression]).values())

    def __call__(self, *numbers: Any, **index: int) -> Any:
        """Evaluate the function for Python numbers, and ``index_0=`` and so on; slow, for tests."""
        return evaluate(self.expression, {**dict(zip(self.parameters, numbers, strict=True)), **index})

    def to_c(
        self, *, operands: Sequence[np.dtype] | None = None, result: np.dtype | None = None, name: str = "scalar",
        dialect: str = "c",
    ) -> str:  # fmt: skip
        """Return the function as source (``tk.library.scalar.to_c``); ``operands`` are the dtypes of the parameters.

        After these it has a parameter for each index variable, ``index_0`` and so on, of dtype int64 (in WGSL int32).
        ``dialect`` is "c", "opencl", "cuda", "metal" or "wgsl"; ``docs/printers.md`` says how each passes the dtypes.
        """
        dtypes = operands or [self.dtype] * len(self.parameters)
        parameters = {p: str(dtype) for p, dtype in zip(self.parameters, dtypes, strict=True)}
        return to_c(
            self.expression, parameters, dtype=str(self.dtype), result=str(result or self.dtype), name=name,
            dialect=dialect,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<scalar function {self.name}({', '.join(self.parameters)}) = {self.expression} in {self.dtype}>"


class RowArray(NamedTuple):
    """A tensor or a result of a function of rows.

    ``role`` is "row" (elements of each row), "each" (a number for each row) or "column" (elements that all rows share;
    of a result, the sums over all rows).
    """

    name: str
    role: str
    dtype: np.dtype


class RowSweep(NamedTuple):
    """One pass over the elements of a row; the parameters of each function are names, and an index is that in the row.

    ``elements`` are values of each element, ``folds`` numbers of the row: (name, "add" | "maximum" | "minimum", the
    function of each element). ``columns`` are summed over all rows. ``then`` are numbers that follow from the others.
    """

    elements: tuple[tuple[str, ScalarFunction], ...]
    folds: tuple[tuple[str, str, ScalarFunction], ...]
    columns: tuple[tuple[str, ScalarFunction], ...]
    then: tuple[tuple[str, ScalarFunction], ...]


class RowFunction(NamedTuple):
    """An operator that is a few sweeps over each row, such as softmax: what the template ``rows`` gets.

    Everything is computed in ``dtype``. A function's parameter is the name of an array, of one of ``numbers``, of a
    value of the same sweep or an earlier one, or ``count``, the number of elements of a row. A value may be computed
    anew by a later sweep; a result is the last one of its name.
    """

    name: str
    dtype: np.dtype
    inputs: tuple[RowArray, ...]
    results: tuple[RowArray, ...]
    numbers: tuple[str, ...]
    sweeps: tuple[RowSweep, ...]
