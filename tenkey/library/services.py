"""Where the checks of ``opcheck`` come from, which use the whole of tenkey: the composition root hands them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .opcheck_report import OpCheckReport

__all__ = ["checks_service", "provide_checks"]

_load: Final[list[Callable[[], Callable[..., OpCheckReport]]]] = []


def provide_checks(load: Callable[[], Callable[..., OpCheckReport]]) -> None:
    """Say where the checks come from; called once, by the composition root."""
    _load[:] = [load]


def checks_service() -> Callable[..., OpCheckReport]:
    """What runs the checks."""
    return _load[0]()
