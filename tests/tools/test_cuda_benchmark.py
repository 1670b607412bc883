"""``python -m benchmarks.cuda``: its counts, the same work in every library, and all of it on the emulator."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import shutil
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from benchmarks.cuda import __main__ as program
from benchmarks.cuda import _checks, _libraries, _timings
from benchmarks.cuda._libraries import Library, cupy_library, tenkey_library, torch_library
from benchmarks.cuda._timings import Effort, Report
from benchmarks.cuda._work import DEVICES, WORK, Device, Part, make_work, minimum

SIDE = 12
TINY = {part.name: part for part in make_work(60, SIDE)}
ONCE = Effort(0.0, 1)
needs_emulator = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None or shutil.which("cc") is None,
    reason="the emulator needs the extra cuda and a C compiler",
)


@pytest.mark.parametrize("name", ["_checks", "_libraries", "_timings", "_work"])
def test_examples_in_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"benchmarks.cuda.{name}"), extraglobs={"tk": tk})[0] == 0


# ---- the roofline


class Number:
    """A number that counts the operations on numbers of its kind."""

    operations = 0

    def _count(self, other: Any) -> Number:
        Number.operations += 1
        return Number()

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = _count

    def __gt__(self, other: Any) -> bool:
        Number.operations += 1
        return True


def numbers(*shape: int) -> np.ndarray:
    made = np.empty(shape, object)
    for place in np.ndindex(*shape):
        made[place] = Number()
    return made


COUNTED: dict[str, Callable[[], Any]] = {
    "add, 60 float32": lambda: numbers(60) + numbers(60),
    "x * 2 + 1, 60 float32": lambda: numbers(60) * 2 + 1,
    "add a row, 12 x 12": lambda: numbers(12, 12) + numbers(12),
    "sum, 60 float32": lambda: numbers(60).sum(),
    "sum of columns, 12 x 12": lambda: numbers(12, 12).sum(0),
    "cumulative sum, 60 float32": lambda: numbers(60).cumsum(),
    "matmul 12, float32": lambda: numbers(12, 12) @ numbers(12, 12),
    "matmul 24, bfloat16": lambda: numbers(24, 24) @ numbers(24, 24),
}


@pytest.mark.parametrize("name", COUNTED)
def test_operations_are_those_that_numbers_count(name: str) -> None:
    """A sum of n numbers is counted as n operations, where n - 1 suffice."""
    Number.operations = 0
    out = np.asarray(COUNTED[name]())
    part = TINY[name]
    sums = out.size if "sum" in name or "matmul" in name else 0
    assert part.flops - sums <= Number.operations <= part.flops


@pytest.mark.parametrize("name", TINY)
def test_bytes_are_those_of_operands_and_results(name: str) -> None:
    part, bytes_ = TINY[name], 0
    size = {"float32": 4, "bfloat16": 2, "int64": 8, "float64": 8}
    library = cupy_library(np)
    made = {key: library.make(shape, dtype.replace("bfloat16", "float32")) for key, (shape, dtype) in part.operands.items()}  # fmt: skip # noqa: E501
    if name.startswith("x * 2 + 1"):  # two kernels, each of which reads and writes all elements
        bytes_ = 2 * (60 * 4 + 60 * 4)
    elif name.startswith("where"):  # a comparison with a result of one byte, and the choice
        bytes_ = (60 * 4 + 60) + (60 + 60 * 4 + 60 * 4 + 60 * 4)
    else:
        kinds = {dtype for _, dtype in part.operands.values()} - {"int64"}
        (kind,) = kinds
        out = np.asarray(eval(part.statement, {**library.names, **made}))
        result = 8 if out.dtype == np.int64 else size[kind]
        bytes_ = out.size * result + sum(
            int(np.prod(shape)) * size[dtype] for shape, dtype in part.operands.values()
        )  # fmt: skip
    assert part.bytes == bytes_


@pytest.mark.parametrize(
    ("name", "device", "microseconds", "limit"),
    [
        ("copy, 1e8 float32", "H100", 800e6 / 3.35e12, "memory"),
        ("add, 1e8 float32", "H200", 1200e6 / 4.8e12, "memory"),
        ("softmax, 4096 x 4096", "H200", 2 * 67108864 / 4.8e12, "memory"),
        ("rows by index, 4096 of 4096", "H100", (2 * 67108864 + 32768) / 3.35e12, "memory"),
        ("matmul 4096, float32", "H200", 137438953472 / 67e12, "arithmetic"),
        ("matmul 8192, bfloat16", "H200", 1099511627776 / 989e12, "arithmetic"),
        ("matmul 2048, float64", "H100", 17179869184 / 34e12, "arithmetic"),
    ],
)
def test_minimum_times(name: str, device: str, microseconds: float, limit: str) -> None:
    (part,) = [part for part in WORK if part.name == name]
    (gpu,) = [gpu for gpu in DEVICES if gpu.name == device]
    assert minimum(part, gpu) == (pytest.approx(microseconds, rel=1e-12), limit)


# ---- the same work in every library


def _results(library: Library, arrays: dict[str, np.ndarray], part: Part, made: Callable[[np.ndarray], Any]) -> Any:
    names = {**library.names, **{name: made(array) for name, array in arrays.items()}}
    found = eval(part.statement, names)
    return np.asarray(found.detach() if hasattr(found, "detach") else found)


@pytest.mark.parametrize("name", [name for name in TINY if "bfloat16" not in name])
def test_statements_compute_the_same_in_every_library(name: str) -> None:
    part, rng = TINY[name], np.random.default_rng(0)
    arrays = {
        key: rng.permutation(shape[0]) if dtype == "int64" else rng.standard_normal(shape).astype(dtype)
        for key, (shape, dtype) in part.operands.items()
    }
    expected = _results(cupy_library(np), arrays, part, np.asarray)
    others: list[tuple[Library, Callable[[np.ndarray], Any]]] = [(tenkey_library("cpu"), tk.asarray)]
    if importlib.util.find_spec("torch") is not None:
        torch = importlib.import_module("torch")
        others.append((torch_library(torch, "cpu"), torch.asarray))
    for library, made in others:
        found = _results(library, arrays, part, made)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_operands_have_their_shapes_and_dtypes() -> None:
    libraries = [tenkey_library("cpu"), cupy_library(np)]
    if importlib.util.find_spec("torch") is not None:
        libraries.append(torch_library(importlib.import_module("torch"), "cpu"))
    for library in libraries:
        for shape, dtype in (((5,), "int64"), ((3, 4), "float32"), ((2, 2), "float64")):
            made = library.make(shape, dtype)
            assert tuple(made.shape) == shape
            assert str(made.dtype).endswith(dtype)


def test_all_columns_are_filled(capsys: pytest.CaptureFixture[str]) -> None:
    """PyTorch and CuPy are measured where they are; here on the CPU, with NumPy in the place of CuPy."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    libraries, report = [tenkey_library("cpu"), torch_library(torch, "cpu"), cupy_library(np)], Report()
    _timings.large(libraries, [TINY["copy, 60 float32"], TINY["add, 60 float32"]], DEVICES[0], report, ONCE)
    _timings.small(libraries, report, ONCE)
    _timings.training(libraries, _timings.TINY, report, ONCE)
    out = capsys.readouterr().out
    assert "Error" not in out
    rows = [line for line in out.splitlines() if " us " in line]
    missing = {line.split("  ")[0] for line in rows if line.count(" us") < 3}
    assert {"add", "exp", "add, 60 float32"} <= {line.split("  ")[0] for line in rows}
    assert missing == {"add, gradient recorded", "forward and backward of a product", *_timings.TINY}  # not in CuPy
    assert all(figure.found is not None for figure in report.figures)


