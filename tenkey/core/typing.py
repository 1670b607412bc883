"""Types for annotations of dtypes, indices and operands, which the stubs of ``tools/make_stubs.py`` use."""

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
"""A tensor, or a Python bool, int, float or complex number."""

ArrayLike: TypeAlias = Tensor | complex | np.ndarray[Any, Any] | Sequence[Any]
"""An operand beside a tensor: a tensor, number, NumPy array, or sequence of numbers."""

Operand: TypeAlias = Tensor | complex | np.ndarray[Any, Any]
"""The other side of an operator such as ``+``."""

_Item: TypeAlias = SupportsIndex | slice | EllipsisType | Tensor | np.ndarray[Any, Any] | list[Any] | None

Index: TypeAlias = _Item | tuple[_Item, ...]
"""The index in ``x[...]``: integers, slices, ``...``, None, masks, and integer arrays."""
