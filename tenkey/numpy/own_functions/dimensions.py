"""Dimensions and broadcasting: ``atleast_1d``, ``broadcast_arrays``, ``broadcast`` and others."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.tensor import Tensor, shares_storage, storage_of
from ...functions import splitting
from ..array_class import as_ndarrays
from ..converting import on_host
from ..creating import asarray
from ..known import define, functions

__all__ = ["broadcast"]


def _of_each(name: str) -> None:
    one: Any = getattr(splitting, name)

    def function(*arys: Any) -> Any:
        made = tuple([as_ndarrays(one(x), (x,)) for x in map(asarray, arys)])
        return made[0] if len(made) == 1 else made

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return each array with {name[8]} or more dimensions: a view; a tuple for several arrays."
    define(function)


for _name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    _of_each(_name)


_broadcast: Any = functions["broadcast_to"]


@define
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Return a view of the array in another shape, which cannot be written to: its elements share memory."""
    made = _broadcast(array, shape)
    data = made._data if isinstance(made, Tensor) else made  # NumPy's array of a dtype that tensors do not have
    if isinstance(data, np.ndarray):
        data.flags.writeable = False
    return made


@define
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Any, ...]:
    """Return views of the arrays in their common shape."""
    given = [asarray(x) for x in args]
    shape = np.broadcast_shapes(*[x.shape for x in given])
    return tuple([x if x.shape == shape else _broadcast(x, shape) for x in given])


@define
def row_stack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """Join arrays as the rows of a matrix: NumPy's deprecated name of ``vstack``."""
    warnings.warn("`row_stack` alias is deprecated. Use `np.vstack` directly.", DeprecationWarning, stacklevel=2)
    return functions["vstack"](tup, dtype=dtype, casting=casting)


@define
def mask_indices(n: int, mask_func: Any, k: Any = 0) -> Any:
    """Return the indices where ``mask_func(ones, k)``, such as ``triu``, of an (n, n) matrix is not zero."""
    return functions["nonzero"](mask_func(functions["ones"]((n, n), int), k) != 0)


@define
def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Return whether the memory of two arrays may overlap: whether their bounds do."""
    return _overlap(np.may_share_memory, a, b, max_work)


@define
def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Return whether two arrays have an element in common."""
    return _overlap(np.shares_memory, a, b, max_work)


def _overlap(function: Any, a: Any, b: Any, max_work: Any) -> bool:
    data = [x._data if isinstance(x, Tensor) else np.asarray(x) for x in (a, b)]
    if all(isinstance(x, np.ndarray) for x in data):
        return bool(function(*data, max_work))
    tensors = all(isinstance(x, Tensor) for x in (a, b))
    return tensors and (storage_of(a) is storage_of(b) or shares_storage(a, b))


@define
def common_type(*arrays: Any) -> Any:
    """Return the scalar type, a floating or complex one, that all arrays can be converted to."""
    return np.common_type(*[np.empty(0, x.dtype) if isinstance(x, Tensor) else x for x in arrays])


@define
def min_scalar_type(a: Any, /) -> np.dtype:
    """Return the smallest dtype that holds a number; of an array, its dtype."""
    return a.dtype if isinstance(a, Tensor) and a.ndim else on_host(np.min_scalar_type, (a,), {})


@define
class broadcast:  # NumPy's name for it
    """Arrays that are broadcast against one another: their common shape, and their elements side by side.

    >>> import tenkey.numpy as tnp
    >>> both = tnp.broadcast([[1], [2]], [10, 20])
    >>> both.shape, [(int(x), int(y)) for x, y in both]
    ((2, 2), [(1, 10), (1, 20), (2, 10), (2, 20)])
    """

    def __init__(self, *args: Any) -> None:
        arrays: list[Any] = []
        for x in args:
            arrays += x._arrays if isinstance(x, broadcast) else [asarray(x)]
        self._arrays: list[Any] = arrays
        self.shape: tuple[int, ...] = np.broadcast_shapes(*[x.shape for x in arrays])
        self.numiter = len(arrays)
        self.reset()

    @property
    def nd(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    ndim = nd

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def iters(self) -> tuple[Any, ...]:
        """An iterator over the elements of each array."""
        return tuple([functions["broadcast_to"](x, self.shape).flat for x in self._arrays])

    def reset(self) -> None:
        """Begin again with the first elements."""
        self.index = 0
        self._rows: Iterator[tuple[Any, ...]] = zip(*self.iters) if self._arrays else itertools.repeat(())

    def __iter__(self) -> broadcast:
        return self

    def __next__(self) -> tuple[Any, ...]:
        found = next(self._rows)
        self.index += 1
        return found
