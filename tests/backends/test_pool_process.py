"""The pool at start, under fork, with few cores, interrupted, at exit, and with Python threads as workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenkey.backends.cpu import pool
from tenkey.backends.cpu.pool import thread_limit
from tests._interrupts import interrupted
from tests._tiers import only_full
from tests.backends.test_pool import Region, run_until_joined

_ROOT = Path(__file__).parents[2]
_FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
_NATIVE = pytest.mark.skipif(not pool.is_native(), reason="the system has no workers without Python")
_HEAD = """
import ctypes, os, signal, subprocess, sys, threading, time, warnings
warnings.simplefilter("ignore")  # of os.fork in a process with threads
import tenkey as tk
from tenkey.backends.cpu import pool
from tenkey.backends.cpu.pool import state_block as at
from tests.backends.test_pool import Region, run_until_joined

def region(delay=400):
    made = Region(64, 1, delay)
    made()
    made.check()

def threads():
    return len(os.listdir("/proc/self/task"))

def child(work):
    number = os.fork()
    if number == 0:
        signal.alarm(50)  # rather than a test that hangs
        try:
            work()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
"""


def _run(script: str, **environment: str) -> str:
    """Run a script in a process of its own, which must end by itself and print nothing but what it says."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _HEAD + script],
        capture_output=True, text=True, timeout=100, check=False, env={**os.environ, **environment}, cwd=_ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    return done.stdout


@_NATIVE
def test_small_calls_start_no_workers() -> None:
    said = _run("""
tk.set_num_threads(2)
before = threads()
made = Region(64, 64); made(); made.check()
print(threads() - before)
region()
print(threads() - before)
""")
    assert said.split()[0] == "0"
    assert int(said.split()[1]) > 0


@_NATIVE
def test_one_core() -> None:
    """A process that may use one core has no workers, whatever the machine has."""
    said = _run("""
before = threads()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(tk.get_num_threads())
region()
print(threads() - before, at.block[at.HELPERS])
""")
    assert said == "1\n0 0\n"


@_NATIVE
def test_workers_are_pinned_to_allowed_cores() -> None:
    _run("""
cores = os.sched_getaffinity(0)
before = set(os.listdir("/proc/self/task"))
tk.set_num_threads(max(2, len(cores)))
region()
pins = [os.sched_getaffinity(int(task)) for task in set(os.listdir("/proc/self/task")) - before]
if len(cores) > 1:
    assert sorted(map(sorted, pins)) == [[core] for core in sorted(cores)], pins
tk.set_num_threads(len(cores) + 1)
region()
pins = [os.sched_getaffinity(int(task)) for task in set(os.listdir("/proc/self/task")) - before]
assert all(pin == cores for pin in pins), pins
""")


@_NATIVE
def test_workers_take_no_signals() -> None:
    """A signal that a worker took would not interrupt a system call of the main thread."""
    _run("""
tk.set_num_threads(3)
before = set(os.listdir("/proc/self/task"))
run_until_joined()
def blocked_by(task):
    return int(open(f"/proc/self/task/{task}/status").read().split("SigBlk:")[1].split()[0], 16)
taken = sum(1 << number - 1 for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
others = sum(1 << number - 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD))
for task in set(os.listdir("/proc/self/task")) - before:
    end = time.monotonic() + 20
    while blocked_by(task) & (taken | others) != others:  # it may still begin
        assert time.monotonic() < end
    assert open(f"/proc/self/task/{task}/comm").read() == "tenkey worker\\n"
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
""")


@_FORKS
def test_fork() -> None:
    """The child has no workers at first, and starts its own; the parent keeps its workers."""
    _run("""
tk.set_num_threads(3)
run_until_joined()
assert child(region) == 0
assert child(run_until_joined) == 0
def grandchild():
    run_until_joined()
    assert child(run_until_joined) == 0
assert child(grandchild) == 0
run_until_joined()
""")


@_FORKS
def test_fork_during_a_region_of_another_thread() -> None:
    _run("""
tk.set_num_threads(3)
run_until_joined()
stop = threading.Event()
def work():
    while not stop.is_set():
        region(100)
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers: worker.start()
try:
    for number in range(20):
        assert child(run_until_joined if number % 4 == 0 else region) == 0
finally:
    stop.set()
for worker in workers: worker.join()
""")


@_NATIVE
def test_a_caller_alone_does_everything() -> None:
    """A fork that Python does not know of leaves a child that believes to have workers: none of them ever begins."""
    _run("""
tk.set_num_threads(3)
run_until_joined()
number = ctypes.CDLL(None).fork()
if number == 0:
    signal.alarm(50)
    try:
        before = at.block[at.JOINED]
        for _ in range(100): region(20)
        assert at.block[at.JOINED] == before
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
""")


