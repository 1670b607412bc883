"""Tensors from data: ``tensor`` (copies), ``asarray`` (shares memory if possible), ``from_dlpack``."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..backends.allocation.host import ALIGNED, converted
from ..backends.cpu.fp_warnings import QUIET, errors, ignore, quietly, restore
from ..core import exchange
from ..core.device import CPU, Device, base_word, default_device, to_device
from ..core.dtypes import names as dtypes
from ..core.dtypes.limits import iinfo
from ..core.dtypes.names import DType
from ..core.dtypes.promotion import result_dtype
from ..core.exchange import dlpack
from ..core.exchange.interfaces import read_interface
from ..core.tensor import Tensor, cpu_word, fits, fitting_copy, make_tensor
from ..core.tensor_base import new_handle
from ..core.tree import flatten
from ..core.word import DTYPE_TRAIT, INFERENCE, tensor_dtype
from ..dispatch.errors import OutOfRangeError, shown
from ..dispatch.local_state import current_state, get_state
from ..dispatch.registry import registry
from ..ops.declare.leaf import as_leaf, check_flag

__all__ = ["asarray", "from_dlpack", "refuse_other", "tensor", "to_operand"]

_RAGGED: Final = "[{function}] the nested sequence has rows of different lengths or kinds: {error}."
_LARGE: Final = (
    "[{function}] the Python int {value} fits into no integer dtype, the widest of which has 64 bits: give a float."
)
_LEVELS: Final = 64  # dimensions, as in NumPy
_NO_COPY: Final = "[{function}] copy=False, but {why} needs a copy."
_NUMBERS: Final = frozenset({bool, int, float, complex})
_HERE: Final = (np.ndarray, np.generic, list, tuple, float, int, complex, str)  # never memory on a device
_OPERANDS: Final = (np.ndarray, np.generic, list, tuple, range, float, int, complex)
_own_dtype: Final = {dtype: dtype for dtype in dtypes.ALL}.get  # NumPy has two of some, such as long long
_array: Final[Any] = np.array
_CPU_WORD: Final = base_word("cpu")
_MODERATE: Final = 6e4  # in the range of every floating dtype, and of the integers that can be the default
_DEFAULTS: Final = {"f": dtypes.default_float, "c": dtypes.default_complex, "i": dtypes.default_int}


def asarray(
    obj: Any, /, dtype: Any = None, *, device: Device | str | None = None, copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a tensor of ``obj``: a tensor, NumPy array, nested sequence, number, or array of another library.

    Python floats give the default dtype (float32), ints int64, complex numbers complex64. Objects with a dtype keep it:
    arrays, NumPy scalars, tensors (also in sequences, where they are stacked and promoted), and objects with the buffer
    protocol, ``__array__``, ``__array_interface__``, ``__dlpack__`` or ``__cuda_array_interface__``; arrays on a GPU
    stay there. Memory is shared with arrays, buffers and tensors unless ``copy`` is true or a copy is needed: for
    another dtype or device, negative strides, or read-only memory. With ``requires_grad`` the result is a leaf that
    accumulates a gradient; tensors are detached.

    Raises TypeError for data other than numbers, ValueError for ragged sequences and for an impossible ``copy=False``,
    OverflowError for Python numbers that ``dtype`` cannot hold.

    >>> tk.asarray([[1.0, 2.0]]).dtype, tk.asarray(np.ones(2)).dtype, tk.asarray(bytearray(b"ab")).tolist()
    (dtype('float32'), dtype('float64'), [97, 98])
    """
    if requires_grad is not False:
        return as_leaf("asarray", asarray(obj, dtype, device=device, copy=copy).detach(), requires_grad)
    if copy is not None and copy.__class__ is not bool:
        check_flag("asarray", copy, "copy")  # type: ignore[unreachable]
        copy = bool(copy)
    if dtype is None and device is None and not copy:
        made = _from_floats(obj) if copy is None and obj.__class__ is list else _quickly(obj, copy)
        if made is not None:
            if get_state() is not None:
                made._word |= current_state().include & INFERENCE
            return made
    return _make(obj, dtype, device, copy, "asarray")


