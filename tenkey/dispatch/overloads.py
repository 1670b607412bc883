"""Choosing among the overloads of one name.

Note [Overload resolution]
~~~~~~~~~~~~~~~~~~~~~~~~~~
Of the overloads that the arguments fit, one is better than another if none of the given arguments suits it worse and
one suits it better; where all suit them equally, the one that leaves fewer arguments to their defaults. An argument
suits a type best if it is of this very type; a Python number suits ``Scalar`` next, then the types that it must be
converted to, the wider the worse (an int suits ``int``, ``Scalar``, ``float``, ``complex`` in this order). If no
overload is better than every other one, the call is ambiguous: an error that names those that tie. The order of
definition plays no part. Guarded by ``tests/tiny/test_overloads.py``.
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

_NO_OVERLOAD: Final = "[{packet}] no overload fits the arguments:\n{reasons}"
_AMBIGUOUS: Final = (
    "[{packet}] the call is ambiguous: these overloads fit the arguments equally well:\n{candidates}\n"
    "Call the one that is meant by its name, as tk.ops.{namespace}.{name}.{overload}(...)."
)

# How far a Python value of a class (the row) is from a schema type (the column); what is not listed must be converted.
_DISTANCE: Final[dict[type, dict[str, int]]] = {
    bool: {"bool": 0, "Scalar": 1, "int": 2, "float": 3, "complex": 4},
    int: {"int": 0, "Scalar": 1, "float": 2, "complex": 3},
    float: {"float": 0, "Scalar": 1, "complex": 2},
    complex: {"complex": 0, "Scalar": 1},
    str: {"str": 0},
}
_CONVERTED: Final = 5


def _distance(kind: Any, given: Any, converted: Any) -> int:
    """How far a value is from a type that it fits; 0 if it is of this very type."""
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
    """The distances of the given arguments, in order of giving, and the number of defaults; raises if they do not fit.

    >>> import tenkey as tk
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
    """The overload that fits the arguments best (Note [Overload resolution]); ArgumentError if none or several do."""
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
        raise ArgumentError(_NO_OVERLOAD.format(packet=packet, reasons="\n".join(reasons)))
    for operator, fit in fits:
        if all(other is operator or _better(fit, otherfit) for other, otherfit in fits):
            return operator
    tied = [op for op, fit in fits if not any(_better(other, fit) for _, other in fits)] or [op for op, _ in fits]
    namespace, _, name = packet.partition("::")
    raise ArgumentError(
        _AMBIGUOUS.format(
            packet=packet,
            candidates="\n".join(f"  {op.schema}, defined at {op.site}" for op in tied),
            namespace=namespace,
            name=name,
            overload=tied[0].schema.overload_name or "default",
        )
    )