@pytest.mark.parametrize("kind", only_full(["", "python"], [""]))
def test_exit(kind: str) -> None:
    """A process ends at once and quietly: while workers look out, while they sleep, and during a region."""
    for end in (
        "run_until_joined()",
        "run_until_joined(); time.sleep(0.05)",
        "run_until_joined(); threading.Thread(target=lambda: region(10**12), daemon=True).start(); time.sleep(0.05)",
        "threading.Thread(target=lambda: [region(20) for _ in range(10**9)], daemon=True).start(); time.sleep(0.05)",
        "region(); sys.exit(0)",
    ):
        _run(f"tk.set_num_threads(3)\n{end}\n", TENKEY_POOL=kind)


@_FORKS
def test_exit_of_a_child() -> None:
    """A child that ends like a program, by the handlers of ``atexit`` and not by ``os._exit``."""
    _run("""
tk.set_num_threads(3)
run_until_joined()
number = os.fork()
if number == 0:
    run_until_joined()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
""")


@_NATIVE
def test_busy_cores() -> None:
    """Other processes hold every core: regions are complete, and a wait for a worker that does not run would hang."""
    _run("""
hogs = []
try:
    for core in sorted(os.sched_getaffinity(0)):
        script = f"import os; os.sched_setaffinity(0, {{{core}}})\\nwhile True: pass"
        hogs.append(subprocess.Popen([sys.executable, "-c", script]))
    tk.set_num_threads(max(2, len(hogs)))
    for _ in range(100): region(60)
finally:
    for hog in hogs: hog.kill()
    for hog in hogs: hog.wait()
""")


# the first place is before the first statement of the callback: ctypes prints the interrupt
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_while_workers_are_arranged() -> None:
    """An interrupt at each place in the Python code that starts workers comes when the region is complete."""
    run_until_joined()
    before = pool.get_num_threads()
    made, raised, arguments = Region(64, 1), False, (0, 0, 0, 0)

    def call() -> None:
        nonlocal raised
        try:
            made.call(*arguments)
        except KeyboardInterrupt:
            raised = True
            raise

    functions, number = set(), 0
    try:
        while True:
            number += 1
            made, raised = Region(64, 1), False
            arguments = (pool.STATE, made.words.ctypes.data, made.n, made.chunk)
            pool.set_num_threads(2 + number % 3)
            place = interrupted(call, number)
            if place is None:
                break
            if place.function in ("call", "__enter__", "__exit__"):
                continue  # before or after the region
            functions.add(place.function)
            made.check()
            assert raised, place
    finally:
        pool.set_num_threads(before)
    assert {"_arrange", "_arrange_locked", "allowed_cores"} <= functions
    run_until_joined()


def test_python_workers() -> None:
    """Where the system has no other workers, Python threads keep the same promises."""
    if not pool.is_native():
        pytest.skip("the other tests already run with Python threads")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/backends/test_pool.py"],
        capture_output=True, text=True, timeout=300, check=False, cwd=_ROOT,
        env={**os.environ, "TENKEY_POOL": "python"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert _run("print(pool.is_native(), [t.name for t in threading.enumerate()], region(), "
                "len([t for t in threading.enumerate() if t.name.startswith('tenkey worker')]))",
                TENKEY_POOL="python").startswith("False ['MainThread'] None")  # fmt: skip


def test_workers_are_not_started_for_little_work() -> None:
    said = _run("""
made = Region(10, 1)
for _ in range(2):
    made()
    print(at.block[at.RUN] != 0, at.block[at.AWAITED])
made.check(2)
""")
    assert said == "False 6\nTrue 0\n"


def test_without_a_compiler() -> None:
    """If the regions' code cannot be loaded, calls run on their own thread."""
    said = _run("""
from tenkey.backends.cpu.pool import workers
made = Region(64, 1)
made.call  # this kernel is compiled, that of the pool cannot be
workers._load = lambda: None
made()
made.check()
print(threading.active_count(), at.block[at.RUN], at.block[at.JOINED])
""")
    assert said == "1 0 0\n"


def test_quotas_of_control_groups(tmp_path: Path) -> None:
    assert thread_limit._quota_of(tmp_path) == float("inf")
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert thread_limit._quota_of(tmp_path) == float("inf")
    (tmp_path / "cpu.cfs_quota_us").write_text("250000\n")
    assert thread_limit._quota_of(tmp_path) == 2.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert thread_limit._quota_of(tmp_path) == float("inf")
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert thread_limit._quota_of(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("nonsense")
    assert thread_limit._quota_of(tmp_path) == float("inf")
