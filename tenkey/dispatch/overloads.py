"""Selection among the overloads of one name.

Note [Overload resolution]
~~~~~~~~~~~~~~~~~~~~~~~~~~
Of the overloads that fit the arguments, one is better than another if it fits no given argument worse and at least
one better; if both fit equally, the one that leaves fewer arguments to their defaults is better. A type fits a value
best if it is the value's own; for a Python number ``Scalar`` is next, then the types that it must be converted to, from
narrow to wide (for an int: ``int``, ``Scalar``, ``float``, ``complex``). If no overload is better than every other one,
the call is ambiguous, and the error names the candidates. The order of definition does not matter. Guarded by
``tests/tiny/test_overloads.py``.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .arguments import convert
from .errors import ArgumentError, OperatorNotFoundError
from .operator import Operator
from .schema import BaseType, ListType, OptionalType, TupleType

__all__ = ["select_overload"]

# How far a Python value of a class (row) is from a schema type (column); other types require a conversion.
_DISTANCE: Final[dict[type, dict[str, int]]] = {
    bool: {"bool": 0, "Scalar": 1, "int": 2, "float": 3, "complex": 4},
    int: {"int": 0, "Scalar": 1, "float": 2, "complex": 3},
    float: {"float": 0, "Scalar": 1, "complex": 2},
    complex: {"complex": 0, "Scalar": 1},
    str: {"str": 0},
}
_CONVERTED: Final = 5


def _distance(kind: Any, given: Any, converted: Any) -> int:
    """Return how far a value is from a type that it fits; 0 if it has this very type."""
    if isinstance(kind, OptionalType):
        return 0 if given is None else _distance(kind.element, given, converted)
    if isinstance(kind, (ListType, TupleType)):
        if not isinstance(given, (list, tuple)) or len(given) != len(converted):
            return _CONVERTED
        elements = kind.elements if isinstance(kind, TupleType) else (kind.element,) * len(given)
        return max([_distance(e, g, c) for e, g, c in zip(elements, given, converted)], default=0)
    assert isinstance(kind, BaseType)
    known = _DISTANCE.get(type(given))
    if known is not None:
        return known.get(kind.name, _CONVERTED)
    for abstract, plain in ((numbers.Integral, int), (numbers.Real, float), (numbers.Complex, complex)):
        if isinstance(given, abstract):  # NumPy's scalars
            return _DISTANCE[plain].get(kind.name, _CONVERTED)
    return 0 if kind.name == "Tensor" or type(converted) is type(given) else _CONVERTED


def _fit(operator: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[int], int]:
    """Return the distances of the given arguments, in order, and the number of defaults; raise if they do not fit.

    >>> _fit(tk.ops.tk.full_like.default, (tk.ones(2), 3), {})
    ([0, 1], 2)
    """
    bound = operator.bind(*args, **kwargs)
    kinds = {a.name: a.type for a in operator.schema.arguments}
    converted = {name: convert(operator, name, kind, bound[name]) for name, kind in kinds.items()}
    given = [a.name for a in operator.schema.arguments if not a.kwarg_only][: len(args)] + list(kwargs)
    return [_distance(kinds[n], bound[n], converted[n]) for n in given], len(kinds) - len(given)


def _better(one: tuple[list[int], int], other: tuple[list[int], int]) -> bool:
    if one[0] == other[0]:
        return one[1] < other[1]
    return all(a <= b for a, b in zip(one[0], other[0]))


def select_overload(
    packet: str, candidates: Sequence[Operator], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Operator:
    """Return the overload that fits best (Note [Overload resolution]); raise ArgumentError if none or several do."""
    reasons: list[str] = []
    fits: list[tuple[Operator, tuple[list[int], int]]] = []
    for operator in candidates:
        try:
            fits.append((operator, _fit(operator, args, kwargs)))
        except (TypeError, ValueError, OverflowError) as error:
            reasons.append(f"  {operator.schema}: {error}")
        except OperatorNotFoundError:  # removed by another thread since
            continue
    if not fits:
        raise ArgumentError("\n".join([f"[{packet}] no overload fits the arguments:", *reasons]))
    for operator, fit in fits:
        if all(other is operator or _better(fit, otherfit) for other, otherfit in fits):
            return operator
    tied = [op for op, fit in fits if not any(_better(other, fit) for _, other in fits)] or [op for op, _ in fits]
    candidates_text = "\n".join(f"  {op.schema}, defined at {op.site}" for op in tied)
    overload = tied[0].schema.overload_name or "default"
    raise ArgumentError(
        f"[{packet}] the call is ambiguous: these overloads fit the arguments equally well:\n{candidates_text}\n"
        f"Call one of them by its name, as tk.ops.{packet.replace('::', '.')}.{overload}(...)."
    )
