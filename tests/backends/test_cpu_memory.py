"""The memory of large results on the CPU: Note [Memory of large results] and Note [What is kept]."""

from __future__ import annotations

import ctypes
import gc
import pickle
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.allocation.host import COUNTED, HOST, REUSED, allocate

LARGE = 1 << 23  # elements of a result of 32 MiB
BLOCK = 1 << 25


def stats() -> Any:
    return tk.backends.memory_statistics("cpu")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    gc.collect()
    tk.backends.empty_cache("cpu")
    before = tk.backends.set_memory_limit("cpu", None, cached=1 << 30)
    held = stats().allocated_bytes
    yield
    tk.backends.set_memory_limit("cpu", before[0], cached=before[1])
    gc.collect()
    tk.backends.empty_cache("cpu")
    assert stats().allocated_bytes == held
    assert stats().cached_bytes == 0


def address(x: tk.Tensor) -> int:
    return int(x.numpy().ctypes.data)


def ones(n: int) -> tk.Tensor:
    """Ones in memory that is not counted."""
    return tk.asarray(np.ones(n, np.float32))


def large() -> tk.Tensor:
    x = ones(LARGE)
    return x + x


def test_memory_is_used_again() -> None:
    first = large()
    place = address(first)
    assert stats().cached_bytes == 0
    del first
    assert stats().cached_bytes == BLOCK
    second = large()
    assert address(second) == place
    assert stats().cached_bytes == 0
    third = large()
    assert address(third) != place
    np.testing.assert_array_equal(third.numpy(), np.full(LARGE, 2, np.float32))
    np.testing.assert_array_equal(second.numpy(), np.full(LARGE, 2, np.float32))


def test_every_reference_keeps_the_memory() -> None:
    kept = {
        "view": lambda x: x[10:20].reshape(2, 5),
        "detached": lambda x: x.detach(),
        "array": lambda x: x.numpy(),
        "array of a view": lambda x: np.asarray(x[5:])[::2],
        "memoryview": lambda x: memoryview(x.numpy()[3:]),
        "DLPack": lambda x: np.from_dlpack(x)[1:],
        "capsule": lambda x: x.__dlpack__(),
        "buffer": lambda x: np.frombuffer(x.numpy(), np.uint8),
        "base": lambda x: x.numpy().base,
        "bytes of the base": lambda x: x.numpy().base[7:],
        "graph": lambda x: x.requires_grad_().exp().grad_fn,
    }
    wrong = []
    for name, keep in kept.items():
        x = large()
        held = keep(x)
        del x
        gc.collect()
        other = large()
        if address(other) == address(other) and not stats().allocated_bytes >= 2 * BLOCK:
            wrong.append(f"{name}: the memory was given back")
        del held, other
        gc.collect()
        if stats().allocated_bytes:
            wrong.append(f"{name}: {stats().allocated_bytes} bytes stay")
    assert wrong == []


