"""The benchmarks: every row runs and agrees with the reference, and a wrong result is not measured."""

import doctest
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from benchmarks import _models, _numerics
from benchmarks.__main__ import BENCHMARKS
from benchmarks.cpu._groups import GROUPS, Group
from benchmarks.cpu._rows import Line, Operands, disagreement, make_row

MODULES = [
    "_harness", "_tables", "__main__", "cpu._references", "cpu._rows", "cpu._groups", "cpu._scaling", "cpu._profile",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    assert (
        doctest.testmod(importlib.import_module(f"benchmarks.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE)[0] == 0
    )


@pytest.mark.parametrize("group", [group for group in GROUPS if group.sized], ids=lambda group: group.name)
def test_every_row_runs_and_agrees(group: Group) -> None:
    rows = list(group.rows(1 << 8))
    assert rows
    assert {row.name: dict(row.failures) for row in rows if row.failures} == {}
    assert all("tenkey" in row.works for row in rows)


def test_a_wrong_result_is_not_measured() -> None:
    row = make_row(Line("sum", "xp.sum(x)", "xp.sum(x) + 1", "xp.sum(x)"), Operands(16))
    assert "NumPy" not in row.works
    assert "differ" in row.failures["NumPy"]
    row = make_row(Line("sum", "xp.sum(x)", "xp.no_such(x)", ""), Operands(16))
    assert row.failures == {"NumPy": "AttributeError: module 'numpy' has no attribute 'no_such'"}


def test_a_wrong_change_is_not_measured() -> None:
    row = make_row(Line("put", "z[once] = x", "z[once] = x + 1", "z[once] = x", result="z"), Operands(16))
    assert "differ" in row.failures.pop("NumPy")
    assert row.failures == {}


def test_programs_compute_in_one_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[str]] = {"tenkey": set(), "NumPy": set()}
    for name, library in (("tenkey", tk), ("NumPy", np)):
        stack = library.stack

        def noted(arrays: Any, axis: int = 0, *, inner: Any = stack, found: set[str] = seen[name]) -> Any:
            found |= {str(a.dtype) for a in arrays}
            return inner(arrays, axis=axis)

        monkeypatch.setattr(library, "stack", noted)
        _numerics.naive_bayes(400, 6, 4)(library)()
    assert seen == {"tenkey": {"float32"}, "NumPy": {"float32"}}


def test_disagreement_sees_single_elements() -> None:
    right = np.linspace(0, 1, 100)
    wrong = right.copy()
    wrong[7] = np.nan
    assert disagreement(right, right + 1e-6, 1e-3) == ""
    assert disagreement(right, wrong, 1e-3)
    assert disagreement(np.arange(3), np.array([0, 1, 3]), 1e-3) == "in 1 of 3 elements"


PROGRAMS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "k-means": _numerics.k_means(300, 4, 5, 4),
    "DBSCAN": _numerics.dbscan(120),
    "naive Bayes": _numerics.naive_bayes(400, 6, 4),
    "N-body": _numerics.n_body(20, 3),
    "smoke": _numerics.smoke(16, 2, 4),
    "image filters": _numerics.image_filters(24, 32),
    "Kalman": _models.kalman(6),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_numpy(name: str) -> None:
    ours, theirs = (np.asarray(PROGRAMS[name](library)()) for library in (tk, np))
    if ours.dtype == np.uint8:  # a level may round either way
        ours, theirs = ours.astype(np.float32), theirs.astype(np.float32)
    assert disagreement(ours, theirs, 1 / 255 if name == "image filters" else 1e-4) == ""


def test_training_programs_learn() -> None:
    step = _models.mlp([8, 16, 4], 16)(tk)
    losses = [float(step().detach()) for _ in range(30)]
    assert losses[-1] < losses[0]
    sizes: dict[str, int] = {"layers": 2, "heads": 2, "width": 8, "vocabulary": 11, "tokens": 6}
    assert _models.gpt(**sizes, gradient=False)(tk)().shape == (6, 11)
    gradient = _models.gpt(**sizes, gradient=True)(tk)()
    assert gradient.shape == (6, 8)
    assert float(tk.sum(tk.abs(gradient))) > 0


def test_every_benchmark_has_a_module() -> None:
    for benchmark in BENCHMARKS:
        assert importlib.util.find_spec(f"benchmarks.{benchmark.name}") is not None
