"""CPU kernels of the factories that programs call most: a shorter path to what their NumPy kernels return.

They are written by hand because there is little to do in them: making the array takes a tenth of a call of ``zeros``.
Everything unusual, errors included, is left to the NumPy kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ...core.dtypes.names import get_defaults
from ...core.tensor import Tensor
from ...core.tensor_base import new_handle
from ...dispatch.operator import Operator
from ..allocation.host import ALIGNED, COUNTED, allocate, zeroed
from .kernels import WORDS, Specialized
from .numpy_kernels import numpy_kernel

__all__ = ["KERNELS"]

_arange: Final[Any] = np.arange


def _new_memory(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    made = np.empty(shape, dtype)  # costs nothing until it is written to
    return allocate(made.shape, dtype) if made.nbytes >= COUNTED else made


def _ones(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    made = _new_memory(shape, dtype)
    made.fill(1)
    return made


def _zeros(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    return np.zeros(shape, dtype) if prod(shape) * dtype.itemsize < ALIGNED else zeroed(tuple(shape), dtype)


def _filled(make: Callable[..., Any]) -> Callable[[Operator, int], Callable[..., Tensor]]:
    def rule(operator: Operator, word: int) -> Callable[..., Tensor]:
        general = numpy_kernel(operator)

        def kernel(shape: Sequence[int], *, dtype: np.dtype | None = None, device: Any = None) -> Tensor:
            wanted = get_defaults().real_floating if dtype is None else dtype
            try:
                word = WORDS[wanted]
                data = make(shape, wanted)
            except Exception:
                data = word = None
            if data is None or word is None:
                return general(shape, dtype=dtype, device=device)  # type: ignore[no-any-return]
            made: Tensor = new_handle(Tensor)
            made._data = data
            made._word = word
            made._storage = None
            made._autograd = None
            return made

        return kernel

    return rule


def _arange_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    general = numpy_kernel(operator)

    def kernel(
        start: Any, stop: Any = None, step: Any = 1, *, dtype: np.dtype | None = None, device: Any = None
    ) -> Tensor:
        integers = start.__class__ is int and step.__class__ is int and (stop is None or stop.__class__ is int)
        if dtype is not None or not integers:
            return general(start, stop, step, dtype=dtype, device=device)  # type: ignore[no-any-return]
        wanted = get_defaults().integral
        try:
            data = _arange(0, start, step, wanted) if stop is None else _arange(start, stop, step, wanted)
            word = WORDS[wanted]
        except Exception:
            data = word = None
        if data is None or word is None:
            return general(start, stop, step, dtype=dtype, device=device)  # type: ignore[no-any-return]
        made: Tensor = new_handle(Tensor)
        made._data = data
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    return kernel


KERNELS: Final = {
    "tk::zeros": Specialized(_filled(_zeros)), "tk::ones": Specialized(_filled(_ones)),
    "tk::empty": Specialized(_filled(_new_memory)), "tk::arange": Specialized(_arange_rule),
}  # fmt: skip
