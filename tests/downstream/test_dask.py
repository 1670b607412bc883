"""dask.array with tensors as chunks."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk

da = pytest.importorskip("dask.array", minversion="2025.1", exc_type=ImportError)
dask = pytest.importorskip("dask")

A = np.arange(12.0).reshape(3, 4)


def test_functions_of_chunks() -> None:
    x = da.from_array(A, chunks=(2, 2)).map_blocks(tk.asarray).map_blocks(tk.exp)
    np.testing.assert_allclose(np.asarray(x.compute()), np.exp(A))
    blocks = [type(block.compute()) for block in x.to_delayed().ravel()]
    assert blocks == [tk.Tensor] * 4
