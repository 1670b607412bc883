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

from ...llvm import code_cache, images
from ...llvm.compiled import UnavailableError, _compiling, image_of, module_text
from ...llvm.language import Template
from .driver import CudaError, cu
from .launch_loops import launch, launch_packed

__all__ = ["Arguments", "PackedArguments", "compiled_launch", "interpreted_launch", "launch_of"]

_FIRST_VERSION: Final = 4000  # of the driver that has cuLaunchKernel in its present form
_FASTCALL: Final = 0x80


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
    methods = [_Method(one.__name__.encode(), _address(one), _FASTCALL, None) for one in (launch, launch_packed)]
    return make, tuple(methods)


def _address(template: Template) -> int:
    """Return the address of a function in machine code."""
    with _compiling:  # a template is translated by one thread at a time
        text = module_text(template)
        image = code_cache.load(text)
        if image is None:
            image = image_of([text], ["entry"])
            code_cache.store(text, image)
    if not images.is_linked(image):  # LLVM's own linker aborts the process where memory is far apart
        raise UnavailableError("The launch is not linked: it would need LLVM's own linker.")
    return images.load(image)["entry"]
