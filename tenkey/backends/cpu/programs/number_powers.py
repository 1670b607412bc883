"""Powers with a small exponent: products and roots instead of a power function, which takes 20 times as long.

``x ** 3`` is ``x * x * x``, as in PyTorch, with an error below 1 ulp; squares, roots and reciprocals are rounded
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from ....dispatch.schema import parse_schema
from ....ops.declare.facets import Pointwise
from ....ops.declare.promotion import SAME
from ....ops.scalar import sqrt, where
from .program import Program, program_of

__all__ = ["power_program"]


def _root(x: Any) -> Any:
    """Return ``pow(x, 0.5)``, which is a square root except for -0.0 and -inf (C99, F.10.4.4)."""
    return where(x == 0, 0.0, where(x == -math.inf, math.inf, sqrt(x)))


_SCHEMA: Final = parse_schema("power(Tensor x) -> Tensor")
_PRODUCTS: Final[dict[float, Callable[[Any], Any]]] = {
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
    0.5: _root,
    -0.5: lambda x: 1 / _root(x),
}


@cache
def power_program(dtype: np.dtype, exponent: float) -> Program | None:
    """Return the program that raises floats to this exponent, or None if it needs the power function."""
    product = _PRODUCTS.get(exponent)
    if product is None or dtype.kind != "f":
        return None
    facet = Pointwise(_SCHEMA, lambda T: product, SAME, (0, 1))
    return program_of(f"x ** {exponent:g}", facet, dtype, dtype)