def refuse_other(function: str, x: Any) -> None:
    """Raise TypeError unless ``x`` is a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"[{function}] takes a Tensor, got {type(x).__name__}: convert it with tk.asarray(...).")


def to_operand(function: str, x: Any) -> Tensor:
    """Return a tensor; of a number, array or sequence what ``asarray`` makes of it. Raises TypeError for others."""
    if not isinstance(x, Tensor):
        x = _operand(x, function)
        refuse_other(function, x)
    return x  # type: ignore[no-any-return]


def _operand(value: Any, function: str) -> Any:
    """Return a number, array or sequence as a tensor, other values as they are (Note [Sequences of numbers])."""
    return _make(value, None, None, None, function) if isinstance(value, _OPERANDS) else value


registry.hooks.operand = _operand


def _quickly(obj: Any, copy: bool | None) -> Tensor | None:
    """Return the tensor of a number or of an array that can be shared; None for anything else."""
    kind = obj.__class__
    dtype: DType
    if kind is np.ndarray:
        dtype = obj.dtype
        own = _own_dtype(dtype)
        if own is None or not fits(obj):
            return None
        return make_tensor(obj.view() if own is dtype else obj.view(own), cpu_word(own))
    if copy is False:
        return None
    if kind is bool:
        dtype = dtypes.bool
    elif (kind is float or kind is int) and -_MODERATE < obj < _MODERATE:
        dtype = dtypes.default_float() if kind is float else dtypes.default_int()
    else:
        return None
    return make_tensor(np.array(obj, dtype), cpu_word(dtype))


def _from_floats(items: list[Any]) -> Tensor | None:
    """Return the tensor of a list, or a list of lists, of only Python floats; None for anything else."""
    for item in items:
        if item.__class__ is float:
            continue
        if item.__class__ is not list:
            return None
        for number in item:
            if number.__class__ is not float:
                return None
    dtype = dtypes.get_defaults().real_floating
    try:
        data = quietly(_array, items, dtype)
    except (RuntimeError, ValueError):  # Note [A context without warnings]; a ragged sequence
        return None
    made: Tensor = new_handle(Tensor)
    made._data = data
    made._word = DTYPE_TRAIT[dtype] | _CPU_WORD
    made._storage = None
    made._autograd = None
    return made


def tensor(data: Any, *, dtype: Any = None, device: Device | str | None = None, requires_grad: bool = False) -> Tensor:
    """Return a new tensor with a copy of ``data``; with ``requires_grad`` a leaf that accumulates a gradient.

    ``data`` is anything that :func:`asarray` takes. Gradients reach tensors in it, also those in sequences: PyTorch
    detaches them, which here only ``x.detach()`` and ``requires_grad=True`` do.

    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> tk.tensor([x[1], x[0] * 3]).sum().backward()
    >>> x.grad.tolist()
    [3.0, 1.0]
    """
    if requires_grad is False:
        return _make(data, dtype, device, True, "tensor")
    source = data.detach() if isinstance(data, Tensor) else data
    return as_leaf("tensor", _make(source, dtype, device, True, "tensor").detach(), requires_grad)


def from_dlpack(x: Any, /, *, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares the memory of another library's array, through DLPack (``x.__dlpack__``).

    ``copy=True`` forces a copy, ``copy=False`` forbids it. Memory that is exported read-only, or in a capsule that
    cannot say so (JAX's), is shared too; the tensor then cannot be changed in place. On other devices than the CPU
    memory that is exported read-only is copied. ``device`` defaults to that of the memory.

    Raises TypeError for objects that do not export, BufferError for memory on a device without tensors and for an array
    that requires a gradient, ValueError where ``copy=False`` is impossible. Source: array API standard 2025.12.

    >>> a = np.zeros(2)
    >>> x = tk.from_dlpack(a)
    >>> a[0] = 7
    >>> x.tolist()
    [7.0, 0.0]
    """
    target = None if device is None else to_device(device)
    if isinstance(x, Tensor):
        dlpack.refuse_gradient(x)
        return _from_tensor(x.detach(), None, target, copy, "from_dlpack")
    if target is not CPU and hasattr(x, "__dlpack__"):
        there = exchange.device_exchange.read(x, "from_dlpack", copy)
        if there is not None:
            return _from_tensor(there, None, target, copy, "from_dlpack")
    array, copied = dlpack.read(x, to_cpu=target is CPU, copy=copy if target is None or target is CPU else None)
    dtype = tensor_dtype(array.dtype)
    unfit = not fits(array, read_only=True)
    if copy is False and (unfit or (target is not None and target is not CPU)):
        why = "this layout of memory" if unfit else f"moving to {target}"
        raise ValueError(_NO_COPY.format(function="from_dlpack", why=why))
    if unfit or (copy and not copied):
        array = array.copy()
    made = make_tensor(array, cpu_word(dtype) | current_state().include & INFERENCE)
    if target is None or target is CPU:
        return made
    return registry.find("tk::to_device").call(made, target)  # type: ignore[no-any-return]


