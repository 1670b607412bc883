"""The functions by which Python controls the stub driver, and those that it calls."""

from __future__ import annotations

import ctypes
from typing import Any, Final

__all__ = ["Callbacks", "LaunchCallback", "LoadCallback", "UnloadCallback", "VariableCallback", "declare"]

LaunchCallback: Final = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_longlong, ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
    ctypes.c_void_p, ctypes.c_size_t,
)  # fmt: skip
LoadCallback: Final = ctypes.CFUNCTYPE(
    ctypes.c_longlong, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
)
UnloadCallback: Final = ctypes.CFUNCTYPE(None, ctypes.c_longlong)
VariableCallback: Final = ctypes.CFUNCTYPE(ctypes.c_ulonglong, ctypes.c_longlong, ctypes.c_char_p)


class Callbacks(ctypes.Structure):
    """The functions that the stub calls: to execute a kernel, to read an image, to forget it, to find a variable.

    It must live as long as they may be called.
    """

    _fields_ = (
        ("launch", LaunchCallback), ("load", LoadCallback), ("unload", UnloadCallback), ("variable", VariableCallback)
    )  # fmt: skip


_size, _long, _ulong, _int, _text, _place = (
    ctypes.c_size_t, ctypes.c_long, ctypes.c_ulonglong, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p,
)  # fmt: skip
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "stub_connect": (None, (ctypes.POINTER(Callbacks),)),
    "stub_start": (None, (_int, _int, _int, _size, _int, _int, ctypes.c_uint64)),
    "stub_stop": (None, ()),
    "stub_execute": (None, (_int,)),
    "stub_fail": (None, (_text, _int, _long, _long)),
    "stub_faults": (_long, ()),
    "stub_misalign": (None, (_size, _int)),
    "stub_counts": (None, (_place,)),
    "stub_calls": (_ulong, (_text,)),
    "stub_finish": (None, ()),
    "stub_host_failed": (None, (_int, _text)),
    "stub_error": (_int, (_text, _size, _int)),
    "stub_clear_error": (None, ()),
    "stub_generation": (_ulong, ()),
    "stub_ranges": (_size, (_int, _place, _size)),
    "stub_describe": (_int, (_ulong, _size, _text, _size)),
    "stub_held": (_size, (_int, ctypes.POINTER(_size))),
    "stub_define_kernel": (
        None,
        (_place, _text, ctypes.c_longlong, ctypes.c_uint, _place, _place, _size, _int, _int, _int, _int, _int),
    ),
    "stub_define_global": (None, (_place, _text, _size)),
}


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Set the types of the stub's functions for Python, and return the library."""
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
