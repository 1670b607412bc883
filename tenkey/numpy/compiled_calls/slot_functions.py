"""The functions behind the slots of ``ndarray`` and ``ufunc``, in the language of loops.

Each tries the compiled call, and calls the method in Python where that returns null. The methods and the plans are in
*rows* of three words: Note [Types with compiled slots] in ``class_slots.py``.
"""

from __future__ import annotations

from typing import Any, Final

from ...backends.llvm import array_fields
from ...backends.llvm.instructions import cast, null, stack
from ...backends.llvm.language import instance, loop
from ...backends.llvm.value_types import f64, i32, i64
from ...backends.llvm.values import Module, Value, body
from .changing import assign, update
from .indexing import attribute, length, native, number, reversed_axes, subscript, truth
from .python_objects import HEADER, Object, Record, known, release, retain, run, type_of_object
from .result_functions import call_fresh, call_view
from .ufunc_calls import Block, binary, call_ufunc, unary

__all__ = ["IN_PLACE", "METHODS", "ROW", "UFUNCS", "translated"]

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
METHODS: Final = (
    *UFUNCS, *[f"i{name}" for name in IN_PLACE], "getitem", "setitem", "T", "len", "bool", "float", "int", "index",
    "ndim", "dtype",
)  # fmt: skip
ROW: Final = 3  # words of a method's row: the ufunc's block, the method, and the reflected method


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
    row = _given("methods") + ROW * place
    made = binary(cast(row[0], Block), x, y)
    if made != 0:
        return made
    return by_method(_given("record"), row, x, y)


@loop
def power_slot(x: Object, y: Object, modulus: Object, *, place: int, square: int) -> Object:
    """Compute ``x**y``; the square by another ufunc, as NumPy's operator does, which gives int8 for bools."""
    record, rows = _given("record"), _given("methods")
    if modulus != known(record, "None"):
        return retain(record, known(record, "NotImplemented"))
    row = rows + ROW * place
    made: Object = null(Object)
    if type_of_object(y) == known(record, "int"):
        if run(record, "PyLong_AsDouble", y, returns=f64) == 2.0:
            made = unary(cast(rows[ROW * square], Block), x)
            if made != 0:
                return made
            return by_method(record, row, x, y)
        run(record, "PyErr_Clear")
    made = binary(cast(row[0], Block), x, y)
    if made != 0:
        return made
    return by_method(record, row, x, y)


@loop
def compare_slot(x: Object, y: Object, operation: i32, *, place: int) -> Object:
    """Compute ``x < y`` and its like."""
    row = _given("methods") + (i64(operation) + place) * ROW
    made = binary(cast(row[0], Block), x, y)
    if made != 0:
        return made
    record, operands = _given("record"), stack(Object, 2, 8)
    operands[0], operands[1] = x, y
    return run(record, "PyObject_Vectorcall", row[1], operands, i64(2), null(Object), returns=Object)


@loop
def unary_slot(x: Object, *, place: int) -> Object:
    """Compute ``-x`` and its like."""
    row = _given("methods") + ROW * place
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
    row = _given("methods") + ROW * place
    made = subscript(cast(row[0], Block), cast(row[2], Block), x, item)
    if made != 0:
        return made
    operands = stack(Object, 2, 8)
    operands[0], operands[1] = x, item
    return run(_given("record"), "PyObject_Vectorcall", row[1], operands, i64(2), null(Object), returns=Object)


@loop
def assign_slot(x: Object, item: Object, value: Object, *, place: int) -> i32:
    """Carry out ``x[item] = value``; -1 where an error is set."""
    record, row = _given("record"), _given("methods") + ROW * place
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
    record, row = _given("record"), _given("methods") + ROW * place
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
    row = _given("methods") + ROW * place
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
    return in_python(record, _given("methods") + ROW * place, x)


@loop
def length_slot(x: Object, *, place: int) -> i64:
    """Compute ``len(x)``; -1 where an error is set."""
    record, row = _given("record"), _given("methods") + ROW * place
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
    record, row = _given("record"), _given("methods") + ROW * place
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
    row = _given("methods") + ROW * place
    made = number(cast(row[0], Block), x, kind=kind)
    if made != 0:
        return made
    return in_python(_given("record"), row, x)


def translated() -> tuple[tuple[str, ...], list[str]]:
    """Return the modules in LLVM's language, and the names of the functions that are called from outside."""
    module = Module()
    names = []

    def export(name: str, template: Any, **statics: Any) -> None:
        instance(template, module, statics, name)
        names.append(name)

    for name, slot in _BINARY.items():
        export(f"nb_{slot}", binary_slot, place=METHODS.index(name))
    for name, slot in _UNARY.items():
        export(f"nb_{slot}", unary_slot, place=METHODS.index(name))
    export("nb_power", power_slot, place=METHODS.index("pow"), square=METHODS.index("square"))
    export("tp_richcompare", compare_slot, place=METHODS.index("lt"))
    export("mp_subscript", subscript_slot, place=METHODS.index("getitem"))
    export("mp_ass_subscript", assign_slot, place=METHODS.index("setitem"))
    for name, slot in IN_PLACE.items():
        export(f"nb_inplace_{slot}", update_slot, place=METHODS.index(f"i{name}"))
    export("mp_length", length_slot, place=METHODS.index("len"))
    export("nb_bool", truth_slot, place=METHODS.index("bool"))
    for name, kind in (("float", "float"), ("int", "int"), ("index", "int")):
        export(f"nb_{name}", number_slot, place=METHODS.index(name), kind=kind)
    for name in ("ndim", "dtype"):
        export(f"get_{name}", attribute_slot, place=METHODS.index(name), which=name)
    export("get_T", axes_slot, place=METHODS.index("T"))
    export("call_ufunc", call_ufunc, place=HEADER + 8)
    export("call_fresh", call_fresh)
    export("call_view", call_view)
    return module.parts(), names
