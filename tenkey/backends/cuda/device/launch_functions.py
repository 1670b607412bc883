"""Functions that write addresses among prepared arguments and launch a kernel.

Note [Launches in one call]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
``cuLaunchKernel`` of ``cuda.bindings`` takes eleven Python objects, of which nine are the same in every launch of one
kernel and layout, and makes an enumeration of the answer: this and the packing of the addresses are a third of the
host's time of a small operator. A function in machine code takes only what changes, the handle of the stream and the
addresses, as Python's calling convention for extension modules passes them (``METH_FASTCALL``). It finds everything
else in a *record*, whose address is its ``self``. It copies the arguments to its own stack, so that threads and
finalizers may launch the same kernel meanwhile, and lets other threads run while the driver works. It is compiled once
and kept in the cache of compiled code; where machine code cannot be used, a function of Python does the same.
Guarded by ``tests/backends/cuda/device/test_launch_functions.py``.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from ...._util.locks import new_lock
from ...llvm import code_cache, images
from ...llvm.compiled import UnavailableError, image_of
from .driver import CudaError, cu

__all__ = ["Arguments", "compiled_launch", "interpreted_launch", "launch_of"]

_FIRST_VERSION: Final = 4000  # of the driver that has cuLaunchKernel in its present form
_INVALID_VALUE: Final = 1  # the answer to a wrong number of addresses
_FASTCALL: Final = 0x80
_HEAD: Final = 12  # words of a record before the places of the parameters
_lock: Final = new_lock()

# The words of a record: the driver's function, the kernel, grid (3), block (3), bytes of shared memory, the numbers of
# parameters, of pointers and of all words of the arguments; then the place of each parameter in bytes, and the words of
# the arguments behind the pointers.
_TEXT: Final = f"""
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define ptr @launch(ptr %self, ptr %given, i64 %count) {{
entry:
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %parameters.at = getelementptr i64, ptr %record, i64 9
  %parameters = load i64, ptr %parameters.at
  %pointers.at = getelementptr i64, ptr %record, i64 10
  %pointers = load i64, ptr %pointers.at
  %words.at = getelementptr i64, ptr %record, i64 11
  %words = load i64, ptr %words.at
  %places = getelementptr i64, ptr %record, i64 {_HEAD}
  %rest = getelementptr i64, ptr %places, i64 %parameters
  %wanted = add i64 %pointers, 1
  %fits = icmp eq i64 %count, %wanted
  br i1 %fits, label %begin, label %misfit
misfit:
  %refusal = call ptr @PyLong_FromLong(i64 {_INVALID_VALUE})
  ret ptr %refusal
begin:
  %values = alloca i64, i64 %words, align 16
  %table = alloca ptr, i64 %parameters, align 16
  %first = load ptr, ptr %given
  %stream = call ptr @PyLong_AsVoidPtr(ptr %first)
  br label %addresses
addresses:
  %i = phi i64 [ 0, %begin ], [ %i.next, %address ]
  %i.more = icmp ult i64 %i, %pointers
  br i1 %i.more, label %address, label %numbers
address:
  %i.next = add i64 %i, 1
  %object.at = getelementptr ptr, ptr %given, i64 %i.next
  %object = load ptr, ptr %object.at
  %pointer = call ptr @PyLong_AsVoidPtr(ptr %object)
  %pointer.at = getelementptr i64, ptr %values, i64 %i
  store ptr %pointer, ptr %pointer.at
  br label %addresses
numbers:
  %j = phi i64 [ %pointers, %addresses ], [ %j.next, %number ]
  %j.more = icmp ult i64 %j, %words
  br i1 %j.more, label %number, label %tables
number:
  %k = sub i64 %j, %pointers
  %word.from = getelementptr i64, ptr %rest, i64 %k
  %word = load i64, ptr %word.from
  %word.at = getelementptr i64, ptr %values, i64 %j
  store i64 %word, ptr %word.at
  %j.next = add i64 %j, 1
  br label %numbers
tables:
  %n = phi i64 [ 0, %numbers ], [ %n.next, %entered ]
  %n.more = icmp ult i64 %n, %parameters
  br i1 %n.more, label %entered, label %ready
entered:
  %place.at = getelementptr i64, ptr %places, i64 %n
  %place = load i64, ptr %place.at
  %value = getelementptr i8, ptr %values, i64 %place
  %value.at = getelementptr ptr, ptr %table, i64 %n
  store ptr %value, ptr %value.at
  %n.next = add i64 %n, 1
  br label %tables
ready:
  %error = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %error, null
  br i1 %right, label %go, label %wrong
wrong:
  ret ptr null
go:
  %function = load ptr, ptr %record
{
    "".join(
        f'''  %n{w}.at = getelementptr i64, ptr %record, i64 {w}
  %n{w} = load i64, ptr %n{w}.at
  %c{w} = trunc i64 %n{w} to i32
'''
        for w in range(2, 9)
    )
}  %kernel.at = getelementptr i64, ptr %record, i64 1
  %kernel = load ptr, ptr %kernel.at
  %thread = call ptr @PyEval_SaveThread()
  %code = call i32 %function(ptr %kernel, {
    ", ".join(f"i32 %c{w}" for w in range(2, 9))
}, ptr %stream, ptr %table, ptr null)
  call void @PyEval_RestoreThread(ptr %thread)
  %wide = zext i32 %code to i64
  %answer = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %answer
}}
"""


class Arguments(NamedTuple):
    """The arguments of a launch: their bytes, pointers first, the place of each parameter, the number of pointers."""

    packed: bytes
    places: tuple[int, ...]
    pointers: int


def launch_of(function: int, configuration: Sequence[int], arguments: Arguments) -> Callable[..., Any]:
    """Return ``launch(stream, *addresses)``, which launches a kernel and returns the code of the driver, 0 if it could.

    ``configuration`` is grid, block and bytes of shared memory, as the driver takes them; the addresses are written
    over the pointers among the arguments.
    """
    try:
        return compiled_launch(function, configuration, arguments)
    except (UnavailableError, images.ImageError, AttributeError, CudaError):
        return interpreted_launch(function, configuration, arguments)


def interpreted_launch(function: int, configuration: Sequence[int], arguments: Arguments) -> Callable[..., Any]:
    """Return the function of :func:`launch_of` in Python."""
    call = cu.cuLaunchKernel.__wrapped__
    numbers = tuple(configuration)
    addresses = struct.Struct(f"@{arguments.pointers}Q")
    slots: list[tuple[Callable[..., None], int, Any]] = []

    def new_slot() -> tuple[Callable[..., None], int, Any]:
        buffer = ctypes.create_string_buffer(arguments.packed, max(1, len(arguments.packed)))
        start = ctypes.addressof(buffer)
        table = (ctypes.c_void_p * max(1, len(arguments.places)))(*[start + place for place in arguments.places])
        return partial(addresses.pack_into, buffer, 0), ctypes.addressof(table), (buffer, table)

    def launch(stream: int, *given: int) -> Any:
        try:
            slot = slots.pop()
        except IndexError:
            slot = new_slot()
        slot[0](*given)
        code = call(function, *numbers, stream, slot[1], 0)[0]
        slots.append(slot)
        return code

    return launch


def compiled_launch(function: int, configuration: Sequence[int], arguments: Arguments) -> Callable[..., Any]:
    """Return the function of :func:`launch_of` in machine code (Note [Launches in one call]).

    Raises UnavailableError, ImageError, AttributeError or CudaError where there can be none.
    """
    make, method = _maker()
    size = -(-len(arguments.packed) // 8)
    words = struct.unpack(f"@{size}Q", arguments.packed.ljust(8 * size, b"\0"))
    record = (ctypes.c_uint64 * (_HEAD + len(arguments.places) + size - arguments.pointers))(
        _address_of_launch(), function, *configuration, len(arguments.places), arguments.pointers, size,
        *arguments.places, *words[arguments.pointers :],
    )  # fmt: skip
    return make(ctypes.byref(method), ctypes.addressof(record), record)  # type: ignore[no-any-return]


def _address_of_launch() -> int:
    """Return the address of the driver's function."""
    found = cu.cuGetProcAddress(b"cuLaunchKernel", _FIRST_VERSION, 0)
    address = int(found[0] if isinstance(found, tuple) else found)
    if not address:
        raise CudaError("[cuda] the driver does not tell the address of cuLaunchKernel.")
    return address


class _Method(ctypes.Structure):
    """PyMethodDef: the description of a function of an extension module."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("text", ctypes.c_char_p)
    )  # fmt: skip


@cache
def _maker() -> tuple[Any, _Method]:
    """Return what makes a function of Python, and the description of the launch in machine code."""
    if os.environ.get("TENKEY_COMPILE") == "off":
        raise UnavailableError("TENKEY_COMPILE=off: no code is compiled.")
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", ctypes.pythonapi)  # the last argument is the module, which the function keeps alive
    )
    with _lock:
        image = code_cache.load(_TEXT)
        if image is None or not images.is_linked(image):  # LLVM's own linker fails where memory is far apart
            image = image_of([_TEXT], ["launch"])
            code_cache.store(_TEXT, image)
    return make, _Method(b"launch", images.load(image)["launch"], _FASTCALL, None)
