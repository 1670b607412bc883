"""Linear algebra: the array API standard's extension ``linalg``, and what array users know beside it.

Every name here is an operator whose block begins with ``linalg_`` (``tenkey/ops/builtin``).
"""

from __future__ import annotations

from typing import Any

from . import _names

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """An operator that was declared after this module was made."""
    return _names.find_public("linalg", name)


globals().update(_names.expose("linalg"))
__all__.extend(_names.expose("linalg"))  # noqa: PYI056  # the stub beside it is what type checkers read
