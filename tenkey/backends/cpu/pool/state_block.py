"""The memory that the pool's threads share, and the places of its words.

Note [Compiled code has no variables of its own]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An image of compiled code is read-only. All that regions change therefore lies in one block that Python allocates, and
every compiled function with regions gets its address: :data:`STATE`, which is the same for the life of the process. The
block is never freed, because workers may still read it while the interpreter shuts down.

Words that different threads write at the same time lie in different *lines* of 128 bytes: processors fetch cache lines
of 64 bytes in pairs.
"""

from __future__ import annotations

import ctypes
from typing import Final

__all__ = [
    "ASLEEP", "AWAITED", "BELL", "BLOCKED", "CHUNK", "CLOCK", "CORES", "DATA", "END", "ENDED", "FIRST", "FUTEX",
    "GETCPU", "HELPERS", "INDEX", "INTERRUPT", "JOINED", "LOAD", "MAX_THREADS", "MINE", "N", "NEXT", "PACES",
    "PACES_COUNT", "POOL", "REGION", "RUN", "SHARES", "SIGMASK", "SLOTS", "SLOT_WORDS", "SPIN", "STATE", "SYSCALL",
    "TASK", "TEAM", "TICKET", "TURNED", "TURNS", "WAKES", "WORKERS", "WORTH_WAKING", "YIELD", "block", "slot_address",
]  # fmt: skip

MAX_THREADS: Final = 64
"""The greatest number of threads of a region; more would spend their time on the words that they share."""

LINE: Final = 16  # words of 8 bytes

# written by Python
RUN: Final = 0  # address of the function that runs a region; 0: not loaded, or to be arranged anew
LOAD: Final = 1  # address of the Python callback that arranges the workers and sets RUN; 0: regions run serially
INTERRUPT: Final = 2  # address of PyErr_SetInterrupt
HELPERS: Final = 3  # the most workers that may join a region
WORKERS: Final = 4  # how many there are
SYSCALL: Final = 5  # addresses of functions of the C library, and the number of the system call futex
FUTEX: Final = 6
GETCPU: Final = 7
YIELD: Final = 8
CLOCK: Final = 9
SIGMASK: Final = 10
SPIN: Final = 11  # nanoseconds that a worker looks out for a region before it sleeps
WORTH_WAKING: Final = 12  # nanoseconds: briefer calls leave sleepers asleep
AWAITED: Final = 13  # how many more chunks are to come before workers are started; counted down by regions
# written by regions, each word by one thread at a time
REGION: Final = LINE  # 1 while a region runs
TICKET: Final = 2 * LINE  # number of the region << 32 | whether workers may join << 16 | workers inside
TASK: Final = 3 * LINE
DATA, N, CHUNK, SHARES, MINE, TEAM = range(TASK + 1, TASK + 7)
ENDED: Final = TEAM + 1  # when the last region ended
TURNED: Final = ENDED + 1  # 1: the region takes the chunks of each share from the last to the first
PACES_COUNT: Final = 64
WAKES: Final = 4 * LINE  # how many workers have been woken for the region
JOINED: Final = 5 * LINE  # how often a worker joined a region
BLOCKED: Final = 6 * LINE  # the signals that workers do not take, as a sigset_t
TURNS: Final = BLOCKED + LINE  # how many regions there were
CORES: Final = TURNS + LINE  # the core to which each worker is pinned, or -1

PACES: Final = CORES + MAX_THREADS  # pairs: a task, and the nanoseconds that its chunks take

# A slot belongs to a worker, and to the share of the same number.
SLOTS: Final = PACES + 2 * PACES_COUNT
SLOT_WORDS: Final = 3 * LINE
ASLEEP: Final = 0  # 1 while the worker sleeps
POOL, INDEX, BELL = range(LINE, LINE + 3)  # the block, the worker's number, the function that wakes it (or 0)
NEXT: Final = 2 * LINE  # the next chunk of the share
FIRST: Final = NEXT + 1
END: Final = NEXT + 2

_SIZE: Final = SLOTS + (MAX_THREADS + 1) * SLOT_WORDS
_memory = (ctypes.c_int64 * (_SIZE + LINE))()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_memory))  # never freed
STATE: Final = -(-ctypes.addressof(_memory) // (8 * LINE)) * (8 * LINE)
"""The address of the block: the argument ``pool`` of every compiled function that has regions."""

block = (ctypes.c_int64 * _SIZE).from_address(STATE)


def slot_address(index: int) -> int:
    """Return the address of a worker's slot."""
    return STATE + 8 * (SLOTS + index * SLOT_WORDS)
