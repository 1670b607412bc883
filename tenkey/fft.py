"""Discrete Fourier transforms: the array API standard's extension ``fft``.

Every name here is an operator whose block begins with ``fft_`` (``tenkey/ops/builtin``).
"""

from __future__ import annotations

from typing import Any

from . import _names

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    """An operator that was declared after this module was made."""
    return _names.find_public("fft", name)


_found = _names.expose("fft")
globals().update(_found)
__all__.extend(_found)  # noqa: PYI056  # the stub beside it is what type checkers read
