"""tools/exhaustive: it measures errors in units in the last place, and finds single wrong patterns."""

import doctest
from typing import Any

import numpy as np
import pytest

from tools import exhaustive
from tools.exhaustive import BOUND, BOUNDS, check, check_named, functions, patterns, references, samples, ulps

Array = np.ndarray[Any, Any]
NAMES = sorted(functions().keys() & references().keys())
STRIDE = 40_009  # 107,351 patterns


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(exhaustive)[0] == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_within_the_bound(name: str) -> None:
    assert check_named(name, patterns(0, 1 << 32, STRIDE)).error <= BOUNDS.get(name, BOUND)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="longdouble is not wider than float64 on this system")
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "cbrt"])
def test_a_sample_of_float64_is_within_the_bound(name: str) -> None:
    assert check_named(name, samples(20_000, 0, exhaustive.DOMAINS.get(name, (-20.0, 20.0)))).error <= BOUND


def test_patterns_cover_every_number_once() -> None:
    found = np.concatenate(list(patterns(0, 1 << 22, 1)))
    assert np.array_equal(found.view(np.uint32), np.arange(1 << 22, dtype=np.uint32))
    last = list(patterns((1 << 32) - 5, 1 << 32, 1))[-1]
    assert last.view(np.uint32).tolist() == list(range((1 << 32) - 5, 1 << 32))


@pytest.mark.parametrize("wrong", [np.float32(np.nan), np.float32(np.inf), np.float32(7.25), np.float32(-0.0)])
def test_a_single_wrong_result_is_found(wrong: np.float32) -> None:
    target = np.uint32(0x40490FDB)

    def function(x: Array) -> Array:
        return np.where(x.view(np.uint32) == target, wrong, np.sqrt(x))

    start = int(target) - 3000
    assert check(np.sqrt, np.sqrt, patterns(start, start + 6000, 1)).error <= 0.5
    found = check(function, np.sqrt, patterns(start, start + 6000, 1))
    assert found.error > 1e6
    assert np.float32(found.at).view(np.uint32) == target
    assert found.count == 6000


def test_special_results_must_be_exact() -> None:
    exact = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])
    right = exact.astype(np.float32)
    assert ulps(right, exact).tolist() == [0.0] * 5
    assert ulps(-right[1:], exact[1:]).tolist() == [np.inf] * 4
    assert ulps(-right[3:], exact[3:], signed=False).tolist() == [0.0] * 2
    assert ulps(np.array([1.0], np.float32), np.array([np.nan]))[0] == np.inf


def test_errors_near_the_ends_of_the_range() -> None:
    limits = np.finfo(np.float32)
    largest, least = float(limits.max), float(limits.smallest_subnormal)
    assert ulps(np.array([np.inf], np.float32), np.array([largest]))[0] == 1
    assert ulps(np.array([largest], np.float32), np.array([1e39]))[0] == 1
    assert ulps(np.array([3 * least], np.float32), np.array([least]))[0] == 2
    assert ulps(np.array([0], np.float32), np.array([least / 4]))[0] == 0.25


def test_the_command_tells_of_failures(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--only", "sqrt", "--stride", "2000003", "--jobs", "1"]
    assert exhaustive.main(options) == 0
    assert "1 of 1 functions within their bounds" in capsys.readouterr().out
    assert exhaustive.main([*options, "--bound", "-1"]) == 1
    assert "sqrt: FAILED" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        exhaustive.main(["--only", "no_such_function"])
