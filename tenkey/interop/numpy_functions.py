"""NumPy's functions of tensors: ``np.mean(x, axis=0)`` is ``tk.mean(x, axis=0)``.

Note [NumPy's functions of tensors]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy hands a call of its functions on a tensor over to us (``__array_function__``). A function in the table below is
ours of the same meaning: with gradients, on every device, and with tensors as results. Its row has NumPy's arguments
in NumPy's order; what NumPy has and we do not (``where=``, ``initial=``) lets NumPy compute from the values, and makes
tensors of what comes out. ``out=`` is an array, which then holds the result and is the result.
A function that is not in the table converts its tensors to arrays, as it always did, and gives arrays: libraries use
some of them (``np.atleast_1d``) as conversions, and go on in compiled code. Those that write into their first operand
refuse a tensor there. The first call of such a function loads this module. Guarded by
tests/interop/test_numpy_functions.py.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, cast

import numpy as np

from ..core.device import CPU
from ..core.tensor import Tensor, cpu_word, make_tensor
from ..core.word import DTYPE_TRAIT
from ..dispatch import registry
from ..functions import creation, statistics
from ..functions import indexing as choosing
from ..functions import linalg as contractions
from ..functions import linspace as spacing
from ..functions import splitting as parts
from ..functions.creation import asarray

__all__ = ["array_function"]


# NumPy's names [> ours]: its arguments in its order. Those before the stroke are given by position, those after it by
# keyword (theirs=ours where the names differ); one with a minus has no counterpart, one with a tilde says
# nothing to us, and dtype@ is the dtype that the first is converted to. With axis! a None flattens the first, with
# axis!! that is so by default.
_TABLE: Final = """
sum: a / axis dtype -out keepdims -initial -where
prod: a / axis dtype -out keepdims -initial -where
mean: a / axis dtype@ -out keepdims -where
std var: a / axis dtype@ -out ddof=correction keepdims -where -mean correction
max amax > max: a / axis -out keepdims -initial -where
min amin > min: a / axis -out keepdims -initial -where
all any: a / axis -out keepdims -where
argmax argmin nanargmax nanargmin: a / axis -out keepdims
nansum nanprod: a / axis dtype -out keepdims -initial -where
nanmax nanmin: a / axis -out keepdims -initial -where
nanmean: a / axis dtype -out keepdims -where
nanstd nanvar: a / axis dtype -out ddof=correction keepdims -where -mean correction
median nanmedian: a / axis -out ~overwrite_input keepdims
quantile percentile nanquantile nanpercentile: a q / axis -out ~overwrite_input method keepdims -weights
ptp: a / axis -out keepdims
count_nonzero: a / axis keepdims
average: a / axis weights returned keepdims
cumulative_sum cumulative_prod: x / axis dtype -out include_initial
nancumsum nancumprod: a / axis dtype -out
trapezoid: y / x dx axis
diff: a / n axis prepend append
unwrap: p / discont axis period
concatenate concat > concat: arrays* / axis! -out dtype@ -casting
stack: arrays* / axis -out dtype@ -casting
vstack hstack: tup* / dtype@ -casting
dstack: tup* /
moveaxis: a source destination /
swapaxes: a axis1 axis2 /
expand_dims: a axis /
broadcast_to: array shape / ~subok
permute_dims: a axes /
flip: m / axis
fliplr flipud: m /
rot90: m / k axes
roll: a shift / axis
tile: A reps /
repeat: a repeats / axis
split array_split: ary indices_or_sections / axis
unstack: x / axis
diagonal: a / offset axis1 axis2
trace: a / offset -axis1 -axis2 dtype -out
tril triu: m / k
diag: v / k
matrix_transpose: x /
clip: a / a_min=min a_max=max -out min max
nan_to_num: x / ~copy nan posinf neginf
real imag: val /
angle: z / -deg
sinc: x /
isclose: a b / rtol atol equal_nan
isin: element test_elements / ~assume_unique invert ~kind
take: a indices / axis!! -out -mode
take_along_axis: arr indices / axis!
compress: condition a / axis -out
extract: condition arr /
choose: a choices* / -out -mode
select: condlist* choicelist* / default
argwhere flatnonzero nonzero: a /
sort argsort: a / axis! ~kind -order ~stable
partition argpartition: a kth / axis! ~kind -order
searchsorted: a v / side sorter
digitize: x bins / right
interp: x xp fp / left right period
bincount: x / weights minlength
unique_all unique_counts unique_inverse unique_values: x /
intersect1d: ar1 ar2 / ~assume_unique -return_indices
union1d: ar1 ar2 /
setdiff1d setxor1d: ar1 ar2 / ~assume_unique
dot outer: a b / -out
inner kron: a b /
tensordot: a b / axes
cov: m y / rowvar -bias ddof fweights aweights -dtype
corrcoef: x y / rowvar -dtype
convolve correlate: a v / mode
polyval: p x /
zeros_like ones_like: a / dtype ~order ~subok -shape device
empty_like: prototype / dtype ~order ~subok -shape device
full_like: a fill_value / dtype ~order ~subok -shape device
pad: array pad_width / mode constant_values end_values stat_length -reflect_type
linspace: start stop num / endpoint -retstep dtype -axis device
asarray array > asarray: a / dtype ~order device copy -ndmin ~subok
astype: x dtype / copy device
zeros ones empty: shape / dtype ~order device
full: shape fill_value / dtype ~order device
eye: N / M=n_cols k dtype ~order device
linalg.inv linalg.det linalg.slogdet linalg.eig linalg.eigvals: a /
linalg.eigh linalg.eigvalsh: a / -UPLO
linalg.svd: a / full_matrices -compute_uv -hermitian
linalg.svdvals: x /
linalg.qr: a / mode
linalg.cholesky: a / upper
linalg.solve: a b /
linalg.lstsq: a b / -rcond
linalg.pinv: a / -rcond -hermitian rtol
linalg.matrix_rank: A / -tol -hermitian rtol
linalg.matrix_power: a n /
linalg.multi_dot: arrays* / -out
linalg.norm: x / ord axis keepdims
linalg.matrix_norm: x / keepdims ord
linalg.vector_norm: x / axis keepdims ord
linalg.cross linalg.vecdot: x1 x2 / axis
linalg.outer linalg.matmul: x1 x2 /
linalg.diagonal linalg.trace: x / offset dtype
fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft: a / n axis norm -out
fft.fftn fft.ifftn fft.rfftn fft.irfftn: a / s axes norm -out
fft.fftshift fft.ifftshift: x / axes
"""


@functools.cache
def _ours(name: str) -> Callable[..., Any]:
    """``tk.<name>``: an operator, or a function of the namespace."""
    module, _, short = name.rpartition(".")
    for holder in (contractions,) if module else (choosing, contractions, creation, parts, spacing, statistics):
        if short in holder.__all__:
            return cast("Callable[..., Any]", getattr(holder, short))
    operator = registry.operators.get(f"tk::{module}_{short}") if module else None  # tk.linalg.matmul is tk.matmul
    return (operator or registry.find(f"tk::{short}")).call


def _transpose(a: Any, axes: Any = None) -> Any:
    return _ours("permute_dims")(a, tuple(reversed(range(a.ndim))) if axes is None else axes)


def _reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: Any = None) -> Any:
    return _ours("reshape")(a, (shape,) if isinstance(shape, int) else shape, copy=copy)


def _squeeze(a: Any, axis: Any = None) -> Any:
    return a.squeeze() if axis is None else a.squeeze(axis)


def _ravel(a: Any, order: Any = "C") -> Any:
    return _reshape(a, (-1,))


def _round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    if a.dtype.kind in "iu":
        return a.clone() if decimals >= 0 else _round(a.astype(np.dtype("f8")), decimals).astype(a.dtype)
    if not decimals:
        return _ours("round")(a)
    return (
        _ours("round")(a * 10**decimals) / 10**decimals
        if decimals > 0
        else _ours("round")(a / 10**-decimals) * 10**-decimals
    )


def _cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _ours("cumulative_sum")(_ravel(a) if axis is None else a, axis=0 if axis is None else axis, dtype=dtype)


def _cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return _ours("cumulative_prod")(_ravel(a) if axis is None else a, axis=0 if axis is None else axis, dtype=dtype)


def _einsum(*operands: Any, optimize: Any = False) -> Any:
    return _ours("einsum")(*operands, optimize=True if optimize is False else optimize)


def _vdot(a: Any, b: Any, /) -> Any:
    return _ours("vecdot")(_ravel(a), _ravel(b))


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    slopes = _ours("gradient")(f, *varargs, axis=axis, edge_order=edge_order)
    return slopes if slopes.ndim == f.ndim else tuple(_ours("unstack")(slopes))


def _copy(a: Any, order: Any = "K", subok: Any = False) -> Any:
    return a.clone()


def _shape(a: Any) -> Any:
    return a.shape


def _ndim(a: Any) -> Any:
    return a.ndim


def _size(a: Any, axis: Any = None) -> Any:
    return a.size if axis is None else a.shape[axis]


def _is_complex(x: Any) -> Any:
    return x.dtype.kind == "c"


def _is_real(x: Any) -> Any:
    return x.dtype.kind != "c"


def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    return _ours("nonzero")(condition) if x is None and y is None else _ours("where")(condition, x, y)


def _allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(_ours("allclose")(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    return bool(_ours("array_equal")(a1, a2, equal_nan=equal_nan))


def _meshgrid(*xi: Any, indexing: str = "xy") -> Any:
    return _ours("meshgrid")(*xi, indexing=indexing)


def _cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    return _ours("linalg.cross")(a, b, axis=-1 if axis is None else axis)


def _arange(*args: Any, dtype: Any = None, device: Any = None) -> Any:
    return _ours("arange")(*args, dtype=dtype, device=device)


def _result_type(*arrays_and_dtypes: Any) -> Any:
    return np.result_type(*[x.dtype if isinstance(x, Tensor) else x for x in arrays_and_dtypes])


# functions with NumPy's own arguments, as far as we know them
_OWN: Final[dict[str, Callable[..., Any]]] = {
    "transpose": _transpose, "reshape": _reshape, "squeeze": _squeeze, "ravel": _ravel, "round": _round,
    "around": _round, "cumsum": _cumsum, "cumprod": _cumprod, "einsum": _einsum, "vdot": _vdot, "gradient": _gradient,
    "copy": _copy, "shape": _shape, "ndim": _ndim, "size": _size, "iscomplexobj": _is_complex, "isrealobj": _is_real,
    "where": _where, "allclose": _allclose, "array_equal": _array_equal, "meshgrid": _meshgrid, "cross": _cross,
    "arange": _arange, "result_type": _result_type,
}  # fmt: skip
_WRITERS: Final = frozenset(["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"])
_MANY: Final = -1  # any number of operands, by position
# where NumPy takes a list for an array
_ARRAYS: Final = frozenset([
    "a", "b", "x", "y", "v", "xp", "fp", "ar1", "ar2", "arr", "p", "z", "indices", "element", "test_elements", "bins",
    "weights", "condition", "prepend", "append",
])  # fmt: skip
# what says nothing where we have no counterpart
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    "mode": ("raise",), "bias": (0,), "axis": (0,), "axis1": (0,), "axis2": (1,), "ndmin": (0,), "UPLO": ("L",),
    "compute_uv": (True,), "where": (True,), "casting": ("same_kind",), "reflect_type": ("even",), "copy": (True,),
    "order": ("C", "K"), "axisa": (-1,), "axisb": (-1,), "axisc": (-1,),
}  # fmt: skip
_UNLIKE_FALSE: Final = frozenset(["compute_uv", "where", "initial", "mean"])
_OWN_REFUSED: Final = frozenset(["out", "order", "subok", "axisa", "axisb", "axisc"])
_NOTHING: Any = getattr(np, "_NoValue", None)


class _Row(NamedTuple):
    """How a function of NumPy's is called here."""

    target: Callable[..., Any]
    names: tuple[str, ...]  # NumPy's arguments
    positional: int  # so many go first
    renamed: dict[str, str]
    refused: frozenset[str]
    ignored: frozenset[str]
    sequences: frozenset[str]
    converts: bool  # the first operand to dtype
    flattens: Any  # None: without an axis; otherwise the axis that stands for none given


