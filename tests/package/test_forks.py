"""Forks while other threads are at work: the child has no lock of theirs, and nothing that they left half done.

Note [Locks and forks] in ``tenkey/_util/locks.py``; Note [Forks and the compiler] in
``tenkey/backends/llvm/compiled.py``.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenkey._util import locks
from tests._tiers import tier

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

# ``fork(child)`` returns the exit status of a child that calls a function and exits; a child that hangs is killed.
_HEAD = """
import os, signal, sys, threading, traceback
import numpy as np
import tenkey as tk
from tenkey._util import locks
from tenkey.dispatch import registry

def fork(child):
    sys.stdout.flush()  # otherwise the child would print it again
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        code = 1
        try:
            child()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def start(function, *args):
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    return thread
"""


def run(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _HEAD + program],
        capture_output=True, text=True, timeout=900, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


_WORK = """
import itertools
count = itertools.count()

def register():
    number = next(count)
    with tk.library.Library("forks", "FRAGMENT").define(f"op{number}(Tensor x) -> Tensor"):
        tk.library.register_kernel(f"forks::op{number}", "cpu", lambda x: tk.multiply(x, 2.0))
        assert getattr(tk.ops.forks, f"op{number}")(tk.ones(2)).tolist() == [2.0, 2.0]

def train():  # without products of matrices: OpenBLAS has a lock of its own (docs/design.md, Threads and processes)
    weight = tk.tensor(np.full((4, 4), 0.5), requires_grad=True)
    (tk.tanh(weight * weight) + tk.random.normal((4, 4))).sum().backward()
    assert weight.grad.shape == (4, 4)

