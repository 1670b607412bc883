"""Bad arguments of functions that rearrange, sort and sum up: see ``test_errors.py``."""

from __future__ import annotations

from typing import Any

import tenkey as tk

__all__ = ["cases"]

_RANGE = " is out of range for a tensor of 2 dimensions: it must be in [-2, 1]."
_ONE = " is out of range for a tensor of 1 dimensions: it must be in [-1, 0]."
_ORDER = " is not defined for dtype complex64: complex numbers have no order. Consider tk.real(x)."


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
         "[tile] elements are repeated 0 times or more, not a negative number of times: got -1."),
        ("repeat", lambda f, i: tk.repeat(f(2, 3), -1), ValueError,
         "[repeat] elements are repeated 0 times or more, not a negative number of times: got -1."),
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
         "[flipud] axis 0 is out of range for a tensor of 0 dimensions, which has no axes."),
        ("tril", lambda f, i: tk.tril(f(3)), ValueError, "[tril] needs at least two dimensions, got shape (3,)."),
        ("triu", lambda f, i: tk.triu(f(3)), ValueError, "[triu] needs at least two dimensions, got shape (3,)."),
        ("sort", lambda f, i: tk.sort(f(2, 3), axis=2), IndexError, "[sort] axis 2" + _RANGE),
        ("sort", lambda f, i: tk.sort(f(2, dtype="complex64")), TypeError, "[sort]" + _ORDER),
        ("argsort", lambda f, i: tk.argsort(f(2, 3), axis=2), IndexError, "[argsort] axis 2" + _RANGE),
        ("argsort", lambda f, i: tk.argsort(f(2, dtype="complex64")), TypeError, "[argsort]" + _ORDER),
        ("cumulative_sum", lambda f, i: tk.cumulative_sum(f(2, 3)), ValueError,
         "[cumulative_sum] needs axis= for a tensor of shape (2, 3): it may be left out only for one dimension."),
        ("cumulative_sum", lambda f, i: tk.cumulative_sum(f(2, 3), axis=2), IndexError,
         "[cumulative_sum] axis 2" + _RANGE),
        ("cumulative_sum", lambda f, i: tk.cumulative_sum(f(2, dtype="complex64"), dtype="float32"), TypeError,
         "[cumulative_sum] complex64 with dtype=float32 would lose the imaginary part: take tk.real(x) first."),
        ("var", lambda f, i: tk.var(f(2, 3), axis=2), IndexError, "[var] axis 2" + _RANGE),
        ("count_nonzero", lambda f, i: tk.count_nonzero(f(2, 3), axis=2), IndexError,
         "[count_nonzero] axis 2" + _RANGE),
        ("diff", lambda f, i: tk.diff(f(2, 3), axis=2), IndexError, "[diff] axis 2" + _RANGE),
        ("diff", lambda f, i: tk.diff(f(2, 3), n=-1), ValueError,
         "[diff] n is the number of differences, at least 0, got -1."),
        ("expand_dims", lambda f, i: tk.expand_dims(f(2), (0, 3)), IndexError,
         "[expand_dims] axis 3 is out of range for a tensor of 3 dimensions: it must be in [-3, 2]."),
        ("expand_dims", lambda f, i: tk.expand_dims(f(2), (0, -3)), ValueError,
         "[expand_dims] axis (0, -3) names a dimension twice."),
        ("reshape", lambda f, i: tk.reshape(tk.permute_dims(f(2, 3), (1, 0)), (6,), copy=False), ValueError,
         ("[reshape] copy=False, but a tensor of shape (3, 2) and strides (1, 3) can take the shape (6,) only as a "
          "copy.")),
        ("unstack", lambda f, i: tk.unstack(f(2, 3), axis=2), IndexError, "[unstack] axis 2" + _RANGE),
        ("split_at", lambda f, i: tk.split(f(2, 3), 2, axis=1), ValueError,
         "[split] 3 elements along axis 1 do not divide into 2 equal parts: use array_split."),
        ("split_at", lambda f, i: tk.split(f(2, 3), 0), ValueError,
         "[split] a tensor is split into at least 1 part, got 0."),
        ("split_at", lambda f, i: tk.array_split(f(2, 3), -1), ValueError,
         "[array_split] a tensor is split into at least 1 part, got -1."),
        *[
            (name, lambda f, i, name=name: getattr(tk, name)([f(2, 2), f(3, 3)]), ValueError,
             f"[concat] the shapes {a} and {b} must agree in every dimension but axis {axis}.")
            for name, a, b, axis in (("hstack", (2, 2), (3, 3), 1), ("vstack", (2, 2), (3, 3), 0),
                                     ("dstack", (2, 2, 1), (3, 3, 1), 2))
        ],
        ("diagonal", lambda f, i: tk.diagonal(f(3)), IndexError, "[diagonal] axis 1" + _ONE),
        ("diag", lambda f, i: tk.diag(f(2, 2, 2)), ValueError,
         "[diag] takes a vector or a matrix, got shape (2, 2, 2): tk.diagonal takes more dimensions."),
        ("meshgrid_of", lambda f, i: tk.meshgrid(f(2, 2)), ValueError,
         "[meshgrid] coordinates have one dimension, got shape (2, 2)."),
        ("meshgrid_of", lambda f, i: tk.meshgrid(f(2), indexing="ji"), ValueError,
         "[meshgrid] indexing is 'xy' or 'ij', got 'ji'."),
        ("searchsorted", lambda f, i: tk.searchsorted(f(2, 3), f(2)), ValueError,
         "[searchsorted] the sorted data must have one dimension, got shape (2, 3)."),
        ("searchsorted", lambda f, i: tk.searchsorted(f(2), f(2), side="middle"), ValueError,
         "[searchsorted] side must be 'left' or 'right', got 'middle'."),
        ("searchsorted", lambda f, i: tk.searchsorted(f(2), f(2), sorter=f(2)), ValueError,
         "[searchsorted] sorter must hold the 2 integers that sort the data, got float32 of shape (2,)."),
        ("searchsorted", lambda f, i: tk.searchsorted(f(2), f(2, dtype="complex64")), TypeError,
         "[searchsorted]" + _ORDER),
        ("topk", lambda f, i: tk.topk(f(2, 3), 4), ValueError,
         "[topk] k must be between 0 and the 3 elements along axis 1, got 4."),
        ("topk", lambda f, i: tk.topk(f(2, dtype="complex64"), 1), TypeError, "[topk]" + _ORDER),
        *[
            (name, lambda f, i, name=name: getattr(tk, name)(f(2, 3)), ValueError,
             f"[{name}] needs axis= for a tensor of shape (2, 3).")
            for name in ("cummax", "cummin")
        ],
        ("argpartition", lambda f, i: tk.argpartition(f(2, 3), 3), IndexError,
         "[argpartition] kth=3 is out of range for the 3 elements along axis 1."),
        ("partition", lambda f, i: tk.partition(f(2, 3), 0, axis=2), IndexError, "[argpartition] axis 2" + _RANGE),
        ("isin", lambda f, i: tk.isin(f(2), "a"), tk.dispatch.errors.ArgumentError, None),
    ]  # fmt: skip
