"""Modules, kernels, launches, host functions and occupancy of the stub driver."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

import tenkey as tk
from tenkey.testing.cuda_driver import ptx_images
from tenkey.testing.ptx import KernelError
from tenkey.testing.ptx.ptx_text import parse
from tests.testing.cuda_driver._driver_calls import KERNELS, Program, checked, code, host_function

F = driver.CUfunction_attribute
N = 100
POINTER, FLOAT, COUNT = ctypes.c_uint64, ctypes.c_float, ctypes.c_uint32


def scaled(x: int, n: int = N) -> list[tuple[Any, Any]]:
    return [(x, POINTER), (2.0, FLOAT), (n, COUNT)]


def test_a_kernel_computes(program: Program, emulator: Any) -> None:
    x, y = program.device_array(np.arange(N)), program.device_array(np.ones(N))
    out = program.allocate(N)
    program.axpy(out, x, y, 3, N)
    np.testing.assert_array_equal(program.download(out, N), 3 * np.arange(N) + 1)
    assert emulator.counts.launches == 1


@pytest.mark.parametrize("kind", ["data", "file", "library"])
def test_images_are_loaded(program: Program, tmp_path: Path, kind: str) -> None:
    image = KERNELS.encode() + b"\0"
    if kind == "library":
        library = checked(driver.cuLibraryLoadData(image, [], [], 0, [], [], 0))
        kernel = checked(driver.cuLibraryGetKernel(library, b"scale"))
        assert checked(driver.cuKernelGetName(kernel)) == b"scale"
        assert checked(driver.cuLibraryGetKernelCount(library)) == 3
        assert int(checked(driver.cuKernelGetFunction(kernel)))
        assert int(checked(driver.cuKernelGetLibrary(kernel))) == int(library)
        assert code(driver.cuLibraryGetKernel(library, b"missing")) == 500
        checked(driver.cuLibraryUnload(library))
        assert code(driver.cuKernelGetName(kernel)) == 400
        return
    if kind == "file":
        (tmp_path / "kernels.ptx").write_bytes(image)
        module = checked(driver.cuModuleLoad(str(tmp_path / "kernels.ptx").encode()))
    else:
        module = checked(driver.cuModuleLoadData(image))
    assert checked(driver.cuModuleGetFunctionCount(module)) == 3
    function = checked(driver.cuModuleGetFunction(module, b"axpy"))
    assert code(driver.cuModuleGetFunction(module, b"missing")) == 500
    checked(driver.cuModuleUnload(module))
    assert code(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)) == 400
    assert code(driver.cuModuleUnload(module)) == 400


def test_wrong_images_are_refused(program: Program, emulator: Any) -> None:
    assert code(driver.cuModuleLoadData(b"not an image\0")) == 200
    assert code(driver.cuModuleLoad(b"/no/such/file")) == 301
    head = bytearray(64)
    head[:4], head[40:48] = b"\x7fELF", (64).to_bytes(8, "little")
    assert code(driver.cuModuleLoadData(bytes(head))) == 209
    assert "register_image" in str(emulator.failure)


def test_machine_code_runs_by_its_ptx(program: Program) -> None:
    code_of_machine = bytearray(b"\x7fELF" + bytes(60) + b"machine code")
    code_of_machine[40:48] = len(code_of_machine).to_bytes(8, "little")  # where the table of sections begins
    ptx_images.register_image(bytes(code_of_machine), KERNELS)
    module = checked(driver.cuModuleLoadData(bytes(code_of_machine)))
    assert int(checked(driver.cuModuleGetFunction(module, b"scale")))


def test_parameters_are_described(program: Program) -> None:
    axpy = program.function("axpy")
    assert checked(driver.cuFuncGetParamCount(axpy)) == 5
    found = [checked(driver.cuFuncGetParamInfo(axpy, i)) for i in range(5)]
    assert [tuple(map(int, pair)) for pair in found] == [(0, 8), (8, 8), (16, 8), (24, 4), (28, 4)]
    assert code(driver.cuFuncGetParamInfo(axpy, 5)) == 1


def test_parameters_in_one_buffer(program: Program) -> None:
    x = program.device_array(np.arange(N))
    buffer = ctypes.create_string_buffer(np.array([x], np.uint64).tobytes() + np.array([2], np.float32).tobytes()
                                         + np.array([N], np.uint32).tobytes(), 16)  # fmt: skip
    size = ctypes.c_size_t(16)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    place = ctypes.addressof(extra)
    checked(driver.cuLaunchKernel(program.function("scale"), 2, 1, 1, 64, 1, 1, 0, 0, 0, place))
    np.testing.assert_array_equal(program.download(x, N), 2 * np.arange(N))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "expected"),
    [((0, 1, 1), (32, 1, 1), 0, 1), ((1, 1, 1), (0, 1, 1), 0, 1), ((1, 65536, 1), (1, 1, 1), 0, 1),
     ((1, 1, 1), (1025, 1, 1), 0, 1), ((1, 1, 1), (32, 64, 1), 0, 1), ((1, 1, 1), (1, 1, 65), 0, 1),
     ((1, 1, 1), (32, 1, 1), 49152, 1), ((1, 1, 1), (1024, 1, 1), 48128, 0)],
)  # fmt: skip
def test_impossible_launches_are_refused(
    program: Program, grid: tuple[int, ...], block: tuple[int, ...], shared: int, expected: int
) -> None:
    nothing = program.function("nothing")  # it has 1 KiB of shared memory
    assert code(driver.cuLaunchKernel(nothing, *grid, *block, shared, 0, 0, 0)) == expected


def test_launch_bounds_are_kept(program: Program) -> None:
    x = program.device_array(np.arange(N))
    assert program.launch_code("scale", scaled(x), block=65) == 1
    assert (
        checked(driver.cuFuncGetAttribute(F.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, program.function("scale"))) == 64
    )


def test_attributes_of_functions(program: Program) -> None:
    nothing = program.function("nothing")

    def value(attribute: Any) -> int:
        return int(checked(driver.cuFuncGetAttribute(attribute, nothing)))

    assert value(F.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 1024
    assert value(F.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024
    assert value(F.CU_FUNC_ATTRIBUTE_BINARY_VERSION) == 90
    dynamic = F.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert code(driver.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 100_000, 0, 0, 0)) == 1
    checked(driver.cuFuncSetAttribute(nothing, dynamic, 200_000))
    assert value(dynamic) == 200_000
    checked(driver.cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 100_000, 0, 0, 0))
    assert code(driver.cuFuncSetAttribute(nothing, dynamic, 232_448)) == 1  # 1 KiB is used already


def test_occupancy(program: Program) -> None:
    axpy = program.function("axpy")
    blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
    assert checked(blocks(axpy, 1024, 0)) == 2
    assert checked(blocks(axpy, 256, 0)) == 8
    assert checked(blocks(axpy, 32, 0)) == 32
    assert checked(blocks(axpy, 128, 100 * 1024)) == 2  # by shared memory
    assert code(blocks(axpy, 0, 0)) == 1


def test_variables_of_a_module(program: Program) -> None:
    address, size = checked(driver.cuModuleGetGlobal(program.module, b"factor"))
    assert size == 4
    assert program.download(int(address), 1) == [3]
    program.upload(int(address), np.array([5], np.float32))
    assert program.download(int(address), 1) == [5]
    assert code(driver.cuModuleGetGlobal(program.module, b"missing")) == 500


def test_a_fault_appears_at_the_next_synchronisation_and_stays(program: Program, emulator: Any) -> None:
    x = program.device_array(np.arange(N))
    assert program.launch_code("scale", scaled(x, N + 1), grid=2) == 0
    assert code(driver.cuCtxSynchronize()) == 700
    assert code(driver.cuMemAlloc(16)) == 700  # sticky
    assert program.launch_code("scale", scaled(x)) == 700
    text = checked(driver.cuGetErrorString(driver.CUresult(700))).decode()
    assert text.startswith("an illegal memory access was encountered: ")
    assert "scale: thread (36, 0, 0) of block (1, 0, 0) reads 4 bytes" in text
    assert isinstance(emulator.failure, KernelError)
    assert emulator.failure.kernel == "scale"
    assert emulator.error is not None
    assert emulator.error.__cause__ is emulator.failure
    emulator.clear_error()
    assert code(driver.cuCtxSynchronize()) == 0
    checked(driver.cuMemFree(x))


def test_a_misaligned_access_has_its_own_code(program: Program, emulator: Any) -> None:
    x = program.device_array(np.arange(N))
    program.scale(x + 2, 1, 1)
    assert code(driver.cuCtxSynchronize()) == 716
    emulator.clear_error()


def test_work_after_a_fault_is_not_done(program: Program, emulator: Any) -> None:
    x, y = program.device_array(np.arange(N)), program.device_array(np.arange(N))
    with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True) as deferred:
        stream = program.stream()
        program.scale(x + 2, 1, 1, stream)
        program.scale(y, 10, N, stream)
        assert code(driver.cuStreamSynchronize(stream)) == 716
        deferred.clear_error()
    np.testing.assert_array_equal(program.download(y, N), np.arange(N))


def test_the_error_of_one_device_leaves_the_other_usable(program: Program, emulator: Any) -> None:
    x = program.device_array(np.arange(N))
    program.scale(x + 2, 1, 1)
    assert code(driver.cuCtxSynchronize()) == 716
    checked(driver.cuCtxPushCurrent(checked(driver.cuDevicePrimaryCtxRetain(1))))
    checked(driver.cuCtxSynchronize())
    checked(driver.cuMemFree(checked(driver.cuMemAlloc(16))))
    checked(driver.cuCtxPopCurrent())
    emulator.clear_error()


def test_resetting_a_primary_context_clears_the_error(program: Program) -> None:
    x = program.device_array(np.arange(N))
    program.scale(x + 2, 1, 1)
    assert code(driver.cuCtxSynchronize()) == 716
    checked(driver.cuDevicePrimaryCtxReset(0))
    checked(driver.cuCtxSynchronize())


def test_a_kernel_that_cannot_be_executed_is_an_error(program: Program, emulator: Any) -> None:
    bad = KERNELS.replace("mul.rn.f32 %f3", "frobnicate.f32 %f3")
    module = checked(driver.cuModuleLoadData(bad.encode() + b"\0"))
    program._functions["scale"] = checked(driver.cuModuleGetFunction(module, b"scale"))
    x = program.device_array(np.arange(N))
    program.scale(x, 1, N)
    assert code(driver.cuCtxSynchronize()) in (719, 801)
    assert "frobnicate" in str(emulator.failure)
    emulator.clear_error()


def test_host_functions_run_in_order_and_may_not_call_the_driver(program: Program) -> None:
    stream, seen = program.stream(), list[Any]()
    x, pinned = program.device_array(np.ones(N)), program.pinned(N)
    function, kept = host_function(lambda: seen.append((pinned[0].item(), code(driver.cuMemAlloc(16)))))
    program.scale(x, 7, N, stream)
    checked(driver.cuMemcpyDtoHAsync(pinned.ctypes.data, x, 4 * N, stream))
    checked(driver.cuLaunchHostFunc(stream, function, 0))
    checked(driver.cuStreamSynchronize(stream))
    assert seen == [(7, 800)]
    assert code(driver.cuLaunchHostFunc(stream, 0, 0)) == 1
    del kept


def test_cooperative_launches_are_limited_to_what_runs_at_once(program: Program) -> None:
    nothing = program.function("nothing")
    assert code(driver.cuLaunchCooperativeKernel(nothing, 264, 1, 1, 1024, 1, 1, 0, 0, 0)) == 0
    assert code(driver.cuLaunchCooperativeKernel(nothing, 265, 1, 1, 1024, 1, 1, 0, 0, 0)) == 720


def test_cuda_core_launches(emulator: Any) -> None:
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    buffer = device.allocate(4 * N, stream=stream)
    values = np.arange(N, dtype=np.float32)
    checked(driver.cuMemcpyHtoD(int(buffer.handle), values.ctypes.data, values.nbytes))
    kernel = core.ObjectCode.from_ptx(KERNELS.encode()).get_kernel("scale")
    assert kernel.num_arguments == 3
    assert kernel.attributes.max_threads_per_block == 64
    core.launch(stream, core.LaunchConfig(grid=2, block=64), kernel, buffer, np.float32(3), np.uint32(N))
    stream.sync()
    checked(driver.cuMemcpyDtoH(values.ctypes.data, int(buffer.handle), values.nbytes))
    np.testing.assert_array_equal(values, 3 * np.arange(N))
    buffer.close(stream)


def test_entries_of_ptx_as_compilers_write_it() -> None:
    text = """
    .version 8.7
    .target sm_90
    // .visible .entry not_this(.param .u64 x) {}
    .extern .shared .align 16 .b8 dynamic[];
    .shared .align 4 .b8 common[256];
    .visible .entry _Z3addPfS_i(
        .param .u64 .ptr .global .align 16 _Z3addPfS_i_param_0,
        .param .align 8 .b8 _Z3addPfS_i_param_1[24],
        .param .u8 _Z3addPfS_i_param_2
    )
    .maxntid 16, 8
    .minnctapersm 2
    {
        .local .align 8 .b8 __local_depot0[40];
        .shared .align 4 .f32 tile[32][33];
        { .reg .u64 temp; mov.u64 temp, common; }
        ret;
    }
    .func helper() { ret; }
    """
    module = parse(text)
    (entry,) = ptx_images.entries(module)
    assert entry.name == "_Z3addPfS_i"
    assert entry.parameters == ((0, 8), (8, 24), (32, 1))
    assert (entry.size, entry.threads, entry.local) == (33, 128, 40)
    assert entry.shared == 256 + 4 * 32 * 33
    assert ptx_images.variables(module) == []
    assert [(x.name, x.size) for x in ptx_images.variables(parse(KERNELS))] == [("factor", 4)]


NUMBA = """
import warnings
import numpy as np
from numba import cuda
import tenkey as tk

warnings.simplefilter("ignore")  # of Numba, about small grids

@cuda.jit(device=True)
def shifted(a):
    return a + 5

@cuda.jit
def shift(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = shifted(x[i])

with tk.testing.cuda_emulator():
    x = tk.arange(4, dtype=tk.float32, device="cuda")
    out = tk.empty_like(x)
    shift[1, 32](x, out)
    a = cuda.to_device(np.arange(5.0))
    b = cuda.device_array_like(a)
    shift[2, 3](a, b)
    print(out.tolist(), b.copy_to_host().tolist())
"""


def test_kernels_that_numba_launches_itself() -> None:
    """Numba loads machine code; the emulator asks it for the PTX."""
    pytest.importorskip("numba_cuda", reason="needs the extra cuda")
    done = subprocess.run([sys.executable, "-c", NUMBA], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[5.0, 6.0, 7.0, 8.0] [5.0, 6.0, 7.0, 8.0, 9.0]\n", done.stderr
