"""Creation of tensors. ``device=`` selects the backend; the default is the default device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Final

import numpy as np

from ...core.device import Device
from ...core.dtypes import names as dtypes
from ...core.dtypes.limits import iinfo
from ...core.dtypes.promotion import result_dtype
from ...core.tensor import Tensor
from ...core.word import WEAK_MASK, weak_of
from ...dispatch.errors import OutOfRangeError
from ...dispatch.tags import Tag
from ..declare import Entry, TensorSpec, composite, factory, normal, same_dim
from ..shapes import refuse_shape
from .element_plans import arange_plan, diagonal_plan, linspace_plan, powers_plan, whole_steps


def _lengths(operator: str, shape: Any) -> tuple[int, ...]:
    for n in shape:
        if n < 0:
            raise ValueError(f"[{operator}] a shape has no negative lengths, got {tuple(shape)}.")
    return tuple(shape)


def array_of_ones(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return ``np.ones(shape, dtype)``, in a third of its time."""
    made = np.empty(shape, dtype)
    made.fill(1)
    return made


def _filled(name: str, make: Any, what: str, example: str, shown: str, tags: tuple[Tag, ...] = ()) -> Entry:
    def meta(shape: Sequence[int], *, dtype: np.dtype | None = None, device: Any = None) -> TensorSpec:
        wanted = dtype or dtypes.default_float()
        lengths = _lengths(name, shape)
        refuse_shape(name, lengths, wanted.itemsize)
        return TensorSpec(lengths, wanted)

    def on_numpy(shape: Sequence[int], *, dtype: np.dtype | None = None, device: Any = None) -> Any:
        return make(shape, _defaults().real_floating if dtype is None else dtype)

    return factory(
        f"{name}(int[1] shape, *, DType? dtype=None, Device? device=None) -> Tensor",
        meta=meta,
        numpy=on_numpy,
        strict=True,
        quiet=True,
        tags=tags,
        positional=1,
        doc=f"""Return {what}; float32 unless ``dtype`` says otherwise.

    >>> tk.{name}(2).{example}
    {shown}
    """,
    )


empty = _filled("empty", np.empty, "an uninitialized tensor", "shape", "(2,)", (Tag.NONDETERMINISTIC,))
zeros = _filled("zeros", np.zeros, "a tensor of zeros", "tolist()", "[0.0, 0.0]")
ones = _filled("ones", array_of_ones, "a tensor of ones", "tolist()", "[1.0, 1.0]")


def _refuse_number(operator: str, value: complex, dtype: np.dtype) -> None:
    raise TypeError(
        f"[{operator}] got the complex number {value} for the dtype {dtype}, which cannot hold it: use a complex dtype."
    )


def _check_range(what: str, value: int | float, dtype: np.dtype) -> None:
    limits = iinfo(dtype)
    if not limits.min <= int(value) <= limits.max:
        raise OutOfRangeError(
            f"{what} {value} is out of range for {dtype}, which holds {limits.min} to {limits.max}: name a wider dtype."
        )


def _full_meta(
    shape: Sequence[int], fill_value: Any, *, dtype: np.dtype | None = None, device: Any = None
) -> TensorSpec:
    result = dtype or dtypes.to_dtype(type(fill_value))
    if isinstance(fill_value, complex) and result.kind != "c":
        _refuse_number("full", fill_value, result)
    if result.kind in "iu" and isinstance(fill_value, float) and not math.isfinite(fill_value):
        raise ValueError(f"[full] the fill value {fill_value} has no counterpart in {result}: name a floating dtype.")
    if result.kind in "iu" and isinstance(fill_value, (int, float)):
        _check_range("[full] the fill value", fill_value, result)
    return TensorSpec(_lengths("full", shape), result)


full = factory(
    "full(int[1] shape, Scalar fill_value, *, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_full_meta,
    positional=1,
)  # public is tenkey.functions.filling.full, which also takes tensors


