"""What each instruction of PTX does, by topic; importing the package fills the table of opcodes."""

from . import (
    atomic_opcodes,
    bit_opcodes,
    conversion_opcodes,
    float_opcodes,
    flow_opcodes,
    integer_opcodes,
    memory_opcodes,
    warp_opcodes,
)
from .opcode_table import HANDLERS

__all__ = [
    "HANDLERS", "atomic_opcodes", "bit_opcodes", "conversion_opcodes", "float_opcodes", "flow_opcodes",
    "integer_opcodes", "memory_opcodes", "warp_opcodes",
]  # fmt: skip
