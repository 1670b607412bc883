"""Finding races: two threads of a block access one byte, one of them writes, and nothing orders them.

Note [What counts as ordered]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Each byte of shared and global memory has a cell: the last write and two reads, by different threads, with the number of
barriers that the block had passed and of operations that its warps had done. An access is ordered after one in the cell
if its thread has passed a barrier since, or, in the same warp, an operation of the warp. Atomic operations do not race
with one another, and neither do ``volatile``, ``relaxed``, ``acquire`` and ``release`` accesses. Two stores of the same
value are not a race: that is how threads agree that something was found. Barriers of a part of the block count as those
of all, so that a race between threads of two such barriers may be missed; races between blocks are not looked for.
Guarded by ``tests/testing/ptx/test_wrong_kernels.py``.
"""

from __future__ import annotations

from typing import Final

from ....backends.llvm import cast, i1, i64, loop, pointer, u64
from ..context_layout import Context, Frame, Kind
from .scheduler import find, report

__all__ = ["CELL_WORDS", "note"]

CELL_WORDS: Final = 6  # who wrote and when; who read and when, twice

words: Final = pointer(i64)
_WRITE, _ATOMIC, _SAME = 2, 32, 64  # as in opcodes/memory_opcodes.py


@loop
def races(who: i64, when: i64, thread: i64, epoch: i64, warp_epoch: i64, atomic: i64) -> i1:
    """Return whether an access in a cell may happen at the same time as this one."""
    other = (who & 0xFFF) - 1
    apart: i64 = 1
    if (who == 0) | (other == thread):
        apart = 0
    if (when >> 32) < epoch:
        apart = 0
    if ((other >> 5) == (thread >> 5)) & ((when & 0xFFFFFFFF) < warp_epoch):
        apart = 0
    if (atomic != 0) & (((who >> 12) & 1) != 0):
        apart = 0
    return apart != 0


@loop(inline=False)
def note(context: words, address: i64, size: i64, flags: i64, line: i64, thread: i64, frame: words) -> i1:
    """Note an access to each byte; return False, with an error, if it races with another one."""
    cells = cast(context[Context.SHARED_SHADOW], words)
    start: i64 = address - context[Context.SHARED]
    if u64(start) >= u64(context[Context.SHARED_SIZE]):
        row = find(cast(context[Context.TABLE], words), context[Context.TABLE_SIZE], address)
        if row < 0:
            return i1(True)
        rows = cast(context[Context.TABLE], words)
        shadow = cast(context[Context.GLOBAL_SHADOW], words)
        if (address >= rows[3 * row + 1]) | (shadow[row] == 0):
            return i1(True)
        cells = cast(shadow[row], words)
        start = address - rows[3 * row]
    epoch = frame[Frame.EPOCH]
    warp_epoch = frame[Frame.WARP_EPOCH]
    atomic = flags & _ATOMIC
    who = (thread + 1) | ((atomic >> 5) << 12) | (line << 16)
    when = (epoch << 32) | warp_epoch
    for k in range(size):
        cell = cells + (start + k) * CELL_WORDS
        guilty: i64 = 0
        if (flags & _SAME) == 0:
            if races(cell[0], cell[1], thread, epoch, warp_epoch, atomic):
                guilty = cell[0]
        if (flags & _WRITE) != 0:
            if races(cell[2], cell[3], thread, epoch, warp_epoch, atomic):
                guilty = cell[2]
            if races(cell[4], cell[5], thread, epoch, warp_epoch, atomic):
                guilty = cell[4]
        if guilty != 0:
            context[Context.ERROR_OTHER] = guilty >> 16
            context[Context.ERROR_OTHER_THREAD] = (guilty & 0xFFF) - 1
            return report(context, Kind.RACE, address, size, line, thread)
        if (flags & _WRITE) != 0:
            cell[0] = who
            cell[1] = when
        elif races(cell[2], cell[3], thread, epoch, warp_epoch, 0):
            cell[4] = who
            cell[5] = when
        else:
            cell[2] = who
            cell[3] = when
    return i1(True)
