"""Values at which kernels go wrong: infinities, NaN, signed zeros, denormals, large numbers, the ends of integers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import tenkey as tk

from ...dispatch.operator import Operator
from ...ops.declare.facets import Pointwise
from ..samples import SampleInput, arranged

__all__ = ["extreme_samples", "extreme_values"]


def extreme_values(dtype: Any) -> np.ndarray:
    """Return ordinary and extreme values of a dtype.

    >>> extreme_values("uint8").tolist()
    [0, 1, 2, 3, 7, 31, 64, 100, 127, 128, 254, 255]
    """
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([False, True])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        middle = (limits.max + 1) // 2
        wanted = {-100, -7, -2, -1, 0, 1, 2, 3, 7, 31, 64, 100, middle - 1, middle, limits.max - 1, limits.max}
        wanted |= {limits.min, limits.min + 1} if kind.kind == "i" else set()
        return np.array(sorted(value for value in wanted if limits.min <= value <= limits.max), kind)
    info = np.finfo(kind)
    positive = [0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 3.0, 10.0, 1e4, 1e10]
    positive += [float(info.smallest_normal), float(info.eps), float(info.max), np.inf]
    half = np.array(positive, kind)
    return np.concatenate([half, -half, np.array([30.0, 60.0, np.nan], kind)])  # erfc(60) underflows


def _few(dtype: Any) -> np.ndarray:
    """Return fewer values, for functions of three operands."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return np.array([0.0, -0.0, 1.0, -2.5, 1e10, np.inf, -np.inf, np.nan], kind)
    return extreme_values(kind)[::2] if kind.kind in "iu" else extreme_values(kind)


def extreme_samples(operator: Operator, dtype: str) -> Iterator[SampleInput]:
    """Yield a call of a pointwise operator on all combinations of extreme values; nothing for other operators."""
    facet: Pointwise | None = operator.facets.get("Pointwise")
    if facet is None or operator.schema.is_mutable or np.dtype(dtype).kind == "c":
        return
    count = len(facet.tensors)
    make = extreme_values if count < 3 else _few
    given: list[Any] = []
    for argument in facet.schema.arguments:
        if argument.name in facet.tensors:
            place = facet.tensors.index(argument.name)
            values = make("bool" if argument.name in facet.boolean else dtype)
            given.append(tk.asarray(values.reshape([-1 if i == place else 1 for i in range(count)])))
        elif argument.has_default:
            given.append(argument.default)
        else:
            return
    yield arranged(facet.schema, given, "extreme values")
