"""Stand-ins for CUDA's libraries: they check every argument of a call and compute with NumPy."""

from .installation import installed, stand_ins
from .library_checks import LibraryCallError

__all__ = ["LibraryCallError", "installed", "stand_ins"]
