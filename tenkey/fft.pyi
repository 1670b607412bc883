# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Discrete Fourier transforms: the array API standard's extension ``fft``."""


__all__ = [
]


