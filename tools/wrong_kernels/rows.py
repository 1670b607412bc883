"""Wrong kernels of the templates that work on rows: reductions, arg-reductions, scans, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests._backends import window
from tests._reference_device import evaluated

from .wrong import Wrong, functions, packed, template

__all__ = ["ROWS"]

REDUCTION: Final = "test_templates::TestReduction"
LONG: Final = "test_rows::TestReductions::test_long_rows"
SPECIAL: Final = "test_rows::TestReductions::test_special_values"
ARG: Final = "test_templates::test_arg_reduction"
SCAN: Final = "test_templates::TestScan"
SORT: Final = "test_templates::test_sort"
SORTING: Final = "test_rows::TestSorting"


def part(x: Any, columns: int) -> Any:
    """Return the first columns of a matrix."""
    return x.window((x.shape[0], max(1, min(columns, x.shape[1]))), x.strides, x.offset)


def columns(number: Callable[[int], int]) -> Callable[..., Any]:
    """Return a change of a reduction that uses some of the columns only."""
    return lambda right, *_: lambda out, x: right(out, part(x, number(x.shape[1])))


def from_zero(right: Any, combine: Any, scalar: Any, operand: Any, identity: Any) -> Any:
    def run(out: Any, x: Any) -> None:
        right(out, x)
        zero = np.zeros(out.shape, out.dtype)
        with np.errstate(all="ignore"):
            if identity not in (0, 1) and out.dtype.kind in "fiu":
                window(out)[...] = evaluated(combine, [zero, window(out)])

    return run


def unmapped(right: Any, combine: Any, scalar: Any, operand: Any, identity: Any) -> Any:
    def run(out: Any, x: Any) -> None:
        with np.errstate(all="ignore"):
            total = window(x)[:, 0].astype(combine.dtype)
            for column in window(x).T[1:]:
                total = evaluated(combine, [total, column.astype(combine.dtype)])
            window(out)[...] = total

    return run


def stepwise(dtype_of: Callable[[Any, np.dtype], Any]) -> Callable[..., Any]:
    """Return a change of a reduction that keeps intermediate results in another dtype."""

    def changed(right: Any, combine: Any, scalar: Any, operand: Any, identity: Any) -> Any:
        kept = dtype_of(combine, operand)

        def run(out: Any, x: Any) -> None:
            with np.errstate(all="ignore"):
                values = np.broadcast_to(evaluated(scalar, [window(x)]), x.shape)
                total = values[:, 0].astype(kept)
                for column in values.T[1:]:
                    joined = evaluated(combine, [total.astype(combine.dtype), column.astype(combine.dtype)])
                    total = joined.astype(kept)
                window(out)[...] = total

        return right if kept is None else run

    return changed


def first_twice(right: Any, combine: Any, *_: Any) -> Any:
    def run(out: Any, x: Any) -> None:
        right(out, x)
        if x.shape[1] > 64 and x.dtype == combine.dtype:
            with np.errstate(all="ignore"):
                window(out)[...] = evaluated(combine, [window(out), window(x)[:, 64]])

    return run


def of_rows(choose: Callable[[np.ndarray, np.ndarray], Any]) -> Callable[..., Any]:
    """Return a change of a kernel ``(out, x)`` that chooses by the values ``x``; None: the right kernel."""

    def changed(right: Any, *_: Any) -> Any:
        def run(out: Any, x: Any) -> None:
            right(out, x)
            with np.errstate(all="ignore"):
                made = choose(window(x), window(out))
            if made is not None:
                window(out)[...] = made

        return run

    return changed


def last_tie(x: np.ndarray, out: np.ndarray) -> Any:
    best = np.take_along_axis(x, out[:, None], 1)
    same = (x == best) | ((x != x) & (best != best))
    return x.shape[1] - 1 - np.argmax(same[:, ::-1], 1)


def not_nan(x: np.ndarray, out: np.ndarray) -> Any:
    found = np.take_along_axis(x, out[:, None], 1)[:, 0]
    first = np.argmax(x == x, 1)
    return np.where(found == found, out, first)


def in_single(right: Any, better: Any, operand: np.dtype) -> Any:
    def run(out: Any, x: Any) -> None:
        values = window(x)
        if operand.kind == "f":
            right(out, x)
            return
        places = np.zeros(len(values), np.int64)
        for k in range(1, values.shape[1]):
            found = np.take_along_axis(values, places[:, None], 1)[:, 0]
            differ = values[:, k].astype(np.float32) != found.astype(np.float32)
            places = np.where(differ & evaluated(better, [values[:, k], found]), k, places)
        window(out)[...] = places

    return run


def scanned(change: Callable[..., None]) -> Callable[..., Any]:
    """Return a change of a scan: ``change(right, outs, xs, reverse, combine)``."""
    return lambda right, combine, dtype: lambda outs, xs, reverse: change(right, outs, xs, reverse, combine)


def exclusive(right: Any, outs: Any, xs: Any, reverse: bool, combine: Any) -> None:
    right(outs, xs, reverse)
    for out in outs:
        values = window(out)
        moved = np.zeros_like(values)
        here, before = (slice(None, -1), slice(1, None)) if reverse else (slice(1, None), slice(None, -1))
        moved[:, here] = values[:, before]
        values[...] = moved


def in_blocks(right: Any, outs: Any, xs: Any, reverse: bool, combine: Any) -> None:
    for start in range(0, xs[0].shape[1], 64):

        def cut(x: Any, start: int = start) -> Any:
            shape = (x.shape[0], min(64, x.shape[1] - start))
            return x.window(shape, x.strides, x.offset + start * x.strides[1])

        right(tuple(map(cut, outs)), tuple(map(cut, xs)), reverse)


def swapped(right: Any, outs: Any, xs: Any, reverse: bool, combine: Any) -> None:
    columns = list(zip(*[window(x).T for x in xs], strict=True))
    total: Any = None
    for k in range(len(columns))[:: -1 if reverse else 1]:
        later = columns[k]
        with np.errstate(all="ignore"):
            total = later if total is None else [evaluated(f, [*later, *total]).astype(xs[0].dtype) for f in combine]
        for out, values in zip(outs, total, strict=True):
            window(out)[:, k] = values


def one_after_the_other(right: Any, outs: Any, xs: Any, reverse: bool, combine: Any) -> None:
    columns = list(zip(*[window(x).T for x in xs], strict=True))
    total: Any = None
    for k in range(len(columns))[:: -1 if reverse else 1]:
        later = columns[k]
        if total is None:
            total = list(later)
        else:
            for i, f in enumerate(combine):  # a part sees the new value of an earlier one
                with np.errstate(all="ignore"):
                    total[i] = evaluated(f, [*total, *later]).astype(xs[0].dtype)
        for out, values in zip(outs, total, strict=True):
            window(out)[:, k] = values


def backwards(right: Any, outs: Any, xs: Any, reverse: bool, combine: Any) -> None:
    right(outs, xs, reverse)
    if reverse:
        for out in outs:
            window(out)[...] = window(out)[:, ::-1].copy()


def sorted_by(places_of: Callable[[np.ndarray], np.ndarray], order_of: Any = None) -> Callable[..., Any]:
    """Return a change of sort that takes the order of each row from a function of the matrix."""

    def changed(right: Any, dtype: np.dtype) -> Any:
        def run(values: Any, order: Any, x: Any) -> None:
            elements = window(x)
            places = places_of(elements)
            window(values)[...] = np.take_along_axis(elements, places, 1)
            window(order)[...] = order_of(places) if order_of else places

        return run

    return changed


def ascending(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.argsort(x, 1, kind="stable"))


def last_first(x: np.ndarray) -> np.ndarray:
    return np.asarray(x.shape[1] - 1 - ascending(x[:, ::-1]))


def nan_first(x: np.ndarray) -> np.ndarray:
    return ascending(np.where(x != x, -np.inf, x) if x.dtype.kind == "f" else x)


def by_bits(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "f":
        return ascending(x)
    return np.asarray(np.lexsort((~np.signbit(x) & (x == 0), x), axis=1))


def as_signed(x: np.ndarray) -> np.ndarray:
    return ascending(x.astype(np.int64) if x.dtype == np.uint64 else x)


def blocks(x: np.ndarray) -> np.ndarray:
    made = [ascending(x[:, i : i + 256]) + i for i in range(0, x.shape[1], 256)]
    return np.concatenate(made, axis=1)


ROWS: Final[tuple[Wrong, ...]] = (
    template("a reduction forgets the last column", "reduction", columns(lambda n: n - 1), REDUCTION),
    template("a reduction forgets what is left after groups of 64", "reduction",
             columns(lambda n: n - n % 64 if n > 64 else n), REDUCTION),
    template("a reduction stops after 4096 columns", "reduction", columns(lambda n: min(n, 4096)), REDUCTION),
    template("a reduction reads a matrix as if it were packed", "reduction",
             lambda right, *_: lambda out, x: right(out, packed(x)), REDUCTION),
    template("a reduction ignores the offset", "reduction",
             lambda right, *_: lambda out, x: right(out, x.window(x.shape, x.strides, 0)), REDUCTION),
    template("a maximum begins with 0", "reduction", from_zero, f"{SPECIAL}[max]"),
    template("a reduction ignores the function of the elements", "reduction", unmapped, REDUCTION),
    template("a sum is kept in half precision", "reduction",
             stepwise(lambda combine, x: "float16" if combine.dtype == np.float32 else None),
             "test_rows::TestReductions::test_sums_are_accurate"),
    template("a sum is kept in the dtype of the elements", "reduction",
             stepwise(lambda combine, x: x if x.kind in "iu" and combine.dtype != x else None), REDUCTION, SPECIAL),
    template("an element between two pieces is counted twice", "reduction", first_twice, f"{LONG}[sum]"),
    functions("a greatest element ignores NaN", {"maximum": np.fmax}, f"{SPECIAL}[max]"),
    functions("any is the last element", {"logical_or": lambda a, b: b, "bitwise_or": lambda a, b: b},
              f"{SPECIAL}[any]", f"{LONG}[any]"),
    template("an arg-reduction gives the last of several", "arg_reduction", of_rows(last_tie), ARG),
    template("an arg-reduction ignores NaN", "arg_reduction", of_rows(not_nan), ARG),
    template("an arg-reduction gives the place in a piece", "arg_reduction",
             of_rows(lambda x, out: out % 256), ARG),
    template("an arg-reduction stops after 4096 columns", "arg_reduction", columns(lambda n: min(n, 4096)), ARG),
    template("an arg-reduction compares integers in single precision", "arg_reduction", in_single, ARG),
    template("an arg-reduction reads a matrix as if it were packed", "arg_reduction",
             lambda right, *_: lambda out, x: right(out, packed(x)), ARG),
    template("a scan is exclusive", "scan", scanned(exclusive), SCAN),
    template("a scan ignores reverse", "scan",
             scanned(lambda right, outs, xs, reverse, _: right(outs, xs, False)), SCAN),
    template("the result of a reverse scan is in reverse order", "scan", scanned(backwards), SCAN),
    template("a scan swaps the operands", "scan", scanned(swapped), SCAN),
    template("a scan does not join blocks of 64", "scan", scanned(in_blocks), SCAN),
    template("the parts of a scan are computed one after the other", "scan", scanned(one_after_the_other), SCAN),
    template("a scan reads a matrix as if it were packed", "scan",
             scanned(lambda right, outs, xs, reverse, _: right(outs, tuple(map(packed, xs)), reverse)), SCAN),
    template("sort reverses equal elements", "sort", sorted_by(last_first), SORT),
    template("sort puts NaN first", "sort", sorted_by(nan_first), SORT),
    template("sort is descending", "sort", sorted_by(lambda x: ascending(x)[:, ::-1]), SORT),
    template("sort gives the places where the elements go", "sort",
             sorted_by(ascending, lambda places: np.argsort(places, 1)), SORT),
    template("sort puts -0.0 before 0.0", "sort", sorted_by(by_bits), SORTING),
    template("sort compares unsigned integers as signed ones", "sort", sorted_by(as_signed), SORTING),
    template("sort does not merge blocks of 256", "sort", sorted_by(blocks), SORT),
    template("sort reads a matrix as if it were packed", "sort",
             lambda right, *_: lambda values, order, x: right(values, order, packed(x)), SORT),
)  # fmt: skip
