"""The table of opcodes: the function that translates each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from ....backends.llvm.values import Value
from ..ptx_text import Instruction
from ..ptx_types import PtxType
from ..thread_code import Handler, Translation

__all__ = ["BITWISE", "HANDLERS", "opcode", "typed"]

TypedHandler = Callable[[Translation, Instruction, PtxType], None]

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


def typed(*names: str, floats: TypedHandler | None = None) -> Callable[[TypedHandler], TypedHandler]:
    """Like ``opcode``, for functions that also get the type of the instruction; ``floats`` serves those of floats."""

    def decorate(function: TypedHandler) -> TypedHandler:
        @opcode(*names)
        def handler(t: Translation, i: Instruction) -> None:
            type_ = t.type(i.type, i)
            (floats if floats and type_.is_float else function)(t, i, type_)

        return function

    return decorate
