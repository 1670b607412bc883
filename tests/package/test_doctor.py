"""``python -m tenkey doctor``: it finds what is wrong, and says how to solve it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.llvm import complaints, images
from tenkey.commands import doctor, gpu_findings, main
from tenkey.core.compiled import loading


@pytest.fixture(autouse=True)
def _well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without settings, and an empty cache."""
    for name in [name for name in os.environ if name.startswith("TENKEY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(complaints, "_said", set())
    monkeypatch.setattr(loading, "reason", "")  # whether or not this installation has a compiled core
    monkeypatch.setattr(loading, "remedy", "")
    monkeypatch.setattr(gpu_findings, "_load", lambda name: None)  # whatever GPUs this machine has


def _report(capsys: pytest.CaptureFixture[str]) -> tuple[int, str, list[str]]:
    """Return the exit status, the report, and the problems."""
    status = main(["doctor"])
    report, _, problems = capsys.readouterr().out.partition(" (!):\n")
    return status, report, problems.splitlines()


def test_a_machine_without_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, report, problems = _report(capsys)
    assert (status, problems) == (0, []), report
    assert report.endswith("No problems were found.\n")
    lines = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in report.splitlines()}
    assert lines["numpy"] == np.__version__
    assert lines["llvmlite"] == metadata.version("llvmlite")
    assert lines["core"] == "compiled"
    assert lines["threads of a call"].startswith(str(tk.get_num_threads()))
    assert lines["folder"] == f"{tmp_path / 'cache' / 'kernels'}, private and writable"
    assert lines["compiled kernels"].startswith("work")
    assert lines["NVIDIA driver"].startswith("none")
    assert lines["TENKEY_CACHE_DIR"] == str(tmp_path / "cache")
    assert doctor._OPTIONAL.keys() < lines.keys()


def test_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "tenkey", "doctor"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "No problems were found." in done.stdout
    done = subprocess.run([sys.executable, "-m", "tenkey", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "warm" in done.stdout
    assert "doctor" in done.stdout


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TENKEY_COMPILE", "off", "all operators run on NumPy. Unset it"),
        ("TENKEY_COMPILE", "sync", "must be on or off"),
        ("TENKEY_CACHE_LIMIT", "0", "no kernel is saved"),
        ("TENKEY_CACHE_LIMIT", "much", "'much', not a number of megabytes"),
        ("TENKEY_POOL", "python", "slow to wake: unset it"),
        ("TENKEY_CACHE", "/tmp", "TENKEY_CACHE_DIR, TENKEY_CACHE_LIMIT, "),
    ],
)
def test_settings(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)
    status, report, problems = _report(capsys)
    assert status == 1
    assert len(problems) == 1, problems
    assert words in problems[0]
    assert report.count("(!)") == 1
    assert report.endswith("\n1 problem")


@pytest.mark.parametrize("remedy", ["", "Unset TENKEY_COMPILED."])
def test_the_core_in_python(remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An installation without a compiler is not a problem; a core that cannot be loaded is."""
    monkeypatch.setattr(loading, "reason", "TENKEY_COMPILED=0")
    monkeypatch.setattr(loading, "remedy", remedy)
    status, report, problems = _report(capsys)
    assert status == bool(remedy)
    assert problems == (
        ["- core: TENKEY_COMPILED=0: small calls run in Python. Unset TENKEY_COMPILED."] if remedy else []
    )
    assert "  reason:               TENKEY_COMPILED=0\n" in report


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
def test_a_folder_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(shared))
    status, _, problems = _report(capsys)
    assert status == 1
    (problem,) = problems
    assert f"other users can write to {shared}" in problem
    assert "Set TENKEY_CACHE_DIR to a folder that only you can write to" in problem


def test_without_llvm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    version = metadata.version

    def missing(name: str) -> str:
        if name == "llvmlite":
            raise metadata.PackageNotFoundError
        return version(name)

    monkeypatch.setattr(metadata, "version", missing)
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    for name in ("tenkey.backends.llvm.machine_code", "tenkey.backends.llvm.llvm_library"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(name, raising=False)
    status, _, problems = _report(capsys)
    assert status == 1
    cuda = ["- CUDA compiler"] * _HAS_EXTRA
    assert [problem.partition(":")[0] for problem in problems] == ["- llvmlite", "- compiled kernels", *cuda]
    assert all("llvmlite" in problem and "pip install" in problem for problem in problems)


def test_a_system_that_does_not_run_what_was_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(image: bytes) -> dict[str, int]:
        raise images.ImageError("memory that was written cannot become executable (Permission denied)")

    monkeypatch.setattr(images, "load", refused)
    status, _, (problem,) = _report(capsys)
    assert status == 1
    assert "Permission denied" in problem


def test_a_section_that_fails_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setitem(doctor._SECTIONS, "Threads", broken)
    status, report, (problem,) = _report(capsys)
    assert status == 1
    assert "ZeroDivisionError: a bug" in problem
    assert "numba-cuda" in report


# ---- GPUs, with a driver that is made up


class _Driver:
    def __init__(self, error: int = 0, names: tuple[bytes, ...] = (), version: int = 13010) -> None:
        self.error, self.names, self.version = error, names, version

    def cuInit(self, flags: int) -> int:  # noqa: N802 -- the driver's names
        return self.error

    def cuDriverGetVersion(self, place: Any) -> int:  # noqa: N802
        place._obj.value = self.version
        return 0

    def cuDeviceGetCount(self, place: Any) -> int:  # noqa: N802
        place._obj.value = len(self.names)
        return 0

    def cuDeviceGetName(self, place: Any, size: int, number: int) -> int:  # noqa: N802
        place.value = self.names[number]
        return 0


def test_gpus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(loading, "reason", "")  # whether or not this installation has a compiled core
    monkeypatch.setattr(loading, "remedy", "")
    monkeypatch.setattr(gpu_findings, "_load", lambda name: _Driver(names=(b"First", b"Second")))
    status, report, _ = _report(capsys)
    assert status == 0
    for words in ("for CUDA 13.1", "device 0:             First", "device 1:             Second"):
        assert words in report
    assert ("pip install 'tenkey[cuda]'" in report) == (not _HAS_EXTRA)


_HAS_EXTRA = all(find_spec(name) for name in ("numba_cuda", "cuda", "nvmath"))
_needs_extra = pytest.mark.skipif(not _HAS_EXTRA, reason="needs the extra cuda")


@_needs_extra
def test_the_compiler_of_kernels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "CUDA compiler:        works (" in _report(capsys)[1]

    def fail(*arguments: Any) -> Any:
        raise RuntimeError("libnvJitLink.so is missing\nmore")

    monkeypatch.setattr("tenkey.backends.cuda.compiling.linking.link", fail)
    status, _, (problem,) = _report(capsys)
    assert status == 1
    assert problem == ("- CUDA compiler: RuntimeError: libnvJitLink.so is missing. Remedy: pip install 'tenkey[cuda]'.")


@_needs_extra
def test_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(loading, "reason", "")  # whether or not this installation has a compiled core
    monkeypatch.setattr(loading, "remedy", "")
    monkeypatch.setattr(gpu_findings, "_load", lambda name: _Driver(names=(b"First",), version=12040))
    status, report, (problem,) = _report(capsys)
    assert status == 1
    assert "for CUDA 12.4" in report
    assert "update the driver" in problem


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    known = gpu_findings.version_of
    monkeypatch.setattr(gpu_findings, "version_of", lambda name: None if "cuda" in name else known(name))
    monkeypatch.setattr(loading, "reason", "")  # whether or not this installation has a compiled core
    monkeypatch.setattr(loading, "remedy", "")
    monkeypatch.setattr(gpu_findings, "_load", lambda name: _Driver(names=(b"First",)))
    status, report, _ = _report(capsys)
    assert status == 0
    assert "First; tenkey needs the extra to use it: pip install 'tenkey[cuda]'" in report
    assert "CUDA compiler" not in report


def test_prebuilt_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path))
    status, _, (problem,) = _report(capsys)
    assert status == 1
    assert "python -m tenkey warm --cuda" in problem
    (tmp_path / "0.kernel").write_bytes(b"")
    status, report, _ = _report(capsys)
    assert (status, f"1 files in {tmp_path}" in report) == (0, True)
    monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "nowhere"))
    status, _, (problem,) = _report(capsys)
    assert status == 1
    assert "is not a folder" in problem


def test_a_driver_that_does_not_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(loading, "reason", "")  # whether or not this installation has a compiled core
    monkeypatch.setattr(loading, "remedy", "")
    monkeypatch.setattr(gpu_findings, "_load", lambda name: _Driver(error=804))
    status, _, (problem,) = _report(capsys)
    assert status == 1
    assert "cuInit returns 804" in problem
    assert "nvidia-smi" in problem


def test_gpus_that_are_hidden(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(loading, "reason", "")  # whether or not this installation has a compiled core
    monkeypatch.setattr(loading, "remedy", "")
    monkeypatch.setattr(gpu_findings, "_load", lambda name: _Driver())
    assert _report(capsys)[0] == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    status, _, (problem,) = _report(capsys)
    assert status == 1
    assert "hides all GPUs" in problem
