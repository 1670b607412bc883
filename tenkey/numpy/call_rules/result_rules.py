"""The dtypes and the errors of results of ``tenkey.numpy``, about which NumPy itself is asked.

Note [NumPy is asked]
~~~~~~~~~~~~~~~~~~~~~
For the dtypes of results NumPy's function is called once with arrays of one element in the place of the operands, and
its answer is kept for their dtypes and dimensions. When an operator refuses its operands, NumPy is called with zeros of
their shapes (one element, broadcast) for the class of its error: ``AxisError``, ``LinAlgError``, ``TypeError``. The
values of the operands are not read. Guarded by ``tests/numpy/test_table_mathematics.py``.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...core.tree import map_tensors, tensors_in
from ...core.word import DTYPE_TRAIT, WEAK_MASK
from ...interop.numpy_functions import ARRAYS, Row
from ..array_class import as_ndarrays
from ..converting import cast

__all__ = [
    "ASKED",
    "PLACES",
    "SUMS",
    "UNSAFE",
    "WIDE",
    "ZERO_D",
    "as_numpys",
    "in_dtypes",
    "refuse_out",
    "retaken",
    "wanted_dtypes",
    "wide",
]

_ERRORS: Final[tuple[type[Exception], ...]] = (
    np.exceptions.AxisError, np.linalg.LinAlgError, TypeError, ValueError, IndexError,
)  # fmt: skip
"""The classes of errors that users of NumPy catch, the special ones first."""
WIDE: Final = frozenset(["interp"])  # they compute in double precision at least
ASKED: Final = WIDE | frozenset([  # NumPy's rules for the dtype differ from those of the operator in all dtypes
    "quantile", "percentile", "nanquantile", "nanpercentile", "where", "linalg.lstsq", "einsum",
])  # fmt: skip
SUMS: Final = frozenset([  # they compute in the common dtype of the operand and out=
    "sum", "prod", "nansum", "nanprod", "cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_sum",
    "cumulative_prod", "trace",
])  # fmt: skip
PLACES: Final = frozenset(["argmax", "argmin", "nanargmax", "nanargmin"])
UNSAFE: Final = SUMS | PLACES | frozenset([  # reductions that cast their results to the dtype of any out=
    "mean", "nanmean", "var", "max", "amax", "min", "amin", "nanmax", "nanmin", "median", "nanmedian", "any", "all",
])  # fmt: skip

ZERO_D: Final = frozenset([  # functions whose 0-d results are arrays in NumPy too: Note [Scalars and 0-d arrays]
    "array", "asarray", "astype", "block", "broadcast_to", "copy", "cov", "cross", "empty", "empty_like", "expand_dims",
    "full", "full_like", "i0", "imag", "isin", "linalg.tensordot", "moveaxis", "ones", "ones_like", "real",
    "real_if_close", "reshape", "resize", "roll", "select", "squeeze", "swapaxes", "tensordot", "tile", "transpose",
    "where", "zeros", "zeros_like",
])  # fmt: skip


def wide(values: list[Any]) -> list[Any]:
    """Return the floating operands in double precision."""
    return [
        cast(x, np.result_type(x.dtype, np.float64)) if isinstance(x, Tensor) and x.dtype.kind in "biufc" else x
        for x in values
    ]


_dtypes: Final[dict[Any, Any]] = {}
_KEPT: Final = 4096  # answers
_PLAIN: Final = (bool, int, float, complex, str, bytes, slice, type, np.dtype, np.generic)


def _is_plain(x: Any) -> bool:
    """Return whether the text of an argument says what NumPy makes of it."""
    if isinstance(x, (list, tuple)):
        return all(map(_is_plain, x))
    return x is None or x is Ellipsis or x is np._NoValue or isinstance(x, _PLAIN)


def wanted_dtypes(source: Any, row: Row, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return NumPy's dtypes of the results, which it tells for arrays of one element in the place of the operands."""
    key: list[Any] = [source]
    opaque: list[Any] = []

    def probe(name: str, x: Any) -> Any:
        if isinstance(x, (Tensor, np.ndarray)):
            key.append((x.dtype, x.ndim))
            return np.ones((1,) * x.ndim, x.dtype)
        if isinstance(x, (list, tuple)):
            if name in row.sequences or tensors_in([x]) or any(isinstance(one, np.ndarray) for one in x):
                return type(x)([probe(name, one) for one in x])
            if name in ARRAYS and (array := np.asarray(x)).dtype in DTYPE_TRAIT:
                return probe("", array)
        if not _is_plain(x):
            opaque.append(x)  # another object may have its address, and text, later
        key.append((name, x.__class__, repr(x)))
        return x

    names = row.names if row.positional >= 0 else ()
    given = [probe(names[i] if i < len(names) else "", x) for i, x in enumerate(args)]
    keywords = {name: probe(name, x) for name, x in options.items()}
    known = tuple(key)
    wanted = key if opaque else _dtypes.get(known, key)
    if wanted is not key:
        return wanted
    wanted = None
    for length in (1, 2):  # a transform to real numbers needs two elements
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = source(*_lengthened(given, length), **_lengthened(keywords, length))
        except Exception:  # arguments that do not fit: the dtype stays
            continue
        wanted = [r.dtype if hasattr(r, "dtype") else None for r in (found if isinstance(found, tuple) else (found,))]
        break
    if len(_dtypes) > _KEPT:
        _dtypes.clear()
    if not opaque:
        _dtypes[known] = wanted
    return wanted


