"""Whole programs, as they are and with one import changed: those of ``benchmarks.numpy_programs``."""

from __future__ import annotations

from typing import Any

import pytest

import tenkey as tk
from benchmarks.numpy_programs.__main__ import differences, load, programs
from tests._tiers import only_full

FILES = {path.stem: path for path in programs()}
FAST = ["edges", "heat", "kalman", "mandelbrot", "options", "tones"]


@pytest.mark.parametrize("name", only_full(list(FILES), FAST))
def test_a_program_gives_the_same_results(name: str) -> None:
    ours: Any = load(FILES[name], "tenkey")()
    theirs = load(FILES[name], "NumPy")()
    assert any(isinstance(result, tk.Tensor) for result in ours)
    assert differences(ours, theirs) == []


def test_there_are_at_least_ten() -> None:
    assert len(FILES) >= 10


def test_differences_are_noticed() -> None:
    found = load(FILES["kalman"], "NumPy")()
    other = [found[0] * 1.001, found[1][:-1], *found[2:]]
    assert differences(found, other) == ["0: other numbers", "1: the shapes (150, 3) and (149, 3)"]
