"""Numbers computed ahead for programs that draw one or a few at a time.

Note [Numbers ahead]
~~~~~~~~~~~~~~~~~~~~
A number is a function of a key and a position, so numbers of later positions may be computed before they are drawn, and
are right whatever is drawn between: nothing has to be invalidated. One block costs 5 us in Python, and 1,000 in NumPy
0.1 us each. ``Ahead`` keeps a run of numbers of one layout, and makes the next run longer where draws follow one
another. The run is one tuple, which threads replace without a lock. Guarded by tests/random/test_ahead.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..dtypes import names as dtypes
from . import draws, samplers
from .philox import ELEMENT_LIMIT, Key, double_words

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LAYOUTS", "Ahead"]

_LONGEST: Final = 4096


def _standard(kind: str) -> Callable[[Key, int, int], npt.NDArray[Any]]:
    return lambda key, count, start: samplers.standard(kind, key, count, dtypes.float64, start)


LAYOUTS: Final[dict[str, Callable[[Key, int, int], npt.NDArray[Any]]]] = {
    "words": double_words,  # of uniform numbers, integers and permutations
    "normal": lambda key, count, start: draws.normal(key, count, dtypes.float64, start),
    **{kind: _standard(kind) for kind in samplers.STANDARD},
}
"""What can be computed ahead: functions of a key, a count and a position."""


class Ahead:
    """Numbers of one kind of ``LAYOUTS``: see Note [Numbers ahead].

    >>> numbers = Ahead("normal")
    >>> one, other = numbers.take((7, 0), 0, 1), numbers.take((7, 0), 1, 2)
    >>> [*one, *other] == draws.normal((7, 0), 3, dtypes.float64).tolist()
    True
    """

    __slots__ = ("_function", "_run")

    def __init__(self, kind: str) -> None:
        self._function = LAYOUTS[kind]
        self._run: tuple[Key, int, npt.NDArray[Any]] = ((0, 0), 0, np.empty(0))

    def take(self, key: Key, start: int, count: int) -> npt.NDArray[Any]:
        """Return ``count`` numbers from position ``start``, in an array that must not be written to."""
        own, first, values = self._run
        skipped = start - first
        if skipped >= 0 and skipped + count <= values.size and key == own:
            return values[skipped : skipped + count]
        follows = key == own and 0 <= skipped <= 2 * values.size
        length = min(max(count, 4 * values.size if follows else 0), max(_LONGEST, count), ELEMENT_LIMIT - start)
        values = self._function(key, length, start)
        self._run = key, start, values
        return values[:count]
