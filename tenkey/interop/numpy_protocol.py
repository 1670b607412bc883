"""The method by which NumPy hands over its functions; the first call loads the table (``_numpy_functions``)."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor

__all__: list[str] = []


def _array_function(self: Tensor, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from .numpy_functions import array_function  # which takes the place of this one

    return array_function(self, func, types, args, kwargs)


_method: Any = _array_function
_method.__name__, _method.__qualname__ = "__array_function__", "Tensor.__array_function__"
setattr(Tensor, _method.__name__, _method)
