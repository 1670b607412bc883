"""The documented differences from NumPy: which statements show them, how, and where the documents say so."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["DIFFERENCES", "Difference", "known"]


class Difference(NamedTuple):
    """A difference in statements that match `statement`, by the kind of the outcome and its text."""

    statement: str
    kind: str
    text: str
    reason: str


DIFFERENCES: Final[tuple[Difference, ...]] = (
)


def known(line: str, kind: str, text: str) -> str:
    """Return the reason for a known difference, or an empty text."""
    for entry in DIFFERENCES:
        if re.search(entry.kind, kind) and re.search(entry.statement, line) and re.search(entry.text, text):
            return entry.reason
    return ""
