# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Discrete Fourier transforms: the extension ``fft`` of the array API standard."""

from collections.abc import Sequence
from tenkey.core.device import Device
from tenkey.core.tensor import Tensor
from tenkey.core.typing import DTypeLike

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def fft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = 'backward') -> Tensor:
    """Return the discrete Fourier transform along an axis: ``sum over j of x[j] exp(-2 pi i j k / n)``."""
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return the frequencies of a transform of ``n`` points, ``d`` apart: 0, 1 / (n d), ..., -1 / (n d)."""
def fftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = 'backward',
) -> Tensor:
    """Return the discrete Fourier transform along several axes."""
def fftshift(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """Rotate the elements along axes, so that frequency zero is in the middle."""
def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = 'backward') -> Tensor:
    """Return the discrete Fourier transform, which is real, of a Hermitian signal, given its first half."""
def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = 'backward') -> Tensor:
    """Return the inverse of ``fft``: ``sum over k of x[k] exp(2 pi i j k / n) / n``."""
def ifftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = 'backward',
) -> Tensor:
    """Return the inverse of ``fftn``."""
def ifftshift(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """Invert ``fftshift``; the two differ for odd lengths."""
def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = 'backward') -> Tensor:
    """Return the inverse of ``hfft``: the first half of the Hermitian signal with the spectrum x."""
def irfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = 'backward') -> Tensor:
    """Return the inverse of ``rfft``: real values from the first half of a spectrum."""
def irfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = 'backward',
) -> Tensor:
    """Return the inverse of ``rfftn``: real values."""
def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: str = 'backward') -> Tensor:
    """Return the discrete Fourier transform of real values: its first ``n // 2 + 1`` elements, which determine all."""
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
) -> Tensor:
    """Return the frequencies of ``rfft`` of ``n`` points, ``d`` apart: from 0 to 1 / (2 d)."""
def rfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = 'backward',
) -> Tensor:
    """Return the discrete Fourier transform of real values along several axes; along the last one, its first half."""
