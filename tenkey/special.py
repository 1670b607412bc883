"""Special functions, as ``scipy.special`` names them, with derivatives.

Every name here is an operator whose block begins with ``special_`` (``tenkey/ops/builtin``).
"""

from __future__ import annotations

from typing import Any

from . import _names

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """An operator that was declared after this module was made."""
    return _names.find_public("special", name)


_found = _names.expose("special")
globals().update(_found)
__all__.extend(_found)  # noqa: PYI056  # the stub beside it is what type checkers read
