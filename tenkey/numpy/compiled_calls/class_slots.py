"""The operators of ``ndarray`` and the calls of ``ufunc`` as slots of types, in machine code.

Note [Types with compiled slots]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``a + b`` calls the slot ``nb_add`` of a type. For a method written in Python, the slot looks the method up and makes a
frame; a type of an extension module has a function there. ``PyType_FromSpec`` of Python's stable interface makes such a
type from a table of addresses. ``ndarray`` inherits from one that has nothing but these slots, and Python copies them
as it does for every class; a subclass may override the methods as usual. Each slot tries the compiled call first, and
calls the method in Python where that returns null. ``ufunc`` inherits the call by the vectorcall protocol (PEP 590).
Where there is no compiled code, both inherit from empty classes, and have their methods in Python.
Guarded by ``tests/numpy/test_compiled_calls.py::TestSlots``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from ..._util.locks import new_lock
from ...backends.llvm import array_fields, code_cache, images
from ...backends.llvm.compiled import UnavailableError, image_of
from ...backends.llvm.instructions import cast, null, stack
from ...backends.llvm.language import instance, loop
from ...backends.llvm.value_types import f64, i32, i64
from ...backends.llvm.values import Module, Value, body
from . import python_objects
from .changing import assign, update
from .indexing import attribute, length, native, number, reversed_axes, subscript, truth
from .python_objects import Object, Record, known, release, retain, run, type_of_object
from .ufunc_calls import Block, binary, call_ufunc, unary

__all__ = ["IN_PLACE", "UFUNCS", "Compiled", "compiled"]

_BINARY: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "matmul": "matrix_multiply", "and": "and", "or": "or", "xor": "xor", "lshift": "lshift",
    "rshift": "rshift",
}  # fmt: skip
"""The names of special methods, and those of their slots."""
_COMPARISONS: Final = ("lt", "le", "eq", "ne", "gt", "ge")  # in the order in which Python numbers them
_UNARY: Final = {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}
UFUNCS: Final = (*_BINARY, *_COMPARISONS, *_UNARY, "pow", "square")
"""The special methods that are ufuncs, and the square that ``x**2`` is."""
IN_PLACE: Final = {name: slot for name, slot in _BINARY.items() if name in ("add", "sub", "mul", "truediv")}
"""The special methods whose in-place variants have slots."""
_METHODS: Final = (
    *UFUNCS, *[f"i{name}" for name in IN_PLACE], "getitem", "setitem", "T", "len", "bool", "float", "int", "index",
    "ndim", "dtype",
)  # fmt: skip
_ROW: Final = 3  # words of a method's row: the ufunc's block, the method, and the reflected method
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
_HEADER: Final = 16
_READ_ONLY, _SSIZE = 1, 19  # of members
_lock: Final = new_lock()


def _given(name: str) -> Value:
    """Return an address that the loader brings."""
    body().declare(f"declare void @given.{name}()")
    return Value(Record, f"@given.{name}")


@loop
def by_method(record: Record, row: Record, x: Object, y: Object) -> Object:
    """Call the method of an operator in Python, or the reflected one."""
    operands = stack(Object, 2, 8)
    kind = known(record, "ndarray")
    if run(record, "PyType_IsSubtype", type_of_object(x), kind, returns=i32) != i32(0):
        operands[0], operands[1] = x, y
        made = run(record, "PyObject_Vectorcall", row[1], operands, i64(2), null(Object), returns=Object)
        if made != known(record, "NotImplemented"):
            return made
        release(record, made)
    if run(record, "PyType_IsSubtype", type_of_object(y), kind, returns=i32) != i32(0):
        if row[2] != 0:
            operands[0], operands[1] = y, x
            return run(record, "PyObject_Vectorcall", row[2], operands, i64(2), null(Object), returns=Object)
    return retain(record, known(record, "NotImplemented"))


@loop
def binary_slot(x: Object, y: Object, *, place: int) -> Object:
    """Compute ``x + y`` and its like."""
    row = _given("methods") + _ROW * place
    made = binary(cast(row[0], Block), x, y)
    if made != 0:
        return made
    return by_method(_given("record"), row, x, y)


@loop
def power_slot(x: Object, y: Object, modulus: Object, *, place: int, square: int) -> Object:
    """Compute ``x**y``; the square of floats as a product, as NumPy's operator does."""
    record, rows = _given("record"), _given("methods")
    if modulus != known(record, "None"):
        return retain(record, known(record, "NotImplemented"))
    made: Object = null(Object)
    if type_of_object(y) == known(record, "int"):
        if run(record, "PyLong_AsDouble", y, returns=f64) == 2.0:
            made = unary(cast(rows[_ROW * square], Block), x)
            if made != 0:
                return made
        run(record, "PyErr_Clear")
    row = rows + _ROW * place
    made = binary(cast(row[0], Block), x, y)
    if made != 0:
        return made
    return by_method(record, row, x, y)


