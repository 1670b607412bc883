"""What einops asks of a library: ``einops.rearrange(tensor, "b c -> c b")`` and its kin take tensors.

Note [einops finds its backends among subclasses]
  For a type that it has not met, einops looks through the subclasses of its ``AbstractBackend`` that exist at that
  moment; it knows neither entry points nor the array API standard there (``einops.array_api`` does, and needs nothing
  of this). So the class has to be there before the first tensor is given to it, in whatever order the two packages
  were imported: ``tenkey/__init__.py`` imports this module where einops is installed. einops is small and imports
  nothing outside the standard library. Guarded by tests/downstream/test_einops.py::test_order_of_imports.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes.names import is_inexact
from ..core.tensor import Tensor
from ..dispatch import registry
from ..functions.creation import asarray
from ..functions.linalg import einsum

try:
    from einops._backends import AbstractBackend
except ImportError:  # this module is for einops alone, but whoever walks through the package may import it
    AbstractBackend = object

__all__ = ["TenkeyBackend"]


class TenkeyBackend(AbstractBackend):  # type: ignore[misc]  # einops need not be installed where types are checked
    """The tensors of this library, for einops."""

    framework_name = "tenkey"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether einops should use this backend for the object."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        """A tensor on the memory of an array; floats collect gradients, as einops expects where there are any."""
        made = asarray(x)
        return made.requires_grad_() if is_inexact(made.dtype) else made

    def to_numpy(self, x: Tensor) -> np.ndarray:
        """The values of a tensor."""
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        """The whole numbers from ``start`` to ``stop``, without the latter."""
        made: Tensor = registry.find("tk::arange").call(start, stop)
        return made

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        """The axes in another order."""
        made: Tensor = registry.find("tk::permute_dims").call(x, tuple(axes))
        return made

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        """The tensors along a new first axis."""
        made: Tensor = registry.find("tk::stack").call(tensors)
        return made

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        """The tensors one after another along an axis."""
        made: Tensor = registry.find("tk::concat").call(tensors, axis=axis)
        return made

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        """A new axis of length one."""
        made: Tensor = registry.find("tk::expand_dims").call(x, axis=new_position)
        return made

    def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
        """The tensor repeated along each axis."""
        made: Tensor = registry.find("tk::tile").call(x, repeats)
        return made

    def is_float_type(self, x: Tensor) -> bool:
        """Whether a mean of such elements has their dtype."""
        return is_inexact(x.dtype)

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        """The sum of products over the letters of the pattern."""
        return einsum(pattern, *x)
