"""A pytest plugin that declares blocks before the tables are read: see ``test_one_place.py``."""

from __future__ import annotations

import os

import numpy as np

from tenkey.core.tensor import Tensor, cpu_word, make_tensor
from tenkey.dispatch.kernel import Kernel
from tenkey.dispatch.keys import DispatchKey
from tenkey.dispatch.registry import registry
from tenkey.dispatch.tags import Tag
from tenkey.ops import scalar as s
from tenkey.ops.declare import COMPARISON, INT_TO_FLOAT, REAL, REAL_TO_FLOAT, pointwise, reduction


def pytest_configure() -> None:
    """Declare them: a hook of pytest, called only where this module is a plugin."""
    pointwise(
        "newblock_tan(Tensor x) -> Tensor",
        scalar=lambda T: lambda x: s.tan(x),
        promote=INT_TO_FLOAT,
        domain=(-1.0, 1.0),
        methods=("newblock_tan",),
        tags=(Tag.INPLACE,),
        doc="""Tangent.

        >>> import tenkey as tk
        >>> tk.asarray([0.0]).newblock_tan().tolist()
        [0.0]
        """,
    )
    pointwise(
        "newblock_soft(Tensor x1, Tensor x2, float beta=0.5) -> Tensor",
        scalar=lambda T: lambda x1, x2, beta: x1 / (T(1) + s.abs(beta * x2)),
        promote=REAL_TO_FLOAT,
        doc="Quotient.",
    )
    pointwise(
        "newblock_positive(Tensor x) -> Tensor",
        scalar=lambda T: lambda x: x > 0,
        promote=COMPARISON._replace(accepts="biuf"),
        doc="Test.",
    )
    reduction(
        "newblock_extent(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: s.maximum(a, b),
        scalar=lambda T: lambda x: s.abs(x),
        identity=0,
        promote=REAL,
        doc="Largest absolute value.",
    )

    if os.environ.get("NEWBLOCK_WRONG"):

        def wrong(x: Tensor) -> Tensor:
            """A kernel that is off in the third digit."""
            values = np.asarray(np.tan(x.numpy()) * 1.001)
            return make_tensor(values, cpu_word(values.dtype))

        registry.impl("tk::newblock_tan", Kernel(wrong, DispatchKey.CPU))
