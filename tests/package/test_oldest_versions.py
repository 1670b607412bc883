"""tools/oldest_versions.py: the floors of the run-time dependencies as pins."""

from __future__ import annotations

import sys
from importlib.metadata import version

import pytest

from tools import oldest_versions


def test_every_requirement_has_a_floor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (*min(oldest_versions.pythons()), 0))
    assert oldest_versions.main() == 0
    pins = dict(line.split("==") for line in capsys.readouterr().out.splitlines())
    assert {"numpy", "numba", "llvmlite"} <= pins.keys()
    for name, oldest in pins.items():
        assert [int(part) for part in oldest.split(".")] <= [int(part) for part in version(name).split(".")[:3]], name


def test_a_requirement_without_a_floor() -> None:
    for requirement in ("numpy", "numpy==2.1", "numpy>=2.1,<3", "numpy[extra]>=2"):
        with pytest.raises(ValueError, match="needs a floor"):
            oldest_versions.floors([requirement])


def test_a_newer_python(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    major, minor = max(oldest_versions.pythons())
    monkeypatch.setattr(sys, "version_info", (major, minor + 1, 0))
    assert oldest_versions.main() == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "is newer than the oldest versions" in printed.err
