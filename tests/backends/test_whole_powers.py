"""Note [Powers of integers]: on a device, negative exponents are found there, and powers wrap around as on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tenkey as tk
from tests._queued_device import Queued
from tests._reference_device import Reference

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint64")


@pytest.fixture(params=[Reference, Queued], ids=["synchronous", "queued"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    backend = request.param()
    with tk.backends.register(backend), tk.backends.strict_fallback():
        yield backend.name


def _on(device: str, values: object, dtype: str) -> tk.Tensor:
    return tk.asarray(np.asarray(values, dtype), device=device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_wrap_around(device: str, dtype: str) -> None:
    low = -5 if dtype.startswith("int") else 0
    x, y = np.arange(low, 7, dtype=dtype)[:, None], np.array([0, 1, 2, 3, 7, 40, 100], dtype)
    want = x**y
    found = _on(device, x, dtype) ** _on(device, y, dtype)
    np.testing.assert_array_equal(found.numpy(), want, strict=True)
    np.testing.assert_array_equal((_on(device, x, dtype) ** 3).numpy(), x**3, strict=True)
    np.testing.assert_array_equal((3 ** _on(device, y, dtype)).numpy(), 3**y, strict=True)
    changed = _on(device, np.broadcast_to(x, want.shape), dtype)
    changed **= _on(device, y, dtype)
    np.testing.assert_array_equal(changed.numpy(), want, strict=True)


def test_mixed_dtypes(device: str) -> None:
    """A base that is narrower than the result keeps its sign."""
    x, y = np.array([-3, -1, 2], np.int8), np.array([5, 7, 62], np.int64)
    np.testing.assert_array_equal((_on(device, x, "int8") ** _on(device, y, "int64")).numpy(), x**y, strict=True)
    wide, narrow = np.array([-3, 10**9, 2]), np.array([3, 2, 1], np.uint8)
    found = _on(device, wide, "int64") ** _on(device, narrow, "uint8")
    np.testing.assert_array_equal(found.numpy(), wide**narrow, strict=True)


@pytest.mark.parametrize("in_place", [False, True])
def test_negative_exponents(device: str, in_place: bool) -> None:
    for x, y in (([2, 3, 4], [1, -1, 2]), ([2], [[0], [-7]])):
        base, exponents = (_on(device, np.broadcast_to(v, np.broadcast_shapes(np.shape(x), np.shape(y))), "int32")
                           for v in (x, y))  # fmt: skip
        with pytest.raises(ValueError, match=r"\[pow\] integers to .* tk\.astype\(x, tk\.float64\)"):
            (base.pow_(exponents) if in_place else base**exponents).tolist()
    with pytest.raises(ValueError, match=r"\[pow\] .* -2"):
        (base.pow_(-2) if in_place else base**-2).tolist()
    assert (base * 0 + 3).tolist() == [[3], [3]]


def test_empty_powers_are_not_refused(device: str) -> None:
    assert (_on(device, [], "int64") ** -1).shape == (0,)
    assert (_on(device, [], "int64") ** _on(device, -1, "int64")).shape == (0,)
