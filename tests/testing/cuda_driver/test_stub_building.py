"""How the stub driver is compiled, and when it is refused."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenkey.testing.cuda_driver import stub_building
from tenkey.testing.cuda_driver.stub_building import CompilerMissingError, compiler, load_stub, source_files

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler")


@needs_compiler
def test_the_stub_bears_the_name_of_the_driver() -> None:
    stub = load_stub()
    found = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    assert found._handle == stub._handle
    assert load_stub() is stub


@needs_compiler
def test_its_source_compiles_without_warnings(tmp_path: Path) -> None:
    sources = [str(path) for path in source_files() if path.suffix == ".c"]
    options = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers",
               "-Wno-cast-function-type"]  # fmt: skip
    subprocess.run(
        [compiler() or "cc", *options, "-shared", "-fPIC", "-O1", "-o", tmp_path / "x", *sources], check=True
    )


def test_a_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert compiler() is None
    with pytest.raises(CompilerMissingError, match="no C compiler was found"):
        stub_building._compile()


@needs_compiler
def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(CompilerMissingError, match="no such option"):
        stub_building._compile()


REFUSED = """
import ctypes, sys
ctypes.CDLL(sys.argv[1])
import tenkey as tk
try:
    tk.testing.cuda_emulator()
except RuntimeError as error:
    print(error)
"""


@needs_compiler
def test_a_real_driver_is_not_replaced(tmp_path: Path) -> None:
    source, library = tmp_path / "driver.c", tmp_path / "other.so"
    source.write_text("int cuInit(unsigned flags) { return 0; }\n")
    options = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source)]
    subprocess.run([compiler() or "cc", *options], check=True)
    done = subprocess.run([sys.executable, "-c", REFUSED, str(library)], capture_output=True, text=True, check=True)
    assert "is loaded in this process, and it cannot be replaced" in done.stdout


@needs_compiler
def test_the_driver_is_found_after_a_failed_search() -> None:
    """CUDA's libraries find the emulator even if they looked for a driver in vain before."""
    pytest.importorskip("cuda.bindings")
    text = """
from cuda.bindings import driver
try:
    driver.cuInit(0)
    print("a driver")
except Exception:
    print("none")
import tenkey as tk
tk.testing.cuda_emulator()
print(int(driver.cuInit(0)[0]), driver.cuDeviceGetCount()[1])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    if done.stdout.startswith("a driver"):
        pytest.skip("this machine has a driver, which cannot be replaced")
    assert done.stdout.split() == ["none", "0", "1"], done.stderr
