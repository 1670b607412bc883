"""Types for annotations: what functions take in place of a dtype, an index, an operand.

The stubs that ``tools/make_stubs.py`` writes name them, so that an editor shows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from .tensor import Tensor

__all__ = ["ArrayLike", "DTypeLike", "Index", "Operand", "TensorLike"]

DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
"""A dtype such as ``tk.float32``, a type such as ``float`` or ``np.float32``, or the name of a dtype."""

TensorLike: TypeAlias = Tensor | complex
"""A tensor, or a Python bool, int, float or complex number among tensors."""

ArrayLike: TypeAlias = Tensor | complex | np.ndarray[Any, Any] | Sequence[Any]
"""What may stand for a tensor beside another: a number, an array of NumPy, or a sequence of numbers."""

Operand: TypeAlias = Tensor | complex | np.ndarray[Any, Any]
"""What may stand on the other side of an operator such as ``+``."""

_Item: TypeAlias = SupportsIndex | slice | EllipsisType | Tensor | np.ndarray[Any, Any] | list[Any] | None

Index: TypeAlias = _Item | tuple[_Item, ...]
"""What may stand in the brackets of ``x[...]``: integers, slices, ``...``, None, masks, and integers for each axis."""
