"""Discrete Fourier transforms along two axes, by default the last ones: ``tk.fft.fft2`` and its relatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...dispatch.calling.public import public_in
from ...ops.builtin import load
from ..creation import to_operand

load("fft")  # Note [Operators that are declared on first use]
from ...ops.builtin.numeric import fft as transforms  # noqa: E402

__all__ = ["fft2", "ifft2", "irfft2", "rfft2"]


def _planar(operator: Callable[..., Tensor], name: str, x: Any, s: Any, axes: Any, norm: Any) -> Tensor:
    x = to_operand(f"fft.{name}", x)
    if axes is None:
        axes = (-2, -1)
    return operator(x, s=s, axes=tuple(axes), norm="backward" if norm is None else norm)


@public_in("tenkey.fft")
def fft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform along two axes: ``tk.fft.fftn`` with the last two axes as default.

    >>> tk.fft.fft2(tk.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _planar(transforms.fftn, "fft2", x, s, axes, norm)


@public_in("tenkey.fft")
def ifft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """Return the inverse of ``tk.fft.fft2``.

    >>> tk.fft.ifft2(tk.ones((2, 2))).tolist()
    [[(1+0j), 0j], [0j, 0j]]
    """
    return _planar(transforms.ifftn, "ifft2", x, s, axes, norm)


@public_in("tenkey.fft")
def rfft2(x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """Return the discrete Fourier transform of real values along two axes; along the last one, its first half.

    >>> tk.fft.rfft2(tk.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _planar(transforms.rfftn, "rfft2", x, s, axes, norm)


@public_in("tenkey.fft")
def irfft2(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return the inverse of ``tk.fft.rfft2``: real values.

    >>> tk.fft.irfft2(tk.fft.rfft2(tk.ones((2, 2)))).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _planar(transforms.irfftn, "irfft2", x, s, axes, norm)
