"""Compiled sorting, searching and sets on large arrays, against NumPy's functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu import pool
from tenkey.backends.cpu.ordering import numpy_sorts, sort_kernels, sorts
from tests._tiers import only_full

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SHAPES = [(4097,), (70_001,), (80, 100), (3, 40_000), (17, 5, 60)]
OFTEN = ["float16", "float32", "float64", "int8", "int64", "uint16"]  # each width, and both kinds of integers
_ALL: Any = pytest.mark.parametrize("dtype", only_full(DTYPES, OFTEN))


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = pool.get_num_threads()
    pool.set_num_threads(2)
    for module in (sorts, sort_kernels):
        monkeypatch.setattr(module, "SORTED_ELEMENTS", 1 << 11)
    yield
    pool.set_num_threads(before)


def _arrays(dtype: str, shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        x = rng.standard_normal(shape).astype(kind)
        special = x.copy()
        for start, value in enumerate((0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf)):
            special.reshape(-1)[start :: 7 * start + 11] = value
        yield "special", special
        yield "rounded", np.round(x * 2)  # zeros of both signs
        yield "tiny", (x * float(np.finfo(kind).tiny)).astype(kind)
    else:
        info = np.iinfo(kind)
        x = rng.integers(info.min, info.max, shape, kind, endpoint=True)
        if kind.itemsize == 8:
            yield "upper bits", (x >> 20) << 20
            yield "lower bits", (x & 0xFFFFF) | (x & -(2**62) if kind.kind == "i" else x & np.uint64(2**63))
    yield "random", x
    yield "few values", (x % 5).astype(kind)
    yield "sorted", np.sort(x)
    yield "backwards", np.sort(x)[..., ::-1]
    yield "equal", np.full_like(x, 3)


def _stable_order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    if not descending:
        return x.argsort(axis, "stable")
    return x.shape[axis] - 1 - np.flip(np.flip(x, axis).argsort(axis, "stable"), axis)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    nan = np.isnan(b)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a) & ~nan, np.signbit(b) & ~nan)


@_ALL
def test_sort_and_argsort(dtype: str) -> None:
    bad = []
    for shape in SHAPES:
        for name, x in _arrays(dtype, shape):
            for axis in range(len(shape)):
                for descending in (False, True):
                    wanted = _stable_order(x, axis, descending)
                    order = sorts.order(x, axis, descending)
                    values = sorts.sorted_values(x, axis, descending)
                    if order is None or not np.array_equal(order, wanted):
                        bad.append(("order", shape, name, axis, descending))
                    if values is None or not _same_bits(values, np.take_along_axis(x, wanted, axis)):
                        bad.append(("values", shape, name, axis, descending))
    assert not bad


@_ALL
def test_largest_and_smallest(dtype: str) -> None:
    bad = []
    for shape in [(1500,), (4097,), (70_001,), (80, 100)]:
        for name, x in _arrays(dtype, shape):
            for largest in (False, True):
                order = _stable_order(x, -1, largest)
                for k in (1, 7, shape[-1] // 20, shape[-1]):
                    values, places = tk.topk(tk.asarray(x), k, largest=largest)
                    if not np.array_equal(places.numpy(), order[..., :k]):
                        bad.append((shape, name, largest, k))
                    elif not _same_bits(values.numpy(), np.take_along_axis(x, order[..., :k], -1)):
                        bad.append((shape, name, largest, k, "values"))
    assert not bad


@_ALL
def test_unique(dtype: str) -> None:
    bad = []
    for shape in [(4097,), (70_001,), (80, 100)]:
        for name, x in _arrays(dtype, shape):
            wanted = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
            found = [part.numpy() for part in tk.unique_all(tk.asarray(x))]
            if not np.array_equal(found[0], wanted[0], equal_nan=x.dtype.kind == "f"):
                bad.append((shape, name, "values"))
            for k, part in ((1, "indices"), (2, "inverse"), (3, "counts")):
                if not np.array_equal(found[k], wanted[k].reshape(found[k].shape)):
                    bad.append((shape, name, part))
    assert not bad


@_ALL
def test_searchsorted(dtype: str) -> None:
    bad = []
    for name, x in _arrays(dtype, (3001,)):
        table = np.sort(x)
        for n in (1, 2, 3, 1000, 1024, 1025, 3001):
            for queries in (x, table[::-1], x[:300].reshape(20, 15).T):
                for side in ("left", "right"):
                    found = tk.searchsorted(tk.asarray(table[:n]), tk.asarray(queries), side=side)
                    if not np.array_equal(found.numpy(), np.searchsorted(table[:n], queries, side)):
                        bad.append((name, n, queries.shape, side))
    assert not bad


def test_order_statistics_and_bins() -> None:
    bad = []
    for name, x in _arrays("float32", (80, 100)):
        for axis in (None, 0, 1):
            with np.errstate(invalid="ignore"):
                found, wanted = tk.median(tk.asarray(x), axis=axis).numpy(), np.median(x, axis=axis)
            if not np.allclose(found, wanted, rtol=1e-6, atol=1e-44, equal_nan=True):
                bad.append((name, axis))
        edges = np.array([-2.0, -1.0, 0.0, 0.0, 1.5], np.float64)
        for right in (False, True):
            for bins in (edges, edges[::-1], edges.astype(np.float32)):
                found = tk.digitize(tk.asarray(x), tk.asarray(bins), right=right).numpy()
                if not np.array_equal(found, np.digitize(x, bins, right)):
                    bad.append((name, "digitize", right))
        finite = x[np.isfinite(x)]
        if not np.array_equal(
            tk.histogram(tk.asarray(finite), edges[[0, 1, 2, 4]])[0].numpy(),
            np.histogram(finite, edges[[0, 1, 2, 4]])[0],
        ):
            bad.append((name, "histogram"))
    assert not bad


def test_membership() -> None:
    for name, x in _arrays("float32", (80, 100)):
        for others in (x[0], x[:1, :1], x[:0].reshape(-1)):
            for invert in (False, True):
                found = tk.isin(tk.asarray(x), tk.asarray(others), invert=invert).numpy()
                assert np.array_equal(found, np.isin(x, others, invert=invert)), (name, invert)


def test_threads_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    x = np.round(rng.standard_normal(200_000), 1).astype(np.float32)
    found = []
    for threads in (1, 2, 4, 8):
        pool.set_num_threads(threads)
        found.append(
            [np.asarray(sorts.sorted_values(x, 0, False)).tobytes(), np.asarray(sorts.order(x, 0, True)).tobytes()]
        )
    assert found.count(found[0]) == 4


def test_empty_and_single_lanes() -> None:
    for shape, axis in (((0, 5000), 0), ((5000, 1), 1), ((1, 5000), 0), ((5000, 0), 1)):
        x = tk.asarray(np.ones(shape, np.float32))
        assert tk.sort(x, axis=axis).shape == shape
        assert tk.argsort(x, axis=axis, descending=True).numpy().tolist() == np.zeros(shape, int).tolist()


def test_permutations() -> None:
    """A permutation is the order of the 64-bit keys, however many elements there are."""
    from tenkey.core.random import draws

    for n in (0, 1, 100, 5000, 70_000):
        found = tk.random.permutation(n, generator=tk.random.Generator(9)).numpy()
        assert np.array_equal(found, draws.permutation((9, 0), n))


def test_what_numpy_cannot_keep_apart() -> None:
    """NumPy's vector sort changes the signs of zeros; ours may not, at any size."""
    for n in (10, 300, 500, 3000, 30_000):
        x = np.tile(np.array([0.0, 1.0, -0.0, -1.0], np.float32), n)
        for descending in (False, True):
            signs = np.signbit(tk.sort(tk.asarray(x), descending=descending).numpy()[n : 3 * n])
            assert signs.tolist() == [False, True] * n, (n, descending)


