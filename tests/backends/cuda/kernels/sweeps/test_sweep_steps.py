"""The sweeps of long rows: which are made at once, and which are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.sweeps.sweep_steps import kept_rows, of_long_rows, of_registers
from tenkey.backends.external.runtime.sweep_calls import row_function
from tenkey.library import scalar as s
from tenkey.ops.declare import Rows, Sweep
from tests.backends.cuda.kernels.sweeps._row_operators import function_of

_ROW = {"x": "row"}


def _ways(name: str) -> list[list[str]]:
    return [[fold.way for fold in step.folds] for step in of_long_rows(function_of(name, "float32"))]


def _steps(*sweeps: Sweep, results: Any = None) -> list[Any]:
    f4 = np.dtype("f4")
    return of_long_rows(row_function("f", Rows(_ROW, results or {"total": "each"}, sweeps), {"x": f4}, f4))


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("softmax", [["running_sum"], []]),
        ("log_softmax", [["running_sum"], []]),
        ("logsumexp", [["running_sum"]]),
        ("row_cross_entropy", [["running_sum", "add"]]),
        ("row_cross_entropy_backward", [["running_sum"], []]),
        ("layer_norm", [["moments"], []]),
        ("layer_norm_backward", [["moments"], ["add", "add"], []]),
        ("var", [["moments"]]),
        ("softmax_backward", [["add"], []]),
        ("var_backward", [["add"], []]),
    ],
)
def test_pairs(name: str, ways: list[list[str]]) -> None:
    assert _ways(name) == ways


def test_only_results_are_stored() -> None:
    """The exponentials of softmax stay in registers; in long rows they are computed again."""
    function = function_of("softmax", "float32")
    assert [step.stored for step in of_registers(function)] == [set(), set(), {"out"}]
    last = of_long_rows(function)[-1]
    ((name, f),) = last.elements
    assert name == "out"
    assert f.parameters == ("largest", "share", "x")
    np.testing.assert_allclose(f(1.0, 0.5, 2.0), 0.5 * np.exp(1.0))


def test_what_does_not_make_a_pair() -> None:
    largest = Sweep(folds={"largest": ("maximum", lambda x: x)})
    for second in (
        {"total": ("add", lambda x, largest: s.exp(2 * x - largest))},  # of other numbers than the largest is of
        {"total": ("add", lambda x, largest: s.exp(largest - x))},
        {"total": ("maximum", lambda x, largest: s.exp(x - largest))},
        {"total": ("add", lambda x, largest: s.exp(x - largest)), "more": ("add", lambda x, largest: x * largest)},
    ):
        assert len(_steps(largest, Sweep(folds=second))) == 2
    smallest = Sweep(folds={"largest": ("minimum", lambda x: x)})
    assert len(_steps(smallest, Sweep(folds={"total": ("add", lambda x, largest: s.exp(x - largest))}))) == 2
    half = Sweep(folds={"total": ("add", lambda x: x)}, then={"mean": lambda total: total / 2})
    assert len(_steps(half, Sweep(folds={"n": ("add", lambda x, mean: s.square(x - mean))}))) == 2
    stored = Sweep(elements={"total": lambda x: x + 1}, folds={"largest": ("maximum", lambda x: x)})
    following = Sweep(folds={"n": ("add", lambda x, largest: s.exp(x - largest))})
    assert len(_steps(stored, following, results={"total": "row"})) == 2


def test_registers() -> None:
    """Values of an element that are alive between two sweeps; those of a last sweep are not."""
    expected = {
        "softmax": 1, "log_softmax": 1, "layer_norm": 1, "var": 1, "logsumexp_backward": 1, "softmax_backward": 2,
        "log_softmax_backward": 2, "layer_norm_backward": 2,
    }  # fmt: skip
    assert {name: kept_rows(function_of(name, "float32")) for name in expected} == expected
