"""examples/cuda_operator.py on the emulator: its kernels are right, and its two mistakes are found at their lines."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cuda_operator.py"


def test_it_checks_its_kernels_and_shows_two_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    program = runpy.run_path(str(EXAMPLE))
    program["main"](["--emulate"])
    printed = capsys.readouterr().out
    assert "backends     passed\npassed\n" in printed
    race, outside = printed.split("\nKernelFailureError: ")[1:]
    lines = program["WITHOUT_BARRIER"].splitlines()
    assert "backward: thread" in race
    assert "without a barrier between them, at backward.cu:16" in race
    assert "squares[threadIdx.x] +=" in lines[15]
    assert "after the end of an allocation of 800 bytes, at backward.cu:8" in outside
    assert "row[i] * row[i]" in lines[7]
