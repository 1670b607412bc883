"""Comparisons, tests of numbers, logic and selection, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ... import scalar as s
from ...declare import BOOLEAN, COMPARISON, Entry, pointwise
from .complex import real

_ORDER: Final = COMPARISON._replace(name="ORDER", accepts="biuf", takes="dtypes with an order, not complex ones")


def _comparison(name: str, sign: str, scalar: Callable[[Any], Callable[..., Any]], method: str) -> Entry:
    doc = f"""``x1 {sign} x2``, element by element, with broadcasting; a bool tensor.

    >>> import tenkey as tk
    >>> tk.{name}(tk.asarray([1, 2, 3]), 2).tolist()
    {[eval(f"{value} {sign} 2") for value in (1, 2, 3)]}
    """
    return pointwise(
        f"{name}(Tensor x1, Tensor x2) -> Tensor",
        scalar=scalar,
        promote=COMPARISON if sign in ("==", "!=") else _ORDER,
        differentiable=False,
        methods=(method,),
        doc=doc,
    )


equal = _comparison("equal", "==", lambda T: lambda x1, x2: x1 == x2, "__eq__")
not_equal = _comparison("not_equal", "!=", lambda T: lambda x1, x2: x1 != x2, "__ne__")
less = _comparison("less", "<", lambda T: lambda x1, x2: x1 < x2, "__lt__")
less_equal = _comparison("less_equal", "<=", lambda T: lambda x1, x2: x1 <= x2, "__le__")
greater = _comparison("greater", ">", lambda T: lambda x1, x2: x1 > x2, "__gt__")
greater_equal = _comparison("greater_equal", ">=", lambda T: lambda x1, x2: x1 >= x2, "__ge__")

isnan = pointwise(
    "isnan(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.isnan(x),
    promote=COMPARISON,
    doc="""True where an element is not a number.

    >>> import tenkey as tk
    >>> tk.isnan(tk.asarray([1.0, float("nan")])).tolist()
    [False, True]
    """,
)

isinf = pointwise(
    "isinf(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.isinf(x),
    promote=COMPARISON,
    doc="""True where an element, or the real or imaginary part of it, is infinite.

    >>> import tenkey as tk
    >>> tk.isinf(tk.asarray([1.0, float("-inf")])).tolist()
    [False, True]
    """,
)

isfinite = pointwise(
    "isfinite(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.isfinite(x),
    promote=COMPARISON,
    doc="""True where an element is neither infinite nor nan.

    >>> import tenkey as tk
    >>> tk.isfinite(tk.asarray([1.0, float("inf")])).tolist()
    [True, False]
    """,
)

signbit = pointwise(
    "signbit(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.signbit(x),
    promote=_ORDER,
    doc="""True where the sign of an element is minus, that of a zero or nan included; for real dtypes.

    >>> import tenkey as tk
    >>> tk.signbit(tk.asarray([1.0, -0.0])).tolist()
    [False, True]
    """,
)

# ---- logic

logical_and = pointwise(
    "logical_and(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_and(x1, x2),
    promote=BOOLEAN,
    ufunc=np.logical_and,
    boolean=("x1", "x2"),
    doc="""True where both are true (nonzero).

    >>> import tenkey as tk
    >>> tk.logical_and(tk.asarray([True, True]), tk.asarray([True, False])).tolist()
    [True, False]
    """,
)

logical_or = pointwise(
    "logical_or(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_or(x1, x2),
    promote=BOOLEAN,
    ufunc=np.logical_or,
    boolean=("x1", "x2"),
    doc="""True where one is true (nonzero).

    >>> import tenkey as tk
    >>> tk.logical_or(tk.asarray([False, True]), tk.asarray([False, False])).tolist()
    [False, True]
    """,
)

logical_xor = pointwise(
    "logical_xor(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_xor(x1, x2),
    promote=BOOLEAN,
    ufunc=np.logical_xor,
    boolean=("x1", "x2"),
    doc="""True where exactly one is true (nonzero).

    >>> import tenkey as tk
    >>> tk.logical_xor(tk.asarray([True, True]), tk.asarray([True, False])).tolist()
    [False, True]
    """,
)

logical_not = pointwise(
    "logical_not(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.logical_not(x),
    promote=BOOLEAN,
    ufunc=np.logical_not,
    boolean=("x",),
    doc="""True where ``x`` is false (zero).

    >>> import tenkey as tk
    >>> tk.logical_not(tk.asarray([True, False])).tolist()
    [False, True]
    """,
)

# ---- selection


def _chosen(g: Tensor, meta: Any) -> Tensor:
    """The gradient of a real argument of a complex result is real."""
    return real(g) if g.dtype.kind == "c" and meta.dtype.kind != "c" else g


where: Entry = pointwise(
    "where(Tensor condition, Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda condition, x1, x2: s.where(condition, x1, x2),
    # not g * where(condition, 1, 0): 0 times the nan of the other side is nan
    vjp={
        "x1": lambda g, condition, x1_meta: _chosen(where(condition, g, 0.0), x1_meta),
        "x2": lambda g, condition, x2_meta: _chosen(where(condition, 0.0, g), x2_meta),
    },
    boolean=("condition",),
    doc="""``x1`` where the condition holds, else ``x2``, with broadcasting.

    Args: condition: bool tensor; x1, x2: tensors, or one of them a Python number. A gradient reaches the selected
    side only: a nan in the other side's derivative does not leak. ``tk.where(condition)`` alone is ``tk.nonzero``.

    >>> import tenkey as tk
    >>> tk.where(tk.asarray([True, False]), tk.asarray([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """,
)
