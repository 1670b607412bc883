"""An operator with two CUDA kernels of its own, written and checked with or without a GPU.

    python examples/cuda_operator.py [--emulate]

RMS normalization (Zhang and Sennrich, 2019) divides each row by its root mean square. Composed from other operators, it
reads and writes the matrix several times; here a group of threads computes a row. The kernel is a Python function in
the language of numba.cuda, the one of the gradient CUDA C++. Other devices run the Python function of the operator.

Without a GPU, or with --emulate, the kernels run on the emulator: compiled to PTX as for a GPU, and executed on the CPU
with every access checked. Then the program makes two typical mistakes and shows what the emulator says of each.
Needs the extra: pip install '.[cuda]'.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import tenkey as tk

if TYPE_CHECKING:  # the names of a kernel in numba.cuda's language
    from numba import cuda


@tk.library.custom_op("example::rms_norm", mutates_args=())
def rms_norm(x: tk.Tensor, eps: float = 1e-6) -> tk.Tensor:
    """Divide each row by its root mean square; eps is added to the mean of the squares."""
    return x / tk.sqrt((x * x).mean(axis=1, keepdims=True) + eps)


@tk.library.custom_op("example::rms_norm_backward", mutates_args=())
def rms_norm_backward(g: tk.Tensor, x: tk.Tensor, eps: float) -> tk.Tensor:
    """Return the gradient with respect to x."""
    scale = 1 / tk.sqrt((x * x).mean(axis=1, keepdims=True) + eps)
    return scale * (g - x * scale * scale * (g * x).mean(axis=1, keepdims=True))


rms_norm.register_fake(lambda x, eps: tk.empty_like(x))
rms_norm_backward.register_fake(lambda g, x, eps: tk.empty_like(x))


def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tk.Tensor) -> None:
    """Save what the gradient needs."""
    ctx.save_for_backward(inputs[0])
    ctx.eps = inputs[1]


def backward(ctx: Any, g: tk.Tensor) -> tuple[tk.Tensor, None]:
    """Return the gradients with respect to x and eps."""
    return rms_norm_backward(g, *ctx.saved_tensors, ctx.eps), None


rms_norm.register_autograd(backward, setup_context=setup_context)


def a_warp_per_row(x: tk.Tensor, *rest: Any) -> tuple[int, int, int]:
    """Return grid and block, and the number of columns, which the kernel gets as its last argument."""
    return x.shape[0], 32, x.shape[1]


@tk.cuda.kernel(launch=a_warp_per_row)
def forward(x, eps, out, columns):  # type: ignore[no-untyped-def]
    """Compute a row with a warp, whose threads exchange their sums."""
    lane = cuda.threadIdx.x
    start = cuda.blockIdx.x * columns
    total = 0 * eps  # of the dtype of x
    for i in range(lane, columns, 32):
        total += x[start + i] * x[start + i]
    step = 16
    while step > 0:
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, step)
        step //= 2
    root = math.sqrt(total / columns + eps)
    for i in range(lane, columns, 32):
        out[start + i] = x[start + i] / root


def a_block_per_row(g: tk.Tensor, *rest: Any) -> tuple[int, int, int]:
    """Return grid and block, and the number of columns."""
    return g.shape[0], 128, g.shape[1]


BACKWARD = r"""
extern "C" __global__ void backward(const REAL *g, const REAL *x, REAL eps, REAL *out, long long columns)
{
    __shared__ REAL squares[128], products[128];
    const REAL *row = x + blockIdx.x * columns, *along = g + blockIdx.x * columns;
    REAL square = 0, product = 0;
    for (long long i = threadIdx.x; i < columns; i += 128) {
        square += row[i] * row[i];
        product += row[i] * along[i];
    }
    squares[threadIdx.x] = square;
    products[threadIdx.x] = product;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            squares[threadIdx.x] += squares[threadIdx.x + step];
            products[threadIdx.x] += products[threadIdx.x + step];
        }
        __syncthreads();
    }
    const REAL scale = 1 / sqrt(squares[0] / columns + eps);
    const REAL part = scale * scale * products[0] / columns;
    for (long long i = threadIdx.x; i < columns; i += 128)
        out[blockIdx.x * columns + i] = scale * (along[i] - row[i] * part);
}
"""
WITHOUT_BARRIER = BACKWARD.replace("        __syncthreads();\n    }", "    }")
TOO_FAR = BACKWARD.replace("i < columns", "i <= columns")


def register(source: str) -> Any:
    """Register a kernel of the gradient for two dtypes, and return what removes it."""
    sources = {tk.float32: source.replace("REAL", "float"), tk.float64: source.replace("REAL", "double")}
    kernels = {dtype: tk.cuda.kernel(text, launch=a_block_per_row) for dtype, text in sources.items()}

    def kernel(g: tk.Tensor, x: tk.Tensor, eps: float) -> Any:
        return kernels[x.dtype](g, x, eps)

    return tk.library.register_kernel("example::rms_norm_backward", "cuda", kernel)


def gradient(values: np.ndarray[Any, Any], device: str) -> list[np.ndarray[Any, Any]]:
    """Return the result and the gradient of a sum with weights."""
    x = tk.asarray(values, device=device).requires_grad_()
    out = rms_norm(x)
    (out * tk.cos(tk.arange(values.size, dtype=tk.float32, device=device).reshape(values.shape))).sum().backward()
    assert x.grad is not None
    return [out.detach().cpu().numpy(), x.grad.cpu().numpy()]


def check() -> None:
    """Compare both kernels with the CPU, and let opcheck try what is easily forgotten."""
    values = np.random.default_rng(0).standard_normal((6, 1000), dtype=np.float32)
    worst = [
        float(np.max(np.abs(one - other)))
        for one, other in zip(gradient(values, "cuda"), gradient(values, "cpu"), strict=True)
    ]
    print(f"Largest differences from the CPU: {worst[0]:.1e} in the result, {worst[1]:.1e} in the gradient.")
    if max(worst) > 1e-5:
        sys.exit("The kernels are wrong.")
    tk.library.opcheck(rms_norm, (tk.asarray(values[:, :70], device="cuda"),))


def main(arguments: list[str] | None = None) -> None:
    """Compare the operator with the CPU, check it, and show what the emulator says of two mistakes."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--emulate", action="store_true", help="use the emulator although there is a GPU")
    emulate = parser.parse_args(arguments).emulate or not tk.cuda.is_available()
    tk.library.register_kernel("example::rms_norm", "cuda", forward)
    right = register(BACKWARD)
    if not emulate:
        check()
        return
    with tk.testing.cuda_emulator(order="random", races=True):
        check()
    right.remove()
    for mistake in (WITHOUT_BARRIER, TOO_FAR):
        wrong = register(mistake)
        with tk.testing.cuda_emulator(order="random", races=True) as emulator:
            try:
                gradient(np.ones((1, 200), dtype=np.float32), "cuda")
            except RuntimeError as error:
                print(f"\n{type(error).__name__}: {error}")
            emulator.clear_error()
        wrong.remove()


if __name__ == "__main__":
    main()
