"""tools/soak: it finds planted faults, reduces them to what is needed, and repeats a run by its seed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tenkey as tk
from tests.backends.cuda._emulated import emulated
from tests.tools import _soak_faults
from tools.soak.__main__ import Soak, main
from tools.soak.checking import FAILURES, check
from tools.soak.operators import LIBRARIES, OPERATORS
from tools.soak.programs import MODES, Input, Program, Step, generate, source, used
from tools.soak.shrinking import script, shrink, smaller
from tools.soak.worker import Worker

ROOT = Path(__file__).resolve().parents[2]


def _program(*steps: Step, mode: str = "forward", dtype: str = "float32", values: tuple[float, ...] = ()) -> Program:
    values = values or (0.3, -1.2, 0.7, 1.9)
    given = Input("x0", dtype, (2, 2), values, differentiable=True, batched=False)
    return Program((given,), steps, ((steps[-1].target or steps[-1].operands[0], "f"),), mode)


def test_a_seed_gives_the_same_programs() -> None:
    first = [generate(5, number) for number in range(60)]
    assert first == [generate(5, number) for number in range(60)]
    assert first != [generate(6, number) for number in range(60)]
    assert {program.mode for program in first} == set(MODES)
    assert {program.threads for program in first} == {1, 2, 3, 4}
    many = [generate(5, number) for number in range(500)]
    assert {program.compiled for program in many} == {"off", "all", "on"}
    assert {name for program in many for name in used(program)} >= set(OPERATORS) - {"det", "inv", "outer", "einsum"}


def test_every_spelling_is_an_expression_of_its_library() -> None:
    for number in range(300):
        program = generate(7, number)
        for library in LIBRARIES:
            compile(source(program, library), "<program>", "exec")


def test_programs_agree() -> None:
    """Against NumPy and finite differences, so that the tests need no PyTorch."""
    outcomes = [check(generate(11, number), torch=False) for number in range(60)]
    assert not [outcome for outcome in outcomes if outcome.kind in FAILURES]
    assert sum(outcome.kind == "agrees" for outcome in outcomes) > 30


@pytest.mark.parametrize("mode", ["forward", "second"])
def test_programs_on_another_device(mode: str) -> None:
    with emulated() as emulator:
        program = _program(Step("v0", "sin", ("x0",)), Step("v1", "multiply", ("v0", "x0")), mode=mode)
        emulator.reset_counts()
        assert check(program, torch=False).kind == "agrees"
        assert emulator.counts.launches == 0
        program = program._replace(device="cuda")
        assert check(program, torch=False).kind == "agrees"
        assert emulator.counts.launches > 0
        space: dict[str, object] = {}
        exec(script(program, check(program, torch=False)), space)
        assert isinstance(space["x0"], tk.Tensor)
        assert space["x0"].device.type == "cuda"
        emulator.fail_next("cuLaunchKernel*", 719)
        assert check(program, torch=False).kind == "internal error"


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_runs(mode: str) -> None:
    program = _program(Step("v0", "sin", ("x0",)), Step("v1", "multiply", ("v0", "x0")), mode=mode)
    if mode.startswith("vmap"):
        given = program.inputs[0]
        program = program._replace(inputs=(given._replace(batched=True, values=given.values * 3),))
    assert check(program, torch=False).kind == "agrees"


def test_rounding_is_no_failure() -> None:
    """Cancellation in single precision: far from exact, and as near as can be; near zero it is skipped."""
    steps = Step("v0", "exp", ("x0",)), Step("v1", "subtract", ("v0", "x0")), Step("v2", "log", ("v1",))
    assert check(_program(*steps), torch=False).kind == "agrees"
    nothing = Step("v0", "half", ("x0",)), Step("v1", "subtract", ("v0", "v0")), Step("v2", "sign", ("v1",))
    assert check(_program(*nothing), torch=False).kind in {"skipped: ill-conditioned", "skipped: near a discontinuity"}


def test_what_single_precision_rounds_to_a_step_is_skipped() -> None:
    """tanh(10) is 1 in single precision, and 1 - 4e-9 in double precision: `trunc` takes them apart."""
    for step in (Step("v1", "tanh", ("v0",)), Step("", "tanh_", ("v0",))):
        steps = Step("v0", "add", ("x0", "x0")), step, Step("v2", "trunc", (step.target or "v0",))
        assert (
            check(_program(*steps, values=(5.0, 0.25, -5.0, 2.0)), torch=False).kind == "skipped: near a discontinuity"
        )
        assert check(_program(*steps, values=(2.0, 0.25, -2.0, 1.0)), torch=False).kind == "agrees"


def test_the_sign_of_a_rounding_error_is_skipped() -> None:
    """log_softmax of a far larger element is 0 but for rounding, and `copysign` takes its sign."""
    steps = Step("v0", "log_softmax", ("x0",), (("axis", "-2"),)), Step("v1", "copysign", ("x0", "v0"))
    values = (-0.521, -4.457, 22.339, -16.543)
    assert check(_program(*steps, values=values), torch=False).kind == "skipped: ill-conditioned"


def test_the_truth_of_a_rounding_error_is_skipped() -> None:
    """logsumexp of log_softmax is 0 but for rounding, which may be nothing."""
    ways = ("axis", "-1"), ("keep", "True")
    sums = Step("v0", "log_softmax", ("x0",), ways[:1]), Step("v1", "logsumexp", ("v0",), ways)
    program = _program(*sums, Step("v2", "any", ("v1",), ways), dtype="float64", values=(1.6, 1.2, 1.6, 1.2))
    assert check(program, torch=False).kind == "skipped: near a discontinuity"


def test_kinks_are_skipped() -> None:
    """The gradient of an order of equal elements is one of several, and not what differences give."""
    order = Step("v0", "take_along", ("x0",), (("axis", "-2"), ("keep", "True")))
    tied = _program(order, Step("v1", "tanh", ("v0",)), mode="backward", values=(-0.4, 1.95, 0.8, 1.95))
    assert check(tied, torch=False).kind == "skipped: near a discontinuity"
    apart = _program(order, Step("v1", "tanh", ("v0",)), mode="backward", values=(-0.4, 1.95, 0.8, 1.85))
    assert check(apart, torch=False).kind == "agrees"


@pytest.mark.parametrize("mode", ["second", "jvp of grad"])
@pytest.mark.parametrize("square", [Step("v1", "square", ("x0",)), Step("", "square_", ("v1",))])
def test_touched_kinks_are_skipped(mode: str, square: Step) -> None:
    """abs(x**2) has a second derivative at 0, which is not the product of those of its steps: that of abs is 0."""
    steps = Step("v1", "add", ("x0", "x0")), square, Step("v2", "abs", ("v1",))
    touched = _program(*steps, mode=mode, values=(0.0, 0.25, -0.5, 2.0))
    assert check(touched, torch=False).kind == "skipped: near a discontinuity"
    apart = _program(*steps, mode=mode, values=(0.1, 0.25, -0.5, 2.0))
    assert check(apart, torch=False).kind == "agrees"


def test_wrong_kernel() -> None:
    """The fault is found in a random program and reduced to the wrong operator and one or two numbers."""
    handle = _soak_faults.wrong_tanh()
    try:
        wrong = next(
            program for program in (generate(3, number) for number in range(2000))
            if program.mode == "forward" and check(program, torch=False).kind == "wrong value"
        )  # fmt: skip
        small = shrink(wrong, "wrong value", lambda program: check(program, torch=False), 500, smaller)
        assert small == shrink(wrong, "wrong value", lambda program: check(program, torch=False), 500, smaller)
        outcome = check(small, torch=False)
        assert outcome.kind == "wrong value"
        text = script(small, outcome)
    finally:
        handle.remove()
    assert len(small.steps) == 1
    assert "tanh" in small.steps[0].operator
    assert (len(small.inputs), small.threads, small.callers) == (1, 1, 1)
    assert np.prod(small.inputs[0].shape) == 1
    assert "tools" not in text
    (expected,) = re.findall(r"# expected: \[*([^\]\s]+)", text)
    ran = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    printed = re.findall(r"tensor\(\[*([-+.e\d]+)", ran.stdout)
    np.testing.assert_allclose(float(printed[0]), float(expected), rtol=1e-3)  # the fault is not planted there
    assert check(small, torch=False).kind == "agrees"


def test_operands_that_share_memory() -> None:
    """What is changed is read before, as in NumPy; a standard deviation that is zero but for rounding is skipped."""
    overlapping = (
        Step("v0", "sin", ("x0",)),
        Step("v1", "diagonal", ("v0",), (("k", "0"),)),
        Step("", "sub_", ("v0", "v1")),
    )
    assert check(_program(*overlapping)._replace(results=(("v0", "f"),)), torch=False).kind == "agrees"
    equal = (
        Step("v0", "broadcast_to", ("x0",), (("shape", "(3, 2, 2)"),)),
        Step("v1", "std", ("v0",), (("axis", "(0,)"), ("keep", "False"))),
    )
    assert check(_program(*equal, mode="backward"), torch=False).kind == "skipped: ill-conditioned"


def test_an_exception_that_is_not_documented_is_a_failure() -> None:
    handle = _soak_faults.failing_tanh()
    try:
        outcome = check(_program(Step("v0", "tanh", ("x0",))), torch=False)
    finally:
        handle.remove()
    assert outcome.kind == "internal error"
    assert "KeyError" in outcome.detail


def test_inputs_of_every_dtype_are_reduced() -> None:
    for dtype, value in (("bool", True), ("uint8", 3), ("int64", -2), ("float32", 0.25), ("complex64", 1 + 2j)):
        given = Input("x0", dtype, (2, 3), (value,) * 18, differentiable=dtype[0] in "fc", batched=True)
        program = Program((given,), (Step("v0", "clone", ("x0",)),), (("v0", given.dtype[0]),), "vmap", 3, 2, "all")
        small = shrink(program, "agrees", lambda candidate: check(candidate, torch=False), 500, smaller)
        assert (small.mode, small.threads, small.callers, small.compiled) == ("forward", 1, 1, "off")
        assert small.inputs[0].shape == ()
    nothing = Input("x0", "float32", (0, 3), (), differentiable=True, batched=True)
    program = Program((nothing,), (Step("v0", "clone", ("x0",)),), (("v0", "f"),), "vmap")
    small = shrink(program, "agrees", lambda candidate: check(candidate, torch=False), 500, smaller)
    assert not small.inputs[0].batched


def test_refusals_are_no_failures() -> None:
    saved = _program(Step("v0", "exp", ("x0",)), Step("", "sin_", ("v0",)), mode="backward")
    assert check(saved, torch=False).kind == "known difference"
    both = _program(Step("v0", "matmul", ("x0", "x1")))
    other = Input("x1", "float32", (3,), (1.0, 2.0, 3.0), differentiable=False, batched=False)
    assert check(both._replace(inputs=(*both.inputs, other)), torch=False).kind == "refused by both"


@pytest.mark.parametrize(("fault", "kind"), [("crashing_tanh", "crash"), ("hanging_tanh", "hang")])
def test_a_worker_survives(fault: str, kind: str) -> None:
    worker = Worker("off", f"tests.tools._soak_faults:{fault}", torch=False, limit=3.0)
    try:
        outcome = worker.run(_program(Step("v0", "tanh", ("x0",))))
        assert outcome[0] == kind
        if kind == "crash":
            assert "_soak_faults.py" in outcome[1], "where it crashed"
        worker.limit = 60.0
        assert worker.run(_program(Step("v0", "sin", ("x0",))))[0] == "agrees"
    finally:
        worker.close()


@pytest.mark.full
def test_a_run_reports_a_crash(capsys: pytest.CaptureFixture[str]) -> None:
    soak = Soak(3, "tests.tools._soak_faults:crashing_tanh", torch=False, checks=6)
    try:
        numbers = (n for n in range(2000) if "tanh" in set(used(generate(3, n))) and generate(3, n).compiled == "off")
        assert soak.run(next(numbers)).kind == "crash"
    finally:
        soak.close()
    printed = capsys.readouterr().out
    assert "crash" in printed
    assert "results = " in printed


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "11", "--programs", "12", "--without-torch"]) == 0
    printed = capsys.readouterr().out
    assert "soak: seed 11" in printed
    assert "12 programs" in printed
    assert "0 failures (seed 11)" in printed
    assert tk.get_num_threads() >= 1
