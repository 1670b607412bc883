"""``python -m tools.soak --numpy``: it reports planted faults, reduces them, and repeats a run by its seed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.soak.__main__ import main
from tools.soak.arrays.differences import DIFFERENCES, known
from tools.soak.arrays.drawing import generate
from tools.soak.arrays.program import FAILURES, ArrayProgram, script
from tools.soak.arrays.running import check, small_calls
from tools.soak.arrays.session import ArraySession

ROOT = Path(__file__).resolve().parents[2]
SINH = ArrayProgram("compared", ("v0 = np.ones(3)", "v1 = v0 + 1", "v2 = np.sinh(v0)", "v3 = v2 + v1"))


@pytest.fixture
def sessions() -> Iterator[list[ArraySession]]:
    made: list[ArraySession] = []
    yield made
    for session in made:
        session.close()


def _session(sessions: list[ArraySession], fault: str, limit: float = 60.0) -> ArraySession:
    sessions.append(ArraySession(1, f"tests.tools._array_faults:{fault}", checks=20, limit=limit))
    return sessions[-1]


def _failing(session: ArraySession, program: ArrayProgram, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a program as if it had been drawn; return the report of its failure."""
    monkeypatch.setattr(session, "draw", lambda number: program)
    session.run(0)
    (failure,) = session.failures
    return failure


def test_a_seed_gives_the_same_programs() -> None:
    programs = [generate(5, number) for number in range(80)]
    assert programs == [generate(5, number) for number in range(80)]
    assert programs != [generate(6, number) for number in range(80)]
    kinds = Counter(program.kind for program in programs)
    assert set(kinds) == {"compared", "hostile", "interrupted"}
    assert all(program.timer > 0 for program in programs if program.kind == "interrupted")
    assert sum(len(program.lines) for program in programs) > 400


def test_a_wrong_result_is_reduced(sessions: list[ArraySession], monkeypatch: pytest.MonkeyPatch) -> None:
    failure = _failing(_session(sessions, "wrong_sinh"), SINH, monkeypatch)
    assert "wrong value" in failure
    assert "np.sinh(v0)" in failure
    assert "v0 + 1" not in failure, "not reduced"
    text = failure[failure.index("from __future__") :]
    subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("fault", "operand", "sign"),
    [("aborting_index", "Index(1)", signal.SIGABRT), ("reading_null", "AsArray(2.0)", signal.SIGSEGV)],
)
def test_a_crash_is_reduced(
    sessions: list[ArraySession], monkeypatch: pytest.MonkeyPatch, fault: str, operand: str, sign: signal.Signals
) -> None:
    """In a callback of an operand; programs after it run in a new process."""
    session = _session(sessions, fault)
    lines = ("x = np.ones(3)", "y = x + 1", f"e = {operand}", f"r = {'x[e]' if 'Index' in operand else 'x + e'}")
    failure = _failing(session, ArrayProgram("hostile", lines), monkeypatch)
    assert "crash" in failure
    assert f"status {-sign}" in failure
    assert "y = x + 1" not in failure, "not reduced"
    assert session.outcome(SINH).kind == "agrees"


def test_a_hang_is_reported(sessions: list[ArraySession], monkeypatch: pytest.MonkeyPatch) -> None:
    session = _session(sessions, "hanging_index", limit=5.0)
    monkeypatch.setattr("tools.soak.session._CHECKS", {"hang": 1})
    failure = _failing(session, ArrayProgram("hostile", ("x = np.ones(3)", "x[Index(1)]")), monkeypatch)
    assert "hang" in failure
    assert "_array_faults.py" in failure, "where it hangs"


def test_a_lost_interrupt_is_reported(sessions: list[ArraySession]) -> None:
    program = ArrayProgram("interrupted", ("v0 = np.ones(3)", "v1 = np.sinh(v0)"), timer=10)
    lost = _session(sessions, "lost_interrupts").outcome(program)
    assert lost.kind == "lost interrupt"
    assert lost.raised > lost.arrived
    found = check(program)
    assert (found.kind, found.raised, found.arrived) == ("agrees", 10, 10)


