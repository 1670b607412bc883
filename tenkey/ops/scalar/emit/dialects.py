"""What distinguishes the languages for which there are printers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["C_DIALECTS", "WGSL", "CDialect", "WGSLDialect"]

_NAMES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "float16",
    "bfloat16", "complex64", "complex128",
)  # fmt: skip


def _types(text: str) -> dict[str, str]:
    """Return the types of the dtypes in the order above, of which those written ``-`` do not exist."""
    pairs = zip(_NAMES, [name.strip() for name in text.split(",")], strict=True)
    return {name: kind for name, kind in pairs if kind != "-"}


@dataclass(frozen=True)
class CDialect:
    """A language of the C family.

    ``types`` maps names of dtypes to types, ``prefix`` precedes every function, ``float_suffix`` follows the names of
    float32 functions (``expf``), ``long_suffix`` follows literals of 64 bits. ``functions`` renames functions of the
    mathematical library, ``library`` precedes the names of those that are not renamed, and ``lacking`` are those that
    it does not have. ``as_bits`` and ``as_float`` reinterpret a float32 as an unsigned integer and the reverse.
    ``stored_as_bits`` are the floats of 16 bits that are passed as unsigned integers. ``index`` is the dtype of index
    variables. ``real``, ``imaginary`` and ``complex`` read and make complex numbers, where ``{type}`` is the complex
    and ``{part}`` the real type.

    >>> C_DIALECTS["opencl"].types["int64"]
    'long'
    """

    name: str
    types: Mapping[str, str]
    prefix: str = "static inline"
    float_suffix: str = "f"
    long_suffix: str = "LL"
    functions: Mapping[str, str] | None = None
    library: str = ""
    lacking: tuple[str, ...] = ()
    as_bits: str = "((union {{ float number; uint32_t bits; }}){{ {0} }}).bits"
    as_float: str = "((union {{ uint32_t bits; float number; }}){{ {0} }}).number"
    stored_as_bits: tuple[str, ...] = ("float16", "bfloat16")
    index: str = "int64"
    real: str = "{0}.x"
    imaginary: str = "{0}.y"
    complex: str = "(({type})({0}, {1}))"


@dataclass(frozen=True)
class WGSLDialect:
    """The shading language of WebGPU. Its bools cannot be stored: a bool is passed as ``u32``, 0 or 1.

    >>> WGSL.types["int32"]
    'i32'
    """

    name: str
    types: Mapping[str, str]
    index: str = "int32"


C_DIALECTS: Final[dict[str, CDialect]] = {
    "c": CDialect(
        "C",
        _types(
            "unsigned char, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, float, double, "
            "uint16_t, uint16_t, float _Complex, double _Complex"
        ),
        real="((const {part} *)&{0})[0]",  # C11, 6.2.5: a complex number has the layout of an array of two
        imaginary="((const {part} *)&{0})[1]",
        complex="((union {{ {part} parts[2]; {type} number; }}){{ {{ {0}, {1} }} }}).number",
    ),
    "opencl": CDialect(
        "OpenCL C",
        _types(
            "uchar, char, short, int, long, uchar, ushort, uint, ulong, float, double, ushort, ushort, float2, double2"
        ),
        prefix="",
        float_suffix="",
        long_suffix="L",
        as_bits="as_uint({0})",
        as_float="as_float({0})",
    ),
    "cuda": CDialect(
        "CUDA C",
        _types(
            "unsigned char, signed char, short, int, long long, unsigned char, unsigned short, unsigned int, "
            "unsigned long long, float, double, unsigned short, unsigned short, float2, double2"
        ),
        prefix="static __device__ inline",
        as_bits="__float_as_uint({0})",
        as_float="__uint_as_float({0})",
        complex="make_{type}({0}, {1})",
    ),
    "metal": CDialect(
        "Metal",
        _types("uchar, char, short, int, long, uchar, ushort, uint, ulong, float, -, half, ushort, float2, -"),
        float_suffix="",
        long_suffix="L",
        library="metal::",
        lacking=("expm1", "log1p", "cbrt", "hypot", "erf", "erfc", "lgamma"),
        as_bits="as_type<uint>({0})",
        as_float="as_type<float>({0})",
        stored_as_bits=("bfloat16",),
        complex="{type}({0}, {1})",
    ),
}
"""C11 (with <math.h> and <stdint.h>), OpenCL C 1.2, CUDA C++ and the Metal shading language 2.2."""

WGSL: Final = WGSLDialect("WGSL", _types("u32, -, -, i32, -, -, -, u32, -, f32, -, f16, -, vec2<f32>, -"))
"""WGSL; a program that uses float16 begins with ``enable f16;``."""
