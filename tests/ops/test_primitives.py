"""The operators that stand for a template each: broadcasting, duplicates, ties, errors. Values: tests/operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._tiers import Failures

o = tk.ops.tk


def _index(*values: int) -> tk.Tensor:
    return tk.reshape(tk.asarray(values, dtype=tk.int64), (1, -1, 1))


def test_an_index_out_of_range_is_reported_in_the_name_of_the_caller() -> None:
    x = tk.ones((1, 3, 2))
    failures = Failures()
    for index in (-1, 3, 1 << 40):
        with failures.of(f"gather {index}"), pytest.raises(IndexError, match=r"\[take\] an index is out of range"):
            o.gather_rows(x, _index(0, index), "take")
        with failures.of(f"scatter {index}"), pytest.raises(IndexError, match=r"\[put\] an index is out of range"):
            o.scatter_rows_(x, _index(0, index), tk.ones((1, 2, 2)), "add", "put")
        with failures.of(f"unchanged {index}"):
            assert x.tolist() == np.ones((1, 3, 2)).tolist()
    failures.check()


def test_an_index_that_selects_nothing_is_not_looked_at() -> None:
    assert o.gather_rows(tk.ones((0, 3, 2)), _index(7), "take").shape == (0, 1, 2)


def test_sources_for_one_place_are_combined_in_order() -> None:
    source = tk.reshape(tk.asarray([1e8, 1.0, -1e8]), (1, 3, 1))
    for mode, want in (("set", -1e8), ("add", 0.0), ("minimum", -1e8), ("maximum", 1e8), ("multiply", 0.0)):
        out = o.scatter_rows_(tk.zeros((1, 2, 1)), _index(1, 1, 1), source, mode, "demo")
        assert out.tolist() == [[[0.0], [want]]], mode


def test_nan_wins() -> None:
    source = tk.reshape(tk.asarray([np.nan, 1.0]), (1, 2, 1))
    for mode in ("minimum", "maximum"):
        out = o.scatter_rows_(tk.zeros((1, 1, 1)), _index(0, 0), source, mode, "demo")
        assert np.isnan(out.numpy()).all(), mode


def test_bools_combine_as_or_and_and() -> None:
    both = tk.reshape(tk.asarray([True, False]), (1, 2, 1))
    for mode, start, want in (("add", False, True), ("multiply", True, False), ("set", True, False)):
        out = o.scatter_rows_(tk.full((1, 1, 1), start), _index(0, 0), both, mode, "demo")
        assert out.item() is want, mode


def test_a_window_is_written_in_place() -> None:
    x = tk.zeros((2, 3, 4))
    view = tk.permute_dims(x, (2, 0, 1))[1:3]
    version = x._version
    assert o.scatter_rows_(view, _index(1), tk.ones((1, 1, 1)), "add", "demo") is view
    want = np.zeros((2, 3, 4))
    want[1, :, 1:3] = 1
    assert x.tolist() == want.tolist()
    assert x._version == version + 1


def test_equal_elements_and_nans_keep_their_order() -> None:
    values, order = o.sort_rows(tk.asarray([[np.nan, 0.0, -0.0, np.nan, -1.0, 0.0]]))
    assert order.tolist() == [[4, 1, 2, 5, 0, 3]]
    assert np.signbit(values.numpy()).tolist()[0][:4] == [True, False, True, False]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: o.gather_rows(x[0], _index(0), "demo"), ValueError, r"\[gather_rows\] .* three dimensions"),
        (lambda x: o.gather_rows(x, tk.astype(_index(0), tk.int32), "demo"), ValueError, "int64"),
        (lambda x: o.gather_rows(x, tk.zeros((3, 1, 1), dtype=tk.int64), "demo"), ValueError, "broadcast"),
        (lambda x: o.scatter_rows_(x, _index(0), x[:, :1], "mean", "demo"), ValueError, "must be one of set, add"),
        (lambda x: o.scatter_rows_(x, _index(0), tk.ones((1, 1, 1), dtype=tk.int8), "add", "demo"), TypeError, "int8"),
        (lambda x: o.scatter_rows_(x[:1], _index(0), tk.ones((2, 1, 1)), "add", "demo"), ValueError, "do not fit"),
        (lambda x: o.sort_rows(x), ValueError, "two dimensions"),
        (lambda x: o.sort_rows(tk.astype(x[0], tk.complex64)), TypeError, "order"),
    ],
)
def test_refused(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(tk.ones((2, 3, 4)))


def test_complex_numbers_have_no_least() -> None:
    x = tk.ones((1, 1, 1), dtype=tk.complex64)
    with pytest.raises(TypeError, match="complex64"):
        o.scatter_rows_(x, _index(0), x, "minimum", "demo")
