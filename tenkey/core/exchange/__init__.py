"""Exchange of tensors: DLPack, pickling, shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._util.lazy_import import lazy_import

if TYPE_CHECKING:  # Note [Delayed modules]
    from . import capsules, device_exchange

__all__ = ["capsules", "device_exchange"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_import(__name__, {"capsules": (), "device_exchange": ()})
