"""Asynchronous copies to shared memory: what ``cp.async`` begins is done when the thread waits for it, and not before.

Until then the bytes count as not written, so that reading them too early is an error. Each thread has a list of copies
that are under way. The functions are written in the language of loops and become part of kernels that use them.
"""

from __future__ import annotations

from typing import Final

from ....backends.llvm import cast, copy_bytes, fill_bytes, i64, loop, pointer, u8, void
from ..context_layout import COPY_WORDS, MOST_COPIES, Context, Frame

__all__ = ["begin_copy", "end_copies"]

words: Final = pointer(i64)
bytes_: Final = pointer(u8)


@loop(inline=False)
def begin_copy(context: words, frame: words, thread: i64, to: i64, source: i64, size: i64, given: i64) -> void:
    """Note a copy; ``to`` is an offset in shared memory, and ``given`` of the ``size`` bytes are read, others are 0."""
    row = cast(context[Context.COPIES], words) + (thread * MOST_COPIES + frame[Frame.COPIED]) * COPY_WORDS
    row[0] = to
    row[1] = source
    row[2] = size * 32 + given
    row[3] = frame[Frame.GROUPS]
    frame[Frame.COPIED] = frame[Frame.COPIED] + 1
    fill_bytes(cast(context[Context.SHARED_STATE], bytes_) + to, 0, size)


@loop(inline=False)
def end_copies(context: words, frame: words, thread: i64, groups: i64) -> void:
    """Do the copies of all groups before a number."""
    rows = cast(context[Context.COPIES], words) + thread * (MOST_COPIES * COPY_WORDS)
    kept: i64 = 0
    for k in range(frame[Frame.COPIED]):
        row = rows + k * COPY_WORDS
        if row[3] < groups:
            to = cast(context[Context.SHARED], bytes_) + row[0]
            size = row[2] >> 5
            given = row[2] & 31
            copy_bytes(to, cast(row[1], bytes_), given)
            fill_bytes(to + given, 0, size - given)
            fill_bytes(cast(context[Context.SHARED_STATE], bytes_) + row[0], 255, size)
        else:
            other = rows + kept * COPY_WORDS
            for j in range(COPY_WORDS):
                other[j] = row[j]
            kept += 1
    frame[Frame.COPIED] = kept