def test_arrays_are_as_those_of_numpy() -> None:
    for nbytes in (COUNTED - 16, COUNTED, REUSED - 16, REUSED, REUSED + 16):
        made = allocate((2, nbytes // 16), np.dtype(np.float64))
        assert made.__class__ is np.ndarray
        assert made.shape == (2, nbytes // 16)
        assert made.dtype == np.float64
        assert made.flags.carray
        assert made.nbytes == nbytes
    for shape in ((), (0,), (3, 0, 2)):
        assert allocate(shape, np.dtype(np.int8)).shape == shape
    x = large()
    again = pickle.loads(pickle.dumps(x[: 1 << 19]))
    assert again.tolist()[:2] == [2.0, 2.0]
    assert tk.shares_storage(x, x[1:])
    x.share_memory_()
    assert x.is_shared()


def test_a_large_gradient_is_not_copied() -> None:
    """Note [Stealing gradients]: memory with its own base is shared with no other."""
    x = ones(LARGE).requires_grad_()
    seen = []
    x.register_hook(lambda g: seen.append(address(g)))
    (x * 2 + 1).backward(ones(LARGE))
    assert x.grad is not None
    assert [address(x.grad)] == seen
    x.grad = None
    x[1:].backward(ones(LARGE - 1))


def test_statistics_name_the_operator() -> None:
    x = ones(1 << 18)
    tk.exp(x)  # 1 MiB, counted and freed at once
    before = stats()
    y = tk.exp(x)
    z = tk.sin(y.requires_grad_())
    after = stats()
    assert after.allocated_bytes - before.allocated_bytes == 2 << 20
    assert after.allocations - before.allocations == 2
    for name in ("tk::exp", "tk::sin"):
        was = before.by_operator.get(name, (0, 0, 0))
        assert after.by_operator[name].allocated_bytes - was[0] == 1 << 20
        assert after.by_operator[name].allocations - was[2] == 1
    del z
    assert stats().by_operator["tk::sin"].allocated_bytes == 0
    assert stats().by_operator["tk::sin"].peak_bytes >= 1 << 20
    assert stats().frees - before.frees == 1
    ones(100) + 1
    assert stats().allocations == after.allocations


def test_what_is_kept_is_bounded() -> None:
    tk.backends.set_memory_limit("cpu", cached=3 * BLOCK)
    sizes = np.random.default_rng(0).integers(LARGE, 4 * LARGE, 60)
    for n in sizes:
        allocate((int(n),), np.dtype(np.float32))
        assert stats().cached_bytes <= 3 * BLOCK
    several = [allocate((LARGE,), np.dtype(np.float32)) for _ in range(6)]
    del several
    assert stats().cached_bytes == 3 * BLOCK  # without another allocation
    assert stats().reserved_bytes == 3 * BLOCK
    tk.backends.set_memory_limit("cpu", cached=0)
    assert stats().reserved_bytes == 0
    allocate((LARGE,), np.dtype(np.float32))
    assert stats().reserved_bytes == 0


def test_the_blocks_that_were_not_used_for_longest_go_first() -> None:
    tk.backends.set_memory_limit("cpu", cached=4 * BLOCK)
    float32 = np.dtype(np.float32)
    for n in (LARGE, 2 * LARGE, LARGE):
        allocate((n,), float32)  # the second use of the small one makes it the younger
    small = {allocate((LARGE,), float32).ctypes.data}
    allocate((LARGE * 5 // 4,), float32)  # 1.25 blocks: with 1 and 2 of before, more than 4
    assert stats().cached_bytes == (BLOCK * 5 // 4) + BLOCK
    assert allocate((LARGE,), float32).ctypes.data in small


def test_factories() -> None:
    before = stats().allocated_bytes
    made = [tk.ones((1 << 10, 1 << 8)) for _ in range(3)][1:]  # the first call of all takes another path
    assert stats().allocated_bytes - before == 2 << 20
    made.append(tk.empty((1 << 10, 1 << 8)))
    assert stats().allocated_bytes - before == 3 << 20
    assert all(x.numpy().min() == x.numpy().max() == 1 for x in made[:2])


def test_large_tensors_begin_with_a_cache_line() -> None:
    source = np.random.default_rng(0).standard_normal((300, 129)).astype(np.float32)
    made = [
        lambda: tk.tensor(source), lambda: tk.tensor(source.T), lambda: tk.asarray(source, dtype=tk.float64),
        lambda: tk.asarray(source, copy=True), lambda: tk.tensor(source.tolist()), lambda: tk.zeros((300, 129)),
        lambda: tk.tensor(source, requires_grad=True).detach(),
    ]  # fmt: skip
    for make in made:
        arrays = [make().numpy() for _ in range(5)]  # those of NumPy begin anywhere in a line
        assert [array.ctypes.data % 64 for array in arrays] == [0] * 5
        right = np.zeros_like(source) if not arrays[0].any() else source.T if len(arrays[0]) == 129 else source
        assert all(np.array_equal(array, right) for array in arrays)
    assert tk.tensor(source.T).numpy().flags.c_contiguous
    assert tk.asarray(source.T, dtype=tk.float64).numpy().flags.f_contiguous  # as by NumPy's astype


def test_a_limit() -> None:
    x = large()
    tk.backends.set_memory_limit("cpu", 3 * BLOCK, cached=1 << 30)
    y = x + 1
    del y
    z = [x + 1, x + 2]  # the first in the memory of y
    with pytest.raises(MemoryError, match=r"\[tk::multiply\] needs 33,554,432 bytes: the limit of this device is 100,"):
        x * 2
    with pytest.raises(MemoryError, match="limit"):
        x[: LARGE // 8] * 2  # 4 MiB
    del z
    (x * 2).sum()
    tk.backends.set_memory_limit("cpu", cached=1 << 30)
    for wrong in (-1, 1.5, "1"):
        with pytest.raises((ValueError, TypeError)):
            tk.backends.set_memory_limit("cpu", wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'meta' has no memory"):
        tk.backends.memory_statistics("meta")


def test_missing_memory_is_reported_for_the_array() -> None:
    with pytest.raises(MemoryError, match=r"shape \(4611686018427387,\)"):
        allocate((4611686018427387,), np.dtype(np.float32))


def test_threads() -> None:
    errors: list[BaseException] = []

    def work(value: int) -> None:
        try:
            for _ in range(5):
                made = allocate((LARGE,), np.dtype(np.float32))
                made[:: 1 << 12] = value
                assert (made[:: 1 << 12] == value).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert stats().cached_bytes <= 8 * BLOCK  # each thread holds two at a time


def run(program: str) -> list[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]  # of forks beside threads
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert not done.returncode
    return done.stdout.split()


def test_the_end_of_a_process_and_forks() -> None:
    assert run("""
import os, sys, numpy as np, tenkey as tk
x = tk.zeros(1 << 23) + np.float32(1)
y = x + x
class Node: pass
node = Node(); node.myself = node; node.y = x * 3
sys.modules["kept_to_the_end"] = node
z = y + 1
del z
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        w = x * 5  # in the block that the parent has kept, too
        y += 1
        assert w.numpy().min() == 5 and y.numpy().max() == 3
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
v = x * 7
assert v.numpy().max() == 7 and y.numpy().max() == 2
print(tk.backends.memory_statistics().allocated_bytes == 4 << 25)
""") == ["True"]  # fmt: skip


def test_the_default_keeps_a_quarter_of_the_memory() -> None:
    program = "import tenkey as tk; print(*tk.backends.set_memory_limit('cpu', None, cached=None))"
    limit, cached = run(program)
    assert limit == "None"
    assert 1 << 26 < int(cached) < 1 << 44
    assert HOST.counts.limit is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limits are those of the GNU C library")
@pytest.mark.parametrize(("shape", "count"), [((64, 400), 60), ((1024, 1024), 25)])
def test_steps_do_not_touch_new_pages(shape: tuple[int, int], count: int) -> None:
    """Steps that keep 6 and 100 MB."""
    program = """
import resource
import numpy as np
import tenkey as tk

def step():
    x, kept = tk.ones(SHAPE), []
    for _ in range(COUNT):
        x = x * 1.0
        kept.append(x)

for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    program = program.replace("SHAPE", str(shape)).replace("COUNT", str(count))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2000  # of 15,000 and 250,000 pages of results


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only the GNU C library can be asked")
def test_empty_cache_returns_what_the_c_library_keeps() -> None:
    program = """
import tenkey as tk

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

kept = [tk.ones((1024, 1024)) for _ in range(25)]
del kept
before = resident()
tk.backends.empty_cache()
print(before - resident())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 90_000_000
