"""The threads of the pool: starting them, choosing their cores, and what a fork leaves of them.

Note [Workers are started when they are worth it]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Compiled code calls :func:`_arrange` when it meets a call of several chunks and the word ``RUN`` is 0: at first, after
``set_num_threads``, and in the child of a fork, which has none of its parent's threads. Starting workers takes 0.7 ms,
and 30 ms where the pool is not compiled yet, so a process computes its first ``CHUNKS_BEFORE_WORKERS`` chunks without
them. Programs with small arrays or few calls never have workers, nor does a process that may use one core. If the
compiled code of regions cannot be loaded, all calls run on their own thread.

There are two kinds of workers. On Linux, on processors whose number of the system call ``futex`` is known here, a
worker is a thread of the system that never runs Python code: it needs no GIL, and does not exist for ``threading``. If
all cores are in use, one worker is pinned to each, and a region leaves out that of the caller's core. With another
number of threads, workers are free to move. On other systems, or with ``TENKEY_POOL=python`` in the environment, a
worker is a Python thread that sleeps on a lock and joins regions in the same compiled code. Waking it takes the GIL: it
begins 20 to 50 us after the call.

Workers are never stopped. At exit they sleep or look out in compiled code, which stays in memory, until the system ends
them; nothing waits for them. Guarded by ``tests/backends/test_pool_process.py``.

Note [An interrupt in a callback]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Compiled code of a region cannot be interrupted: Python runs the handlers of signals after it. The exception is
:func:`_arrange`, which is Python code. ctypes prints an exception of a callback and drops it, so that a
KeyboardInterrupt would be lost. The callback therefore tells that it is complete, and otherwise the compiled code calls
``PyErr_SetInterrupt``: the handler of SIGINT runs again, after the region. Guarded by
``tests/backends/test_pool_process.py::test_interrupts_while_workers_are_arranged``.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...._util.locks import new_lock
from ..thresholds import CHUNKS_BEFORE_WORKERS, SPIN_SECONDS, WORTH_WAKING_SECONDS
from . import state_block as at
from .state_block import MAX_THREADS, SLOT_WORDS, SLOTS, STATE, block, slot_address
from .thread_limit import allowed_cores, get_num_threads

if TYPE_CHECKING:
    import numpy as np

    from ...llvm.compiled import Case

__all__ = ["cases", "is_native", "workers"]

_FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_machine: Final = os.uname().machine if hasattr(os, "uname") else ""
_FREE: Final = -1  # in the place of a core
_lock: Final = new_lock()
workers: list[Any] = []
"""The workers: handles of threads of the system, or Python threads."""


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _System:
    """Functions of the C library for workers that are threads of the system."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.create = library.pthread_create
        self.pin = library.pthread_setaffinity_np
        self.name = library.pthread_setname_np
        self.detach = library.pthread_detach
        self.addresses = {
            at.SYSCALL: _address(library.syscall),
            at.GETCPU: _address(library.sched_getcpu),
            at.CLOCK: _address(library.clock_gettime),
            at.SIGMASK: _address(library.pthread_sigmask),
            at.FUTEX: _FUTEX[_machine],
            at.SPIN: round(SPIN_SECONDS * 1e9),
            at.WORTH_WAKING: round(WORTH_WAKING_SECONDS * 1e9),
        }
        import signal

        library.sigfillset(ctypes.c_void_p(STATE + 8 * at.BLOCKED))
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):  # of faults in the worker itself
            block[at.BLOCKED] &= ~(1 << number - 1)


def _find_system() -> _System | None:
    if os.environ.get("TENKEY_POOL") == "python" or sys.platform != "linux" or _machine not in _FUTEX:
        return None
    try:
        return _System() if ctypes.sizeof(ctypes.c_void_p) == 8 else None
    except (OSError, AttributeError):
        return None


_system: Final = _find_system()


def is_native() -> bool:
    """Tell whether workers are threads of the system, in the place of Python threads."""
    return _system is not None


def _arrange(complete: int) -> None:
    """Arrange the workers for the number of threads, set ``RUN``, and store 1 at the address unless interrupted."""
    try:
        with _lock:
            if block[at.RUN] == 0:
                _arrange_locked()
    except KeyboardInterrupt:
        return  # Note [An interrupt in a callback]
    except Exception:
        sys.excepthook(*sys.exc_info())  # nothing could catch it
    ctypes.c_int64.from_address(complete).value = 1