def _make(obj: Any, dtype: Any, device: Any, copy: bool | None, function: str) -> Tensor:
    """Create the tensor for ``asarray`` and ``tensor``; errors name ``function``."""
    wanted = None if dtype is None else tensor_dtype(dtype)
    target = None if device is None else to_device(device)
    if isinstance(obj, Tensor):
        return _from_tensor(obj, wanted, target, copy, function)
    if not isinstance(obj, _HERE):
        there = exchange.device_exchange.read(obj, function, copy)
        if there is not None:
            return _from_tensor(there, wanted, target, copy, function)
    made = _from_data(obj, wanted, copy, function)
    made._word |= current_state().include & INFERENCE
    if target is None:  # a sequence of tensors stays on their device
        target = default_device() if made.device is CPU else made.device
    if target is made.device:
        return made
    if copy is False:
        raise ValueError(_NO_COPY.format(function=function, why=f"moving to {target}"))
    return registry.find("tk::to_device").call(made, target)  # type: ignore[no-any-return]


def _from_tensor(obj: Tensor, dtype: DType | None, device: Device | None, copy: bool | None, function: str) -> Tensor:
    changes = (dtype is not None and dtype != obj.dtype) or (device is not None and device is not obj.device)
    if copy is False and changes:
        raise ValueError(_NO_COPY.format(function=function, why="another dtype or device"))
    if changes:
        return registry.find("tk::to").call(obj, dtype=dtype, device=device)  # type: ignore[no-any-return]
    return registry.find("tk::clone").call(obj) if copy else obj


def _from_data(obj: Any, dtype: DType | None, copy: bool | None, function: str) -> Tensor:
    found: list[Tensor | np.ndarray | np.number] = []
    is_sequence = isinstance(obj, (list, tuple))
    if is_sequence:
        source = _plain(obj, function, found)
        if found and dtype is None:
            dtype = result_dtype(
                {tensor_dtype(item.dtype) for item in found}, {type(item) for item in flatten(source)} & _NUMBERS
            )
            if dtype.kind in "iu":
                source = _of_integers(source, dtype, function)
        kept = next((item for item in found if _needs_stack(item)), None)
        if dtype is not None and isinstance(kept, Tensor):
            return _stacked(obj, dtype, kept.device, function)
    else:
        source = _exposed(obj, function)
    has_dtype = source.__class__ is np.ndarray and not is_sequence
    array = source if has_dtype else _as_array(source, dtype, function)
    given = array.dtype
    if dtype is None:
        if not has_dtype and given.kind in "fci":
            dtype = _DEFAULTS[given.kind]()
        else:
            dtype = dtypes.canonical(given)
    if given.kind not in "biufcV" or dtype not in DTYPE_TRAIT:
        raise _refusal(array, obj, dtype, function)
    if copy is False and (not has_dtype or given != dtype or not fits(array)):
        raise ValueError(_NO_COPY.format(function=function, why=f"making a tensor of a {type(obj).__name__}"))
    if given != dtype:
        array = _converted(array, dtype, is_python=not has_dtype and not found, function=function)
    elif copy and has_dtype:
        array = array.copy() if array.nbytes < ALIGNED else converted(array, given, "C")
    elif not fits(array):
        array = fitting_copy(array)
    elif has_dtype:
        array = array.view()  # Note [Arrays are exchanged as views]
    if array.dtype is not dtype:  # the other one of two equal NumPy dtypes
        array = array.view(dtype)
    return make_tensor(array, cpu_word(dtype))


# ---- objects that have a dtype


def _exposed(obj: Any, function: str) -> Any:
    """Return the array that an object is or exports; numbers, and objects without a dtype, unchanged."""
    kind = obj.__class__
    if kind in _NUMBERS or kind is np.ndarray:
        return obj
    if isinstance(obj, (np.ndarray, np.generic)):
        if hasattr(obj, "filled") and hasattr(obj, "mask"):
            raise TypeError(
                f"[{function}] a masked array would lose its mask: give x.filled(value), and keep the mask in another "
                "tensor."
            )
        return np.asarray(obj)
    if isinstance(obj, str):
        return obj
    if hasattr(obj, "__dlpack__"):  # before __array__: it knows bfloat16, and shares more often
        try:
            return dlpack.read(obj, to_cpu=False, copy=None)[0]
        except (BufferError, TypeError, RuntimeError, ValueError):
            if not hasattr(obj, "__array__"):
                raise
    array = read_interface(obj, function)
    if array is not None:
        return array
    try:
        buffer = memoryview(obj)
    except TypeError:
        return obj
    return np.asarray(buffer)


def _as_array(source: Any, dtype: DType | None, function: str) -> np.ndarray:
    try:
        array = np.asarray(source)
    except (ValueError, RuntimeError) as error:
        raise ValueError(_RAGGED.format(function=function, error=str(error).rstrip("."))) from None
    kind = array.dtype.kind
    if kind == "O" and dtype is not None and dtypes.is_inexact(dtype):
        if array.size and all(isinstance(item, (int, float, complex)) for item in array.flat):
            return array.astype(np.complex128 if dtype.kind == "c" else np.float64)  # ints of more than 64 bits
    elif kind == "f" and dtype is None and _begins_with_int(source):
        top = np.max(np.abs(array))
        if top >= 2.0**63 and all(isinstance(item, int) for item in np.asarray(source, object).flat):
            # NumPy converts ints without a common integer dtype to floats
            raise OutOfRangeError(_LARGE.format(function=function, value=shown(int(top))))
    return array


