"""Kernels that follow the default dtypes.

Note [Default dtypes in specialised kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel is made for a dispatch word once and fixes the dtype of its results. Where integers give floats, this is the
default dtype, which a program may change for one thread by ``tk.default_dtypes``. Only such words get a kernel that
reads the defaults in each call and keeps one kernel for each setting.
Guarded by tests/core/test_dtypes.py::test_operators_follow_a_change_of_the_defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from ...core.dtypes import names as dtypes
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.operator import Operator
from ...ops.declare.facets import Pointwise, Reduce

__all__ = ["following_defaults"]

Specialize = Callable[[Operator, int], Callable[..., Any]]
_SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"real_floating": dtypes.float32, "integral": dtypes.int64},
    {"real_floating": dtypes.float64, "integral": dtypes.int32},
)


def _follows(operator: Operator, word: int) -> bool:
    """Tell whether the dtypes of the call depend on the defaults."""
    arrays = dtypes_of(word & DTYPE_MASK)
    if all(dtype.kind in "fcV" for dtype in arrays) and arrays:
        return False
    facet: Pointwise | Reduce = operator.facets.get("Pointwise") or operator.facets["Reduce"]
    found = []
    for setting in _SETTINGS:
        with dtypes.default_dtypes(**setting):
            found.append(facet.promotion.dtypes(operator.name, arrays, weak_of(word & WEAK_MASK)))
    return found[0] != found[1]


def following_defaults(specialize: Specialize) -> Specialize:
    """Wrap ``specialize`` so that the kernels for words that depend on the defaults follow these."""
    get_defaults = dtypes.get_defaults

    @wraps(specialize)  # explain shows where that is defined
    def specialized(operator: Operator, word: int) -> Callable[..., Any]:
        first = specialize(operator, word)
        if not _follows(operator, word):
            return first
        made: dict[Any, tuple[Any, Callable[..., Any]]] = {}
        now = get_defaults()
        latest = made[now] = (now, first)

        def kernel(*args: Any, **options: Any) -> Any:
            nonlocal latest
            known, call = latest  # one name, since another thread may replace the pair
            defaults = get_defaults()
            if known is not defaults:
                found = made.get(defaults)
                if found is None:
                    found = made[defaults] = (defaults, specialize(operator, word))
                latest = (defaults, found[1])
                call = found[1]
            return call(*args, **options)

        return kernel

    return specialized