def _arrange_locked() -> None:
    code = _load()
    if code is None:
        block[at.LOAD] = 0
        return
    run, serve = code
    limit, cores = get_num_threads(), allowed_cores()
    if limit == len(cores) <= MAX_THREADS and _system is not None:
        places = cores if limit > 1 else []
    else:
        places = [_FREE] * (min(limit, MAX_THREADS) - 1)
    for k, core in enumerate(places):
        slot = SLOTS + k * SLOT_WORDS
        block[slot + at.POOL], block[slot + at.INDEX], block[at.CORES + k] = STATE, k, core
        if k == len(workers):
            try:
                _start(k, serve)
            except (OSError, RuntimeError):  # the system has no more threads
                places = places[:k]
                break
        if _system is not None:
            _pin(workers[k], cores if core == _FREE else [core])
    block[at.WORKERS] = len(places)
    block[at.HELPERS] = min(limit - 1, len(places))
    block[at.RUN] = run


def _load() -> tuple[int, int] | None:
    """Return the addresses of the compiled functions; None if they can be neither loaded nor compiled."""
    from ...llvm.compiled import UnavailableError, address_of  # not before a call is large enough
    from .region import run, serve

    try:
        return address_of(run, NATIVE=is_native()), address_of(serve, NATIVE=is_native())
    except UnavailableError:  # no compiler, and nothing in the cache
        return None
    except Exception:
        block[at.LOAD] = 0  # one report is enough
        raise


def cases(dtypes: Sequence[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that all large calls need: Note [Kernels that are compiled ahead]."""
    from ...llvm.compiled import Case
    from .region import run, serve

    for template in (run, serve):
        yield Case("", template, {"NATIVE": is_native()})


def _start(index: int, serve: int) -> None:
    """Start a worker; OSError or RuntimeError if there are too many threads."""
    if _system is None:
        worker = _PythonWorker(index, serve)
        workers.append(worker)
        worker.start()
        return
    handle = ctypes.c_void_p()
    failed = _system.create(ctypes.byref(handle), None, ctypes.c_void_p(serve), ctypes.c_void_p(slot_address(index)))
    if failed:
        raise OSError(failed, os.strerror(failed))
    workers.append(handle)
    _system.name(handle, b"tenkey worker")
    _system.detach(handle)


def _pin(handle: Any, cores: list[int]) -> None:
    """Let a worker run on these cores; the system may refuse, and then it runs where it likes."""
    assert _system is not None
    mask = bytearray(max(cores) // 64 * 8 + 8)
    for core in cores:
        mask[core // 8] |= 1 << core % 8
    _system.pin(handle, ctypes.c_size_t(len(mask)), bytes(mask))


class _PythonWorker(threading.Thread):
    """A worker that sleeps on a lock."""

    def __init__(self, index: int, serve: int) -> None:
        super().__init__(name=f"tenkey worker {index}", daemon=True)
        self.bell = threading.Lock()
        self.bell.acquire()
        release = ctypes.CFUNCTYPE(None)(self.bell.release)  # a C function, in which no handler of a signal runs
        slot = SLOTS + index * SLOT_WORDS
        block[slot + at.BELL] = _keep(release)
        self.place = slot_address(index)
        self.serve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(serve)

    def run(self) -> None:
        while True:
            self.serve(self.place)
            self.bell.acquire()


def _after_fork() -> None:
    """Forget the parent's workers and its region: the child has the memory, but not the threads."""
    workers.clear()
    block[at.RUN] = block[at.REGION] = block[at.TICKET] = 0
    for k in range(MAX_THREADS):
        block[SLOTS + k * SLOT_WORDS + at.ASLEEP] = 0


def _keep(function: Any) -> int:
    """Return the address of a function that compiled code may call, even while Python shuts down."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return _address(function)


def _fill_block() -> None:
    for place, value in (_system.addresses if _system is not None else {}).items():
        block[place] = value
    block[at.AWAITED] = CHUNKS_BEFORE_WORKERS
    block[at.YIELD] = _keep(
        ctypes.CDLL(None).sched_yield if os.name == "posix" else ctypes.CDLL("kernel32").SwitchToThread
    )
    block[at.LOAD] = _keep(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_arrange))
    block[at.INTERRUPT] = _keep(ctypes.pythonapi.PyErr_SetInterrupt)


_fill_block()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
