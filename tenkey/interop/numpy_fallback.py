"""Operators by name, NumPy's arguments as tensors, and calls that NumPy itself computes from the values of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.exchange.interfaces import array_of
from ..core.tensor import Tensor, from_host
from ..core.tree import map_tensors, tensors_in, tree_map
from ..core.word import DTYPE_TRAIT
from ..dispatch.registry import registry
from ..functions.creation import asarray

__all__ = ["as_tensor", "by_name", "op", "refuse_tensor", "run_numpy", "to_tensors"]


def op(name: str) -> Callable[..., Any]:
    """Return the function that calls the operator ``tk::name``; a late one is declared first."""
    return registry.find(f"tk::{name}").call


def by_name(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions by their names, without an underscore in front."""
    return {function.__name__.removeprefix("_"): function for function in functions}


def as_tensor(x: Any, device: Any = None) -> Tensor:
    """Return an array, a number or a sequence in the dtype that NumPy gives it; tensors in it keep their gradient."""
    if isinstance(x, Tensor):
        return x
    if tensors_in(x):
        return asarray(x, device=device)
    return asarray(array_of(x, "asarray") if isinstance(x, (list, tuple)) and x else np.asarray(x), device=device)


def refuse_tensor(name: str, out: bool, remedy: str = "") -> TypeError:
    """Return the error for a tensor that NumPy would write to."""
    if out:
        what, remedy = "out= is a tensor", "use x.copy_(result), or give a NumPy array"
    else:
        what = "changes its first operand, a tensor"
    return TypeError(f"[numpy.{name}] {what}, which NumPy does not write to: {remedy}.")


def run_numpy(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a NumPy function with the values of the tensors among its arguments."""
    args, kwargs = map_tensors(lambda x: x._to_numpy(f"numpy.{name}").view(), (args, kwargs))
    return function(*args, **kwargs)


def to_tensors(result: Any, device: Any) -> Any:
    """Return what NumPy computed with tensors in place of arrays and scalars."""

    def convert(value: Any) -> Any:
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in DTYPE_TRAIT:
            return value
        return from_host(np.array(value), device)

    return tree_map(convert, result)
