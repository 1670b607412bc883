"""Matrix products."""

from __future__ import annotations

from typing import Any, Final

from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ....dispatch.tags import Tag
from ...declare import Entry, TensorSpec, linear, structured
from ...declare.batch import VmapLevel
from ...declare.samples import normal
from ...shapes import broadcast_shapes
from ..elementwise.complex import conj, like_operand
from ..shape.views import expand_dims, matrix_transpose, permute_dims, reshape, squeeze


def _matmul_meta(x1: Tensor, x2: Tensor) -> TensorSpec:
    a, b = x1.shape, x2.shape
    if not a or not b:
        raise ValueError(f"[matmul] got {a} @ {b}: both need at least one dimension; multiply by a scalar with *.")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ValueError(f"[matmul] got {a} @ {b}: the inner sizes {a[-1]} and {inner} must be equal.")
    batch = broadcast_shapes("matmul", a[:-2], b[:-2])
    dtype = result_dtype((x1.dtype, x2.dtype), ())
    return TensorSpec(batch + a[-2:-1] + (b[-1:] if len(b) > 1 else ()), dtype)


_EXCHANGED: Final = (1, 0)


def _adjoint(x: Tensor) -> Tensor:
    t = permute_dims(x, _EXCHANGED) if x._data.ndim == 2 else matrix_transpose(x)  # fewer calls for a matrix
    return conj(t) if t.dtype.kind == "c" else t


def _left(g: Tensor, x1_meta: Any, x2: Tensor) -> Tensor:
    x1_ndim = len(x1_meta.shape)
    if x1_ndim == 2 and x2._data.ndim == 2:  # the usual case
        return matmul(g, _adjoint(x2))
    if x2.ndim == 1:
        g, x2 = expand_dims(g, -1), expand_dims(x2, -1)
    if x1_ndim == 1:
        return squeeze(matmul(expand_dims(g, -2), _adjoint(x2)), -2)
    return matmul(g, _adjoint(x2))


def _right(g: Tensor, x1: Tensor, x2_meta: Any) -> Tensor:
    x2_ndim = len(x2_meta.shape)
    if x2_ndim == 2 and x1._data.ndim == 2:  # the usual case
        return matmul(_adjoint(x1), g)
    if x1.ndim == 1:
        g, x1 = expand_dims(g, -2 if x2_ndim > 1 else 0), expand_dims(x1, 0)
    if x2_ndim == 1:
        return squeeze(matmul(_adjoint(x1), expand_dims(g, -1)), -1)
    return matmul(_adjoint(x1), g)


def _matmul_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    x1, x2 = args
    a, left = level.split(x1)
    b, right = level.split(x2)
    if not isinstance(x1, Tensor) or not isinstance(x2, Tensor):
        return matmul(a, b)  # raises
    level.check(operator, args, kwargs)
    if right is None and x1.ndim == 1 and x2.ndim == 2:  # one product of matrices for all vectors
        return level.batch(matmul(level.move(a, left, 0), b))
    if left is None and x2.ndim == 1 and x1.ndim == 2:
        return level.batch(matmul(level.move(b, right, 0), matrix_transpose(a)))
    if right is None and x1.ndim == 2 and x2.ndim == 2 and left == 0:
        return level.batch(matmul(a, b))
    ndim = max(x1.ndim, x2.ndim, 2)
    product = matmul(_stack_of_matrices(level, x1, ndim, -2), _stack_of_matrices(level, x2, ndim, -1))
    if x1.ndim == 1:
        product = squeeze(product, -2)
    if x2.ndim == 1:
        product = squeeze(product, -1)
    return level.batch(product)


def _stack_of_matrices(level: VmapLevel, x: Tensor, ndim: int, place: int) -> Tensor:
    """Return the operand as a stack of matrices, aligned for broadcasting; a vector gets its missing dimension."""
    value, dim = level.split(x)
    if dim is not None:
        value = level.move(value, dim, 0)
    own = x.ndim
    if own == 1:
        value = expand_dims(value, place)
        own = 2
    if dim is not None and own < ndim:
        value = reshape(value, (level.size, *[1] * (ndim - own), *value.shape[1:]))
    return value  # type: ignore[no-any-return]


_samples = normal(
    ([2, 3], [3, 4]), ([3], [3, 4]), ([2, 3], [3]), ([3], [3]), ([5, 2, 3], [3, 4]), ([2, 3], [5, 3, 4]),
    ([5, 2, 3], [3]), ([3], [5, 3, 4]), ([2, 1, 2, 3], [5, 3, 4]), ([2, 0], [0, 3]), ([0, 3], [3]),
)  # fmt: skip

matmul: Entry = structured(
    "matmul(Tensor x1, Tensor x2) -> Tensor",
    autocast="lower",
    meta=_matmul_meta,
    vjp={
        "x1": lambda g, x1_meta, x2: like_operand(_left(g, x1_meta, x2), x1_meta),
        "x2": lambda g, x1, x2_meta: like_operand(_right(g, x1, x2_meta), x2_meta),
    },
    jvp=linear("x1", "x2"),
    sample_inputs=_samples,
    batch=_matmul_batch,
    methods=("__matmul__", "matmul"),
    tags=(Tag.KEEPS_PYTHON_SCALARS,),
    doc="""Multiply matrices in the last two dimensions, broadcasting the others; a 1-d operand is a vector.

    Raises ValueError if an operand is 0-d or the shapes do not fit.

    >>> tk.matmul(tk.asarray([[1.0, 2.0]]), tk.asarray([[3.0], [4.0]])).tolist()
    [[11.0]]
    """,
)
