"""Conversions between float16 and float32 for x86-64 processors without F16C.

LLVM calls functions of a run-time library for them, which llvmlite does not bring. Their names and results are those
of that library: rounded to nearest, ties to even. Guarded by ``tests/backends/test_processors.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .machine_code import has_feature

__all__ = ["HALF_CONVERSIONS", "are_needed"]

HALF_CONVERSIONS: Final = """
define float @__extendhfsf2(half %x) nounwind {
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %magnitude = and i32 %bits, 32767
  %shifted = shl i32 %magnitude, 13
  %small = bitcast i32 %shifted to float
  %scaled = fmul float %small, 0x46F0000000000000                   ; 2**112, the difference of the exponents' biases
  %finite = bitcast float %scaled to i32
  %infinite = or i32 %shifted, 2139095040                           ; the exponent of infinity and NaN
  %is_finite = icmp ult i32 %magnitude, 31744
  %unsigned = select i1 %is_finite, i32 %finite, i32 %infinite
  %sign_bit = and i32 %bits, 32768
  %sign = shl i32 %sign_bit, 16
  %all = or i32 %unsigned, %sign
  %result = bitcast i32 %all to float
  ret float %result
}

define half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %magnitude = and i32 %bits, 2147483647
  %shifted = lshr i32 %magnitude, 13
  %odd = and i32 %shifted, 1
  %biased = add i32 %magnitude, -939520001                          ; 15 - 127 in the exponent, and less than a half
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %number = bitcast i32 %magnitude to float
  %sum = fadd float %number, 5.0e-1                                 ; its last place is the least subnormal float16
  %sum_bits = bitcast float %sum to i32
  %subnormal = add i32 %sum_bits, -1056964608
  %is_subnormal = icmp ult i32 %magnitude, 947912704                ; 2**-14
  %finite = select i1 %is_subnormal, i32 %subnormal, i32 %normal
  %is_infinite = icmp uge i32 %magnitude, 1199566848                ; 65520
  %in_range = select i1 %is_infinite, i32 31744, i32 %finite
  %payload = and i32 %shifted, 511
  %quiet = or i32 %payload, 32256
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %unsigned = select i1 %is_nan, i32 %quiet, i32 %in_range
  %sign_bits = lshr i32 %bits, 16
  %sign = and i32 %sign_bits, 32768
  %all = or i32 %unsigned, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""
"""A module in LLVM's language."""


def are_needed(parts: Sequence[str]) -> bool:
    """Return whether the object code of some modules will call these functions."""
    return any("half" in text for text in parts) and has_feature("sse3") and not has_feature("f16c")
