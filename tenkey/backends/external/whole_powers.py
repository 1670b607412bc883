"""Powers of integers with a sign, whose exponents a kernel of the template ``pointwise`` cannot refuse.

Note [Powers of integers]
~~~~~~~~~~~~~~~~~~~~~~~~~
A negative exponent is an error, and kernels of ``pointwise`` have no way to report one. So
expressions with such powers are not printed in other languages, unless the exponent is a constant or the dtype has no
sign. The operator ``tk::pow`` has them before the kernel runs: a number is checked on the host, and a tensor by
a reduction on the device, which stores the error for the next synchronization (Note [The error word]). The powers
themselves are computed in the dtype of that size without a sign: integers wrap around, and the bits are the same.
Guarded by ``tests/backends/test_whole_powers.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.storage import StridedArray
from ...core.tensor import make_tensor, word_for
from ...dispatch.local_state import silently
from ...dispatch.registry import registry
from .interface import Backend
from .runtime.device_reports import report_if_any
from .scalar_function import ScalarFunction
from .templates import PointwiseRunner

__all__ = ["WholePowers"]

_RULE = (
    "integers to a negative power are fractions, which integers do not hold: convert with tk.astype(x, tk.float64), or "
    "give a float exponent."
)


class WholePowers:
    """The powers of a dtype of signed integers; :meth:`run` is that of PointwiseRunner."""

    def __init__(self, backend: Backend, scalar: ScalarFunction) -> None:
        wrapped = np.dtype(f"u{scalar.dtype.itemsize}")
        self._backend = backend
        self._runner = PointwiseRunner(
            backend, ScalarFunction(scalar.name, scalar.parameters, scalar.expression, wrapped)
        )

    def run(self, out: StridedArray, operands: Sequence[Any]) -> bool:
        """Compute into ``out`` from windows of its shape and NumPy scalars; return false if the template declines.

        Raises ValueError for a negative exponent; on an asynchronous device, the next synchronization does.
        """
        if not self._runner.kernel(out, operands):
            return False
        exponent = operands[1]
        if out.size and exponent.dtype.kind == "i":
            if exponent.__class__ is not StridedArray:
                if exponent < 0:
                    raise ValueError(f"[pow] got the exponent {exponent}: {_RULE}")
            else:
                x = make_tensor(exponent, word_for(exponent.device, exponent.dtype))
                negative = silently(registry.find("tk::less").call, x, 0)
                report_if_any(self._backend, negative, "pow", _RULE, ValueError)
        return self._runner.run(out, operands)
