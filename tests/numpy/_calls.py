"""Calls of the functions of ``tenkey.numpy``, of which tests compare values, dtypes and gradients with NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tenkey.numpy as tnp

A = np.array([[3.0, 1.0, 2.0], [0.5, 5.0, 4.0]])
S = np.array([[4.0, 1.0], [1.5, 3.0]])
V = np.array([1.0, 2.5, 4.5, 8.0])
N = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])

CALLS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, axis=1), A) for name in (
        "sum", "prod", "mean", "std", "var", "max", "amax", "min", "amin", "ptp", "median", "average", "cumsum",
        "cumprod", "cumulative_sum", "cumulative_prod", "gradient", "trapezoid", "diff", "sort", "unstack", "unwrap")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, axis=1), N) for name in (
        "nansum", "nanprod", "nanmean", "nanstd", "nanvar", "nanmax", "nanmin", "nanmedian", "nancumsum",
        "nancumprod")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x), A) for name in (
        "ediff1d", "transpose", "squeeze", "ravel", "copy", "fliplr", "flipud", "rot90", "diagonal", "trace", "tril",
        "triu", "diag", "diagflat", "matrix_transpose", "sinc", "i0", "real", "cov", "corrcoef", "atleast_3d")},
    **{f"fft.{name}": (lambda xp, x, name=name: getattr(xp.fft, name)(x), A) for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2",
        "irfft2", "fftshift", "ifftshift")},
    **{f"linalg.{name}": (lambda xp, x, name=name: getattr(xp.linalg, name)(x), S) for name in (
        "svdvals", "matrix_transpose", "inv", "det", "slogdet", "pinv", "cond", "norm", "matrix_norm", "vector_norm",
        "diagonal", "trace", "eigvals", "eigvalsh")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)([x, x * 2]), V) for name in (
        "stack", "vstack", "hstack", "dstack", "column_stack", "concatenate", "concat", "block")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, 2), np.ones((2, 2, 2)) * V[:2]) for name in (
        "split", "array_split", "hsplit", "vsplit", "dsplit", "tile", "repeat", "resize")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, 0.3), V) for name in ("quantile", "nanquantile")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, 30), V) for name in ("percentile", "nanpercentile")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, x[:2] * 3), V) for name in (
        "append", "convolve", "correlate", "outer", "kron", "polyadd", "polysub", "polymul", "polyval")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x, x * x), V) for name in ("vdot", "inner", "dot")},
    **{name: (lambda xp, x, name=name: getattr(xp, name)(x), V) for name in (
        "polyder", "polyint", "trim_zeros", "poly", "vander", "meshgrid", "asarray", "array", "nan_to_num")},
    **{f"linalg.{name}": (lambda xp, x, name=name: getattr(xp.linalg, name)(x, x * x), S) for name in (
        "solve", "tensordot", "matmul", "vecdot")},
    "insert": (lambda xp, x: xp.insert(x, 1, x[0] * 2), V), "delete": (lambda xp, x: xp.delete(x, 1), V),
    "moveaxis": (lambda xp, x: xp.moveaxis(x, 0, 1), A), "rollaxis": (lambda xp, x: xp.rollaxis(x, 1), A),
    "swapaxes": (lambda xp, x: xp.swapaxes(x, 0, 1), A), "reshape": (lambda xp, x: xp.reshape(x, (3, 2)), A),
    "expand_dims": (lambda xp, x: xp.expand_dims(x, 0), A), "flip": (lambda xp, x: xp.flip(x, 1), A),
    "broadcast_to": (lambda xp, x: xp.broadcast_to(x, (2, 2, 3)), A), "roll": (lambda xp, x: xp.roll(x, 1, 1), A),
    "clip": (lambda xp, x: xp.clip(x, 0.7, 4.5), A), "imag": (lambda xp, x: xp.imag(x * 2j), A),
    "angle": (lambda xp, x: xp.angle(x + 1j, deg=True), A), "where": (lambda xp, x: xp.where(x > 2.2, x, x * x), A),
    "take": (lambda xp, x: xp.take(x, [2, 0], axis=1), A), "extract": (lambda xp, x: xp.extract(x > 2.2, x), A),
    "take_along_axis": (lambda xp, x: xp.take_along_axis(x, xp.asarray([[1], [2]]), 1), A),
    "compress": (lambda xp, x: xp.compress([True, False, True], x, axis=1), A),
    "choose": (lambda xp, x: xp.choose([0, 1, 1, 0], [x, x * x]), V),
    "partition": (lambda xp, x: xp.partition(x, 1), V),
    "select": (lambda xp, x: xp.select([x > 4, x > 2], [x, -x * x], 7.0), V),
    "sort_complex": (lambda xp, x: xp.sort_complex(x + 1j), V),
    "interp": (lambda xp, x: xp.interp(x[:2] + 0.3, x, x * x), V),
    "bincount": (lambda xp, x: xp.bincount([0, 2, 2, 1], x), V),
    "einsum": (lambda xp, x: xp.einsum("ij,kj->ik", x, x), A),
    "cross": (lambda xp, x: xp.cross(x, x[::-1] * x), A), "tensordot": (lambda xp, x: xp.tensordot(x, x * x), S),
    "polydiv": (lambda xp, x: xp.polydiv(x, x[:2] + 1), V),
    "polyfit": (lambda xp, x: xp.polyfit(x, x * x * x, 1), V),
    "roots": (lambda xp, x: xp.roots(x[::-1]) ** 2, np.array([2.0, -3.0, 1.0])),
    "kaiser": (lambda xp, x: xp.kaiser(5, x[1]) if xp is tnp else np.kaiser(5, float(x[1])), V),
    "full_like": (lambda xp, x: xp.full_like(x, x[0]), V) , "pad": (lambda xp, x: xp.pad(x, 1, "reflect"), V),
    "astype": (lambda xp, x: xp.astype(x, np.complex128), V), "full": (lambda xp, x: xp.full((2,), x[1]), V),
    "linspace": (lambda xp, x: xp.linspace(x[0], x[1], 3), V),
    "linalg.eig": (lambda xp, x: xp.linalg.eig(x)[0], S), "linalg.eigh": (lambda xp, x: xp.linalg.eigh(x)[1] ** 2, S),
    "linalg.svd": (lambda xp, x: [part**2 for part in xp.linalg.svd(x)], S),
    "linalg.qr": (lambda xp, x: [part**2 for part in xp.linalg.qr(x)], S),
    "linalg.cholesky": (lambda xp, x: xp.linalg.cholesky(x @ x.T), S),
    "linalg.lstsq": (lambda xp, x: xp.linalg.lstsq(x.T, x[0] * x[0])[:2], A),
    "linalg.tensorsolve": (lambda xp, x: xp.linalg.tensorsolve(x, x[0]), S),
    "linalg.tensorinv": (lambda xp, x: xp.linalg.tensorinv(x, 1), S),
    "linalg.matrix_power": (lambda xp, x: xp.linalg.matrix_power(x, 3), S),
    "linalg.multi_dot": (lambda xp, x: xp.linalg.multi_dot([x, x, x]), S),
    "linalg.cross": (lambda xp, x: xp.linalg.cross(x, x[::-1] * x), A),
    "linalg.outer": (lambda xp, x: xp.linalg.outer(x, x), V),
    "sum of chosen elements": (lambda xp, x: xp.sum(x, axis=1, where=A > 1, initial=3.0), A),
    "mean of chosen elements": (lambda xp, x: xp.mean(x, axis=1, where=A > 1), A),
    "max of chosen elements": (lambda xp, x: xp.max(x, axis=1, where=A < 5, initial=1.0), A),
    "trace of other axes": (lambda xp, x: xp.trace(x, 0, 1, 2), np.ones((2, 2, 2)) * V[:2]),
    "median of complex numbers": (lambda xp, x: xp.median(x + 1j * x), V),
    "pinv by rcond": (lambda xp, x: xp.linalg.pinv(x, rcond=1e-3), A),
    "svd without vectors": (lambda xp, x: xp.linalg.svd(x, compute_uv=False), A),
    "triangle of eigh": (lambda xp, x: xp.linalg.eigh(x, "U")[0], S),
    "unique": (lambda xp, x: xp.unique(x), V), "cond of order 1": (lambda xp, x: xp.linalg.cond(x, 1), S),
    "around": (lambda xp, x: xp.around(x, 2) * 0 + x, V),
    "matmul by axes": (lambda xp, x: xp.matmul(x, x, axes=[(1, 0)] * 3), S),
    "turned borders": (lambda xp, x: xp.pad(x, ((1, 0), (4, 7)), "reflect", reflect_type="odd"), A),
    "turned borders beside the ends": (lambda xp, x: xp.pad(x, (2, 9), "symmetric", reflect_type="odd"), V),
    "std with the mean": (lambda xp, x: xp.std(x, 1, ddof=1, mean=xp.mean(x, 1, keepdims=True)), A),
    "var with a mean": (lambda xp, x: xp.var(x, mean=2.0, where=A > 1), A),
    "nanvar without degrees": (lambda xp, x: xp.nanvar(x, ddof=6, where=A > 0), A),
    "weighted quantile": (
        lambda xp, x: xp.quantile(x, [0.1, 0.6], 1, weights=xp.asarray(A), method="inverted_cdf"), A),
    "weighted percentile": (
        lambda xp, x: xp.percentile(x, 60, weights=[1, 0, 2, 1], method="inverted_cdf", keepdims=True), V),
    "setdiff1d": (lambda xp, x: xp.setdiff1d(x, [9.0], assume_unique=True), V),
}  # fmt: skip
