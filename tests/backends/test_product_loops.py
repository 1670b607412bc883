"""Matrix products of our own loops, against NumPy: in higher precision, and its own loops for integers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu import matmul
from tests._tiers import only_full

SHAPES = [
    ((6, 5), (5, 64)), ((7, 9), (9, 65)), ((100, 130), (130, 77)), ((33, 1), (1, 33)), ((5, 0), (0, 7)),
    ((3, 16, 16), (3, 16, 16)), ((4, 13, 100), (100, 77)), ((2, 1, 6, 5), (3, 5, 40)), ((7, 50), (4, 50, 33)),
    ((0, 6, 7), (1, 7, 8)), ((2, 97, 30), (2, 30, 6)), ((1, 5, 300), (9, 300, 5)),
    ((200, 300), (300, 400)), ((30, 1100), (1100, 70)), ((5, 512), (512, 400)), ((150, 1030), (1030, 130)),
]  # fmt: skip


def _arrays(a_shape: Any, b_shape: Any, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(len(a_shape) + b_shape[-1])
    made = []
    for shape in (a_shape, b_shape):
        if dtype.startswith("float"):
            made.append(rng.normal(size=shape).astype(dtype))
        else:
            info = np.iinfo(dtype)
            made.append(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    return made[0], made[1]


def _problem(a: np.ndarray, b: np.ndarray, out: np.ndarray | None) -> str | None:
    """Say what is wrong with a product, or return None."""
    if out is None:
        return "left to NumPy"
    if a.dtype.kind != "f":
        return None if np.array_equal(out, np.matmul(a, b)) else "wrong integers"
    wide = np.longdouble if a.itemsize == 8 else np.float64
    exact = np.matmul(a.astype(wide), b.astype(wide))
    bound = np.matmul(abs(a).astype(wide), abs(b).astype(wide)) * np.finfo(a.dtype).eps * (2 + a.shape[-1] ** 0.5)
    return None if out.shape == exact.shape and (abs(out - exact) <= bound).all() else "wrong floats"


LAYOUTS: dict[str, Any] = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "reversed": lambda a: a[..., ::-1, ::-1],
    "strided": lambda a: np.repeat(np.repeat(a, 2, -1), 3, -2)[..., ::3, ::2],
    "broadcast": lambda a: np.broadcast_to(a[..., :1, :], a.shape) if a.shape[-2] else a,
}


@pytest.mark.parametrize("dtype", only_full(["float32", "float64", "int64", "int32", "uint8"], ["float32", "int64"]))
def test_products(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _check_products(dtype, LAYOUTS, monkeypatch)


@pytest.mark.parametrize("tile", [(8, 3), (6, 1), (3, 1)], ids=["AVX-512", "AVX2", "SSE"])
def test_tiles_of_other_processors(tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "tile_size", lambda: tile)
    matmul._loop.cache_clear()
    try:
        _check_products("float32", {name: LAYOUTS[name] for name in ("contiguous", "transposed")}, monkeypatch)
    finally:
        matmul._loop.cache_clear()


def _check_products(dtype: str, chosen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "LEAST", -1)
    monkeypatch.setattr(matmul, "MOST_OF_BLAS", -1)
    monkeypatch.setattr(matmul, "THIN", 0)
    failures = []
    for in_cache in (1 << 30, -1):  # read where it is, packed
        monkeypatch.setattr(matmul, "IN_CACHE", in_cache)
        monkeypatch.setattr(matmul, "FEW", 0)
        monkeypatch.setattr(matmul, "FEWER", 0)
        for shapes in SHAPES:
            a, b = _arrays(*shapes, dtype)
            pairs = list(product(chosen, chosen))
            if a.size >= 3000 or b.size >= 5000:
                pairs = [("contiguous", "contiguous"), ("contiguous", "transposed"), ("transposed", "contiguous")]
            for i, j in pairs:
                left, right = LAYOUTS[i], LAYOUTS[j]
                x, y = left(a), right(b)
                problem = _problem(x, y, matmul.large(x, y))
                if problem:
                    failures.append((shapes, i, j, in_cache, problem))
    assert not failures, failures[:5]


def test_the_check_notices_wrong_products() -> None:
    a, b = _arrays((8, 9), (9, 10), "float32")
    right = a @ b
    assert _problem(a, b, right) is None
    for place in [(0, 0), (7, 9)]:
        wrong = right.copy()
        wrong[place] *= np.float32(1 + 1e-4)
        assert _problem(a, b, wrong)
    i, j = _arrays((8, 9), (9, 10), "int32")
    assert _problem(i, j, i @ j) is None
    assert _problem(i, j, (i @ j) + np.eye(8, 10, dtype=np.int32))


def test_special_values() -> None:
    a = np.ones((64, 64), np.float32)
    a[3, 5], a[7, 0] = np.nan, np.inf
    out = tk.matmul(tk.asarray(a), tk.asarray(a)).numpy()
    expected = a.astype(np.float64) @ a
    assert np.array_equal(np.isnan(out), np.isnan(expected))
    assert np.array_equal(np.isinf(out), np.isinf(expected))


def test_large_products_of_tensors() -> None:
    """All paths of the operator: batches, one large product, rows of a batch times one matrix, integers."""
    failures = []
    for dtype in ("float32", "float64", "int32"):
        for shapes in [((300, 200), (200, 100)), ((16, 40, 40), (16, 40, 40)), ((16, 40, 40), (40, 40)),
                       ((3, 1, 50, 40), (4, 40, 60))]:  # fmt: skip
            a, b = _arrays(*shapes, dtype)
            out = tk.matmul(tk.asarray(a), tk.asarray(b)).numpy()
            problem = _problem(a, b, out)
            if problem:
                failures.append((dtype, shapes, problem))
    assert not failures, failures


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    before = tk.get_num_threads()
    a, b = _arrays((300, 200), (200, 300), "float32")
    c, d = _arrays((50, 64, 64), (50, 64, 64), "float32")
    e, f = _arrays((260, 1100), (1100, 150), "float32")  # several slices of the inner axis
    pairs = ((a, b), (c, d), (e, f), (LAYOUTS["transposed"](e), LAYOUTS["transposed"](f)))
    made = []
    try:
        for count in (1, 2, 3):
            tk.set_num_threads(count)
            made.append([tk.matmul(tk.asarray(x), tk.asarray(y)).numpy() for x, y in pairs])
    finally:
        tk.set_num_threads(before)
    for other in made[1:]:
        assert all(np.array_equal(x, y) for x, y in zip(made[0], other, strict=True))


def test_without_compiled_code_numpy_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_loop", lambda *args, **options: None)
    for shapes in [((300, 200), (200, 100)), ((16, 40, 40), (16, 40, 40))]:
        a, b = _arrays(*shapes, "float32")
        assert matmul.large(a, b) is None
        assert _problem(a, b, tk.matmul(tk.asarray(a), tk.asarray(b)).numpy()) is None
