"""Large calls on several threads: Note [One parallel region at a time]."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends import cpu
from tenkey.backends.cpu.pool import pieces as threads
from tenkey.core.tensor import Tensor

_SIZE = (1 << 20) + 12_345  # several pieces, the last one short


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


def test_every_piece_is_done_once() -> None:
    cpu.set_num_threads(4)
    lock = threading.Lock()
    for length in (1, threads.PIECE - 1, threads.PIECE, threads.PIECE + 1, 5 * threads.PIECE + 3):
        seen: list[tuple[int, int]] = []

        def task(start: int, stop: int) -> None:
            with lock:
                seen.append((start, stop))  # noqa: B023 (for_pieces returns when all are done)

        threads.for_pieces(task, length)
        edges = sorted(seen)
        assert edges[0][0] == 0
        assert edges[-1][1] == length
        assert all(a[1] == b[0] for a, b in itertools.pairwise(edges))
        assert all(stop - start <= threads.PIECE for start, stop in edges)


def test_pieces_do_not_depend_on_the_number_of_threads() -> None:
    cuts = []
    for count in (1, 3):
        cpu.set_num_threads(count)
        seen: list[tuple[int, int]] = []
        threads.for_pieces(lambda a, b: seen.append((a, b)), 1000, 7)  # noqa: B023
        cuts.append(sorted(seen))
    assert cuts[0] == cuts[1]


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("bad", [0, 3, 9])
def test_exceptions_propagate(count: int, bad: int) -> None:
    cpu.set_num_threads(count)

    class PieceError(Exception):
        pass

    def task(start: int, stop: int) -> None:
        if start == bad:
            raise PieceError(start)

    with pytest.raises(PieceError, match=str(bad)):
        threads.for_pieces(task, 10, 1)
    done: list[int] = []
    threads.for_pieces(lambda a, b: done.append(a), 10, 1)  # the workers are there for the next call
    assert sorted(done) == list(range(10))


def test_an_interrupt_when_a_worker_has_been_waited_for() -> None:
    """Python raises it once the call of the lock has returned: it must not be waited for again."""

    def interrupt(frame: Any, event: str, function: Any) -> None:
        if event == "c_return" and frame.f_code is threads._wait.__code__:
            raise KeyboardInterrupt

    def call() -> None:
        cpu.set_num_threads(2)
        sys.setprofile(interrupt)
        with pytest.raises(KeyboardInterrupt):
            threads.for_pieces(lambda a, b: None, 10, 1)
        threads.for_pieces(lambda a, b: done.append(a), 10, 1)

    done: list[int] = []
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(30)
    assert sorted(done) == list(range(10))


def test_a_region_inside_a_region_runs_alone() -> None:
    cpu.set_num_threads(4)
    inner: list[tuple[int, int]] = []

    def task(start: int, stop: int) -> None:
        threads.for_pieces(lambda a, b: inner.append((start, a)), 3, 1)

    threads.for_pieces(task, 4, 1)
    assert sorted(inner) == [(i, j) for i in range(4) for j in range(3)]


def test_workers_that_wait_keep_no_arrays_alive() -> None:
    cpu.set_num_threads(4)

    def fill() -> Any:
        array = np.zeros(1000)
        threads.for_pieces(lambda start, stop: array[start:stop].fill(1.0), 1000, 10)
        assert array.sum() == 1000
        return weakref.ref(array)

    assert fill()() is None


def test_set_num_threads() -> None:
    cpu.set_num_threads(3)
    assert cpu.get_num_threads() == 3
    with pytest.raises(ValueError, match=r"^\[set_num_threads\] needs at least 1 thread, got 0\.$"):
        cpu.set_num_threads(0)
    assert cpu.get_num_threads() == 3


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
    environment = {**os.environ, "TENKEY_COMPILE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", _FORK], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.stdout.split(" ", 1) == ["0", f"({float(1 << 20)}, {2.5 * (1 << 20)})\n"], done.stderr
