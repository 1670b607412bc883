"""opcheck on the emulator finds what is wrong with a kernel, and names its file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tests.backends.cuda._emulated import emulated

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from numba import cuda, float32


def one_block(x: tk.Tensor) -> tuple[int, int, int]:
    return min(1, x.shape[0]), max(1, x.shape[0]), x.shape[0]


@tk.library.custom_op("cuda_mistakes::reverse", mutates_args=())
def reverse(x: tk.Tensor) -> tk.Tensor:
    return tk.flip(x, (0,))


reverse.register_fake(lambda x: tk.empty_like(x))


def right(x: Any, out: Any, n: Any) -> None:
    values = cuda.shared.array(256, float32)
    i = cuda.threadIdx.x
    values[i] = x[i]
    cuda.syncthreads()
    out[i] = values[n - 1 - i]


def outside(x: Any, out: Any, n: Any) -> None:
    i = cuda.threadIdx.x  # a comment, and an empty line

    out[i] = x[n - i]  # wrong: one place after the end


def divergent(x: Any, out: Any, n: Any) -> None:
    i = cuda.threadIdx.x
    if i < n // 2:
        cuda.syncthreads()  # wrong: for a half
    out[i] = x[n - 1 - i]


def racing(x: Any, out: Any, n: Any) -> None:
    i = cuda.threadIdx.x
    out[i] = x[i]
    value = out[n - 1 - i]  # wrong: maybe not written yet
    cuda.syncthreads()
    out[i] = value


C = """
extern "C" __global__ void in_c(const float *x, float *out, long long n) {
    __shared__ float values[256];
    int i = threadIdx.x;
    BODY
}
"""
BODIES = {
    "right": "values[i] = x[i];\n    __syncthreads();\n    out[i] = values[n - 1 - i];",
    "outside": "out[i] = x[n - i];  // wrong",
    "divergent": "if (x[i] > 4) __syncthreads();  // wrong\n    out[i] = x[n - 1 - i];",
    "racing": "out[i] = x[i];\n    float value = out[n - 1 - i];  // wrong\n    __syncthreads();\n    out[i] = value;",
}
FOUND = {
    "outside": "after the end of an allocation",
    "divergent": "not all threads reach",
    "racing": "without a barrier",
}


@pytest.fixture(params=["numba", "C"])
def kernel_of(request: pytest.FixtureRequest) -> Iterator[Any]:
    with emulated(guard=16) as emulator:

        def made(name: str) -> tuple[Any, str, str]:
            """Register a kernel; return its registration, its name, and the place of its mistake."""
            if request.param == "numba":
                function, path = globals()[name], Path(__file__)
                kernel = tk.cuda.kernel(function, launch=one_block)
                first = function.__code__.co_firstlineno
                lines = path.read_text().splitlines()[first - 1 :]
            else:
                path, first = Path("in_c.cu"), 1
                kernel = tk.cuda.kernel(C.replace("BODY", BODIES[name]), launch=one_block)
                lines = kernel.text.splitlines()
            line = next((k for k, text in enumerate(lines) if "wrong" in text), 0)
            code = re.split("[#/]", lines[line].replace("n // 2", ""))[0].strip()
            place = f"{path.name}:{first + line} ({code}"
            return tk.library.register_kernel("cuda_mistakes::reverse", "cuda", kernel), kernel.name, place

        yield made
        emulator.clear_error()


@pytest.mark.parametrize("mistake", FOUND)
def test_opcheck_names_operator_kernel_and_line(kernel_of: Any, mistake: str) -> None:
    registered, name, place = kernel_of(mistake)
    try:
        x = tk.arange(10, dtype=tk.float32, device="cuda")
        with pytest.raises(Exception, match="opcheck") as caught:
            tk.library.opcheck(reverse, (x,))
    finally:
        registered.remove()
    text = " ".join(str(caught.value).split())
    assert f"[cuda_mistakes::reverse] the kernel '{name}' has failed" in text
    assert FOUND[mistake] in text
    assert place in text
    assert "1 of 12 checks failed: schema" in text
    assert "layout passed" not in text, "nothing else can be judged on a device that has failed"


def test_a_right_kernel_passes(kernel_of: Any) -> None:
    registered, *_ = kernel_of("right")
    try:
        tk.library.opcheck(reverse, (tk.arange(10, dtype=tk.float32, device="cuda"),))
    finally:
        registered.remove()


def test_a_failure_is_in_the_row_of_the_check_that_led_to_it() -> None:
    kernel = tk.cuda.kernel(right, launch=lambda x: (1, max(1, x.shape[0]), x.shape[0]))
    with emulated(guard=16) as emulator, tk.library.register_kernel("cuda_mistakes::reverse", "cuda", kernel):
        with pytest.raises(Exception, match="opcheck") as caught:
            tk.library.opcheck(reverse, (tk.arange(10, dtype=tk.float32, device="cuda"),))
        emulator.clear_error()
    rows = {row.name: row for row in caught.value.report.rows}  # type: ignore[attr-defined]
    assert rows["zero size"].status == "failed"
    assert "the kernel 'right' has failed" in rows["zero size"].text


def test_races_are_watched_for_in_kernels_that_ran_before() -> None:
    """The options of an inner emulator hold for kernels that are loaded already; so does their end."""
    with emulated():
        kernel = tk.cuda.kernel(racing, launch=one_block)
        x = tk.arange(10, dtype=tk.float32, device="cuda")
        kernel(x)
        tk.cuda.synchronize()
        with emulated(races=True) as inner:
            kernel(x)
            with pytest.raises(tk.cuda.KernelFailureError, match="without a barrier"):
                tk.cuda.synchronize()
            inner.clear_error()
        kernel(x)
        tk.cuda.synchronize()
