"""The shipped dialects: each is compiled where a compiler exists, and run where its code can run on this machine."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey.library import scalar as s
from tenkey.testing import PrintedFunction, check_printer
from tenkey.testing.printer_cases import cases, conversions
from tests._tiers import is_full, tier

from . import _runners

DIALECTS = [*s.C_DIALECTS, "wgsl"]
WITHOUT_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
WITHOUT_CXX = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
NO_HALF_NEXTAFTER = ["nextafter on float16", "nextafter on bfloat16"]


def printer(dialect: str) -> Any:
    return functools.partial(s.to_c, dialect=dialect)


def declined_operations(declined: list[str]) -> list[str]:
    return [title for title in declined if not title.startswith("all expressions")]


@pytest.mark.wider
@WITHOUT_CC
def test_c(tmp_path: Path) -> None:
    fast = ["bool", "int16", "uint8", "float16", "float32", "complex64"]
    report = check_printer(printer("c"), _runners.c_runner(tmp_path), dtypes=None if is_full() else fast)
    assert report.checked > tier(350, 1100)
    assert declined_operations(report.declined) == NO_HALF_NEXTAFTER[: tier(1, 2)]
    assert not is_full() or report.declined == NO_HALF_NEXTAFTER


def test_opencl() -> None:
    """On PoCL, whose compiler takes seconds for each dtype: the fast tier leaves most to the full one."""
    pytest.importorskip("pyopencl", reason="needs pyopencl and an OpenCL device: pip install pyopencl[pocl]")
    fast = ["float32", "int8"]
    report = check_printer(printer("opencl"), _runners.opencl_runner(), dtypes=None if is_full() else fast)
    assert declined_operations(report.declined) == (NO_HALF_NEXTAFTER if is_full() else [])


@pytest.fixture(scope="module")
def gpu() -> Any:
    device = _runners.wgsl_device()
    if device is None:
        pytest.skip("needs the package wgpu and a driver, such as Mesa's for Vulkan on the CPU")
    return device


def test_wgsl(gpu: Any) -> None:
    """Over OpenGL only integers are run: GLSL does not define comparisons with NaN."""
    dtypes = ["bool", "int32", "uint32"]
    if gpu.adapter.info["backend_type"] != "OpenGL":
        dtypes += ["float32", "complex64", *(["float16"] if "shader-f16" in gpu.features else [])]
    report = check_printer(printer("wgsl"), _runners.wgsl_runner(gpu), dtypes=dtypes, subnormals=False)
    assert set(declined_operations(report.declined)) <= {"fma on float32", "fma on float16", "nextafter on float16"}


def test_wgsl_is_valid(gpu: Any) -> None:
    """What creates a module is naga, which checks the whole of it."""
    functions = [f for f in printed("wgsl") if "float16" not in (f.result, *f.parameters.values())]
    assert len(functions) > 250
    for f in functions if is_full() else functions[::5]:
        gpu.create_shader_module(code=_runners.wgsl_module(f))
    with pytest.raises(Exception, match="no definition in scope"):
        gpu.create_shader_module(code=_runners.wgsl_module(functions[0]._replace(name="missing")))


@WITHOUT_CXX
@pytest.mark.wider
@pytest.mark.parametrize("dialect", ["cuda", "metal"])
def test_with_a_compiler_of_cpp(dialect: str, tmp_path: Path) -> None:
    """CUDA C and Metal are C++ with another library, which a header imitates: syntax and results are right."""
    head = _runners.metal_head() if dialect == "metal" else _runners.CUDA_HEAD
    dtypes = None if is_full() else ["int16", "float16", "complex64"]
    report = check_printer(printer(dialect), _runners.cxx_runner(tmp_path, head, dialect), dtypes=dtypes)
    assert declined_operations(report.declined) == NO_HALF_NEXTAFTER[: tier(1, 2)]
    if is_full():
        missing = [title.split()[-1] for title in report.declined if title.startswith("all")]
        assert missing == (["float64", "complex128"] if dialect == "metal" else [])


def printed(dialect: str) -> list[PrintedFunction]:
    """Return the function of every case that a dialect accepts."""
    types = s.WGSL.types if dialect == "wgsl" else s.C_DIALECTS[dialect].types
    found: list[PrintedFunction] = []
    for dtype in types:
        for case in [*cases(dtype), *[case for other in types for case in conversions(other, dtype)]]:
            try:
                text = s.to_c(case.expression, case.parameters, dtype=case.dtype, result=case.result, dialect=dialect,
                              name=f"element{len(found)}")  # fmt: skip
            except s.UnsupportedOperationError:
                continue
            found.append(PrintedFunction(f"element{len(found)}", text, case.parameters, case.result, case.arrays))
    return found


@pytest.mark.full
@pytest.mark.skipif(
    _runners.nvrtc() is None and shutil.which("nvcc") is None,
    reason="needs a compiler of CUDA: the package nvidia-cuda-nvrtc, or the toolkit",
)
def test_cuda_compiles(tmp_path: Path) -> None:
    functions = printed("cuda")
    types = s.C_DIALECTS["cuda"].types
    text = "".join(f.source for f in functions)
    for f in functions:
        pointers = "".join(f", const {types[dtype]} *x{i}" for i, dtype in enumerate(f.parameters.values()))
        call = ", ".join(f"x{i}[0]" for i in range(len(f.parameters)))
        text += f"__global__ void run_{f.name}({types[f.result]} *out{pointers}) {{ *out = {f.name}({call}); }}\n"
    assert _runners.compile_cuda(text, tmp_path).count(".entry") == len(functions) > 1100


@pytest.mark.parametrize("dialect", DIALECTS)
def test_index_variables_are_parameters(dialect: str) -> None:
    text = s.to_c(s.index(0) * 2 + s.variable("x"), {"x": "float32"}, dtype="float32", dialect=dialect)
    kind = {"c": "int64_t index_0_", "cuda": "long long index_0_", "wgsl": "index_0_: i32"}.get(
        dialect, "long index_0_"
    )
    assert kind in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_helpers_bear_the_name_of_the_function(dialect: str) -> None:
    """Two functions in one file do not define one helper twice."""
    x, y = s.variable("x"), s.variable("y")
    kinds = {"x": "float16", "y": "float32"}
    both = [s.to_c(s.sin(x) // y, kinds, dtype="float32", name=name, dialect=dialect) for name in ("first", "second")]
    assert both[0].replace("first", "second") == both[1]
    assert "first_" in both[0]


def test_a_dialect_of_ones_own() -> None:
    base = s.C_DIALECTS["c"]
    own = s.CDialect("my C", base.types, prefix="inline", functions={"sin": "my_sin"}, lacking=("expm1",))
    text = s.to_c(s.sin(s.expm1(s.variable("x"))), {"x": "float32"}, dtype="float32", dialect=own)
    assert "my_sin(" in text
    assert "expm1" not in text
    assert text.startswith("inline float scalar(float x_)")


def test_wgsl_has_few_dtypes() -> None:
    for dtype in ("int8", "uint8", "int16", "int64", "uint64", "float64", "complex128", "bfloat16"):
        with pytest.raises(NotImplementedError, match=f"WGSL has no type for {dtype}: it has bool, int32, uint32"):
            s.to_c(s.variable("x"), {"x": dtype}, dtype="float32", dialect="wgsl")


def test_constants_of_sixteen_bits() -> None:
    """A constant is rounded to the dtype of the expression, and those of an expansion are not."""
    x = s.variable("x")
    assert "INFINITY" in s.to_c(x * 1e5, {"x": "float16"}, dtype="float16")
    assert "0.099975" in s.to_c(x * 0.1, {"x": "float16"}, dtype="float16")
    assert "100000000.0" in s.to_c(s.asinh(x), {"x": "float16"}, dtype="float16", dialect="wgsl")


def test_a_number_in_a_complex_expression() -> None:
    x, y = s.variable("x"), s.variable("y")
    text = s.to_c(x * y, {"x": "complex64", "y": "float32"}, dtype="complex64", dialect="opencl")
    assert "float2 scalar(float2 x_, float y_)" in text
    assert np.all([part in text for part in ("x_.x", "x_.y", "(float2)(")])


def test_conditions_that_are_known_are_not_printed() -> None:
    """Compilers warn of them: integers are not NaN, and equal themselves."""
    x, y = s.variable("x"), s.variable("y")
    ordered = s.where(s.logical_or(s.isnan(x), s.logical_not(y == y)), s.isnan(x), x < y)
    kinds = {"x": "int64", "y": "int64"}
    text = s.to_c(ordered, kinds, dtype="int64", dialect="opencl")
    assert text.count("const int") == 1
    assert "(x < y)" in text
    assert s.to_c(ordered, dict.fromkeys(kinds, "float64"), dtype="float64").count("const int") > 3
