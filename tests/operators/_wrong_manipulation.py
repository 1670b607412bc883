"""Bad arguments of functions that rearrange, sort and sum up: see ``test_errors.py``."""

from __future__ import annotations

from typing import Any

import tenkey as tk

__all__ = ["cases"]

_RANGE = " is out of range for a tensor of 2 dimensions: it must be in [-2, 1]."
_ONE = " is out of range for a tensor of 1 dimensions: it must be in [-1, 0]."
_ORDER = " is not defined for dtype complex64: complex numbers have no order. Use tk.real(x), say."


def cases() -> list[Any]:
    """(name, call, error, text)."""
    return [
        ("moveaxis", lambda f, i: tk.moveaxis(f(2, 3), 2, 0), IndexError, "[moveaxis] axis 2" + _RANGE),
        ("moveaxis", lambda f, i: tk.moveaxis(f(2, 3), (0, 0), (0, 1)), ValueError,
         "[moveaxis] axis (0, 0) names a dimension twice."),
        ("moveaxis", lambda f, i: tk.moveaxis(f(2, 3), (0, 1), (0,)), ValueError,
         "[moveaxis] source (0, 1) and destination (0,) must name equally many axes."),
        ("swapaxes", lambda f, i: tk.swapaxes(f(2, 3), 0, 2), IndexError, "[swapaxes] axis 2" + _RANGE),
        ("tile", lambda f, i: tk.tile(f(2, 3), (2, -1)), ValueError,
         "[tile] elements are repeated 0 times or more, got -1."),
        ("repeat", lambda f, i: tk.repeat(f(2, 3), -1), ValueError,
         "[repeat] elements are repeated 0 times or more, got -1."),
        ("repeat", lambda f, i: tk.repeat(f(2, 3), 2, axis=2), IndexError, "[repeat] axis 2" + _RANGE),
        ("repeat", lambda f, i: tk.repeat(f(2, 3), f(3), axis=1), TypeError,
         "[repeat] the numbers of repetitions must be integers, got float32."),
        ("repeat", lambda f, i: tk.repeat(f(2, 3), 1.5), TypeError,
         "[repeat] the numbers of repetitions must be integers, got float64."),
        ("repeat", lambda f, i: tk.repeat(f(2, 3), i(2), axis=1), ValueError,
         "[repeat] repeats of shape (2,) must be one number or one for each of the 3 elements along the axis."),
        ("roll", lambda f, i: tk.roll(f(2, 3), 1, axis=2), IndexError, "[roll] axis 2" + _RANGE),
        ("roll", lambda f, i: tk.roll(f(2, 3), (1, 2), axis=(0, 1, 0)), ValueError,
         "[roll] got 2 shifts for 3 axes: give one shift, or one for each axis."),
        ("roll", lambda f, i: tk.roll(f(2, 3), (1, 2)), ValueError,
         "[roll] got the shifts (1, 2) without axis=: name an axis for each of them."),
        ("rot90", lambda f, i: tk.rot90(f(3)), IndexError, "[rot90] axis 1" + _ONE),
        ("rot90", lambda f, i: tk.rot90(f(2, 3), 1, (0, 0)), ValueError,
         "[rot90] axis (0, 0) names a dimension twice."),
        ("fliplr", lambda f, i: tk.fliplr(f(3)), IndexError, "[fliplr] axis 1" + _ONE),
        ("flipud", lambda f, i: tk.flipud(f()), IndexError,
         "[flipud] axis 0 is out of range for a tensor of 0 dimensions: it must be in [0, -1]."),
        ("tril", lambda f, i: tk.tril(f(3)), ValueError, "[tril] needs at least two dimensions, got shape (3,)."),
        ("triu", lambda f, i: tk.triu(f(3)), ValueError, "[triu] needs at least two dimensions, got shape (3,)."),
        ("sort", lambda f, i: tk.sort(f(2, 3), axis=2), IndexError, "[sort] axis 2" + _RANGE),
        ("sort", lambda f, i: tk.sort(f(2, dtype="complex64")), TypeError, "[sort]" + _ORDER),
        ("argsort", lambda f, i: tk.argsort(f(2, 3), axis=2), IndexError, "[argsort] axis 2" + _RANGE),
        ("argsort", lambda f, i: tk.argsort(f(2, dtype="complex64")), TypeError, "[argsort]" + _ORDER),
        ("cumulative_sum", lambda f, i: tk.cumulative_sum(f(2, 3)), ValueError,
         "[cumulative_sum] needs axis= for a tensor of shape (2, 3): only one dimension leaves no choice."),
        ("cumulative_sum", lambda f, i: tk.cumulative_sum(f(2, 3), axis=2), IndexError,
         "[cumulative_sum] axis 2" + _RANGE),
        ("cumulative_sum", lambda f, i: tk.cumulative_sum(f(2, dtype="complex64"), dtype="float32"), TypeError,
         "[cumulative_sum] complex64 with dtype=float32 would lose the imaginary part: take tk.real(x) first."),
        ("var", lambda f, i: tk.var(f(2, 3), axis=2), IndexError, "[var] axis 2" + _RANGE),
        ("count_nonzero", lambda f, i: tk.count_nonzero(f(2, 3), axis=2), IndexError,
         "[count_nonzero] axis 2" + _RANGE),
        ("diff", lambda f, i: tk.diff(f(2, 3), axis=2), IndexError, "[diff] axis 2" + _RANGE),
        ("diff", lambda f, i: tk.diff(f(2, 3), n=-1), ValueError,
         "[diff] differences are taken n times, 0 or more, got -1."),
    ]  # fmt: skip
