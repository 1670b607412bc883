"""The text of a dispatch table."""

from __future__ import annotations

from typing import Any

from ..keys import DispatchKey

__all__ = ["Table"]


class Table(dict[DispatchKey, Any]):
    """Runtime key to slot, in the order of dispatch; prints as a table."""

    def __str__(self) -> str:
        shown = [(key, slot) for key, slot in self.items() if slot.rule != "4 falls through"]
        rows = [(key.name, slot.rule, repr(slot.kernel) if slot.kernel else "-") for key, slot in shown]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
