"""Tensors of 10 MB sent to the workers of joblib, concurrent.futures, dask and PyTorch, and back.

joblib writes arrays above 1 MB to files and maps them in the workers; dask and PyTorch move the buffers of pickles.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing as mp
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._tiers import only_full

N = 10 * 2**20 // 8
A = np.arange(N, dtype=np.float64)
STARTS = only_full(["fork", "spawn", "forkserver"], ["fork"])


def work(x: tk.Tensor) -> dict[str, Any]:
    """Compute with what arrives in a worker: out of place, with a gradient, and in place."""
    assert type(x._data) is np.ndarray
    assert x.device == tk.device("cpu")
    leaf = x.detach().requires_grad_()
    tk.sum(leaf * leaf).backward()
    changed = x.detach()
    changed[:3] = changed[:3]  # writes, and leaves the values as they were
    changed += 1
    changed -= 1
    return {"grad": leaf.grad, "sum": tk.sum(x), "required": x.requires_grad, "part": (x[1:4] * 2).detach()}


def tensors() -> list[tk.Tensor]:
    return [tk.asarray(A.copy()), tk.asarray(A.copy()).requires_grad_(), tk.asarray(A.astype(np.float32))]


def check(results: Any) -> None:
    results = list(results)
    assert [one["required"] for one in results] == [False, True, False]
    for one in results:
        for key in ("grad", "sum", "part"):
            assert type(one[key]) is tk.Tensor
            assert type(one[key]._data) is np.ndarray
        np.testing.assert_array_equal(one["grad"].numpy(), 2 * A)
        np.testing.assert_allclose(one["sum"].item(), A.sum(), rtol=1e-6)
        np.testing.assert_array_equal(one["part"].numpy(), [2, 4, 6])
        one["grad"] += 1  # results can be changed


@pytest.mark.parametrize("mode", only_full(["r", "r+", "c", "w+"], ["r"]))
@pytest.mark.parametrize("backend", only_full(["loky", "multiprocessing", "threading"], ["loky"]))
def test_joblib(backend: str, mode: str) -> None:
    joblib = pytest.importorskip("joblib", minversion="1.4")
    given = tensors()
    with joblib.Parallel(n_jobs=2, backend=backend, mmap_mode=mode) as parallel:
        check(parallel(joblib.delayed(work)(x) for x in given))
        check(parallel(joblib.delayed(work)(x) for x in given))  # of arrays that joblib has written already
    for x in given:
        np.testing.assert_array_equal(x.detach().numpy(), A)


@pytest.mark.parametrize("start", STARTS)
def test_concurrent_futures(start: str) -> None:
    given = tensors()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=mp.get_context(start)) as pool:
        check(pool.map(work, given))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        check(threads.map(work, given))


@pytest.mark.parametrize("scheduler", ["threads", pytest.param("processes", marks=pytest.mark.full)])
def test_dask(scheduler: str) -> None:
    dask = pytest.importorskip("dask", minversion="2025.1")
    check(dask.compute(*[dask.delayed(work)(x) for x in tensors()], scheduler=scheduler))


@pytest.mark.full
@pytest.mark.parametrize("processes", [True, False])
def test_dask_workers(processes: bool) -> None:
    distributed = pytest.importorskip("distributed", minversion="2025.1")
    array = pytest.importorskip("dask.array")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=processes, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        check(client.gather(client.map(work, client.scatter(tensors()), pure=False)))
        whole = array.arange(N, chunks=N // 4, dtype=np.float64).map_blocks(tk.asarray)
        assert client.compute(whole.sum()).result().item() == A.sum()
        np.testing.assert_array_equal(client.compute(whole * 2).result().numpy(), A * 2)


class Rows:
    """A data set of PyTorch whose elements are tensors of 10 MB."""

    def __init__(self) -> None:
        self.x = tk.asarray(A.copy())

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> tk.Tensor:
        return self.x + i


def shared(rows: list[tk.Tensor]) -> tk.Tensor:
    return tk.stack(rows).share_memory_()


@pytest.mark.parametrize("collate", only_full([tk.stack, shared, list], [shared]))
@pytest.mark.parametrize("start", STARTS)
def test_torch_data_loader(start: str, collate: Any) -> None:
    data = pytest.importorskip("torch.utils.data")
    rows: Any = Rows()
    loader = data.DataLoader(rows, batch_size=2, num_workers=2, collate_fn=collate, multiprocessing_context=start)
    for number, batch in enumerate(loader):
        assert len(batch) == 2
        for place, row in enumerate(batch):
            assert type(row._data) is np.ndarray
            np.testing.assert_array_equal(row.numpy(), A + 2 * number + place)
            row += 1
    assert number == 1
