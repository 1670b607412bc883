"""Conversion of Python scalars and NumPy arrays among tensor arguments to tensors."""

from __future__ import annotations

import sys
from math import copysign, isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..dispatch.errors import ArgumentError, OutOfRangeError, shown
from ..dispatch.tags import Tag
from .dtypes.limits import iinfo
from .dtypes.names import complex_of, default_float, real_of
from .tensor import Tensor, cpu_word, from_host, make_tensor
from .tree import flatten
from .word import DTYPE_TRAIT, WEAK_MASK, WEAK_TRAIT

if TYPE_CHECKING:
    from ..dispatch.operator import Operator

__all__ = ["lift", "refuse_number", "refuse_out_of_range", "weak_tensor"]

_LARGEST: Final = sys.float_info.max
_SCALAR_DTYPE: Final = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
_NUMBER: Final = (bool, int, float, complex, np.number, np.bool_)
_KEPT: Final = 1024  # how many tensors of Python scalars of each type are cached: programs repeat the same numbers
_kept: Final[dict[type, dict[Any, Tensor]]] = {kind: {} for kind in _SCALAR_DTYPE}
kept_float: Final = _kept[float].get
kept_int: Final = _kept[int].get
"""The cached tensor of a float or an int, or None; generated code tries these before ``weak_tensor``."""


def weak_tensor(value: bool | int | float | complex) -> Tensor:
    """Return the 0-d tensor that stands for a Python scalar (Note [Weak scalars])."""
    kind = value.__class__
    known = _kept[kind].get(value)
    if known is not None:
        return known
    if kind is float and value == 0.0:
        return _ZERO if copysign(1.0, value.real) > 0.0 else _NEGATIVE_ZERO
    made = _make_weak(value, kind)
    if kind is not complex or (value.real and value.imag):
        same = _kept[kind]
        if len(same) >= _KEPT:
            same.clear()
        same[value] = made
    return made


def _make_weak(value: Any, kind: Any) -> Tensor:
    try:
        array: np.ndarray = np.array(value, _SCALAR_DTYPE[kind])
    except OverflowError:  # more than 64 bits: kept exactly until the dtype that must hold it is known
        array = np.array(value, object)
    array.setflags(write=False)  # all calls with the number share it, including those of kernels with errors
    return make_tensor(array, WEAK_TRAIT[kind])


# 0.0 and -0.0 are equal as keys but differ as numbers, so the cache does not contain them
_ZERO: Final = _make_weak(0.0, float)
_NEGATIVE_ZERO: Final = _make_weak(-0.0, float)


def refuse_out_of_range(operator: str, tensor: Tensor, dtype: np.dtype) -> None:
    """Raise for a weak Python number that the dtype cannot hold, instead of wrapping around.

    Integer dtypes hold floats without their fractions, as in NumPy. Raises OutOfRangeError, for NaN ValueError.
    """
    if tensor._word & WEAK_TRAIT[int]:
        refuse_int_out_of_range(operator, tensor._data, dtype)
    elif tensor._word & WEAK_TRAIT[float] and dtype.kind in "iu":
        number = tensor._data.item()
        if -1.0 < number < 128.0:  # of every integer dtype
            return
        if not isfinite(number):
            raise ValueError(
                f"[{operator}] the number {number} is not an integer, as {dtype} needs it: cast the tensor to a "
                "floating dtype first."
            )
        refuse_int_out_of_range(operator, number, dtype, "float")


def refuse_number(operator: str, number: Any, dtype: np.dtype) -> None:
    """Raise for a Python number that would change its value in the dtype of the call."""
    if isinstance(number, int):
        refuse_int_out_of_range(operator, number, dtype)
    elif isinstance(number, complex) and dtype.kind != "c":
        raise TypeError(
            f"[{operator}] the number {number} is complex, and the call computes in {dtype}: convert a tensor with "
            "tk.astype(x, tk.complex64), or give a real number."
        )
    elif isinstance(number, float) and dtype.kind in "iu":
        raise TypeError(
            f"[{operator}] the number {number} is a float, and the call computes in {dtype}: convert a tensor with "
            "tk.astype(x, tk.float32), or give an int."
        )


def refuse_int_out_of_range(operator: str, number: Any, dtype: np.dtype, kind: str = "int") -> None:
    """Raise OutOfRangeError for an int, or an array of one, that the dtype cannot hold; a float is truncated."""
    value = int(number)
    low, high = -_LARGEST, _LARGEST  # smaller floating dtypes round what float64 holds to infinity, as for floats
    if dtype.kind in "iu":
        limits = iinfo(dtype)
        low, high = limits.min, limits.max
    elif dtype.kind == "b":
        return
    if not low <= value <= high:  # Python compares an int with a float exactly
        raise OutOfRangeError(
            f"[{operator}] the Python {kind} {shown(value if kind == 'int' else number)} does not fit into {dtype}, "
            f"which holds {low} to {high}: cast the tensor to a wider dtype"
            + (", or the int to a float." if kind == "int" else ".")
        )


