"""Where compiled kernels and the scheduler find what they share: words of a context and of a thread's frame.

A context is an array of 64-bit words for one launch; the sites follow it. A site is an access to memory in the code
with the range of addresses that it met last: the first that is allowed and how many first bytes are. A frame is what is
kept of one thread of a block while others run.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = [
    "BARRIER_WORDS",
    "COPY_WORDS",
    "KINDS",
    "LARGEST_BLOCK",
    "MOST_COPIES",
    "SITE_WORDS",
    "Context",
    "Frame",
    "Kind",
    "Status",
]

LARGEST_BLOCK: Final = 1024
MOST_COPIES: Final = 256
"""How many asynchronous copies of one thread may be under way."""
COPY_WORDS: Final = 4  # of such a copy: where to, where from, its bytes and those that are read, its group
SITE_WORDS: Final = 2
BARRIER_WORDS: Final = 4  # threads that wait, that have arrived without waiting, that are expected; where they wait


class Context(IntEnum):
    """Words of the context."""

    PARAMETERS = 0  # address, and size
    PARAMETERS_SIZE = 1
    SHARED = 2  # the block's shared memory: address, size, and the bytes that say what is initialised
    SHARED_SIZE = 3
    SHARED_STATE = 4
    DATA = 5  # the variables of the module: address and size
    DATA_SIZE = 6
    TABLE = 7  # allocations: begin, end and whether it may be written, sorted
    TABLE_SIZE = 8
    LOOKUP = 9  # address of the function that finds an address in them
    THREADS = 10  # of a block
    NTID = 11  # 3 words each
    NCTAID = 14
    CTAID = 17
    BLOCKS = 20
    ORDER = 21  # of threads and blocks: 0 up, 1 down, 2 random
    STATE = 22  # of the random numbers
    LOCAL_AT = 23  # words of a frame before its local memory
    LOCAL_SIZE = 24
    FRAMES = 25  # address, and words of each
    FRAME_WORDS = 26
    DYNAMIC_SHARED = 27  # bytes that the launch asked for
    CLOCK = 28
    LAUNCH = 29  # the number of the launch
    STEPPING = 30  # whether a warp runs one step at a time
    ERROR = 31  # kind, then what it is about
    ERROR_LINE = 32
    ERROR_ADDRESS = 33
    ERROR_SIZE = 34
    ERROR_THREAD = 35
    ERROR_BLOCK = 36
    ERROR_OTHER = 37  # the line, the thread of another one
    ERROR_OTHER_THREAD = 38
    RACE = 39  # address of the function that records an access, or 0
    SHARED_SHADOW = 40  # what was accessed by whom
    GLOBAL_SHADOW = 41  # per range of the table: the address of its cells
    EPOCH = 42  # barriers so far
    WARP_EPOCH = 43  # warp operations so far
    BLOCK = 44  # the number of the block
    HOST_CALL = 45  # address of the function of the host: vprintf, __assertfail
    COPIES = 46  # asynchronous copies of all threads
    DATA_ROWS = 47  # the variables of the module: begin, end and whether they may be written
    DATA_ROW_COUNT = 48
    LENIENT = 49  # whether uninitialised shared memory may be read
    FUEL = 50  # jumps backwards that a thread makes before others run
    BARRIERS = 51  # 16 barriers of `BARRIER_WORDS` words
    SIZE = 51 + 16 * 4


class Frame(IntEnum):
    """Words of a frame."""

    PC = 0  # where the thread goes on; -1: it has ended
    STATUS = 1
    WORD = 2  # the mask of a warp operation, or the number of a barrier
    COUNT = 3  # threads that a barrier expects, or 0
    LINE = 4  # of the instruction that waits
    EPOCH = 5  # barriers and warp operations that the thread has passed
    WARP_EPOCH = 6
    RESULT = 7  # of the operation that it waited for: a ballot, the lanes that were active
    COPIED = 8  # asynchronous copies: begun, committed
    GROUPS = 9
    DEPOSIT = 10  # what a warp operation takes
    PUBLISHED = 22  # what it gave to other lanes
    SIZE = 34


class Status(IntEnum):
    """What a thread waits for."""

    RUNS = 0
    BARRIER = 1
    WARP = 2  # until all lanes of the mask wait
    CONVERGE = 3  # until no lane of the warp can go on
    YIELD = 4  # until others had their turn
    ENDED = 5


class Kind(IntEnum):
    """What can go wrong."""

    NONE = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3
    MISALIGNED = 4
    READ_ONLY = 5
    UNINITIALISED = 6
    TRAP = 7
    DIVERGENT = 8
    MISSING = 9
    ENDLESS = 10
    NOT_MEMBER = 11
    RACE = 12
    DATA = 13
    PARAMETER = 14
    COPIES = 15
    ASSERTION = 16
    CALL = 17
    BARRIER = 18


KINDS: Final = {
    Kind.GLOBAL: "out of bounds", Kind.SHARED: "out of bounds", Kind.LOCAL: "out of bounds",
    Kind.MISALIGNED: "misaligned", Kind.READ_ONLY: "read-only", Kind.UNINITIALISED: "uninitialised",
    Kind.TRAP: "trap", Kind.DIVERGENT: "divergent barrier", Kind.MISSING: "missing lanes", Kind.ENDLESS: "endless",
    Kind.NOT_MEMBER: "not a member", Kind.RACE: "race", Kind.DATA: "out of bounds", Kind.PARAMETER: "out of bounds",
    Kind.COPIES: "too many copies", Kind.ASSERTION: "assertion", Kind.CALL: "bad call", Kind.BARRIER: "bad barrier",
}  # fmt: skip
"""The name of each kind, as in ``KernelError.kind``."""
