"""What goes wrong without being an error: the results are right, only later.

Note [A kernel that is not compiled]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An operator whose kernel cannot be compiled runs on NumPy, and a kernel that cannot be loaded from the cache or saved in
it is compiled. The user is told why, once per reason, by a warning that is issued when the kernel is ready: where
warnings are errors, the next call finds it. Guarded by ``tests/backends/test_code_cache.py``.
"""

from __future__ import annotations

import warnings
from collections import deque
from typing import Final

__all__ = ["complain", "utter"]

_waiting: Final[deque[tuple[str, Exception | None]]] = deque()
_said: Final[set[str]] = set()


def complain(text: str, cause: Exception | None = None) -> None:
    """Remember a warning for `utter`, unless it has been issued before."""
    if text not in _said:
        _said.add(text)
        _waiting.append((text, cause))


def utter() -> None:
    """Issue the remembered warnings; where warnings are errors, raise the first one from its cause."""
    while _waiting:
        try:
            text, cause = _waiting.popleft()
        except IndexError:  # another thread has taken the last one
            return
        try:
            warnings.warn(text, stacklevel=2)
        except Warning as warning:
            raise warning from cause
