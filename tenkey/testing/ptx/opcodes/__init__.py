"""What each instruction of PTX does, by topic; importing the package fills the table of opcodes."""

from . import (  # noqa: F401 -- they fill the table
    async_opcodes,
    atomic_opcodes,
    bit_opcodes,
    conversion_opcodes,
    float_opcodes,
    flow_opcodes,
    integer_opcodes,
    matrix_opcodes,
    memory_opcodes,
    warp_opcodes,
)
from .opcode_table import HANDLERS

__all__ = ["HANDLERS"]
