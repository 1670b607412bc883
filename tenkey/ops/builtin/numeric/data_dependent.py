"""Operators whose number of results depends on the values: places of nonzero elements, sets of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.device import META
from ....core.dtypes.names import int64
from ....core.dtypes.promotion import result_dtype
from ....dispatch.tags import Tag
from ...declare import Entry, TensorSpec, normal, structured


def _dynamic(operator: str, rule: Callable[..., TensorSpec]) -> Callable[..., TensorSpec]:
    def meta(*given: Any) -> TensorSpec:
        spec = rule(*given)
        if any(getattr(x, "device", None) is META for x in given):
            raise NotImplementedError(
                f"[{operator}] the shape of the result depends on the values, and a meta tensor has none."
            )
        return spec

    return meta


def _places(name: str, rule: Callable[..., TensorSpec], doc: str) -> Entry:
    function = getattr(np, name)
    return structured(
        f"{name}(Tensor x) -> Tensor",
        meta=_dynamic(name, rule),
        numpy=lambda x: function(x).astype(np.int64),
        differentiable=False,
        sample_inputs=normal([3, 4], [0, 2]),
        tags=(Tag.DATA_DEPENDENT_OUTPUT,),
        doc=doc,
    )


argwhere = _places(
    "argwhere",
    lambda x: TensorSpec((0, x.ndim), int64),
    """Return the indices of the nonzero elements, one element per row; int64.

    >>> tk.argwhere(tk.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """,
)

flatnonzero = _places(
    "flatnonzero",
    lambda x: TensorSpec((0,), int64),
    """Return the indices of the nonzero elements in the flattened tensor; int64.

    >>> tk.flatnonzero(tk.asarray([0, 3, 0, 5])).tolist()
    [1, 3]
    """,
)


def _set(name: str, what: str, shown: str) -> Entry:
    def meta(x1: Any, x2: Any) -> TensorSpec:
        return TensorSpec((0,), result_dtype((x1.dtype, x2.dtype), ()))

    function = getattr(np, name)

    def on_numpy(x1: Any, x2: Any) -> Any:
        dtype = result_dtype((x1.dtype, x2.dtype), ())
        return function(x1.reshape(-1).astype(dtype, copy=False), x2.reshape(-1).astype(dtype, copy=False))

    return structured(
        f"{name}(Tensor x1, Tensor x2) -> Tensor",
        meta=_dynamic(name, meta),
        numpy=on_numpy,
        differentiable=False,
        sample_inputs=lambda rng: [
            ((np.array([1.0, 2.5, 2.5]), np.array([2.5, 4.0])), {}),
            ((np.zeros(0), np.array([1.0])), {}),
        ],
        tags=(Tag.DATA_DEPENDENT_OUTPUT,),
        doc=f"""Return the distinct elements {what}, ascending, as a vector of the promoted dtype. Not differentiable.

    >>> tk.{name}(tk.asarray([3, 1, 1]), tk.asarray([1, 2])).tolist()
    {shown}
    """,
    )


union1d = _set("union1d", "of either of two tensors", "[1, 2, 3]")
intersect1d = _set("intersect1d", "of both of two tensors", "[1]")
setdiff1d = _set("setdiff1d", "of the first of two tensors that the second does not have", "[3]")
setxor1d = _set("setxor1d", "of exactly one of two tensors", "[2, 3]")
