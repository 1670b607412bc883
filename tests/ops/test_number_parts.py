"""Exponents, mantissas and whole parts of extreme numbers, counts of bits, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk

EXTREMES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -3.0, 5e-324, 1e-310, 1.7976931348623157e308, 2.0**1000,
                     0.5, 1.0, np.nextafter(1, 0), np.nextafter(2.0**40, 0)])  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_of_extreme_numbers(dtype: str) -> None:
    with np.errstate(all="ignore"):
        values = EXTREMES.astype(dtype)
        exponents = np.arange(-2200, 2200, 97)[:, None]
        for name in ("frexp", "modf"):
            for got, want in zip(getattr(tk, name)(tk.asarray(values)), getattr(np, name)(values), strict=True):
                np.testing.assert_array_equal(got.numpy(), want, strict=True)
                assert np.signbit(got.numpy()).tolist() == np.signbit(want).tolist()
        want = np.ldexp(values, exponents)
        np.testing.assert_array_equal(tk.ldexp(tk.asarray(values), tk.asarray(exponents)).numpy(), want, strict=True)
        if dtype != "float16":  # where NumPy's spacing has no sign
            got = tk.spacing(tk.asarray(values)).numpy()
            np.testing.assert_array_equal(got, np.spacing(values), strict=True)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_bitwise_count(dtype: str) -> None:
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.max, 0, 1, 7, 100], dtype)
    want = [abs(int(n)).bit_count() for n in values]
    x = tk.asarray(values)
    composed = tk.bitwise_count.operator.facets["Composite"].function(x)
    for got in (tk.bitwise_count(x), composed):
        assert got.tolist() == want
        assert got.dtype == tk.uint8


def test_divmod() -> None:
    x = tk.asarray([7, -7])
    assert [y.tolist() for y in tk.divmod(x, 4)] == [[1, -2], [3, 1]]
    assert tk.divmod(x, 4).remainder.tolist() == [3, 1]
    with pytest.raises(TypeError, match=r"\[ldexp\] the exponents must be integers"):
        tk.ldexp(x, 0.5)
    with pytest.raises(TypeError, match=r"\[bitwise_count\] takes integers"):
        tk.bitwise_count(tk.ones(2))
