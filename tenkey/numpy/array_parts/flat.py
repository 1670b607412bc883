"""``x.flat``: the elements in row-major order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..converting import operand
from ..known import functions

__all__ = ["Flat"]


class Flat:
    """The elements of an array in row-major order, to be iterated over, read and assigned, as ``numpy.flatiter``.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.zeros((2, 2))
    >>> x.flat[1:] = [1, 2]
    >>> x.tolist(), next(x.flat)
    ([[0.0, 1.0], [2.0, 1.0]], np.float64(0.0))
    """

    __slots__ = ("_base", "index")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, base: Any) -> None:
        self._base = base
        self.index = 0

    @property
    def base(self) -> Any:
        """The array."""
        return self._base

    @property
    def coords(self) -> tuple[int, ...]:
        """The index of the next element."""
        return tuple([int(i) for i in np.unravel_index(self.index, self._base.shape)])

    def __len__(self) -> int:
        return int(self._base.size)

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        if self.index >= self._base.size:
            self.index = 0
            raise StopIteration
        found = self._base[self.coords]
        self.index += 1
        return found

    def _places(self, index: Any) -> np.ndarray:
        if isinstance(index, tuple):
            if len(index) > 1:
                raise IndexError("unsupported iterator index")
            (index,) = index
        if hasattr(index, "_word"):
            index = index.numpy()
        if isinstance(index, (list, np.ndarray)):
            index = np.asarray(index)
            if index.dtype.kind not in "iub" and index.size:
                raise IndexError("unsupported iterator index")
        elif index is not Ellipsis and not isinstance(index, (int, np.integer, slice)):
            raise IndexError("unsupported iterator index")
        places: np.ndarray = np.arange(self._base.size)[index]
        return places

    def __getitem__(self, index: Any) -> Any:
        places = self._places(index)
        return self._base[np.unravel_index(places, self._base.shape)] if self._base.ndim else self.copy()[places]

    def __setitem__(self, index: Any, value: Any) -> None:
        places = np.atleast_1d(self._places(index)).ravel()
        value = operand(value)
        if value.ndim:
            value = functions["resize"](value, places.shape)
        if not self._base.ndim:
            self._base[()] = value[0] if value.ndim else value
        elif places.size:
            self._base[np.unravel_index(places, self._base.shape)] = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.copy().numpy(), dtype=dtype)

    def copy(self) -> Any:
        """Return the elements as an array of one dimension."""
        return self._base.flatten()


def _comparison(name: str) -> Callable[[Flat, Any], Any]:
    def method(self: Flat, other: Any) -> Any:
        return getattr(self.copy(), name)(other.copy() if isinstance(other, Flat) else other)

    return method


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Flat, _name, _comparison(_name))
