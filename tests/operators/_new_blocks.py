"""A pytest plugin that declares blocks before the tables are read: see ``test_one_place.py``."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import tenkey as tk
from tenkey.core.tensor import Tensor, cpu_word, make_tensor
from tenkey.dispatch.kernel import Kernel
from tenkey.dispatch.keys import DispatchKey
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.registry import registry
from tenkey.dispatch.tags import Tag
from tenkey.ops import scalar as s
from tenkey.ops.builtin.reductions.reduction import restore_axes
from tenkey.ops.declare import (
    COMPARISON,
    INT_TO_FLOAT,
    REAL,
    REAL_TO_FLOAT,
    SUM,
    Rows,
    Sweep,
    TensorSpec,
    along,
    composite,
    linear,
    normal,
    pointwise,
    reduction,
    structured,
    view,
)
from tenkey.ops.declare.batch import VmapLevel
from tenkey.ops.shapes import normalize_axis


def _rows_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    x, step = args
    return level.batch(operator.call(level.move(level.front(x), 0, x.ndim), step), x.ndim)


def _floating(x: Any) -> np.dtype[Any]:
    return x.dtype if x.dtype.kind in "fc" else np.dtype("float32")  # type: ignore[no-any-return]


def _pairs_meta(x: Tensor, axis: int) -> TensorSpec:
    at = normalize_axis("newblock_pairs", axis, x.ndim)
    shape = tuple([n - (i == at) for i, n in enumerate(x.shape)])
    return TensorSpec(shape, _floating(x))


def _pairs_vjp(g: Tensor, axis: int) -> Tensor:
    axis %= g.ndim
    edge = tk.zeros((*g.shape[:axis], 1, *g.shape[axis + 1 :]), dtype=g.dtype)
    return tk.concat([edge, g], axis=axis) - tk.concat([g, edge], axis=axis)


def pytest_configure() -> None:
    """Declare them: a hook of pytest, called only where this module is a plugin."""
    pointwise(
        "newblock_tan(Tensor x) -> Tensor",
        scalar=lambda T: lambda x: s.tan(x),
        promote=INT_TO_FLOAT,
        domain=(-1.0, 1.0),
        reference=np.tan,
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
        reference=lambda x1, x2, beta=0.5: np.divide(x1, np.hypot(beta * x2, 0) + 1),
        doc="Quotient.",
    )
    pointwise(
        "newblock_positive(Tensor x) -> Tensor",
        scalar=lambda T: lambda x: x > 0,
        promote=COMPARISON._replace(accepts="biuf"),
        reference=lambda x: np.greater(x, 0),
        doc="Test.",
    )
    reduction(
        "newblock_extent(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: s.maximum(a, b),
        scalar=lambda T: lambda x: s.abs(x),
        identity=0,
        promote=REAL,
        reference=lambda x, axis=None, keepdims=False: np.max(np.abs(x), axis, keepdims=keepdims, initial=0),
        doc="Largest absolute value.",
    )

    reduction(
        "newblock_power(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b,
        scalar=lambda T: lambda x: x * x,
        identity=0,
        promote=SUM,
        reference=lambda x, axis=None, dtype=None, keepdims=False: np.sum(
            np.square(x, dtype=dtype or np.result_type(x, np.int8)), axis, dtype, keepdims=keepdims
        ),
        vjp={"x": lambda g, x, axis, keepdims: restore_axes(g, x.shape, axis, keepdims) * tk.conj(2 * x)},
        doc="Sum of squares.",
    )

    @composite(
        "newblock_mix(Tensor x1, Tensor x2, float weight=0.25) -> Tensor",
        sample_inputs=lambda rng: [
            ((rng.standard_normal((2, 3)), rng.standard_normal(3)), {}),
            ((rng.standard_normal((0, 2)), rng.standard_normal((0, 2)), 0.5), {}),
        ],
    )
    def mix(x1: Tensor, x2: Tensor, weight: float = 0.25) -> Tensor:
        """Blend two tensors."""
        return tk.tanh(x1) * (1.0 - weight) + tk.exp(x2) * weight

    view(
        "newblock_rows(Tensor x, int step) -> Tensor",
        window=lambda x, step: ((-(-x.shape[0] // step), *x.shape[1:]), (x.strides[0] * step, *x.strides[1:]), 0),
        vjp={"x": lambda g, x_meta, step: tk.ops.tk.slice_backward(g, x_meta.shape, 0, 0, step)},
        sample_inputs=lambda rng: [((rng.standard_normal((5, 2)), 2), {}), ((rng.standard_normal((0, 2)), 3), {})],
        reference=lambda x, step: x[::step],
        batch=_rows_batch,
        doc="Every ``step``-th row.",
    )
    structured(
        "newblock_pairs(Tensor x, int axis) -> Tensor",
        meta=_pairs_meta,
        numpy=lambda x, axis: np.diff(x.astype(_floating(x)), axis=axis),
        vjp={"x": lambda g, axis: _pairs_vjp(g, axis)},
        jvp=linear("x"),
        sample_inputs=lambda rng: [((rng.standard_normal((2, 4)), 1), {}), ((rng.standard_normal((3, 2)), 0), {})],
        reference=lambda x, axis: np.diff(x.astype(_floating(x)), axis=axis),
        batch=along("axis"),
        doc="Differences of neighbours, in floating point.",
    )

    if os.environ.get("NEWBLOCK_WRONG"):
        pointwise(
            "newblock_hardswish(Tensor x) -> Tensor",
            scalar=lambda T: lambda x: x * s.minimum(s.maximum(x + 3, T(0)), T(6)) / 5,  # a wrong constant: not 6
            promote=REAL_TO_FLOAT,
            domain=(0.5, 2.5),
            reference=lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
            doc="Activation function.",
        )

        @composite(
            "newblock_rms(Tensor x, int axis=-1) -> Tensor",
            rows=Rows(
                {"x": "row"},
                {"out": "row"},
                (
                    Sweep(
                        folds={"total": ("add", lambda x: x * x)},
                        then={"scale": lambda total, count: 1 / s.sqrt(total / count)},
                    ),
                    Sweep(elements={"out": lambda x, scale: 2 * x * scale}),  # wrong: not 1
                ),
            ),
            sample_inputs=normal([3, 4], ([3, 4], 0)),
        )
        def rms(x: Tensor, axis: int = -1) -> Tensor:
            """Normalize by the root of the mean square."""
            x = x * 1.0
            return x / tk.sqrt(tk.sum(x * x, axis, keepdims=True) / x.shape[axis])

        def wrong(x: Tensor) -> Tensor:
            """A kernel that is off in the third digit."""
            values = np.asarray(np.tan(x.numpy()) * 1.001)
            return make_tensor(values, cpu_word(values.dtype))

        registry.impl("tk::newblock_tan", Kernel(wrong, DispatchKey.CPU))