def _arange_meta(
    start: Any, stop: Any = None, step: Any = 1, *, dtype: np.dtype | None = None, device: Any = None
) -> TensorSpec:
    if step == 0:
        raise ValueError("[arange] the step must not be 0.")
    first, last = (0, start) if stop is None else (start, stop)
    for value in (first, last, step):
        if isinstance(value, complex):
            raise TypeError(f"[arange] start, stop and step must be real numbers, got {value}.")
        if not math.isfinite(value):
            raise ValueError(f"[arange] start, stop and step must be finite, got {value}.")
    kind = float if any(isinstance(v, float) for v in (first, last, step)) else int
    count = -((first - last) // step) if kind is int else math.ceil((last - first) / step)
    shape, wanted = (max(0, count),), dtype or dtypes.to_dtype(kind)
    refuse_shape("arange", shape, 8)  # it computes in 64 bits
    if wanted.kind in "iu" and count > 0:
        begin, distance = whole_steps(first, step)
        for value in (begin, begin + (count - 1) * distance):
            _check_range("[arange] the value", value, wanted)
    return TensorSpec(shape, wanted)


def _arange_on_numpy(
    start: Any, stop: Any = None, step: Any = 1, *, dtype: np.dtype | None = None, device: Any = None
) -> Any:
    first, last = (0, start) if stop is None else (start, stop)
    if dtype is None and first.__class__ is int and last.__class__ is int and step.__class__ is int and step:
        return _arange(first, last, step, _defaults().integral)
    spec = _arange_meta(start, stop, step, dtype=dtype)
    exact: Any = np.float64 if spec.dtype.kind in "fV" else spec.dtype
    if spec.dtype.kind in "iu":  # modulo 2**64, where a negative step is in range too
        first, step = (np.uint64(value % (1 << 64)) for value in whole_steps(first, step))
        exact = np.uint64
    return copy_context().run(_evenly_spaced, first, step, spec, exact)  # a context ends in C: Note [Interrupts]


def _evenly_spaced(first: Any, step: Any, spec: Any, exact: Any) -> Any:
    with np.errstate(all="ignore"):
        return (np.arange(spec.shape[0], dtype=exact) * step + first).astype(spec.dtype)


_arange: Final[Any] = np.arange
_defaults: Final = dtypes.get_defaults

arange = factory(
    "arange(Scalar start, Scalar? stop=None, Scalar step=1, *, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_arange_meta,
    numpy=_arange_on_numpy,
    elements=arange_plan,
    strict=True,
    quiet=True,
    positional=1,
    doc="""Return evenly spaced values from ``start`` (0 if only one is given) up to, but not including, ``stop``.

    Integers give int64, floats float32, unless ``dtype`` says otherwise. For an integer dtype the first two values are
    truncated, and their difference is the step, as in NumPy. Raises ValueError for a step of 0 and for numbers that are
    not finite, TypeError for complex numbers, OverflowError for values that ``dtype`` cannot hold.

    >>> tk.arange(3).tolist(), tk.arange(1.0, 2.0, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """,
)


def _linspace_meta(
    start: Any, stop: Any, num: int, *, dtype: np.dtype | None = None, device: Any = None, endpoint: bool = True
) -> TensorSpec:
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    result = dtype or (dtypes.default_complex() if is_complex else dtypes.default_float())
    if is_complex and result.kind != "c":
        _refuse_number("linspace", stop, result)
    if num < 0:
        raise ValueError(f"[linspace] num is the number of values, at least 0; got {num}.")
    if num and result.kind in "iu":
        at_end = endpoint and num > 1
        for value in (start, stop if at_end else start + (stop - start) / num * (num - 1)):
            if not math.isfinite(value):
                raise ValueError(f"[linspace] {start} and {stop} must be finite for the dtype {result}.")
            _check_range("[linspace] the value", math.floor(value), result)
    return TensorSpec((num,), result)


linspace = factory(
    "linspace(Scalar start, Scalar stop, int num, *, DType? dtype=None, Device? device=None, bool endpoint=True)"
    " -> Tensor",
    meta=_linspace_meta,
    elements=linspace_plan,
    tags=(Tag.INTERNAL,),  # tk.linspace also takes tensors
    doc="""Return ``num`` evenly spaced values from ``start`` to ``stop``, Python numbers.

    >>> tk.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """,
)


def _powers(name: str, options: str, doc: str) -> Entry:
    function, geometric = getattr(np, name), name == "geomspace"

    def meta(
        start: Any, stop: Any, num: int, *, base: float = 10.0, endpoint: bool = True, dtype: np.dtype | None = None,
        device: Any = None,
    ) -> TensorSpec:  # fmt: skip
        result = dtype or dtypes.default_float()
        if result.kind in "iub":
            raise TypeError(f"[{name}] gives floats, which {result} cannot hold: use tk.astype(x, dtype).")
        if num < 0:
            raise ValueError(f"[{name}] num is the number of values, at least 0; got {num}.")
        if geometric and (start == 0 or stop == 0 or (start < 0) != (stop < 0)):
            raise ValueError(f"[geomspace] start and stop must have one sign and not be 0, got {start} and {stop}.")
        refuse_shape(name, (num,), 8)  # it computes in double precision
        return TensorSpec((num,), result)

    def on_numpy(start: Any, stop: Any, num: int, *, dtype: Any = None, device: Any = None, **options: Any) -> Any:
        return function(start, stop, num, **options).astype(dtype or dtypes.default_float())

    return factory(
        f"{name}(float start, float stop, int num, *, {options}, DType? dtype=None, Device? device=None) -> Tensor",
        meta=meta,
        numpy=on_numpy,
        elements=powers_plan(geometric),
        doc=doc,
    )


logspace = _powers(
    "logspace",
    "float base=10.0, bool endpoint=True",
    """Return ``num`` powers of ``base``, whose exponents are evenly spaced from ``start`` to ``stop``.

    >>> tk.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """,
)


geomspace = _powers(
    "geomspace",
    "bool endpoint=True",
    """Return ``num`` values from ``start`` to ``stop``, each the same multiple of the one before.

    >>> tk.geomspace(1, 8, 4).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """,
)


def matrix_factory(name: str, doc: str, *, below: bool, numpy: Callable[..., Any] | None = None) -> Entry:
    """Declare a factory of matrices with ones on a diagonal, and ``below`` it."""

    def meta(
        n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: np.dtype | None = None, device: Any = None
    ) -> TensorSpec:
        shape = (n_rows, n_rows if n_cols is None else n_cols)
        if min(shape) < 0:
            raise ValueError(f"[{name}] n_rows and n_cols must be at least 0, got {' and '.join(map(str, shape))}.")
        return TensorSpec(shape, dtype or dtypes.default_float())

    return factory(
        f"{name}(int n_rows, int? n_cols=None, *, int k=0, DType? dtype=None, Device? device=None) -> Tensor",
        meta=meta,
        numpy=numpy,
        elements=diagonal_plan(below),
        positional=1,
        doc=doc,
    )


eye = matrix_factory(
    "eye",
    """Return a matrix with ones on the ``k``-th diagonal and zeros elsewhere.

    >>> tk.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """,
    below=False,
)


_like_samples = normal([2, 3], ([], {"dtype": np.dtype("int64")}), [0, 2])


def _like(name: str, make: Entry, what: str, example: str, shown: str, tags: tuple[Tag, ...] = ()) -> Entry:
    @composite(
        f"{name}(Tensor x, *, DType? dtype=None, Device? device=None) -> Tensor",
        sample_inputs=_like_samples,
        batch=same_dim,
        tags=tags,
        positional=1,
        leaf=True,
        doc=f"""Return {what} with the shape, dtype and device of ``x``.

    >>> tk.{name}(tk.asarray([1, 2])).{example}
    {shown}
    """,
    )
    def function(x: Tensor, *, dtype: np.dtype | None = None, device: Device | None = None) -> Tensor:
        return make(x.shape, dtype=dtype or x.dtype, device=device or x.device)

    return function


empty_like = _like("empty_like", empty, "an uninitialized tensor", "shape", "(2,)", (Tag.NONDETERMINISTIC,))
zeros_like = _like("zeros_like", zeros, "zeros", "tolist()", "[0, 0]")
ones_like = _like("ones_like", ones, "ones", "tolist()", "[1, 1]")


@composite(
    "full_like(Tensor x, Scalar fill_value, *, DType? dtype=None, Device? device=None) -> Tensor",
    sample_inputs=normal(([2, 3], 1)),
    batch=same_dim,
    positional=1,
    leaf=True,
)
def full_like(x: Tensor, fill_value: Any, *, dtype: np.dtype | None = None, device: Device | None = None) -> Tensor:  # noqa: D103
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def concrete(value: Tensor, like: Tensor) -> Tensor:
    """Return ``value``; a weak scalar becomes a tensor of the dtype that it has in a call with ``like``."""
    weak = value._word & WEAK_MASK
    if not weak:
        return value
    return full((), value.item(), dtype=result_dtype((like.dtype,), weak_of(weak)), device=like.device)
