"""Owners of blocks: when a block is given back. No driver is needed."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

from tenkey.backends.cuda.memory.buffer_owners import held, owner_of


class Allocator:
    """Notes what is given back."""

    def __init__(self, given: list[Any]) -> None:
        self.give = given.append


def owner(given: list[Any]) -> Any:
    return owner_of("block", None, Allocator(given))


def test_given_back_once_with_the_last_reference() -> None:
    given: list[Any] = []
    made = owner(given)
    other = made
    del made
    assert given == []
    del other
    assert given == ["block"]
    assert "block" not in held.values()


def test_a_finalizer_in_a_cycle_still_finds_the_block() -> None:
    given: list[Any] = []
    seen: list[int] = []

    class Node:
        def __init__(self) -> None:
            self.owner = owner(given)
            self.me = self

        def __del__(self) -> None:
            seen.append(len(given))

    Node()
    gc.collect()
    assert seen == [0], "the block was given back before the finalizers of its cycle ran"
    assert given == ["block"]


def test_a_resurrected_owner_keeps_its_block() -> None:
    given: list[Any] = []
    saved: list[Any] = []

    class Node:
        def __init__(self) -> None:
            self.owner = owner(given)
            self.me = self

        def __del__(self) -> None:
            saved.append(self.owner)

    Node()
    gc.collect()
    assert given == []
    assert len(saved) == 1
    gc.collect()
    assert given == []
    saved.clear()
    gc.collect()
    assert given == ["block"]


def test_owners_can_be_observed() -> None:
    made = owner([])
    reference = weakref.ref(made)
    del made
    assert reference() is None


def test_in_another_thread() -> None:
    given: list[Any] = []
    holder = [owner(given)]
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    assert given == ["block"]


def test_an_owner_among_garbage_is_not_lost() -> None:
    given: list[Any] = []
    cycle: list[Any] = [owner(given), owner(given)]
    cycle.append(cycle)
    kept = cycle[1]
    del cycle
    gc.collect()
    assert given == ["block"]
    del kept
    assert given == ["block", "block"]