@loop
def compare_slot(x: Object, y: Object, operation: i32, *, place: int) -> Object:
    """Compute ``x < y`` and its like."""
    row = _given("methods") + (i64(operation) + place) * _ROW
    made = binary(cast(row[0], Block), x, y)
    if made != 0:
        return made
    record, operands = _given("record"), stack(Object, 2, 8)
    operands[0], operands[1] = x, y
    return run(record, "PyObject_Vectorcall", row[1], operands, i64(2), null(Object), returns=Object)


@loop
def unary_slot(x: Object, *, place: int) -> Object:
    """Compute ``-x`` and its like."""
    row = _given("methods") + _ROW * place
    made = unary(cast(row[0], Block), x)
    if made != 0:
        return made
    operands = stack(Object, 1, 8)
    operands[0] = x
    return run(_given("record"), "PyObject_Vectorcall", row[1], operands, i64(1), null(Object), returns=Object)


@loop
def in_python(record: Record, row: Record, x: Object) -> Object:
    """Call the method of a row in Python with one argument."""
    operands = stack(Object, 1, 8)
    operands[0] = x
    return run(record, "PyObject_Vectorcall", row[1], operands, i64(1), null(Object), returns=Object)


@loop
def subscript_slot(x: Object, item: Object, *, place: int) -> Object:
    """Compute ``x[item]``."""
    row = _given("methods") + _ROW * place
    made = subscript(cast(row[0], Block), cast(row[2], Block), x, item)
    if made != 0:
        return made
    operands = stack(Object, 2, 8)
    operands[0], operands[1] = x, item
    return run(_given("record"), "PyObject_Vectorcall", row[1], operands, i64(2), null(Object), returns=Object)


@loop
def assign_slot(x: Object, item: Object, value: Object, *, place: int) -> i32:
    """Carry out ``x[item] = value``; -1 where an error is set."""
    record, row = _given("record"), _given("methods") + _ROW * place
    operands = stack(Object, 3, 8)
    operands[0], operands[1], operands[2] = x, item, value
    if value == 0:  # del x[item]
        run(record, "PyObject_Vectorcall", known(record, "delete"), operands, i64(2), null(Object), returns=Object)
        return i32(-1)
    if assign(cast(row[0], Block), cast(row[2], Block), x, item, value) != 0:
        return i32(0)
    made = run(record, "PyObject_Vectorcall", row[1], operands, i64(3), null(Object), returns=Object)
    if made == 0:
        return i32(-1)
    release(record, made)
    return i32(0)


@loop
def update_slot(x: Object, y: Object, *, place: int) -> Object:
    """Carry out ``x += y`` and its like."""
    record, row = _given("record"), _given("methods") + _ROW * place
    if update(cast(row[0], Block), x, y) != 0:
        return retain(record, x)
    a = native(record, x)
    if a != 0:
        if array_fields.ndim(a) == 0:  # Note [In-place operators of arrays]
            made = binary(cast(row[2], Block), x, y)
            if made != 0:
                return made
    operands = stack(Object, 2, 8)
    operands[0], operands[1] = x, y
    return run(record, "PyObject_Vectorcall", row[1], operands, i64(2), null(Object), returns=Object)


@loop
def axes_slot(x: Object, closure: Object, *, place: int) -> Object:
    """Compute ``x.T``."""
    row = _given("methods") + _ROW * place
    made = reversed_axes(cast(row[0], Block), x)
    if made != 0:
        return made
    return in_python(_given("record"), row, x)


@loop
def attribute_slot(x: Object, closure: Object, *, place: int, which: str) -> Object:
    """Compute ``x.ndim`` and its like."""
    record = _given("record")
    made = attribute(record, x, which=which)
    if made != 0:
        return made
    return in_python(record, _given("methods") + _ROW * place, x)


@loop
def length_slot(x: Object, *, place: int) -> i64:
    """Compute ``len(x)``; -1 where an error is set."""
    record, row = _given("record"), _given("methods") + _ROW * place
    found = length(record, x)
    if found >= 0:
        return found
    made = in_python(record, row, x)
    if made == 0:
        return -1
    asked = run(record, "PyLong_AsLongLong", made, returns=i64)
    release(record, made)
    return asked


@loop
def truth_slot(x: Object, *, place: int) -> i32:
    """Compute ``bool(x)``; -1 where an error is set."""
    record, row = _given("record"), _given("methods") + _ROW * place
    found = truth(cast(row[0], Block), x)
    if found >= 0:
        return found
    made = in_python(record, row, x)
    if made == 0:
        return i32(-1)
    asked = run(record, "PyObject_IsTrue", made, returns=i32)
    release(record, made)
    return asked


