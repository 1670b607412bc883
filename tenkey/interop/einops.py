"""The einops backend: ``einops.rearrange(tensor, "b c -> c b")`` and its other functions take tensors.

Note [einops finds its backends among subclasses]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
For a type that it has not met, einops searches the existing subclasses of its ``AbstractBackend``; it supports neither
entry points nor the array API standard there (``einops.array_api`` does, and needs nothing from here). So the class
must exist before einops gets its first tensor, whatever the order of imports: ``tenkey/__init__.py`` imports this
module. einops is small and imports only the standard library. Guarded by
tests/downstream/test_einops.py::test_order_of_imports.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import functions
from ..core.dtypes.names import is_inexact
from ..core.tensor import Tensor
from ..functions.creation import asarray
from ..ops.builtin.creation import arange
from ..ops.builtin.shape.copying import concat, stack
from ..ops.builtin.shape.manipulation import tile
from ..ops.builtin.shape.views import expand_dims, permute_dims

try:
    from einops._backends import AbstractBackend
except ImportError:  # einops is not installed
    AbstractBackend = object
else:
    for _left in AbstractBackend.__subclasses__():  # Note [A failed import]: einops takes the first of each name
        if _left.framework_name == "tenkey":
            _left.framework_name = "tenkey, from an import that failed"

__all__ = ["TenkeyBackend"]


class TenkeyBackend(AbstractBackend):  # type: ignore[misc]  # einops need not be installed where types are checked
    """The einops backend of this library."""

    framework_name = "tenkey"
    arange = staticmethod(arange)
    stack_on_zeroth_dimension = staticmethod(stack)
    tile = staticmethod(tile)

    def einsum(self, pattern: str, *operands: Tensor) -> Tensor:
        """Return the sums of products that a pattern names."""
        found: Tensor = functions.einsum(pattern, *operands)
        return found

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Return whether einops should use this backend for an object."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """Return a tensor that shares the memory of an array; floats require gradients, as einops expects."""
        made = asarray(x)
        return made.requires_grad_() if is_inexact(made.dtype) else made

    def to_numpy(self, x: Tensor) -> np.ndarray:
        """Return the values of a tensor."""
        return x.detach().numpy()

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        """Permute the axes."""
        return permute_dims(x, tuple(axes))

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        """Join tensors along an axis."""
        return concat(tensors, axis=axis)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """Insert an axis of length one."""
        return expand_dims(x, axis=new_position)

    def is_float_type(self, x: Tensor) -> bool:
        """Return whether the mean of such elements has their dtype."""
        return is_inexact(x.dtype)
