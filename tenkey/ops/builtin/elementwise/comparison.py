"""Comparisons, predicates, logic and selection, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ... import scalar as s
from ...declare import BOOLEAN, COMPARISON, Entry, pointwise, scalar_function
from ...declare.promotion import Promotion
from .complex import like_operand

_ORDER: Final = COMPARISON._replace(name="ORDER", accepts="biuf", takes="dtypes with an order, not complex ones")


def _comparison(name: str, sign: str, scalar: Callable[[Any], Callable[..., Any]], method: str) -> Entry:
    doc = f"""Return ``x1 {sign} x2``, element by element, with broadcasting; a bool tensor.

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


def _predicate(
    name: str, what: str, value: str, shown: str = "[False, True]", promote: Promotion = COMPARISON
) -> Entry:
    doc = f"""Return True where {what}.

    >>> tk.{name}(tk.asarray([1.0, float("{value}")])).tolist()
    {shown}
    """
    return scalar_function(name, doc, promote=promote, methods=(), inplace=False)


isnan = _predicate("isnan", "an element is nan", "nan")
isinf = _predicate("isinf", "an element, or its real or imaginary part, is infinite", "-inf")
isfinite = _predicate("isfinite", "an element is neither infinite nor nan", "inf", "[True, False]")
signbit = _predicate(
    "signbit", "the sign of an element is minus, for real dtypes; zeros and nan have signs too", "-0.0", promote=_ORDER
)

# ---- logic


def _logical(name: str, what: str, arguments: tuple[str, ...] = ("x1", "x2")) -> Entry:
    ufunc: np.ufunc = getattr(np, name)
    given = [False, True, True], [False, False, True]
    doc = f"""Return True where {what}.

    >>> tk.{name}({", ".join([f"tk.asarray({values})" for values, _ in zip(given, arguments)])}).tolist()
    {ufunc(*given[: len(arguments)]).tolist()}
    """
    return scalar_function(
        name, doc, arguments, promote=BOOLEAN, boolean=arguments, ufunc=ufunc, methods=(), inplace=False
    )


logical_and = _logical("logical_and", "both elements are true (nonzero)")
logical_or = _logical("logical_or", "at least one element is true (nonzero)")
logical_xor = _logical("logical_xor", "exactly one element is true (nonzero)")
logical_not = _logical("logical_not", "``x`` is false (zero)", ("x",))

# ---- selection


where: Entry = pointwise(
    "where(Tensor condition, Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda condition, x1, x2: s.where(condition, x1, x2),
    # not g * where(condition, 1, 0): 0 times a nan is nan
    vjp={
        "x1": lambda g, condition, x1_meta: like_operand(where(condition, g, 0.0), x1_meta),
        "x2": lambda g, condition, x2_meta: like_operand(where(condition, 0.0, g), x2_meta),
    },
    boolean=("condition",),
    autocast="widest",
    doc="""Return ``x1`` where the condition holds, else ``x2``, with broadcasting.

    Args: condition: bool tensor; x1, x2: tensors, or one of them a Python number. A gradient reaches only the selected
    side: a nan in the derivative of the other side does not spread. ``tk.where(condition)`` is ``tk.nonzero``.

    >>> tk.where(tk.asarray([True, False]), tk.asarray([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """,
)
