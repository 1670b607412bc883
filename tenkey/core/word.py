"""The bits of a dispatch word that core defines: the dtype, "requires a gradient", and weak Python scalars.

Note [Weak scalars]
~~~~~~~~~~~~~~~~~~~
A Python number among tensor arguments becomes a 0-d tensor without a backend or dtype trait; it carries one of four
*weak* traits instead. It takes part in promotion by its kind alone, and the kernel converts it to the dtype of the
computation. Guarded by ``tests/core/test_promotion.py`` and ``tests/tiny/test_tensor.py::test_weak_scalars``.
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
    "BFLOAT16_TRAIT", "DTYPE_MASK", "DTYPE_TRAIT", "INFERENCE", "INHERITED", "REQUIRES_GRAD", "WEAK_MASK",
    "WEAK_TRAIT", "dtypes_of", "tensor_dtype", "weak_of",
]  # fmt: skip

INFERENCE: Final = DispatchKey.Inference.mask
"""The bit of tensors created in inference mode, included in every call while the mode is on."""
WEAK_TRAIT: Final = {kind: register_trait(f"weak {kind.__name__}", common=True) for kind in (bool, int, float, complex)}


class _Traits(dict[np.dtype, int]):
    """The trait of each dtype; bfloat16 is added at its first use (Note [Optional bfloat16])."""

    def __missing__(self, dtype: np.dtype) -> int:
        if getattr(dtype, "name", "") != "bfloat16":
            raise KeyError(dtype)
        return self.setdefault(dtype, BFLOAT16_TRAIT)

    def __contains__(self, dtype: object) -> bool:
        return dict.__contains__(self, dtype) or getattr(dtype, "name", "") == "bfloat16"


DTYPE_TRAIT: Final[dict[np.dtype, int]] = _Traits({d: register_trait(str(d), common=True) for d in ALL})
BFLOAT16_TRAIT: Final = register_trait("bfloat16", common=True)

INHERITED: Final = ~(REQUIRES_GRAD | ASKING)
"""The bits that a view, a copy or a saved tensor inherits: all but those that belong to the handle."""

WEAK_MASK: Final = sum(WEAK_TRAIT.values())
DTYPE_MASK: Final = sum(DTYPE_TRAIT.values()) | BFLOAT16_TRAIT


def tensor_dtype(value: Any) -> np.dtype:
    """Return the dtype that ``value`` names; TypeError if tensors cannot have it."""
    dtype = to_dtype(value)
    if dtype not in DTYPE_TRAIT:
        raise TypeError(f"tensors of dtype {dtype} do not exist; there are {', '.join(map(str, ALL))}.")
    return dtype


@cache
def dtypes_of(word: int) -> tuple[np.dtype, ...]:
    """Return the dtypes whose trait is set."""
    return tuple(dtype for dtype, bit in DTYPE_TRAIT.items() if word & bit)


@cache
def weak_of(word: int) -> tuple[type, ...]:
    """Return the types of the weak Python scalars whose trait is set."""
    return tuple(kind for kind, bit in WEAK_TRAIT.items() if word & bit)
