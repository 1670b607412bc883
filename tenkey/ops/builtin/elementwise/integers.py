"""Functions of integers, element by element: bits (for bools, logic), common divisors and common multiples."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import SAME, Decomposition, Entry, TensorSpec, broadcast, composite, internal, pointwise
from ...shapes import broadcast_shapes
from ..creation import concrete
from ..reductions.reduction import any
from ..shape.copying import as_dtype, cast
from ..shape.views import broadcast_to
from .arithmetic import floor_divide, maximum, negative, remainder
from .comparison import equal, less, where

_BITS: Final = SAME._replace(
    name="BITS", accepts="biu", takes="integers and bools; compare first (x != 0), or use tk.logical_and"
)
_WHOLE: Final = SAME._replace(name="WHOLE", accepts="iu", takes="integers")
_on_bits: Final = partial(pointwise, promote=_BITS, differentiable=False, tags=(Tag.INPLACE,))
_shift: Final = partial(pointwise, promote=_WHOLE, domain=(0.0, 4.0), differentiable=False, tags=(Tag.INPLACE,))


def _bitwise(name: str, sign: str, method: str, scalar: Callable[[Any], Callable[..., Any]]) -> Entry:
    doc = f"""Return ``x1 {sign} x2``, bit by bit, for integers and bools.

    >>> tk.{name}(tk.asarray([6, 3]), 5).tolist()
    {[eval(f"{value} {sign} 5") for value in (6, 3)]}
    """
    return _on_bits(f"{name}(Tensor x1, Tensor x2) -> Tensor", scalar=scalar, methods=(method, name), doc=doc)


bitwise_and = _bitwise("bitwise_and", "&", "__and__", lambda T: lambda x1, x2: x1 & x2)
bitwise_or = _bitwise("bitwise_or", "|", "__or__", lambda T: lambda x1, x2: x1 | x2)
bitwise_xor = _bitwise("bitwise_xor", "^", "__xor__", lambda T: lambda x1, x2: x1 ^ x2)

bitwise_invert = _on_bits(
    "bitwise_invert(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: ~x,
    methods=("__invert__", "bitwise_invert"),
    doc="""Return ``~x``, bit by bit, for integers and bools.

    >>> tk.bitwise_invert(tk.asarray([0, 5])).tolist(), (~tk.asarray([True, False])).tolist()
    ([-1, -6], [False, True])
    """,
)

bitwise_left_shift = _shift(
    "bitwise_left_shift(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 << x2,
    methods=("__lshift__", "bitwise_left_shift"),
    doc="""Shift the bits of ``x1`` to the left by ``x2``, for integers.

    A shift by the width of the dtype or more gives 0; a negative shift is undefined.

    >>> tk.bitwise_left_shift(tk.asarray([1, 3]), 2).tolist()
    [4, 12]
    """,
)

bitwise_right_shift = _shift(
    "bitwise_right_shift(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 >> x2,
    methods=("__rshift__", "bitwise_right_shift"),
    doc="""Shift the bits of ``x1`` to the right by ``x2``, for integers; a negative number stays negative.

    A shift by the width of the dtype or more gives 0 or -1; a negative shift is undefined.

    >>> tk.bitwise_right_shift(tk.asarray([8, -8]), 2).tolist()
    [2, -2]
    """,
)


def _integer_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.integers(-20, 20, a), rng.integers(-20, 20, b)), {})
        for a, b in (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2,)), ((0, 2), (2,)))
    ]


def _size(x: Tensor) -> Tensor:
    """Return the absolute values in an unsigned dtype, which holds that of the least integer too."""
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return x if x.dtype == unsigned else cast(where(less(x, 0), negative(x), x), unsigned)


def _divisor(x1: Tensor, x2: Tensor) -> Tensor:
    """Return the greatest common divisors by Euclid's algorithm."""
    shape = broadcast_shapes("gcd", x1.shape, x2.shape)
    larger, smaller = broadcast_to(x1, shape), broadcast_to(x2, shape)
    while any(smaller):
        for _ in range(8):  # rounds until the result is needed on the host
            rest = remainder(larger, where(equal(smaller, 0), 1, smaller))
            larger, smaller = where(equal(smaller, 0), larger, smaller), where(equal(smaller, 0), 0, rest)
    return larger


def _multiple(x1: Tensor, x2: Tensor) -> Tensor:
    return floor_divide(x1, maximum(_divisor(x1, x2), 1)) * x2


def _integer_function(name: str, what: str, shown: str, of_sizes: Callable[[Tensor, Tensor], Tensor]) -> Entry:
    """Declare an operator, and an internal one of two tensors that it calls once Python numbers are tensors."""
    ufunc: np.ufunc = getattr(np, name)

    def meta(x1: Any, x2: Any) -> TensorSpec:
        if x1.dtype.kind not in "iu" or x2.dtype.kind not in "iu":
            raise TypeError(
                f"[{name}] takes integers, got {x1.dtype} and {x2.dtype}: convert whole values with tk.astype(x, "
                "tk.int64)."
            )
        return TensorSpec(broadcast_shapes(name, x1.shape, x2.shape), result_dtype((x1.dtype, x2.dtype), ()))

    def decomposed(x1: Tensor, x2: Tensor) -> Tensor:
        dtype = meta(x1, x2).dtype
        return cast(of_sizes(_size(as_dtype(x1, dtype)), _size(as_dtype(x2, dtype))), dtype)

    of_tensors = internal(
        f"{name}_of(Tensor x1, Tensor x2) -> Tensor",
        meta=meta,
        numpy=ufunc,
        decomposition=Decomposition(decomposed, needs=("reduction",)),
        sample_inputs=_integer_samples,
        batch=broadcast,
        doc=f"Compute ``tk.{name}`` of two tensors.",
    )

    @composite(
        f"{name}(Tensor x1, Tensor x2) -> Tensor",
        differentiable=False,
        sample_inputs=_integer_samples,
        batch=broadcast,
        doc=f"""Return the {what} of two integers, element by element, with broadcasting; never negative.

    >>> tk.{name}(tk.asarray([12, 7, 0]), tk.asarray([18, 21, 5])).tolist()
    {shown}
    """,
    )
    def function(x1: Tensor, x2: Tensor) -> Tensor:
        return of_tensors(concrete(x1, x2), concrete(x2, x1))

    return function


gcd = _integer_function("gcd", "greatest common divisor", "[6, 7, 5]", _divisor)
lcm = _integer_function("lcm", "least common multiple", "[36, 21, 0]", _multiple)
