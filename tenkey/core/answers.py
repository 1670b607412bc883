"""Numbers and truth values that can also be called: attributes here whose names are methods in PyTorch."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["NO", "YES", "Answer", "Count", "count_of"]


class Count(int):
    """A number of elements; a call gives the shape, or the length of one dimension, as PyTorch's ``x.size()`` does.

    >>> x = tk.ones((2, 3))
    >>> x.size, x.size(), x.size(-1)
    (6, (2, 3), 3)
    """

    _shape: tuple[int, ...]

    def __call__(self, dim: int | None = None) -> Any:
        """Return the shape, or the length of a dimension."""
        return self._shape if dim is None else self._shape[dim]

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


class Answer(int):
    """A bool that can also be called."""

    def __call__(self) -> bool:
        """Return the bool."""
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))


YES: Final = Answer(1)
NO: Final = Answer(0)
_new: Final[Any] = int.__new__


def count_of(data: Any) -> Count:
    """Return the number of elements of native data."""
    made: Count = _new(Count, data.size)
    made._shape = data.shape
    return made
