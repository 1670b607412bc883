"""Statistics along axes that are no plain reductions: variance, cumulative sums and products, differences, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.dtypes.names import default_float, float64
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import SUM, Entry, TensorSpec, along, composite, linear, structured
from ...declare.promotion import refuse_lost_part
from ...shapes import normalize_axes, normalize_axis
from ..creation import concrete
from ..elementwise.arithmetic import subtract
from ..elementwise.comparison import equal, not_equal, where
from ..elementwise.complex import conj, imag, real
from ..elementwise.exponential import sqrt
from ..shape.copying import cast, clone, concat, flip
from ..shape.manipulation import roll
from ..shape.views import broadcast_to, slice
from .reduction import host_sum, restore_axes, sum


def _cumulative_axis(operator: str, x: Any, axis: int | None) -> int:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(
                f"[{operator}] needs axis= for a tensor of shape {x.shape}: only one dimension leaves no choice."
            )
        return 0
    return normalize_axis(operator, axis, x.ndim)


def _cumulative_meta(operator: str) -> Callable[..., TensorSpec]:
    def rule(
        x: Tensor, *, axis: int | None = None, dtype: np.dtype | None = None, include_initial: bool = False
    ) -> TensorSpec:
        i = _cumulative_axis(operator, x, axis)
        shape = (*x.shape[:i], x.shape[i] + 1, *x.shape[i + 1 :]) if include_initial else x.shape
        if dtype is not None:
            refuse_lost_part(operator, x.dtype, dtype)
        return TensorSpec(shape, dtype or SUM.dtypes(operator, (x.dtype,))[1])

    return rule


def _cumulative_on_numpy(accumulate: Any, identity: int) -> Callable[..., np.ndarray]:
    def on_numpy(
        x: np.ndarray, *, axis: int | None = None, dtype: np.dtype | None = None, include_initial: bool = False
    ) -> np.ndarray:
        if axis is None and x.ndim != 1:
            raise ValueError
        i = 0 if axis is None else axis
        wanted = dtype or (x.dtype if x.dtype.kind in "fc" else SUM.dtypes("", (x.dtype,))[1])
        if dtype is not None and x.dtype.kind == "c" and dtype.kind not in "cb":
            raise TypeError
        if wanted.kind == "b":  # of bools NumPy's sum and product are "or" and "and"
            x = x.astype(bool)
        if not include_initial:
            return accumulate(x, i, wanted)  # type: ignore[no-any-return]
        if not -x.ndim <= i < x.ndim:
            raise IndexError
        i %= x.ndim
        out = np.empty((*x.shape[:i], x.shape[i] + 1, *x.shape[i + 1 :]), wanted)
        lead: tuple[Any, ...] = (np.s_[:],) * i
        out[(*lead, 0)] = identity
        accumulate(x, i, wanted, out[(*lead, np.s_[1:])])
        return out

    return on_numpy


def _cumulative_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.uniform(0.5, 1.5, shape),), options)
        for shape, options in (
            ((5,), {}),
            ((3, 4), {"axis": 0}),
            ((3, 4), {"axis": -1, "include_initial": True}),
            ((4,), {"dtype": np.dtype("complex128")}),
            ((0, 3), {"axis": 0, "include_initial": True}),
            ((0, 3), {"axis": 1}),
        )
    ]


def _cumulative_reference(accumulate: Any, identity: int) -> Callable[..., Any]:
    def reference(x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
        wanted = dtype or {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype)
        i = 0 if axis is None else axis
        found = accumulate(x, axis=i, dtype=wanted)
        first = np.full_like(np.take(np.ones_like(x, wanted), [0] if x.shape[i] else [], i), identity)
        if not x.shape[i]:
            first = np.full([1 if k == i % x.ndim else n for k, n in enumerate(x.shape)], identity, wanted)
        return np.concatenate([first, found], i) if include_initial else found

    return reference


def _to_input(g: Tensor, meta: Any) -> Tensor:
    """A gradient in the dtype of the input: of a complex one for real data the real part."""
    if g.dtype.kind == "c" and meta.dtype.kind != "c":
        g = real(g)
    return g if g.dtype == meta.dtype else cast(g, meta.dtype)


def _without_initial(g: Tensor, axis: int, include_initial: bool) -> Tensor:
    return slice(g, axis, 1, g.shape[axis], 1) if include_initial else g


def _cumulative_sum_vjp(g: Tensor, x_meta: Any, axis: int | None, include_initial: bool) -> Tensor:
    i = 0 if axis is None else normalize_axis("cumulative_sum", axis, g.ndim)
    rest = flip(_without_initial(g, i, include_initial), axis=i)
    return _to_input(flip(cumulative_sum(rest, axis=i), axis=i), x_meta)


cumulative_sum: Entry = structured(
    "cumulative_sum(Tensor x, *, int? axis=None, DType? dtype=None, bool include_initial=False) -> Tensor",
    meta=_cumulative_meta("cumulative_sum"),
    numpy=_cumulative_on_numpy(np.add.accumulate, 0),
    strict=True,
    vjp={"x": _cumulative_sum_vjp},
    jvp=linear("x"),
    sample_inputs=_cumulative_samples,
    reference=_cumulative_reference(np.cumsum, 0),
    batch=along("axis"),
    doc="""The sums of all elements up to each along an axis, which may be left out for one dimension.

    With ``include_initial`` a zero comes first, and the axis is one longer. Integers and bools add up in 64 bits unless
    ``dtype`` says otherwise. Raises ValueError without an axis for several dimensions.

    >>> import tenkey as tk
    >>> tk.cumulative_sum(tk.asarray([1, 2, 3])).tolist()
    [1, 3, 6]
    >>> tk.cumulative_sum(tk.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """,
)


def _recurrence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``y[0] = b[0]``, ``y[i] = a[i - 1] * y[i - 1] + b[i]`` along axis 0.

    In blocks of about the square root of the length, all of them at once, and then over the blocks.
    """
    n = b.shape[0]
    out = b.copy()
    if n <= 32:
        for i in range(1, n):
            out[i] += a[i - 1] * out[i - 1]
        return out
    width = int(n**0.5)
    blocks = -(-n // width)
    padded = np.zeros((blocks * width, *b.shape[1:]), b.dtype)
    padded[:n] = b
    factors = np.zeros_like(padded)
    factors[1:n] = a[: n - 1]
    padded = padded.reshape(blocks, width, *b.shape[1:])
    factors = factors.reshape(padded.shape)
    for i in range(1, width):
        padded[:, i] += factors[:, i] * padded[:, i - 1]
        factors[:, i] *= factors[:, i - 1]  # what the end of the block before is multiplied by
    ends = _recurrence(factors[1:, -1], padded[:, -1])
    padded[1:] += factors[1:] * ends[:-1, None]
    return padded.reshape(blocks * width, *b.shape[1:])[:n]


def _numpy_recurrence(a: np.ndarray, b: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    first, second = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    if reverse:
        first, second = np.concatenate([first[-2::-1], first[:1]]) if len(first) > 1 else first, second[::-1]
    out = _recurrence(first, second)
    return np.moveaxis(out[::-1] if reverse else out, 0, axis)


def _recurrence_vjp(g: Tensor, a: Tensor, out: Tensor, axis: int, reverse: bool) -> Tensor:
    # h[i + 1] * conj(y[i]) forward, h[i] * conj(y[i + 1]) in reverse; the last factor is not used
    h = linear_recurrence(conj(a) if a.dtype.kind == "c" else a, g, axis, not reverse)
    y = conj(out) if out.dtype.kind == "c" else out
    n = g.shape[axis]
    if n == 0:
        return h
    later, sooner = (y, h) if reverse else (h, y)
    product = slice(later, axis, 1, n, 1) * slice(sooner, axis, 0, n - 1, 1)
    last = slice(g, axis, 0, 1, 1)
    return concat([product, last * 0], axis=axis)


linear_recurrence: Entry = structured(
    "linear_recurrence(Tensor a, Tensor b, int axis, bool reverse) -> Tensor",
    meta=lambda a, b, axis, reverse: TensorSpec(b.shape, b.dtype),
    numpy=_numpy_recurrence,
    vjp={
        "a": _recurrence_vjp,
        "b": lambda g, a, axis, reverse: linear_recurrence(conj(a) if a.dtype.kind == "c" else a, g, axis, not reverse),
    },
    sample_inputs=lambda rng: [
        ((rng.standard_normal(shape), rng.standard_normal(shape), axis, reverse), {})
        for shape, axis in (((4, 2), 0), ((2, 5), 1), ((1,), 0), ((0, 2), 0))
        for reverse in (False, True)
    ],
    reference=lambda a, b, axis, reverse: _recurrence_reference(a, b, axis, reverse),
    batch=along("axis"),
    tags=(Tag.INTERNAL,),
    doc="""``y[i] = b[i] + a[i - 1] * y[i - 1]`` along an axis; in ``reverse`` ``y[i] = b[i] + a[i] * y[i + 1]``.

    Each is the other's adjoint. The last factor of ``a`` is not used.

    >>> import tenkey as tk
    >>> tk.ops.tk.linear_recurrence(tk.asarray([2.0, 2.0, 0.0]), tk.ones(3), 0, False).tolist()
    [1.0, 3.0, 7.0]
    """,
)


def _recurrence_reference(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    a, y = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0).copy()
    for i in range(len(y) - 2, -1, -1) if reverse else range(1, len(y)):
        y[i] += a[i] * y[i + 1] if reverse else a[i - 1] * y[i - 1]
    return np.moveaxis(y, 0, axis)


def _cumulative_prod_vjp(
    g: Tensor, x: Tensor, axis: int | None, dtype: np.dtype | None, include_initial: bool
) -> Tensor:
    # d/dx[i] is the product of those before times the sum of g[k] * x[i+1] ... x[k]: no division, right at zeros too
    i = 0 if axis is None else normalize_axis("cumulative_prod", axis, x.ndim)
    n = x.shape[i]
    values = x if dtype is None or dtype == x.dtype else cast(x, dtype)
    if values.dtype.kind == "c":
        values = conj(values)
    before = slice(cumulative_prod(values, axis=i, include_initial=True), i, 0, n, 1)
    rest = linear_recurrence(roll(values, -1, axis=i), _without_initial(g, i, include_initial), i, True)
    return _to_input(before * rest, x)


cumulative_prod: Entry = structured(
    "cumulative_prod(Tensor x, *, int? axis=None, DType? dtype=None, bool include_initial=False) -> Tensor",
    meta=_cumulative_meta("cumulative_prod"),
    numpy=_cumulative_on_numpy(np.multiply.accumulate, 1),
    strict=True,
    vjp={"x": _cumulative_prod_vjp},
    sample_inputs=_cumulative_samples,
    reference=_cumulative_reference(np.cumprod, 1),
    batch=along("axis"),
    doc="""The products of all elements up to each along an axis, which may be left out for one dimension.

    With ``include_initial`` a one comes first, and the axis is one longer. Integers and bools multiply in 64 bits
    unless ``dtype`` says otherwise. The gradient is right at zeros too. Raises ValueError without an axis for several
    dimensions.

    >>> import tenkey as tk
    >>> tk.cumulative_prod(tk.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 6.0]
    """,
)


def _count(x: Tensor, axis: Any, operator: str) -> int:
    count = 1
    for i in normalize_axes(operator, axis, x.ndim):
        count *= x.shape[i]
    return count


def _deviations(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """Each element less the mean, and how many elements a mean has."""
    count = _count(x, axis, "var")
    total = sum(x, axis=axis, keepdims=True)
    return (x - total / count if count else x), count


def _var_vjp(g: Tensor, x: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    deviations, count = _deviations(x, axis)
    free = max(count - correction, 0)
    return restore_axes(g, x.shape, axis, keepdims) * deviations * (2.0 / free if free else float("nan"))


def _std_vjp(g: Tensor, x: Tensor, out: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    return _var_vjp(where(equal(out, 0), 0.0, g / (2 * out)), x, axis, correction, keepdims)


def _moment_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal((3, 4)),), options)
        for options in (
            {},
            {"axis": 0, "correction": 1.0},
            {"axis": (0, -1), "keepdims": True},
            {"axis": -1, "correction": 0.5, "keepdims": True},
        )
    ]


def _numpy_var(x: np.ndarray, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    total, count = host_sum(x, axis, True)
    deviations = x - total / count
    squares = deviations.real**2 + deviations.imag**2 if x.dtype.kind == "c" else deviations * deviations
    return _add(squares, axis, None, None, keepdims) / max(count - correction, 0)


def _numpy_std(x: np.ndarray, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    return np.sqrt(_numpy_var(x, axis, correction=correction, keepdims=keepdims))


_add: Final[Any] = np.add.reduce
_MOMENT: Final = "Tensor x, int[1]? axis=None, *, float correction=0.0, bool keepdims=False"


@composite(
    f"var({_MOMENT}) -> Tensor",
    numpy=_numpy_var,
    vjp={"x": _var_vjp},
    sample_inputs=_moment_samples,
    reference=lambda x, axis=None, correction=0.0, keepdims=False: np.var(x, axis, ddof=correction, keepdims=keepdims),
    methods=("var",),
)
def var(x: Tensor, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Variance along axes: the squared distances from the mean, summed, by ``n - correction``; integers give floats.

    ``correction=1`` is Bessel's, for a sample. The mean is subtracted first, so that a large one costs no accuracy. Of
    complex numbers it is the mean square of the absolute distance, a real number. Where ``n <= correction`` the result
    is nan or infinite.

    >>> import tenkey as tk
    >>> tk.var(tk.asarray([1.0, 2.0, 3.0])).item() == tk.asarray(2 / 3).item()
    True
    >>> tk.var(tk.asarray([1.0, 2.0, 3.0]), correction=1).item()
    1.0
    """
    whole = x.dtype.kind in "biu"
    if whole:  # their sum may overflow where the mean does not, and float32 holds 24 bits of them
        x = cast(x, float64)
    deviations, count = _deviations(x, axis)
    if x.dtype.kind == "c":
        a, b = real(deviations), imag(deviations)
        squares = a * a + b * b
    else:
        squares = deviations * deviations
    total: Tensor = sum(squares, axis=axis, keepdims=keepdims)
    result = total / max(count - correction, 0)
    return cast(result, default_float()) if whole else result


@composite(
    f"std({_MOMENT}) -> Tensor",
    numpy=_numpy_std,
    vjp={"x": _std_vjp},
    sample_inputs=_moment_samples,
    reference=lambda x, axis=None, correction=0.0, keepdims=False: np.std(x, axis, ddof=correction, keepdims=keepdims),
    methods=("std",),
)
def std(x: Tensor, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Standard deviation along axes: the square root of ``var``, with the same arguments.

    Where it is 0 the gradient is 0.

    >>> import tenkey as tk
    >>> tk.std(tk.asarray([1.0, 3.0])).item()
    1.0
    """
    return sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def _diff_reference(x: Any, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    x = np.concatenate([part for part in (prepend, x, append) if part is not None], axis)
    return np.diff(x, n, axis)


def _edge(x: Tensor, value: Tensor, axis: int) -> Tensor:
    """What ``diff`` puts before or behind a tensor: a number is one element of every lane."""
    if value.ndim:
        return value
    return broadcast_to(concrete(value, x), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))


@composite(
    "diff(Tensor x, *, int n=1, int axis=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 4)),), {}),
        ((rng.standard_normal((3, 4)),), {"axis": 0, "n": 2}),
        ((rng.standard_normal((4,)),), {"n": 0}),
        ((rng.standard_normal((4,)),), {"n": 6}),
        ((rng.standard_normal((0, 3)),), {"axis": 0}),
        (
            (rng.standard_normal((2, 3)),),
            {"prepend": rng.standard_normal((2, 1)), "append": rng.standard_normal((2, 2))},
        ),
    ],
    reference=_diff_reference,
    positional=2,
)
def diff(
    x: Tensor, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along an axis, which is one shorter then; ``n`` times over.

    ``prepend`` and ``append`` are put before and behind the tensor first: numbers, or tensors of its shape but for
    the axis. Of bools the difference is whether they differ. Raises ValueError for a negative ``n``.

    >>> import tenkey as tk
    >>> tk.diff(tk.asarray([1, 4, 9, 16])).tolist(), tk.diff(tk.asarray([1, 4, 9, 16]), n=2).tolist()
    ([3, 5, 7], [2, 2])
    >>> tk.diff(tk.asarray([1, 4, 9]), prepend=0).tolist()
    [1, 3, 5]
    """
    i = normalize_axis("diff", axis, x.ndim)
    if n < 0:
        raise ValueError(f"[diff] differences are taken n times, 0 or more, got {n}.")
    parts = [None if prepend is None else _edge(x, prepend, i), x, None if append is None else _edge(x, append, i)]
    given = [part for part in parts if part is not None]
    if len(given) > 1 and n:
        x = concat(given, axis=i)
    subtracted = not_equal if x.dtype.kind == "b" else subtract
    result = x
    for _ in range(n):
        length = result.shape[i]
        later, sooner = slice(result, i, 1, length, 1), slice(result, i, 0, max(length - 1, 0), 1)
        result = subtracted(later, sooner)
        if length <= 1:
            break
    return clone(x) if result is x else result


def _numpy_count_nonzero(x: np.ndarray, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis is None and not keepdims:
        return numpy_functions.count_nonzero(x)
    return _add(x != 0, axis, np.int64, None, keepdims)


@composite(
    "count_nonzero(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    numpy=_numpy_count_nonzero,
    quiet=True,
    differentiable=False,
    sample_inputs=lambda rng: (
        [
            ((np.where(rng.uniform(0, 1, (3, 4)) < 0.5, 0.0, 1.5),), options)
            for options in ({}, {"axis": 0}, {"axis": (0, -1), "keepdims": True})
        ]
        + [((np.zeros((0, 2)),), {"axis": 0}), ((np.array(2.0),), {})]
    ),
    reference=lambda x, axis=None, keepdims=False: np.count_nonzero(x, axis, keepdims=keepdims),
)
def count_nonzero(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """How many elements along axes are not zero, in int64; NaN counts.

    >>> import tenkey as tk
    >>> tk.count_nonzero(tk.asarray([[0, 1], [2, 3]]), axis=1).tolist()
    [1, 2]
    """
    if axis is not None:
        normalize_axes("count_nonzero", axis, x.ndim)
    found = x if x.dtype.kind == "b" else not_equal(x, 0)
    return sum(found, axis=axis, keepdims=keepdims)
