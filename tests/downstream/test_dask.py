"""dask.array with tensors as chunks."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk

da = pytest.importorskip("dask.array", minversion="2025.1", exc_type=ImportError)
dask = pytest.importorskip("dask")

A = np.arange(12.0).reshape(3, 4)


PROGRAMS = {
    "compute": lambda x: x, "sum": lambda x: x.sum(), "sums": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(axis=1), "std": lambda x: x.std(), "var": lambda x: x.var(axis=0, ddof=1),
    "max": lambda x: x.max(axis=0), "prod": lambda x: x.prod(), "transpose": lambda x: x.T, "matmul": lambda x: x @ x.T,
    "any": lambda x: (x > 3).any(axis=0), "nanmean": lambda x: da.nanmean(x, axis=0),
    "outer": lambda x: da.outer(x[0], x[1]),
    "tensordot": lambda x: da.tensordot(x, x, axes=((0,), (0,))), "einsum": lambda x: da.einsum("ij,kj->ik", x, x),
    "where": lambda x: da.where(x > 3, x, 0.0),
    "concatenate": lambda x: da.concatenate([x, x], axis=1),
    "stack": lambda x: da.stack([x, x]), "cumsum": lambda x: x.cumsum(axis=0), "rechunk": lambda x: x.rechunk((3, 4)),
    "slice": lambda x: x[1:, ::2], "list": lambda x: x[[2, 0]], "mask": lambda x: x[x > 3],
    "ufunc": lambda x: np.exp(x),
    "clip": lambda x: da.clip(x, 2, 5), "round": lambda x: x.round(), "topk": lambda x: da.topk(x, 2, axis=1),
    "median": lambda x: da.median(x, axis=1), "diff": lambda x: da.diff(x, axis=0), "pad": lambda x: da.pad(x, 1),
    "roll": lambda x: da.roll(x, 1, axis=0), "norm": lambda x: da.linalg.norm(x), "isin": lambda x: da.isin(x, [1.0]),
    "svd": lambda x: da.linalg.svd(x.rechunk((3, 4)))[1], "qr": lambda x: abs(da.linalg.qr(x.rechunk((2, 4)))[1]),
    "fft": lambda x: da.fft.fft(x.rechunk((3, 4))), "take": lambda x: da.take(x, [0, 2], axis=1),
    "points": lambda x: x.vindex[[0, 1], [1, 2]],
    "coarsen": lambda x: da.coarsen(np.sum, x, {1: 2}),
    "overlap": lambda x: x.map_overlap(lambda b: b * 2, depth=1, boundary="reflect"), "cov": lambda x: da.cov(x),
    "average": lambda x: da.average(x, axis=0), "repeat": lambda x: da.repeat(x, 2, axis=0),
    "flip": lambda x: da.flip(x, 0),
}  # fmt: skip


def test_functions_of_chunks() -> None:
    x = da.from_array(A, chunks=(2, 2)).map_blocks(tk.asarray).map_blocks(tk.exp)
    np.testing.assert_allclose(np.asarray(x.compute()), np.exp(A))
    blocks = [type(block.compute()) for block in x.to_delayed().ravel()]
    assert blocks == [tk.Tensor] * 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    whole = da.from_array(A, chunks=(2, 2))
    got = PROGRAMS[name](whole.map_blocks(tk.asarray)).compute(scheduler="sync")
    assert type(got) is tk.Tensor
    np.testing.assert_allclose(got.numpy(), PROGRAMS[name](whole).compute(scheduler="sync"), rtol=1e-12)


def test_percentiles_take_one_registration() -> None:
    lookup = pytest.importorskip("dask.array.dispatch").percentile_lookup
    lookup.register(tk.Tensor, lookup.dispatch(np.ndarray))
    whole = da.from_array(A.ravel(), chunks=4)
    got = da.percentile(whole.map_blocks(tk.asarray), [25, 50]).compute(scheduler="sync")
    np.testing.assert_allclose(np.asarray(got), da.percentile(whole, [25, 50]).compute(scheduler="sync"))
