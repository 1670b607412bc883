"""Kernels: templates translated, compiled and callable from Python.

A kernel is found in memory, then in the cache of compiled code, and is compiled otherwise. ``kernel(template, T=f32)``
returns a function of ctypes: it takes what the template's entry point takes, and lets other threads run meanwhile.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Final

from .language import Template, instance
from .value_types import Type, array
from .values import Module

__all__ = ["address_of", "kernel", "module_text"]

_ENTRY: Final = "entry"
_lock: Final = threading.RLock()
_addresses: Final[dict[Any, tuple[int, Type, list[Type]]]] = {}
_functions: Final[dict[Any, Callable[..., Any]]] = {}
_CTYPES: Final = {
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "f32": ctypes.c_float,
    "f64": ctypes.c_double, "i1": ctypes.c_bool,
}  # fmt: skip


def module_text(template: Template, **statics: Any) -> str:
    """Return the module of a kernel in LLVM's language, for readers and tests."""
    module = Module()
    instance(template, module, statics, _ENTRY)
    return module.text()


def _compiled(template: Template, statics: dict[str, Any]) -> tuple[int, Type, list[Type]]:
    from . import machine_code  # not before code has to be compiled

    module = Module()
    _, result, parameters = instance(template, module, statics, _ENTRY)
    code = machine_code.object_code(module.text(), template.vectorize)
    return machine_code.link(code, _ENTRY), result, parameters


def _found(template: Template, statics: dict[str, Any]) -> tuple[int, Type, list[Type]]:
    key = (template, *sorted(statics.items()))
    found = _addresses.get(key)
    if found is None:
        with _lock:
            found = _addresses.get(key)
            if found is None:
                found = _addresses[key] = _compiled(template, statics)
    return found


def address_of(template: Template, **statics: Any) -> int:
    """Return the address of a compiled kernel, which other kernels call."""
    return _found(template, statics)[0]


def kernel(template: Template, **statics: Any) -> Callable[..., Any]:
    """Return a kernel as a Python function; it is compiled at the first request."""
    key = (template, *sorted(statics.items()))
    function = _functions.get(key)
    if function is None:
        address, result, parameters = _found(template, statics)
        kinds = [_ctype(type_) for type_ in parameters]
        returned = None if result.kind == "v" else _ctype(result)
        function = _functions[key] = ctypes.CFUNCTYPE(returned, *kinds)(address)
    return function


def _ctype(type_: Type) -> Any:
    if type_ is array:
        return ctypes.py_object
    return ctypes.c_void_p if type_.kind == "p" else _CTYPES[type_.name]
