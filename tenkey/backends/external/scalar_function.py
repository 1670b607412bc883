"""What a template gets from tenkey: a scalar function, and a description of each operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...ops.scalar import Expression, evaluate, indices, to_c

__all__ = ["Operand", "ScalarFunction"]


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