def _parse(line: str) -> Iterator[tuple[str, _Row]]:
    head, _, tail = line.partition(":")
    names, _, target = head.partition(" > ")
    first, _, rest = tail.partition("/")
    given, options = first.split(), rest.split()
    plain = [name.lstrip("-~").rstrip("*@!").partition("=")[0] for name in (*given, *options)]
    for name in names.split():
        yield (
            name,
            _Row(
                _ours(target or name),
                tuple(plain),
                len(given),
                {a: b for a, _, b in (option.partition("=") for option in options) if b},
                frozenset(option[1:] for option in options if option[0] == "-"),
                frozenset(option[1:] for option in options if option[0] == "~"),
                frozenset(argument[:-1] for argument in given if argument[-1] == "*"),
                "dtype@" in options,
                None if "axis!!" in options else "axis!" in options,
            ),
        )


def _function(name: str) -> Any:
    place: Any = np
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


@functools.cache
def _rows() -> dict[Any, _Row]:
    """The table, by NumPy's functions; read at the first use."""
    rows = [row for line in _TABLE.strip().splitlines() for row in _parse(line)]
    rows += [(name, _own_row(call)) for name, call in _OWN.items()]
    return {_function(name): row for name, row in rows if _function(name) is not None}


def _own_row(call: Callable[..., Any]) -> _Row:
    """A function whose arguments are NumPy's."""
    parameters = inspect.signature(call).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
    first = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    positional = len(list(itertools.takewhile(lambda name: name not in _OWN_REFUSED, first)))
    if len(names) < len(parameters):
        positional = _MANY
    return _Row(call, tuple(names), positional, {}, _OWN_REFUSED, frozenset(), frozenset(), False, False)