def _lift_one(value: Any) -> Any:
    if isinstance(value, Tensor) or value is None:
        return value
    for kind in (bool, int, float, complex):  # a subclass, such as an IntEnum, counts as its base
        if isinstance(value, kind):
            return weak_tensor(kind(value))  # type: ignore[arg-type]
    if not isinstance(value, (np.generic, np.ndarray)) or value.dtype not in DTYPE_TRAIT:
        return value
    if isinstance(value, np.ndarray):
        return from_host(value)
    return weak_tensor(float(value) if value.dtype.kind == "V" else value.item())


def _is_array(value: Any) -> bool:
    """Return whether a value is an array, or a tensor that does not stand for a Python number."""
    return isinstance(value, np.ndarray) or (isinstance(value, Tensor) and not value._word & WEAK_MASK)


def _number_sequence(operator: Operator, value: Any, values: tuple[Any, ...]) -> Any:
    """Return a sequence of numbers as a tensor, floats in the dtype of the tensors beside it; other values as given."""
    if not all(isinstance(leaf, _NUMBER) for leaf in flatten(value)):
        return value
    try:
        array = np.asarray(value) if len(value) else np.asarray(value, np.int64)
    except ValueError:  # rows of different lengths
        return value
    if array.dtype.kind not in "biufc":
        return value
    if array.dtype.kind in "fc" and Tag.EXACT_SEQUENCES not in operator.tags:
        floats = [v.dtype for v in values if _is_array(v) and v.dtype.kind in "fcV"]
        real = real_of(floats[0]) if floats else default_float()
        array = array.astype(real if array.dtype.kind == "f" else complex_of(real))
    return make_tensor(array, cpu_word(array.dtype))


# Note [Sequences of numbers]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A few operators have arguments that are usually written as lists: fractions of a quantile, edges of a histogram,
# indices. Their blocks have the tag TAKES_SEQUENCES. Beside a tensor (or an array), a list of numbers in such a call
# becomes a tensor: integers of int64, floats of the dtype of the tensors, so that a list widens no more than a number
# does. With EXACT_SEQUENCES they stay float64: a rounded fraction may select another element. All other operators
# refuse a list in the place of a tensor.
# Guarded by tests/interop/test_strangers.py::test_lists_in_the_place_of_tensors.
def _lift_sequences(operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
    lifted = []
    for argument, value in zip(operator.tensor_arguments, values):
        made: Any = value
        if isinstance(value, (list, tuple)):
            if str(argument.type).rstrip("?").endswith("]"):
                made = [
                    _number_sequence(operator, v, values) if isinstance(v, (list, tuple)) else _lift_one(v)
                    for v in value
                ]
            else:
                made = _number_sequence(operator, value, values)
        lifted.append(made)
    return tuple(lifted)


def lift(operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert the scalars and NumPy arrays of a call to tensors; at least one argument must be a Tensor already."""
    lifted: list[Any] = []
    tensors = scalars = changed = False
    for value in values:  # most calls have tensors and floats or ints
        kind = value.__class__
        if kind is Tensor:
            tensors = tensors or not value._word & WEAK_MASK
            lifted.append(value)
        elif kind is float or kind is int:
            lifted.append(weak_tensor(value))
    if tensors and len(lifted) == len(values) and not operator.keeps_numbers:
        return tuple(lifted)
    tensors = False
    if Tag.TAKES_SEQUENCES in operator.tags:
        beside = [v for value in values for v in (value if isinstance(value, (list, tuple)) else (value,))]
        if any(_is_array(v) for v in beside):
            values = _lift_sequences(operator, values)
            changed = True
            tensors = any(isinstance(v, list) for v in values)
    keeps = operator.keeps_numbers
    lifted = []
    for value in values:
        made: Any = value
        if isinstance(value, Tensor):
            tensors = tensors or not value._word & WEAK_MASK
        elif value.__class__ in _SCALAR_DTYPE:
            scalars = changed = True
            made = value if keeps else weak_tensor(value)  # type: ignore[arg-type]  # its class says so
        elif value is not None and not isinstance(value, (list, tuple)):
            changed = True
            if not keeps or isinstance(value, np.ndarray):
                made = _lift_one(value)
        lifted.append(made)
    if scalars and not tensors and not keeps:
        numbers = [v._data.item() if isinstance(v, Tensor) and v._word & WEAK_MASK else v for v in values]
        raise ArgumentError(
            f"[{operator.name}] needs at least one Tensor, got {', '.join(type(v).__name__ for v in numbers)}. Convert "
            "a number with tk.asarray(...) or compute with it in plain Python."
        )
    return tuple(lifted) if changed else values
