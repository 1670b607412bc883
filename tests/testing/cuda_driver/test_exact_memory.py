"""Note [The memory of tensors]: an access one element past a tensor is found, though the allocator has memory there."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tenkey as tk

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

READS = """
extern "C" __global__ void reads(const float *x, float *out, long long n) {
    long long i = blockIdx.x * (long long) blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i + SHIFT];
}
"""
WRITES = READS.replace("reads", "writes").replace("out[i] = x[i + SHIFT]", "out[i + SHIFT] = x[i]")


@pytest.mark.parametrize(("source", "verb"), [(READS, "reads"), (WRITES, "writes")])
@pytest.mark.parametrize("count", [1, 128, 1000])
def test_past_the_end(source: str, verb: str, count: int) -> None:
    with tk.testing.cuda_emulator() as emulator:
        x = tk.asarray(np.arange(count, dtype=np.float32), device="cuda")
        neighbour = tk.ones(count, device="cuda")  # in the same segment
        assert tk.cuda.kernel(source.replace("SHIFT", "0"))(x).tolist() == x.tolist()
        wrong = tk.cuda.kernel(source.replace("SHIFT", "1"))
        expected = rf"{verb}: thread \({(count - 1) % 256}, 0, 0\).* {verb} 4 bytes .*{4 * count} bytes, at \S+:5"
        with pytest.raises(RuntimeError, match=expected):
            wrong(x).tolist()
        emulator.clear_error()
        assert neighbour.tolist() == [1.0] * count


def test_memory_that_no_tensor_holds() -> None:
    with tk.testing.cuda_emulator() as emulator:
        x = tk.ones(100, device="cuda")
        address = x.__cuda_array_interface__["data"][0]
        peek = tk.cuda.kernel(
            'extern "C" __global__ void peek(long long at, float *out, long long n) { *out = *(float *)at; }',
            launch=lambda at: (1, 1, 1), meta=lambda at: (1,),
        )  # fmt: skip
        del x
        with pytest.raises(ValueError, match=re.escape("[peek] got no tensor")):
            peek(address)
        emulator.clear_error()


def test_replays_use_memory_that_no_tensor_holds() -> None:
    with tk.testing.cuda_emulator():

        @tk.cuda.graph
        def step(x: tk.Tensor) -> tk.Tensor:
            return (x + 1) * (x + 2)

        for i in range(4):
            assert step(tk.full((3,), float(i), device="cuda")).tolist() == [(i + 1) * (i + 2)] * 3
