"""The functions of ``tenkey.numpy``: NumPy's signatures over the operators of tenkey.

Note [Functions with NumPy's rules]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
One table, ``tenkey/interop/numpy_table.py``, says which function of ``tk`` computes a function of NumPy, and what
becomes of each argument. It serves NumPy's own functions on tensors (``__array_function__``), where the rules are those
of ``tk``, and this namespace, where they are NumPy's:

- Sequences, NumPy arrays and numbers are taken as arrays; Python floats are float64.
- Operands of several dtypes are cast to NumPy's common dtype first (``numpy.result_type``), integers that give floats
  to float64, and the result is an ``ndarray``.
- ``out=`` receives the result.
- For arguments that have no counterpart and dtypes that an operator does not take, and in the functions of ``HOST``,
  NumPy computes from the values. A tensor that requires a gradient refuses that.

Guarded by ``tests/numpy/test_entries.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..core.device import CPU
from ..core.exchange.interfaces import read_interface
from ..core.plans import planned_reduction
from ..core.tensor import Tensor
from ..core.tree import map_tensors, tensors_in
from ..core.word import DTYPE_TRAIT, WEAK_MASK
from ..dispatch.registry import registry
from ..interop.numpy_functions import Row, arguments, named_functions, numpys, row_of, wider_row
from ..interop.numpy_names import NUMPY_NAMES
from ..interop.numpy_order import in_order
from ..ops.builtin.shape.copying import cast as in_dtype
from .array_class import as_ndarrays, as_scalars, ndarray
from .call_rules.result_rules import (
    ASKED,
    PLACES,
    SUMS,
    UNSAFE,
    WIDE,
    ZERO_D,
    as_numpys,
    in_dtypes,
    refuse_out,
    retaken,
    wanted_dtypes,
    wide,
)
from .converting import NUMBERS, cast, in_float64, on_host, operand, write_out
from .entries import OPERANDS, make_entry, words_of
from .known import functions
from .universal import ufunc, universal_functions

__all__ = ["functions", "HOST", "universal"]

HOST: Final = (
    "array_repr", "array_str", "array2string", "base_repr", "binary_repr", "einsum_path", "format_float_positional",
    "format_float_scientific", "save", "savetxt", "savez", "savez_compressed", "typename", "mintypecode",
)  # fmt: skip
"""Names of functions that NumPy computes from the values: text and files."""

_FIRST: Final = frozenset(["a", "x", "m", "z", "val", "p", "y", "f", "A", "ary", "ar", "arr", "element", "v"])
_EXACT: Final = sum(DTYPE_TRAIT[np.dtype(t)] for t in "?bhilBHILe" if np.dtype(t) in DTYPE_TRAIT)
_SAME: Final = frozenset([  # functions whose array operands have one common dtype
    "where", "concatenate", "concat", "stack", "vstack", "hstack", "dstack", "column_stack", "dot", "inner",
    "outer", "vdot", "tensordot", "kron", "cross", "einsum", "convolve", "correlate", "isin", "union1d", "intersect1d",
    "setxor1d", "allclose", "isclose", "array_equal", "searchsorted", "clip", "select",
    "linalg.solve", "linalg.lstsq", "linalg.cross", "linalg.outer", "linalg.matmul", "linalg.vecdot",
    "linalg.multi_dot", "linalg.tensordot", "block", "polyval",
])  # fmt: skip
# functions whose results have the dtype of the operand, or do not depend on it
_FREE: Final = frozenset([
    "bincount", "reshape", "transpose", "ravel", "squeeze", "expand_dims", "broadcast_to", "moveaxis", "swapaxes",
    "flip", "roll", "tile", "repeat", "split", "array_split", "concatenate", "stack", "where", "take", "zeros_like",
    "ones_like", "empty_like", "full_like", "arange", "zeros", "ones", "empty", "full", "eye", "linspace", "shape",
    "ndim", "size", "result_type", "meshgrid", "copy", "astype", "asarray", "array", "einsum",
])  # fmt: skip
_DOUBLE: Final = np.dtype(np.float64)
_CONDITIONS: Final = frozenset(["where", "select"])
# functions that compute in the dtype of the result, on which other arguments have an influence
_WIDENED: Final = frozenset(["average", "clip", "quantile", "percentile", "nanquantile", "nanpercentile"])
# where NumPy makes arrays of Python numbers, which have a dtype then
_PRODUCTS: Final = frozenset(["dot", "inner", "kron", "outer", "convolve", "polyval"])


def _strong(value: Any) -> Any:
    """Convert NumPy scalars, also in sequences, to arrays, since they keep their dtype and Python numbers do not."""
    if isinstance(value, (list, tuple)):
        return [_strong(x) for x in value]
    return operand(value) if isinstance(value, np.generic) and value.dtype in DTYPE_TRAIT else value


def _common(name: str, values: list[Any]) -> list[Any]:
    """Return the operands in NumPy's common dtype where their dtypes differ."""
    if name in _CONDITIONS:
        first = values[:1]
        if name == "where" and isinstance(first[0], (int, float, complex, np.number, Tensor)):
            first = [cast(operand(first[0]), np.dtype(bool))]  # takes no part in promotion
        return [*first, *_common("", values[1:])]
    if name == "einsum":  # beside the operands there are text and lists of integers
        listed = not isinstance(values[0] if values else "", str)
        places = range(0, len(values) - len(values) % 2, 2) if listed else range(1, len(values))
        terms = iter(_common("", [values[i] for i in places]))
        return [next(terms) if i in places else v for i, v in enumerate(values)]
    values = [_strong(v) for v in values]
    flat = [x for v in values for x in (v if isinstance(v, (list, tuple)) else (v,))]
    numbers: list[Any] = [x for x in flat if isinstance(x, NUMBERS)]
    if name in _PRODUCTS:
        numbers = [np.asarray(x).dtype for x in numbers]
    found = {x.dtype for x in flat if isinstance(x, Tensor) and not x._word & WEAK_MASK}
    if not found or any(d.kind == "V" for d in found) or (len(found) == 1 and not numbers):
        return values
    dtype = np.result_type(*found, *numbers)

    def convert(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return [convert(one) for one in x]
        if isinstance(x, Tensor):
            return cast(x, dtype)
        return cast(operand(x), dtype) if isinstance(x, NUMBERS) else x

    return [convert(v) for v in values]


def _numbers_as_arrays(row: Row, first: list[Any]) -> list[Any]:
    """Return the operands with a number in the place of the first one as an array."""
    if first and isinstance(first[0], NUMBERS) and row.names[:1] and row.names[0] in _FIRST:
        return [operand(first[0]), *first[1:]]
    return first


def _exported(x: Any, name: str) -> Any:
    """Return the array that an object exports by ``__array__`` or a buffer; anything else as it is."""
    if x is None or isinstance(x, _VALUES):
        return x
    try:
        array = read_interface(x, f"numpy.{name}")
    except (TypeError, ValueError) as error:
        if error.__cause__ is not None:  # the object's own error; otherwise the array is one of Python objects
            raise
        return x
    if array is None:
        with contextlib.suppress(TypeError, ValueError, BufferError):
            return np.asarray(memoryview(x))
    return x if array is None else array


_VALUES: Final = (Tensor, np.ndarray, np.generic, int, float, complex, str, bytes, list, tuple)


def _general(name: str, source: Any, direct: set[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the counterpart of a NumPy function with any of NumPy's arguments."""
    row = row_of(name)
    if name in ("squeeze", "transpose") and args and isinstance(args[0], np.generic):
        return source(*args, **kwargs)  # by the scalar's own method
    if name in _JOINING and not kwargs.keys() - {"axis"} and kwargs.get("axis", 0) is not None:
        made = _joined(row, args, kwargs)
        if made is not None:
            return made
    out = kwargs.get("out")
    if name != "result_type":  # of dtypes
        names = row.names if row.positional >= 0 else ()
        args = tuple([_exported(x, name) if i >= len(names) or names[i] in OPERANDS else x for i, x in enumerate(args)])
    options = {k: _exported(v, name) if k in OPERANDS else v for k, v in kwargs.items() if k != "out"}
    if isinstance(out, tuple):
        (out,) = out
    if name in SUMS and isinstance(out, (Tensor, np.ndarray)) and options.get("dtype") is None:
        options["dtype"] = np.result_type(out.dtype, *[x.dtype for x in tensors_in(args)[:1]])
    if name == "clip" and ("a_min" in options) is not ("a_max" in options):
        raise TypeError("[numpy.clip] takes both a_min and a_max: give None for no limit, or use min= and max=.")
    if name == "where" and "y" in options and "x" in options:  # NumPy takes them by position only
        args = (*args, options.pop("x"), options.pop("y"))
    tensors = tensors_in((args, options))
    device = next((x.device for x in tensors if not x._word & WEAK_MASK), CPU)
    used, wider = row, None
    found = arguments(source, row, args, options, device)
    if found is None and (wider := wider_row(name)) is not None:
        used, found = wider, arguments(source, wider, args, options, device)
    if found is None:
        return on_host(source, args, {**options, **({} if out is None else {"out": out})})
    first, keywords = found
    operands, refused = _numbers_as_arrays(row, first), False
    if name in _SAME:
        operands = _common(name, operands)
    if name in WIDE:
        operands = wide(operands)
    asked = name in ASKED or (name == "clip" and len(tensors) > 1) or (name == "average" and "weights" in options)
    if asked and name in _WIDENED and not _is_double(tensors, []):
        operands = _widened(operands, wanted_dtypes(source, row, args, options))
    try:
        made = in_float64(used.target, tuple(operands), keywords)
    except (TypeError, NotImplementedError) as error:
        wanted = wanted_dtypes(source, row, args, options)
        try:
            made = _otherwise(used, wider or wider_row(name), tensors, operands, keywords, wanted)
        except (ValueError, IndexError, RuntimeError) as other:
            raise as_numpys(other, source, args, options) from None
        refused = True
        if made is None:
            if any(x.requires_grad for x in tensors):
                raise
            try:
                return on_host(source, args, {**options, **({} if out is None else {"out": out})})
            except NotImplementedError:
                raise as_numpys(error, source, args, options) from None
    except (ValueError, IndexError, RuntimeError) as error:
        made = _of_nothing(source, args, kwargs, tensors)
        if made is None:
            raise as_numpys(error, source, args, options) from None
        return made
    if name == "dot" and made.ndim <= 2 and made.dtype.kind in "fc" and made.dtype.itemsize > 2:
        made = in_order(made, "C")  # BLAS writes results row by row, also those of a number and a matrix
    made = as_ndarrays(made, tuple(tensors))
    exact = not tensors or any(x._word & _EXACT for x in tensors)
    results = _dtypes_of(made)
    if "dtype" in options or (asked and not _is_double(tensors, results)) or (name not in _FREE and exact):
        made = in_dtypes(made, wanted_dtypes(source, row, args, options))
    plain = used is row and not refused and _are(operands, first)
    plain = plain and not (exact and name == "clip")  # whose limits may be floats
    same = name not in ASKED - {"where", "einsum"} and plain and results == _dtypes_of(made)
    if same and (name in _FREE or not exact or all(d is not None and d.kind in "biu" for d in results)):
        direct.add(words_of(row, args))  # integers that give floats do so by the default dtype, which differs in `tk`
    if name == "dot" and out is not None:
        refuse_out(made, out)
    if name in ("take", "choose") and out is not None and not np.can_cast(out.dtype, made.dtype):
        raise TypeError(f"Cannot cast array data from {out.dtype!r} to {made.dtype!r} according to the rule 'safe'")
    if name in PLACES and out is not None and not np.can_cast(out.dtype, np.intp):
        raise TypeError(f"[numpy.{name}] out= has dtype {out.dtype}: it receives places, give an array of {np.intp}.")
    if out is not None:
        return write_out(name, made, out, True, "unsafe" if name in UNSAFE else "same_kind")
    return made if name in ZERO_D else as_scalars(made)


def _widened(operands: list[Any], wanted: Any) -> list[Any]:
    """Return operands with the first one in the dtype of the result, if that is a wider one."""
    first = operands[0] if operands else None
    if not wanted or not isinstance(first, Tensor) or np.promote_types(first.dtype, wanted[0]) != wanted[0]:
        return operands
    return [cast(first, wanted[0]), *operands[1:]]


def _of_nothing(source: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Any) -> Any:
    """Return NumPy's result for empty arrays that an operator refuses (the median is nan); None if it does too."""
    if all(x._data.size for x in tensors) or any(x.requires_grad for x in tensors):
        return None
    try:
        return on_host(source, args, kwargs)
    except Exception:  # which the caller explains
        return None


_JOINING: Final = frozenset(["concatenate", "concat", "stack", "vstack", "hstack"])


def _joined(row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return joined arrays of several dtypes, the usual reason to come here; None for anything else, errors too."""
    if len(args) != 1 or args[0].__class__ not in (list, tuple) or not args[0]:
        return None
    for x in args[0]:
        if x.__class__ is not ndarray:
            return None
    dtypes = {x._data.dtype for x in args[0]}
    if len(dtypes) == 1:
        return None
    dtype = np.result_type(*dtypes)
    try:
        parts = [x if x._data.dtype == dtype else in_dtype(x, dtype) for x in args[0]]
        return as_ndarrays(row.target(parts, **kwargs), tuple(args[0]))
    except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError):
        return None


def _otherwise(
    used: Row, wider: Row | None, tensors: Any, operands: Any, keywords: dict[str, Any], wanted: Any
) -> Any:  # fmt: skip
    """Return the result by the wider function, or for operands of another dtype; None without any."""
    for each in (used,) if wider is None or wider is used else (used, wider):
        if each is wider and wider is not used:
            with contextlib.suppress(TypeError, NotImplementedError):
                return in_float64(each.target, tuple(operands), keywords)
        if wanted and any(x.dtype.char in "?e" for x in tensors):
            others, named = map_tensors(lambda x: retaken(x, wanted), (operands, keywords))
            with contextlib.suppress(TypeError, NotImplementedError):
                return in_float64(each.target, tuple(others), named)
    return None


def _are(one: Any, other: Any) -> bool:
    """Tell whether operands are the same objects, in lists too."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_are, one, other))
    return one is other


def _is_double(tensors: list[Tensor], results: list[Any]) -> bool:
    """Tell whether all operands and results are float64, so that NumPy's results can have no other dtype."""
    found = {*results, *[x.dtype for x in tensors if not x._word & WEAK_MASK]}
    return bool(tensors) and found == {_DOUBLE}


def _dtypes_of(made: Any) -> list[Any]:
    return [getattr(x, "dtype", None) for x in (made if isinstance(made, (tuple, list)) else (made,))]


def _function(name: str, source: Any) -> Any:
    direct: set[Any] = set()
    function = make_entry(name, source, partial(_general, name, source, direct), direct)
    if name in _PLANNED:
        function = planned_reduction(registry.find(f"tk::{NUMPY_NAMES.get(name, name)}"), function)
    return _named(function, name, source)


_PLANNED: Final = frozenset(["sum", "prod", "max", "amax", "min", "amin", "all", "any", "mean"])
"""Reductions with plans."""


def _named(function: Any, name: str, source: Any) -> Any:
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__module__ = "tenkey.numpy" + (f".{name.rpartition('.')[0]}" if "." in name else "")
    function.__wrapped__ = source  # the signature, for inspect
    function.__doc__ = (
        f"Compute ``numpy.{name}``, with NumPy's arguments and result dtypes; the result is an ``ndarray``."
    )
    return function


def _host_function(name: str, source: Any) -> Any:
    function = _named(lambda *args, **kwargs: on_host(source, args, kwargs), name, source)
    function.on_host = True
    return function


_OWN: Final[dict[str, Callable[..., Any]]] = {
    "isscalar": np.isscalar,
    "iterable": np.iterable,
    "isfortran": lambda a: bool(a.flags.fnc),
}
"""Functions that look at the kind of an object, not at values."""


def _make() -> dict[str, Callable[..., Any]]:
    made: dict[str, Callable[..., Any]] = {}
    for name in HOST:
        source = numpys(name)
        if source is not None:
            made[name] = _host_function(name, source)
    made.update(_OWN)
    for name, source in named_functions().items():
        made[name] = _function(name, source)
    made["permute_dims"] = made["transpose"]
    return {**made, **functions}  # modules define their own functions before or after this one


functions.update(_make())
universal: Final[dict[str, ufunc]] = universal_functions()
