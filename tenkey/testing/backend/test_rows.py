"""Reductions, scans and sorting of rows: special values, ties, every axis, and long rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch import registry
from tenkey.testing.backend.compare import LAYOUTS, agree, gradient_of
from tenkey.testing.backend.extremes import extreme_values
from tenkey.testing.backend.plugin import Subject

NAN, INF = float("nan"), float("inf")
LONG: Final = 4999  # longer than a row that derived reductions hand to a template at once, and prime
EXACT: Final[dict[str, Any]] = {"absolute": False, "ulps": 0}

SPECIAL_ROWS: Final = [
    [NAN, 1.0, 2.0, 3.0], [1.0, 2.0, NAN, 3.0], [3.0, 2.0, 1.0, NAN], [NAN, NAN, NAN, NAN], [INF, 1.0, 2.0, -1.0],
    [-INF, -INF, -INF, -INF], [INF, -INF, 1.0, 1.0], [INF, INF, INF, INF], [-3.0, -2.0, -1.0, -5.0],
    [5.0, 7.0, 6.0, 5.0], [0.0, INF, 1.0, 1.0], [0.25, 0.5, 0.125, 0.75], [NAN, INF, -INF, 0.0], [0.0, 0.0, 0.0, 0.0],
]  # fmt: skip
REDUCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "sum": tk.sum, "prod": tk.prod, "max": tk.max, "min": tk.min, "any": tk.any, "all": tk.all, "mean": tk.mean,
    "logsumexp": tk.logsumexp, "count_nonzero": tk.count_nonzero, "nansum": tk.nansum,
}  # fmt: skip


def rows(*shape: int, dtype: str = "float32", ties: int = 7) -> np.ndarray:
    """Return small whole numbers in random order, of which sums and products are exact, with many ties."""
    low = 0 if np.dtype(dtype).kind in "bu" else -ties
    return np.random.default_rng(len(shape)).integers(low, ties, shape, endpoint=True).astype(dtype)


def parts(function: Callable[..., Any], x: Any, **options: Any) -> Any:
    """Return the results of a call, several of them as a tuple."""
    result = function(x, **options)
    return tuple(result) if isinstance(result, tuple) else result


def at(place: int, value: Any, rest: Any, dtype: str = "float32", size: int = LONG) -> np.ndarray:
    """Return a row of equal elements but one."""
    made = np.full(size, rest, dtype)
    made[place] = value
    return made


PLACES: Final = (0, 1, 63, 64, 255, 256, 2500, 4095, 4096, LONG - 2, LONG - 1)


class TestReductions:
    @pytest.mark.parametrize("name", sorted(REDUCTIONS))
    def test_special_values(self, subject: Subject, name: str) -> None:
        for axis in (1, 0, None):
            agree(
                subject.name, partial(REDUCTIONS[name], axis=axis), np.array(SPECIAL_ROWS, np.float32),
                what=f"{name}, axis={axis}", layouts=("contiguous", "transposed"),
            )  # fmt: skip
        for dtype in ("int64", "uint8", "bool", "int8"):
            if name != "logsumexp":
                agree(subject.name, REDUCTIONS[name], extreme_values(dtype), what=f"{name}, overflow")

    @pytest.mark.parametrize("name", ["sum", "max", "all"])
    def test_every_set_of_axes(self, subject: Subject, name: str) -> None:
        x = rows(2, 3, 4, 5)
        for count in range(5):
            for axes in itertools.combinations(range(4), count):
                for keepdims in (False, True):
                    agree(
                        subject.name, partial(REDUCTIONS[name], axis=axes, keepdims=keepdims), x, **EXACT,
                        what=f"{name}, axis={axes}, keepdims={keepdims}", layouts=("transposed",),
                    )  # fmt: skip

    @pytest.mark.parametrize("name", ["sum", "max", "min", "any"])
    def test_long_rows(self, subject: Subject, name: str) -> None:
        function = REDUCTIONS[name]
        for shape, axis in (
            ((LONG,), None), ((3, LONG), 1), ((LONG, 3), 0), ((2, LONG, 2), 1), ((2, 2, LONG), (0, 2)), ((40, 1500), 1),
        ):  # fmt: skip
            for dtype in ("float32", "int64"):
                agree(
                    subject.name, partial(function, axis=axis), rows(*shape, dtype=dtype), **EXACT,
                    what=f"{name}, axis={axis}", layouts=LAYOUTS,
                )  # fmt: skip
        rest, value = {"min": (5, 3), "max": (-5, -3)}.get(name, (0, 1))
        x = np.stack([at(place, value, rest) for place in PLACES])
        agree(subject.name, lambda x: function(x, axis=1), x, what=f"{name}, one element differs", **EXACT)
        for row in x:  # a single row may be reduced in pieces
            agree(subject.name, function, row, what=f"{name}, one element differs", **EXACT)
        if name in ("max", "min", "sum"):
            for place in PLACES:
                agree(subject.name, function, at(place, NAN, 1.0), what=f"{name}, NaN at {place}")

    def test_sums_are_accurate(self, subject: Subject) -> None:
        """Test that many terms are added in single precision at least: ones beyond 2048, and values of both signs."""
        for size in (5000, 70_001):
            ones = np.ones(size, np.float32)
            agree(subject.name, tk.sum, ones, what="sum of ones", **EXACT)
            assert tk.mean(tk.asarray(ones, device=subject.name)).item() == 1.0
        values = np.random.default_rng(0).standard_normal(70_001).astype(np.float32)
        got = tk.sum(tk.asarray(values, device=subject.name)).item()
        error = abs(got - values.sum(dtype=np.float64)) / np.abs(values).sum(dtype=np.float64)
        assert error < 1e-4, f"the sum of 70001 float32 numbers is {got}, off by {error:.1e} of the sum of their sizes"

    def test_empty(self, subject: Subject) -> None:
        for shape, axis in (((0,), None), ((0, 3), 0), ((3, 0), 0), ((3, 0), 1), ((2, 0, 3), (0, 1)), ((), None)):
            for name in ("sum", "prod", "any", "all", "max", "min"):
                call = partial(REDUCTIONS[name], axis=axis)
                agree(subject.name, call, np.ones(shape, np.float32), what=f"{name}, {axis}", refused=True)


class TestArgReductions:
    @pytest.mark.parametrize("function", [tk.argmax, tk.argmin], ids=["argmax", "argmin"])
    def test_ties_and_special_values(self, subject: Subject, function: Any) -> None:
        x = np.array(SPECIAL_ROWS, np.float32)
        for axis in (0, 1, None):
            agree(subject.name, partial(function, axis=axis), x, what=f"axis={axis}", layouts=LAYOUTS)
        for dtype in ("int64", "uint8", "bool", "float32"):
            agree(subject.name, lambda x: function(x, axis=1), rows(6, 40, dtype=dtype, ties=1), what="ties")
        for dtype in ("int64", "uint64", "int8", "uint8"):
            values = extreme_values(dtype)
            for order in (values, values[::-1].copy(), np.roll(values, 3)):
                agree(subject.name, function, order, what="the ends of integers")

    @pytest.mark.parametrize("function", [tk.argmax, tk.argmin], ids=["argmax", "argmin"])
    def test_long_rows(self, subject: Subject, function: Any) -> None:
        best = 2.0 if function is tk.argmax else -2.0
        for place, again in itertools.pairwise((*PLACES, 0)):
            for value in (best, NAN):
                x = at(place, value, 1.0)
                x[again] = value
                agree(subject.name, function, x, what=f"{value} at {place} and {again}")
        agree(subject.name, lambda x: function(x, axis=0), rows(LONG, 2), what="columns")

    def test_shapes(self, subject: Subject) -> None:
        for shape, axis in (((), None), ((1,), 0), ((2, 3, 4), 1), ((2, 3, 4), None), ((0, 3), 1), ((0, 3), 0)):
            for keepdims in (False, True):
                agree(
                    subject.name, partial(tk.argmax, axis=axis, keepdims=keepdims), rows(*shape),
                    what=f"argmax, axis={axis}", layouts=("contiguous", "transposed"), refused=True,
                )  # fmt: skip


class TestScans:
    @pytest.mark.parametrize("function", [tk.cumulative_sum, tk.cumulative_prod], ids=["sum", "prod"])
    def test_values(self, subject: Subject, function: Any) -> None:
        agree(subject.name, lambda x: function(x, axis=1), np.array(SPECIAL_ROWS, np.float32), what="special values")
        for axis in (0, 1, 2):
            for initial in (False, True):
                agree(
                    subject.name, partial(function, axis=axis, include_initial=initial), rows(2, 3, 4), **EXACT,
                    what=f"axis={axis}", layouts=LAYOUTS,
                )  # fmt: skip
        for dtype in ("uint8", "int64", "bool", "int8"):
            agree(subject.name, lambda x: function(x, axis=0), extreme_values(dtype), what="overflow")
        for shape in ((0,), (0, 3), (3, 0), (1, 1)):
            agree(subject.name, lambda x: function(x, axis=-1), np.ones(shape, np.float32), what="empty")
        signs = np.where(rows(2, LONG, ties=1) > 0, -1, 1).astype(np.float32)
        agree(subject.name, lambda x: function(x, axis=1), signs, what="long rows", layouts=LAYOUTS, **EXACT)
        agree(subject.name, lambda x: function(x, axis=0), signs, what="short columns", **EXACT)

    def test_gradient_is_a_scan_from_the_end(self, subject: Subject) -> None:
        call = gradient_of(lambda x: tk.cumulative_sum(x, axis=1))
        agree(subject.name, call, rows(2, 300), what="gradient of cumulative_sum", **EXACT)

    def test_order_of_the_operands(self, subject: Subject) -> None:
        """Test a combination that is associative and not commutative, in both directions."""
        recurrence = registry.find("tk::linear_recurrence")
        rng = np.random.default_rng(0)
        for reverse in (False, True):
            for shape, axis in (((2, 7), 1), ((7, 2), 0), ((2, 3, 5), 1), ((1, 600), 1)):
                a, b = rng.uniform(-1, 1, (2, *shape)).astype(np.float32)
                agree(
                    subject.name, partial(recurrence.call, axis=axis, reverse=reverse), a, b,
                    what=f"linear_recurrence, axis={axis}, reverse={reverse}", layouts=LAYOUTS,
                )  # fmt: skip

    @pytest.mark.parametrize("function", [tk.cummax, tk.cummin], ids=["cummax", "cummin"])
    def test_places_of_ties_and_nan(self, subject: Subject, function: Any) -> None:
        for x in (np.array(SPECIAL_ROWS, np.float32), rows(4, 60, ties=2), rows(4, 60, dtype="int64", ties=2)):
            for axis in (0, 1):
                agree(subject.name, partial(parts, function, axis=axis), x, what=f"axis={axis}", **EXACT)


SORTED: Final[dict[str, Callable[[Any], Any]]] = {
    "sort": lambda x: tk.sort(x, axis=-1), "argsort": lambda x: tk.argsort(x, axis=-1),
    "sort, descending": lambda x: tk.sort(x, axis=-1, descending=True),
    "argsort, descending": lambda x: tk.argsort(x, axis=-1, descending=True),
    "topk": lambda x: tuple(tk.topk(x, min(3, x.shape[-1]))) if x.shape[-1] else x,
}  # fmt: skip


class TestSorting:
    @pytest.mark.parametrize("name", sorted(SORTED))
    def test_values(self, subject: Subject, name: str) -> None:
        exact: Any = {**EXACT, "zeros": True}
        call = SORTED[name]
        special = np.array([*SPECIAL_ROWS, [0.0, -0.0, 0.0, -0.0], [NAN, -1.0, NAN, 2.0]], np.float32)
        agree(subject.name, call, special, what=name, layouts=LAYOUTS, **exact)
        for dtype in ("float32", "int64", "uint8", "bool"):
            agree(subject.name, call, rows(3, 130, dtype=dtype, ties=2), what=f"{name}, ties", **exact)
        for dtype in ("int8", "uint8", "int64", "uint64", "float32", "float64"):
            values = extreme_values(dtype)
            agree(subject.name, call, np.stack([values, values[::-1], np.roll(values, 5)]), what=name, **exact)
        for size in (0, 1, 2, 3, 31, 32, 33, 127, 128, 129, 255, 256, 257):
            agree(subject.name, call, rows(2, size, ties=40), what=name, **exact)
        agree(subject.name, call, rows(2, LONG, ties=30), what=f"{name}, long rows", **exact)

    def test_axes(self, subject: Subject) -> None:
        for axis in (0, 1, 2):
            for call in (tk.sort, tk.argsort):
                agree(
                    subject.name, partial(call, axis=axis), rows(3, 4, 5), what=f"axis={axis}", layouts=LAYOUTS,
                    **EXACT,
                )  # fmt: skip

    def test_what_is_made_of_sorting(self, subject: Subject) -> None:
        special = np.array(SPECIAL_ROWS, np.float32).reshape(-1)
        zeros = np.array([0.0, -0.0, 1.0, -0.0, 0.0], np.float32)
        for x in (special, zeros, rows(300, ties=5), rows(300, dtype="int64"), rows(0), extreme_values("int64")):
            for call in (tk.unique_values, tk.unique_counts, tk.unique_inverse, tk.unique_all):
                agree(subject.name, partial(parts, call), x, what=call.__name__, **EXACT)
        ordered, wanted = np.sort(rows(50, ties=4)), rows(40, ties=6)
        for side in ("left", "right"):
            agree(subject.name, partial(tk.searchsorted, side=side), ordered, wanted, what=f"searchsorted {side}")
        for q in (0.0, 0.3, 1.0):
            agree(subject.name, partial(tk.quantile, q=q, axis=1), rows(3, 41), what=f"quantile {q}")
        agree(subject.name, lambda x: tk.median(x, axis=1), np.array(SPECIAL_ROWS, np.float32), what="median")
        agree(subject.name, tk.isin, rows(30, dtype="int64"), np.array([1, 2, -7]), what="isin")