def _begins_with_int(source: Any) -> bool:
    while source.__class__ is list or source.__class__ is tuple:
        if not source:
            return False
        source = source[0]
    return isinstance(source, int)


# ---- sequences


def _plain(obj: Any, function: str, found: list[Tensor | np.ndarray | np.number], depth: int = 0) -> Any:
    """Return nested sequences with tensors and foreign arrays, which are added to ``found``, replaced by arrays."""
    if depth > _LEVELS:
        raise ValueError(f"[{function}] the nested sequence is deeper than {_LEVELS} levels, or contains itself.")
    for item in obj:
        if item.__class__ not in _NUMBERS:
            break
    else:
        return obj
    result: list[Any] = []
    for item in tuple(obj):  # code of the user, which runs below, can append to it
        if isinstance(item, (list, tuple)):
            result.append(_plain(item, function, found, depth + 1))
        elif isinstance(item, Tensor):
            found.append(item)
            result.append(None if _needs_stack(item) else _widened(item._values(function)))
        else:
            inner = item if isinstance(item, (np.generic, str, int)) else _exposed(item, function)
            if isinstance(inner, np.number):
                found.append(inner)
            if inner.__class__ is np.ndarray:
                found.append(inner)
                inner = _widened(inner)
            result.append(inner)
    return result


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "V" and array.dtype.name == "bfloat16" else array


def _of_integers(plain: list[Any], dtype: DType, function: str) -> Any:
    """Return the array of a sequence whose arrays promote to an integer dtype, which its Python numbers must fit.

    Returns the sequence itself if it has items that are stacked, or rows of different lengths.
    """
    try:
        return np.asarray(plain, dtype)
    except OverflowError as error:
        limits = iinfo(dtype)
        raise OutOfRangeError(
            f"[{function}] {error}: the arrays of the sequence promote to {dtype}, from {limits.min} to {limits.max}, "
            "which its Python numbers must fit. Give another dtype."
        ) from None
    except (TypeError, ValueError):
        return plain


def _needs_stack(item: Tensor | np.ndarray | np.number) -> bool:
    """Return whether a tensor has more than values: a gradient, a device, the level of a transform."""
    return isinstance(item, Tensor) and (item._data.__class__ is not np.ndarray or item.requires_grad)


def _stacked(obj: Any, dtype: DType, device: Device, function: str) -> Tensor:
    """Return a sequence with tensors as the stack of its items, which is differentiable and on their device."""
    items = [
        _stacked(item, dtype, device, function)
        if isinstance(item, (list, tuple))
        else _make(item, dtype, None if isinstance(item, Tensor) else device, None, function)
        for item in obj
    ]
    if not items:
        return _make([], dtype, device, None, function)
    try:
        return registry.find("tk::stack").call(items)  # type: ignore[no-any-return]
    except ValueError as error:
        raise ValueError(_RAGGED.format(function=function, error=error)) from None


# ---- conversions and refusals


def _converted(array: np.ndarray, dtype: DType, *, is_python: bool, function: str) -> np.ndarray:
    """Return ``array.astype(dtype)``; raise for Python numbers that an integer dtype cannot hold."""
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"[{function}] {array.dtype} to {dtype} would lose the imaginary part: take tk.real(x) first.")
    if is_python and array.size and array.dtype.kind in "iuf" and dtype.kind in "iu":
        limits = iinfo(dtype)
        for value in (array.min().item(), array.max().item()):
            if not math.isfinite(value):
                raise ValueError(
                    f"[{function}] the value {value} has no counterpart in {dtype}: give a floating point dtype."
                )
            if not limits.min <= int(value) <= limits.max:
                raise OutOfRangeError(
                    f"[{function}] the value {value} is out of range for {dtype}, which holds {limits.min} to "
                    f"{limits.max}: give a wider dtype."
                )
    found = errors()
    try:
        ignore(QUIET)
        return converted(array, dtype)
    finally:
        restore(found)


def _refusal(array: np.ndarray, obj: Any, dtype: DType, function: str) -> Exception:
    if array.dtype.kind == "O":
        long = next((item for item in array.flat if isinstance(item, int) and item.bit_length() > 63), None)
        if long is not None:
            return OutOfRangeError(_LARGE.format(function=function, value=shown(long)))
    text = shown(obj)
    text = text if len(text) < 60 else text[:57] + "..."
    message = f"[{function}] cannot make a tensor of {text} with dtype {dtype}: give numbers or bools. "
    return TypeError((message + dtypes.remedy(array.dtype)).rstrip())
