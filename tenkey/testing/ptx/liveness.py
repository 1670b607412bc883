"""Which registers are needed after a place: the usual dataflow analysis, backwards over the blocks of a function."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Block", "live_at_places"]


class Block:
    """Instructions that run one after the other, as events.

    An event is ``("r", register)`` where one is read, ``("w", register)`` where one is written, ``("c", register)``
    where one may be written, and ``("s", place)`` where the thread waits. The block that follows in the text is among
    the successors if the block does not end with a jump.
    """

    __slots__ = ("events", "label", "successors")

    def __init__(self, label: str) -> None:
        self.label = label
        self.events: list[tuple[str, int]] = []
        self.successors: list[str] = []

    def note(self, kind: str, number: int) -> None:
        """Append an event."""
        self.events.append((kind, number))

    def before(self, after: set[int], places: dict[int, set[int]] | None = None) -> set[int]:
        """Return what is needed at the begin, given what is needed at the end; note it for each place."""
        live = set(after)
        for kind, number in reversed(self.events):
            if kind == "r":
                live.add(number)
            elif kind == "w":
                live.discard(number)
            elif kind == "s" and places is not None:
                places[number] = set(live)
        return live


def live_at_places(blocks: Sequence[Block]) -> dict[int, set[int]]:
    """Return the registers that are needed after each place where a thread waits."""
    needed: dict[str, set[int]] = {block.label: set() for block in blocks}

    def after(block: Block) -> set[int]:
        return {register for label in block.successors for register in needed.get(label, ())}

    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            before = block.before(after(block))
            if before != needed[block.label]:
                needed[block.label] = before
                changed = True
    places: dict[int, set[int]] = {}
    for block in blocks:
        block.before(after(block), places)
    return places