def compiled():
    number = next(count)
    call = tk.library.pointwise(f"forks::square{number}(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x + number)
    assert call(tk.ones(1 << 16)).sum().item() == (1 + number) * (1 << 16)
    registry.undefine(call.operator)

def show():
    assert "2" in repr(tk.arange(4)) and "CPU" in str(tk.dispatch.explain(tk.add, tk.ones(2), 1.0))

stopped = threading.Event()

def repeat(task):
    while not stopped.is_set():
        task()

def child():
    for task in (register, train, compiled, show):
        task()

child()
sys.setswitchinterval(1e-4)
threads = [start(repeat, task) for task in WHAT]
print(*{fork(child) for _ in range(FORKS)})
stopped.set()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("what", ["register, register", "train, train", "show, train, register"])
def test_forks_while_threads_work(what: str) -> None:
    program = _WORK.replace("WHAT", f"[{what}]").replace("FORKS", str(tier(8, 200)))
    assert run(program, TENKEY_COMPILE="off") == ["0"]


def test_a_fork_while_an_attribute_is_computed() -> None:
    """A child computes an attribute that another thread of its parent was computing."""
    program = """
from tenkey.ops.declare.facets import Pointwise

entered, go_on = threading.Event(), threading.Event()

class Slow(Pointwise):
    pass

for name, attribute in vars(Pointwise).items():
    if type(attribute).__name__ == "cached_property":
        inner = attribute.function
        def slow(facet, inner=inner):
            if threading.current_thread() is not threading.main_thread():
                entered.set()
                go_on.wait()
            return 1
        attribute.function = slow
        facet = object.__new__(Slow)
        start(lambda: getattr(facet, name))
        entered.wait()

        def child():
            other = object.__new__(Slow)
            assert getattr(other, name) == 1

        print(fork(child))
        go_on.set()
        break
"""
    assert run(program) == ["0"]


@pytest.mark.full
def test_forks_while_threads_compile(tmp_path: Path) -> None:
    program = _WORK.replace("WHAT", "[compiled, train]").replace("FORKS", "60")
    assert run(program, TENKEY_CACHE_DIR=str(tmp_path)) == ["0"]


_HELD = """
from tenkey.autograd.checkpointing.recomputation import Frame
from tenkey.autograd.tape import call_sites, node
from tenkey.backends.allocation import counts
from tenkey.core.random import generator
from tenkey.dispatch import keys
from tenkey.ops.scalar import expression

frame = Frame(len, checks=True, early_stop=True, debug=False)
all_locks = [module._lock for module in (keys, expression, call_sites, counts, generator)]
all_locks += [registry.lock, frame.lock, node.making, *node._locks]
held, done = threading.Event(), threading.Event()

def hold():
    for lock in all_locks:
        lock.acquire()
    held.set()
    done.wait()
    for lock in reversed(all_locks):
        lock.release()
"""


def test_locks_that_stay_locked_are_free_in_the_child() -> None:
    program = """
locks.PATIENCE = 0.05
thread = start(hold)
held.wait()

def child():
    assert all(lock.acquire(blocking=False) for lock in all_locks)
    assert {*map(id, locks.missed)} == {*map(id, all_locks)} - {id(frame.lock)}

print(fork(child), any(lock.acquire(blocking=False) for lock in all_locks))
done.set()
thread.join()
print(all(lock.acquire(blocking=False) for lock in all_locks), locks.missed)
"""
    assert run(_HELD + program) == ["0 False", "True []"]


def test_a_fork_waits_for_a_registration() -> None:
    """The child has the whole of what another thread was about to do under a lock."""
    program = """
entered, go_on = threading.Event(), threading.Event()

def install(operator):
    if operator.name == "forks::slow":
        entered.set()
        go_on.wait()
        operator.facets["Last"] = True

registry.subscribe(install)
library = tk.library.Library("forks", "DEF")
thread = start(library.define, "slow(Tensor x) -> Tensor")
entered.wait()
os.register_at_fork(before=go_on.set)  # runs before those registered earlier

def child():
    assert registry.find("forks::slow").facets["Last"] and not locks.missed

print(fork(child))
thread.join()
print(registry.find("forks::slow").facets["Last"])
"""
    assert run(program) == ["0", "True"]


def test_a_fork_waits_for_an_import(tmp_path: Path) -> None:
    """The child finds a delayed module that another thread was importing."""
    package = tmp_path / "delayed"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from tenkey._util.lazy_import import lazy_import\n"
        "__getattr__, __dir__ = lazy_import(__name__, {'slow': ('value',), 'whole': ()})\n"
    )
    for module in ("slow", "whole"):
        (package / f"{module}.py").write_text(
            "import __main__\n__main__.entered.set()\n__main__.go_on.wait()\nvalue = 3\n"
        )
    program = f"""
sys.path.insert(0, {str(tmp_path)!r})
import delayed
go_on = threading.Event()
os.register_at_fork(before=lambda: go_on.set())
for read in (lambda: delayed.value, lambda: delayed.whole.value):
    entered, go_on = threading.Event(), threading.Event()
    thread = start(read)
    entered.wait()

    def child():
        assert read() == 3

    print(fork(child))
    thread.join()
"""
    assert run(program) == ["0", "0"]


def test_a_fork_by_the_holder() -> None:
    program = """
def child():
    assert registry.lock._is_owned()
    registry.lock.release()
    taken = []
    start(lambda: taken.append(registry.lock.acquire(blocking=False))).join()
    assert taken == [True]

with registry.lock:
    print(fork(child))
start(lambda: print(registry.lock.acquire(blocking=False))).join()
"""
    assert run(program) == ["0", "True"]


def test_no_order_of_locks_is_needed() -> None:
    """A thread that holds one lock and wants the others makes the forking thread give way."""
    program = """
own = [locks.new_lock() for _ in range(4)]
locks.BRIEFLY = 0.001
begun = threading.Event()
os.register_at_fork(before=lambda: begun.set())

def want(first):
    with own[first]:
        ready.set()
        begun.wait()
        for lock in own:
            with lock:
                pass

for first in range(4):
    ready = threading.Event()
    begun.clear()
    thread = start(want, first)
    ready.wait()
    print(fork(lambda: print(locks.missed)))
    thread.join()
taken = []
start(lambda: taken.extend(lock.acquire(blocking=False) for lock in own)).join()
print(taken)
"""
    assert run(program) == ["[]", "0"] * 4 + ["[True, True, True, True]"]


