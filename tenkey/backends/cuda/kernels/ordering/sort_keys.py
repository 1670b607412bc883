"""Keys of a sort: unsigned integers in the order of the elements.

Note [Keys of a sort]
~~~~~~~~~~~~~~~~~~~~~
Sorts compare unsigned integers of the elements' size. Signed integers have their sign bit inverted; floats all bits if
they are negative, else the sign bit. Equal elements must have equal keys to keep their order, so -0.0 has the key of
0.0, and every NaN the largest key. A key therefore gives back its element except for these two keys, whose elements are
read again at the place where they were. Guarded by ``tests/backends/cuda/kernels/ordering/test_sort.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Keys", "keys_of"]

_FRACTIONS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


class Keys(NamedTuple):
    """The keys of a dtype: ``kind``, the type of keys and of elements in memory, and device functions.

    ``head`` defines ``key_of(bits)``, ``element_of(key)`` and ``is_ambiguous(key)``.
    """

    kind: str
    bits: int
    head: str


def keys_of(dtype: np.dtype) -> Keys:
    """Return the keys of a dtype that has an order."""
    bits = dtype.itemsize * 8
    kind = f"uint{bits}"
    sign = f"{kind}({1 << bits - 1})"
    if dtype.kind == "u":
        return Keys(kind, bits, _SAME.format(kind=kind))
    if dtype.kind == "i":
        return Keys(kind, bits, _SIGNED.format(kind=kind, sign=sign))
    fraction = _FRACTIONS[dtype.name]
    infinity = ((1 << bits - 1 - fraction) - 1) << fraction
    words = {"kind": kind, "sign": sign, "infinity": f"{kind}({infinity})", "largest": f"{kind}({(1 << bits) - 1})"}
    return Keys(kind, bits, _FLOATS.format(magnitude=f"{kind}({(1 << bits - 1) - 1})", **words))


_SAME = """
def key_of(bits):
    return bits


def element_of(key):
    return key


def is_ambiguous(key):
    return False
"""
_SIGNED = """
def key_of(bits):
    return bit_xor(bits, {sign})


def element_of(key):
    return bit_xor(key, {sign})


def is_ambiguous(key):
    return False
"""
_FLOATS = """
def key_of(bits):
    size = bit_and(bits, {magnitude})
    key = select((bits >= {sign}) & (size != {kind}(0)), bit_invert(bits), bit_or(bits, {sign}))
    return select(size > {infinity}, {largest}, key)


def element_of(key):
    return select(key >= {sign}, bit_xor(key, {sign}), bit_invert(key))


def is_ambiguous(key):
    return (key == {sign}) | (key == {largest})
"""
