"""Kernels of users: Note [The arguments of a user's kernel], on the emulator, compared with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from numba import cuda

NS = "user_kernels"
FILE = "test_user_kernels.py"
OFFSET = 0.5


@pytest.fixture(autouse=True)
def _emulator() -> Iterator[None]:
    with tk.testing.cuda_emulator():
        yield


def shifted(x: Any) -> Any:
    return x + OFFSET


@tk.cuda.kernel
def saxpy(x: Any, y: Any, a: Any, out: Any, n: Any) -> None:
    """Return a x + y."""
    i = cuda.grid(1)
    if i < n:
        out[i] = a * x[i] + y[i]


SAXPY = """
extern "C" __global__ void saxpy(const float *x, const float *y, float a, float *out, long long n) {
    long long i = blockIdx.x * (long long) blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""


def _tensors(*shapes: tuple[int, ...], dtype: Any = np.float32) -> tuple[list[np.ndarray], list[tk.Tensor]]:
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.integers(-9, 9, shape)).astype(dtype) for shape in shapes]
    return arrays, [tk.asarray(array, device="cuda") for array in arrays]


@pytest.mark.parametrize("kernel", [saxpy, tk.cuda.kernel(SAXPY)], ids=["Python", "CUDA C++"])
class TestElements:
    """The convention of elements: broadcast, in row-major order, a thread for each."""

    def test_values(self, kernel: Any) -> None:
        (x, y), given = _tensors((1000,), (1000,))
        found = kernel(*given, 0.5)
        assert (found.dtype, str(found.device)) == (tk.float32, "cuda")
        np.testing.assert_array_equal(found.numpy(), np.float32(0.5) * x + y)

    def test_broadcasting_and_layouts(self, kernel: Any) -> None:
        (x, y), (a, b) = _tensors((6, 5), (7, 1, 6))
        found = kernel(tk.permute_dims(a, (1, 0)), b, -2.0)
        np.testing.assert_array_equal(found.numpy(), -2 * x.T + y)

    def test_empty(self, kernel: Any) -> None:
        _, (a, b) = _tensors((0, 5), (5,))
        assert kernel(a, b, 1.0).shape == (0, 5)

    def test_as_the_kernel_of_an_operator(self, kernel: Any) -> None:
        (x, y), (a, b) = _tensors((40,), (40,))
        with tk.library.Library(NS, "DEF") as library:
            library.define("saxpy(Tensor x, Tensor y, float a=1.0) -> Tensor")
            with tk.library.register_kernel(f"{NS}::saxpy", "cuda", kernel):
                np.testing.assert_array_equal(tk.ops.user_kernels.saxpy(a, b).numpy(), x + y)
                np.testing.assert_array_equal(tk.ops.user_kernels.saxpy(a, b, a=3.0).numpy(), 3 * x + y)


@pytest.mark.parametrize("given", [SAXPY, cuda.jit(saxpy.function)], ids=["CUDA C++", "numba.cuda.jit"])
def test_source_as_the_kernel_of_an_operator(given: Any) -> None:
    (x, y), (a, b) = _tensors((40,), (40,))
    with tk.library.Library(NS, "DEF") as library:
        library.define("saxpy(Tensor x, Tensor y, float a) -> Tensor")
        with tk.library.register_kernel(f"{NS}::saxpy", "cuda", given):
            np.testing.assert_array_equal(tk.ops.user_kernels.saxpy(a, b, 2.0).numpy(), 2 * x + y)


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "int64"])
def test_dtypes(dtype: str) -> None:
    """Each combination of dtypes is compiled when it is first used."""

    @tk.cuda.kernel
    def doubled(x: Any, out: Any, n: Any) -> None:
        i = cuda.grid(1)
        if i < n:
            out[i] = x[i] + x[i]

    (x,), (a,) = _tensors((33,), dtype=dtype)
    found = doubled(a)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.numpy(), x + x)


def test_float_numbers_have_the_dtype_of_the_result() -> None:
    (x, y), (a, b) = _tensors((4,), (4,))
    saxpy(a, b, 0.1)
    assert [key for key in saxpy._launchers if key[0] == "float32*"] == [
        ("float32*", "float32*", "float32", "float32*", "int64")
    ]
    np.testing.assert_array_equal(saxpy(a, b, 0.1).numpy(), np.float32(0.1) * x + y)


def test_a_launch_of_rows() -> None:
    """Grid, block and sizes of one's own; the result has another shape."""

    @tk.cuda.kernel(launch=lambda x: (x.shape[0], 32, x.shape[1]), meta=lambda x: x.shape[:1], threads=32)
    def row_sums(x: Any, out: Any, columns: Any) -> None:
        row = cuda.blockIdx.x
        total = shifted(x[0]) - shifted(x[0])
        for j in range(columns):
            total += x[row * columns + j]
        if cuda.threadIdx.x == 0:
            out[row] = total

    (x,), (a,) = _tensors((5, 7))
    np.testing.assert_array_equal(row_sums(a).numpy(), x.sum(1))


def test_several_results_of_other_dtypes() -> None:
    @tk.cuda.kernel(results=2, meta=lambda x: [(x.shape, "bool"), (x.shape, tk.float64)])
    def signs(x: Any, negative: Any, wide: Any, n: Any) -> None:
        i = cuda.grid(1)
        if i < n:
            negative[i] = 1 if x[i] < 0 else 0
            wide[i] = x[i]

    (x,), (a,) = _tensors((70,))
    negative, wide = signs(a)
    assert (negative.dtype, wide.dtype) == (np.dtype(bool), tk.float64)
    np.testing.assert_array_equal(negative.numpy(), x < 0)
    np.testing.assert_array_equal(wide.numpy(), x)


