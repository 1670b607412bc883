"""Copies in tiles: transposed matrices of all word sizes, and edges that are not whole tiles."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.copying import tile_source
from tests.backends.cuda.kernels._execution import execute, in_each_order


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
def test_transposed(dtype: str) -> None:
    source = tile_source(np.dtype(dtype))
    for rows, columns in ((32, 32), (33, 70), (9, 40)):
        x = np.random.default_rng(0).integers(0, 200, (rows, columns)).astype(dtype)
        out = np.empty((columns, rows), dtype)
        grid = (-(-columns // 32), -(-rows // 32))
        after = [x, 0, 1, rows, 0, columns, 1]
        for found in in_each_order(source, grid, (32, 8), out, before=[rows, columns], after=after):
            np.testing.assert_array_equal(found, x.T)


def test_batches() -> None:
    x = np.arange(3 * 40 * 35, dtype="u4").reshape(3, 40, 35)
    out = np.empty((3, 35, 40), "u4")
    execute(tile_source(x.dtype), (2, 2, 3), (32, 8), 40, 35, out, x, 1400, 1, 40, 1400, 35, 1, order="random")
    np.testing.assert_array_equal(out, x.transpose(0, 2, 1))
