"""Counter-based random bits, and the distributions computed from them."""

from . import samplers

__all__ = ["samplers"]
