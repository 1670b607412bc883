"""Atomic operations on elements behind a pointer, as intrinsics of kernels.

Each takes a pointer, a place counted in elements and a value of the pointer's type, and returns the element that was
there before. numba.cuda has these operations for arrays only. Order and scope are relaxed and those of the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

__all__ = ["atomic_add", "atomic_exchange", "atomic_exchange_if", "atomic_maximum", "atomic_minimum", "atomic_read"]

_ADD = "llvm.nvvm.atomic.load.add.f{bits}.p0f{bits}"
_SIXTEEN = "atom.cas.b16 $0, [$1], $2, $3;"


def _is_element(pointer: Any, place: Any, *values: Any) -> bool:
    is_place = isinstance(pointer, types.CPointer) and isinstance(place, types.Integer)
    return is_place and all(value == pointer.dtype for value in values)


def _address(builder: Any, pointer: Any, place: Any, kind: Any) -> Any:
    if place.type.width < 64:
        extend = builder.sext if kind.signed else builder.zext
        place = extend(place, ir.IntType(64))
    return builder.gep(pointer, [place])


def _whole(name: str) -> Any:
    """Return an operation on integers of 32 or 64 bits; ``name`` is that of LLVM, for signed ones."""

    def define(context: Any, pointer: Any, place: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
            operation = f"u{name}" if name in ("min", "max") and not value.signed else name
            return builder.atomic_rmw(operation, _address(builder, given[0], given[1], place), given[2], "monotonic")

        if not (_is_element(pointer, place, value) and isinstance(value, types.Integer) and value.bitwidth >= 32):
            return None
        return value(pointer, place, value), generate

    return intrinsic(define)


atomic_exchange = _whole("xchg")
atomic_minimum = _whole("min")
atomic_maximum = _whole("max")


def _define_add(context: Any, pointer: Any, place: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        at = _address(builder, given[0], given[1], place)
        if isinstance(value, types.Integer):
            return builder.atomic_rmw("add", at, given[2], "monotonic")
        kind = given[2].type
        function = ir.FunctionType(kind, [at.type, kind])
        name = _ADD.format(bits=value.bitwidth)
        found = builder.module.globals.get(name) or ir.Function(builder.module, function, name)
        return builder.call(found, [at, given[2]])

    is_number = isinstance(value, (types.Integer, types.Float)) and value.bitwidth >= 32
    return (value(pointer, place, value), generate) if _is_element(pointer, place, value) and is_number else None


def _define_exchange(context: Any, pointer: Any, place: Any, expected: Any, new: Any) -> Any:
    """Store ``new`` where ``expected`` is found; unsigned integers of 16, 32 or 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        at = _address(builder, given[0], given[1], place)
        if expected.bitwidth > 16:
            return builder.extract_value(builder.cmpxchg(at, *given[2:], "monotonic", "monotonic"), 0)
        word = ir.IntType(16)
        kind = ir.FunctionType(word, [at.type, word, word])
        return builder.call(ir.InlineAsm(kind, _SIXTEEN, "=h,l,h,h", side_effect=True), [at, *given[2:]])

    is_word = isinstance(expected, types.Integer) and expected.bitwidth >= 16
    if not (_is_element(pointer, place, expected, new) and is_word):
        return None
    return expected(pointer, place, expected, new), generate


def _define_read(context: Any, pointer: Any, place: Any) -> Any:
    """Read an unsigned integer of 16, 32 or 64 bits that other threads change by atomic operations meanwhile."""

    def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
        bits = pointer.dtype.bitwidth
        at = _address(builder, given[0], given[1], place)
        kind = ir.FunctionType(ir.IntType(bits), [at.type])
        letter = {16: "h", 32: "r", 64: "l"}[bits]
        code = ir.InlineAsm(kind, f"ld.volatile.u{bits} $0, [$1];", f"={letter},l", side_effect=True)
        return builder.call(code, [at])

    if not (_is_element(pointer, place) and isinstance(pointer.dtype, types.Integer) and pointer.dtype.bitwidth >= 16):
        return None
    return pointer.dtype(pointer, place), generate


atomic_add = intrinsic(_define_add)
atomic_exchange_if = intrinsic(_define_exchange)
atomic_read = intrinsic(_define_read)
