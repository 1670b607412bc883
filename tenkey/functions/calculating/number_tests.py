"""Questions about numbers: signs of infinities, imaginary parts, arrays that are equal."""

from __future__ import annotations

import math
from typing import Any

from ...core.dtypes.limits import finfo
from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin.creation import zeros
from ...ops.builtin.elementwise.comparison import equal, not_equal
from ...ops.builtin.elementwise.complex import imag, real, refuse_complex
from ...ops.builtin.reductions.reduction import all
from ..creation import asarray, to_operand
from ..dtypes import broadcast_shapes

__all__ = ["array_equiv", "iscomplex", "iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj", "real_if_close"]


@public
def isposinf(x: Tensor) -> Tensor:
    """Return whether each element is positive infinity, as bools, for real dtypes.

    >>> tk.isposinf(tk.asarray([-float("inf"), 0.0, float("inf")])).tolist()
    [False, False, True]
    """
    x = to_operand("isposinf", x)
    refuse_complex("isposinf", x.dtype)
    return equal(x, math.inf)


@public
def isneginf(x: Tensor) -> Tensor:
    """Return whether each element is negative infinity, as bools, for real dtypes.

    >>> tk.isneginf(tk.asarray([-float("inf"), 0.0, float("inf")])).tolist()
    [True, False, False]
    """
    x = to_operand("isneginf", x)
    refuse_complex("isneginf", x.dtype)
    return equal(x, -math.inf)


@public
def iscomplex(x: Tensor) -> Tensor:
    """Return whether the imaginary part of each element differs from zero, as bools.

    >>> tk.iscomplex(tk.asarray([1 + 1j, 2.0])).tolist()
    [True, False]
    """
    x = to_operand("iscomplex", x)
    return not_equal(imag(x), 0) if x.dtype.kind == "c" else zeros(x.shape, dtype="bool", device=x.device)


@public
def isreal(x: Tensor) -> Tensor:
    """Return whether the imaginary part of each element is zero, as bools.

    >>> tk.isreal(tk.asarray([1 + 1j, 2.0])).tolist()
    [False, True]
    """
    x = to_operand("isreal", x)
    return equal(imag(x), 0) if x.dtype.kind == "c" else ~zeros(x.shape, dtype="bool", device=x.device)


@public
def iscomplexobj(x: Any) -> bool:
    """Return whether a tensor, an array or a number has a complex type, whatever its values are.

    >>> tk.iscomplexobj(tk.asarray([1 + 0j])), tk.iscomplexobj(tk.asarray([1.0]))
    (True, False)
    """
    return (x if isinstance(x, Tensor) else asarray(x)).dtype.kind == "c"


@public
def isrealobj(x: Any) -> bool:
    """Return whether a tensor, an array or a number has another type than a complex one.

    >>> tk.isrealobj(tk.asarray([1.0]))
    True
    """
    return not iscomplexobj(x)


@public
def real_if_close(x: Tensor, tol: float = 100.0) -> Tensor:
    """Return the real parts if all imaginary parts are close to zero, and otherwise ``x`` itself.

    ``tol`` is the bound of their absolute values: in units of the precision of the dtype if it is above 1, and else the
    bound itself. The values are read on the host, because the dtype of the result depends on them.

    >>> tk.real_if_close(tk.asarray([1 + 1e-14j, 2.0])).tolist()
    [1.0, 2.0]
    """
    x = to_operand("real_if_close", x)
    if x.dtype.kind != "c":
        return x
    bound = tol * float(finfo(x.dtype).eps) if tol > 1 else tol
    return real(x) if all(abs(imag(x.detach())) < bound).item() else x


@public
def array_equiv(x1: Any, x2: Any) -> bool:
    """Return whether two tensors broadcast to one shape and are equal there.

    >>> tk.array_equiv(tk.asarray([1, 2]), tk.asarray([[1, 2], [1, 2]]))
    True
    """
    x1, x2 = (x if isinstance(x, Tensor) else asarray(x) for x in (x1, x2))
    try:
        broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        return False
    return bool(all(equal(x1, x2)).item())
