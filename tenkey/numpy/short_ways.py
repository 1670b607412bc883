"""Short ways: ``where`` with numbers, ``einsum`` of arrays of one dtype, ``real`` and ``imag``, which give views.

The entries of the other functions have theirs: Note [Entries with NumPy's signatures] in ``entries.py``. What does not
fit here goes to the general function. Guarded by ``tests/numpy/test_short_ways.py``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..core.word import DTYPE_MASK, DTYPE_TRAIT, REQUIRES_GRAD, WEAK_MASK
from ..dispatch.registry import registry
from .array_class import as_results, ndarray
from .call_rules.quick_functions import quick_function
from .namespace import functions  # which are filled from the table there

__all__ = ["einsum", "imag", "real", "where"]

_NO_VALUE: Final[Any] = np._NoValue
_MASK: Final = DTYPE_MASK | WEAK_MASK
_BOOL: Final = DTYPE_TRAIT[np.dtype("?")]
_BY_KIND: Final = {
    float: frozenset([trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "fc"]),
    int: frozenset([trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "iufc"]),
}
"""The words of arrays whose dtype a Python number of this kind takes."""
_WRAPS: Final = np.lib.NumpyVersion(np.__version__) < "2.5.0"  # later, ints must fit into the dtype of the array
_LIMITS: Final = {
    trait: (np.iinfo if dtype.kind in "iu" else np.finfo)(dtype)
    for dtype, trait in DTYPE_TRAIT.items()
    if dtype.kind in "iufc"
}
_PRODUCTS: Final = frozenset([DTYPE_TRAIT[np.dtype(name)] for name in ("f4", "f8", "c8", "c16")])
_general_where: Final = functions["where"]
_general_einsum: Final = functions["einsum"]
_general_real: Final = functions["real"]
_general_imag: Final = functions["imag"]
_COMPLEX: Final = DTYPE_TRAIT[np.dtype("c8")] | DTYPE_TRAIT[np.dtype("c16")]
_NUMBERS: Final = (bool, int, float, complex, np.generic)
_where: Final = registry.find("tk::where").call


def _fit(x: Any, y: Any) -> bool:
    """Tell whether the result has the dtype of the array, or of both arrays."""
    if x.__class__ is not ndarray:
        x, y = y, x
    if x.__class__ is not ndarray:
        return False
    word = x._word & _MASK
    if y.__class__ is ndarray:
        return word == y._word & _MASK and not word & WEAK_MASK
    if word not in _BY_KIND.get(y.__class__, ()):
        return False
    return not _WRAPS or y.__class__ is not int or bool(_LIMITS[word].min <= y <= _LIMITS[word].max)


def where(condition: Any, x: Any = _NO_VALUE, y: Any = _NO_VALUE) -> Any:
    """Compute ``numpy.where``, with NumPy's arguments and result dtypes; the result is an ``ndarray``.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.array([1.5, -2.0])
    >>> tnp.where(x > 0, x, 0), tnp.where(x > 0)
    (array([1.5, 0. ]), (array([0]),))
    """
    if x is _NO_VALUE or y is _NO_VALUE:
        if x is y and condition.__class__ is ndarray:
            return functions["nonzero"](condition)
        return _general_where(condition, *[one for one in (x, y) if one is not _NO_VALUE])
    if condition.__class__ is ndarray and condition._word & _MASK == _BOOL and _fit(x, y):
        made = _where(condition, x, y)
        made.__class__ = ndarray
        return made
    return _general_where(condition, x, y)


def einsum(subscripts: Any = None, *operands: Any, **options: Any) -> Any:
    """Compute ``numpy.einsum``, with NumPy's arguments and result dtypes; the result is an ``ndarray``.

    >>> import tenkey.numpy as tnp
    >>> tnp.einsum("ij,j->i", tnp.ones((2, 3)), tnp.arange(3.0))
    array([3., 3.])
    """
    if subscripts is None:
        raise ValueError("[numpy.einsum] takes the subscripts and at least one operand, got nothing.")
    if not options and operands and subscripts.__class__ is str:
        word = operands[0]._word & _MASK if operands[0].__class__ is ndarray else 0
        if word in _PRODUCTS and all(x.__class__ is ndarray and x._word & _MASK == word for x in operands):
            from ..ops.builtin.linalg.einsum import einsum_operator

            try:
                made = einsum_operator(subscripts, operands)
            except (TypeError, ValueError):  # which the general function explains
                return _general_einsum(subscripts, *operands)
            return as_results(made, operands)
    return _general_einsum(subscripts, *operands, **options)


def _has_parts(val: Any) -> bool:
    """Return whether the parts are those of a number, or views of the memory of complex numbers."""
    if isinstance(val, _NUMBERS):
        return True
    if val.__class__ is not ndarray or not val._word & _COMPLEX or val._word & REQUIRES_GRAD:
        return False
    return val._data.__class__ is np.ndarray


def real(val: Any) -> Any:
    """Compute ``numpy.real``: a view of the array, unless it requires a gradient; of a number, its part.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.array([1 + 2j, 3])
    >>> tnp.real(x)[0] = 7
    >>> x
    array([7.+2.j, 3.+0.j])
    """
    return val.real if _has_parts(val) else _general_real(val)


def imag(val: Any) -> Any:
    """Compute ``numpy.imag``: a view of the array, unless it requires a gradient; zeros for real numbers.

    >>> import tenkey.numpy as tnp
    >>> tnp.imag(tnp.array([1 + 2j, 3])), tnp.imag([1.0, 2.0])
    (array([2., 0.]), array([0., 0.]))
    """
    return val.imag if _has_parts(val) else _general_imag(val)


def _replace(function: Any, general: Any) -> None:
    """Let the function take the place of the general one in the namespace."""
    function.__module__ = general.__module__
    function.__wrapped__ = general.__wrapped__  # the signature, for inspect
    functions[function.__name__] = function


_replace(quick_function(where, "where(condition, x~, y~) / where", operands=["condition"]), _general_where)
_replace(
    quick_function(
        einsum,
        "einsum(subscripts!, *operands) / einsum contract matmul multiply sum permute_dims reshape",
        sequences=["operands"],
    ),
    _general_einsum,
)
_replace(real, _general_real)
_replace(imag, _general_imag)
