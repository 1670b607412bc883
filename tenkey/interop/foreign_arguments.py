"""Arguments that a public function does not have: what they are called here, or what methods make of them.

Note [PyTorch's keywords]
~~~~~~~~~~~~~~~~~~~~~~~~~
Methods of Tensor accept a keyword of PyTorch (``x.sum(dim=0, keepdim=True)``) if its meaning is that of an argument of
ours, and a bool after ``dim`` as ``keepdim``. Functions of ``tk`` keep to the names of the array API standard: one
function, one spelling. They refuse a foreign keyword with an error that names ours, and so do the methods whose results
differ (``x.max(dim=0)`` gives values and indices in PyTorch). Both read the one table in ``numpy_names.py``.
Guarded by ``tests/functions/test_foreign_keywords.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..dispatch.diagnostics.wrong_arguments import ABSENT
from ..dispatch.errors import ArgumentError, shown
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from .numpy_names import ADVICE, KEYWORDS, OF_METHODS, OTHER_RESULTS

__all__ = ["accepted_keyword", "foreign_arguments", "refusal", "unfit"]

_DIMENSIONS: Final = frozenset(["dim", "dims", "keepdim", "unbiased"])


def accepted_keyword(method: str, keyword: str, names: Iterable[str]) -> str | None:
    """Return the argument of a method, among ``names``, that a keyword of PyTorch stands for; None if there is none."""
    if method in OTHER_RESULTS and keyword in _DIMENSIONS:
        return None
    if keyword in OF_METHODS.get(method, ()):
        return OF_METHODS[method][keyword]
    return next((ours for ours in KEYWORDS.get(keyword, ()) if ours in names), None)


def foreign_arguments(
    operator: Operator, name: str, place: str, given: dict[str, Any], rest: tuple[Any, ...], unknown: dict[str, Any]
) -> Any:
    """Call a method with PyTorch's keywords, or raise ArgumentError (Note [Open entries])."""
    names = list(given)
    if place not in ("Tensor", "PyTorch"):
        raise refusal(_place(name, place), names, rest, unknown)
    defaults = {a.name: a.default if a.has_default else ABSENT for a in operator.schema.arguments}
    given = {key: value for key, value in given.items() if key not in defaults or value is not defaults[key]}
    return operator.call(**_translated(name, names[place == "Tensor" :], given, rest, unknown))


def _place(name: str, place: str) -> str:
    return name if place in ("tenkey", "Tensor") else f"{place.removeprefix('tenkey.')}.{name}"


def _translated(
    name: str, names: list[str], given: dict[str, Any], rest: tuple[Any, ...], unknown: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a method by our names; ``given`` are those whose values are not the defaults."""
    values, meant = dict(given), dict(unknown)
    if len(rest) == 1 and rest[0].__class__ is bool and "keepdims" in names and name not in OTHER_RESULTS:
        meant["keepdim"], rest = rest[0], ()
    if rest:
        raise refusal(name, names, rest, unknown)
    for keyword, value in meant.items():
        ours = accepted_keyword(name, keyword, names)
        if ours is None:
            raise refusal(name, names, (), {keyword: value})
        if ours in values:
            raise ArgumentError(f"[{name}] got {ours}={shown(values[ours])} and {keyword}={shown(value)}: give one.")
        values[ours] = value
    return values


def refusal(name: str, names: list[str], rest: tuple[Any, ...], unknown: dict[str, Any]) -> ArgumentError:
    """Return the error of a function with the arguments ``names`` for others, by position or by keyword."""
    if rest:
        by_tuple = names[:1] == ["shape"] and all(isinstance(value, int) for value in rest)
        remedy = (
            f"give the shape as one tuple, as in tk.{name}((2, 3))"
            if by_tuple
            else f"its arguments are {_listed(names)}"
        )
        return ArgumentError(f"[{name}] got more arguments by position than it takes: {remedy}.")
    keyword = next(iter(unknown))
    reason = OTHER_RESULTS.get(name) if keyword in _DIMENSIONS and "axis" in names else None
    if reason is not None:
        return ArgumentError(f"[{name}] has no argument {keyword!r}: {reason}.")
    if keyword == "unbiased" and "correction" in names:
        return ArgumentError(f"[{name}] has no argument 'unbiased': here it is correction=1, or correction=0.")
    for ours in KEYWORDS.get(keyword, ()):
        if ours in names:
            return ArgumentError(f"[{name}] has no argument {keyword!r}: here it is {ours!r}.")
    advice = ADVICE.get(keyword)
    return ArgumentError(f"[{name}] has no argument {keyword!r}: {advice or f'its arguments are {_listed(names)}'}.")


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


def unfit(
    function: Callable[..., Any], name: str, place: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
) -> Any:
    """Do the same for arguments that do not fit the signature of a Python function."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters]
    by_keyword = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
    unknown = {keyword: value for keyword, value in kwargs.items() if keyword not in by_keyword}
    rest = () if any(p.kind is p.VAR_POSITIONAL for p in parameters) else args[len(positional) :]
    if not unknown and not rest:
        raise ArgumentError(f"[{_place(name, place)}] {str(error).partition('() ')[2]}.")
    if place != "Tensor":
        raise refusal(_place(name, place), names, rest, unknown)
    starred = args[len(positional) :] if not rest else ()
    given = dict(zip(positional, args, strict=False)) | {key: kwargs[key] for key in kwargs if key not in unknown}
    values = _translated(name, names[1:], given, rest, unknown)
    return function(values.pop(names[0]), *starred, **values)


registry.hooks.foreign = foreign_arguments
registry.hooks.unfit = unfit