def test_forks_in_several_threads() -> None:
    program = """
results = []
threads = [start(lambda: results.extend(fork(lambda: None) for _ in range(5))) for _ in range(4)]
for thread in threads:
    thread.join()
print(len(results), *{*results}, registry.lock.acquire(blocking=False))
"""
    assert run(program) == ["20 0 True"]


def test_locks_are_not_kept_alive() -> None:
    gc.collect()
    before = len(locks._waiting), len(locks._renewed)
    made = [locks.new_lock() for _ in range(3)], [locks.new_lock(waits=False) for _ in range(3)]
    assert (len(locks._waiting), len(locks._renewed)) == (before[0] + 3, before[1] + 3)
    del made
    gc.collect()
    assert (len(locks._waiting), len(locks._renewed)) == before


# A template per number of the static; a kernel whose compilation waits.
_KERNELS = """
import time
from pathlib import Path
sys.path.insert(0, os.environ["TENKEY_CACHE_DIR"])
Path(sys.path[0], "templates.py").write_text(
    "from tenkey.backends.llvm import i64, loop\\n\\n@loop\\ndef add(x: i64, *, N: int) -> i64:\\n    return x + N\\n"
)
from templates import add
from tenkey.backends.llvm import UnavailableError, compiled, kernel

def exit_of(child):
    # the status of a child that ends like a program, with the functions of ``atexit``
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        child()
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

entered, go_on = threading.Event(), threading.Event()
compile_text = compiled._compiled

def slow(template, text):
    entered.set()
    go_on.wait()
    return compile_text(template, text)
"""


def test_a_fork_while_another_thread_compiles(tmp_path: Path) -> None:
    """The fork waits for the kernel; the child has it, and compiles one of its own."""
    program = """
locks.PATIENCE = 100.0
compiled._compiled = slow
thread = start(lambda: kernel(add, N=1))
entered.wait()
os.register_at_fork(before=go_on.set)

def child():
    assert not locks.missed and len(compiled._codes) == 1
    assert kernel(add, N=1)(5) == 6 and kernel(add, N=2)(5) == 7

print(exit_of(child))
thread.join()
print(kernel(add, N=1)(5), kernel(add, N=2)(5))
"""
    assert run(_KERNELS + program, TENKEY_CACHE_DIR=str(tmp_path), TENKEY_COMPILE="on") == ["7", "6 7"]


@pytest.mark.parametrize("which", ["ours", "llvmlite"])
def test_a_fork_that_interrupts_the_compiler(which: str, tmp_path: Path) -> None:
    """The child compiles nothing, but loads what is cached; so it is if another user of LLVM was interrupted."""
    program = f"""
kernel(add, N=3)
compiled._codes.clear()
compiled._functions.clear()
locks.PATIENCE = 0.05
from llvmlite.binding.ffi import lib
lock = {{"ours": compiled._compiling, "llvmlite": lib._lock._lock}}[{which!r}]

def hold():
    with lock:
        entered.set()
        go_on.wait()

thread = start(hold)
entered.wait()

def child():
    assert locks.missed == [lock]
    assert kernel(add, N=3)(5) == 8
    try:
        kernel(add, N=4)
    except UnavailableError as error:
        assert "forked" in str(error)
    else:
        raise AssertionError("compiled")

print(exit_of(child))
go_on.set()
thread.join()
print(kernel(add, N=4)(5))
"""
    assert run(_KERNELS + program, TENKEY_CACHE_DIR=str(tmp_path), TENKEY_COMPILE="on") == ["7", "9"]
