"""Calls of the CUDA driver for its tests: small kernels in PTX, and answers checked or turned into numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

try:
    from cuda.bindings import driver
except ModuleNotFoundError:  # the tests that use this file are skipped
    driver = None

__all__ = ["KERNELS", "Program", "checked", "code", "driver", "host_function"]

# axpy: out[i] = a * x[i] + y[i]; scale: x[i] = a * x[i], in blocks of at most 64 threads; both for i < n, in float32.
KERNELS: Final = """
.version 8.0
.target sm_80
.address_size 64

.visible .global .align 4 .f32 factor = 0f40400000;

.visible .entry axpy(.param .u64 out, .param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<12>; .reg .f32 %f<6>;
  ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [y];
  ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7];
  mul.rn.f32 %f4, %f1, %f2; add.rn.f32 %f5, %f4, %f3;
  st.global.f32 [%rd5], %f5;
DONE:
  ret;
}

.visible .entry scale(.param .u64 x, .param .f32 a, .param .u32 n)
.maxntid 64, 1, 1
{
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<6>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  mul.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd3], %f3;
DONE:
  ret;
}

.visible .entry nothing()
{
  .shared .align 4 .b8 buffer[1024];
  ret;
}
"""


def checked(answer: tuple[Any, ...]) -> Any:
    """Return what a function of the driver returned, or raise AssertionError with the name of its error."""
    status, *values = answer
    assert int(status) == 0, f"{status!r}"
    return values[0] if len(values) == 1 else tuple(values) if values else None


def code(answer: tuple[Any, ...]) -> int:
    """Return the number of the error that a function of the driver returned, 0 for success."""
    return int(answer[0])


class Program:
    """A context, a module and short names for what the tests do with them. Arrays are of float32."""

    def __init__(self, device: int = 0, ptx: str = KERNELS) -> None:
        checked(driver.cuInit(0))
        self.context = checked(driver.cuDevicePrimaryCtxRetain(device))
        checked(driver.cuCtxSetCurrent(self.context))
        self.module = checked(driver.cuModuleLoadData(ptx.encode() + b"\0"))
        self._functions: dict[str, Any] = {}

    def stream(self, blocking: bool = False) -> Any:
        return checked(driver.cuStreamCreate(0 if blocking else 1))

    def event(self, timing: bool = True) -> Any:
        return checked(driver.cuEventCreate(0 if timing else 2))

    def allocate(self, count: int) -> int:
        return int(checked(driver.cuMemAlloc(4 * count)))

    def pinned(self, count: int) -> np.ndarray:
        address = checked(driver.cuMemHostAlloc(4 * count, 0))
        return np.frombuffer((ctypes.c_float * count).from_address(int(address)), np.float32)

    def upload(self, address: int, values: np.ndarray, stream: Any = None) -> None:
        if stream is None:
            checked(driver.cuMemcpyHtoD(address, values.ctypes.data, values.nbytes))
        else:
            checked(driver.cuMemcpyHtoDAsync(address, values.ctypes.data, values.nbytes, stream))

    def download(self, address: int, count: int) -> np.ndarray:
        values = np.zeros(count, np.float32)
        checked(driver.cuMemcpyDtoH(values.ctypes.data, address, values.nbytes))
        return values

    def device_array(self, values: Any) -> int:
        array = np.asarray(values, np.float32)
        address = self.allocate(len(array))
        self.upload(address, array)
        checked(driver.cuCtxSynchronize())
        return address

    def function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = checked(driver.cuModuleGetFunction(self.module, name.encode()))
        return self._functions[name]

    def launch_code(self, name: str, arguments: Sequence[Any], stream: Any = 0, grid: int = 1, block: int = 64) -> int:
        values = tuple(x for x, _ in arguments)
        types = tuple(t for _, t in arguments)
        return code(driver.cuLaunchKernel(self.function(name), grid, 1, 1, block, 1, 1, 0, stream, (values, types), 0))

    def scale(self, x: int, a: float, count: int, stream: Any = 0) -> None:
        arguments = ((x, ctypes.c_uint64), (a, ctypes.c_float), (count, ctypes.c_uint32))
        assert self.launch_code("scale", arguments, stream, -(-count // 64)) == 0

    def axpy(self, out: int, x: int, y: int, a: float, count: int, stream: Any = 0) -> None:
        arguments = ((out, ctypes.c_uint64), (x, ctypes.c_uint64), (y, ctypes.c_uint64), (a, ctypes.c_float),
                     (count, ctypes.c_uint32))  # fmt: skip
        assert self.launch_code("axpy", arguments, stream, -(-count // 64)) == 0


def host_function(function: Callable[[], None]) -> tuple[int, Any]:
    """Return the address of a host function, and what must live as long as it may be called."""
    made = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function())
    return ctypes.cast(made, ctypes.c_void_p).value or 0, made
