"""A backend outside tenkey: four methods make a device on which everything works; kernels then make it fast.

    python examples/custom_backend.py
    pytest --pyargs tenkey.testing.backend --backend toy --backend-module examples/custom_backend.py

The first command shows what a backend gets, the second tests it against the CPU, operator by operator. The device is
called "toy"; its memory consists of bytearrays of the host, so that the example runs everywhere. A real backend holds
the buffers of a driver, OpenCL for example, and is written in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenkey as tk


class Toy(tk.backends.Backend):
    """Memory, and copies to and from it. A *buffer* is any object that ``allocate`` returns."""

    name = "toy"  # the device string: tk.zeros(3, device="toy")
    live = 0  # bytes that tensors currently hold

    def allocate(self, nbytes: int, device: int = 0) -> bytearray:
        """Return a new buffer."""
        self.live += nbytes
        return bytearray(nbytes)

    def free(self, buffer: bytearray) -> None:
        """Free a buffer that no tensor uses any more."""
        self.live -= len(buffer)

    def copy_from_host(self, buffer: bytearray, array: np.ndarray) -> None:
        """Copy ``array``, which holds bytes (uint8), to the buffer."""
        buffer[: array.size] = array.tobytes()

    def copy_to_host(self, buffer: bytearray, array: np.ndarray) -> None:
        """Fill ``array``, which holds bytes, from the buffer."""
        array[:] = np.frombuffer(buffer, np.uint8, array.size)


def loss_after_training(device: str) -> float:
    """Fit two layers to a sine; the code is the same for every device."""
    tk.random.seed(0)  # a seed gives the same numbers on every device
    x = tk.asarray(np.linspace(-2, 2, 64, dtype=np.float32)[:, None], device=device)
    y = tk.sin(2 * x)
    w1, b1, w2, b2 = parameters = [
        tk.random.normal(shape, std=0.8, device=device).requires_grad_() for shape in ((1, 32), (32,), (32, 1), (1,))
    ]
    for _ in range(300):
        tk.mean((tk.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).backward()
        with tk.no_grad():
            for parameter in parameters:
                assert parameter.grad is not None
                parameter -= 0.05 * parameter.grad
                parameter.grad = None
    return float(tk.mean((tk.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).item())


# 1. Once registered, the device can be used like "cpu". It has no kernel yet: composite operators and views are
# derived; for all others tenkey copies the arguments to the CPU and the result back, and counts these calls.
toy = Toy()
tk.backends.register(toy)


# 2. Kernels. A tensor's `array` describes where its elements are in the buffer: shape, strides and offset, in bytes.
# Here NumPy can access the memory; a real backend would pass the buffer and the numbers to its compiler or driver.
def window(x: tk.Tensor) -> np.ndarray:
    """Return the elements of a tensor on the toy device, without a copy."""
    where = x.array
    return np.ndarray(where.shape, where.dtype, where.buffer, where.offset, where.strides)


def matmul(x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
    """Compute a matrix product. The backend creates the result: here from an array, below as an empty tensor."""
    return toy.from_host(np.matmul(window(x1), window(x2)))


def pointwise_kernel(function: np.ufunc) -> Any:
    """Return a kernel for a pointwise operator. The operands have one dtype; the kernel broadcasts them."""

    def kernel(*operands: tk.Tensor) -> tk.Tensor:
        arrays = [window(x) for x in operands]
        out = toy.empty(np.broadcast_shapes(*[array.shape for array in arrays]), arrays[0].dtype)
        function(*arrays, out=window(out))
        return out

    return kernel


def add_kernels() -> None:
    """Register kernels, each of which replaces the fallback of its operator and of the in-place variant."""
    tk.library.register_kernel("tk::matmul", "toy", matmul)
    for name, function in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "tanh": np.tanh}.items():
        tk.library.register_kernel(f"tk::{name}", "toy", pointwise_kernel(function))


def main() -> None:
    """Train without kernels and with them, and show what ran where."""
    a = tk.asarray([[1.0, 2.0], [3.0, 4.0]], device="toy")
    print(a, a @ a, sep="\n")
    on_cpu, on_toy = loss_after_training("cpu"), loss_after_training("toy")
    print(f"Loss after training: {on_cpu:.6f} on the CPU, {on_toy:.6f} on the toy device, without a single kernel.")
    assert abs(on_cpu - on_toy) < 0.01 * on_cpu
    print(tk.backends.coverage("toy"), end="\n\n")

    add_kernels()

    # 3. The same training uses the kernels at once. Gradients need nothing more, because they consist of operators.
    before = sum(tk.backends.coverage("toy").fallback.values())
    again, covered = loss_after_training("toy"), tk.backends.coverage("toy")
    after = sum(covered.fallback.values()) - before
    print(f"With five kernels: {again:.6f}, and {after} instead of {before} calls on the CPU.")
    assert abs(on_cpu - again) < 0.01 * on_cpu  # the last digits of tanh differ, and training accumulates this
    print("Implemented:", ", ".join(covered.implemented))
    print(tk.dispatch.explain(tk.tanh, a), end="\n\n")

    # 4. `strict_fallback` finds what is still missing, and memory is freed with the last tensor.
    with tk.backends.strict_fallback():
        print("Runs on the device alone:", (a @ a + a).tolist())
        try:
            tk.exp(a)
        except NotImplementedError as error:
            print(error)
    del a
    print(f"Bytes that are still allocated: {toy.live}")
    assert toy.live == 0


if __name__ == "__main__":
    main()
else:  # imported, for example by the conformance suite: register the kernels too
    add_kernels()