def test_graphs_of_torch_are_captured_after_a_first_run() -> None:
    calls: list[str] = []

    class Graph:
        def replay(self) -> None:
            calls.append("replay")

    @contextlib.contextmanager
    def noted(name: str) -> Any:
        calls.append(name)
        yield
        calls.append(f"end of {name}")

    stream = types.SimpleNamespace(wait_stream=lambda other: calls.append("wait"))
    torch = types.SimpleNamespace(
        backends=types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=True))),
        cuda=types.SimpleNamespace(
            Stream=lambda: stream, current_stream=lambda: stream, CUDAGraph=Graph, stream=lambda s: noted("side"),
            graph=lambda g: noted("capture"), synchronize=None,
        ),
        arange=lambda *a, **k: np.arange(4.0), ones=lambda *a, **k: np.ones(4), contiguous_format=None,
        exp=None, sin=None, where=None, sum=None, argmax=None, cumsum=None, device=None,
    )  # fmt: skip
    library = torch_library(torch)
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert library.graph is not None
    library.graph(lambda: calls.append("step"))()
    assert calls == [
        "wait", "side", "step", "end of side", "wait", "capture", "step", "end of capture", "replay"
    ]  # fmt: skip


def test_a_library_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    library = cupy_library(np)._replace(make=lambda shape, dtype: 1 / 0)
    report = Report()
    _timings.large([library], [TINY["add, 60 float32"]], DEVICES[0], report, ONCE)
    assert "cupy: ZeroDivisionError: division by zero" in capsys.readouterr().out
    assert report.lines()[0] == "not measured: add, 60 float32: speed over torch's: at least 0.97"


