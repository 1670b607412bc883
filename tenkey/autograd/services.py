"""What this layer uses of others that it does not import: the composition root hands it over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["provide_vmap", "vmap_service"]

_vmap: Final[list[Callable[..., Any]]] = []


def provide_vmap(vmap: Callable[..., Any]) -> None:
    """Hand over ``tk.transforms.vmap``."""
    _vmap[:] = [vmap]


def vmap_service() -> Callable[..., Any]:
    """``tk.transforms.vmap``."""
    return _vmap[0]
