"""The backend on the emulator: loading, numbers, layouts, random numbers, and what is missing without a driver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

import tenkey as tk


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> Iterator[None]:
    with tk.testing.cuda_emulator(), tk.backends.strict_fallback():
        yield


def _run(code: str, **environment: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_tenkey_loads_nothing_of_cuda() -> None:
    loaded = "[m for m in sys.modules if m.partition('.')[0] in ('numba_cuda', 'cuda', 'nvmath') or '.cuda.' in m]"
    assert _run(f"import sys, tenkey as tk; tk.ones(3) + 1; print({loaded})") == "[]\n"


def test_without_a_driver_the_error_says_what_is_missing() -> None:
    code = """
import tenkey as tk
try:
    tk.ones(3, device="cuda")
except RuntimeError as error:
    print(error)
"""
    from tenkey.backends.cuda.device import driver

    text = _run(code, TENKEY_CUDA_EMULATOR="0")
    if "libcuda.so.1" in text:
        assert "install the driver" in text
        assert "cuda_emulator" in text
    else:
        assert driver.is_available()


def test_numbers_share_a_kernel() -> None:
    from tenkey.backends.cuda.device import launching

    x = tk.arange(5, dtype=tk.float32, device="cuda")
    (x * 2.5).tolist()
    before = len(launching._made)
    assert (x * 3.5).tolist() == [0.0, 3.5, 7.0, 10.5, 14.0]
    assert len(launching._made) == before


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "bool", "uint8", "int64"])
def test_dtypes(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    kind = getattr(tk, dtype)
    host = tk.asarray(np.arange(12).reshape(3, 4) % 3).astype(kind)
    x = host.to_device("cuda")
    for function in (
        lambda t: t + t,
        lambda t: t.T * t.T,
        lambda t: tk.where(t == t, t, t),
        lambda t: t.astype(tk.bool),
    ):
        found: Any = function(x)
        expected: Any = function(host)
        assert found.dtype == expected.dtype
        assert (found.cpu() == expected).all()


def test_in_place_and_overlapping() -> None:
    x = tk.arange(10, dtype=tk.float32, device="cuda")
    x[2:] += x[:-2]
    host = tk.arange(10, dtype=tk.float32)
    host[2:] += host[:-2]
    assert x.tolist() == host.tolist()


DRAWS: dict[str, Callable[[str], Any]] = {
    "uniform": lambda device: tk.random.uniform((3, 17), device=device),
    "uniform float64": lambda device: tk.random.uniform((7,), low=-2.0, high=3.0, dtype=tk.float64, device=device),
    "normal": lambda device: tk.random.normal((5, 9), device=device),
    "integers": lambda device: tk.random.integers(-5, 2**40, (40,), device=device),
    "exponential": lambda device: tk.random.exponential((33,), scale=2.0, device=device),
    "permutation": lambda device: tk.random.permutation(29, device=device),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_those_of_the_cpu(name: str) -> None:
    drawn = []
    for device in ("cpu", "cuda"):
        tk.random.seed(7)
        drawn.append([DRAWS[name](device).cpu().numpy() for _ in range(2)])
    for expected, given in zip(*drawn, strict=True):
        assert given.dtype == expected.dtype
        assert given.tobytes() == expected.tobytes()


def test_long_rows() -> None:
    """Reductions by several blocks for a row, and by columns."""
    rng = np.random.default_rng(0)
    for shape, axis in (((2, 5000), 1), ((5000, 3), 0), ((40, 1500), 1), ((1, 70000), 1)):
        x = rng.integers(-9, 9, shape).astype("f4")
        assert np.array_equal(tk.sum(tk.asarray(x, device="cuda"), axis=axis).cpu().numpy(), x.sum(axis))
        assert np.array_equal(tk.max(tk.asarray(x, device="cuda"), axis=axis).cpu().numpy(), x.max(axis))


def test_half_precision_is_summed_in_single_precision() -> None:
    """In float16, ones no longer count from 2048 on."""
    ones = tk.ones((3, 5000), dtype=tk.float16, device="cuda")
    assert tk.sum(ones, axis=1).tolist() == [5000.0] * 3
    assert tk.sum(ones.T, axis=0).tolist() == [5000.0] * 3
