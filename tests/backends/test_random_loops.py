"""Compiled random numbers: the bits of NumPy's functions in ``core/random``, whatever the address and the threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu import pool
from tenkey.backends.cpu.loops import random_draws as loops
from tenkey.core.random import draws, samplers
from tenkey.core.random.philox import ELEMENT_LIMIT

KEYS = [(0, 0), (2**64 - 1, 2**64 - 1), (0x0123456789ABCDEF, 0xFEDCBA9876543210), (2**32, 2**32 - 1)]
ADDRESSES = [(0, 1), (0, 128), (0, 1000), (1, 127), (3, 4096), (7, 33), (2**40 + 5, 300), (ELEMENT_LIMIT - 257, 257)]
INTERVALS = [
    ("int64", 0, 1), ("int64", -7, 993), ("uint8", 0, 256), ("int16", -(2**15), 2**15), ("uint32", 0, 2**32),
    ("int64", -3, 2**32), ("int64", -(2**63), 2**63), ("uint64", 5, 2**64), ("uint64", 0, 2**64), ("int32", 5, 6),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _always_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "RANDOM_NUMBERS", 1)


def _different(function: Callable[..., Any], reference: Callable[..., Any]) -> list[Any]:
    """Return the addresses at which two draws differ in a bit or in their dtype."""
    bad = []
    for key in KEYS:
        for start, count in ADDRESSES:
            ours, theirs = function(key, count, start), reference(key, count, start)
            if ours.dtype != theirs.dtype or ours.tobytes() != theirs.tobytes():
                bad.append((key, start, count))
    return bad


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")], ids=str)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (3.0, 3.0000005), (-1e30, 1e30)])
def test_uniform(dtype: np.dtype, low: float, high: float) -> None:
    assert not _different(
        lambda key, count, start: loops.uniform(key, count, dtype, start, low, high),
        lambda key, count, start: draws.uniform(key, count, dtype, start, low=low, high=high),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "float16"])
def test_normal(dtype: str) -> None:
    assert not _different(
        lambda key, count, start: loops.normal(key, count, np.dtype(dtype), start),
        lambda key, count, start: draws.normal(key, count, np.dtype(dtype), start),
    )


@pytest.mark.parametrize(("dtype", "low", "high"), INTERVALS)
def test_integers(dtype: str, low: int, high: int) -> None:
    assert not _different(
        lambda key, count, start: loops.integers(key, low, high, count, np.dtype(dtype), start),
        lambda key, count, start: draws.integers(key, low, high, count, np.dtype(dtype), start),
    )


@pytest.mark.parametrize("kind", sorted(samplers.STANDARD))
def test_standard_families(kind: str) -> None:
    for dtype in (np.dtype("float32"), np.dtype("float64")):
        assert not _different(
            lambda key, count, start, dtype=dtype: loops.standard(kind, key, count, dtype, start),
            lambda key, count, start, dtype=dtype: samplers.standard(kind, key, count, dtype, start),
        )


def test_many_numbers() -> None:
    """Rare branches of the logarithm and the cosine: every quarter turn, and mantissas on both sides of the root."""
    for dtype in ("float32", "float64"):
        ours = loops.normal((5, 6), 1 << 18, np.dtype(dtype), 11)
        assert ours.tobytes() == draws.normal((5, 6), 1 << 18, np.dtype(dtype), 11).tobytes()


@pytest.fixture
def _threads() -> Iterator[None]:
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
def test_threads_do_not_matter() -> None:
    found = []
    for threads in (1, 2, 4):
        pool.set_num_threads(threads)
        found.append([loops.normal((1, 2), 100_003, np.dtype("float32"), 5).tobytes() for _ in range(3)])
    assert len({bits for row in found for bits in row}) == 1


def test_errors_are_those_of_the_reference() -> None:
    key = (1, 2)
    with pytest.raises(ValueError, match="low must be below high"):
        loops.uniform(key, 500, np.dtype("float32"), 0, 1.0, 1.0)
    with pytest.raises(ValueError, match="low must be below high"):
        loops.integers(key, 3, 3, 500, np.dtype("int64"), 0)
    with pytest.raises(TypeError, match="integer dtype"):
        loops.integers(key, 0, 3, 500, np.dtype("float32"), 0)
    for function in (loops.normal, loops.random_bits):
        arguments: list[Any] = [(1, 2), 500] if function is loops.random_bits else [(1, 2), 500, np.dtype("float32")]
        with pytest.raises(ValueError, match="start"):
            function(*arguments, ELEMENT_LIMIT)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise loops.UnavailableError("no compiler")

    wanted = [tk.random.normal((300,), generator=tk.random.Generator(3)).tolist()]
    monkeypatch.setattr(loops, "kernel", unavailable)
    assert [tk.random.normal((300,), generator=tk.random.Generator(3)).tolist()] == wanted
