"""The parameters of a kernel in CUDA C++, read from its text.

PTX does not say what a pointer points to. So the types are read from the declaration, and a tensor of another dtype is
refused instead of being reinterpreted.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["parameters_of"]

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_QUALIFIER: Final = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct)\b")
_TYPES: Final = {
    "bool": "uint8", "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "unsigned": "uint32", "unsigned int": "uint32", "long": "int64",
    "long long": "int64", "unsigned long": "uint64", "unsigned long long": "uint64", "float": "float32",
    "double": "float64", "half": "uint16", "__half": "uint16", "__nv_bfloat16": "uint16", "nv_bfloat16": "uint16",
    "cuFloatComplex": "float32", "float2": "float32", "cuDoubleComplex": "float64", "double2": "float64",
    "size_t": "uint64", "ptrdiff_t": "int64",
} | {
    f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}  # fmt: skip
_WORDS: Final = {"unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool"}


def parameters_of(text: str, name: str) -> tuple[str | None, ...] | None:
    """Return the types of a kernel's parameters, None for one that is not known, or None if the kernel is not found.

    >>> parameters_of('extern "C" __global__ void f(const float *x, unsigned n, T *y) {}', "f")
    ('float32*', 'uint32', None)
    """
    found = re.search(rf"\b{re.escape(name)}\s*\(([^)]*)\)", _COMMENT.sub(" ", text))
    if found is None:
        return None
    inside = found.group(1).strip()
    return tuple([_type_of(one) for one in inside.split(",")]) if inside not in ("", "void") else ()


def _type_of(text: str) -> str | None:
    """Return the type of one parameter, such as ``const float *__restrict__ x``."""
    words = _QUALIFIER.sub(" ", text)
    if words.count("*") + words.count("[") > 1 or "&" in words or "<" in words:
        return None
    names = re.findall(r"[\w:]+", re.split(r"[*\[]", words)[0])
    if "*" not in words and len(names) > 1 and names[-1] not in _WORDS:
        names.pop()  # the name of the parameter
    kind = _TYPES.get(_ordered(names))
    return None if kind is None else f"{kind}*" if "*" in words or "[" in words else kind


def _ordered(names: list[str]) -> str:
    """Return the words of a type in the usual order: ``long unsigned int`` is ``unsigned long``."""
    if len(names) > 1 and set(names) <= _WORDS:
        sign = [word for word in ("unsigned", "signed") if word in names]
        rest = [word for word in names if word not in ("unsigned", "signed")]
        if len(rest) > 1 and "int" in rest:
            rest.remove("int")
        names = [*(sign if rest == ["char"] or sign == ["unsigned"] else []), *rest]
    return " ".join(names)