@loop
def number_slot(x: Object, *, place: int, kind: str) -> Object:
    """Compute ``float(x)`` or ``int(x)``."""
    row = _given("methods") + _ROW * place
    made = number(cast(row[0], Block), x, kind=kind)
    if made != 0:
        return made
    return in_python(_given("record"), row, x)


def _text() -> tuple[tuple[str, ...], list[str]]:
    """Return the modules in LLVM's language, and the names of the functions that are called from outside."""
    module = Module()
    names = []

    def export(name: str, template: Any, **statics: Any) -> None:
        instance(template, module, statics, name)
        names.append(name)

    for name, slot in _BINARY.items():
        export(f"nb_{slot}", binary_slot, place=_METHODS.index(name))
    for name, slot in _UNARY.items():
        export(f"nb_{slot}", unary_slot, place=_METHODS.index(name))
    export("nb_power", power_slot, place=_METHODS.index("pow"), square=_METHODS.index("square"))
    export("tp_richcompare", compare_slot, place=_METHODS.index("lt"))
    export("mp_subscript", subscript_slot, place=_METHODS.index("getitem"))
    export("mp_ass_subscript", assign_slot, place=_METHODS.index("setitem"))
    for name, slot in IN_PLACE.items():
        export(f"nb_inplace_{slot}", update_slot, place=_METHODS.index(f"i{name}"))
    export("mp_length", length_slot, place=_METHODS.index("len"))
    export("nb_bool", truth_slot, place=_METHODS.index("bool"))
    for name, kind in (("float", "float"), ("int", "int"), ("index", "int")):
        export(f"nb_{name}", number_slot, place=_METHODS.index(name), kind=kind)
    for name in ("ndim", "dtype"):
        export(f"get_{name}", attribute_slot, place=_METHODS.index(name), which=name)
    export("get_T", axes_slot, place=_METHODS.index("T"))
    export("call_ufunc", call_ufunc, place=_HEADER + 8)
    return module.parts(), names


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


_kept: Final[list[Any]] = []  # what types refer to


def _type(name: str, size: int, flags: int, functions: dict[str, int]) -> type:
    slots = (_Slot * (len(functions) + 1))(*[(_SLOTS[slot], address) for slot, address in functions.items()])
    specification = _Specification(name.encode(), size, 0, flags | _BASETYPE, slots)
    _kept.append((slots, specification))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Specification))(("PyType_FromSpec", ctypes.pythonapi))
    return make(ctypes.byref(specification))  # type: ignore[no-any-return]


class Compiled:
    """The compiled code of this process: the types to inherit from, and the memory that the code reads."""

    def __init__(self, image: bytes) -> None:
        self.record = python_objects.empty_record()
        self.methods = (ctypes.c_void_p * (_ROW * len(_METHODS)))()
        given = {"given.record": ctypes.addressof(self.record), "given.methods": ctypes.addressof(self.methods)}
        found = images.load(image, given)
        self.call = found.pop("call_ufunc")
        documented = {
            "T": "View with the axes in reverse order.", "ndim": "Number of dimensions.",
            "dtype": "The dtype, a NumPy ``np.dtype``.",
        }  # fmt: skip
        attributes = (_Attribute * (len(documented) + 1))(*[
            (name.encode(), found.pop(f"get_{name}"), None, text.encode(), None)
            for name, text in documented.items()
        ])  # fmt: skip
        found["tp_getset"] = ctypes.addressof(attributes)
        self.operators = _type("tenkey.numpy.Operators", _HEADER, 0, found)
        member = (_Member * 2)((b"__vectorcalloffset__", _SSIZE, _HEADER, _READ_ONLY, None))
        call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
        slots = {"tp_call": call or 0, "tp_members": ctypes.addressof(member)}
        self.callable = _type("tenkey.numpy.Callable", _HEADER + 16, _HAVE_VECTORCALL, slots)
        _kept.append((member, attributes))

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.record)

    def set_method(
        self, name: str, block: int, method: Callable[..., Any] | None, other: Callable[..., Any] | int | None
    ) -> None:
        """Say what a slot calls: a block of plans, a method in Python, and its reflected method or another block."""
        start = _ROW * _METHODS.index(name)
        _kept.append((method, other))
        last = other if isinstance(other, int) else 0 if other is None else id(other)
        self.methods[start : start + _ROW] = [block, 0 if method is None else id(method), last]

    def set_call(self, function: Any, block: int) -> None:
        """Let calls of an instance of ``callable`` go to the ufunc with this block."""
        words = (ctypes.c_void_p * 2).from_address(id(function) + _HEADER)
        words[:] = [self.call, block]


@cache
def compiled() -> Compiled | None:
    """Return the compiled code; None where there is none, and all calls take their way in Python."""
    if not python_objects.available():
        return None
    try:
        with _lock:
            image = code_cache.load(_key())
            if image is None:
                parts, names = _text()
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
