"""Types for annotations of dtypes, indices and operands, which the stubs of ``tools/make_stubs.py`` use."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from .tensor import Tensor

__all__ = ["ArrayLike", "DTypeLike", "Index"]

DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
"""A dtype such as ``tk.float32``, a type such as ``float`` or ``np.float32``, or the name of a dtype."""

ArrayLike: TypeAlias = Tensor | complex | np.generic | np.ndarray[Any, Any] | Sequence[Any]
"""What stands for a tensor: a tensor, a number, an array or scalar of NumPy, or a sequence of these."""

_Item: TypeAlias = SupportsIndex | slice | EllipsisType | Tensor | np.ndarray[Any, Any] | list[Any] | range | None

Index: TypeAlias = _Item | tuple[_Item, ...]
"""The index in ``x[...]``: integers, slices, ``...``, None, masks, and integer arrays."""
