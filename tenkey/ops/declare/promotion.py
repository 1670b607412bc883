"""The dtypes in which pointwise operators and reductions compute, and those of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from ...core.dtypes import names as dtypes
from ...core.dtypes.promotion import result_dtype

__all__ = [
    "ARITHMETIC", "BOOLEAN", "COMPARISON", "EACH_TO_FLOAT", "INT_TO_FLOAT", "MAGNITUDE", "ORDERED", "REAL",
    "REAL_TO_FLOAT", "SAME", "SUM", "Promotion", "refuse_lost_part",
]  # fmt: skip


class Promotion(NamedTuple):
    """``compute`` maps the common dtype of the arguments to that of the computation, ``result`` that to the result's.

    With ``each``, ``compute`` is applied to the dtype of each argument first.
    """

    name: str
    compute: Callable[[np.dtype], np.dtype]
    result: Callable[[np.dtype], np.dtype]
    accepts: str = "biufc"
    takes: str = "any dtype"
    each: bool = False

    @property
    def compares(self) -> bool:
        """Whether values are compared unchanged, so that even a number that the dtype cannot hold has an answer."""
        return self.compute is _same and self.result is _boolean

    def dtypes(self, operator: str, arrays: Iterable[np.dtype], weak: Iterable[type] = ()) -> tuple[np.dtype, np.dtype]:
        """Return the dtype of the computation and that of the result; raise TypeError if a dtype is not accepted."""
        given = tuple(map(self.compute, arrays)) if self.each else tuple(arrays)
        common = result_dtype(given, tuple(weak))
        if common.kind not in self.accepts and not (common.kind == "V" and "f" in self.accepts):
            raise TypeError(
                f"[{operator}] is not defined for dtype {common}: it takes {self.takes}. Convert with tk.astype(x, "
                "dtype)."
            )
        compute = self.compute(common)
        return compute, self.result(compute)


def refuse_lost_part(operator: str, given: np.dtype, dtype: np.dtype) -> None:
    """Raise TypeError if ``dtype=`` of a reduction would discard the imaginary part of complex numbers."""
    if given.kind == "c" and dtype.kind not in "cb":
        raise TypeError(
            f"[{operator}] {given} with dtype={dtype} would lose the imaginary part: take tk.real(x) first."
        )


def _same(dtype: np.dtype) -> np.dtype:
    return dtype


def _int_to_float(dtype: np.dtype) -> np.dtype:
    return dtypes.default_float() if dtype.kind in "biu" else dtype


def _boolean(dtype: np.dtype) -> np.dtype:
    return dtypes.bool


@lru_cache(maxsize=64)
def _sum(dtype: np.dtype) -> np.dtype:
    if dtype.kind in "bi":
        return dtypes.int64
    return dtypes.uint64 if dtype.kind == "u" else dtype


SAME: Final = Promotion("SAME", _same, _same)
ARITHMETIC: Final = Promotion("ARITHMETIC", _same, _same, "iufc", "numeric dtypes, not bool")
REAL: Final = Promotion("REAL", _same, _same, "iuf", "real numeric dtypes")
INT_TO_FLOAT: Final = Promotion("INT_TO_FLOAT", _int_to_float, _same)
REAL_TO_FLOAT: Final = Promotion("REAL_TO_FLOAT", _int_to_float, _same, "biuf", "real dtypes (integers give floats)")
# SciPy's rule for special functions of several arguments: integers become default floats, even beside narrower ones.
EACH_TO_FLOAT: Final = Promotion("EACH_TO_FLOAT", *REAL_TO_FLOAT[1:-1], each=True)
ORDERED: Final = Promotion("ORDERED", _same, _same, "biuf", "dtypes with an order, not complex ones")
MAGNITUDE: Final = Promotion("MAGNITUDE", _same, dtypes.real_of, "iufc", "numeric dtypes, not bool")
COMPARISON: Final = Promotion("COMPARISON", _same, _boolean)
BOOLEAN: Final = Promotion("BOOLEAN", _boolean, _boolean)
SUM: Final = Promotion("SUM", _sum, _same)
