"""Compute ufuncs of small arrays with a single NumPy call.

Note [Quick calls of ufuncs]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The CPU kernel of a pointwise operator computes a small call by NumPy's ufunc (Note [Small and large calls]). For arrays
of ``tenkey.numpy`` without gradients, outside of modes and transforms, that is all that a call amounts to, in any
dtypes, since the rules are NumPy's. So the entry of a ufunc does it itself where it knows the word of the result for
the word of the operands. A registration clears what it knows (``Operator.watchers``), and it learns it again only while
the package's own kernels handle the call, so a kernel that a user registers is found.
Guarded by ``tests/numpy/test_ufuncs.py::test_registered_kernels_are_called``.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.device import base_word
from ...core.tensor import cpu_word
from ...core.word import DTYPE_MASK, WEAK_MASK, WEAK_TRAIT, dtypes_of, weak_of
from ...dispatch.kernel import Kernel
from ...dispatch.keys import backend_mask, word_below
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.table import steps

__all__ = ["PLAIN", "SMALL", "WEAK_FLOAT", "WEAK_INT", "is_ours", "quick_entry", "small_call", "weak_dtypes"]

WEAK_FLOAT: Final = WEAK_TRAIT[float]
WEAK_INT: Final = WEAK_TRAIT[int]
SMALL: Final = 1 << 12
"""The product of the operands' sizes above which kernels take as long as the way to them."""
PLAIN: Final = base_word("cpu")

# The result word is 0 where the standard way is to be taken, and None where that is not known.
_MADE: Final = """            else:
                if data.__class__ is not array: return data
                made = new(ndarray)
                made._data = data
                made._word = result
                made._storage = None
                made._autograd = None
                return made
"""
_UNARY: Final = """    if x.__class__ is ndarray:
        word = x._word
        result = known(word)
        if result is None: result = find(word)
        if result and out is None and not options and state() is None and (a := x._data).size <= SMALL:
            try:
                data = quietly(source, a)
            except RuntimeError:  # Note [A context without warnings]
                pass
"""
_BINARY: Final = """    k1, k2 = x1.__class__, x2.__class__
    word = 0
    if k1 is ndarray:
        a, b = x1._data, x2
        if k2 is ndarray:
            word = x1._word | x2._word
            b = x2._data
            size = a.size * b.size
        else:
            if k2 is float: word = x1._word | WEAK_FLOAT
            elif k2 is int: word = x1._word | WEAK_INT
            size = a.size
    elif k2 is ndarray:
        a, b = x1, x2._data
        if k1 is float: word = x2._word | WEAK_FLOAT
        elif k1 is int: word = x2._word | WEAK_INT
        size = b.size
    if word and size <= SMALL:
        result = known(word)
        if result is None: result = find(word)
        if result and out is None and not options and state() is None:
            try:
                data = quietly({call})
            except (RuntimeError, ValueError, OverflowError):
                pass
"""


def quick_entry(source: np.ufunc) -> str:
    """Return the first lines of the entry of a ufunc, for small calls; "" for ufuncs that have none."""
    if source.nout > 1 or source.nin > 2 or source.signature:
        return ""
    if source.nin == 1:
        return _UNARY + _MADE
    call = "source, a, b"
    if source is np.power:  # as NumPy's operator ** does
        call = "*((square, a) if b is x2 and b == 2 and a.dtype.kind in 'fc' else (source, a, b))"
    return _BINARY.replace("{call}", call) + _MADE


def _is_generated(kernel: Kernel) -> bool:
    return kernel.origin == "generated"


def is_ours(operator: Operator, word: int) -> bool:
    """Tell whether calls with this word run the package's own kernels alone, down to that of the CPU."""
    if operator.is_untouched and all(map(_is_generated, chain(*registry.fallbacks.values()))):
        return True  # those kernels need not be made to know it: Note [Installers that wait]
    while True:
        found = list(steps(operator, word))
        if any(step.slot.conditional for step in found):
            return False
        if any(step.slot.kernel is not None and not _is_generated(step.slot.kernel) for step in found):
            return False
        if not found or not found[-1].chosen or found[-1].key.mask & backend_mask():
            return True
        word = word_below(word, found[-1].key)  # as of an operator that changes its argument


def weak_dtypes(word: int) -> tuple[Any, ...]:
    """Return the Python numbers among operands as ``ufunc.resolve_dtypes`` takes them: types, but a dtype for bools."""
    return tuple([np.dtype(bool) if kind is bool else kind for kind in weak_of(word & WEAK_MASK)])


class SmallCall(NamedTuple):
    """How NumPy computes a small call."""

    word: int  # of the result
    given: tuple[np.dtype, ...]  # the dtypes of the operands, where NumPy's loop takes them as they are; else ()
    result: np.dtype


def small_call(source: np.ufunc, operator: Operator | None, word: int) -> SmallCall | None:
    """Return how NumPy computes a small call with this union of words; None for the standard way."""
    arrays, weak = dtypes_of(word & DTYPE_MASK), weak_dtypes(word)
    if word & ~(DTYPE_MASK | WEAK_MASK) != PLAIN or len(arrays) + len(weak) > source.nin:
        return None
    if operator is None or not is_ours(operator, word & ~WEAK_MASK):
        return None
    if "Pointwise" not in operator.facets and source is not np.matmul:
        return None
    given: list[Any] = [*arrays, *weak]
    given += given[:1] * (source.nin - len(given))
    try:
        found = {source.resolve_dtypes((*order, None)) for order in (given, given[::-1])}
    except (TypeError, ValueError):  # NumPy refuses the dtypes
        return None
    results = {dtypes[-1] for dtypes in found}
    (result,) = results if len(results) == 1 else (np.dtype("O"),)  # where their order matters, words do not tell
    if result.kind not in "biufc":
        return None
    (taken,) = {dtypes[:-1] for dtypes in found} if len(found) == 1 else ((),)
    return SmallCall(cpu_word(result), taken if set(taken) == set(arrays) else (), result)