@tk.cuda.kernel(results=0)
def _negate(x: Any, n: Any) -> None:
    i = cuda.grid(1)
    if i < n:
        x[i] = -x[i]


def test_a_kernel_that_changes_its_argument() -> None:
    (x,), (a,) = _tensors((50,))
    assert _negate(a) is None
    np.testing.assert_array_equal(a.numpy(), -x)
    _, (b,) = _tensors((4, 5))
    with pytest.raises(ValueError, match=r"\[_negate\] a kernel without results changes its arguments.*x\.clone\(\)"):
        _negate(tk.permute_dims(b, (1, 0)))


def test_mistakes() -> None:
    _, (a,) = _tensors((5,))
    with pytest.raises(ValueError, match=r"\[saxpy\] got no tensor"):
        saxpy(1, 2, 3.0)
    with pytest.raises(TypeError, match=r"\[saxpy\] got 'text' of type str"):
        saxpy(a, a, "text")
    with pytest.raises(TypeError, match=r"\[k\] launch= returned 3"):
        tk.cuda.kernel("def k(x, out):\n    pass\n", launch=lambda x: 3)(a)
    with pytest.raises(ValueError, match=r"\[k\] meta= returned \(2,\) for 2 results"):
        tk.cuda.kernel("def k(x, out):\n    pass\n", results=2, meta=lambda x: (2,))(a)
    with pytest.raises(ValueError, match=r"\[kernel\] the source has neither"):
        tk.cuda.kernel("x = 3")


def test_names_of_kernels() -> None:
    two = "def helper(x):\n    return x\n\ndef k(x, out, n):\n    pass\n"
    assert tk.cuda.kernel(two).name == "k"
    assert tk.cuda.kernel(two, name="helper").name == "helper"
    bounds = 'extern "C" __global__ void __launch_bounds__(256, 2) bounded(float *x) {}'
    assert tk.cuda.kernel(bounds).name == "bounded"
    assert repr(saxpy) == "<CUDA kernel saxpy>"
    assert saxpy.__doc__ == "Return a x + y."


@tk.cuda.kernel
def with_a_matrix(x: Any, out: Any, n: Any) -> None:
    i = cuda.grid(1)
    if i < n:
        out[i] = np.linalg.svd(x[i])  # a place that Numba does not tell


def test_a_kernel_in_python_that_does_not_compile() -> None:
    x = tk.ones(3, device="cuda")
    line = with_a_matrix.function.__code__.co_firstlineno + 4
    with pytest.raises(RuntimeError) as caught:
        with_a_matrix(x)
    start = (
        f"[with_a_matrix] the kernel does not compile for the parameters (float32*, float32*, int64), at {FILE}:{line}"
    )
    assert str(caught.value).startswith(f"{start} (out[i] = np.linalg.svd(x[i])")
    assert "svd(float32)" in str(caught.value)
    with pytest.raises(
        RuntimeError, match=r"3 argument types given.*declare the arguments, then the results"
    ) as caught:
        tk.cuda.kernel("def two(out, n):\n    out[0] = 1\n")(x)
    assert str(caught.value).startswith("[two] the kernel does not compile")
    with pytest.raises(RuntimeError, match=r"\[wrong\] .*at <wrong.py>:2 .x = = 1.*SyntaxError"):
        tk.cuda.kernel("def wrong(x, out, n):\n    x = = 1\n")(x)


HALVES = """
#include <cuda_fp16.h>
extern "C" __global__ void halves(const __half *x, __half *out, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = __hmul(x[i], __float2half(0.5f));
}
"""


def test_headers_of_cuda_can_be_included() -> None:
    pathfinder = pytest.importorskip("cuda.pathfinder")
    if not hasattr(pathfinder, "find_nvidia_header_directory") or not pathfinder.find_nvidia_header_directory("cudart"):
        pytest.skip("the headers of CUDA are not installed")
    x = tk.arange(5, dtype=tk.float16, device="cuda")
    assert tk.cuda.kernel(HALVES)(x).tolist() == [0, 0.5, 1, 1.5, 2]


@tk.cuda.kernel(results=0, launch=lambda x, *rest: (2, 128, x.shape[0]))
def summary(x: Any, counts: Any, sums: Any, most: Any, n: Any) -> None:
    i = cuda.grid(1)
    shared = cuda.shared.array(4, np.int32)
    if cuda.threadIdx.x < 4:
        shared[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(shared, x[i], 1)
        cuda.atomic.add(sums, x[i], 0.5)
        cuda.atomic.max(most, 0, float(i))
        cuda.atomic.or_(counts, 3, 64)
        cuda.atomic.cas(counts, 2, 0, 7)
    cuda.syncthreads()
    if cuda.threadIdx.x < 2:
        cuda.atomic.add(counts, cuda.threadIdx.x, shared[cuda.threadIdx.x])


@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_atomic_operations_of_numba_take_pointers(dtype: str) -> None:
    x = tk.asarray(np.arange(200) % 3 % 2, device="cuda")
    counts = tk.zeros(4, dtype=dtype, device="cuda")
    sums = tk.zeros(2, device="cuda")
    most = tk.zeros(1, dtype=tk.float64, device="cuda")
    summary(x, counts, sums, most)
    assert counts.tolist() == [133, 67, 7, 64]
    assert (sums.tolist(), most.tolist()) == ([66.5, 33.5], [199.0])
    with pytest.raises(RuntimeError, match=r"\[summary\] the kernel does not compile"):
        summary(x, counts, tk.zeros(2, dtype=tk.float16, device="cuda"), most)
