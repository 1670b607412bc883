"""Blocks of segments, against a list of intervals that is kept by hand. No driver is needed."""

from __future__ import annotations

import random

import pytest

from tenkey.backends.cuda.memory.segments import (
    BINNED,
    FREE,
    SMALL,
    USED,
    Arena,
    Block,
    segment_size,
)  # fmt: skip

MIB = 1 << 20


class Memory:
    """An arena with a driver that counts addresses up."""

    def __init__(self) -> None:
        self.arena = Arena(0, 7)
        self.next = 1 << 30
        self.grown = 0

    def take(self, nbytes: int) -> Block:
        size = (nbytes + 511) & -512 or 512
        block = self.arena.take(size)
        if block is None:
            wanted = segment_size(size)
            block = self.arena.add(self.next, wanted, (), size)
            self.next += wanted + 4096
            self.grown += wanted
        block.state = USED
        return block

    def check(self) -> None:
        """The blocks of each segment follow each other, and no two neighbours are both free in the lists."""
        listed = {id(block) for tree in self.arena.trees for _, _, block in tree}
        binned = {id(block) for blocks in self.arena.bins.values() for block in blocks}
        for segment in self.arena.segments.values():
            at, before = segment.address, None
            for block in segment.blocks():
                assert block.address == at
                assert block.previous is before
                assert block.segment is segment
                assert block.size > 0
                assert block.size % 512 == 0
                assert (id(block) in listed) == (block.state == FREE)
                assert (id(block) in binned) == (block.state == BINNED)
                assert before is None or not (before.state == block.state == FREE), "neighbours were not merged"
                at, before = at + block.size, block
            assert at == segment.address + segment.size
        for tree in self.arena.trees:
            assert tree == sorted(tree, key=lambda row: row[:2])
            assert all((size, address) == (block.size, block.address) for size, address, block in tree)


def test_sizes() -> None:
    assert segment_size(512) == segment_size(MIB) == 2 * MIB
    assert segment_size(MIB + 512) == segment_size(10 * MIB - 512) == 20 * MIB
    assert segment_size(10 * MIB) == 10 * MIB
    assert segment_size(10 * MIB + 512) == 12 * MIB


def test_small_requests_share_a_segment() -> None:
    memory = Memory()
    blocks = [memory.take(100 * 1024) for _ in range(20)]
    assert memory.grown == 2 * MIB
    assert [b.address - blocks[0].address for b in blocks] == [i * 100 * 1024 for i in range(20)]
    memory.take(100 * 1024)
    assert memory.grown == 4 * MIB


def test_the_smallest_sufficient_block_is_cut() -> None:
    memory = Memory()
    a, gap, b, rest = memory.take(8192), memory.take(512), memory.take(4096), memory.take(512)
    memory.arena.put(a)
    memory.arena.put(b)
    taken = memory.take(3000)
    assert taken is b
    assert taken.size == 3072
    memory.check()
    assert memory.take(1024).address == b.address + 3072  # what was cut off
    assert gap.state == rest.state == USED
    assert memory.take(8192) is a


def test_neighbours_are_merged_before_memory_is_asked_for() -> None:
    memory = Memory()
    blocks = [memory.take(MIB // 2) for _ in range(4)]
    for block in (blocks[1], blocks[3], blocks[2], blocks[0]):
        memory.arena.put(block)
        assert block.state == BINNED
    assert memory.take(MIB // 2 * 2).address == blocks[0].address
    assert memory.grown == 2 * MIB
    memory.check()


def test_a_large_block_loses_only_what_is_worth_it() -> None:
    memory = Memory()
    a = memory.take(12 * MIB)
    memory.arena.put(a)
    assert memory.take(11 * MIB).size == 12 * MIB  # a rest of 1 MiB stays with it
    memory.arena.put(a)
    assert memory.take(11 * MIB - 512).size == 11 * MIB - 512
    memory.check()


@pytest.mark.parametrize("seed", range(6))
def test_random_requests(seed: int) -> None:
    rng = random.Random(seed)
    memory = Memory()
    live: list[tuple[Block, int, int]] = []  # with the interval that was given
    for step in range(1500):
        if live and rng.random() < 0.5:
            block, start, size = live.pop(rng.randrange(len(live)))
            assert (block.address, block.size) == (start, size), "a block in use was changed"
            memory.arena.put(block)
        else:
            nbytes = rng.choice([rng.randrange(1, 3000), rng.randrange(1, MIB), rng.randrange(MIB, 30 * MIB)])
            block = memory.take(nbytes)
            assert block.size >= nbytes
            assert (block.size <= SMALL) | (nbytes > SMALL)
            assert block.address % 512 == 0
            for _, start, size in live:
                assert block.address + block.size <= start or start + size <= block.address, "memory was given twice"
            live.append((block, block.address, block.size))
        if step % 100 == 0:
            memory.check()
    for block, _, _ in live:
        memory.arena.put(block)
    unused = memory.arena.unused()
    assert sum(segment.size for segment in unused) == memory.grown, "blocks were lost"
    assert not memory.arena.segments


def test_the_check_rejects_a_wrong_merge() -> None:
    memory = Memory()
    a, _b = memory.take(512), memory.take(512)
    a.size += 512
    with pytest.raises(AssertionError):
        memory.check()
