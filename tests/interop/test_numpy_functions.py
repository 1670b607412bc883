"""Note [NumPy functions on tensors]: every row of the table, and what is not in it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.interop import numpy_functions as _numpy_functions
from tenkey.interop.numpy_names import NUMPY_NAMES
from tenkey.interop.numpy_table import ADAPTED, WIDER
from tenkey.testing import CallTrace

pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")  # from NumPy 2.5 on

A = np.array([[3.0, 1.0, 2.0], [0.5, 5.0, 4.0]])
E = np.array([-np.inf, 0.0, np.nan, np.inf])
S = np.array([[4.0, 1.0], [1.0, 3.0]])
N = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])
I = np.array([2, 0, 1, 2])  # noqa: E741
V = np.array([1.0, 2.0, 4.0, 8.0])

# each is called with `t` (the identity, then tk.asarray); what NumPy gives is wanted
CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda t: np.sum(t(A), 0, None, None, True),
    "sum of arguments by name": lambda t: np.sum(a=t(A), axis=(0, 1), dtype="f4"),
    "prod": lambda t: np.prod(t(A), axis=1), "mean": lambda t: np.mean(t(A), 1, keepdims=True),
    "mean in single": lambda t: np.mean(t(A), dtype=np.float32),
    "std": lambda t: np.std(t(A), axis=0, ddof=1), "var": lambda t: np.var(t(A), correction=1),
    "max": lambda t: np.max(t(A), 1), "amax": lambda t: np.amax(t(A)), "min": lambda t: np.min(t(A), axis=0),
    "amin": lambda t: np.amin(t(A)), "all": lambda t: np.all(t(A) > 1, 0), "any": lambda t: np.any(t(A) > 4, axis=1),
    "argmax": lambda t: np.argmax(t(A), 0), "argmin": lambda t: np.argmin(t(A)),
    "nanargmax": lambda t: np.nanargmax(t(N), 1), "nanargmin": lambda t: np.nanargmin(t(N)),
    "nansum": lambda t: np.nansum(t(N), 0), "nanprod": lambda t: np.nanprod(t(N)), "nanmax": lambda t: np.nanmax(t(N)),
    "nanmin": lambda t: np.nanmin(t(N), 0), "nanmean": lambda t: np.nanmean(t(N), 1),
    "nanstd": lambda t: np.nanstd(t(N), 1), "nanvar": lambda t: np.nanvar(t(N), ddof=1),
    "median": lambda t: np.median(t(A), 1), "nanmedian": lambda t: np.nanmedian(t(N), 0),
    "quantile": lambda t: np.quantile(t(A), 0.3, axis=0, method="lower"),
    "percentile": lambda t: np.percentile(t(A), [25, 50], 1), "nanquantile": lambda t: np.nanquantile(t(N), 0.4),
    "nanpercentile": lambda t: np.nanpercentile(t(N), 40, axis=1), "ptp": lambda t: np.ptp(t(A), 0),
    "count_nonzero": lambda t: np.count_nonzero(t(A) > 1, axis=0),
    "average": lambda t: np.average(t(A), axis=1, weights=[1, 2, 3]),
    "cumulative_sum": lambda t: np.cumulative_sum(t(A), axis=1, include_initial=True),
    "cumulative_prod": lambda t: np.cumulative_prod(t(V)), "cumsum": lambda t: np.cumsum(t(A)),
    "cumprod": lambda t: np.cumprod(t(A), 1), "nancumsum": lambda t: np.nancumsum(t(N), 1),
    "nancumprod": lambda t: np.nancumprod(t(N), axis=0), "trapezoid": lambda t: np.trapezoid(t(A), dx=0.5),
    "diff": lambda t: np.diff(t(A), 1, 0), "unwrap": lambda t: np.unwrap(t(V)),
    "concatenate": lambda t: np.concatenate([t(A), A, [[1, 2, 3]]], 0),
    "concatenate in single": lambda t: np.concatenate((t(A), t(A)), axis=1, dtype="f4"),
    "concat": lambda t: np.concat([t(A), t(A)]), "stack": lambda t: np.stack([t(A), t(A)], -1),
    "vstack": lambda t: np.vstack([t(V), t(V)]), "hstack": lambda t: np.hstack([t(V), t(V)]),
    "dstack": lambda t: np.dstack([t(A), t(A)]), "moveaxis": lambda t: np.moveaxis(t(A), 0, 1),
    "swapaxes": lambda t: np.swapaxes(t(A), 0, 1), "expand_dims": lambda t: np.expand_dims(t(A), (0, 2)),
    "broadcast_to": lambda t: np.broadcast_to(t(V), (2, 4)), "permute_dims": lambda t: np.permute_dims(t(A), (1, 0)),
    "transpose": lambda t: np.transpose(t(A)), "transpose by axes": lambda t: np.transpose(t(A), (1, 0)),
    "reshape": lambda t: np.reshape(t(A), (3, -1)), "reshape to a vector": lambda t: np.reshape(t(A), -1),
    "squeeze": lambda t: np.squeeze(t(A[:1]), 0), "ravel": lambda t: np.ravel(t(A)), "flip": lambda t: np.flip(t(A), 1),
    "fliplr": lambda t: np.fliplr(t(A)), "flipud": lambda t: np.flipud(t(A)), "rot90": lambda t: np.rot90(t(A), 3),
    "roll": lambda t: np.roll(t(A), 1, 1), "tile": lambda t: np.tile(t(A), (2, 1)),
    "repeat": lambda t: np.repeat(t(A), 2, 0), "split": lambda t: np.split(t(A), 3, 1),
    "array_split": lambda t: np.array_split(t(V), 3), "unstack": lambda t: np.unstack(t(A), axis=1),
    "diagonal": lambda t: np.diagonal(t(A), 1), "trace": lambda t: np.trace(t(A), 1), "tril": lambda t: np.tril(t(A)),
    "triu": lambda t: np.triu(t(A), 1), "diag": lambda t: np.diag(t(V)), "where": lambda t: np.where(t(A) > 2, t(A), 0),
    "where of conditions": lambda t: np.where(t(A) > 2), "matrix_transpose": lambda t: np.matrix_transpose(t(A)),
    "clip": lambda t: np.clip(t(A), 1, 3), "clip by name": lambda t: np.clip(t(A), a_min=None, a_max=2),
    "clip by new name": lambda t: np.clip(t(A), min=2), "nan_to_num": lambda t: np.nan_to_num(t(N), nan=-1.0),
    "real": lambda t: np.real(t(A + 1j)), "imag": lambda t: np.imag(t(A + 1j)), "angle": lambda t: np.angle(t(A + 1j)),
    "sinc": lambda t: np.sinc(t(A)), "isclose": lambda t: np.isclose(t(A), A + 1e-9),
    "isin": lambda t: np.isin(t(A), [1.0, 2.0], invert=True), "take": lambda t: np.take(t(A), [2, 0], 1),
    "take_along_axis": lambda t: np.take_along_axis(t(A), np.array([[1], [2]]), 1),
    "compress": lambda t: np.compress([True, False, True], t(A), 1), "extract": lambda t: np.extract(t(A) > 2, t(A)),
    "choose": lambda t: np.choose(t(I), [t(V), t(V) + 10, V]), "argwhere": lambda t: np.argwhere(t(A) > 2),
    "select": lambda t: np.select([t(A) > 4, t(A) > 2], [t(A), -t(A)], 7.0), "nonzero": lambda t: np.nonzero(t(A) > 2),
    "flatnonzero": lambda t: np.flatnonzero(t(A) > 2), "sort": lambda t: np.sort(t(A), axis=0, kind="stable"),
    "argsort": lambda t: np.argsort(t(A), 1), "partition": lambda t: np.partition(t(V), 1),
    "argpartition": lambda t: np.argpartition(t(V), 1), "searchsorted": lambda t: np.searchsorted(t(V), [3.0], "right"),
    "digitize": lambda t: np.digitize(t(A), [1.0, 3.0]), "interp": lambda t: np.interp(t(A), [0.0, 5.0], [0.0, 1.0]),
    "bincount": lambda t: np.bincount(t(I), t(V), 5), "unique_values": lambda t: np.sort(np.unique_values(t(I))),
    "unique_all": lambda t: np.unique_all(t(I)), "unique_counts": lambda t: np.unique_counts(t(I)),
    "unique_inverse": lambda t: np.unique_inverse(t(I)), "intersect1d": lambda t: np.intersect1d(t(I), [0, 1]),
    "union1d": lambda t: np.union1d(t(I), [7]), "setdiff1d": lambda t: np.setdiff1d(t(I), [2]),
    "setxor1d": lambda t: np.setxor1d(t(I), [2, 9]), "dot": lambda t: np.dot(t(A), t(A).T),
    "outer": lambda t: np.outer(t(V), V), "inner": lambda t: np.inner(t(A), t(A)), "kron": lambda t: np.kron(t(S), S),
    "tensordot": lambda t: np.tensordot(t(A), t(A), ((0,), (0,))), "vdot": lambda t: np.vdot(t(A), t(A)),
    "einsum": lambda t: np.einsum("ij,kj->ik", t(A), A, optimize=True), "cross": lambda t: np.cross(t(A), t(A[::-1])),
    "cov": lambda t: np.cov(t(A)), "corrcoef": lambda t: np.corrcoef(t(A), rowvar=False),
    "convolve": lambda t: np.convolve(t(V), t(V), "same"), "correlate": lambda t: np.correlate(t(V), [1.0, 2.0]),
    "polyval": lambda t: np.polyval(t(V), t(A)), "pad": lambda t: np.pad(t(A), ((1, 0), (0, 2)), constant_values=3),
    "pad by reflection": lambda t: np.pad(t(A), 1, "reflect"), "zeros_like": lambda t: np.zeros_like(t(A)),
    "ones_like": lambda t: np.ones_like(t(A), dtype=int), "full_like": lambda t: np.full_like(t(A), 3),
    "linspace": lambda t: np.linspace(t(V), 9.0, 4), "copy": lambda t: np.copy(t(A)),
    "gradient": lambda t: np.gradient(t(A), axis=1), "meshgrid": lambda t: np.meshgrid(t(V), t(V[:2]), indexing="ij"),
    "around": lambda t: np.around(t(A) / 7, 2), "round": lambda t: np.round(t(A) * 50, -1),
    "linalg.inv": lambda t: np.linalg.inv(t(S)), "linalg.det": lambda t: np.linalg.det(t(S)),
    "linalg.slogdet": lambda t: np.linalg.slogdet(t(S)), "linalg.eigvals": lambda t: np.linalg.eigvals(t(S)),
    "linalg.eigvalsh": lambda t: np.linalg.eigvalsh(t(S)), "linalg.svdvals": lambda t: np.linalg.svdvals(t(A)),
    "linalg.eigvalsh of the upper triangle": lambda t: np.linalg.eigvalsh(t(S), "U"),
    "linalg.svd without vectors": lambda t: np.linalg.svd(t(A), compute_uv=False),
    "linalg.svd": lambda t: np.linalg.svd(t(A), full_matrices=False)[1],
    "linalg.qr": lambda t: abs(np.linalg.qr(t(A))[1]),
    "lexsort": lambda t: np.lexsort((t(I), t(V))), "sort_complex": lambda t: np.sort_complex(t(V - 2j)),
    "i0": lambda t: np.i0(t(V)),
    "max of chosen elements": lambda t: np.max(t(A), 1, where=A > 1, initial=0.0),
    "mean of chosen elements": lambda t: np.mean(t(A), 1, where=A > 1),
    "unique of rows": lambda t: np.unique(t(S[[0, 1, 0]]), axis=0, return_counts=True),
    "iscomplex": lambda t: np.iscomplex(t(A + 1j)), "isreal": lambda t: np.isreal(t(A)),
    "isneginf": lambda t: np.isneginf(t(E)), "isposinf": lambda t: np.isposinf(t(E)),
    "fix": lambda t: np.fix(t(A)), "real_if_close": lambda t: np.real_if_close(t(A + 1e-17j)),
    "ediff1d": lambda t: np.ediff1d(t(A), 9.0, [7.0]),
    "histogram": lambda t: np.histogram(t(A), 3, density=True), "histogram2d": lambda t: np.histogram2d(t(V), t(V), 2),
    "histogram_bin_edges": lambda t: np.histogram_bin_edges(t(A), "sturges"),
    "histogramdd": lambda t: np.histogramdd(t(A), 2)[0], "unique": lambda t: np.unique(t(I), True, True, True),
    "linalg.matrix_transpose": lambda t: np.linalg.matrix_transpose(t(A)),
    "linalg.cond": lambda t: np.linalg.cond(t(S), 1),
    "linalg.tensorsolve": lambda t: np.linalg.tensorsolve(t(S), t(V[:2])),
    "linalg.tensorinv": lambda t: np.linalg.tensorinv(t(S), 1),
    "linalg.tensordot": lambda t: np.linalg.tensordot(t(A), t(A)),
    "fft.fft2": lambda t: np.fft.fft2(t(A)), "fft.ifft2": lambda t: np.fft.ifft2(t(A)),
    "fft.rfft2": lambda t: np.fft.rfft2(t(A), norm="ortho"), "fft.irfft2": lambda t: np.fft.irfft2(t(A), (2, 4)),
    "linalg.eigh": lambda t: np.linalg.eigh(t(S))[0], "linalg.cholesky": lambda t: np.linalg.cholesky(t(S)),
    "linalg.eig": lambda t: np.linalg.eig(t(S))[0], "linalg.solve": lambda t: np.linalg.solve(t(S), [1.0, 2.0]),
    "linalg.lstsq": lambda t: np.linalg.lstsq(t(A.T), t(A[0]), rcond=None)[0],
    "linalg.pinv": lambda t: np.linalg.pinv(t(A)),
    "linalg.matrix_rank": lambda t: np.linalg.matrix_rank(t(A)), "linalg.outer": lambda t: np.linalg.outer(t(V), t(V)),
    "linalg.matrix_power": lambda t: np.linalg.matrix_power(t(S), 3),
    "linalg.multi_dot": lambda t: np.linalg.multi_dot([t(S), t(S), S]),
    "linalg.norm": lambda t: np.linalg.norm(t(A), 1),
    "linalg.matrix_norm": lambda t: np.linalg.matrix_norm(t(A)),
    "linalg.matmul": lambda t: np.linalg.matmul(t(S), t(S)),
    "linalg.vector_norm": lambda t: np.linalg.vector_norm(t(A), axis=0),
    "linalg.trace": lambda t: np.linalg.trace(t(A)),
    "linalg.cross": lambda t: np.linalg.cross(t(A), t(A[::-1])),
    "linalg.vecdot": lambda t: np.linalg.vecdot(t(A), t(A)),
    "linalg.diagonal": lambda t: np.linalg.diagonal(t(A)),
    "fft.fft": lambda t: np.fft.fft(t(A), 4, 0, "ortho"),
    "fft.ifft": lambda t: np.fft.ifft(t(A)), "fft.rfft": lambda t: np.fft.rfft(t(A)),
    "fft.irfft": lambda t: np.fft.irfft(t(A)), "fft.hfft": lambda t: np.fft.hfft(t(A)),
    "fft.ihfft": lambda t: np.fft.ihfft(t(A)), "fft.fftn": lambda t: np.fft.fftn(t(A), axes=(0,)),
    "fft.ifftn": lambda t: np.fft.ifftn(t(A)), "fft.rfftn": lambda t: np.fft.rfftn(t(A)),
    "fft.irfftn": lambda t: np.fft.irfftn(t(A)), "fft.fftshift": lambda t: np.fft.fftshift(t(A)),
    "fft.ifftshift": lambda t: np.fft.ifftshift(t(A), axes=1),
    "sum where": lambda t: np.sum(t(A), where=A > 2), "max of an initial value": lambda t: np.max(t(A), initial=9.0),
    "prod of an initial zero": lambda t: np.prod(t(A), initial=0),
    "sort of all": lambda t: np.sort(t(A), None), "argsort of all": lambda t: np.argsort(t(A), axis=None),
    "partition of all": lambda t: np.sort(np.partition(t(A), 2, axis=None)[:2]),
    "argpartition of all": lambda t: np.argpartition(t(A), 5, None)[5:],
    "concatenate of all": lambda t: np.concatenate([t(A), A, t(V)], axis=None),
    "take of all": lambda t: np.take(t(A), [4, 0]),
    "take of all by None": lambda t: np.take(t(A), np.array([[5], [1]]), None, None, "raise"),
    "take_along_axis of all": lambda t: np.take_along_axis(t(A), np.array([4, 0]), None),
    "round of integers": lambda t: np.round(t(I * 7), 2),
    "round of integers to tens": lambda t: np.round(t(I * 7 + 1), -1),
    "gradient by two axes": lambda t: np.gradient(t(A)), "gradient by one of them": lambda t: np.gradient(t(A),
    2.0, axis=(1,)),
    "cross by position": lambda t: np.cross(t(A), t(A[::-1]), -1, -1, -1, None),
    "cross by axis": lambda t: np.cross(t(A.T), t(A[::-1].T), axis=0),
    "cross by other axes": lambda t: np.cross(t(A.T), t(A[::-1]), 0, 1),
    "reshape by columns": lambda t: np.reshape(t(A), (3, 2), "F"), "ravel by columns": lambda t: np.ravel(t(A), "F"),
    "sum of nothing": lambda t: np.sum(t(A), where=False), "prod of False": lambda t: np.prod(t(A), initial=False),
    "angle in degrees": lambda t: np.angle(t(A), deg=True),
    "append": lambda t: np.append(t(A), A[:1], 0), "append of integers": lambda t: np.append(t(I), 300),
    "insert": lambda t: np.insert(t(A), 1, t(A[0]), 0), "delete": lambda t: np.delete(t(A), [0, 2], 1),
    "resize": lambda t: np.resize(t(V), (2, 3)), "trim_zeros": lambda t: np.trim_zeros(t(V - 1)),
    "block": lambda t: np.block([[t(S), A], [np.zeros((1, 5))]]), "column_stack": lambda t: np.column_stack([t(V), I]),
    "rollaxis": lambda t: np.rollaxis(t(A), 1), "hsplit": lambda t: np.hsplit(t(A), [1]),
    "vsplit": lambda t: np.vsplit(t(A), 2), "dsplit": lambda t: np.dsplit(t(A[None]), 3),
    "diagflat": lambda t: np.diagflat(t(A), 1), "tril_indices_from": lambda t: np.tril_indices_from(t(A)),
    "triu_indices_from": lambda t: np.triu_indices_from(t(A), 1),
    "diag_indices_from": lambda t: np.diag_indices_from(t(S)), "ix_": lambda t: np.ix_(t(I), t(I > 1)),
    "ravel_multi_index": lambda t: np.ravel_multi_index((t(I), t(I)), (3, 4), order="F"),
    "ravel_multi_index beyond": lambda t: np.ravel_multi_index((t(I), t(I + 5)), (3, 4), mode=("clip", "wrap")),
    "unravel_index": lambda t: np.unravel_index(t(I), (2, 2), "F"), "vander": lambda t: np.vander(t(V), 3, True),
    "packbits": lambda t: np.packbits(t(A > 2), axis=1),
    "unpackbits": lambda t: np.unpackbits(t(I.astype(np.uint8)), count=12, bitorder="little"),
    "polyadd": lambda t: np.polyadd(t(V), t(A[0])), "polysub": lambda t: np.polysub(t(A[0]), V),
    "polymul": lambda t: np.polymul(t(V), t(A[0])), "polydiv": lambda t: np.polydiv(t(V), t(A[0])),
    "polyder": lambda t: np.polyder(t(V), 2), "polyint": lambda t: np.polyint(t(V), 1, 3.0),
    "polyfit": lambda t: np.polyfit(t(V), t(V**2 - V), 2), "poly": lambda t: np.poly(t(V)),
    "roots": lambda t: np.sort(np.roots(t(np.array([1.0, -6.0, 11.0, -6.0])))),
    "take beyond": lambda t: np.take(t(A), [5, -4], 1, mode="wrap"),
    "choose beyond": lambda t: np.choose(t(I), t(A[:, :1]), mode="clip"),
    "concatenate to integers": lambda t: np.concatenate([t(A), t(A)], dtype=int, casting="unsafe"),
    "meshgrid of sparse": lambda t: np.meshgrid(t(V), t(I), sparse=True),
    "squeeze of a number": lambda t: np.squeeze(t(A[0, 0]), 0), "ravel as it lies": lambda t: np.ravel(t(A).T, "K"),
}  # fmt: skip


def _pieces(value: Any) -> list[Any]:
    return [part for each in value for part in _pieces(each)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", CALLS)
def test_functions_in_the_table(name: str) -> None:
    want = _pieces(CALLS[name](lambda a: a))
    got = _pieces(CALLS[name](tk.asarray))
    assert len(got) == len(want)
    for mine, its in zip(got, want, strict=True):
        assert type(mine) is tk.Tensor
        assert mine.shape == np.shape(its)
        np.testing.assert_allclose(mine.numpy(), its, rtol=1e-12, atol=1e-12)


def test_integers_are_rounded_to_integers() -> None:
    for decimals in (-1, 0, 2):
        assert np.round(tk.asarray(I), decimals).dtype == np.round(I, decimals).dtype
    assert type(np.gradient(tk.asarray(A))) is type(np.gradient(A))


# the operands of functions that are not called with A alone
OPERANDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(["quantile", "nanquantile"], (A, 0.25)),
    **dict.fromkeys(["percentile", "nanpercentile"], (A, 25.0)),
    **dict.fromkeys(["concatenate", "stack", "vstack", "hstack", "dstack"], ([A, A],)),
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse", "unique_values"], (np.array([2]),)),
    **dict.fromkeys(["intersect1d", "union1d", "setdiff1d", "setxor1d"], (I, I)),
    **dict.fromkeys(["outer", "convolve", "correlate", "vdot"], (V, V)),
    **dict.fromkeys(["inner", "kron", "tensordot", "dot", "matmul", "solve"], (S, S)),
    **dict.fromkeys(["isclose", "allclose", "array_equal", "isin", "cross", "vecdot"], (A, A)),
    **dict.fromkeys(["partition", "argpartition", "tile", "repeat"], (A, 1)),
    **dict.fromkeys(["inv", "det", "slogdet", "eig", "eigvals", "eigh", "eigvalsh", "cholesky", "qr", "pinv",
    "matrix_rank", "svd"], (S,)),
    **dict.fromkeys(["split", "array_split"], (V, 2)), "bincount": (I,), "diag": (V,), "trapezoid": (V,),
    "moveaxis": (A, 0, 1), "swapaxes": (A, 0, 1),
    "expand_dims": (A, 0), "broadcast_to": (A, (2, 2, 3)), "roll": (A, 1), "take": (A, [0, 1]),
    "take_along_axis": (A, np.array([[1], [2]])),
    "compress": ([True, False], A), "extract": (A > 1, A), "choose": (I, [V, V, V]), "select": ([A > 2], [A]),
    "searchsorted": (V, V), "digitize": (A, V),
    "interp": (A, V, V), "polyval": (V, A), "full_like": (A, 2.0), "pad": (A, 1), "linspace": (A, 9.0),
    "astype": (A, "f4"), "lstsq": (A.T, A.T),
    "matrix_power": (S, 2), "multi_dot": ([S, S],), "reshape": (A, (3, 2)), "where": (A > 2, A, A), "max": (A,),
    "squeeze": (A[:1],), "cumulative_sum": (V,), "cumulative_prod": (V,), "corrcoef": (A,), "rfft": (A,),
    "append": (A, V), "insert": (A, 1, 5.0), "delete": (A, 1), "resize": (A, (3, 3)), "trim_zeros": (V,),
    "column_stack": ([V, V],), "block": ([A, A],), "hsplit": (V, 2), "vsplit": (A, 2), "dsplit": (A[None], 3),
    "rollaxis": (A, 1), "ravel_multi_index": ([I, I], (3, 4)), "unravel_index": (I, (2, 2)), "vander": (V,),
    "diag_indices_from": (S,), "packbits": (A > 2,), "unpackbits": (I.astype(np.uint8),),
    **dict.fromkeys(["polyadd", "polysub", "polymul", "polydiv"], (V, V)),
    **dict.fromkeys(["polyder", "polyint", "poly", "roots"], (V,)), "polyfit": (V, V, 1),
    "tensorinv": (S[:, None, :, None],),
    "tensorsolve": (S, V[:2]), **dict.fromkeys(["polyder", "polyint", "poly", "roots", "vander"], (V,)),
}  # fmt: skip


def _has_usual_parameters(func: Any) -> bool:
    try:
        return "like" not in inspect.signature(func).parameters
    except ValueError:  # NumPy before 2.4 does not tell the parameters of what is written in C
        return False


@pytest.mark.parametrize("func", [f for f in _numpy_functions.row_names() if _has_usual_parameters(f)])
def test_all_arguments_at_their_defaults(func: Any) -> None:
    operands = OPERANDS.get(func.__name__, (A,))
    if func.__name__.endswith(("freq", "man", "ing", "lett", "row_stack")):  # without an operand, or deprecated
        return
    parameters = list(inspect.signature(func).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    usual = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][len(operands) :]
    named = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    tensors = [
        [tk.asarray(v) for v in x] if isinstance(x, list) and isinstance(x[0], np.ndarray)
        else tk.asarray(x) if isinstance(x, np.ndarray) else x for x in operands
    ]  # fmt: skip
    defaults = [p.default for p in usual]
    if inspect.Parameter.empty in defaults:  # take_along_axis before NumPy 2.3
        return
    want = _pieces(func(*operands, *defaults, **named))
    got = _pieces(func(*tensors, *defaults, **named))
    assert len(got) == len(want)
    for mine, its in zip(got, want, strict=True):
        assert np.shape(mine) == np.shape(its)
        if func is not np.empty_like:
            np.testing.assert_allclose(np.asarray(mine), np.asarray(its), rtol=1e-12, atol=1e-12)


def test_results_by_position() -> None:
    x, out = tk.tensor(A), np.zeros(3)
    for call in (
        lambda: np.clip(x, 0, 1, x), lambda: np.sum(x, 0, None, x[0]), lambda: np.cumsum(x, 0, None, x),
        lambda: np.round(x, 0, x), lambda: np.take(A, [0], 0, x), lambda: np.concatenate([A, A], 0, x),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"out= is a tensor, which NumPy does not write to"):
            call()
    np.testing.assert_array_equal(x.numpy(), A)
    assert np.sum(x, 0, None, out) is out
    np.testing.assert_array_equal(out, A.sum(0))


def test_none_where_it_is_no_default() -> None:
    x = tk.asarray(A)
    for call in (
        lambda t: np.stack([t, t], axis=None),
        lambda t: np.diff(t, axis=None),
        lambda t: np.clip(t, 0, min=1),
    ):
        with pytest.raises((TypeError, ValueError)):
            call(A)
        with pytest.raises((TypeError, ValueError)):
            call(x)


def test_each_row_has_a_call() -> None:
    functions = _numpy_functions.row_names()
    known = {f"{f.__module__.removeprefix('numpy').lstrip('.')}.{f.__name__}".lstrip(".") for f in functions}
    tested = {name.partition(" ")[0] for name in CALLS}
    created = {"empty_like", "empty", "zeros", "ones", "full", "eye", "asarray", "array", "arange", "astype"}
    plain = {
        "shape",
        "ndim",
        "size",
        "iscomplexobj",
        "isrealobj",
        "array_equiv",
        "bartlett",
        "blackman",
        "hamming",
        "hanning",
        "kaiser",
        "result_type",
        "array_equal",
        "allclose",
        "fft.fftfreq",
        "fft.rfftfreq",
    }
    aliases = {
        "row_stack",
        "max",
        "min",
        "amax",
        "amin",
        "round",
        "around",
        "concat",
        "concatenate",
        "permute_dims",
        "transpose",
    }
    assert {name.replace("_core.", "") for name in known} - tested - created - plain - aliases == set()


def test_what_is_no_tensor() -> None:
    x = tk.tensor(A, requires_grad=True)
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert np.array_equal(x, x) is True
    assert np.array_equiv(x, A[None]) is True
    assert np.array_equiv(x, A.T) is False
    assert np.allclose(x, A + 1) is False
    assert np.iscomplexobj(x) is False
    assert np.isrealobj(x) is True
    assert np.result_type(x, np.float32) == np.float64


def test_creation_like_a_tensor() -> None:
    x = tk.ones(3, dtype=tk.float64)
    for made in (
        np.asarray([1, 2], like=x), np.array([[1.0]], like=x), np.zeros((2, 2), dtype=int, like=x), np.ones(3, like=x),
        np.full((2,), 7.0, like=x), np.empty(2, like=x), np.eye(3, like=x), np.arange(3, like=x),
        np.empty_like(x), np.astype(x, "f4"),
    ):  # fmt: skip
        assert type(made) is tk.Tensor
    assert np.asarray([x[0], x[1]], dtype="f4", like=x).dtype == tk.float32


def test_gradients_and_devices() -> None:
    x = tk.tensor(A, requires_grad=True)
    np.sum(np.where(x > 2, x, 0) ** 2 + np.mean(x, axis=0)).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.where(A > 2, 2 * A, 0) + 1)
    meta = np.concatenate([tk.zeros(2, device="meta"), tk.ones(3, device="meta")])
    assert (meta.shape, str(meta.device)) == ((5,), "meta")


def test_functions_that_are_not_in_the_table_give_arrays() -> None:
    x = tk.asarray(A)
    for call in (np.atleast_1d, lambda t: np.lib.stride_tricks.sliding_window_view(t, 2, axis=1)):
        for mine, its in zip(_pieces(call(x)), _pieces(call(A)), strict=True):
            assert type(mine) is type(its)
            np.testing.assert_array_equal(mine, its)
    with pytest.raises(RuntimeError, match=r"requires grad"):
        np.require(tk.tensor(A, requires_grad=True))


def test_results_in_arrays_and_writing_into_tensors() -> None:
    x, out = tk.asarray(A), np.zeros(3)
    assert np.sum(x, axis=0, out=out) is out
    np.testing.assert_array_equal(out, A.sum(0))
    with pytest.raises(TypeError, match=r"\[numpy.sum\] out= is a tensor, which NumPy does not write to"):
        np.sum(A, axis=0, out=tk.zeros(3))
    for call in (lambda: np.copyto(x, 1.0), lambda: np.put(x, [0], 1.0), lambda: np.fill_diagonal(x, 1.0)):
        with pytest.raises(TypeError, match=r"\[numpy\.\w+\] changes its first operand, a tensor"):
            call()
    np.testing.assert_array_equal(x.numpy(), A)
    np.copyto(out, x[0])
    np.testing.assert_array_equal(out, A[0])


def test_other_classes_are_asked() -> None:
    class Wrapper:
        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> str:
            return f"wrapped {func.__name__}"

    assert np.concatenate([tk.ones(2), Wrapper()]) == "wrapped concatenate"
    masked = np.ma.masked_array(A, A > 2)
    assert np.concatenate([tk.asarray(A), masked]).shape == (4, 3)


def test_errors_are_ours() -> None:
    with pytest.raises(ValueError, match=r"\[concat\]"):
        np.concatenate([tk.ones((2, 2)), tk.ones(3)])
    with pytest.raises(IndexError, match=r"\[sum\] axis 4 is out of range"):
        np.sum(tk.ones(2), axis=4)
    with pytest.raises(TypeError):
        np.sum(tk.ones(2), nonsense=4)


def test_the_table_is_read_at_its_first_use() -> None:
    program = "import tenkey.interop.numpy_functions as n; print(n.row_names.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "0\n"


@pytest.mark.parametrize("module", [*ADAPTED, "numpy_reductions"])
def test_modules_hold_the_functions_that_the_table_names(module: str) -> None:
    held = {*import_module(f"tenkey.interop.{module}").FUNCTIONS}
    assert held == {*ADAPTED.get(module, WIDER).split()}


def test_one_table_of_names() -> None:
    """Each name is the same operator as a ufunc, and in the error for a missing name."""
    x = tk.tensor([0.25, 0.5], dtype=tk.float64, requires_grad=True)
    for name, ours in NUMPY_NAMES.items():
        ufunc = getattr(np, name, None)
        assert ufunc is not None or name == "row_stack", name  # NumPy 2.5 has no row_stack
        if isinstance(ufunc, np.ufunc):
            operands = (tk.asarray([1, 2]) if "bitwise" in ours else x,) * ufunc.nin
            with CallTrace() as calls:
                ufunc(*operands)
            with CallTrace() as expected:
                getattr(tk, ours)(*operands)
            assert str(calls) == str(expected) != "", name
        with pytest.raises(AttributeError, match=r"the name here is (tk\.|x\.clone)"):
            getattr(tk, name)
    np.degrees(x).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), [180 / np.pi] * 2)


def test_several_results_keep_their_names() -> None:
    by_numpy = np.linalg.eigh(tk.asarray(np.eye(2)), "U")  # UPLO has no counterpart, so NumPy computes this one
    assert type(by_numpy.eigenvalues) is tk.Tensor
