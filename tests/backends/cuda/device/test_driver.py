"""The driver's functions as exceptions, and what is said where something is missing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from tenkey.backends.cuda.device import contexts, driver
from tenkey.backends.cuda.device.driver import CudaError, DriverMissingError, OutOfMemoryError, cu
from tenkey.dispatch.errors import TenkeyError
from tests.backends.cuda._emulated import emulated

ABSENT = """
import ctypes, sys
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    pass
else:
    sys.exit(77)
import tenkey as tk
from tenkey.backends.cuda.device import driver
for _ in range(3):
    text = driver.missing()
    assert text is not None and not driver.is_available()
print(text)
try:
    driver.cu.cuMemAlloc(8)
except driver.DriverMissingError as error:
    assert str(error) == text and isinstance(error, RuntimeError)
else:
    raise AssertionError
assert not tk.cuda.is_available() and tk.cuda.device_count() == 0
assert "cuda.core" not in sys.modules
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_without_a_driver() -> None:
    pytest.importorskip("cuda.bindings", reason="the extra cuda is not installed")
    done = run(ABSENT)
    if done.returncode == 77:
        pytest.skip("this machine has a driver")
    assert done.returncode == 0, done.stderr
    assert "libcuda.so.1" in done.stdout
    assert "tk.testing.cuda_emulator()" in done.stdout


@pytest.mark.parametrize("package", driver._PACKAGES)
def test_without_a_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "find_spec", lambda name: None if name == package else object())
    monkeypatch.setattr(driver, "cu", driver._Driver())
    text = driver.missing()
    assert text is not None
    assert package in text
    assert "pip install 'tenkey[cuda]'" in text


def test_a_driver_that_appears_later_is_found() -> None:
    with emulated(), contexts.enter(0):
        assert driver.missing() is None
        assert driver.is_available()
        assert cu.cuDriverGetVersion() >= 12000  # one value is not a tuple
        assert len(cu.cuMemGetInfo()) == 2
        with pytest.raises(AttributeError):
            _ = cu.allocate


def test_errors_are_exceptions() -> None:
    with emulated() as emulator, contexts.enter(0):
        emulator.fail_next("cuMemGetInfo", 999)
        with pytest.raises(CudaError, match=r"\[cuda\] cuMemGetInfo failed with CUDA_ERROR_UNKNOWN \(999") as caught:
            cu.cuMemGetInfo()
        assert (caught.value.code, caught.value.name) == (999, "CUDA_ERROR_UNKNOWN")
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.code) == (str(caught.value), 999)
        assert isinstance(caught.value, TenkeyError)
        assert isinstance(caught.value, RuntimeError)
        emulator.fail_next("cuMemGetInfo", 2)
        with pytest.raises(OutOfMemoryError) as memory:
            cu.cuMemGetInfo()
        assert isinstance(memory.value, MemoryError)
        cu.cuMemGetInfo()


def test_no_device_is_said() -> None:
    with emulated() as emulator:
        cu.__dict__.pop("cuInit", None)
        emulator.fail_next("cuInit", 100)
        assert "CUDA_VISIBLE_DEVICES" in str(driver.missing())
        cu.__dict__.pop("cuInit", None)
        emulator.fail_next("cuInit", 804)
        with pytest.raises(DriverMissingError, match="804"):
            cu._start()
        assert driver.missing() is None


FORKED = """
import os, tenkey as tk
from tenkey.backends.cuda.device.driver import CudaError, cu
emulator = tk.testing.cuda_emulator()
cu.cuDeviceGetCount()
child = os.fork()
if child == 0:
    try:
        cu.cuDeviceGetCount()
    except CudaError as error:
        os._exit(0 if "spawn" in str(error) else 2)
    os._exit(3)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
cu.cuDeviceGetCount()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told() -> None:
    with emulated():
        pass
    done = run(FORKED)
    assert done.returncode == 0, done.stderr
