"""numba-cuda and nvrtc as compilers of kernels: what the PTX contains, and how mistakes are reported."""

from __future__ import annotations

import re
import subprocess
import sys
import threading

import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.compiling import CudaSource, KernelSource, numba_compiler, translation
from tenkey.backends.cuda.compiling.numba_compiler import python_to_ptx
from tenkey.backends.cuda.compiling.nvrtc_compiler import CudaCompileError, cuda_to_ptx
from tenkey.backends.cuda.device.driver import DriverMissingError
from tests.backends.cuda.compiling._sources import SCALE, TRIPLE

_ARCHITECTURES = ((8, 0), (9, 0), (10, 0))


def _instructions(ptx: str) -> list[str]:
    code = re.sub(r"//.*", "", ptx)
    return re.findall(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.]*)\s", code, re.MULTILINE)


@pytest.mark.parametrize("cc", _ARCHITECTURES, ids=str)
def test_python(cc: tuple[int, int]) -> None:
    ptx = python_to_ptx(SCALE, cc)
    assert f".target sm_{cc[0]}{cc[1]}" in ptx
    assert ".visible .entry scale(" in ptx
    assert re.search(r"\.maxntid\s+256", ptx), "the launch bounds"
    parameters = re.findall(r"\.param \.(\w+)[^\n]* (scale_param_\d+)", ptx)
    assert parameters == [("u32", "scale_param_0"), *[("u64", f"scale_param_{i}") for i in (1, 2, 3)]]
    assert not [one for one in _instructions(ptx) if one.startswith("call")], "the helper function is inlined"


@pytest.mark.parametrize("cc", _ARCHITECTURES, ids=str)
@pytest.mark.parametrize("language", ["Python", "CUDA C++"])
def test_products_are_not_contracted(language: str, cc: tuple[int, int]) -> None:
    """The assembler may fuse a ``mul.f32`` and an ``add.f32``, but not those that name the rounding."""
    ptx = python_to_ptx(SCALE, cc) if language == "Python" else cuda_to_ptx(TRIPLE, cc)
    found = [one for one in _instructions(ptx) if one.endswith(".f32") and one.split(".")[0] in ("mul", "add", "fma")]
    assert {"mul.rn.f32", "add.rn.f32"} == set(found)


def test_lines_of_the_source() -> None:
    ptx = python_to_ptx(SCALE, (9, 0))
    assert '"<scale.py>"' in ptx
    store = ptx[: ptx.index("st.global")]
    (line,) = re.findall(r"\.loc\s+1 (\d+) ", store)[-1:]
    quoted = re.findall(r"^//> ?(.*)$", ptx, re.MULTILINE)
    assert quoted[int(line) - 1].strip() == "out[i] = twice(x[i]) * y[i] + x[i]"
    ptx = cuda_to_ptx(TRIPLE, (9, 0))
    (line,) = re.findall(r"\.loc\s+1 (\d+) ", ptx[: ptx.index("st.global")])[-1:]
    assert "out[i] = x[i]" in re.findall(r"^//> ?(.*)$", ptx, re.MULTILINE)[int(line) - 1]


_IN_A_PROCESS = """
import os, sys
sys.path.insert(0, {root!r})
os.chdir({folder!r})
from tests.backends.cuda.compiling._sources import *
from tenkey.backends.cuda.compiling.numba_compiler import python_to_ptx
from tenkey.backends.cuda.compiling.nvrtc_compiler import cuda_to_ptx
for _ in range({times}):
    python_to_ptx(HALVE, (8, 0))
print(python_to_ptx(SCALE._replace(shared=16), (9, 0)))
print(cuda_to_ptx(TRIPLE, (9, 0)))
"""


def test_equal_sources_have_equal_ptx(tmp_path: object, request: pytest.FixtureRequest) -> None:
    """In any folder, whatever the process compiled before."""
    texts = []
    for times, folder in enumerate((str(tmp_path), "/")):
        code = _IN_A_PROCESS.format(root=str(request.config.rootpath), folder=folder, times=times)
        texts.append(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert texts[0] == texts[1]
    assert ".entry scale(" in texts[0]
    assert str(request.config.rootpath) not in texts[0]


def test_several_threads() -> None:
    """They compile for different devices at once, and helper functions get the right one."""
    found: dict[tuple[int, int], str] = {}
    threads = [
        threading.Thread(target=lambda cc=cc: found.update({cc: python_to_ptx(SCALE, cc)})) for cc in _ARCHITECTURES
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {cc: python_to_ptx(SCALE, cc) for cc in _ARCHITECTURES} == found


def test_the_device_of_numba_is_asked_as_before() -> None:
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    python_to_ptx(SCALE, (9, 0))
    with pytest.raises(Exception, match="unknown_name"):
        python_to_ptx(KernelSource("wrong", "def wrong(x):\n    x[0] = unknown_name\n", ("float32*",)), (9, 0))
    assert dispatcher.get_current_device is before


def test_what_nvvm_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_compiler, "_VARIABLES", re.compile("ret void"))
    with pytest.raises(numba_compiler.NvvmError, match=r"(?s)\[scale\] NVVM refuses the kernel for sm_90.*parse"):
        python_to_ptx(SCALE, (9, 0))


def test_shared_memory_has_stable_names() -> None:
    text = """
def turn(out, x):
    s = cuda.shared.array(64, float32)
    d = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    d[t] = x[t]
    cuda.syncthreads()
    out[t] = s[63 - t] + d[63 - t]
"""
    ptx = python_to_ptx(KernelSource("turn", text, ("float32*", "float32*"), 64, 256), (9, 0))
    assert "_cudapy" not in ptx
    assert set(re.findall(r"turn_smem_\d", ptx)) == {"turn_smem_0", "turn_smem_1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('extern "C" __global__ void wrong(float *x) { x[0] = unknown; }', r"(?s)\[wrong\].*identifier \"unknown\""),
        ("__global__ void wrong(float *x) { x[0] = 1; }", r'\[wrong\].*extern "C" __global__ void wrong'),
    ],
)
def test_wrong_cuda(text: str, message: str) -> None:
    with pytest.raises(CudaCompileError, match=message):
        cuda_to_ptx(CudaSource("wrong", text, ("float32*",)), (9, 0))


def test_an_architecture_that_nvrtc_does_not_know() -> None:
    with pytest.raises(CudaCompileError, match="gpu-architecture"):
        cuda_to_ptx(TRIPLE, (1, 0))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tenkey.backends.cuda.device.driver._PACKAGES", ("a_compiler_of_nobody",))
        message = r"a_compiler_of_nobody is not installed.*tenkey\[cuda\].*scale.*TENKEY_PREBUILT"
        with pytest.raises(DriverMissingError, match=message), translation.with_compilers("scale"):
            raise AssertionError("nothing may be tried without the packages")
    with (
        pytest.raises(DriverMissingError, match=r"\[scale\].*no such library.*pip install 'tenkey\[cuda\]'"),
        translation.with_compilers("scale"),
    ):
        raise ImportError("no such library\nand more lines")
    with pytest.raises(RuntimeError, match=r"^another$"), translation.with_compilers("scale"):
        raise RuntimeError("another")
