"""Labels for the leaves of nested arguments and results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import Tensor
from ...core.tree import flatten_with_path

__all__ = ["Labelled", "first_difference", "host_values", "leaves_of", "quote_all", "results_of"]


class Labelled(NamedTuple):
    """A part of a nested value and its expression: ``points[1].x``."""

    label: str
    value: Any


def leaves_of(value: Any, label: str) -> list[Labelled]:
    """Return the leaves of a nested value with their labels.

    >>> [leaf.label for leaf in leaves_of((1, [2, 3]), "result")]
    ['result[0]', 'result[1][0]', 'result[1][1]']
    """
    return [Labelled(*pair) for pair in flatten_with_path(value, label)]


def results_of(value: Any) -> list[Labelled]:
    """Return the parts of an operator's result with their labels.

    >>> [part.label for part in results_of((1, 2))], results_of(1)[0].label
    (['result[0]', 'result[1]'], 'the result')
    """
    parts = leaves_of(value, "result")
    return [Labelled("the result", value)] if len(parts) == 1 and parts[0].value is value else parts


def host_values(results: list[Labelled]) -> list[Labelled]:
    """Return the results with copies of the values as arrays in place of the tensors.

    >>> host_values([Labelled("x", tk.ones(1))])
    [Labelled(label='x', value=array([1.], dtype=float32))]
    """
    return [
        Labelled(p.label, np.array(p.value.detach().numpy())) if isinstance(p.value, Tensor) else p for p in results
    ]


def quote_all(labels: list[str]) -> str:
    """Quote labels for a sentence: ``'x' and 'y'``.

    >>> quote_all(["x", "y", "z"])
    "'x', 'y' and 'z'"
    """
    quoted = [f"'{label}'" for label in labels]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def first_difference(one: np.ndarray, two: np.ndarray) -> str:
    """Describe the first difference of two arrays of one shape: ``at index (0, 2): 1.0 -> 5.0``."""
    wrong = ~((one == two) | ((one != one) & (two != two)))
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else ()
    return f"at index {index}: {one[index]!s} -> {two[index]!s}"