def test_functions_of_numpy() -> None:
    rng = np.random.default_rng(0)
    for name in DTYPES:
        x = (rng.standard_normal(1000) * 100).astype(name)
        wanted = np.sort(x)
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        address = numpy_sorts.numpy_sort(x.dtype)
        assert address, name
        assert function(address)(x.ctypes.data, 1000, None) == 0
        assert np.array_equal(x, wanted), name
    assert numpy_sorts.numpy_sort(np.dtype(">f4")) == 0
    assert numpy_sorts.numpy_sort(np.dtype(object)) == 0


@pytest.mark.parametrize("missing", ["compiler", "functions"])
def test_without(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler, or with an unknown NumPy, everything is left to NumPy."""

    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise sorts.UnavailableError("no compiler")

    if missing == "compiler":
        monkeypatch.setattr(sorts, "kernel", unavailable)
        monkeypatch.setattr(sort_kernels, "kernel", unavailable)
    else:
        monkeypatch.setattr(sorts, "numpy_sort", lambda dtype: 0)
    x = np.random.default_rng(0).integers(0, 1000, 6000)
    t = tk.asarray(x)
    assert sorts.order(x, 0, False) is None
    assert np.array_equal(tk.sort(t).numpy(), np.sort(x))
    assert np.array_equal(tk.argsort(t).numpy(), np.argsort(x, kind="stable"))
    assert np.array_equal(tk.unique_values(t).numpy(), np.unique(x))
    assert np.array_equal(tk.topk(t, 5).indices.numpy(), _stable_order(x, 0, True)[:5])
    assert np.array_equal(tk.searchsorted(tk.arange(1000), t).numpy(), x)
