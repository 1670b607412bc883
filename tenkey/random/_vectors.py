"""Normal vectors."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import names as dtypes
from ..core.random.generator import Generator
from ..core.tensor import Tensor
from ..ops.builtin.linalg.matmul import matmul
from ..ops.builtin.random import random_factor, random_normal
from ..ops.builtin.shape.copying import astype
from ..ops.builtin.shape.views import expand_dims, squeeze
from ._parameters import Parameter, Shape, make_plan, numbers, parameter, refuse_gradient


def multivariate_normal(
    mean: Parameter, cov: Parameter = None, shape: Shape = None, *, scale_tril: Parameter = None, dtype: Any = None,
    device: Any = None, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw normal vectors with a mean (..., k) and a covariance matrix (..., k, k), which may be singular.

    The result is ``shape + (k,)``; ``shape`` broadcasts with the leading axes. ``scale_tril`` replaces ``cov`` if its
    lower factor L, cov = L L^T, is known; gradients flow to it and to the mean, and are refused for ``cov``. Raises
    ValueError for a matrix that is not symmetric or has a negative eigenvalue. The last bit depends on the machine,
    because of a matrix product.

    >>> import tenkey as tk
    >>> tk.random.multivariate_normal([0.0, 5.0], [[1.0, 0.5], [0.5, 1.0]], (4,)).shape
    (4, 2)
    """
    if (cov is None) == (scale_tril is None):
        raise ValueError("[multivariate_normal] give either cov= or scale_tril=.")
    name = "multivariate_normal"
    which = "cov" if scale_tril is None else "scale_tril"
    mean = parameter(name, "mean", mean, "finite")
    matrix = parameter(name, which, cov if scale_tril is None else scale_tril, "finite")
    given = matrix.shape if isinstance(matrix, Tensor) else ()
    if len(given) < 2 or given[-1] != given[-2]:
        raise ValueError(f"[multivariate_normal] {which} must have the shape (..., k, k), got {given}.")
    k = given[-1]
    ends = mean.shape if isinstance(mean, Tensor) else ()
    if not ends or ends[-1] != k:
        raise ValueError(f"[multivariate_normal] mean must end with an axis of length {k}, like {which}, got {ends}.")
    plan = make_plan(name, shape, dtype, device, mean, matrix[..., 0], core=1)
    if scale_tril is None:
        refuse_gradient(name, cov=matrix)
        parameter(name, "cov", matrix, "covariance")
        matrix = random_factor(
            astype(matrix.detach(), dtypes.float64) if matrix.dtype.kind in "iu" else matrix.detach()
        )
    matrix = plan.cast(matrix)
    with numbers(name, generator, plan, k) as address:
        noise = random_normal((*plan.shape, k), *address, dtype=plan.dtype, device=plan.device)
        return squeeze(matmul(matrix, expand_dims(noise, axis=-1)), axis=-1) + plan.cast(mean)  # type: ignore[no-any-return]
