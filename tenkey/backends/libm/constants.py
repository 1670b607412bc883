"""What the files of scalar functions share, and how these are written.

The functions take and return one scalar inside compiled code; the interpreter cannot run them, because the bit casts of
`bits.py` exist only there. `tenkey.backends.libm.source` turns them into source for a generated module, once for each
dtype. A body is straight-line: a docstring, assignments and one `return`; calls of functions of this package are
replaced by their bodies.

Constants are written as Python floats; in the source for a dtype they have that dtype, so nothing is promoted to
float64. A constant or function that depends on the dtype is written as `each(for_float32, for_float64)`. Both dtypes
share a function wherever they differ only in such parts.

The "error" in a docstring is the bound that the tests enforce, in units in the last place (ulp), for float32 and
float64; one number holds for both.

Methods: range reduction with pi and log 2 in several parts after Cody and Waite, Software Manual for the Elementary
Functions (1980); the rest as in Muller, Elementary Functions (3rd edition, 2016). The polynomials were fitted for this
package (minimax by Remez exchange in 90 digits; the leading coefficients are rounded before the later ones are fitted);
a comment gives the domain and the greatest relative error of the approximation, for float32 and float64.

Note [Rounding by a magic number]
---------------------------------
For |t| < 2**22 the float32 sum `t + 1.5 * 2**23` rounds `t` to the nearest integer n and leaves n in the low bits of
the sum. Adding an exponent bias to the magic number makes `bits << 23` the float 2**(n + offset) with no further
operation. float64 has 2**51, 1.5 * 2**52 and 52 instead. This needs IEEE addition: the generated module may set the
fast-math flag `contract`, but never `reassoc` or `fast`.
Guard: `tests/backends/test_libm.py::test_accuracy_float32`, which runs with and without `contract`.
"""

from typing import Any

import numpy as np

from ._source import each
from .bits import bits_from_float32, bits_from_float64, float32_from_bits, float64_from_bits

__all__ = [
    "BIAS", "HALF", "INFINITY", "LN2", "LN2_HIGH", "LN2_LOW", "LOG2_E", "LOG2_E_LOW", "MAGIC", "MAGIC_BITS", "MANTISSA",
    "NAN", "ONE", "QUARTER", "SMALLEST_NORMAL", "TWO", "ZERO", "bits_from_float", "float_from_bits",
]  # fmt: skip

bits_from_float = each(bits_from_float32, bits_from_float64)
float_from_bits = each(float32_from_bits, float64_from_bits)

ZERO = 0.0
QUARTER = 0.25
HALF = 0.5
ONE = 1.0
TWO = 2.0
INFINITY = np.inf
NAN = np.nan
SMALLEST_NORMAL = each(1.17549435e-38, 2.2250738585072014e-308)

MANTISSA = each(23, 52)  # bits of the mantissa
BIAS = each(127, 1023)  # of the exponent
MAGIC = each(12582912.0, 6755399441055744.0)  # 1.5 * 2**23, 1.5 * 2**52: Note [Rounding by a magic number]
MAGIC_BITS = 0x4338000000000000  # of the float64 one

LOG2_E = each(1.44269504, 1.4426950408889634)
LOG2_E_LOW = 2.0355273740931033e-17
LN2 = each(0.6931472, 0.6931471805599453)
# The upper part of log(2) has so few significant bits, 10 and 40, that its product with |n| < 2**14 (2**13) is exact.
LN2_HIGH = each(0.693359375, 0.6931471805601177)
LN2_LOW = each(-0.00021219444, -1.7239444525614835e-13)


def _over(x: Any, y: Any) -> Any:
    """x / y where neither y nor the result is subnormal, huge or special: a reciprocal may serve, within 1 ulp."""
    return x / y
