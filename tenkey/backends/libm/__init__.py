"""Branch-free transcendental functions for generated kernels, provided as source text.

A generated kernel module embeds what `source` returns and defines `_inline` before it (for instance
`numba.njit(inline="always")`, `numba.njit` or `numba.extending.register_jitable`); the text imports NumPy and the
intrinsics of `tenkey.backends.libm.bits` itself. Importing this package does not import numba.

Of the fast-math flags, a generated module should set `contract`, which is safe and saves time; `reassoc`, `nnan`,
`ninf`, `nsz`, `arcp`, `afn` and `fast` are not safe (rounding by a magic number, NaN handling by comparisons). It must
set `error_model="numpy"`, because the default inserts a branch and an exception at every division. A ufunc made by
`numba.vectorize` reports floating-point flags that speculative lanes raise: call it under `np.errstate(all="ignore")`.

>>> print(source("rint", "float32"))
import numpy as np
from tenkey.backends.libm.bits import llvm_rint
<BLANKLINE>
<BLANKLINE>
@_inline
def rint_float32(x):
    return llvm_rint(x)
<BLANKLINE>
>>> "exp" in names("float64"), len(version())
(True, 64)
"""

from ._source import Dtype, names, source, sources, version

__all__ = ["Dtype", "names", "source", "sources", "version"]
