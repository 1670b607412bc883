"""What core puts into the dispatch word of a tensor: its dtype, "requires a gradient", and weak Python scalars.

Note [Weak scalars]
~~~~~~~~~~~~~~~~~~~
A Python number among tensor arguments becomes a 0-d tensor without backend and without dtype trait: it carries one of
four *weak* traits instead. It takes part in promotion by its kind alone, and the kernel converts it to the dtype it
computes in. Guarded by ``tests/core/test_promotion.py`` and ``tests/tiny/test_tensor.py::test_weak_scalars``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from ..dispatch.keys import DispatchKey, register_trait
from ..dispatch.local_state import REQUIRES_GRAD
from ..dispatch.subclasses import ASKING
from .dtypes.names import ALL, to_dtype

__all__ = [
    "BFLOAT16_TRAIT",
    "DTYPE_MASK",
    "INHERITED",
    "DTYPE_TRAIT",
    "REQUIRES_GRAD",
    "INFERENCE",
    "WEAK_MASK",
    "WEAK_TRAIT",
    "tensor_dtype",
    "dtypes_of",
    "trait_of",
    "weak_of",
]

INFERENCE: Final = DispatchKey.Inference.mask
"""On tensors made in inference mode, and included in every call while it is on."""
WEAK_TRAIT: Final = {kind: register_trait(f"weak {kind.__name__}", common=True) for kind in (bool, int, float, complex)}


class _Traits(dict[np.dtype, int]):
    """The trait of each dtype; bfloat16 enters when somebody comes with it (Note [Optional bfloat16])."""

    def __missing__(self, dtype: np.dtype) -> int:
        if getattr(dtype, "name", "") != "bfloat16":
            raise KeyError(dtype)
        return self.setdefault(dtype, BFLOAT16_TRAIT)

    def __contains__(self, dtype: object) -> bool:
        return dict.__contains__(self, dtype) or getattr(dtype, "name", "") == "bfloat16"


DTYPE_TRAIT: Final[dict[np.dtype, int]] = _Traits({d: register_trait(str(d), common=True) for d in ALL})
BFLOAT16_TRAIT: Final = register_trait("bfloat16", common=True)

INHERITED: Final = ~(REQUIRES_GRAD | ASKING)
"""What a view, a copy or a saved tensor takes over of the word of its source: all but what belongs to the handle."""

WEAK_MASK: Final = sum(WEAK_TRAIT.values())
DTYPE_MASK: Final = sum(DTYPE_TRAIT.values()) | BFLOAT16_TRAIT


def trait_of(dtype: np.dtype) -> int:
    """The trait bit of a dtype."""
    return DTYPE_TRAIT[dtype]


def tensor_dtype(value: Any) -> np.dtype:
    """The dtype that ``value`` names, if tensors can have it."""
    dtype = to_dtype(value)
    if dtype not in DTYPE_TRAIT:
        raise TypeError(f"tensors of dtype {dtype} do not exist; there are {', '.join(map(str, ALL))}.")
    return dtype


@cache
def dtypes_of(word: int) -> tuple[np.dtype, ...]:
    """The dtypes whose trait is set."""
    return tuple(dtype for dtype, bit in DTYPE_TRAIT.items() if word & bit)


@cache
def weak_of(word: int) -> tuple[type, ...]:
    """The types of the weak Python scalars whose trait is set."""
    return tuple(kind for kind, bit in WEAK_TRAIT.items() if word & bit)
