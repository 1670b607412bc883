"""Types of the values in compiled code.

A type is called to convert to it: ``f32(x)`` converts a :class:`Value`, or makes a constant of a Python number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

__all__ = [
    "Type", "array", "b8", "bf16", "f16", "f32", "f64", "i1", "i8", "i16", "i32", "i64", "of_dtype", "pointer", "u8",
    "u16", "u32", "u64", "unsigned_of", "vector", "void",
]  # fmt: skip


class Type:
    """A type: its name, its spelling in LLVM's language, the size of an element in bytes and what kind it is.

    ``kind`` is ``i`` (signed integer), ``u`` (unsigned), ``f`` (float), ``c`` (a condition, one bit), ``b`` (a bool in
    memory: a byte of 0 or 1), ``h`` (bfloat16, stored as an integer), ``p`` (pointer) or ``v`` (void). A vector has the
    kind of its elements. ``element`` is the type of a vector's elements, or that to which a pointer points. Each type
    exists once, and none is changed.
    """

    __slots__ = ("element", "ir", "kind", "lanes", "name", "size")  # not a dataclass, which takes 1 ms to define

    def __init__(self, name: str, ir: str, size: int, kind: str, lanes: int = 1, element: Type | None = None) -> None:
        self.name, self.ir, self.size, self.kind, self.lanes, self.element = name, ir, size, kind, lanes, element

    @property
    def is_float(self) -> bool:
        """Tell whether arithmetic on the type is that of floats."""
        return self.kind == "f"

    @property
    def is_signed(self) -> bool:
        """Tell whether an integer has a sign."""
        return self.kind == "i"

    @property
    def is_pointer(self) -> bool:
        """Tell whether the type is a pointer."""
        return self.kind == "p"

    @property
    def is_vector(self) -> bool:
        """Tell whether the type has several lanes."""
        return self.lanes > 1

    @property
    def bits(self) -> int:
        """Return the width of an element in bits."""
        return 1 if self.kind == "c" else 8 * self.size

    @property
    def scalar(self) -> Type:
        """Return the type of one lane."""
        if self.lanes == 1:
            return self
        assert self.element is not None
        return self.element

    @property
    def target(self) -> Type:
        """Return the type to which a pointer points."""
        if self.kind != "p" or self.element is None:
            raise TypeError(f"[llvm] {self} is not a pointer: cast(p, pointer(T)) gives it a type.")
        return self.element

    def __call__(self, value: Any) -> Any:
        """Convert a number or a Value to this type."""
        return _convert[0](value, self)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


_convert: list[Callable[[Any, Type], Any]] = []  # values.py puts its function here, which needs types

void: Final = Type("void", "void", 0, "v")
i1: Final = Type("i1", "i1", 1, "c")
i8: Final = Type("i8", "i8", 1, "i")
i16: Final = Type("i16", "i16", 2, "i")
i32: Final = Type("i32", "i32", 4, "i")
i64: Final = Type("i64", "i64", 8, "i")
u8: Final = Type("u8", "i8", 1, "u")
u16: Final = Type("u16", "i16", 2, "u")
u32: Final = Type("u32", "i32", 4, "u")
u64: Final = Type("u64", "i64", 8, "u")
f16: Final = Type("f16", "half", 2, "f")
f32: Final = Type("f32", "float", 4, "f")
f64: Final = Type("f64", "double", 8, "f")
bf16: Final = Type("bf16", "i16", 2, "h")
b8: Final = Type("b8", "i8", 1, "b")
array: Final = Type("array", "ptr", 8, "p", element=i8)
"""A NumPy array as a parameter of an entry point: the object itself; see ``array_fields.py``."""

_BY_NAME: Final = {
    "bool": b8, "int8": i8, "int16": i16, "int32": i32, "int64": i64, "uint8": u8, "uint16": u16, "uint32": u32,
    "uint64": u64, "float16": f16, "bfloat16": bf16, "float32": f32, "float64": f64,
}  # fmt: skip


@cache  # the name of a dtype is computed in Python
def of_dtype(dtype: np.dtype) -> Type:
    """Return the type of one element in memory; KeyError for complex numbers and dtypes that are not numbers."""
    return _BY_NAME[dtype.name]


@cache
def pointer(to: Type) -> Type:
    """Return the type of pointers to elements of this type."""
    return Type(f"pointer({to.name})", "ptr", 8, "p", element=to)


@cache
def vector(of: Type, lanes: int) -> Type:
    """Return the type of vectors of so many elements; of one element: the type itself."""
    if lanes == 1:
        return of
    return Type(f"vector({of.name}, {lanes})", f"<{lanes} x {of.ir}>", of.size, of.kind, lanes, of)


def unsigned_of(type_: Type) -> Type:
    """Return the unsigned integer type of the same width and number of lanes."""
    return vector({1: u8, 2: u16, 4: u32, 8: u64}[type_.size], type_.lanes)
