"""Compiled counting and listing of places, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.loops import counting
from tenkey.backends.cpu.moving import tallies
from tenkey.backends.llvm import UnavailableError, kernel
from tests._tiers import Failures, tier

_SIZES = (1, 7, 63, 64, 65, 1000, counting.BLOCK - 1, counting.BLOCK, counting.BLOCK + 1, 70_001)


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Let the loops run from the first element on, on some threads; the list says which loops ran."""
    before = tk.get_num_threads()
    tk.set_num_threads(request.param)
    for name in ("TALLIED", "LISTED"):
        monkeypatch.setattr(tallies, name, 0)
    ran: list[Any] = []

    def observed(template: Any, **statics: Any) -> Any:
        ran.append(template)
        return kernel(template, **statics)

    monkeypatch.setattr(tallies, "kernel", observed)
    yield ran
    tk.set_num_threads(before)


def test_counts(threads: list[Any]) -> None:
    rng = np.random.default_rng(0)
    failures = Failures()
    for size in _SIZES:
        for most in tier((1, 100, 5000), (1, 2, 100, 127, 5000, 32_000)):
            numbers = rng.integers(0, most, size)
            for dtype in ("int64", "int32", "uint8", "int16", "uint32"):
                x = np.minimum(numbers, np.iinfo(dtype).max).astype(dtype)
                for label, given in (("", x), ("backwards", x[::-1]), ("every third", np.repeat(x, 3)[::3])):
                    with failures.of(f"{size} {dtype} below {most} {label}"):
                        for least in (0, 50):
                            want = np.bincount(x, minlength=least)
                            np.testing.assert_array_equal(tk.bincount(tk.asarray(given), None, least).numpy(), want)
                    with failures.of(f"bins of {size} {dtype} below {most} {label}"):
                        made = tk.ops.tk.bin_sums(tk.asarray(given) - 3, None, 40).numpy()  # some are out of range
                        low = given.astype(np.int64) - 3 if x.dtype.kind == "i" else given - x.dtype.type(3)
                        inside = low[(low >= 0) & (low < 40)]
                        np.testing.assert_array_equal(made, np.bincount(inside.astype(np.int64), minlength=40))
    failures.check()
    assert set(threads) == {counting.extremes, counting.count_numbers}


def test_numbers_that_cannot_be_counted(threads: list[Any]) -> None:
    for place in (0, 20_000, 39_999):
        x = np.zeros(40_000, np.int64)
        x[place] = -1
        with pytest.raises(ValueError, match=r"\[bincount\] got -1"):
            tk.bincount(tk.asarray(x))
    far = np.array([0, 3, 10_000_000])  # the table would be longer than the vector
    assert tk.bincount(tk.asarray(far)).shape == (10_000_001,)
    assert tk.bincount(tk.zeros(0, dtype=tk.int64)).shape == (0,)


def test_places(threads: list[Any]) -> None:
    rng = np.random.default_rng(1)
    failures = Failures()
    for size in _SIZES:
        for share in (0.0, 0.01, 0.5, 1.0):
            mask = rng.random(size) < share
            floats = np.where(mask, rng.standard_normal(size), 0.0)
            floats[:1] = np.nan
            for label, x in (
                ("bools", mask), ("backwards", mask[::-1]), ("every other", np.repeat(mask, 2)[::2]),
                ("floats", floats), ("complex", floats * 1j), ("bytes", mask.astype(np.uint8) * 128),
                ("true in another way", (mask.astype(np.uint8) * 2).view(np.bool_)),
            ):  # fmt: skip
                with failures.of(f"{size} {label} {share}"):
                    (made,) = tk.nonzero(tk.asarray(x))
                    np.testing.assert_array_equal(made.numpy(), x.nonzero()[0], strict=True)
    failures.check()
    assert set(threads) == {counting.find_places}


def test_nothing_is_written_outside_the_result(threads: list[Any]) -> None:
    mask = np.random.default_rng(2).random(50_001) < 0.3
    counts = np.zeros(-(-mask.size // counting.BLOCK) + 1, np.int64)
    kernel(counting.find_places, WRITE=False)(tallies.STATE, mask, counts[1:], counts, mask.size, 8)
    found = np.full(int(counts.sum()) + 16, -7)
    kernel(counting.find_places, WRITE=True)(tallies.STATE, mask, counts.cumsum(), found[8:], mask.size, 1)
    np.testing.assert_array_equal(found[8:-8], mask.nonzero()[0])
    assert (found[:8] == -7).all()
    assert (found[-8:] == -7).all()


def test_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*args: Any, **statics: Any) -> Any:
        raise UnavailableError("no compiled code")

    monkeypatch.setattr(tallies, "kernel", unavailable)
    x = np.arange(100_000) % 7
    np.testing.assert_array_equal(tk.bincount(tk.asarray(x)).numpy(), np.bincount(x))
    np.testing.assert_array_equal(tk.nonzero(tk.asarray(x))[0].numpy(), x.nonzero()[0])
    np.testing.assert_array_equal(tk.histogram(tk.asarray(x), 7)[0].numpy(), np.histogram(x, 7)[0])
