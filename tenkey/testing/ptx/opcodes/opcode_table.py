"""The table of opcodes: the function that translates each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from ....backends.llvm.values import Value
from ..thread_code import Handler

__all__ = ["BITWISE", "HANDLERS", "opcode"]

HANDLERS: Final[dict[str, Handler]] = {}
"""What translates an instruction, by the first part of its opcode."""
BITWISE: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Declare that a function translates the instructions of these names."""

    def decorate(function: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = function
        return function

    return decorate
