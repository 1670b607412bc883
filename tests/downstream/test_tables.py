"""pandas makes columns of tensors, and tensors are made of its columns; joblib stores, hashes and sends tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tenkey as tk


def test_pandas() -> None:
    pd = pytest.importorskip("pandas", minversion="2.2")
    v = tk.linspace(0.0, 1.0, 5)
    frame = pd.DataFrame({"a": v, "b": tk.arange(5)})
    frame["c"] = v * 2
    assert [str(kind) for kind in frame.dtypes] == ["float32", "int64", "float32"]
    assert frame["c"].sum() == 5
    back = tk.asarray(frame["c"])
    assert type(back) is tk.Tensor
    assert back.dtype == tk.float32
    np.testing.assert_array_equal(back.numpy(), (v * 2).numpy())
    square = pd.DataFrame(tk.reshape(tk.arange(4.0), (2, 2)), columns=["x", "y"])
    assert tk.asarray(square).tolist() == [[0, 1], [2, 3]]
    assert list(pd.Series([5, 6, 7]).iloc[tk.asarray([2, 0])]) == [7, 5]


def test_joblib(tmp_path: Path) -> None:
    joblib = pytest.importorskip("joblib", minversion="1.4")
    x = tk.reshape(tk.arange(12.0), (3, 4))
    for given in (x, x[:, 1:], {"x": x, "more": [x.astype(tk.complex64)]}):
        joblib.dump(given, tmp_path / "file.z", compress=3)
        got = joblib.load(tmp_path / "file.z")
        one, two = (got["more"][0], given["more"][0]) if isinstance(given, dict) else (got, given)
        assert type(one) is tk.Tensor
        assert one.dtype == two.dtype
        assert one.tolist() == two.tolist()
    assert joblib.hash(x) == joblib.hash(x.clone())
    assert joblib.hash(x) != joblib.hash(x + 1)
    memory = joblib.Memory(tmp_path / "memory", verbose=0)
    calls: list[int] = []

    def work(t: tk.Tensor) -> tk.Tensor:
        calls.append(1)
        return t * 2

    cached = memory.cache(work)
    assert cached(x).tolist() == cached(x.clone()).tolist() == (x * 2).tolist()
    assert len(calls) == 1


@pytest.mark.parametrize("prefer", ["threads", "processes"])
def test_joblib_in_parallel(prefer: str) -> None:
    joblib = pytest.importorskip("joblib", minversion="1.4")
    parts = joblib.Parallel(n_jobs=2, prefer=prefer)(joblib.delayed(tk.sum)(tk.full((4,), float(i))) for i in range(3))
    assert [type(part) for part in parts] == [tk.Tensor] * 3
    assert [part.item() for part in parts] == [0, 4, 8]
