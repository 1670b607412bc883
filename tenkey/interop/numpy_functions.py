"""NumPy functions on tensors: ``np.mean(x, axis=0)`` is ``tk.mean(x, axis=0)``.

Note [NumPy functions on tensors]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy hands over the calls of its functions on tensors (``__array_function__``). A function in the table
(``numpy_table.py``) calls its counterpart here: with gradients, on every device, and with tensors as results. Its row
lists NumPy's arguments in NumPy's order; where an argument without a counterpart is given (``where=``, ``initial=``),
NumPy computes from the values, and its results become tensors. An array given as ``out=`` holds the result and is the
result.
A function that is not in the table gets arrays in place of its tensors, and its results stay arrays: libraries use some
of them (``np.atleast_1d``) as conversions before compiled code. Functions that write into their first operand refuse a
tensor there. The first call of a NumPy function loads this module. A row is read at the first call of its function,
and the module of what it calls is imported then. Guarded by tests/interop/test_numpy_functions.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, NamedTuple, cast

import numpy as np

from .. import functions
from .._util.locks import new_lock
from ..core.tensor import Tensor, add_methods
from ..core.tree import tensors_in
from ..core.word import DTYPE_TRAIT
from ..dispatch import registry
from ..functions import creation, indexing, linspace, splitting
from ..functions.creation import asarray
from ..ops.builtin import load
from .numpy_fallback import as_tensor, refuse_tensor, run_numpy, to_tensors
from .numpy_names import NUMPY_NAMES
from .numpy_table import ADAPTED, TABLE, WIDER

__all__ = [
    "ARRAYS",
    "Row",
    "arguments",
    "array_function",
    "named_functions",
    "numpys",
    "row_names",
    "row_of",
    "wider_row",
]


@functools.cache
def _ours(name: str) -> Callable[..., Any]:
    """Return ``tk.<name>``: an operator, or a function of the namespace."""
    module, _, short = name.rpartition(".")
    if module:
        load(module)
    for holder in (functions, indexing, creation, splitting, linspace):
        if short in holder.__all__:
            return cast("Callable[..., Any]", getattr(holder, short))
    operator = registry.operators.get(f"tk::{module}_{short}") if module else None  # tk.linalg.matmul is tk.matmul
    return (operator or registry.find(f"tk::{short}")).call


def _where(condition: Any, x1: Any, x2: Any = None) -> Any:
    if x1 is None or x2 is None:
        raise ValueError("[where] either both or neither of x and y should be given.")
    if isinstance(condition, Tensor) and condition.dtype.kind != "b":
        condition = condition != 0
    return _ours("where")(condition, x1, x2)


# Functions that are not quite those of ``tk``, for the rows of the same names.
_ADAPTED: Final[dict[str, Callable[..., Any]]] = {
    "where": lambda condition, *xs: _where(condition, *xs) if xs else _ours("nonzero")(condition),
    "vdot": lambda *operands: _ours("vecdot")(*[_ours("reshape")(x, (-1,)) for x in operands]),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "allclose": lambda *operands, **options: bool(_ours("allclose")(*operands, **options)),
    "array_equal": lambda *operands, **options: bool(_ours("array_equal")(*operands, **options)),
    "result_type": lambda *operands: np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in operands]),
}
_PLACES: Final = {name: module for module, names in ADAPTED.items() for name in names.split()}
_WIDER: Final = frozenset(WIDER.split())
_WRITERS: Final = frozenset(["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"])
_MANY: Final = -1  # any number of operands, by position
# arguments for which NumPy takes a list as an array
ARRAYS: Final = frozenset([
    "a", "a1", "a2", "b", "x", "y", "v", "xp", "fp", "ar1", "ar2", "arr", "p", "z", "indices", "element",
    "test_elements", "bins", "weights", "condition", "prepend", "append", "ar", "ary", "m", "f", "A", "val",
    "to_end", "to_begin", "fweights", "aweights", "seq_of_zeros", "u", "w",
])  # fmt: skip
# values of arguments without a counterpart that have no effect; False is one except where listed below
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "mode": ("raise",), "bias": (0,), "axis": (0,), "axis1": (0,), "axis2": (1,), "ndmin": (0,), "UPLO": ("L",),
    "compute_uv": (True,), "where": (True,), "casting": ("same_kind",), "reflect_type": ("even",), "copy": (True,),
    "order": ("C", "K"), "axisa": (-1,), "axisb": (-1,), "axisc": (-1,),
}  # fmt: skip
_UNLIKE_FALSE: Final = frozenset(["compute_uv", "where", "initial", "mean"])
_NO_VALUE: Any = getattr(np, "_NoValue", None)
_SIMPLE: Final = frozenset([Tensor, bool, int, float, complex])


class Row(NamedTuple):
    """How a NumPy function is called here."""

    target: Callable[..., Any]
    names: tuple[str, ...]  # of NumPy's arguments
    positional: int  # so many of them are passed by position
    renamed: dict[str, str]
    refused: frozenset[str]
    ignored: frozenset[str]
    sequences: frozenset[str]
    converts: bool  # the first operand to dtype
    flattens: Any  # False: never; otherwise the default axis

    @property
    def is_simple(self) -> bool:
        """Whether operands that are tensors and numbers can be passed on as they are."""
        return self.flattens is False and not self.sequences


def numpys(name: str) -> Any:
    """Return NumPy's function of this name, ``linalg.norm`` for example; None where NumPy is older."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _adapted(name: str) -> Callable[..., Any] | None:
    module = _PLACES.get(name)
    return _ADAPTED.get(name) if module is None else _found(module, name)