@functools.cache
def _defaults(func: Any) -> dict[str, Any]:
    """NumPy's arguments with their defaults, in its order; nothing for a compiled function that does not tell."""
    try:
        return {name: p.default for name, p in inspect.signature(func).parameters.items()}
    except ValueError:
        return {}


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        return [_flat(each) for each in value]
    return _ravel(value) if isinstance(value, Tensor) and value.ndim != 1 else value


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _is_array(value: Any) -> bool:
    """Whether a value, or one in it, is an array that has no tensor of its meaning."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_array, value))
    return isinstance(value, np.ndarray) and not (value.__class__ is np.ndarray and value.dtype in DTYPE_TRAIT)


def _operand(name: str, value: Any, row: _Row, device: Any) -> Any:
    """Arrays, and lists where NumPy takes them for arrays, as tensors; numbers and shapes as they are."""
    if name in row.sequences and isinstance(value, (list, tuple)):
        return [v if isinstance(v, Tensor) else asarray(np.asarray(v), device=device) for v in value]
    if value.__class__ is np.ndarray:
        return asarray(value, device=device)
    if name in _ARRAYS and isinstance(value, (list, tuple)):
        return asarray(value if any(True for _ in _tensors(value)) else np.asarray(value), device=device)
    return value


def _arguments(func: Any, row: _Row, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
    """Ours, by position and by keyword, or None where there is no counterpart."""
    several = row.positional == _MANY
    if any(map(_is_array, args)) or any(map(_is_array, kwargs.values())):
        return None
    if several:
        first = [_operand("", value, row, device) for value in args]
        given = dict(kwargs)
    else:
        if len(args) > len(row.names):
            return None
        given = {**dict(zip(row.names, args, strict=False)), **kwargs}
        order = row.names[: row.positional]
        first = []
        for name in itertools.takewhile(given.__contains__, order):
            first.append(_operand(name, given.pop(name), row, device))
    if row.flattens is not False and first and given.get("axis", row.flattens) is None:
        first[0] = _flat(first[0])
        given.pop("axis", None)
    keywords: dict[str, Any] = {}
    for name, value in given.items():
        if value is _NOTHING or name in row.ignored:
            continue
        if value is None:
            if name == "dtype" or _defaults(func).get(name) in (None, _NOTHING):
                continue
            return None  # where None is no default it has a meaning of its own, or none at all
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


def array_function(self: Tensor, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: D103
    if not all(issubclass(kind, (Tensor, np.ndarray)) for kind in types):
        return NotImplemented  # a class that wraps tensors, or knows better what to do with them
    row, name, out = _rows().get(func), func.__name__, kwargs.get("out")
    names = list(_defaults(func)) or (list(row.names) if row is not None else [])
    if out is None and "out" in names and names[0] != "operands" and names.index("out") < len(args):
        out = args[names.index("out")]
    if isinstance(out, Tensor):
        raise TypeError(
            f"[numpy.{name}] out= is a tensor, which NumPy does not write to: use x.copy_(result), or give an array."
        )
    tensors = list(_tensors([*args, *kwargs.values()]))
    device = tensors[0].device if tensors else self.device
    if row is not None and out is None:
        found = _arguments(func, row, args, kwargs, device)
        if found is not None:
            return row.target(*found[0], **found[1])
    if name in _WRITERS and args and isinstance(args[0], Tensor):
        raise TypeError(
            f"[numpy.{name}] changes its first operand, a tensor, which NumPy does not write to: assign by index, or "
            "use the functions of tk."
        )

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value._to_numpy(f"numpy.{name}")
        if value.__class__ in (list, tuple):
            return value.__class__([plain(each) for each in value])
        return value

    result = func(*map(plain, args), **{key: plain(value) for key, value in kwargs.items()})
    return result if row is None or out is not None else _wrapped(result, device)


def _wrapped(value: Any, device: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return (
            [_wrapped(each, device) for each in value]
            if value.__class__ is list
            else tuple([_wrapped(each, device) for each in value])
        )
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in DTYPE_TRAIT:
        return value
    made = make_tensor(np.array(value), cpu_word(value.dtype))
    return made if device is CPU else registry.find("tk::to_device").call(made, device)


_method: Any = array_function
_method.__name__, _method.__qualname__ = "__array_function__", "Tensor.__array_function__"
setattr(Tensor, _method.__name__, _method)
