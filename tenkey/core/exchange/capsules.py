"""DLPack capsules: reading, taking over and making them.

Note [The life of a capsule]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A capsule owns a struct of DLPack until a consumer takes it over, who then renames the capsule ("used_...") and calls
the struct's deleter when it has no more use for the memory. A capsule that is never taken over calls the deleter when
it is freed. The structs that are made here lie in a table that keeps the owner of the memory alive; the deleter takes
them off. The functions that C calls live as long as the process. Guarded by ``tests/core/test_capsules.py``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...dispatch.errors import shown

__all__ = ["IN_HOST_MEMORY", "Array", "Taken", "describe", "dtype_of", "inside", "is_writable", "make"]

_READ_ONLY: Final = 1
_COPIED: Final = 2
_VERSIONED: Final = b"dltensor_versioned"
_PLAIN: Final = b"dltensor"
_NAMES: Final = (_VERSIONED, _PLAIN)
_USED: Final = {_VERSIONED: b"used_dltensor_versioned", _PLAIN: b"used_dltensor"}  # C keeps the addresses of these
_KINDS: Final = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}  # V is bfloat16
_LETTERS: Final = {code: letter for letter, code in _KINDS.items() if letter != "V"}
_BFLOAT: Final = 4
IN_HOST_MEMORY: Final = frozenset({1, 3, 11, 13})  # types of devices: CPU; pinned by CUDA or ROCm; managed by CUDA


class DataType(ctypes.Structure):
    """DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Array(ctypes.Structure):
    """DLTensor."""

    lengths: Any  # what shape and strides point to, if ``describe`` made the struct

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("dtype", DataType), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("array", Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("array", Array),
    )  # fmt: skip


def _c(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of Python's C interface, with types of its own."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_pointer_of: Final = _c("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_is_valid: Final = _c("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_rename: Final = _c("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_new: Final = _c("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
# In a destructor the capsule is passed by its address: a reference would bring it back to life.
_dying_is_valid: Final = _c("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_dying_pointer: Final = _c("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _struct_in(capsule: Any) -> tuple[bytes, Any]:
    """Return the name of an unused capsule, and its struct."""
    for name in _NAMES:
        if _is_valid(capsule, name):
            kind = _Versioned if name == _VERSIONED else _Managed
            return name, kind.from_address(_pointer_of(capsule, name))
    raise BufferError(f"[from_dlpack] __dlpack__ returned {shown(capsule)}, which is not an unused DLPack capsule.")


def inside(capsule: Any) -> Array:
    """Return the array in an unused capsule."""
    return _struct_in(capsule)[1].array  # type: ignore[no-any-return]


def is_writable(capsule: Any) -> bool:
    """Return whether an unused capsule is of the kind that says so if memory is read-only, and does not."""
    name, struct = _struct_in(capsule)
    return name == _VERSIONED and not struct.flags & _READ_ONLY


class Taken:
    """Memory that an unused capsule owned: it belongs to this object, which gives it back when it is gone."""

    __slots__ = ("__weakref__", "_struct", "array", "is_read_only")

    def __init__(self, capsule: Any) -> None:
        name, struct = _struct_in(capsule)
        self.array: Array = struct.array
        self.is_read_only = name == _VERSIONED and bool(struct.flags & _READ_ONLY)
        _rename(capsule, _USED[name])
        self._struct = struct

    def __del__(self, ended: Callable[[], bool] = sys.is_finalizing) -> None:
        struct = getattr(self, "_struct", None)
        if struct is not None and struct.deleter and not ended():
            _Deleter(struct.deleter)(ctypes.addressof(struct))

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the dimensions."""
        return self._longs(self.array.shape)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides in elements; None for row-major order without gaps."""
        return self._longs(self.array.strides) if self.array.strides or not self.array.ndim else None

    def _longs(self, address: int | None) -> tuple[int, ...]:
        if not self.array.ndim:
            return ()
        return tuple((ctypes.c_int64 * self.array.ndim).from_address(address or 0))


def dtype_of(array: Array) -> str | None:
    """Return the name of the dtype of an array, or None if there is no such dtype."""
    described = array.dtype
    if described.lanes != 1:
        return None
    if (described.code, described.bits) == (_BFLOAT, 16):
        return "bfloat16"
    letter = _LETTERS.get(described.code)
    if letter is None or described.bits % 8 or not described.bits:
        return None
    try:
        return np.dtype(f"{letter}{described.bits // 8}").name
    except TypeError:
        return None


# ---- making capsules

_owned: Final[dict[int, Any]] = {}  # by the address of a struct: it, its array, and the owner of the memory


def _delete(address: int) -> None:
    _owned.pop(address, None)


def _destroy(capsule: int) -> None:
    """Free the struct of a capsule that was not taken over."""
    for name in _NAMES:
        if _dying_is_valid(capsule, name):
            _owned.pop(_dying_pointer(capsule, name), None)


_called: Final = (_Deleter(_delete), ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy))
_delete_address, _destroy_address = [ctypes.cast(function, ctypes.c_void_p).value for function in _called]


def describe(
    address: int, place: tuple[int, int], dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Array:
    """Return the struct of memory at an address on a DLPack device; ``strides`` are in elements."""
    ndim = len(shape)
    lengths = (ctypes.c_int64 * (2 * ndim or 1))(*shape, *strides)
    start = ctypes.addressof(lengths)
    kind = DataType(_KINDS[dtype.kind], dtype.itemsize * 8, 1)
    made = Array(address or None, *place, ndim, kind, start, start + 8 * ndim, 0)
    made.lengths = lengths
    return made


def make(
    address: int, place: tuple[int, int], dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], owner: Any,
    *, versioned: bool, copied: bool = False,
) -> Any:  # fmt: skip
    """Return a capsule of memory at an address on a DLPack device; ``strides`` are in elements.

    ``owner`` is kept alive until the consumer deletes the struct. The memory may be written to.
    """
    struct: Any = _Versioned() if versioned else _Managed()
    array = struct.array = describe(address, place, dtype, shape, strides)
    struct.deleter = _delete_address
    if versioned:
        struct.major, struct.minor = 1, 0
        struct.flags = _COPIED if copied else 0
    place_of_struct = ctypes.addressof(struct)
    _owned[place_of_struct] = (struct, array, owner)
    return _new(place_of_struct, _VERSIONED if versioned else _PLAIN, _destroy_address)