def test_targets_are_met_or_missed() -> None:
    report = Report()
    assert report.at_least("a", 0.95, 0.9) == "0.95"
    assert report.at_least("b", 0.85, 0.9) == "0.85 !"
    assert report.at_most("c", 2.5, 2.0) == "2.50 !"
    assert report.at_most("d", 2.0, 2.0) == "2.00"
    assert report.at_most("e", None, 2.0) == "-"
    assert report.lines() == [
        "met: a: 0.95, at least 0.90",
        "MISSED: b: 0.85, at least 0.90",
        "MISSED: c: 2.50, at most 2.00",
        "met: d: 2.00, at most 2.00",
        "not measured: e: at most 2.00",
    ]


def test_shares_are_of_the_minimum_the_copy_and_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of 480 bytes in 2 s and an addition of 720 in 4 s, of which torch takes 1: at 480 bytes a second."""
    times = iter([{"tenkey": 2.0, "torch": 1.0}, {"tenkey": 4.0, "torch": 1.0}])
    monkeypatch.setattr(_timings, "_times", lambda *given: next(times))
    report = Report()
    _timings.large(
        [], [TINY["copy, 60 float32"], TINY["add, 60 float32"]], Device("x", 480, {"float32": 1e9}), report, ONCE
    )
    copy, add = capsys.readouterr().out.splitlines()[1:]
    assert copy.endswith("0.50, 1.00, 0.50")
    assert add.endswith("0.38, 0.75 !, 0.25 !")
    assert [figure.found for figure in report.figures] == [0.75, 0.25]


def test_a_timing_ends_with_a_synchronization() -> None:
    events: list[str] = []
    clock = iter(np.arange(0, 100, 0.5))
    work = _timings.Work("note('call')", {"note": events.append})
    taken = _timings._time_of(work, lambda: events.append("wait"), Effort(0.4, 3), lambda: float(next(clock)))
    assert events[:4] == ["call", "call", "call", "wait"]
    assert events[-2:] == ["call", "wait"]
    assert taken > 0


# ---- checks


def test_differences_are_found() -> None:
    x = tk.arange(6.0).reshape((2, 3))
    y = x.clone()
    assert _checks.difference(x, y) == ""
    assert _checks.difference((x, [y, 1]), (y, [x, 2])) == ""
    y[1, 2] = 7.0
    assert _checks.difference(x, y) == "1 of 6 elements differ, at (1, 2): 5.0 in the place of 7.0"
    assert _checks.difference([x, y], [x, x]).startswith("1 of 6 elements differ")
    assert "in the place of float32 (2, 3)" in _checks.difference(x.T, x)
    assert "in the place of float32" in _checks.difference(tk.astype(x, tk.float64), x)
    assert "in the place of a tensor" in _checks.difference(1.0, x)
    assert "in the place of 2 results" in _checks.difference([x], [x, x])
    assert _checks.difference(tk.asarray([1, 2]), tk.asarray([1, 3])) != ""
    nan = tk.asarray([float("nan")])
    assert _checks.difference(nan, nan) == ""
    assert _checks.difference(tk.asarray([1.0]), nan) != ""


@needs_emulator
def test_the_part_for_a_gpu_runs_on_the_emulator(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(program, "others", list)  # as where neither is installed; PyTorch may be, without CUDA
    assert program.main(["--emulator", "--operators", r"^tk::(add|sum|sort|expand_dims)$"]) == 0
    out = capsys.readouterr().out
    assert "calls agree, 0 do not" in out
    assert "fallbacks to the CPU: 0" in out
    assert "Error" not in out
    measured = [line for line in out.splitlines() if line.count(" us") >= 1]
    programs = [part.name for part in make_work(1000, 16)] + [*_timings.SMALL, "eager", "graph", *_timings.TINY]
    for name in programs:
        (row, *_) = [line for line in measured[len(WORK) :] if line.startswith(f"{name}  ")]
        assert " us" in row
    targets = out[out.index("\nTargets") :]
    assert "not measured: graph of small kernels: time over torch's" in targets
    parts = [share for part in WORK[1:] for share in (part.of_copy, part.of_torch) if share is not None]
    assert targets.count("at least") == len(parts)
    assert targets.count("at most") == len(_timings.SMALL) + 1 + len(_timings.TINY)


@needs_emulator
def test_a_wrong_kernel_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    with tk.testing.cuda_emulator():
        with tk.library.register_kernel("tk::negative", "cuda", lambda x: x * 1):
            assert _checks.check_operators(60, "^tk::(negative|positive)$") > 0
        assert "tk::negative" in capsys.readouterr().out
        assert _checks.check_operators(60, "^tk::(negative|positive)$") == 0
        assert _checks.check_operators(0, "^tk::negative$") == 1
        assert "the time was up at tk::negative, 1 operators were left" in capsys.readouterr().out


@needs_emulator
def test_without_a_gpu_it_prints_what_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    from tools import kernel_figures

    kernels = [
        kernel for kernel in kernel_figures.kernels_of_table() if kernel.source.name.startswith("tk_add_vector")
    ][:2]
    assert kernels
    monkeypatch.setattr(kernel_figures, "kernels_of_table", lambda: kernels)
    monkeypatch.setattr(program, "Effort", lambda: ONCE)
    assert program.main(["--fast"]) == 0
    out = capsys.readouterr().out
    assert f"Compiled kernels: {len(kernels)} for sm_90" in out
    assert "rules that are broken: 0" in out
    assert "matmul 8192, bfloat16" in out
    host = out[out.index("Time of the host") :]
    assert all(f"  {name}  " in host for name in _timings.SMALL)
    monkeypatch.setattr(kernel_figures, "broken_rules", lambda rows: ["a kernel spills"])
    assert program.main(["--fast"]) == 1
    assert "a kernel spills" in capsys.readouterr().out


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(_libraries, "import_module", fails)
    assert _libraries.others() == []
    out = capsys.readouterr().out
    assert "torch is left out: ModuleNotFoundError: No module named 'torch'" in out
    assert "cupy is left out" in out


@needs_emulator
def test_the_time_of_the_host_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    from benchmarks import cuda_host

    monkeypatch.setattr("sys.argv", ["cuda_host", "--rounds", "1", "--target", "1e-6", "--clock", "cpu"])
    cuda_host.main()
    out = capsys.readouterr().out
    for name in (*cuda_host.OPERATORS, *cuda_host.LAUNCHES):
        (row,) = [line for line in out.splitlines() if line.startswith(f"{name} ")]
        assert row.split()[-1] != "-"
    assert out.count("least of the rounds") == len(cuda_host.SMALL)
