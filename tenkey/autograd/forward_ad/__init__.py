"""Forward mode: tensors with tangents, at nested levels."""

from .dual import DualLevel
from .levels import UnpackedDual, dual_level, enter_dual_level, exit_dual_level, make_dual, unpack_dual

__all__ = [
    "DualLevel", "UnpackedDual", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual",
]  # fmt: skip
