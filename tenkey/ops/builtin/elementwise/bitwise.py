"""Operators on the bits of integers; on bools those of logic."""

from __future__ import annotations

from typing import Final

from ....dispatch.tags import Tag
from ...declare import SAME, pointwise

_BITS: Final = SAME._replace(
    name="BITS", accepts="biu", takes="integers and bools; compare first (x != 0), or use tk.logical_and and its kin"
)
_WHOLE: Final = SAME._replace(name="WHOLE", accepts="iu", takes="integers")

bitwise_and = pointwise(
    "bitwise_and(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 & x2,
    promote=_BITS,
    differentiable=False,
    methods=("__and__", "bitwise_and"),
    tags=(Tag.INPLACE,),
    doc="""``x1 & x2``, bit by bit, for integers and bools.

    >>> import tenkey as tk
    >>> tk.bitwise_and(tk.asarray([6, 3]), 5).tolist()
    [4, 1]
    """,
)

bitwise_or = pointwise(
    "bitwise_or(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 | x2,
    promote=_BITS,
    differentiable=False,
    methods=("__or__", "bitwise_or"),
    tags=(Tag.INPLACE,),
    doc="""``x1 | x2``, bit by bit, for integers and bools.

    >>> import tenkey as tk
    >>> tk.bitwise_or(tk.asarray([6, 3]), 5).tolist()
    [7, 7]
    """,
)

bitwise_xor = pointwise(
    "bitwise_xor(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 ^ x2,
    promote=_BITS,
    differentiable=False,
    methods=("__xor__", "bitwise_xor"),
    tags=(Tag.INPLACE,),
    doc="""``x1 ^ x2``, bit by bit, for integers and bools.

    >>> import tenkey as tk
    >>> tk.bitwise_xor(tk.asarray([6, 3]), 5).tolist()
    [3, 6]
    """,
)

bitwise_invert = pointwise(
    "bitwise_invert(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: ~x,
    promote=_BITS,
    differentiable=False,
    methods=("__invert__", "bitwise_invert"),
    tags=(Tag.INPLACE,),
    doc="""``~x``, bit by bit, for integers and bools.

    >>> import tenkey as tk
    >>> tk.bitwise_invert(tk.asarray([0, 5])).tolist(), (~tk.asarray([True, False])).tolist()
    ([-1, -6], [False, True])
    """,
)

bitwise_left_shift = pointwise(
    "bitwise_left_shift(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 << x2,
    promote=_WHOLE,
    domain=(0.0, 4.0),
    differentiable=False,
    methods=("__lshift__", "bitwise_left_shift"),
    tags=(Tag.INPLACE,),
    doc="""The bits of ``x1`` moved up by ``x2``, for integers.

    Moving by the width of the dtype or more gives 0; moving by a negative number is not defined.

    >>> import tenkey as tk
    >>> tk.bitwise_left_shift(tk.asarray([1, 3]), 2).tolist()
    [4, 12]
    """,
)

bitwise_right_shift = pointwise(
    "bitwise_right_shift(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 >> x2,
    promote=_WHOLE,
    domain=(0.0, 4.0),
    differentiable=False,
    methods=("__rshift__", "bitwise_right_shift"),
    tags=(Tag.INPLACE,),
    doc="""The bits of ``x1`` moved down by ``x2``, for integers; a negative number stays negative.

    Moving by the width of the dtype or more gives 0 or -1; moving by a negative number is not defined.

    >>> import tenkey as tk
    >>> tk.bitwise_right_shift(tk.asarray([8, -8]), 2).tolist()
    [2, -2]
    """,
)
