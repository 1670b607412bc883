"""Arrays that objects export by ``__array__``, ``__array_interface__`` and ``__array_struct__``.

Note [Addresses of objects]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
``__array_interface__`` states an address and a dtype, and NumPy believes both. If the dtype is that of Python objects,
whatever looks at an element follows an address in foreign memory, and a wrong one ends the process: in ``repr``, in a
cast, in ``np.asarray`` of a list with such an object. Tensors never hold objects, so the dtype is checked before
anything else happens to the array. Guarded by
``tests/core/test_foreign_objects.py::test_addresses_of_objects_are_not_followed``.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import numpy as np

from ...dispatch.errors import shown
from ..dtypes.names import remedy
from ..tensor import Tensor

__all__ = ["array_of", "read_interface", "with_arrays"]

_PLAIN: Final = frozenset({bool, int, float, complex})
_KNOWN: Final = (Tensor, np.ndarray, np.generic, int, float, complex, str)
_LEVELS: Final = 64  # dimensions, as in NumPy
_LONG: Final = 16


def read_interface(obj: Any, function: str) -> np.ndarray | None:
    """Return the array that an object exports, or None if it exports none.

    Raises TypeError for arrays of Python objects and for interfaces that NumPy does not understand.
    """
    if not (hasattr(obj, "__array__") or hasattr(obj, "__array_interface__") or hasattr(obj, "__array_struct__")):
        return None
    try:
        interface = getattr(obj, "__array_interface__", None)
        if isinstance(interface, dict) and "shape" not in interface:  # older versions of NumPy end the process
            raise ValueError("__array_interface__ has no shape")
        array = np.asarray(obj)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"[{function}] NumPy cannot read the array of an object of type {type(obj).__name__}: "
            f"{str(error).rstrip('.')}. Correct its __array__ or __array_interface__."
        ) from error
    if array.dtype.hasobject:  # Note [Addresses of objects]
        raise TypeError(
            f"[{function}] cannot make a tensor of {shown(obj)} with dtype {array.dtype}: give numbers or bools. "
            + remedy(array.dtype)
        )
    return array


def array_of(items: Any, function: str) -> np.ndarray:
    """Return ``np.asarray(items)`` of nested lists and tuples, with objects in them read by ``read_interface``."""
    if len(items) > _LONG and items[0].__class__ is int:
        from array import array  # accepts only integers, and takes a third less time than NumPy

        with contextlib.suppress(TypeError, OverflowError):
            return np.frombuffer(array("q", items), np.int64)
    return np.asarray(with_arrays(items, function))


def with_arrays(items: Any, function: str, depth: int = 0) -> Any:
    """Return nested sequences, in which the arrays of objects that export some take their places.

    They are copies unless they hold numbers alone: NumPy does not survive an object that empties the list it is in.
    """
    if _PLAIN.issuperset(map(type, items)):
        return items
    if depth > _LEVELS:  # or a sequence contains itself
        raise ValueError(f"[{function}] the sequences are nested more than {_LEVELS} levels deep: flatten them.")
    made = []
    for item in items:
        array = None
        if isinstance(item, (list, tuple)):
            array = with_arrays(item, function, depth + 1)
        elif not isinstance(item, _KNOWN):
            array = read_interface(item, function)
        made.append(item if array is None else array)
    return made
