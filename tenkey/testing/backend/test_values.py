"""Numbers at which kernels go wrong: wrap-around, denormals, conversions, mixed dtypes, Python numbers, overlap."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.testing.backend.compare import agree, place
from tenkey.testing.backend.extremes import extreme_values
from tenkey.testing.backend.plugin import Subject

INTEGERS: Final = ("int8", "int32", "uint32", "uint64")  # test_operators has int64 and uint8
ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "//": lambda x, y: x // y,
    "%": lambda x, y: x % y, "<": lambda x, y: x < y, "maximum": tk.maximum, "<<": tk.bitwise_left_shift,
    ">>": tk.bitwise_right_shift, "^": tk.bitwise_xor,
}  # fmt: skip
KINDS: Final = (
    "bool", "int8", "int32", "int64", "uint8", "uint16", "uint64", "float16", "float32", "float64", "complex64",
)  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_around(subject: Subject, dtype: str) -> None:
    values = extreme_values(dtype)
    for name, function in ARITHMETIC.items():
        agree(subject.name, function, values[:, None], values, what=f"operator {name}")
    for one in (tk.negative, tk.abs, tk.sign, tk.square, tk.bitwise_invert):
        agree(subject.name, one, values, what=one.__name__)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_denormal_numbers_are_kept(subject: Subject, float64: bool, dtype: str, flushes: bool) -> None:
    if flushes or (dtype == "float64" and not float64):
        pytest.skip("--flushes-denormals" if flushes else "the device does not compute in double precision")
    info = np.finfo(dtype)
    small = np.array([info.smallest_subnormal, info.smallest_subnormal * 9, info.smallest_normal / 2], dtype)
    values = np.concatenate([small, -small, np.array([info.smallest_normal, 0.0], dtype)])
    exact: dict[str, Any] = {"absolute": False, "zeros": True, "ulps": 0}
    for name in ("+", "-", "<", "maximum"):
        agree(subject.name, ARITHMETIC[name], values[:, None], values, what=f"operator {name}", **exact)
    for scale in (2, 2.0**20):
        agree(subject.name, partial(tk.multiply, x2=scale), values, what="operator *", **exact)
        agree(subject.name, partial(tk.divide, x2=scale), values * 8, what="operator /", **exact)
    for one in (tk.negative, tk.abs, tk.sign, tk.ceil):
        agree(subject.name, one, values, what="one operand", **exact)
    for call in (tk.sum, tk.max, tk.min, tk.sort):
        agree(subject.name, call, values, what="denormal numbers", **exact)


def castable(source: str, target: str) -> np.ndarray:
    """Return values whose conversion is defined: a float out of the range of integers may become any of them."""
    values = extreme_values("float32" if source == "complex64" else source)
    if np.dtype(source).kind in "fc" and np.dtype(target).kind in "iu":
        limit = np.iinfo(target)
        low, high = max(limit.min, -(2**62)), min(limit.max, 2**62)
        finite = values[np.isfinite(values)]
        values = finite[(np.trunc(finite) >= low) & (np.trunc(finite) <= high)]
    return values.astype(source)


@pytest.mark.parametrize("target", KINDS)
def test_conversions_between_all_dtypes(subject: Subject, target: str) -> None:
    for source in KINDS:
        if source == "complex64" and target != "complex64":
            continue  # refused: the imaginary part would be lost
        with np.errstate(all="ignore"):
            values = castable(source, target)
        agree(
            subject.name, lambda x: x.astype(target), values, what=f"astype({target!r})", absolute=False, zeros=True,
            ulps=0, layouts=("contiguous", "strided") if source in ("float32", "uint8") else ("contiguous",),
        )  # fmt: skip


def test_mixed_dtypes(subject: Subject) -> None:
    for pair in (
        "bool uint8", "uint8 bool", "int8 uint8", "uint8 int64", "int64 float32", "bool float32", "float16 float32",
        "float32 float64", "float64 uint8", "int32 complex64", "complex64 float32",
    ):  # fmt: skip
        one, other = pair.split()
        x, y = np.array([[0, 1, 3], [2, 5, 100]]).astype(one), np.array([1, 7, 2]).astype(other)
        agree(subject.name, operator.add, x, y, what="operator +")
        agree(subject.name, lambda x, y: tk.where(x[0] != 1, x[1], y), x, y, what="where")
        agree(subject.name, lambda x, y: tk.concat([x[0], y]), x, y, what="concat")


def test_python_numbers_do_not_decide_the_dtype(subject: Subject) -> None:
    for dtype in ("bool", "uint8", "int64", "float16", "float32", "complex64"):
        x = np.array([0, 1, 3]).astype(dtype)
        for number in (True, 2, -3, 2.5, float("inf"), float("nan"), 300, 2 + 1j):
            if dtype == "uint8" and number in (-3, 300):
                continue  # out of range: the CPU refuses it, a hand-written kernel may not
            for call in (operator.sub, lambda number, x: tk.where(x != 0, x, number)):
                agree(subject.name, partial(call, number), x, what=f"a tensor and the number {number!r}", refused=True)


def test_in_place_calls_that_overlap(subject: Subject) -> None:
    """Test that an operand which shares memory with the target is read before it is written."""

    def shifted(x: Any) -> Any:
        x[1:].add_(x[:-1])
        return x

    def backwards(x: Any) -> Any:
        x[:-1].multiply_(x[1:])
        return x

    def transposed(x: Any) -> Any:
        square = tk.reshape(x[:9], (3, 3))
        square += tk.permute_dims(square, (1, 0))
        return x

    def row(x: Any) -> Any:
        table = tk.reshape(x[:9], (3, 3))
        table -= table[1]
        return x

    def column(x: Any) -> Any:
        table = tk.reshape(x[:9], (3, 3))
        table *= table[:, 2:]
        return x

    def copied(x: Any) -> Any:
        x[2:] = x[:-2]
        x[:-3].copy_(x[3:])
        return x

    def gathered(x: Any) -> Any:
        x[1:6] = x[[4, 3, 2, 1, 0]]
        return x

    for dtype in ("float32", "int64", "uint8"):
        values = np.arange(1, 13).astype(dtype)
        for call in (shifted, backwards, transposed, row, column, copied, gathered):
            agree(subject.name, call, values, what=f"{call.__name__}, in place", layouts=("contiguous", "strided"))


def test_views_of_one_buffer_stay_apart(subject: Subject) -> None:
    """Test writes through windows that interleave: each may change its own elements only."""
    placed = place(tk.zeros((4, 6)), subject.name)
    x = placed.tensor
    x[::2, 1::2].add_(1)
    x[1::2, ::2].copy_(tk.full((2, 3), 5.0))
    x[3, 5:].fill_(7)
    x[:, 3].multiply_(10)
    want = np.zeros((4, 6), np.float32)
    want[::2, 1::2] += 1
    want[1::2, ::2] = 5
    want[3, 5:] = 7
    want[:, 3] *= 10
    np.testing.assert_array_equal(x.numpy(), want)
    assert placed.untouched()
