"""Discrete Fourier transforms: the extension ``fft`` of the array API standard.

A name is an operator whose block begins with ``fft_`` (``tenkey/ops/builtin``), or a function of
``tenkey/functions``.
"""

from __future__ import annotations

from ._names import fill_module
from .functions.calculating.planar_transforms import fft2, ifft2, irfft2, rfft2

__all__ = ["fft2", "ifft2", "irfft2", "rfft2"]
__getattr__ = fill_module("fft", globals())
