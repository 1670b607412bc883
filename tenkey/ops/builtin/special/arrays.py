"""NumPy's functions and the operators under the same names, for formulas that serve arrays and tensors alike.

Note [Formulas of several steps]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The functions that are computed by quadrature or iteration are written once, with a namespace ``m`` as their first
argument: ``ARRAYS`` in the CPU's kernel, ``TENSORS`` in the decomposition for devices without one. They differ in two
points. On arrays a case is computed only for the elements that it concerns; on tensors it is computed for all, with
harmless numbers in the place of the others, because the number of these is not known on the host. And a case that does
not occur is skipped on arrays only. Guarded by ``tests/ops/test_special_on_tensors.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ....core.device import CPU
from ....core.tensor import Tensor, cpu_word, make_tensor
from ..creation import full_like
from ..elementwise.arithmetic import abs, maximum, minimum, sign
from ..elementwise.comparison import isinf, isnan, where
from ..elementwise.exponential import exp, expm1, log, log1p, sqrt
from ..elementwise.rounding import copysign, floor, round
from ..elementwise.trigonometry import hypot, tan
from ..reductions.reduction import sum
from ..shape.copying import cast, to_device
from ..shape.views import reshape

_ROWS: Final = 1 << 22  # a weighted sum computes up to this many elements at once, for all rows
_FEW: Final = 1 << 14


def _filled_in(out: Any, condition: Any, function: Callable[..., Any], *arguments: tuple[Any, float]) -> Any:
    if condition.any():
        out[condition] = function(*[value[condition] for value, _ in arguments])
    return out


def _selected(out: Tensor, condition: Tensor, function: Callable[..., Any], *arguments: tuple[Any, float]) -> Tensor:
    return where(condition, function(*[where(condition, value, harmless) for value, harmless in arguments]), out)


def _weighted_rows(function: Callable[[Any], Any], begin: Any, length: Any, nodes: Any, weights: Any) -> Any:
    if begin.size * len(nodes) <= _FEW:
        rows = function(begin + nodes[:, None] * length)
    else:
        rows = (function(begin + node * length) for node in nodes.tolist())
    total = np.zeros_like(begin)
    for weight, values in zip(weights.tolist(), rows):  # one order, so that both ways give the same sum
        total += weight * values
    return total


def _weighted_sum(function: Callable[[Any], Any], begin: Tensor, length: Tensor, nodes: Any, weights: Any) -> Tensor:
    if begin.size * len(nodes) > _ROWS:
        total: Any = 0.0
        for node, weight in zip(nodes.tolist(), weights.tolist()):
            total = total + weight * function(begin + node * length)
        return total  # type: ignore[no-any-return]
    shape = (len(nodes), *[1] * begin.ndim)
    return sum(_column(weights, begin, shape) * function(begin + _column(nodes, begin, shape) * length), axis=0)


def _column(values: Any, like: Tensor, shape: tuple[int, ...]) -> Tensor:
    made = make_tensor(values, cpu_word(values.dtype))
    return reshape(made if like.device is CPU else to_device(made, like.device), shape)


ARRAYS: Final = SimpleNamespace(
    **{name: getattr(np, name) for name in (
        "abs", "copysign", "exp", "expm1", "floor", "full_like", "hypot", "isinf", "isnan", "log", "log1p", "maximum",
        "minimum", "round", "sign", "sqrt", "tan", "where",
    )},
    double=lambda x: np.asarray(x, np.float64),
    fill=_filled_in,
    never=lambda condition: not condition.any(),
    weighted_sum=_weighted_rows,
)  # fmt: skip
"""``fill(out, condition, function, (argument, harmless), ...)`` puts the values of the function where the condition
holds; ``never(condition)`` tells that it holds nowhere, if that is known on the host; ``weighted_sum`` adds the values
of a function at ``begin + node * length``; ``double(x)`` converts to float64."""

TENSORS: Final = SimpleNamespace(
    abs=abs, copysign=copysign, exp=exp, expm1=expm1, floor=floor, full_like=full_like, hypot=hypot, isinf=isinf,
    isnan=isnan, log=log, log1p=log1p, maximum=maximum, minimum=minimum, round=round, sign=sign, sqrt=sqrt, tan=tan,
    where=where,
    double=lambda x: cast(x, np.dtype(np.float64)),
    fill=_selected,
    never=lambda condition: False,
    weighted_sum=_weighted_sum,
)  # fmt: skip