def _found(module: str, name: str) -> Callable[..., Any]:
    with new_lock():  # as in Note [Delayed modules]
        found = import_module(f".{module}", __package__)
    return cast("Callable[..., Any]", found.FUNCTIONS[name])


@functools.cache
def _lines() -> dict[str, str]:
    """Return the arguments in the table, by NumPy's names."""
    lines = [line.partition(":") for line in TABLE.strip().splitlines()]
    return {name: tail for head, _, tail in lines for name in head.split()}


@functools.cache
def row_of(name: str) -> Row:
    """Return the row of a name of the table."""
    first, _, rest = _lines()[name].partition("/")
    given, options = first.split(), rest.split()
    plain = [name.lstrip("-~").rstrip("*@!.").partition("=")[0] for name in (*given, *options)]
    ours = NUMPY_NAMES.get(name, name)
    return Row(
        _adapted(name) or _adapted(ours) or _ours(ours),
        tuple(plain),
        _MANY if first.rstrip().endswith("...") else len(given),
        {a: b for a, _, b in (option.partition("=") for option in options) if b},
        frozenset(option[1:] for option in options if option[0] == "-"),
        frozenset(option[1:] for option in options if option[0] == "~"),
        frozenset(argument[:-1] for argument in (*given, *options) if argument[-1] == "*"),
        "dtype@" in options,
        None if "axis!!" in options else "axis!" in options,
    )


def named_functions() -> dict[str, Any]:
    """Return the functions of NumPy in the table, by their names there."""
    found = {name: numpys(name) for name in _lines()}
    return {name: function for name, function in found.items() if function is not None}  # NumPy may be older


@functools.cache
def row_names() -> dict[Any, str]:
    """Return the names in the table by the functions of NumPy; it is read at the first use."""
    return {function: name for name, function in named_functions().items()}


@functools.cache
def _defaults(func: Any) -> dict[str, Any]:
    """Return NumPy's arguments with their defaults, in order; {} for a compiled function without a signature."""
    try:
        return {name: p.default for name, p in inspect.signature(func).parameters.items()}
    except ValueError:
        return {}


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        return [_flat(each) for each in value]
    return _ours("reshape")(value, (-1,)) if isinstance(value, Tensor) and value.ndim != 1 else value


