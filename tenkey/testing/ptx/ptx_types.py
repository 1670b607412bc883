"""PTX's types, and the types of compiled code in which they are computed."""

from __future__ import annotations

from typing import Final, NamedTuple

from ...backends.llvm.value_types import Type, f32, f64, i1, i8, i16, i32, i64, u8, u16, u32, u64

__all__ = ["PtxType", "i128", "signed_of", "type_of", "u128", "unsigned"]

u128: Final = Type("u128", "i128", 16, "u")
i128: Final = Type("i128", "i128", 16, "i")
_SIGNED: Final = {8: i8, 16: i16, 32: i32, 64: i64, 128: i128}
_UNSIGNED: Final = {1: i1, 8: u8, 16: u16, 32: u32, 64: u64, 128: u128}


class PtxType(NamedTuple):
    """A type: its width, its lanes, and the type of compiled code in which one lane is computed.

    Floats of 16 bits are computed in float32: ``narrow`` says which of the two they are.
    """

    name: str
    bits: int
    compute: Type
    lanes: int = 1
    narrow: str = ""

    @property
    def size(self) -> int:
        """Return the width in bytes."""
        return self.bits // 8 or 1

    @property
    def storage(self) -> Type:
        """Return the unsigned integer that holds the bits."""
        return _UNSIGNED[self.bits]

    @property
    def lane_bits(self) -> int:
        """Return the width of one lane."""
        return self.bits // self.lanes

    @property
    def is_float(self) -> bool:
        """Tell whether it is a floating-point type."""
        return self.compute.is_float

    @property
    def is_signed(self) -> bool:
        """Tell whether it is a signed integer."""
        return self.compute.kind == "i"


def unsigned(bits: int) -> Type:
    """Return the unsigned integer type of a width."""
    return _UNSIGNED[bits]


def signed_of(type_: Type) -> Type:
    """Return the signed integer type of the same width."""
    return _SIGNED[type_.bits]


_TYPES: Final = {
    one.name: one
    for one in (
        PtxType("pred", 1, i1),
        *(PtxType(f"{k}{n}", n, _UNSIGNED[n]) for k in "bu" for n in (8, 16, 32, 64, 128)),
        PtxType("s8", 8, i8), PtxType("s16", 16, i16), PtxType("s32", 32, i32), PtxType("s64", 64, i64),
        PtxType("f32", 32, f32), PtxType("f64", 64, f64), PtxType("tf32", 32, f32),
        PtxType("f16", 16, f32, narrow="f16"), PtxType("bf16", 16, f32, narrow="bf16"),
        PtxType("f16x2", 32, f32, 2, "f16"), PtxType("bf16x2", 32, f32, 2, "bf16"), PtxType("f32x2", 64, f32, 2),
        PtxType("u16x2", 32, u16, 2), PtxType("s16x2", 32, i16, 2),
    )
}  # fmt: skip


def type_of(name: str) -> PtxType | None:
    """Return the type of this name, or None."""
    return _TYPES.get(name)
