"""Counter-based random bits, and the distributions computed from them."""

from typing import TYPE_CHECKING

from ..._util.lazy_import import lazy_import

if TYPE_CHECKING:  # Note [Delayed modules]
    from . import samplers

__all__ = ["samplers"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_import(__name__, {"samplers": ()})
