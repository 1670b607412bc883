"""Backends of other packages: the interface that they implement, and what tenkey derives for them."""

from ...core.storage import StridedArray
from .backend_registration import coverage, register, synchronize
from .coverage import Coverage, Fallback
from .fallback import strict_fallback
from .interface import Backend
from .plugins import installed
from .runtime.streams import Event, Stream
from .scalar_function import Operand, ScalarFunction

__all__ = [
    "Backend", "Coverage", "Event", "Fallback", "Operand", "ScalarFunction", "Stream",
    "StridedArray", "coverage", "installed", "register", "strict_fallback", "synchronize",
]  # fmt: skip