def test_interrupts_of_finalizers_are_not_lost() -> None:
    """They have no caller, so Python prints what they raise."""
    end = "import time; time.sleep(0.2)"
    found = check(ArrayProgram("interrupted", (f"v0 = freed(numpy.ones(3), {end!r})", "del v0"), timer=10))
    assert (found.kind, found.raised, found.arrived) == ("agrees", 10, 10)


def test_an_internal_error_is_reported(sessions: list[ArraySession]) -> None:
    session = _session(sessions, "internal_error")
    for kind in ("compared", "hostile"):
        result = session.outcome(SINH._replace(kind=kind))
        assert result.kind == "internal error"
        assert "planted" in result.detail


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("v0 = numbers((3,), np.float32 if np is numpy else 'f8', 1)", "wrong dtype"),
        ("v0 = np.zeros(3 if np is numpy else 4)", "wrong shape"),
        ("v0 = np.zeros(3) if np is numpy else 'text'", "wrong type"),
        ("v0 = 1 if np is numpy else 2", "wrong value"), ("v0 = [0.0 if np is numpy else -0.0]", "wrong value"),
        ("v0 = np.zeros(3)[7 if np is numpy else 1]", "wrong error"),
        ("v0 = np.zeros(3)[1 if np is numpy else 7]", "wrong error"),
        ("v0 = np.zeros(3)[7] if np is numpy else int('')", "wrong error"),
    ],
)  # fmt: skip
def test_every_kind_of_difference(line: str, kind: str) -> None:
    assert check(ArrayProgram("compared", (line,))).kind == kind


@pytest.mark.parametrize("values", ["[0.1], [0.1 + 2.4e-17]", "2j, 1e-16 + 2j"])
def test_rounding_ends_a_program(values: str) -> None:
    lines = (f"v0 = np.array(({values})[np is not numpy])", "v1 = 0 if np is numpy else 1")
    assert check(ArrayProgram("compared", lines)).kind == "rounding"


def test_an_empty_array_stays_read_only() -> None:
    lines = ("v0 = np.broadcast_to(np.zeros((0,)), (3, 0))", "v1 = np.transpose(v0)", "v1[...] = v1[None]")
    assert check(ArrayProgram("compared", lines)).kind == "agrees"


def test_the_element_that_rounding_does_not_explain_is_named() -> None:
    lines = ("v0 = np.array([1.0, 2.0] if np is numpy else [1.0000000000000002, np.nan])",)
    outcome = check(ArrayProgram("compared", lines))
    assert (outcome.kind, "at (1,), np.float64(2.0) in NumPy" in outcome.detail) == ("wrong value", True)


@pytest.mark.parametrize("layout", [".T", ".T[::-1]", "[::-1].T"])
def test_the_memory_of_results_may_be_in_another_order(layout: str) -> None:
    lines = (f"v0 = numbers((4, 3), 'f8', 1){layout}", "v1 = np.minimum(v0, v0)", "v2 = v1.ravel()", "v1 += 1")
    assert check(ArrayProgram("compared", lines)).kind == "agrees"


def test_programs_with_threads() -> None:
    threads = ("kernels", "modes", "transforms", "collections")
    result = check(SINH._replace(threads=threads))
    assert result.kind == "agrees"
    assert result.statements > len(SINH.lines)


def test_differences_are_of_kinds_that_exist() -> None:
    assert all(entry.kind in FAILURES and entry.reason for entry in DIFFERENCES)
    assert known("v0 = np.negative(v1) == 10**30", "wrong error", "OverflowError() in NumPy; no error here")
    assert not known("v0 = v1 + v1", "wrong value", "at (0,), 1.0 in NumPy; 2.0 here")


def test_the_script_is_complete() -> None:
    text = script(ArrayProgram("hostile", ("x = np.ones(3)", "x[trap('__index__', 'x.fill(2)', 1)]", "print(x)")), "")
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[2.", "2.", "2.]"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--numpy", "--seed", "11", "--programs", "12"]) == 0
    printed = capsys.readouterr().out
    assert "12 programs" in printed
    assert "0 crashes and hangs, 0 differences" in printed
    assert small_calls() in printed
