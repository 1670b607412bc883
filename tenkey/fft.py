"""Discrete Fourier transforms: the extension ``fft`` of the array API standard.

Every name is an operator whose block begins with ``fft_`` (``tenkey/ops/builtin``).
"""

from __future__ import annotations

from ._names import fill_module

__all__: list[str] = []
__getattr__ = fill_module("fft", globals())
