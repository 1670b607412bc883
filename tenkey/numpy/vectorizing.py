"""``vectorize``: a Python function for each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from .converting import on_host

__all__ = ["vectorize"]


class vectorize:  # NumPy's name for it
    """Call a Python function for each element; arguments as in ``numpy.vectorize``, which calls it.

    The function gets NumPy's scalars, without gradients. To record gradients, use array operations or ``tk.vmap``.

    >>> import tenkey.numpy as tnp
    >>> tnp.vectorize(lambda a, b: a if a > b else b)([1, 5], 3)
    array([3, 5])
    """

    def __init__(self, pyfunc: Any = None, *args: Any, **kwargs: Any) -> None:
        self._call = np.vectorize(*(() if pyfunc is None else (pyfunc,)), *args, **kwargs)
        self.pyfunc = pyfunc
        self.__doc__ = self._call.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results as an array."""
        return on_host(self._call, args, kwargs)