def _lengthened(given: Any, length: int) -> Any:
    """Return arguments with the arrays of one element repeated along their axes."""
    if isinstance(given, np.ndarray) and length > 1:
        return np.ones((length,) * given.ndim, given.dtype)
    if isinstance(given, dict):
        return {name: _lengthened(x, length) for name, x in given.items()}
    return type(given)([_lengthened(x, length) for x in given]) if isinstance(given, (list, tuple)) else given


def retaken(x: Tensor, wanted: list[Any]) -> Tensor:
    """Return an operand of a dtype that few operators take in another one, for results of these dtypes."""
    kinds = {d.kind for d in wanted if d is not None}
    if x._word & WEAK_MASK or x.dtype.char not in "?e":
        return x
    if x.dtype.char == "e":
        return cast(x, np.dtype(np.float32))
    return cast(x, np.dtype(np.float64) if kinds & {*"fc"} else np.dtype(np.int64 if kinds & {*"iu"} else np.uint8))


def in_dtypes(made: Any, wanted: Any) -> Any:
    """Return results in NumPy's dtypes."""
    if wanted is None:
        return made
    results = made if isinstance(made, tuple) else (made,)
    if len(results) != len(wanted):
        return made
    cast_results = [
        as_ndarrays(cast(r, d))
        if isinstance(r, Tensor) and d in DTYPE_TRAIT and (r.dtype.kind != "c" or d.kind == "c")
        else r
        for r, d in zip(results, wanted)
    ]
    if not isinstance(made, tuple):
        return cast_results[0]
    return type(made)(*cast_results) if hasattr(made, "_fields") else tuple(cast_results)


def as_numpys(error: Exception, source: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Exception:
    """Return the error that NumPy raises for zeros of these shapes, with its class and message."""
    given, keywords = map_tensors(lambda x: np.broadcast_to(np.zeros((), x.dtype), x.shape), (args, options))
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source(*given, **keywords)
    except Exception as numpys:  # any of them
        for kind in _ERRORS:
            if isinstance(numpys, kind):
                return kind(f"{error} (NumPy: {numpys})")
    return error


def refuse_out(made: Any, out: Any) -> None:
    """Raise ValueError unless ``out=`` of ``dot`` is as the result, which NumPy's product writes without conversion."""
    if getattr(out, "dtype", None) != made.dtype or out.shape != made.shape or not out.flags.c_contiguous:
        raise ValueError(
            f"[numpy.dot] out= must be a C-contiguous array of the shape {made.shape} and the dtype {made.dtype} of "
            "the result."
        )
