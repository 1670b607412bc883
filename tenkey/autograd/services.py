"""What this layer uses of others that it does not import: the composition root hands it over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["provide_transforms", "vmap_service"]

_transforms: Final[list[Any]] = []


def provide_transforms(transforms: Any) -> None:
    """Hand over ``tk.transforms``."""
    _transforms[:] = [transforms]


def vmap_service() -> Callable[..., Any]:
    """``tk.transforms.vmap``."""
    vmap: Callable[..., Any] = _transforms[0].vmap
    return vmap
