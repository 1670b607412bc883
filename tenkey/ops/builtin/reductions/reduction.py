"""Reductions along axes: ``axis=None`` reduces over all axes, a tuple over several."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import default_float, float32, float64, int64
from ....core.plans import MEAN, Reduction
from ....core.tensor import Tensor, cpu_word, make_tensor
from ... import scalar as s
from ...declare import BOOLEAN, ORDERED, Entry, arg_reduction, composite, internal_composite, linear, normal, reduction
from ...declare.sweeps import Rows, Sweep
from ...shapes import normalize_axes
from ..elementwise.comparison import isfinite, where
from ..elementwise.complex import conjugated, real_part
from ..elementwise.exponential import exp, log
from ..primitives import gather_rows
from ..shape.copying import cast, floating
from ..shape.views import broadcast_to, reshape


def is_half(dtype: np.dtype) -> bool:
    """Tell whether a dtype is float16 or bfloat16, without importing the package that defines the latter."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def restore_axes(x: Tensor, shape: tuple[int, ...], axis: Any, keepdims: bool) -> Tensor:
    """Restore the reduced axes of a tensor, with length 1."""
    if keepdims:
        return x
    axes = normalize_axes("reduction", axis, len(shape))
    return reshape(x, tuple([1 if i in axes else n for i, n in enumerate(shape)]))


def count_along(operator: str, shape: tuple[int, ...], axis: Any) -> int:
    """Return the number of elements that one result combines."""
    return math.prod([shape[i] for i in normalize_axes(operator, axis, len(shape))])


def over_axes(*axes: Any) -> list[Any]:
    """Return samples (see ``normal``) of a matrix for each of the axes, with and without ``keepdims``."""
    return [([3, 4], {"axis": axis, "keepdims": keepdims}) for axis in axes for keepdims in (False, True)]


sum = reduction(
    "sum(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
    autocast="float32",
    combine=lambda T: lambda a, b: a + b,
    identity=0,
    methods=("sum",),
    doc="""Sum the elements along axes; integers and bools are summed in 64 bits.

    >>> tk.sum(tk.asarray([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """,
)

prod = reduction(
    "prod(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
    autocast="float32",
    combine=lambda T: lambda a, b: a * b,
    identity=1,
    domain=(0.5, 1.5),
    methods=("prod",),
    doc="""Multiply the elements along axes. The gradient is correct at zeros too.

    >>> tk.prod(tk.asarray([2.0, 3.0, 4.0])).item()
    24.0
    """,
)


def _extreme(name: str, size: str, larger: Callable[[Any, Any], Any], shown: str) -> Entry:
    return reduction(
        f"{name}(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: larger(a, b),
        promote=ORDERED,
        methods=(name,),
        doc=f"""Return the {size} element along axes; nan if an element is nan. Equal elements share the gradient.

    >>> tk.{name}(tk.asarray([[1.0, 5.0], [3.0, 4.0]]), axis=1).tolist()
    {shown}
    """,
    )


max = _extreme("max", "largest", s.maximum, "[5.0, 4.0]")
min = _extreme("min", "smallest", s.minimum, "[1.0, 3.0]")


def _test(name: str, what: str, both: Callable[[Any, Any], Any], identity: bool) -> Entry:
    return reduction(
        f"{name}(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: both(a, b),
        identity=identity,
        promote=BOOLEAN,
        differentiable=False,
        methods=(name,),
        doc=f"""Test whether {what} along axes {"are" if identity else "is"} true (nonzero).

    >>> tk.{name}(tk.asarray([True, False])).item()
    {not identity}
    """,
    )


all = _test("all", "all elements", s.logical_and, True)
any = _test("any", "any element", s.logical_or, False)


def refuse_any(bad: Tensor, operator: str, message: str) -> None:
    """Raise ValueError in the name of an operator if an element is true; on a device as for an index out of range."""
    found = reshape(cast(any(bad), int64), (1, 1, 1))
    gather_rows(found, -found, operator, message)


def _mean_vjp(g: Tensor, x_meta: Any, axis: Any, keepdims: bool) -> Tensor:
    count = count_along("mean", x_meta.shape, axis)
    share = g / count if count else g * float("nan")
    return broadcast_to(restore_axes(share, x_meta.shape, axis, keepdims), x_meta.shape)


def small_sum(x: np.ndarray, axis: Any, keepdims: bool) -> tuple[Any, int] | None:
    """Return the sum of a small array and the number of elements per result, for the kernels of composites.

    Returns None for arrays that the composition handles: large ones, and dtypes other than floats and complex numbers
    of 32 bits or more.
    """
    if x.dtype.char not in "fdFD" or not 0 < x.size < (_SMALL if axis is None else _FEW):
        return None
    total = _add(x, axis, x.dtype, None, keepdims)
    return total, x.size if total.__class__ is not _ndarray else x.size // total.size


_SMALL: Final = 1 << 14  # elements; larger arrays are summed by several threads
_FEW: Final = 1 << 11  # elements along axes; NumPy takes longer for many short rows than the backend
_add: Final[Any] = np.add.reduce
_divide: Final[Any] = np.divide
_ndarray: Final = np.ndarray


