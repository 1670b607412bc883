"""What this layer uses of ``tk.autograd``, which it does not import: the composition root hands it over."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["autograd_service", "provide_autograd"]

_autograd: Final[list[Any]] = []


def provide_autograd(autograd: Any) -> None:
    """Hand over ``tk.autograd``."""
    _autograd[:] = [autograd]


def autograd_service() -> Any:
    """``tk.autograd``."""
    return _autograd[0]
