"""What compiled calls know of a ufunc.

Note [Plans of ufuncs]
~~~~~~~~~~~~~~~~~~~~~~
A ufunc has a *block*, words of memory that compiled calls read (``HEAD`` in ``ufunc_calls.py``), with a table of
plans. A plan says for a union of dispatch words which dtype and word the result has, and which inner loop of NumPy
computes it; without a loop NumPy's ufunc is called. The call in Python makes a plan when it meets words that it can
compute by NumPy alone (Note [Quick calls of ufuncs]), and a registration of a kernel erases all plans of the operator.

The inner loops are in the public structure of a ufunc (``PyUFuncObject`` of ``ufuncobject.h``), in the order in which
``ufunc.types`` names them; :func:`loops_of` compares the structure with what NumPy reports.
Guarded by ``tests/numpy/test_compiled_calls.py::TestPlans``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .python_objects import HEADER, keep
from .ufunc_calls import DOUBLE, ENTRY, HEAD, LONG, PLANS, SINGLE, places_of

__all__ = ["Plans", "loops_of"]

_FORMS: Final = {"d": DOUBLE, "f": SINGLE, "l": LONG, "q": LONG}
_LOOPS: Final = "?bhilqBHILQefdFD"  # the dtypes whose loops are called by address


def loops_of(source: np.ufunc) -> dict[str, tuple[int, int]]:
    """Return the address and the data of each inner loop by its types; {} where the structure is not the known one."""
    counts = (ctypes.c_int32 * 3).from_address(id(source) + HEADER)
    if tuple(counts) != (source.nin, source.nout, source.nargs):
        return {}
    functions, data, number = (ctypes.c_int64 * 3).from_address(id(source) + HEADER + 16)
    text = ctypes.c_void_p.from_address(id(source) + HEADER + 48).value or 0
    count = number & 0xFFFFFFFF
    if count != source.ntypes or not functions or not data:
        return {}
    typed = bytes((ctypes.c_uint8 * (count * source.nargs)).from_address(text))
    found: dict[str, tuple[int, int]] = {}
    for i, types in enumerate(source.types[:count]):
        chars = types.replace("->", "")
        if bytes([np.dtype(c).num for c in chars]) != typed[i * source.nargs : (i + 1) * source.nargs]:
            return {}
        if all(c in _LOOPS for c in chars):
            pair = [(ctypes.c_uint64 * count).from_address(start)[i] for start in (functions, data)]
            found.setdefault(chars, (pair[0], pair[1]))
    return found


class Plans:
    """The block of a ufunc, or of another function, which has no loops."""

    def __init__(self, record: int, source: np.ufunc | None, general: Any, words: Sequence[int]) -> None:
        """Make a block without plans; ``general`` is the call in Python, ``words`` are those of numbers."""
        self._source, self._general = source, general
        self._loops: dict[str, tuple[int, int]] | None = None
        self._kept: dict[int, Any] = {}  # what plans refer to, by their keys
        self._words = (ctypes.c_uint64 * (len(HEAD) + PLANS * len(ENTRY)))()
        self._words[: len(HEAD)] = [record, id(source), id(general), 0 if source is None else source.nin, *words]
        self.address = ctypes.addressof(self._words)
        keep(self)

    def add(self, key: int, word: int, given: Sequence[np.dtype], result: np.dtype) -> None:
        """Make a plan for the operands whose words have the union ``key``.

        ``given`` has the dtypes in which NumPy computes where they are those of the operands, and is empty elsewhere.
        """
        if key >> 64:
            return
        if self._loops is None:
            source = self._source
            self._loops = {} if source is None or source.signature is not None else loops_of(source)
        loop, data = self._loops.get("".join(d.char for d in (*given, result)), (0, 0)) if given else (0, 0)
        first, second = places_of(key)
        start = second if self._words[first] not in (0, key) and self._words[second] in (0, key) else first
        form = _FORMS.get(given[0].char, 0) if given else 0
        self._words[start] = 0
        self._kept[start] = word, result
        entry = [key, id(word), loop, data, id(result), form, given[0].itemsize if given else 0, result.itemsize]
        for i, each in enumerate(entry[1:], start + 1):
            self._words[i] = each
        self._words[start] = key

    def clear(self) -> None:
        """Forget all plans."""
        for start in range(len(HEAD), len(self._words), len(ENTRY)):
            self._words[start] = 0
        self._kept.clear()
