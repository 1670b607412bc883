"""Device memory in pieces: segments that the driver gave, the blocks that they are cut into, and those that are free.

Note [Bins and trees]
~~~~~~~~~~~~~~~~~~~~~
A block that a tensor gave back first enters the *bin* of its exact size, where the next request for that size finds it
with one look-up: a training loop asks for the same sizes again and again. Only where a bin is empty are the bins of the
arena emptied: neighbours are merged, and what results is kept in a list that is sorted by size, from which a request
takes the smallest block that suffices and returns the rest. Merging is thereby not paid for by loops that need none,
and a new segment is asked for only if no combination of neighbours suffices.
Guarded by ``tests/backends/cuda/memory/test_segments.py``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final

__all__ = [
    "BINNED",
    "FREE",
    "PENDING",
    "SMALL",
    "USED",
    "Arena",
    "Block",
    "Buffer",
    "Segment",
    "segment_size",
]

UNIT: Final = 512
"""Sizes of blocks are multiples of it; blocks begin at multiples of it."""
SMALL: Final = 1 << 20
"""The largest block that comes from a segment of small blocks."""
_SMALL_SEGMENT: Final = 2 << 20
_LARGE_SEGMENT: Final = 20 << 20
_OWN_SEGMENT: Final = 10 << 20  # from this size on a block has a segment of its own size
_PAGE: Final = 2 << 20
_REST: Final = 1 << 20  # the least that is cut off a large block

USED: Final = 0
PENDING: Final = 1  # given back, while other queues may still use it
BINNED: Final = 2
FREE: Final = 3  # in the sorted list


def segment_size(size: int) -> int:
    """Return the size of the segment that is allocated for a block.

    >>> segment_size(512) >> 20, segment_size(3 << 20) >> 20, segment_size((21 << 20) + 512) >> 20
    (2, 20, 22)
    """
    if size <= SMALL:
        return _SMALL_SEGMENT
    if size < _OWN_SEGMENT:
        return _LARGE_SEGMENT
    return (size + _PAGE - 1) & -_PAGE


class Buffer:
    """Memory of a device: what the windows of tensors hold, and kernels get the address of."""

    __slots__ = ("address", "device", "size")

    def __init__(self, address: int, size: int, device: int) -> None:
        self.address = address
        self.size = size
        self.device = device

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address:#x}, {self.size} bytes, device {self.device})"


class Segment:
    """Memory that the driver gave, and its first block."""

    __slots__ = ("address", "arena", "first", "frames", "is_small", "size")

    def __init__(self, address: int, size: int, arena: Arena, frames: Any) -> None:
        self.address = address
        self.size = size
        self.arena = arena
        self.is_small = size == _SMALL_SEGMENT
        self.frames = frames
        self.first = Block(address, size, self)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks by address."""
        block: Block | None = self.first
        while block is not None:
            yield block
            block = block.next


class Block(Buffer):
    """A part of a segment, used by one tensor and its views or by none, between its neighbours.

    ``users`` are the handles of queues other than that of its arena that use it (``record_stream``).
    """

    __slots__ = ("again", "frames", "next", "previous", "requested", "segment", "state", "users")

    def __init__(self, address: int, size: int, segment: Segment) -> None:
        super().__init__(address, size, segment.arena.device)
        self.segment = segment
        self.previous: Block | None = None
        self.next: Block | None = None
        self.state = USED
        self.requested = 0
        self.again = 0  # how often it was given back and taken for the same request without the allocator
        self.users: set[int] | None = None
        self.frames: Any = None

    @property
    def nbytes(self) -> int:
        """The bytes that were asked for."""
        return self.requested


class Arena:
    """The free blocks of one queue of a device, or of one queue in a private pool.

    Its owner calls it with a lock held.
    """

    __slots__ = ("bins", "device", "pool", "segments", "stream", "trees")

    def __init__(self, device: int, stream: int, pool: Any = None) -> None:
        self.device = device
        self.stream = stream
        self.pool = pool
        self.bins: dict[int, list[Block]] = {}  # by size: Note [Bins and trees]
        self.trees: tuple[list[tuple[int, int, Block]], ...] = ([], [])  # large, small; by size and address
        self.segments: dict[int, Segment] = {}

    @property
    def pool_id(self) -> tuple[int, int]:
        """The number of the private pool in snapshots, (0, 0) without one."""
        return (0, 0) if self.pool is None else self.pool.id

    def put(self, block: Block) -> None:
        """Make a block that no queue uses any more available."""
        block.state = BINNED
        found = self.bins.get(block.size)
        if found is None:
            found = self.bins[block.size] = []
        found.append(block)

    def take(self, size: int) -> Block | None:
        """Return the smallest sufficient block, cut to size, after merging what is free; None if there is none."""
        self.merge()
        tree = self.trees[size <= SMALL]
        at = bisect_left(tree, (size,))
        if at == len(tree):
            return None
        block = tree.pop(at)[2]
        block.state = USED
        self._cut(block, size)
        return block

    def add(self, address: int, size: int, frames: Any, wanted: int) -> Block:
        """Add a new segment, and return the block of the size wanted at its beginning."""
        segment = Segment(address, size, self, frames)
        self.segments[address] = segment
        self._cut(segment.first, wanted)
        return segment.first

    def _cut(self, block: Block, size: int) -> None:
        """Return the rest of a block to the free ones if it is worth a block of its own."""
        rest = block.size - size
        if rest < (UNIT if block.segment.is_small else _REST + 1):
            return
        other = Block(block.address + size, rest, block.segment)
        other.previous, other.next = block, block.next
        if block.next is not None:
            block.next.previous = other
        block.next = other
        block.size = size
        self._keep(other)

    def merge(self) -> None:
        """Empty the bins: merge each block with its free neighbours, and sort the results in."""
        for size in [*self.bins]:
            blocks = self.bins[size]
            while blocks:
                block = blocks.pop()
                before, after = block.previous, block.next
                if before is not None and before.state == FREE:
                    self._forget(before)
                    before.size += block.size
                    before.next = after
                    if after is not None:
                        after.previous = before
                    block = before
                if after is not None and after.state == FREE:
                    self._forget(after)
                    block.size += after.size
                    block.next = after.next
                    if after.next is not None:
                        after.next.previous = block
                self._keep(block)
            del self.bins[size]

    def _keep(self, block: Block) -> None:
        block.state = FREE
        block.requested = 0
        insort(self.trees[block.segment.is_small], (block.size, block.address, block))

    def _forget(self, block: Block) -> None:
        tree = self.trees[block.segment.is_small]
        at = bisect_left(tree, (block.size, block.address))
        if at < len(tree) and tree[at][2] is block:  # an interrupt may have come between taking it off and merging it
            del tree[at]

    def unused(self) -> list[Segment]:
        """Take off the segments that are one free block, and return them."""
        self.merge()
        found = []
        for tree in self.trees:
            for _, _, block in [*tree]:
                if block.previous is None and block.next is None:
                    self._forget(block)
                    del self.segments[block.segment.address]
                    found.append(block.segment)
        return found