def _is_array(value: Any) -> bool:
    """Return whether a value, or one in it, is an array without an equivalent tensor."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_array, value))
    return isinstance(value, np.ndarray) and not (value.__class__ is np.ndarray and value.dtype in DTYPE_TRAIT)


def _operand(name: str, value: Any, row: Row, device: Any) -> Any:
    """Return an array, or a list that NumPy takes for an array, as a tensor; anything else as it is."""
    if name in row.sequences and isinstance(value, (list, tuple)):
        return [as_tensor(v, device) for v in value]
    if name in row.sequences and isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        return [*(value if isinstance(value, Tensor) else asarray(value, device=device))]  # its rows
    if value.__class__ is np.ndarray:
        return asarray(value, device=device)
    if name in ARRAYS and isinstance(value, (list, tuple)):
        return as_tensor(value, device)
    return value


def arguments(func: Any, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
    """Return the arguments of the counterpart, by position and by keyword, or None where it cannot do the same."""
    if any(map(_is_array, args)) or any(map(_is_array, kwargs.values())):
        return None
    if row.positional == _MANY:
        first = [_operand("", value, row, device) for value in args]
        given = dict(kwargs)
    else:
        if len(args) > len(row.names):
            return None
        given = {**dict(zip(row.names, args, strict=False)), **kwargs}
        order = row.names[: row.positional]
        first = [_operand(name, given.pop(name), row, device) for name in takewhile(given.__contains__, order)]
    if row.flattens is not False and first and given.get("axis", row.flattens) is None:
        first[0] = _flat(first[0])
        given.pop("axis", None)
    keywords: dict[str, Any] = {}
    for name, value in given.items():
        if value is _NO_VALUE or name in row.ignored:
            continue
        if value is None:
            if name == "dtype" or _defaults(func).get(name) in (None, _NO_VALUE):
                continue
            if name == "axes":  # of two-dimensional transforms: all
                keywords[name] = None
                continue
            return None  # where None is not the default, it has a meaning of its own, or is an error
        if name == "dtype":
            value = np.dtype(value)
            if value not in DTYPE_TRAIT:
                return None
        if name not in row.names or name in row.refused:
            if value is False and name not in _UNLIKE_FALSE:
                continue
            if isinstance(value, (int, str)) and value in _DEFAULTS.get(name, ()):
                continue
            return None
        ours = row.renamed.get(name, name)
        if ours in keywords and not (name == "correction" and keywords[ours] == 0):
            return None  # given under both of its names
        keywords[ours] = _operand(name, value, row, device)
    if row.converts and "dtype" in keywords:
        dtype = keywords.pop("dtype")
        first[0] = [v.astype(dtype) for v in first[0]] if isinstance(first[0], list) else first[0].astype(dtype)
    return first, keywords


@functools.cache
def wider_row(name: str) -> Row | None:
    """Return the row for arguments and dtypes that the operator does not take, if there is another function."""
    if name not in _WIDER:
        return None
    row = row_of(name)
    return row._replace(target=_found("numpy_reductions", name), refused=row.refused - {"where", "initial", "mean"})


def array_function(self: Tensor, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: D103
    known = row_names().get(func)
    row = None if known is None else row_of(known)
    if (
        row is not None
        and not kwargs
        and len(args) <= row.positional
        and row.is_simple
        and _SIMPLE.issuperset(map(type, args))
    ):
        return row.target(*args)
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented  # a class that wraps tensors, or has its own idea of the function
    name, out = func.__name__, kwargs.get("out")
    names = list(_defaults(func)) or (list(row.names) if row is not None else [])
    if out is None and "out" in names and names[0] != "operands" and names.index("out") < len(args):
        out = args[names.index("out")]
    if isinstance(out, Tensor):
        raise refuse_tensor(name, out=True)
    tensors = tensors_in((args, kwargs))
    device = tensors[0].device if tensors else self.device
    if known is not None and out is None:
        for look in (row_of, wider_row):
            each = look(known)
            found = None if each is None else arguments(func, each, args, kwargs, device)
            if each is not None and found is not None:
                return each.target(*found[0], **found[1])
    if name in _WRITERS and args and isinstance(args[0], Tensor):
        raise refuse_tensor(name, out=False, remedy="assign by index, or use the functions of tk")
    result = run_numpy(name, func, args, kwargs)
    return result if row is None or out is not None else to_tensors(result, device)


add_methods(__array_function__=array_function)
