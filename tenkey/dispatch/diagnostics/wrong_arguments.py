"""Errors for arguments that do not fit a schema."""

from __future__ import annotations

from typing import Any, Final

from ..errors import ArgumentError, shown
from ..operator import Operator
from ..schema import ListType, OptionalType

__all__ = ["ABSENT", "ambiguous_call", "check_tensors", "wrong_length", "wrong_type"]

_WORDS: Final = {
    "int": "an int",
    "float": "a float",
    "bool": "a bool",
    "complex": "a complex number",
    "str": "a str",
    "Scalar": "a Python number",
    "Tensor": "a Tensor",
}


class _Absent:
    """The default of an argument that public functions require (Note [Open entries])."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()


def wrong_type(operator: Operator, argument: str, kind: str, value: Any, remedy: str = "") -> ArgumentError:
    """Return the error for a value that is not of the type ``kind``."""
    if value is ABSENT:
        names = ", ".join([a.name for a in operator.schema.arguments])
        return ArgumentError(f"[{operator.label}] needs the argument {argument!r}: its arguments are {names}.")
    return ArgumentError(
        f"[{operator.label}] the argument {argument!r} must be {_WORDS.get(kind, kind)}, got {shown(value)} of type "
        f"{type(value).__name__}.{remedy}"
    )


def wrong_length(operator: Operator, argument: str, size: int, value: Any) -> ArgumentError:
    """Return the error for a value that does not have ``size`` elements."""
    return ArgumentError(f"[{operator.label}] the argument {argument!r} must have {size} elements, got {shown(value)}.")


def check_tensors(operator: Operator, values: tuple[Any, ...]) -> None:
    """Raise ArgumentError unless the values are what the schema says of the operator's tensor arguments."""
    for argument, value in zip(operator.tensor_arguments, values):
        kind = argument.type.required
        if value is None and kind is not argument.type:
            continue
        wrong, expected, remedy = [value], "Tensor", " Convert it with tk.asarray(...)."
        if isinstance(kind, ListType):
            expected = "a list of Tensors"
            if isinstance(value, (list, tuple)):
                holes = isinstance(kind.element, OptionalType)
                wrong = [item for item in value if not hasattr(item, "_word") and not (holes and item is None)]
            else:
                remedy = " Give a list or a tuple."
        elif hasattr(value, "_word"):
            continue
        if wrong:
            raise wrong_type(operator, argument.name, expected, wrong[0], remedy)


def ambiguous_call(packet: str, tied: list[Operator]) -> ArgumentError:
    """Return the error for a call that several overloads fit equally well."""
    candidates = "\n".join(f"  {op.schema}, defined at {op.site}" for op in tied)
    overload = tied[0].schema.overload_name or "default"
    return ArgumentError(
        f"[{packet}] the call is ambiguous: these overloads fit the arguments equally well:\n{candidates}\n"
        f"Call one of them by its name, as tk.ops.{packet.replace('::', '.')}.{overload}(...)."
    )
