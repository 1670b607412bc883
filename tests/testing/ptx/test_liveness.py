"""Which registers a thread keeps while it waits."""

from __future__ import annotations

from tenkey.testing.ptx.liveness import Block, live_at_places


def block(label: str, events: str, *successors: str) -> Block:
    """``r1`` reads register 1, ``w1`` writes it, ``c1`` may write it, ``s1`` is the place 1."""
    made = Block(label)
    for event in events.split():
        made.note(event[0], int(event[1:]))
    made.successors += successors
    return made


def test_only_what_is_read_later_is_kept() -> None:
    assert live_at_places([block("a", "w1 w2 w3 s1 r1 w2 r2")]) == {1: {1}}


def test_a_write_that_may_not_happen_keeps_the_register() -> None:
    assert live_at_places([block("a", "w1 s1 c1 r1")]) == {1: {1}}
    assert live_at_places([block("a", "w1 s1 w1 r1")]) == {1: set()}


def test_loops_and_branches() -> None:
    blocks = [
        block("entry", "w1 w2 w3 w4", "head"),
        block("head", "r1 s1", "left", "right"),
        block("left", "r2 s2 w5", "head"),
        block("right", "r3 s3", "end"),
        block("end", "s4"),
    ]
    assert live_at_places(blocks) == {1: {1, 2, 3}, 2: {1, 2, 3}, 3: set(), 4: set()}


def test_a_jump_out_of_the_function() -> None:
    assert live_at_places([block("a", "s1 r7", "nowhere")]) == {1: {7}}
