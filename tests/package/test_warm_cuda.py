"""``python -m tenkey warm --cuda``: Note [Kernels that are found by calls]."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")
if shutil.which("cc") is None:
    pytest.skip("the emulator needs a C compiler", allow_module_level=True)

import tenkey as tk
from tenkey.backends.cuda.compiling import Figures, KernelSource, numba_compiler, translation
from tenkey.backends.cuda.device import launching, prepared_launches
from tenkey.backends.cuda.memory import transfers
from tenkey.backends.llvm import complaints
from tenkey.commands import cuda_kernels, main, warm_cuda

FLOAT32 = np.dtype("float32")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("TENKEY_CACHE_LIMIT", "TENKEY_PREBUILT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(complaints, "_said", set())


def test_a_folder_for_another_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "built"
    arguments = ["warm", "--cuda", "sm_90", "--out", str(out), "--operators", "add", "--dtypes", "float32"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines() if line.startswith("tk_add")]
    assert {"tk_add_vector_float32", "tk_add_strided2_float32"} <= {line[0] for line in lines}
    (vector,) = [line for line in lines if line[0] == "tk_add_vector_float32"]
    assert vector[1] == "sm_90"
    assert int(vector[2]) > 0, "registers"
    assert vector[3:5] == ["0", "0"], "spills and local memory"
    assert vector[7] == "2", "loads of 128 bits"
    assert vector[9] == "1", "stores of 128 bits"
    assert vector[-1] == "tk::add"
    assert f"{len(lines)} kernels in {out}: {len(lines)} were compiled" in said
    assert "let TENKEY_PREBUILT there be its path" in said
    assert len([*out.iterdir()]) == 2 * len(lines), "machine code and PTX of each"

    shutil.move(out, tmp_path / "elsewhere")
    monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "another"))
    for name in translation.counts:
        monkeypatch.setitem(translation.counts, name, 0)
    with tk.testing.cuda_emulator():
        x = tk.asarray([1.0, 2.0], dtype=tk.float32, device="cuda")
        assert (x + x).tolist() == [2.0, 4.0]
    assert translation.counts["prebuilt"] >= 1
    assert translation.counts["translated"] == 0


def test_kernels_of_large_calls_and_other_dtypes() -> None:
    with tk.testing.cuda_emulator(execute=False):
        found = cuda_kernels.kernels_of([FLOAT32, np.dtype("int32")], ["sum", "cumulative_sum", "add"])
    names = {kernel.source.name for kernel in found}
    assert {"tk_add_vector_float32", "tk_add_vector_int32"} <= names
    assert any("block" in name for name in names), "the form for long rows"
    assert {kernel.operator for kernel in found} == {"tk::add", "tk::cumulative_sum", "tk::sum"}
    assert len({kernel.source for kernel in found}) == len(found)


def test_loops_that_wait_for_values() -> None:
    """The body of the loop of ``lcm`` and what comes after it are noted, the same in each run, and the loop ends."""
    found = []
    for _ in range(2):
        with tk.testing.cuda_emulator(execute=False) as emulator:
            found.append({kernel.source.name for kernel in cuda_kernels.kernels_of([np.dtype("int32")], ["lcm"])})
            assert emulator.counts.launches < 1000
    assert found[0] == found[1]
    assert {"tk_remainder_vector_uint64", "tk_multiply_vector_uint64"} <= found[0]


def test_calls_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless() -> None:
        x = tk.ones(4, device="cuda")
        while True:
            x = x + 1

    monkeypatch.setattr(cuda_kernels, "_sample_calls", lambda operator, dtype: [endless])
    with tk.testing.cuda_emulator(execute=False):
        found = cuda_kernels.kernels_of([FLOAT32], ["add"])
    assert any(kernel.source.name.startswith("tk_add_") for kernel in found)


def test_nothing_is_left_behind() -> None:
    def changed() -> list[Any]:
        launched = [vars(module)["launched"] for module in (launching, prepared_launches)]
        return [vars(launching)["_image_of"], vars(transfers)["to_host"], *launched]

    before = changed()
    with tk.testing.cuda_emulator() as emulator:
        with tk.testing.cuda_emulator(execute=False):
            cuda_kernels.kernels_of([FLOAT32], ["add"])
        assert changed() == before
        x = tk.asarray([1.0, 2.0], device="cuda")
        assert (x + x).tolist() == [2.0, 4.0], "a real kernel, not the empty one"
        assert emulator.counts.launches


def test_kernels_that_do_not_compile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = cuda_kernels.CudaKernel(
        KernelSource("wrong", "def wrong(x):\n    x[0] = unknown\n", ("int32*",)), "tk::wrong"
    )
    right = cuda_kernels.CudaKernel(KernelSource("right", "def right(x):\n    x[0] = 1\n", ("int32*",)), "tk::right")
    monkeypatch.setattr(warm_cuda, "_found", lambda dtypes, operators: [wrong, right])
    assert main(["warm", "--cuda", "sm_90"]) == 1
    printed = capsys.readouterr()
    assert "1 kernels in the cache of compiled code: 1 were compiled" in printed.out
    assert "1 failures" in printed.out
    assert "tk::wrong: wrong for sm_90: " in printed.err


def _constants(count: int) -> list[cuda_kernels.CudaKernel]:
    text = "def k{i}(x):\n    x[0] = {i}\n"
    return [
        cuda_kernels.CudaKernel(KernelSource(f"k{i}", text.format(i=i), ("int32*",)), f"tk::op{i}")
        for i in range(count)
    ]


def test_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many kernels are compiled by several processes, with the same results."""
    kernels = _constants(3)
    alone = warm_cuda.build(kernels, [(9, 0)], None)
    assert [operator for _, operator in alone.rows] == ["tk::op0", "tk::op1", "tk::op2"]
    monkeypatch.setattr(warm_cuda, "_FEW", 0)
    assert warm_cuda.build(kernels, [(9, 0)], None, jobs=2) == alone._replace(compiled=0)