def _numpy_mean(x: np.ndarray, axis: Any = None, *, keepdims: bool = False) -> Any:
    found = small_sum(x, axis, keepdims)
    if found is not None:
        return found[0] / found[1]
    if x.dtype.char not in "fd" or not x.size:
        return NotImplemented
    total = sum(make_tensor(x, cpu_word(x.dtype)), axis=axis, keepdims=keepdims)._data
    return _divide(total, x.size // total.size, total)


_described: Any = _numpy_mean
_described.small = Reduction(np.add, None, 0, MEAN, _FEW - 1)


@composite(
    "mean(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    autocast="float32",
    numpy=_numpy_mean,
    vjp={"x": _mean_vjp},
    jvp=linear("x"),
    sample_inputs=normal(*over_axes(None, 0, (0, -1))),
    methods=("mean",),
)
def mean(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the arithmetic mean along axes; integers give floats.

    >>> tk.mean(tk.asarray([1.0, 2.0, 6.0])).item()
    3.0
    """
    count = count_along("mean", x.shape, axis)
    # the sum of halves or integers may overflow although the mean does not
    half = is_half(x.dtype)
    whole = x.dtype.kind in "biu"
    total = sum(x, axis=axis, dtype=float32 if half else float64 if whole else None, keepdims=keepdims)
    result = total / count if count else total * float("nan")
    if half or whole:
        result = cast(result, x.dtype if half else default_float())
    return result


def _index_of(name: str, size: str, no_better: Callable[[Any, Any], Any], shown: int) -> Entry:
    return arg_reduction(
        f"{name}(Tensor x, int? axis=None, *, bool keepdims=False) -> Tensor",
        # a comparison with nan is False: two comparisons instead of three
        better=lambda T: lambda a, b: s.logical_not(s.logical_or(no_better(a, b), s.isnan(b))),
        sample_inputs=normal([3, 4], ([3, 4], {"axis": 1})),
        methods=(name,),
        doc=f"""Return the index of the {size} element along an axis, the first at a tie; int64.

    A nan counts as the {size} element. Without axis, in the flattened tensor. Raises TypeError for complex numbers,
    ValueError for no elements.

    >>> tk.{name}(tk.asarray([4.0, 9.0, 3.0])).item()
    {shown}
    """,
    )


argmax = _index_of("argmax", "largest", lambda a, b: a <= b, 1)
argmin = _index_of("argmin", "smallest", lambda a, b: a >= b, 2)


def _shares(x: Tensor, out: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Return the derivatives of ``logsumexp``: the share of each element in the sum."""
    return exp(floating(x) - restore_axes(out, x.shape, axis, keepdims))


@internal_composite(
    "logsumexp_backward(Tensor g, Tensor x, Tensor out, int[1]? axis, bool keepdims) -> Tensor",
    rows=Rows(
        {"x": "row", "g": "each", "out": "each"},
        {"found": "row"},
        (Sweep(elements={"found": lambda x, g, out: g * s.exp(x - out)}),),
    ),
    sample_inputs=normal(
        ([3], [3, 4], [3], 1, False), ([3, 1], [3, 4], [3, 1], 1, True), ([], [3, 4], [], None, False)
    ),
)
def logsumexp_backward(g: Tensor, x: Tensor, out: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Return the gradient of ``logsumexp``."""
    return restore_axes(g, x.shape, axis, keepdims) * conjugated(_shares(x, out, axis, keepdims))


LOG_OF_SUM: Final = (
    Sweep(
        folds={"largest": ("maximum", lambda x: x)},
        then={"shift": lambda largest: s.where(s.isfinite(largest), largest, 0)},
    ),
    Sweep(
        folds={"total": ("add", lambda x, shift: s.exp(x - shift))},
        then={"log_of_sum": lambda total, shift: s.log(total) + shift},
    ),
)
"""The sweeps that compute the logarithm of the sum of the exponentials of a row."""


@composite(
    "logsumexp(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    autocast="float32",
    vjp={"x": logsumexp_backward},
    rows=Rows({"x": "row"}, {"log_of_sum": "each"}, LOG_OF_SUM),
    jvp=lambda tangents, x, out, axis, keepdims: sum(
        tangents["x"] * _shares(x, out, axis, keepdims), axis=axis, keepdims=keepdims
    ),
    sample_inputs=normal(*over_axes(None, 1, (0, -1))),
    methods=("logsumexp",),
)
def logsumexp(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` along axes, without overflow; -inf for no elements, the principal branch if complex.

    >>> f"{tk.logsumexp(tk.asarray([1000.0, 1000.0])):.3f}"
    '1000.693'
    """
    normalize_axes("logsumexp", axis, x.ndim)
    if 0 in x.shape:
        return log(sum(exp(x), axis=axis, keepdims=keepdims))
    largest = max(real_part(x), axis=axis, keepdims=True)
    shift = where(isfinite(largest), largest, 0.0)
    total = log(sum(exp(x - shift), axis=axis, keepdims=keepdims))
    return total + reshape(shift, total.shape)
