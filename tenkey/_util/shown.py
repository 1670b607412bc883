"""Values in the text of messages."""

from __future__ import annotations

import reprlib

__all__ = ["shown"]

_repr = reprlib.Repr()
_repr.maxother = _repr.maxstring = _repr.maxlong = 200


def shown(value: object) -> str:
    """Return ``repr(value)``, cut to a length that suits a message; the type alone if ``repr`` fails.

    >>> shown(list(range(1000)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    try:
        return _repr.repr(value)
    except Exception:  # the repr of an object is user code
        return f"<{type(value).__name__} object>"
