"""Kernels as Numba and nvrtc compile them, for three architectures, against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tenkey.testing import ptx

TARGETS = [(8, 0), (9, 0), (10, 0)]


def numba_ptx(function: Any, signature: Any, cc: tuple[int, int], **options: Any) -> str:
    pytest.importorskip("numba_cuda", reason="the extra cuda is not installed")
    from numba import cuda

    try:
        return str(cuda.compile_ptx(function, signature, cc=cc, **options)[0])
    except (ImportError, OSError, RuntimeError) as error:
        pytest.skip(f"Numba cannot compile for CUDA here: {error}")


def nvrtc_ptx(source: str, cc: tuple[int, int], *options: str) -> str:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc", reason="the extra cuda is not installed")

    def done(result: tuple[Any, ...]) -> Any:
        assert int(result[0]) == 0, result[0]
        return result[1] if len(result) == 2 else result[1:]

    try:
        program = done(nvrtc.nvrtcCreateProgram(source.encode(), b"source.cu", 0, [], []))
    except (RuntimeError, OSError) as error:
        pytest.skip(f"nvrtc is not installed: {error}")
    flags = [f"--gpu-architecture=compute_{cc[0]}{cc[1]}".encode(), *[o.encode() for o in options]]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    if int(code):
        log = b" " * done(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    text = b" " * done(nvrtc.nvrtcGetPTXSize(program))
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode()


@pytest.mark.parametrize("cc", TARGETS)
def test_mathematics_of_libdevice(cc: tuple[int, int]) -> None:
    from numba.core import types

    def kernel(n, out, x):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n:
            v = x[i]
            out[i] = math.sin(v) + math.exp(v) + math.log(abs(v) + 1.0) + math.atan2(v, 2.0) + math.erf(v) + v**3.0

    pytest.importorskip("numba_cuda", reason="the extra cuda is not installed")
    from numba import cuda

    pointer = types.CPointer(types.float64)
    text = numba_ptx(kernel, types.void(types.int32, pointer, pointer), cc)
    x = np.linspace(-3, 3, 301)
    out = np.zeros_like(x)
    ptx.Module(text, optimized=False).kernel().launch(3, 128, [301, out, x])
    erf = np.array([math.erf(v) for v in x])
    want = np.sin(x) + np.exp(x) + np.log(np.abs(x) + 1) + np.arctan2(x, 2) + erf + x**3
    np.testing.assert_allclose(out, want, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("cc", TARGETS)
def test_a_reduction_with_shuffles_and_shared_memory(cc: tuple[int, int]) -> None:
    pytest.importorskip("numba_cuda", reason="the extra cuda is not installed")
    from numba import cuda, float32
    from numba.core import types

    def row_sum(n, out, x):  # type: ignore[no-untyped-def]
        part = cuda.shared.array(8, float32)
        t = cuda.threadIdx.x
        total = float32(0)
        for i in range(t, n, cuda.blockDim.x):
            total += x[cuda.blockIdx.x * n + i]
        for distance in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)
        if t % 32 == 0:
            part[t // 32] = total
        cuda.syncthreads()
        if t == 0:
            total = float32(0)
            for k in range(8):
                total += part[k]
            out[cuda.blockIdx.x] = total

    pointer = types.CPointer(types.float32)
    text = numba_ptx(row_sum, types.void(types.int32, pointer, pointer), cc, lineinfo=True)
    x = np.random.default_rng(0).integers(0, 9, (16, 1000)).astype("f4")
    for races in (False, True):
        kernel = ptx.Module(text, optimized=False, races=races).kernel("row_sum")
        for order in ("up", "down", "random"):
            out = np.zeros(16, "f4")
            kernel.launch(16, 256, [1000, out, x], order=order)
            assert np.array_equal(out, x.sum(1))
    with pytest.raises(ptx.KernelError) as caught:
        kernel.launch(17, 256, [1000, out, x])
    assert caught.value.kernel == "row_sum"
    first = row_sum.__code__.co_firstlineno
    assert caught.value.file is not None
    assert caught.value.file.endswith("test_compilers.py")
    assert caught.value.line == first + 5  # total += x[...]


SOURCE = r"""
#include <cuda_fp16.h>
__device__ __noinline__ float scaled(float x, int k) { return ldexpf(x, k) * 3.0f; }
extern "C" __global__ void pairs(int n, __half2* out, const __half2* a, const __half2* b) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __hfma2(a[i], b[i], __hadd2(a[i], b[i]));
}
extern "C" __global__ void scan(int n, float* out, const float* x) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  s[t] = t < n ? scaled(x[t], t & 3) : 0.0f;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    float v = t >= d ? s[t - d] : 0.0f;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (t < n) out[t] = s[t];
}
extern "C" __global__ void late(int n, float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void counted(unsigned long long* count, const int* x) {
  if (__syncthreads_or(x[threadIdx.x] == 7))
    atomicAdd(count, (unsigned long long)__popc(__ballot_sync(~0u, x[threadIdx.x] & 1)));
  switch (x[threadIdx.x] & 7) {
    case 0: atomicAdd(count, 1ull << 20); break;
    case 1: atomicAdd(count, 1ull << 24); break;
    case 2: atomicAdd(count, 1ull << 28); break;
    case 5: atomicAdd(count, 1ull << 32); break;
    case 6: atomicAdd(count, 1ull << 36); break;
    default: break;
  }
}
"""


@pytest.mark.parametrize("cc", TARGETS)
def test_cuda_c(cc: tuple[int, int]) -> None:
    from importlib.util import find_spec

    source = SOURCE
    headers = None
    if find_spec("nvidia") is not None:
        from pathlib import Path

        import nvidia

        found = [p for root in nvidia.__path__ for p in Path(root).glob("**/include/cuda_fp16.h")]
        headers = str(found[0].parent) if found else None
    options = ["-lineinfo"]
    if headers is None:
        begin, end = source.index("#include"), source.index("__device__")
        source = source[:begin] + source[end:]
        begin, end = source.index('extern "C" __global__ void pairs'), source.index('extern "C" __global__ void scan')
        source = source[:begin] + source[end:]
    else:
        options.append(f"-I{headers}")
    module = ptx.Module(nvrtc_ptx(source, cc, *options), optimized=False)
    rng = np.random.default_rng(1)
    if headers is not None:
        a, b = rng.standard_normal((2, 100, 2)).astype("f2")
        out = np.zeros_like(a)
        module.kernel("pairs").launch(2, 64, [100, out, a, b])
        want = (a.astype("f8") * b + (a + b).astype("f8")).astype("f2")
        assert np.array_equal(out, want)
    x = rng.integers(0, 9, 100).astype("f4")
    out = np.zeros(100, "f4")
    for order in ("up", "down", "random"):
        module.kernel("scan").launch(1, 128, [100, out, x], shared=512, order=order)
        assert np.array_equal(out, np.cumsum(np.ldexp(x, np.arange(100) & 3) * 3, dtype="f4"))
    with pytest.raises(ptx.KernelError, match=r"late: .* barrier that not all threads reach") as caught:
        module.kernel("late").launch(1, 64, [64, np.zeros(64, "f4")])
    line = next(k for k, text in enumerate(source.split("\n"), 1) if "< 32) __syncthreads" in text)
    assert (caught.value.kind, caught.value.line) == ("divergent barrier", line)
    numbers = rng.integers(0, 8, 64).astype("i4")
    numbers[0] = 7
    count = np.zeros(1, "u8")
    module.kernel("counted").launch(1, 64, [count, numbers])
    odd = sum(int((numbers[w * 32 : w * 32 + 32] & 1).sum()) * 32 for w in range(2))
    want = odd + sum(1 << shift for v in numbers.tolist() for k, shift in
                     {0: 20, 1: 24, 2: 28, 5: 32, 6: 36}.items() if v == k)  # fmt: skip
    assert int(count[0]) == want
