"""Tensors in memory that processes share."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="file descriptors are passed between processes on POSIX only"
)
METHODS = ["fork", "spawn"]


class Named(tk.Tensor):
    """A subclass with an attribute."""


def add_one(x: tk.Tensor) -> None:
    x += 1


def serve(inbox: Any, outbox: Any) -> None:
    """Change what comes in, and send a view of it back."""
    while (x := inbox.get()) is not None:
        x += 1
        outbox.put(x[1:])


def describe(connection: Any) -> None:
    x = connection.recv()
    connection.send((type(x).__name__, getattr(x, "unit", None), x.requires_grad, x.is_shared(), x.tolist()))
    with tk.no_grad():
        x.mul_(10)
    connection.send("done")


def test_share_memory() -> None:
    x = tk.asarray([[1.0, 2.0], [3.0, 4.0]])
    x += 1
    assert not x.is_shared()
    assert x.share_memory_() is x
    assert x.is_shared()
    assert x.tolist() == [[2, 3], [4, 5]]
    assert x._version == 1
    view = x[1]
    assert view.is_shared()
    assert tk.shares_storage(view, x)
    view += 1
    assert x.tolist() == [[2, 3], [5, 6]]
    assert x._version == 2
    assert not (x + 1).is_shared()
    data = x.numpy()
    assert x.share_memory_().numpy().ctypes.data == data.ctypes.data, "what is shared stays where it is"
    for shape in ((), (0, 3)):
        assert tk.zeros(shape).share_memory_().shape == shape


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match=r"\[share_memory_\] the tensor is a part of another one"):
        tk.ones(3)[1:].share_memory_()
    with pytest.raises(RuntimeError, match=r"\[share_memory_\] the tensor is on meta"):
        tk.ones(3, device="meta").share_memory_()
    assert not tk.ones(3, device="meta").is_shared()


def test_ordinary_pickles_hold_the_values() -> None:
    x = tk.ones(3).share_memory_()
    y = pickle.loads(pickle.dumps(x))
    y += 1
    assert x.tolist() == [1, 1, 1]
    assert not y.is_shared()


@pytest.mark.parametrize("method", METHODS)
def test_arguments_of_a_process(method: str) -> None:
    context: Any = mp.get_context(method)
    x = tk.zeros((2, 3)).share_memory_()
    process = context.Process(target=add_one, args=(x[:, 1:],))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert x.tolist() == [[0, 1, 1], [0, 1, 1]]


@pytest.mark.parametrize("method", METHODS)
def test_queue_both_ways(method: str) -> None:
    context: Any = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=serve, args=(inbox, outbox))
    process.start()
    shared = tk.zeros(3).share_memory_()
    inbox.put(shared)
    back = outbox.get(timeout=60)
    assert shared.tolist() == [1, 1, 1], "the other process wrote into this memory"
    shared += 1
    assert back.tolist() == [2, 2], "and what it sent back is the same memory"
    own = tk.zeros(3)
    inbox.put(own)
    assert outbox.get(timeout=60).tolist() == [1, 1]
    assert own.tolist() == [0, 0, 0], "what is not shared is sent by value"
    inbox.put(None)
    process.join()
    assert process.exitcode == 0


def test_pipe_of_leaves_and_subclasses() -> None:
    context: Any = mp.get_context("spawn")
    here, there = context.Pipe()
    x = tk.asarray([1.0, 2.0]).requires_grad_().as_subclass(Named).detach().as_subclass(Named)
    x.unit = "m"
    x.requires_grad_()
    x.share_memory_()
    with pytest.raises(
        RuntimeError, match=r"\[pickle\] Only Tensors created explicitly by the user \(graph leaves\) can be sent"
    ):
        here.send(x[:1])
    process = context.Process(target=describe, args=(there,))
    process.start()
    here.send(x)
    assert here.recv() == ("Named", "m", True, True, [1.0, 2.0])
    assert here.recv() == "done"
    process.join()
    assert x.detach().tolist() == [10.0, 20.0]


def open_files() -> set[Path]:
    """The open descriptors of this process, and the named shared memory of all."""
    return {path for folder in ("/dev/fd", "/dev/shm") if Path(folder).is_dir() for path in Path(folder).iterdir()}


def test_nothing_is_left_behind() -> None:
    gc.collect()
    before = open_files()
    tensors = [tk.zeros(1000).share_memory_() for _ in range(20)]
    arrays = [x.numpy() for x in tensors]
    del tensors
    gc.collect()
    assert sum(float(a.sum()) for a in arrays) == 0, "arrays keep the memory"
    del arrays
    gc.collect()
    assert not open_files() - before


def test_a_program_ends_without_warnings() -> None:
    program = textwrap.dedent("""
        import multiprocessing as mp, tenkey as tk
        def work(x, queue):
            x += 1
            queue.put(x.sum().item())
        if __name__ == "__main__":
            context = mp.get_context("fork")
            queue = context.Queue()
            x = tk.ones(100_000).share_memory_()
            processes = [context.Process(target=work, args=(x[i::4], queue)) for i in range(4)]
            [p.start() for p in processes]
            print(sum(queue.get() for p in processes), x.sum().item())
            [p.join() for p in processes]
    """)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["200000.0", "200000.0"]


def test_numpy_sees_the_same_memory() -> None:
    x = tk.zeros(4).share_memory_()
    x.numpy()[2] = 7
    assert np.from_dlpack(x).tolist() == [0, 0, 7, 0]
