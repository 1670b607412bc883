"""Tensors in nested arguments and results: lists, tuples, named tuples, dicts and dataclasses, to any depth."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...core.tensor import Tensor

__all__ = ["Labelled", "change_tensors", "leaves_of", "quote_all", "results_of"]


class Labelled(NamedTuple):
    """A part of a nested value and how a person would write it: ``points[1].x``."""

    label: str
    value: Any


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def change_tensors(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The same structure with ``function(tensor)`` in place of every tensor; containers are made anew.

    >>> import tenkey as tk
    >>> change_tensors({"a": [tk.ones(2), 3]}, lambda t: t.shape)
    {'a': [(2,), 3]}
    """
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: change_tensors(item, function) for key, item in value.items()}
    if isinstance(value, tuple):
        items = [change_tensors(item, function) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [change_tensors(item, function) for item in value]
    if _is_record(value):
        made = copy.copy(value)
        for field in dataclasses.fields(value):  # a frozen record refuses setattr, its copy is ours
            object.__setattr__(made, field.name, change_tensors(getattr(value, field.name), function))
        return made
    return value


def leaves_of(value: Any, label: str) -> Iterator[Labelled]:
    """Everything in a nested value that is no container, with its label, in the order of :func:`change_tensors`.

    >>> [leaf.label for leaf in leaves_of((1, [2, 3]), "result")]
    ['result[0]', 'result[1][0]', 'result[1][1]']
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, f"{label}[{key!r}]")
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, item in zip(value._fields, value):
            yield from leaves_of(item, f"{label}.{name}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from leaves_of(item, f"{label}[{index}]")
    elif _is_record(value):
        for field in dataclasses.fields(value):
            yield from leaves_of(getattr(value, field.name), f"{label}.{field.name}")
    else:
        yield Labelled(label, value)


def results_of(value: Any) -> list[Labelled]:
    """The parts of an operator's result, with their labels.

    >>> [part.label for part in results_of((1, 2))], results_of(1)[0].label
    (['result[0]', 'result[1]'], 'the result')
    """
    parts = list(leaves_of(value, "result"))
    return [Labelled("the result", value)] if len(parts) == 1 and parts[0].value is value else parts


def quote_all(labels: list[str]) -> str:
    """Labels in a sentence: ``'x' and 'y'``.

    >>> quote_all(["x", "y", "z"])
    "'x', 'y' and 'z'"
    """
    quoted = [f"'{label}'" for label in labels]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def first_difference(one: np.ndarray, two: np.ndarray, wrong: np.ndarray | None = None) -> str:
    """Where two arrays of one shape differ first: ``at index (0, 2): 1.0 -> 5.0``."""
    if wrong is None:
        wrong = ~((one == two) | ((one != one) & (two != two)))
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else ()
    return f"at index {index}: {one[index]!s} -> {two[index]!s}"
