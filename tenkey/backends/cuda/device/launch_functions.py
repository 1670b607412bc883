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
from functools import cache
from typing import Any, Final, NamedTuple

from ...._util.locks import new_lock
from ...llvm import code_cache, images
from ...llvm.compiled import UnavailableError, image_of
from .driver import CudaError, cu

__all__ = ["Arguments", "PackedArguments", "compiled_launch", "interpreted_launch", "launch_of"]

_FIRST_VERSION: Final = 4000  # of the driver that has cuLaunchKernel in its present form
_INVALID_VALUE: Final = 1  # the answer to a wrong number of addresses
_FASTCALL: Final = 0x80
_NAMES: Final = ("launch", "launch_packed")
_HEAD: Final = 12  # words of a record before the places of the parameters
_lock: Final = new_lock()

# The words of a record: the driver's function, the kernel, grid (3), block (3), bytes of shared memory, the numbers of
# parameters and of pointers, and the size of the arguments (in words, or in bytes where they are given packed); then
# the place of each parameter in bytes, and the words of the arguments behind the pointers.
_TEXT: Final = f"""
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyErr_Occurred()
declare i64 @PyBytes_Size(ptr)
declare ptr @PyBytes_AsString(ptr)
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
  br i1 %j.more, label %number, label %done
number:
  %k = sub i64 %j, %pointers
  %word.from = getelementptr i64, ptr %rest, i64 %k
  %word = load i64, ptr %word.from
  %word.at = getelementptr i64, ptr %values, i64 %j
  store i64 %word, ptr %word.at
  %j.next = add i64 %j, 1
  br label %numbers
done:
  %sent = call ptr @send(ptr %record, ptr %stream, ptr %values)
  ret ptr %sent
}}

define ptr @launch_packed(ptr %self, ptr %given, i64 %count) {{
entry:
  %two = icmp eq i64 %count, 2
  br i1 %two, label %read, label %misfit
read:
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %first = load ptr, ptr %given
  %stream = call ptr @PyLong_AsVoidPtr(ptr %first)
  %second.at = getelementptr ptr, ptr %given, i64 1
  %second = load ptr, ptr %second.at
  %size = call i64 @PyBytes_Size(ptr %second)
  %wanted.at = getelementptr i64, ptr %record, i64 11
  %wanted = load i64, ptr %wanted.at
  %fits = icmp eq i64 %size, %wanted
  br i1 %fits, label %begin, label %misfit
misfit:
  %error = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %error, null
  br i1 %right, label %refuse, label %wrong
wrong:
  ret ptr null
refuse:
  %refusal = call ptr @PyLong_FromLong(i64 {_INVALID_VALUE})
  ret ptr %refusal
begin:
  %values = call ptr @PyBytes_AsString(ptr %second)
  %sent = call ptr @send(ptr %record, ptr %stream, ptr %values)
  ret ptr %sent
}}

define internal ptr @send(ptr %record, ptr %stream, ptr %values) {{
entry:
  %error = call ptr @PyErr_Occurred()
  %right = icmp eq ptr %error, null
  br i1 %right, label %begin, label %wrong
wrong:
  ret ptr null
begin:
  %parameters.at = getelementptr i64, ptr %record, i64 9
  %parameters = load i64, ptr %parameters.at
  %places = getelementptr i64, ptr %record, i64 {_HEAD}
  %table = alloca ptr, i64 %parameters, align 16
  br label %tables
tables:
  %n = phi i64 [ 0, %begin ], [ %n.next, %entered ]
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


class PackedArguments(NamedTuple):
    """The arguments of launches that get their bytes: how many these are, and the place of each parameter."""

    size: int
    places: tuple[int, ...]


def launch_of(
    function: int, configuration: Sequence[int], arguments: Arguments | PackedArguments
) -> Callable[..., Any]:
    """Return what launches a kernel and returns the code of the driver, 0 if it could.

    It is called as ``launch(stream, *addresses)``, which are written over the pointers among the arguments, or for
    :class:`PackedArguments` as ``launch(stream, packed)``. ``configuration`` is grid, block and bytes of shared
    memory, as the driver takes them.
    """
    try:
        return compiled_launch(function, configuration, arguments)
    except (UnavailableError, images.ImageError, AttributeError, CudaError):
        return interpreted_launch(function, configuration, arguments)


def interpreted_launch(
    function: int, configuration: Sequence[int], arguments: Arguments | PackedArguments
) -> Callable[..., Any]:
    """Return the function of :func:`launch_of` in Python."""
    call = cu.cuLaunchKernel.__wrapped__
    numbers, places = tuple(configuration), arguments.places

    def send(stream: int, packed: bytes | bytearray) -> Any:
        buffer = (ctypes.c_ubyte * max(1, len(packed))).from_buffer_copy(packed or b"\0")
        start = ctypes.addressof(buffer)
        table = (ctypes.c_void_p * max(1, len(places)))(*[start + place for place in places])
        return call(function, *numbers, stream, ctypes.addressof(table), 0)[0]

    if isinstance(arguments, PackedArguments):
        return send
    template, addresses = arguments.packed, struct.Struct(f"@{arguments.pointers}Q")

    def launch(stream: int, *given: int) -> Any:
        packed = bytearray(template)
        addresses.pack_into(packed, 0, *given)
        return send(stream, packed)

    return launch


def compiled_launch(
    function: int, configuration: Sequence[int], arguments: Arguments | PackedArguments
) -> Callable[..., Any]:
    """Return the function of :func:`launch_of` in machine code (Note [Launches in one call]).

    Raises UnavailableError, ImageError, AttributeError or CudaError where there can be none.
    """
    make, methods = _maker()
    places = arguments.places
    if isinstance(arguments, PackedArguments):
        method, pointers, size, rest = methods[1], 0, arguments.size, ()
    else:
        method, pointers, size = methods[0], arguments.pointers, -(-len(arguments.packed) // 8)
        rest = struct.unpack(f"@{size}Q", arguments.packed.ljust(8 * size, b"\0"))[pointers:]
    words = [_address_of_launch(), function, *configuration, len(places), pointers, size, *places, *rest]
    record = (ctypes.c_uint64 * len(words))(*words)
    kept = record, method  # in the place of the function's module, with which they live as long as it does
    return make(ctypes.byref(method), ctypes.addressof(record), kept)  # type: ignore[no-any-return]


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
def _maker() -> tuple[Any, tuple[_Method, ...]]:
    """Return what makes a function of Python, and the descriptions of the two functions in machine code."""
    if os.environ.get("TENKEY_COMPILE") == "off":
        raise UnavailableError("TENKEY_COMPILE=off: no code is compiled.")
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    with _lock:
        image = code_cache.load(_TEXT)
        if image is None:
            image = image_of([_TEXT], _NAMES)
            code_cache.store(_TEXT, image)
    if not images.is_linked(image):  # LLVM's own linker aborts the process where memory is far apart
        raise UnavailableError("The launch is not linked: it would need LLVM's own linker.")
    found = images.load(image)
    return make, tuple([_Method(name.encode(), found[name], _FASTCALL, None) for name in _NAMES])
