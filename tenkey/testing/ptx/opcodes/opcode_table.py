"""The table of opcodes: the function that translates each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..ptx_text import Instruction
from ..thread_code import Translation

__all__ = ["HANDLERS", "opcode"]

_Handler = Callable[[Translation, Instruction], None]
HANDLERS: Final[dict[str, _Handler]] = {}
"""What translates an instruction, by the first part of its opcode."""


def opcode(*names: str) -> Callable[[_Handler], _Handler]:
    """Declare that a function translates the instructions of these names."""

    def decorate(function: _Handler) -> _Handler:
        for name in names:
            HANDLERS[name] = function
        return function

    return decorate
