"""The option ``requires_grad=`` of functions that make tensors."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.dtypes.names import is_inexact
from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ...dispatch.errors import shown
from ...dispatch.operator import Operator
from .facets import EntryOption

__all__ = ["LEAF", "as_leaf", "check_flag"]


def check_flag(function: str, value: Any, name: str = "requires_grad") -> None:
    """Raise TypeError unless the argument ``name`` is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(
            f"[{function}] the argument {name!r} must be a bool, got {shown(value)} of type {type(value).__name__}."
        )


def as_leaf(function: str, made: Tensor, requires_grad: Any) -> Tensor:
    """Return a new tensor, which requires a gradient if ``requires_grad`` is true.

    Raises TypeError for another flag than a bool, RuntimeError for integers and bools.
    """
    check_flag(function, requires_grad)
    if requires_grad:
        if not is_inexact(made.dtype):
            raise RuntimeError(
                f"[{function}] only Tensors of floating point and complex dtype can require gradients, got "
                f"{made.dtype}: pass dtype=."
            )
        if made.__class__ is Tensor:
            made._word |= REQUIRES_GRAD
        else:
            made.requires_grad_()
    return made


def _option(operator: Operator, made: Tensor, requires_grad: Any) -> Tensor:
    return as_leaf(operator.schema.base_name, made, requires_grad)


LEAF: Final = EntryOption("requires_grad", False, _option)
