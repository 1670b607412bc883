"""The operators of ``ndarray`` and the calls of ``ufunc`` as slots of types, in machine code.

Note [Types with compiled slots]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``a + b`` calls the slot ``nb_add`` of a type. For a method written in Python, the slot looks the method up and makes a
frame; a type of an extension module has a function there. ``PyType_FromSpec`` of Python's stable interface makes such a
type from a table of addresses. ``ndarray`` inherits from one that has nothing but these slots, and Python copies them
as it does for every class; a subclass may override the methods as usual. Each slot tries the compiled call first, and
calls the method in Python where that returns null. It finds both in its row of a table, whose address the loader
brings. ``ufunc`` inherits the call by the vectorcall protocol (PEP 590). Where compiled code is not available, both
inherit from empty classes, and have their methods in Python.
Guarded by ``tests/numpy/test_compiled_calls.py::TestSlots``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from ..._util.locks import new_lock
from ...backends.llvm import code_cache, images
from ...backends.llvm.compiled import UnavailableError, image_of
from . import python_objects
from .python_objects import HEADER, keep
from .slot_functions import METHODS, ROW, translated

__all__ = ["Compiled", "compiled"]

_SLOTS: Final = {
    "nb_absolute": 6, "nb_add": 7, "nb_and": 8, "nb_floor_divide": 12, "nb_invert": 27, "nb_lshift": 28,
    "nb_multiply": 29, "nb_negative": 30, "nb_or": 31, "nb_positive": 32, "nb_power": 33, "nb_remainder": 34,
    "nb_rshift": 35, "nb_subtract": 36, "nb_true_divide": 37, "nb_xor": 38, "tp_call": 50, "tp_richcompare": 67,
    "tp_members": 72, "tp_getset": 73, "nb_matrix_multiply": 75, "mp_subscript": 5, "mp_length": 4, "nb_bool": 9,
    "nb_float": 11, "nb_int": 26, "nb_index": 13, "mp_ass_subscript": 3, "nb_inplace_add": 14,
    "nb_inplace_multiply": 18, "nb_inplace_subtract": 23, "nb_inplace_true_divide": 24,
}  # fmt: skip
"""The numbers of slots in Python's stable interface (``typeslots.h``)."""
_BASETYPE: Final = 1 << 10  # flags of types
_HAVE_VECTORCALL: Final = 1 << 11
_READ_ONLY, _SSIZE = 1, 19  # of members
_lock: Final = new_lock()


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("get", ctypes.c_void_p), ("set", ctypes.c_void_p), ("doc", ctypes.c_char_p),
        ("closure", ctypes.c_void_p),
    )  # fmt: skip


class _Specification(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )  # fmt: skip


def _type(name: str, size: int, flags: int, functions: dict[str, int]) -> type:
    slots = (_Slot * (len(functions) + 1))(*[_Slot(_SLOTS[slot], address) for slot, address in functions.items()])
    specification = _Specification(name.encode(), size, 0, flags | _BASETYPE, slots)
    keep((slots, specification))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Specification))(("PyType_FromSpec", ctypes.pythonapi))
    return make(ctypes.byref(specification))  # type: ignore[no-any-return]


class Compiled:
    """The compiled code of this process: the types to inherit from, and the memory that the code reads."""

    def __init__(self, image: bytes) -> None:
        self.record = python_objects.empty_record()
        self.methods = (ctypes.c_void_p * (ROW * len(METHODS)))()
        given = {"given.record": ctypes.addressof(self.record), "given.methods": ctypes.addressof(self.methods)}
        found = images.load(image, given)
        self.calls = {name: found.pop(name) for name in [*found] if name.startswith("call_")}
        documented = {
            "T": "View with the axes in reverse order.", "ndim": "Number of dimensions.",
            "dtype": "The dtype, a NumPy ``np.dtype``.",
        }  # fmt: skip
        attributes = (_Attribute * (len(documented) + 1))(*[
            _Attribute(name.encode(), found.pop(f"get_{name}"), None, text.encode(), None)
            for name, text in documented.items()
        ])  # fmt: skip
        found["tp_getset"] = ctypes.addressof(attributes)
        self.operators = _type("tenkey.numpy.Operators", HEADER, 0, found)
        member = (_Member * 2)(_Member(b"__vectorcalloffset__", _SSIZE, HEADER, _READ_ONLY, None))
        call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
        slots = {"tp_call": call or 0, "tp_members": ctypes.addressof(member)}
        self.callable = _type("tenkey.numpy.Callable", HEADER + 16, _HAVE_VECTORCALL, slots)
        keep((self, member, attributes))

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.record)

    def set_method(
        self, name: str, block: int, method: Callable[..., Any] | None, other: Callable[..., Any] | int | None
    ) -> None:
        """Say what a slot calls: a block of plans, a method in Python, and its reflected method or another block."""
        start = ROW * METHODS.index(name)
        keep((method, other))
        last = other if isinstance(other, int) else 0 if other is None else id(other)
        self.methods[start : start + ROW] = [block, 0 if method is None else id(method), last]

    def set_call(self, function: Any, block: int, call: str = "call_ufunc") -> None:
        """Let calls of an instance of ``callable`` go to a compiled function, with the address of what it reads."""
        words = (ctypes.c_void_p * 2).from_address(id(function) + HEADER)
        words[:] = [self.calls[call], block]


@cache
def compiled() -> Compiled | None:
    """Return the compiled code; None where it is not available, and calls run in Python."""
    if not python_objects.available():
        return None
    try:
        with _lock:
            image = code_cache.load(_key())
            if image is None:
                parts, names = translated()
                image = image_of(parts, names)
                code_cache.store(_key(), image)
        if not images.is_linked(image):  # LLVM's linker would have to be told the given addresses
            return None
        return Compiled(image)
    except (UnavailableError, images.ImageError, ImportError, OSError):
        return None


def _key() -> str:
    """Return the text that describes the code: what it is made from, and the layout of tensors."""
    sources = code_cache.source_hash(("../numpy/compiled_calls",)).hex()
    return f"tenkey.numpy {sources} {python_objects.layout()}"
