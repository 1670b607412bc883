"""The facet of operators that are a few sweeps over each row, such as softmax and layer norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..._util.record import Record, made

__all__ = ["Rows", "Sweep"]

_Functions = Mapping[str, Callable[..., Any]]


class Sweep(Record):
    """One pass over the elements of a row, in functions on scalar expressions whose parameters are names.

    A name is a tensor's, a number's, that of a fold or of a result of this sweep or an earlier one, or ``count``, the
    number of elements; ``s.index(0)`` is the place in the row. ``elements`` computes values for each element, which are
    stored if they are results. ``folds`` combines values of the elements to one number for the row: ``("add" |
    "maximum" | "minimum", function)``. ``columns`` sums values over all rows. ``then`` computes numbers from numbers.
    """

    elements: _Functions = made(default_factory=dict)
    folds: Mapping[str, tuple[str, Callable[..., Any]]] = made(default_factory=dict)
    columns: _Functions = made(default_factory=dict)
    then: _Functions = made(default_factory=dict)


class Rows(Record):
    """An operator that computes each row of its tensors by itself, in sweeps; a row lies along the argument ``axis``.

    It goes with a ``Composite``, which computes the same with other operators, on other backends and for derivatives.
    ``tensors`` has the role of each tensor: ``row`` (its elements, of the shape of the first one), ``each`` (a number
    for each row) or ``column`` (as long as a row, and shared by all). ``results`` has those of the results, in which a
    ``column`` is a sum over the rows. ``numbers`` names the arguments that are floats. ``defaults`` are the values of
    tensors that may be left out. ``accepts(arrays...)`` returns False for a call that only the composition takes;
    on a device it gets windows, which have shapes but no values.
    """

    tensors: Mapping[str, str]
    results: Mapping[str, str]
    sweeps: tuple[Sweep, ...]
    numbers: tuple[str, ...] = ()
    defaults: Mapping[str, float] = made(default_factory=dict)
    accepts: Callable[..., bool] | None = None
    programs: dict[Any, Any] = made(default_factory=dict, repr=False)  # compiled by a backend
