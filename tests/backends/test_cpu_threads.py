"""Operators on several threads of the pool: results are the same for any number of threads (Note [Regions])."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import cpu
from tenkey.core.tensor import Tensor

_SIZE = (1 << 20) + 12_345  # many chunks, the last one short


@pytest.fixture(autouse=True)
def _same_number_afterwards() -> Iterator[None]:
    before = cpu.get_num_threads()
    yield
    cpu.set_num_threads(before)


@pytest.fixture(scope="module")
def values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(_SIZE).astype(np.float32)


_CALLS: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("exp", tk.exp),
    ("tanh", tk.tanh),
    ("add", lambda x: x + x),
    ("scalar", lambda x: x * 2.5),
    ("divide", lambda x: x / (x + 3)),
    ("where", lambda x: tk.where(x > 0, x, -1.0)),
    ("broadcast", lambda x: tk.reshape(x[: 1 << 20], (1024, 1024)) + x[:1024]),
    ("transposed", lambda x: tk.exp(tk.matrix_transpose(tk.reshape(x[: 1 << 20], (512, 2048))))),
    ("sum", tk.sum),
    ("prod", lambda x: tk.prod(1 + x * 1e-6)),
    ("max", tk.max),
    ("mean", tk.mean),
    ("row sums", lambda x: tk.sum(tk.reshape(x[: 1 << 20], (1024, 1024)), axis=1)),
    ("column sums", lambda x: tk.sum(tk.reshape(x[: 1 << 20], (1024, 1024)), axis=0)),
    ("softmax", lambda x: tk.softmax(tk.reshape(x[: 1 << 20], (1024, 1024)))),
]


@pytest.mark.parametrize("call", [call for _, call in _CALLS], ids=[name for name, _ in _CALLS])
def test_results_do_not_depend_on_the_number_of_threads(
    call: Callable[[Tensor], Tensor], values: np.ndarray[Any, Any]
) -> None:
    x = tk.asarray(values)
    call(x)
    results = []
    for count in (1, 2, 3, 8):
        cpu.set_num_threads(count)
        results.append(call(x).numpy().tobytes())
    assert len(set(results)) == 1


def test_several_threads_of_the_user_at_once(values: np.ndarray[Any, Any]) -> None:
    cpu.set_num_threads(4)
    x = tk.asarray(values)
    want = [call(x).numpy() for _, call in _CALLS[:8]]
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait(timeout=60)
        for k in range(len(want)):
            at = (k + number) % len(want)  # not all the same at the same time
            np.testing.assert_allclose(_CALLS[at][1](x).numpy(), want[at], rtol=2e-6)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work, number) for number in range(4)]:
            future.result(timeout=120)


_FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, tenkey as tk
from tenkey.backends import cpu
cpu.set_num_threads(2)
x = tk.ones(1 << 20)
want = tk.sum(x).item(), (x * 2.5).sum().item()
child = os.fork()
if child == 0:
    cpu.set_num_threads(2)
    os._exit(0 if (tk.sum(x).item(), (x * 2.5).sum().item()) == want else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), want)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_after_a_fork() -> None:
    done = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split(" ", 1) == ["0", f"({float(1 << 20)}, {2.5 * (1 << 20)})\n"], done.stderr
