"""Parameters of kernels in CUDA C++, and what they decide: tests/backends/cuda/test_user_kernels.py has the rest."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cuda.compiling.c_signatures import parameters_of

CASES = [
    ("const float *x, float *__restrict__ y", ("float32*", "float32*")),
    ("float const* const x, volatile double*y", ("float32*", "float64*")),
    ("int n, unsigned m, long long k, unsigned long long int q", ("int32", "uint32", "int64", "uint64")),
    ("long unsigned int n, short int m, signed char c, char d", ("uint64", "int16", "int8", "int8")),
    ("int32_t n, uint64_t m, size_t k, bool flag", ("int32", "uint64", "uint64", "uint8")),
    ("const __half *x, __nv_bfloat16 *y, float2 *z", ("uint16*", "uint16*", "float32*")),
    ("float x[], int *", ("float32*", "int32*")),
    ("float **x, T *y, Params p, const float &z", (None, None, None, None)),
    ("", ()),
    ("void", ()),
    ("\n  const float *x, // the input, in rows\n  /* n, */ int n\n", ("float32*", "int32")),
]


@pytest.mark.parametrize(("declared", "expected"), CASES)
def test_types(declared: str, expected: tuple[str | None, ...]) -> None:
    text = f'__device__ float g(float a, float b);\nextern "C" __global__ void f({declared})\n{{}}\n'
    assert parameters_of(text, "f") == expected


def test_a_kernel_that_is_made_by_a_macro_is_not_found() -> None:
    assert parameters_of("DEFINE_KERNEL(float)", "f") is None


SCALE = """
extern "C" __global__ void scale(const float *x, float a, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i];
}
"""


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="needs the extra cuda")
class TestCalls:
    @pytest.fixture(autouse=True)
    def _emulator(self) -> Iterator[None]:
        with tk.testing.cuda_emulator():
            yield

    def test_numbers_are_converted_to_what_is_declared(self) -> None:
        scale = tk.cuda.kernel(SCALE)
        x = tk.asarray(np.arange(5.0, dtype=np.float32), device="cuda")
        for number in (3, 3.0, np.float64(3)):
            assert scale(x, number).tolist() == [0, 3, 6, 9, 12]
        with pytest.raises(TypeError, match="declares 4 parameters, and this call passes 5"):
            scale(x, 1 + 1j)  # two numbers

    def test_memory_is_not_reinterpreted(self) -> None:
        scale = tk.cuda.kernel(SCALE)
        with pytest.raises(TypeError, match=r"parameter 1 .* declared as float32\*, .* a tensor of float64: convert"):
            scale(tk.ones(3, dtype=tk.float64, device="cuda"), 2.0)
        with pytest.raises(TypeError, match=r"parameter 2 .* a tensor of float32"):
            scale(tk.ones(3, device="cuda"), tk.ones(3, device="cuda"))
        with pytest.raises(TypeError, match="declares 4 parameters, and this call passes 3"):
            scale(tk.ones(3, device="cuda"))
