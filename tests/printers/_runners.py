"""Programs that run printed functions: one for each language that can be run or compiled on this machine."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tenkey.library import scalar as s
from tenkey.testing import PrintedFunction
from tenkey.testing.printer_cases import numpy_dtype

Functions = list[PrintedFunction]
C_HEAD = "#include <math.h>\n#include <stdint.h>\n"


class Compiled:
    """Functions of the C family in a shared library: ``command`` compiles ``head``, functions and a loop for each."""

    def __init__(self, folder: Path, command: Sequence[str], head: str, dialect: str = "c", suffix: str = "c") -> None:
        self.folder, self.command, self.head, self.suffix = folder, command, head, suffix
        self.types = s.C_DIALECTS[dialect].types
        self.count = 0

    def __call__(self, functions: Functions) -> list[np.ndarray]:
        self.count += 1
        source = self.folder / f"functions{self.count}.{self.suffix}"
        source.write_text(self.head + "".join(f.source + self.loop(f) for f in functions))
        target = source.with_suffix(".so")
        command = [*self.command, "-shared", "-fPIC", "-o", str(target), str(source), "-lm"]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise RuntimeError(finished.stderr)
        library = ctypes.CDLL(str(target))
        return [self.run(getattr(library, f"run_{f.name}"), f) for f in functions]

    def loop(self, f: PrintedFunction) -> str:
        pointers = "".join(f", const {self.types[dtype]} *x{i}" for i, dtype in enumerate(f.parameters.values()))
        call = ", ".join(f"x{i}[i]" for i in range(len(f.parameters)))
        linkage = 'extern "C" ' if self.suffix != "c" else ""
        return (
            f"{linkage}void run_{f.name}(long n, {self.types[f.result]} *out{pointers})\n"
            f"{{ for (long i = 0; i < n; ++i) out[i] = {f.name}({call}); }}\n"
        )

    def run(self, loop: Any, f: PrintedFunction) -> np.ndarray:
        out = np.empty(f.arrays[0].shape, numpy_dtype(f.result))
        loop(ctypes.c_long(out.size), *[ctypes.c_void_p(array.ctypes.data) for array in (out, *f.arrays)])
        return out


def c_runner(folder: Path) -> Compiled:
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Wno-unused", "-Wno-type-limits", "-Werror", "-ffp-contract=off"]
    return Compiled(folder, ["cc", *flags, "-Wno-unused-parameter", "-Wno-overflow"], C_HEAD)


def opencl_runner() -> Any:
    """Run on the first OpenCL device: one kernel for all functions, because PoCL compiles each kernel for long."""
    import pyopencl as cl

    queue = cl.CommandQueue(cl.Context([cl.get_platforms()[0].get_devices()[0]]))
    types = s.C_DIALECTS["opencl"].types

    def run(functions: Functions) -> list[np.ndarray]:
        text = "#pragma OPENCL FP_CONTRACT OFF\n" + "".join(f.source for f in functions)
        pointers = ", ".join(f"__global const void *x{i}" for i in range(4))
        text += f"__kernel void run(int which, __global void *out, {pointers})\n{{\nlong i = get_global_id(0);\n"
        for k, f in enumerate(functions):
            values = [f"((__global const {types[dtype]} *)x{i})[i]" for i, dtype in enumerate(f.parameters.values())]
            text += f"if (which == {k}) ((__global {types[f.result]} *)out)[i] = {f.name}({', '.join(values)});\n"
        kernel = cl.Kernel(cl.Program(queue.context, text + "}\n").build(), "run")
        results = []
        for k, f in enumerate(functions):
            out = np.empty(f.arrays[0].shape, numpy_dtype(f.result))
            given = [
                cl.Buffer(queue.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array.view("u1")) for array in f.arrays
            ]
            buffer = cl.Buffer(queue.context, 0, out.nbytes)
            kernel(queue, out.shape, None, np.int32(k), buffer, *(given * 4)[:4])
            cl.enqueue_copy(queue, out.view("u1"), buffer)
            results.append(out)
        return results

    return run


def wgsl_device() -> Any:
    """Return a device of WebGPU, or None."""
    if importlib.util.find_spec("wgpu") is None:
        return None
    import wgpu

    try:
        adapter = wgpu.gpu.request_adapter_sync(force_fallback_adapter=False)
    except RuntimeError:  # no driver
        return None
    wanted = [name for name in ("shader-f16",) if name in adapter.features]
    return adapter.request_device_sync(required_features=wanted)


def wgsl_module(f: PrintedFunction) -> str:
    """Return a shader with an entry point ``main`` for a function."""
    types = s.WGSL.types
    text = "enable f16;\n" if "float16" in (f.result, *f.parameters.values()) else ""
    text += f"{f.source}@group(0) @binding(0) var<storage, read_write> out: array<{types[f.result]}>;\n"
    for i, dtype in enumerate(f.parameters.values()):
        text += f"@group(0) @binding({i + 1}) var<storage, read> x{i}: array<{types[dtype]}>;\n"
    call = f"{f.name}({', '.join(f'x{i}[id.x]' for i in range(len(f.parameters)))})"
    return text + (
        "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
        f"    if (id.x < arrayLength(&out)) {{ out[id.x] = {call}; }}\n}}\n"
    )


def wgsl_runner(device: Any) -> Any:
    """Run on a device of WebGPU; bools travel as 32 bits."""
    import wgpu

    def run(functions: Functions) -> list[np.ndarray]:
        return [one(f) for f in functions]

    def one(f: PrintedFunction) -> np.ndarray:
        stored = np.dtype("uint32") if f.result == "bool" else numpy_dtype(f.result)
        count = f.arrays[0].size
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        buffers = [device.create_buffer(size=(count * stored.itemsize + 3) // 4 * 4, usage=usage)]
        for array in f.arrays:
            data = (array.astype("uint32") if array.dtype == bool else array).tobytes()
            buffers.append(device.create_buffer_with_data(data=data + b"\0" * (-len(data) % 4), usage=usage))
        module = device.create_shader_module(code=wgsl_module(f))
        pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
        entries = [
            {"binding": i, "resource": {"buffer": b, "offset": 0, "size": b.size}} for i, b in enumerate(buffers)
        ]
        group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        encoder = device.create_command_encoder()
        run = encoder.begin_compute_pass()
        run.set_pipeline(pipeline)
        run.set_bind_group(0, group)
        run.dispatch_workgroups(-(-count // 64))
        run.end()
        device.queue.submit([encoder.finish()])
        found = np.frombuffer(device.queue.read_buffer(buffers[0]), stored)[:count]
        return found.astype(numpy_dtype(f.result))

    return run


# What a compiler of Metal would provide, of the standard library of C++. Functions that Metal lacks are not in it.
METAL_HEAD = """
#include <cmath>
#include <cstdint>
#include <cstring>
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
struct float2 { float x, y; float2() {} float2(float a, float b) : x(a), y(b) {} };
template <class T, class S> static inline T as_type(S x) { T y; std::memcpy(&y, &x, 4); return y; }
static inline uint __float_as_uint(float x) { return as_type<uint>(x); }
static inline float __uint_as_float(uint x) { return as_type<float>(x); }
#define __device__
PACK
UNPACK
struct half {
    ushort bits;
    half() {}
    explicit half(float x) : bits(pack(x)) {}
    operator float() const { return unpack(bits); }
};
namespace metal {
using std::acos; using std::acosh; using std::asin; using std::asinh; using std::atan; using std::atan2;
using std::atanh; using std::ceil; using std::copysign; using std::cos; using std::cosh; using std::exp;
using std::exp2; using std::fabs; using std::floor; using std::fma; using std::fmod; using std::log;
using std::log10; using std::log2; using std::pow; using std::rint; using std::signbit; using std::sin;
using std::sinh; using std::sqrt; using std::tan; using std::tanh; using std::trunc;
}
"""


def metal_head() -> str:
    x = s.variable("x")
    pack = s.to_c(x, {"x": "float32"}, dtype="float32", result="float16", name="pack", dialect="cuda")
    unpack = s.to_c(x, {"x": "float16"}, dtype="float32", name="unpack", dialect="cuda")
    return METAL_HEAD.replace("UNPACK", unpack).replace("PACK", pack)


# What a compiler of CUDA would provide, for the functions to run on the CPU.
CUDA_HEAD = """
#include <cmath>
#include <cstring>
#define __device__
using std::signbit;
struct float2 { float x, y; };
struct double2 { double x, y; };
static inline float2 make_float2(float x, float y) { float2 z = { x, y }; return z; }
static inline double2 make_double2(double x, double y) { double2 z = { x, y }; return z; }
static inline unsigned __float_as_uint(float x) { unsigned y; std::memcpy(&y, &x, 4); return y; }
static inline float __uint_as_float(unsigned x) { float y; std::memcpy(&y, &x, 4); return y; }
"""


def cxx_runner(folder: Path, head: str, dialect: str) -> Compiled:
    return Compiled(folder, ["c++", "-O1", "-w", "-ffp-contract=off"], head, dialect, "cpp")


def nvrtc() -> Any:
    """Return the run-time compiler of CUDA, from a package of its own or from an installed toolkit, or None."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in spec.submodule_search_locations] if spec is not None else []
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        places.append(Path(nvcc).resolve().parents[1])
    found = [path for place in places for path in sorted(place.glob("**/libnvrtc.so.*")) if "alt" not in path.name]
    return ctypes.CDLL(str(found[0])) if found else None


def compile_cuda(source: str, folder: Path) -> str:
    """Compile to PTX by nvrtc or nvcc; RuntimeError with the log."""
    library = nvrtc()
    if library is None:
        path = folder / "functions.cu"
        path.write_text(source)
        command = ["nvcc", "-ptx", "--fmad=false", "-o", str(path.with_suffix(".ptx")), str(path)]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            raise RuntimeError(finished.stderr)
        return path.with_suffix(".ptx").read_text()
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"functions.cu", 0, None, None) == 0
    options = (ctypes.c_char_p * 1)(b"--fmad=false")
    status = library.nvrtcCompileProgram(program, 1, options)
    size = ctypes.c_size_t()
    if status:
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.value.decode())
    library.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, text)
    return text.value.decode()