def test_what_is_in_the_cache_is_not_compiled_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that was interrupted goes on; each run fills the folder."""
    kernels = _constants(3)
    translate = numba_compiler.python_to_ptx
    monkeypatch.setattr(warm_cuda, "_found", lambda dtypes, operators: kernels)

    def interrupted(source: KernelSource, cc: tuple[int, int]) -> str:
        if source.name == "k2":
            raise KeyboardInterrupt
        return translate(source, cc)

    monkeypatch.setattr(translation, "python_to_ptx", interrupted)
    assert main(["warm", "--cuda", "sm_90", "--out", str(tmp_path / "first")]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(translation, "python_to_ptx", translate)
    for number, compiled in ((1, 1), (2, 0)):
        out = tmp_path / f"out{number}"
        assert main(["warm", "--cuda", "sm_90", "--out", str(out)]) == 0
        assert f"{compiled} were compiled in 0 s, {3 - compiled} were in the cache" in capsys.readouterr().out
        assert len([*out.iterdir()]) == 6


def test_a_process_that_ends(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system lacks memory: the remedy is named, and nothing waits for ever."""
    monkeypatch.setattr(warm_cuda, "_FEW", 0)
    monkeypatch.setattr(warm_cuda, "_begin_process", os.abort)
    built = warm_cuda.build(_constants(3), [(9, 0)], None, jobs=2)
    assert built.rows == []
    assert len(built.failures) == 3
    assert "tk::op0: k0 for sm_90: a process that compiles has ended" in built.failures[0]
    assert "--jobs" in built.failures[0]


def test_progress_without_tqdm(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert (
        main(["warm", "--cuda", "sm_90", "--operators", "add", "negative", "--dtypes", "float32", "--jobs", "1"]) == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["1/2 tk::add", "2/2 tk::negative"], "operators that are called"
    assert lines[4].startswith("1/")
    assert lines[4].endswith(" tk::add")


def test_prebuilt_kernels_load_without_a_compiler(tmp_path: Path) -> None:
    """In a process with another cache: neither numba nor a library of compilers is imported."""
    out = tmp_path / "built"
    assert main(["warm", "--cuda", "sm_90", "--out", str(out), "--operators", "add", "sum", "--dtypes", "float32"]) == 0
    code = """
import sys, tenkey as tk
from tenkey.backends.cuda.compiling import cubin_of, translation
from tenkey.backends.cuda.device import launching, prepared_launches
from tenkey.backends.cuda.memory import transfers
with tk.testing.cuda_emulator(execute=False):
    x = tk.ones(1 << 20, dtype=tk.float32, device="cuda")
    (x + x).sum()
    sources = [source for source, _ in launching._made]
    elf = all(cubin_of(source, (9, 0)).image.startswith(b"\\x7fELF") for source in sources)
compilers = {"numba", "numba_cuda", "cuda.bindings.nvrtc", "cuda.bindings.nvjitlink"}
counts = translation.counts
print(len(sources), elf, counts["translated"], counts["linked"], counts["prebuilt"], *compilers & {*sys.modules})
"""
    environment = os.environ | {
        "PYTHONPATH": str(Path(tk.__file__).parents[1]),
        "TENKEY_PREBUILT": str(out),
        "TENKEY_CACHE_DIR": str(tmp_path / "new"),
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    kernels = int(done.stdout.split()[0])
    assert kernels >= 3
    assert done.stdout.split() == [str(kernels), "True", "0", "0", str(2 * kernels)], "PTX and machine code of each"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cuda", "hopper"], "'hopper' is not an architecture such as sm_80"),
        (["--out", "folder"], "--out is for --cuda"),
        (["--jobs", "2"], "--jobs is for --cuda"),
        (["--cuda", "sm_90", "--jobs", "0"], "--jobs: 0 is not a number of processes"),
        (["--cuda", "sm_90", "--operators", "unknown_operator"], "No operator that launches a kernel has a name like"),
        (["--cuda", "sm_90", "--dtypes", "float33"], "--dtypes: [dtype] got 'float33'"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_the_extra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenkey.backends.cuda.device.driver._PACKAGES", ("a_compiler_of_nobody",))
    assert main(["warm", "--cuda", "sm_90"]) == 1
    assert "a_compiler_of_nobody is not installed" in capsys.readouterr().err


def test_the_command_imports_nothing_of_cuda_for_the_cpu() -> None:
    loaded = "'tenkey.backends.cuda' in sys.modules, 'numba' in sys.modules"
    code = f"import sys; from tenkey.commands import warm; print({loaded})"
    environment = os.environ | {"PYTHONPATH": str(Path(tk.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False", "False"]


def test_the_table() -> None:
    figures = Figures("k", "sm_90", 32, 0, 0, 1024, 4, 1, 2, 1, 0, 0.75)
    head, row = warm_cuda.table([(figures, "tk::f")])
    assert head.split()[:3] == ["kernel", "arch", "registers"]
    assert row.split() == ["k", "sm_90", "32", "0", "0", "1024", "4", "1", "2", "1", "0", "0.75", "tk::f"]
