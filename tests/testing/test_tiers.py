"""tests/_tiers.py: a folded test rejects what the tests of its cases would reject, and says which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import _tiers
from tests._tiers import Failures, each

ROOT = Path(__file__).resolve().parents[2]


def test_every_case_runs_and_every_failure_is_named() -> None:
    seen = []

    @each("dtype", ["a", "b", "c", "d"])
    def folded(operator: str, dtype: str) -> None:
        seen.append((operator, dtype))
        assert dtype not in ("b", "d"), f"{operator} is wrong"

    with pytest.raises(AssertionError) as caught:
        folded(operator="sin")
    assert seen == [("sin", dtype) for dtype in "abcd"]
    text = str(caught.value)
    assert text.startswith("2 of 4 cases fail:\n  dtype=b: AssertionError: sin is wrong")
    assert "\n  dtype=d: AssertionError: sin is wrong" in text
    assert "(testing/test_tiers.py:" in text
    assert isinstance(caught.value.__cause__, AssertionError)


def test_several_names() -> None:
    seen = []

    @each(("first", "second"), [(1, 2), (3, 4)])
    def folded(first: int, second: int) -> None:
        seen.append((first, second))
        assert first == 1

    with pytest.raises(AssertionError, match=r"1 of 2 cases fail:\n  first=3, second=4: AssertionError"):
        folded()
    assert seen == [(1, 2), (3, 4)]


@pytest.mark.parametrize("error", [ValueError("no"), RecursionError("deep"), pytest.fail.Exception("failed")])
def test_any_error_is_a_failure(error: BaseException) -> None:
    failures = Failures()
    with failures.of("first"):
        raise error
    with pytest.raises(AssertionError, match=f"1 of 1 cases fail:\n  first: {type(error).__name__}: {error}"):
        failures.check()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, pytest.exit.Exception])
def test_what_ends_the_run_is_not_kept(error: type[BaseException]) -> None:
    with pytest.raises(error), Failures().of("first"):
        raise error


def test_skips() -> None:
    @each("value", [1, 2])
    def folded(value: int, skipped: tuple[int, ...]) -> None:
        if value in skipped:
            pytest.skip(f"not {value}")

    folded(skipped=(1,))
    with pytest.raises(pytest.skip.Exception, match="not 1"):
        folded(skipped=(1, 2))


@pytest.mark.parametrize("full", [False, True])
def test_tiers(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_tiers._state, "full", full)
    seen: list[int] = []

    @each("value", [1, 2, 3], fast=[2])
    def folded(value: int) -> None:
        seen.append(value)

    folded()
    assert seen == ([1, 2, 3] if full else [2])
    assert _tiers.tier(5, 50) == (50 if full else 5)
    marked = _tiers.only_full(["a", "b"], ["b"])
    assert [getattr(value, "marks", ()) != () for value in marked] == [True, False]


def test_a_parameter_that_is_not_there_is_refused() -> None:
    with pytest.raises(AssertionError, match="no parameter 'dtype'"):
        each("dtype", [1])(lambda kind: None)


MODULE = """
import pytest
from tests._tiers import each
@pytest.mark.full
def test_expensive(): assert True
@each("n", [1, 2], fast=[1])
def test_sweep(n): assert n == 1
def test_cheap(): assert True
"""


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ([], "2 passed, 1 deselected"),
        (["--full"], "1 failed, 2 passed"),
        (["--full", "-m", "full or wider"], "1 failed, 1 passed, 1 deselected"),
    ],
)
def test_the_option(options: list[str], outcome: str, tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command += ["-p", "no:xdist", "-c", "pyproject.toml", "--rootdir", ".", "-p", "conftest"]
    done = subprocess.run([*command, *options, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"\n{outcome} in " in done.stdout, done.stdout + done.stderr
