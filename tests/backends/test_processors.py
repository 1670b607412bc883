"""``TENKEY_CPU``: kernels for the levels of x86-64 that this processor has, each in a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tenkey.backends.llvm.llvm_library import library

_LEVELS = {"x86-64-v2": "sse4.2", "x86-64-v3": "fma", "x86-64-v4": "avx512f"}
_REPORT = """
import hashlib
from tenkey.backends import processor
from tenkey.backends.llvm import code_cache, machine_code
name, _ = processor.host()
module = "define float @f(float %x) {\\n%y = fmul contract float %x, %x\\n%z = fadd contract float %y, %x\\n"
print(name, *[feature for feature in ("sse4.2", "fma", "avx512f") if processor.has_feature(feature)])
print("vfmadd" in machine_code.assembly(module + "ret float %z\\n}"))
print(hashlib.sha256(code_cache.environment()).hexdigest())
"""
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the levels are those of x86-64")


def _run(level: str, *arguments: str) -> str:
    environment = {**os.environ, "TENKEY_CPU": level}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _possible() -> list[str]:
    features = library().text("GetHostCPUFeatures").split(",")
    return [level for level, feature in _LEVELS.items() if f"+{feature}" in features]


def test_levels_leave_out_instructions() -> None:
    keys = {_run("", "-c", _REPORT).splitlines()[2]}
    for number, level in enumerate(_possible(), start=1):
        known, fused, key = _run(level, "-c", _REPORT).splitlines()
        assert known.split() == [level, *[*_LEVELS.values()][:number]]
        assert fused == str(number > 1), level
        keys.add(key)
    assert len(keys) == 1 + len(_possible())  # no process loads kernels for another processor


@pytest.mark.parametrize("level", ["x86-64", "x86-64-v5", "znver9"])
def test_a_level_that_is_unknown(level: str) -> None:
    program = """
from tenkey.backends import processor
from tenkey.backends.llvm import complaints
print(processor.host()[0])
complaints.utter()
"""
    environment = {**os.environ, "TENKEY_CPU": level}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == library().text("GetHostCPUName")
    assert f"TENKEY_CPU is '{level}', and must be {', '.join(_possible())} on this processor" in done.stderr


@pytest.mark.full
@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize(
    "what",
    ["expressions", "libm", "product_loops", "reduction_loops", "scan_loops", "sorting_loops", "gathering_loops"],
)
def test_every_level_computes_right(level: str, what: str) -> None:
    if level not in _possible():
        pytest.skip("this processor lacks instructions of the level")
    _run(level, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/backends/test_{what}.py")
