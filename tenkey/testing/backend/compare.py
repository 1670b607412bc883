"""Place sample inputs on a device in every layout, and compare results with those of the CPU."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tenkey as tk

from ...core.tensor import Tensor, make_view

__all__ = ["Placed", "place", "same"]

_BEFORE, _AFTER = 3, 2  # elements around a window, which must not be read or written
_ULPS: Final = 64  # libraries of mathematical functions differ by some units in the last place


class Placed:
    """A tensor on the device, as a window into a larger one."""

    def __init__(self, tensor: Tensor, base: Tensor, around: np.ndarray, inside: np.ndarray) -> None:
        self.tensor = tensor
        self._base = base
        self._around = around
        self._inside = inside

    def untouched(self) -> bool:
        """Return whether the memory around the window is unchanged."""
        now = self._base.detach().numpy()
        return bool(np.array_equal(now[~self._inside], self._around[~self._inside], equal_nan=True))


def place(x: Tensor, device: str) -> Placed:
    """Copy a CPU tensor to a device, with its strides and an offset, surrounded by other values."""
    values = x.detach().numpy()
    strides = x.strides
    extent = sum((n - 1) * step for n, step in zip(values.shape, strides, strict=True)) + 1 if values.size else 0
    filler = np.nan if values.dtype.kind in "fc" else True if values.dtype.kind == "b" else 113
    memory = np.full(_BEFORE + extent + _AFTER, filler, values.dtype)
    inside = np.zeros(memory.shape, bool)
    if values.size:
        steps = tuple(step * values.itemsize for step in strides)
        np.lib.stride_tricks.as_strided(memory[_BEFORE:], values.shape, steps)[...] = values
        marks = np.lib.stride_tricks.as_strided(inside[_BEFORE:], values.shape, strides)
        marks[...] = True
    base = tk.tensor(memory, device=device)
    data = base.data
    size = values.itemsize
    window = data.window(values.shape, tuple(step * size for step in strides), data.offset + _BEFORE * size)
    return Placed(make_view(base, window), base, memory, inside)


def same(got: Any, want: Any, device: str, what: str = "result") -> None:
    """Raise AssertionError unless two results have the same structure, shapes, dtypes and, up to rounding, values."""
    if isinstance(want, Tensor):
        assert isinstance(got, Tensor), f"{what}: a {type(got).__name__}, the CPU gives a Tensor"
        assert got.shape == want.shape, f"{what}: shape {got.shape}, the CPU gives {want.shape}"
        assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, the CPU gives {want.dtype}"
        if want.device.type == "meta":
            assert got.device.type == "meta", f"{what} is on {got.device}, the CPU's on meta"
            return
        expected = tk.device(device)
        assert got.device is expected, f"{what} is on {got.device}, not on {expected}"
        close(got.detach().numpy(), want.detach().numpy(), what)
    elif isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple)), f"{what}: a {type(got).__name__}, the CPU gives {len(want)} values"
        assert len(got) == len(want), f"{what}: {len(got)} values, the CPU gives {len(want)}"
        for i, (one, other) in enumerate(zip(got, want, strict=True)):
            same(one, other, device, f"{what}[{i}]")
    else:
        assert got == want, f"{what}: {got!r}, the CPU gives {want!r}"


def close(got: np.ndarray, want: np.ndarray, what: str = "values") -> None:
    """Raise AssertionError unless the arrays are equal; floats may differ by some units in the last place."""
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    tolerance = _ULPS * float(np.finfo(want.dtype).eps)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=what)
