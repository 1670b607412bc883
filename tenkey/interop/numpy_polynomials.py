"""Polynomials as NumPy calls them, over the functions of tenkey; ``numpy_functions.py`` takes them up.

Coefficients are given from the highest power down. Guarded by ``tests/interop/test_numpy_functions.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor
from ..functions.calculating import polynomial_algebra as algebra
from ..functions.rearranging.joining import trim_zeros
from ..ops.builtin.shape.copying import as_dtype
from .numpy_fallback import as_tensor, by_name, op

__all__ = ["FUNCTIONS"]


def _in_common(*given: Any) -> list[Tensor]:
    tensors = [as_tensor(x) for x in given]
    dtype = np.result_type(*[x.dtype for x in tensors])
    return [as_dtype(x, dtype) for x in tensors]


def _trimmed(p: Tensor) -> Tensor:
    """Return the coefficients without leading zeros, of which NumPy's products are made."""
    x = op("atleast_1d")(p)
    found = trim_zeros(x, "f")
    return found if found.shape[0] else op("zeros_like")(x[:1])


def _polyval(p: Any, x: Any) -> Any:
    p, x = as_tensor(p), as_tensor(x)
    if not p.ndim:
        raise TypeError("iteration over a 0-d array")
    if not p.shape[0]:
        return op("zeros_like")(x)
    p, x = _in_common(p, x)
    if p.ndim == 1:
        return op("polyval")(p, x)
    value = op("zeros_like")(x)
    for k in range(p.shape[0]):
        value = value * x + p[k]
    return value


def _roots(p: Any) -> Any:
    if not p.ndim:
        raise TypeError("[numpy.roots] the coefficients are a vector, got a 0-d array.")
    if p.ndim > 1:
        raise ValueError("Input must be a rank-1 array.")
    places = np.flatnonzero(p.detach().numpy())
    if not places.size or places[0] == places[-1]:
        behind = p.shape[0] - 1 - int(places[-1]) if places.size else 0
        return op("zeros")((behind,), dtype=np.dtype(float), device=p.device)
    if p.dtype.char == "e":
        raise TypeError("array type float16 is unsupported in linalg")
    found = algebra.roots(p if p.dtype.kind in "fc" else as_dtype(p, np.dtype(float)))
    if found.dtype.kind == "c" and p.dtype.kind != "c" and not bool(op("any")(op("imag")(found) != 0)):
        return op("real")(found)
    return found


def _polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    x, y = as_tensor(x), as_tensor(y)
    deg = int(deg) if np.ndim(deg) == 0 else deg
    if y.dtype.char == "e":
        raise TypeError("array type float16 is unsupported in linalg")
    if w is not None:
        w = as_tensor(w)
        if w.dtype.kind == "c" and x.dtype.kind != "c":
            raise TypeError("Cannot cast ufunc 'multiply' output from dtype('complex128') to dtype('float64')")
    common = np.result_type(x.dtype, y.dtype, *([] if w is None else [w.dtype]), np.int64)  # as that of vander
    wanted = common if common.kind == "c" else np.dtype(float)
    if rcond is None:
        rcond = x.shape[0] * float(np.finfo(x.dtype if x.dtype.kind in "fc" else float).eps)
    x, y = as_dtype(x, wanted), as_dtype(y, wanted)
    weights = None if w is None else as_dtype(w, wanted)
    if cov:
        return algebra.polyfit(x, y, deg, rcond, False, weights, cov)
    found = algebra.polyfit(x, y, deg, rcond, True, weights)
    if full:
        return found
    if int(found[2]) != (deg + 1 if isinstance(deg, int) else len(deg)):
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    return found[0]


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **by_name(_roots, _polyfit, _polyval),
    "polyadd": lambda a1, a2: algebra.polyadd(*_in_common(a1, a2)),
    "polysub": lambda a1, a2: algebra.polysub(*_in_common(a1, a2)),
    "polymul": lambda a1, a2: algebra.polymul(*map(_trimmed, _in_common(a1, a2))),
    "polydiv": lambda u, v: algebra.polydiv(*_in_common(u, v)),
}  # fmt: skip
"""Functions that are not quite those of ``tk``, by NumPy's names."""
