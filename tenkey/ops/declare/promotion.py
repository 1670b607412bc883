"""Which dtype a pointwise operator or a reduction computes in, and which its result has."""

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
    """``common`` of the arguments goes through ``compute``; the result of that through ``result``.

    With ``each`` every argument goes through ``compute`` before they have anything in common.
    """

    name: str
    compute: Callable[[np.dtype], np.dtype]
    result: Callable[[np.dtype], np.dtype]
    accepts: str = "biufc"
    takes: str = "any dtype"
    each: bool = False

    @property
    def compares(self) -> bool:
        """Whether values are compared as they are: even a number that the dtype cannot hold gives an answer."""
        return self.compute is _same and self.result is _boolean

    def dtypes(self, operator: str, arrays: Iterable[np.dtype], weak: Iterable[type] = ()) -> tuple[np.dtype, np.dtype]:
        """The dtype to compute in and the dtype of the result."""
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
    """``dtype=`` of a reduction: complex numbers do not become real ones by leaving a part out."""
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
# Special functions of several arguments, by SciPy's rule: an integer is a default float, also beside a narrower one.
EACH_TO_FLOAT: Final = Promotion("EACH_TO_FLOAT", *REAL_TO_FLOAT[1:-1], each=True)
ORDERED: Final = Promotion("ORDERED", _same, _same, "biuf", "dtypes with an order, not complex ones")
MAGNITUDE: Final = Promotion("MAGNITUDE", _same, dtypes.real_of, "iufc", "numeric dtypes, not bool")
COMPARISON: Final = Promotion("COMPARISON", _same, _boolean)
BOOLEAN: Final = Promotion("BOOLEAN", _boolean, _boolean)
SUM: Final = Promotion("SUM", _sum, _same)
