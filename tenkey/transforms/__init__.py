"""Function transforms: vmap, and what is made of it and of autograd."""

from __future__ import annotations

from typing import Any

from . import rules
from .batching import LOOPS, BatchInfo
from .randomness import install_randomness
from .vmap import vmap

__all__ = ["LOOPS", "BatchInfo", "install", "rules", "vmap"]


def install(registry: Any) -> None:
    """Subscribe to all operators."""
    install_randomness(registry)
