"""Rounding to integers, and the sign and the neighbours of floating-point numbers, element by element."""

from __future__ import annotations

from typing import Final

from ...declare import ARITHMETIC, REAL, REAL_TO_FLOAT, scalar_function, unary_function

_FIXED: Final = "in the dtype of ``x``. Its derivative is 0."

floor = unary_function(
    "floor", f"Return the largest integer that is not above ``x``, {_FIXED}", {1.5: 1.0, -1.5: -2.0}, promote=REAL
)
ceil = unary_function(
    "ceil", f"Return the smallest integer that is not below ``x``, {_FIXED}", {1.5: 2.0, -1.5: -1.0}, promote=REAL
)
trunc = unary_function("trunc", f"Return ``x`` rounded towards zero, {_FIXED}", {1.5: 1.0, -1.5: -1.0}, promote=REAL)
round = unary_function(
    "round",
    f"Return the nearest integer, at a tie the even one, {_FIXED}",
    {0.5: 0.0, 1.5: 2.0},
    "The real and the imaginary part of a complex number are rounded separately.",
    promote=ARITHMETIC,
)

copysign = scalar_function(
    "copysign",
    """Return the magnitude of ``x1`` with the sign of ``x2``, for real dtypes; zeros and nan have signs too.

    Integers give floats. The derivative with respect to ``x2`` is 0.

    >>> tk.copysign(tk.asarray([1.0, -2.0]), -0.0).tolist()
    [-1.0, -2.0]
    """,
    ("x1", "x2"),
    promote=REAL_TO_FLOAT,
)

nextafter = scalar_function(
    "nextafter",
    """Return the number of the dtype next to ``x1`` in the direction of ``x2``; ``x2`` where they are equal.

    For real dtypes; integers give floats. The derivative with respect to ``x1`` is 1, that with respect to ``x2`` 0.

    >>> tk.nextafter(tk.asarray([0.0]), 1.0).tolist()
    [1.401298464324817e-45]
    """,
    ("x1", "x2"),
    promote=REAL_TO_FLOAT,
)
