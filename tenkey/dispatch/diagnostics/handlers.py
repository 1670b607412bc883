"""Errors about the handlers of tensor subclasses."""

from __future__ import annotations

from ..errors import ArgumentError
from ..operator import Operator

__all__ = ["endless", "unhandled"]


def endless(operator: Operator, kind: type, depth: int) -> RuntimeError:
    """Return the error for a handler that calls its operator again and again."""
    return RuntimeError(
        f"[{operator.name}] the handler of {kind.__qualname__} has called the operator within itself more than {depth} "
        "times, each time with new instances: convert them with x.as_subclass(tk.Tensor), or pass on the tensors that "
        "it was given."
    )


def unhandled(operator: Operator, types: tuple[type, ...]) -> ArgumentError:
    """Return the error for a call that every handler passes on."""
    names = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in types)
    return ArgumentError(
        f"[{operator.name}] no implementation found for the types {names}: every __tk_dispatch__ returned "
        "NotImplemented. Convert the arguments with x.as_subclass(tk.Tensor), or handle the operator in one of the "
        "classes."
    )
