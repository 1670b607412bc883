"""The conformance suite passes right backends, from any folder, and names what is wrong with others.

``tests/tools/test_wrong_kernels.py`` tests that it rejects wrong ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests._tiers import each, tier

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tenkey.testing.backend"
WITH = "tests._registered_backends"
# of the operators those that a fault shows in, and some beside them: all of them take a minute
SOME = "tk::add- or tk::add_- or tk::exp- or tk::sum- or tk::matmul or tk::tanh- or square- or sigmoid- or operands"


def suite(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    # `-p`: the tests may run without tenkey being installed, and so without its entry point for pytest
    command = [sys.executable, "-m", "pytest", "-p", "tenkey_pytest", "-p", "no:hypothesispytest"]
    command += ["-q", "--tb=line", "--pyargs", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment())


def environment() -> dict[str, str]:
    """That of a process that runs the suite, from any folder."""
    made = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    made.pop("PYTEST_ADDOPTS", None)
    return made


def lines_of(text: str) -> dict[str, str]:
    """The four lines of the coverage."""
    return dict(re.findall(r"^(implemented|derived|fallback|wrong) \(\d+\): ?(.*)$", text, re.MULTILINE))


@pytest.mark.parametrize("parallel", [(), pytest.param(("-n", "2"), marks=pytest.mark.full)], ids=["alone", "xdist"])
def test_a_right_backend_passes_from_any_folder(tmp_path: Path, parallel: tuple[str, ...]) -> None:
    left_out = "test_operators" if parallel else "(test_operators or own_memory)"
    done = suite(
        SUITE, "--backend", "right", "--backend-module", WITH, "-k", f"not {left_out} or {SOME}",
        "-W", "error", *parallel, folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = lines_of(done.stdout)
    assert "coverage of the backend 'right'" in done.stdout
    assert found["implemented"] == ""
    assert found["wrong"] == ""
    assert {"tk::add", "tk::exp", "tk::sum", "tk::reshape", "tk::add_"} <= set(found["derived"].split(", "))
    assert re.search(r"tk::matmul x\d+", found["fallback"])


def test_the_report_names_what_is_wrong(tmp_path: Path) -> None:
    done = suite(
        f"{SUITE}.test_operators", "--backend", "raises", "--backend-module", WITH, "-k", SOME, folder=tmp_path
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert lines_of(done.stdout)["wrong"] == "tk::tanh"
    said = "the backend 'raises' raised KeyError for float32: 'mistake of the author'"
    assert said in done.stdout


def test_the_host_memory_example(tmp_path: Path) -> None:
    module = str(ROOT / "examples" / "custom_backend.py")
    done = suite(f"{SUITE}.test_operators", "--backend", "toy", "--backend-module", module, "-k", SOME, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines_of(done.stdout)["implemented"] == "tk::add, tk::matmul, tk::multiply, tk::subtract, tk::tanh"


@pytest.mark.wider
@each(
    ("arguments", "message"),
    [
        ((), "the conformance suite needs a device"),
        (("--backend", "nowhere"), "unknown device 'nowhere'"),
        (("--backend", "x", "--backend-module", "missing.py"), "there is no file"),
        (("--backend", "cpu"), "is not an external backend"),
        (("--backend", "right:7", "--backend-module", WITH), "so there is no 'right:7'"),
        (("--backend", "x", "--backend-module", "no_such_module"), "--backend-module no_such_module: ModuleNotFound"),
    ][: tier(3, None)],
)
def test_usage_errors(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = suite(SUITE, *arguments, folder=tmp_path)
    assert done.returncode == 4, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_other_runs_do_not_see_the_suite(tmp_path: Path) -> None:
    """What every run loads imports nothing and adds no option, and the repository's own run skips the suite."""
    (tmp_path / "test_mine.py").write_text("import sys\ndef test(): assert 'tenkey' not in sys.modules\n")
    done = suite("test_mine.py", folder=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "--backend" not in suite("--help", folder=tmp_path).stdout
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tenkey/testing"]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert "tenkey/testing/samples.py::" in collected
    assert "test_tensors" not in collected
