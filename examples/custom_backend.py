"""A backend from outside: four methods give a device on which everything works, and kernels then make it fast.

    python examples/custom_backend.py
    pytest --pyargs tenkey.testing.backend --backend toy --backend-module examples/custom_backend.py

The first line shows what follows from a backend, the second tests it against the CPU, operator by operator.
The device is called "toy" and its memory is bytearrays of the host, so that the example runs everywhere. A real one
holds the buffers of a driver, say of OpenCL, and is written in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenkey as tk


class Toy(tk.backends.Backend):
    """Memory, and copies to and from it. What ``allocate`` returns is the backend's own affair: its *buffer*."""

    name = "toy"  # the device string: tk.zeros(3, device="toy")
    live = 0  # bytes that tensors hold now

    def allocate(self, nbytes: int, device: int = 0) -> bytearray:
        """A new buffer."""
        self.live += nbytes
        return bytearray(nbytes)

    def free(self, buffer: bytearray) -> None:
        """Called when no tensor, nor a view of one, looks at the buffer any more."""
        self.live -= len(buffer)

    def copy_from_host(self, buffer: bytearray, array: np.ndarray) -> None:
        """``array`` holds bytes (uint8)."""
        buffer[: array.size] = array.tobytes()

    def copy_to_host(self, buffer: bytearray, array: np.ndarray) -> None:
        """Fill ``array``, which holds bytes."""
        array[:] = np.frombuffer(buffer, np.uint8, array.size)


def loss_after_training(device: str) -> float:
    """Fit two layers to a sine, on any device: nothing here knows which."""
    tk.random.seed(0)  # one seed gives the same numbers on every device
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


# 1. From the moment of registration the device is one like "cpu". It has no kernel yet: composite operators and views
# are derived, and for all others tenkey copies the arguments to the CPU and the result back, and counts these calls.
toy = Toy()
tk.backends.register(toy)


# 2. Kernels. A tensor's `data` says where its elements lie in the buffer: shape, strides and offset, in bytes. Here
# NumPy can look at the memory; a real backend would hand buffer and numbers to its compiler or driver.
def window(x: tk.Tensor) -> np.ndarray:
    """The elements of a tensor on the toy device, without a copy."""
    where = x.data
    return np.ndarray(where.shape, where.dtype, where.buffer, where.offset, where.strides)


def matmul(x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
    """The result is made by the backend too: here from an array, below by writing through a window."""
    return toy.from_host(np.matmul(window(x1), window(x2)))


def pointwise_kernel(function: np.ufunc) -> Any:
    """A kernel for a pointwise operator. Its operands arrive with one dtype; broadcasting is up to the kernel."""

    def kernel(*operands: tk.Tensor) -> tk.Tensor:
        arrays = [window(x) for x in operands]
        out = toy.empty(np.broadcast_shapes(*[array.shape for array in arrays]), arrays[0].dtype)
        function(*arrays, out=window(out))
        return out

    return kernel


def add_kernels() -> None:
    """Register kernels: each takes its operator out of the fallback, and its in-place variant with it."""
    tk.library.register_kernel("tk::matmul", "toy", matmul)
    for name, function in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "tanh": np.tanh}.items():
        tk.library.register_kernel(f"tk::{name}", "toy", pointwise_kernel(function))


def main() -> None:
    """Train without kernels and with them, and look at what ran where."""
    a = tk.asarray([[1.0, 2.0], [3.0, 4.0]], device="toy")
    print(a, a @ a, sep="\n")
    on_cpu, on_toy = loss_after_training("cpu"), loss_after_training("toy")
    print(f"Loss after training: {on_cpu:.6f} on the CPU, {on_toy:.6f} on the toy device, without a single kernel.")
    assert abs(on_cpu - on_toy) < 0.01 * on_cpu
    print(tk.backends.coverage("toy"), end="\n\n")

    add_kernels()

    # 3. The same training uses them at once: a kernel takes its operator out of the fallback. Gradients need nothing
    # more, for they are made of operators.
    before = sum(tk.backends.coverage("toy").fallback.values())
    again, covered = loss_after_training("toy"), tk.backends.coverage("toy")
    after = sum(covered.fallback.values()) - before
    print(f"With five kernels: {again:.6f}, and {after} instead of {before} calls on the CPU.")
    assert abs(on_cpu - again) < 0.01 * on_cpu  # the last digits of tanh differ, and training adds it up
    print("Implemented:", ", ".join(covered.implemented))
    print(tk.dispatch.explain(tk.tanh, a), end="\n\n")

    # 4. `strict_fallback` finds what is still missing, and memory is given back when the last tensor is gone.
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
else:  # imported, by the conformance suite say, the backend comes with its kernels
    add_kernels()
