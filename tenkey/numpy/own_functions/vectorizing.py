"""``vectorize``: a Python function for each element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tree import tensors_in
from ...core.word import WEAK_MASK
from ..converting import is_strict, on_host
from ..known import functions

__all__ = ["vectorize"]


class vectorize:  # NumPy's name for it
    """Call a Python function for each element; arguments as in ``numpy.vectorize``, which calls it.

    Where an operand requires a gradient, or is on another device, the function gets 0-d arrays, and the gradient flows
    through what it does with them (without ``signature``, ``excluded`` and keywords). It is a loop in any case: array
    operations and ``tk.vmap`` are faster.

    >>> import tenkey.numpy as tnp
    >>> tnp.vectorize(lambda a, b: a if a > b else b)([1, 5], 3)
    array([3, 5])
    """

    def __init__(
        self, pyfunc: Any = None, otypes: Any = None, doc: Any = None, excluded: Any = None, cache: bool = False,
        signature: Any = None,
    ) -> None:  # fmt: skip
        options: Any = {"otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature}
        self._call: Any = np.vectorize(**options) if pyfunc is None else np.vectorize(pyfunc, **options)
        self.pyfunc = pyfunc
        self._is_plain = pyfunc is not None and not excluded and signature is None
        self.__doc__ = self._call.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results as an array, or as a tuple of arrays."""
        tensors = [x for x in tensors_in((args, kwargs)) if not x._word & WEAK_MASK]
        loops = is_strict() or any(x.requires_grad or x.device.type != "cpu" for x in tensors)
        if loops and self._is_plain and args and not kwargs:
            return self._looped(args)
        return on_host(self._call, args, kwargs)

    def _looped(self, args: tuple[Any, ...]) -> Any:
        given = functions["broadcast_arrays"](*args)
        shape = given[0].shape
        results = [self.pyfunc(*[x[place] for x in given]) for place in np.ndindex(*shape)]
        types = self._call.otypes
        if not results and not types:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        several = isinstance(results[0], tuple) if results else len(types) > 1
        columns = (
            list(zip(*results, strict=True)) if several and results else [results] * (1 if results else len(types))
        )
        made = []
        for k, column in enumerate(columns):
            arrays = [functions["asarray"](value) for value in column]
            dtype = np.dtype(types[k]) if types else arrays[0].dtype
            arrays = [x.astype(dtype) for x in arrays]
            joined = functions["stack"](arrays) if arrays else functions["empty"](0, dtype)
            made.append(joined.reshape(shape))
        return tuple(made) if several else made[0]
