"""The launch functions as compiled code: Note [Launches in one call]."""

# The annotations of @loop functions are types of compiled code.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any, Final

from ...llvm.instructions import address, call, call_external, cast, null
from ...llvm.language import loop
from ...llvm.value_types import i8, i64, pointer, u32
from ...llvm.values import Value, as_value, body, emit

__all__ = ["launch", "launch_packed"]

_INVALID_VALUE: Final = 1  # the answer to a wrong number of addresses
_HEAD: Final = 12  # words of a record before the places of the parameters
_object, _words = pointer(i8), pointer(i64)
_objects: Final = pointer(_object)

# The words of a record: the driver's function, the kernel, grid (3), block (3), bytes of shared memory, the numbers of
# parameters and of pointers, and the size of the arguments (in words, or in bytes where they are given packed); then
# the place of each parameter in bytes, and the words of the arguments behind the pointers.


def _handle(thing: Value) -> Value:
    """Return the address that an int of Python holds; for an object of another type an error of Python is set."""
    return call_external("PyLong_AsVoidPtr", thing, returns=_object)


def _code(number: Any) -> Value:
    """Return a code of the driver as an int of Python."""
    return call_external("PyLong_FromLong", as_value(number, i64), returns=_object)


def _has_failed() -> Value:
    """Return whether an error of Python is set."""
    return call_external("PyErr_Occurred", returns=_object) != null(_object)


def _restore(thread: Value) -> None:
    """Take the lock of the interpreter again."""
    body().declare("declare void @PyEval_RestoreThread(ptr)")
    body().write(f"call void @PyEval_RestoreThread({thread.text})")


def _room(words: Value) -> Value:
    """Return memory on the stack."""
    return emit(_words, f"alloca i64, {words.text}, align 16")


@loop
def _send(record: _words, stream: _object, values: _object) -> _object:
    """Launch the kernel of a record with packed arguments, unless an error of Python is set."""
    if _has_failed():
        return null(_object)
    parameters = record[9]
    table = _room(parameters)
    for n in range(parameters):
        table[n] = address(values + record[_HEAD + n])
    sizes = [u32(record[n]) for n in range(2, 9)]
    thread = call_external("PyEval_SaveThread", returns=_object)
    code = call(
        cast(record[0], _object), cast(record[1], _object), *sizes, stream, table, null(_object), returns=u32
    )  # fmt: skip
    _restore(thread)
    return _code(i64(code))


@loop
def launch(self: _object, given: _objects, count: i64) -> _object:
    """Launch with a stream and the addresses that replace the pointers among the arguments of the record."""
    record = cast(_handle(self), _words)
    pointers, words = record[10], record[11]
    if count != pointers + 1:
        return _code(_INVALID_VALUE)
    values = _room(words)
    stream = _handle(given[0])
    for i in range(pointers):
        values[i] = address(_handle(given[i + 1]))
    rest = record + (_HEAD + record[9] - pointers)
    for i in range(pointers, words):
        values[i] = rest[i]
    return _send(record, stream, cast(values, _object))


@loop
def launch_packed(self: _object, given: _objects, count: i64) -> _object:
    """Launch with a stream and the bytes of all arguments."""
    if count != 2:
        return _code(_INVALID_VALUE)
    record = cast(_handle(self), _words)
    stream = _handle(given[0])
    if call_external("PyBytes_Size", given[1], returns=i64) != record[11]:
        if _has_failed():
            return null(_object)
        return _code(_INVALID_VALUE)
    return _send(record, stream, call_external("PyBytes_AsString", given[1], returns=_object))
