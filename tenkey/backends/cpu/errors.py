"""Running NumPy without its floating-point warnings, at a cost that a small call can bear.

Note [Floating-point flags]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
``1 / 0`` is ``inf`` here, without a warning, as the array API standard and IEEE 754 have it. NumPy warns unless its
error state says otherwise, and ``np.errstate`` costs about 1 us a block. The state is one object in one context
variable, which a kernel sets and resets in 0.1 us where this version of NumPy shows it; else ``np.errstate`` is used.
Guarded by ``tests/tiny/test_cpu.py::test_no_floating_point_warnings``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["QUIET", "ignore", "restore"]


def _find() -> tuple[Callable[[Any], Any], Any, Callable[[Any], None]]:
    try:
        from numpy._core.umath import _extobj_contextvar as variable

        with np.errstate(all="ignore"):
            quiet = variable.get()
        token = variable.set(quiet)
        try:
            if np.geterr() != {"divide": "ignore", "over": "ignore", "under": "ignore", "invalid": "ignore"}:
                raise ImportError("the error state is kept elsewhere")
        finally:
            variable.reset(token)
    except (ImportError, AttributeError, LookupError):

        def enter(_: Any) -> Any:
            state = np.errstate(all="ignore")
            state.__enter__()
            return state

        return enter, None, lambda state: state.__exit__(None, None, None)
    return variable.set, quiet, variable.reset


ignore, QUIET, restore = _find()
"""``token = ignore(QUIET)`` silences, ``restore(token)`` ends it: two calls into C, without a Python frame."""
