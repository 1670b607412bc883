"""Conversion of Python numbers, sequences and NumPy arrays among tensor arguments to tensors."""

from __future__ import annotations

import sys
from math import copysign, isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy import float64, ndarray

from ..dispatch.errors import OutOfRangeError, shown
from ..dispatch.schema import ListType
from ..dispatch.tags import Tag
from .device import CPU
from .dtypes.limits import iinfo
from .dtypes.names import complex_of, default_float, real_of
from .dtypes.promotion import result_dtype
from .tensor import Tensor, cpu_word, from_host, make_tensor
from .word import DTYPE_TRAIT, WEAK_MASK, WEAK_TRAIT, weak_of

if TYPE_CHECKING:
    from ..dispatch.operator import Operator

__all__ = ["lift", "refuse_number", "refuse_out_of_range", "weak_tensor"]

_LARGEST: Final = sys.float_info.max
_SCALAR_DTYPE: Final = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
_NUMBER: Final = (bool, int, float, complex, np.number, np.bool_)
_PLAIN: Final = frozenset(_SCALAR_DTYPE)
_SEQUENCES: Final = (list, tuple, range)
_LEVELS: Final = 64  # dimensions, as in NumPy
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


def _only_numbers(values: Any, depth: int = 0) -> bool:
    """Return whether nested lists and tuples have only numbers as leaves."""
    kinds = {*map(type, values)}
    if kinds <= _PLAIN:
        return True
    if depth > _LEVELS:
        return False
    return all(
        _only_numbers(value, depth + 1) if isinstance(value, (list, tuple)) else isinstance(value, _NUMBER)
        for value in values
    )


def _sequence(operator: Operator, value: Any, strong: list[Any], *, exact: bool) -> Any:
    """Return a sequence as a tensor (Note [Sequences of numbers]), or as it is where that is not possible."""
    device = next((v.device for v in strong if isinstance(v, Tensor)), None)
    if strong and (value.__class__ is range or _only_numbers(value)):
        try:
            array = np.asarray(value) if len(value) else np.asarray(value, np.int64)
        except ValueError as error:
            raise ValueError(
                f"[{operator.label}] a sequence in the place of a tensor has rows of different lengths: "
                f"{str(error).rstrip('.')}."
            ) from None
        if array.dtype.kind not in "biufc":
            return value
        if array.dtype.kind in "fc" and not exact:
            floats = [v.dtype for v in strong if v.dtype.kind in "fcV"]
            real = real_of(floats[0]) if floats else default_float()
            array = array.astype(real if array.dtype.kind == "f" else complex_of(real))
        made = make_tensor(array, cpu_word(array.dtype))
    else:
        made = _strong(operator, value)
        if not isinstance(made, Tensor):
            return value
    if device is not None and made.device is CPU and device is not CPU:
        return operator.registry.find("tk::to_device").call(made, device)
    return made


def _strong(operator: Operator, value: Any) -> Any:
    """Return a number or a sequence as ``tk.asarray`` makes a tensor of it; as it is if that is not possible."""
    try:
        return operator.registry.hooks.operand(value, operator.label)
    except TypeError:
        return value  # explained when the arguments are checked


# Note [Sequences of numbers]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A list, tuple or range in the place of a tensor becomes a tensor. Beside a tensor or an array, integers get int64 and
# floats the floating dtype of the tensors (default dtype beside integers), so that a list widens no more than a number
# does; for operators with the tag EXACT_SEQUENCES floats stay float64 except in the first argument, because a rounded
# fraction may select another element. Alone, and with tensors or arrays in it, a sequence becomes what ``tk.asarray``
# makes of it: tensors in it are stacked, with their gradients and on their device. In a call without any tensor, array
# or sequence the NumPy scalars become tensors of their own dtypes, or else the numbers tensors of the default dtypes,
# on the default device. A sequence or number is never the target of a change in place.
# Guarded by tests/ops/test_operands.py.
def lift(operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert the numbers, sequences and NumPy arrays of a call to tensors; leave other values as they are."""
    lifted: list[Any] = []
    tensors = False
    keeps = operator.keeps_numbers
    for value in values:  # most calls have tensors, numbers and arrays
        kind = value.__class__
        if kind is Tensor:
            tensors = tensors or not value._word & WEAK_MASK
            lifted.append(value)
        elif (kind is float or kind is int) and not keeps:
            lifted.append(weak_tensor(value))
        elif kind is ndarray and value.dtype in DTYPE_TRAIT:
            tensors = True
            lifted.append(from_host(value))
        elif kind is float64 and not keeps:
            lifted.append(weak_tensor(value.item()))
        else:
            break
    else:
        if tensors and (lifted[0] is values[0] or not operator.tensor_arguments[0].is_mutable):
            return tuple(lifted)
    arguments = operator.tensor_arguments
    lists = [isinstance(argument.type.required, ListType) for argument in arguments]
    # a list is read once: conversions run code of the user, which can append to it
    given = [
        tuple(value) if many and isinstance(value, (list, tuple)) else (value,) for value, many in zip(values, lists)
    ]
    items = [item for several in given for item in several]
    strong = [item for item in items if _is_array(item)]
    alone: tuple[type, ...] = ()  # of which numbers to make tensors that are not weak
    if not keeps and not strong and not any(isinstance(item, _SEQUENCES) for item in items):
        alone = (np.generic,) if any(isinstance(item, np.generic) for item in items) else _NUMBER

    def convert(value: Any, exact: bool) -> Any:
        if value is None or isinstance(value, Tensor):
            return value
        if isinstance(value, _SEQUENCES):
            return _sequence(operator, value, strong, exact=exact)
        if keeps and not isinstance(value, np.ndarray):
            return value
        return _strong(operator, value) if isinstance(value, alone) else _lift_one(value)

    lifted = []
    for i, (argument, value, several, many) in enumerate(zip(arguments, values, given, lists)):
        exact = i > 0 and Tag.EXACT_SEQUENCES in operator.tags
        if argument.is_mutable and not isinstance(value, np.ndarray):
            lifted.append(value)
        elif many:
            is_several = isinstance(value, (list, tuple))
            lifted.append(_joined(operator, [convert(v, exact) for v in several]) if is_several else value)
        else:
            lifted.append(convert(value, exact))
    return tuple(lifted)


def _joined(operator: Operator, tensors: list[Any]) -> list[Any]:
    """Give the numbers of a list the dtype that they have beside its tensors: what joins them needs memory of each."""
    strong = [v for v in tensors if _is_array(v)]
    if not strong or len(strong) == len(tensors):
        return tensors
    dtypes, device = tuple([v.dtype for v in strong]), strong[0].device
    made = []
    for value in tensors:
        weak = value._word & WEAK_MASK if isinstance(value, Tensor) else 0
        if weak:
            dtype = result_dtype(dtypes, weak_of(weak))
            refuse_out_of_range(operator.label, value, dtype)
            value = from_host(value._data.astype(dtype), device)
        made.append(value)
    return made
