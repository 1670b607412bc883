"""What the files of scalar functions share, and how these are written.

A body is straight-line: assignments and one `return`, with `select` for a choice. The order of its operands matters:
`select(x > LIMIT, LIMIT, x)` is one `minps` instruction and keeps a NaN in `x`.

Constants are Python floats, which take the type of the value that they are combined with. A constant or function that
depends on the precision is written as `each(for_float32, for_float64)`: Note [One file, two precisions].

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
operation. float64 has 2**51, 1.5 * 2**52 and 52 instead. This needs IEEE addition: a loop may set the
fast-math flag `contract`, but never `reassoc` or `fast`.
Guard: `tests/backends/test_libm.py::test_accuracy_float32`, which `test_processors.py` runs for every level.
"""

from typing import Any

from .avx512 import or_instruction
from .operations import each

__all__ = [
    "BIAS", "INFINITY", "LN2", "LN2_HIGH", "LN2_LOW", "LOG2_E", "LOG2_E_LOW", "MAGIC", "MAGIC_BITS", "MANTISSA",
    "NAN", "SMALLEST_NORMAL",
]  # fmt: skip

INFINITY = float("inf")
NAN = float("nan")
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


@or_instruction
def _over(x: Any, y: Any) -> Any:
    """x / y where neither y nor the result is subnormal, huge or special: a reciprocal may serve, within 1 ulp."""
    return x / y
