"""Calls of ufuncs on small arrays, in machine code.

Note [Small calls in machine code]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A NumPy call on four numbers takes 0.3 us, half of which finds the loop, and a call of Python code that leads to it
another 0.5. A program of small arrays consists of such calls. So the calls that are the same every time are written in
the language of loops (``tenkey/backends/llvm/language.py``), and take what Python's interpreter gives to extension
modules: references to objects. For operands of known words (a *plan*, Note [Plans of ufuncs] in ``ufunc_plans.py``)
such a call allocates the result and runs NumPy's own inner loop, so its results have NumPy's bits. Arrays that are
broadcast, strided or of several dtypes are handed to the ufunc of NumPy instead, in a context without warnings.

Compiled code never decides what it does not know: where there is no plan, where a mode is active, where an operand is
anything but an array or a number, and where an error occurs, it returns null, and the call takes its way in Python,
which has the same results, or raises the error. The plans of an operator are forgotten when a kernel is registered.
Guarded by ``tests/numpy/test_compiled_calls.py``.
"""

from __future__ import annotations

from typing import Final

from ...backends.llvm import array_fields
from ...backends.llvm.instructions import call, cast, null, stack
from ...backends.llvm.language import loop
from ...backends.llvm.value_types import f32, f64, i8, i32, i64, pointer, u64
from .python_objects import (
    ALL_BITS,
    DATA,
    Object,
    Record,
    busy,
    get,
    is_array,
    known,
    release,
    retain,
    run,
    type_of_object,
    word_of,
    wrap,
)

__all__ = [
    "DOUBLE",
    "ENTRY",
    "HEAD",
    "LONG",
    "PLANS",
    "SINGLE",
    "SMALL",
    "Block",
    "binary",
    "call_ufunc",
    "places_of",
    "unary",
]

SMALL: Final = 1 << 12
"""The number of elements above which kernels take as long as the way to them."""
PLANS: Final = 64
"""How many plans a ufunc keeps."""
HEAD: Final = ("record", "ufunc", "general", "operands", "float", "int", "float64")
"""The words of a ufunc's block before its plans: the record, NumPy's ufunc, the function in Python, the number of
operands, and the dispatch words of numbers."""
ENTRY: Final = ("key", "word", "loop", "data", "dtype", "number", "size", "result_size")
"""The words of a plan: the union of the operands' dispatch words, the word of the result (an object), NumPy's loop or
0, its data, the dtype of the result, how a number is stored, and the bytes of an element of an operand and a result."""
_WORD: Final = (1 << 64) - 1
_SHIFT: Final = 65 - PLANS.bit_length()
_GOLDEN: Final = 0x9E3779B97F4A7C15  # multiplicative hashing: Knuth, The Art of Computer Programming 3, 6.4
ARRAY, _FLOAT, _INT, _FLOAT64, OTHER = range(5)  # the kinds of operands
DOUBLE, SINGLE, LONG = 1, 2, 3  # how a number is stored
Block: Final = pointer(i64)
_COUNT: Final = (1 << 63) - 1  # the bits of the number of arguments
_ALIGNED, _ROW_MAJOR = 0x100, 0x1  # flags of arrays


@loop
def kind_of(record: Record, x: Object) -> i64:
    """Return which kind of operand an object is."""
    kind = type_of_object(x)
    if kind == known(record, "ndarray"):
        return ARRAY
    if kind == known(record, "float"):
        return _FLOAT
    if kind == known(record, "int"):
        return _INT
    if kind == known(record, "float64"):
        return _FLOAT64
    return OTHER


def places_of(key: int) -> tuple[int, int]:
    """Return the two places in a block, in words, where the plan for a union of words may be."""
    first = (key * _GOLDEN & _WORD) >> _SHIFT
    return first * len(ENTRY) + len(HEAD), (first ^ 1) * len(ENTRY) + len(HEAD)


@loop
def plan_of(block: Block, key: u64) -> Block:
    """Return the plan for a union of words; null where there is none."""
    first = (key * u64(_GOLDEN)) >> _SHIFT
    plan: Block = block + (i64(first) * len(ENTRY) + len(HEAD))
    if u64(plan[ENTRY.index("key")]) == key:
        return plan
    plan = block + (i64(first ^ 1) * len(ENTRY) + len(HEAD))
    if u64(plan[ENTRY.index("key")]) == key:
        return plan
    return null(Block)


@loop
def size_of(a: Object) -> i64:
    """Return the number of elements of a native array."""
    lengths, size = array_fields.shape(a), i64(1)
    total: i64 = size
    for k in range(array_fields.ndim(a)):
        total = total * lengths[k]
    return total


@loop
def stored(record: Record, x: Object, kind: i64, form: i64, to: pointer(i64)) -> i64:
    """Store a number in the form in which a loop reads it; return 0 where it does not fit."""
    if form == LONG:
        if kind != _INT:
            return 0
        whole = run(record, "PyLong_AsLongLong", x, returns=i64)
        if whole == -1:
            if run(record, "PyErr_Occurred", returns=Object) != 0:
                run(record, "PyErr_Clear")
                return 0
        to[0] = whole
        return 1
    number: f64 = f64(0.0)
    if kind == _INT:
        number = run(record, "PyLong_AsDouble", x, returns=f64)
    else:
        number = run(record, "PyFloat_AsDouble", x, returns=f64)
    if number == -1.0:
        if run(record, "PyErr_Occurred", returns=Object) != 0:
            run(record, "PyErr_Clear")
            return 0
    if form == SINGLE:
        single = cast(to, pointer(f32))
        single[0] = f32(number)
    else:
        double = cast(to, pointer(f64))
        double[0] = number
    return 1


@loop
def by_numpy(record: Record, block: Block, word: Object, x: Object, y: Object) -> Object:
    """Call NumPy's ufunc, in a context without warnings; return null where it fails."""
    given = stack(Object, 2, 8)
    given[0], given[1] = x, y
    context = known(record, "context")
    if run(record, "PyContext_Enter", context, returns=i32) != i32(0):  # another thread is in it
        run(record, "PyErr_Clear")
        return null(Object)
    ufunc = cast(block[HEAD.index("ufunc")], Object)
    made: Object = run(
        record, "PyObject_Vectorcall", ufunc, given, block[HEAD.index("operands")], null(Object), returns=Object
    )
    if run(record, "PyContext_Exit", context, returns=i32) != i32(0):
        run(record, "PyErr_Clear")
    if made == 0:
        run(record, "PyErr_Clear")
        return null(Object)
    if type_of_object(made) != known(record, "array"):  # a scalar
        given[0] = made
        data = run(record, "PyObject_Vectorcall", known(record, "asarray"), given, i64(1), null(Object), returns=Object)
        release(record, made)
        if data == 0:
            run(record, "PyErr_Clear")
            return null(Object)
        made = data
    return wrap(record, made, word, known(record, "None"))


@loop
def by_loop(
    record: Record, plan: Block, shaped: Object, count: i64, first: Object, second: Object, steps: pointer(i64)
) -> Object:
    """Run NumPy's inner loop into a new array of the shape of ``shaped``, which is laid out in rows."""
    dtype = retain(record, cast(plan[ENTRY.index("dtype")], Object))
    data = run(
        record, "PyArray_NewFromDescr", known(record, "array"), dtype, i32(array_fields.ndim(shaped)),
        array_fields.shape(shaped), null(Object), null(Object), i32(0), null(Object), returns=Object,
    )  # fmt: skip
    if data == 0:
        run(record, "PyErr_Clear")
        return null(Object)
    places, counts = stack(Object, 3, 8), stack(i64, 1, 8)
    counts[0] = count
    places[0] = first
    if second != 0:
        places[1], places[2] = second, array_fields.data(data, i8)
    else:
        places[1] = array_fields.data(data, i8)
    call(cast(plan[ENTRY.index("loop")], Object), places, counts, steps, plan[ENTRY.index("data")])
    if run(record, "PyErr_Occurred", returns=Object) != 0:  # a negative power of an integer
        run(record, "PyErr_Clear")
        release(record, data)
        return null(Object)
    return wrap(record, data, cast(plan[ENTRY.index("word")], Object), known(record, "None"))


@loop
def step_of(a: Object, size: i64) -> i64:
    """Return the distance of an array's elements in bytes; -1 where it has no single one."""
    flags = array_fields.flags(a)
    if flags & _ALIGNED == 0:
        return -1
    if flags & _ROW_MAJOR != 0:
        return size
    if array_fields.ndim(a) == 1:
        return array_fields.strides(a)[0]
    return -1


@loop
def unary(block: Block, x: Object) -> Object:
    """Return a ufunc of one array; null where the call has to take its way in Python."""
    record = cast(block[HEAD.index("record")], Record)
    if not is_array(record, x):
        return null(Object)
    plan = plan_of(block, word_of(record, x))
    if plan == 0:
        return null(Object)
    if busy(record) != 0:
        return null(Object)
    a = get(x, DATA)
    count = size_of(a)
    if count > SMALL:
        return null(Object)
    step = step_of(a, plan[ENTRY.index("size")])
    if (step < 0) | (plan[ENTRY.index("loop")] == 0):
        return by_numpy(record, block, cast(plan[ENTRY.index("word")], Object), a, a)
    steps = stack(i64, 3, 8)
    steps[0], steps[1] = step, plan[ENTRY.index("result_size")]
    return by_loop(record, plan, a, count, array_fields.data(a, i8), null(Object), steps)


@loop
def same_shape(a: Object, b: Object) -> i64:
    """Return 1 if two native arrays have the same shape, else 0."""
    ndim = array_fields.ndim(a)
    if ndim != array_fields.ndim(b):
        return 0
    first, second = array_fields.shape(a), array_fields.shape(b)
    for k in range(ndim):
        if first[k] != second[k]:
            return 0
    return 1


@loop
def word_of_operand(record: Record, block: Block, x: Object, kind: i64) -> u64:
    """Return the dispatch word of an operand; all bits where it is none."""
    if kind == ARRAY:
        return word_of(record, x)
    if kind == OTHER:
        return ALL_BITS
    return u64(block[kind + (HEAD.index("float") - _FLOAT)])


@loop
def binary(block: Block, x: Object, y: Object) -> Object:
    """Return a ufunc of two operands; null where the call has to take its way in Python."""
    record = cast(block[HEAD.index("record")], Record)
    kinds = kind_of(record, x), kind_of(record, y)
    if (kinds[0] != ARRAY) & (kinds[1] != ARRAY):
        return null(Object)
    plan = plan_of(block, word_of_operand(record, block, x, kinds[0]) | word_of_operand(record, block, y, kinds[1]))
    if plan == 0:
        return null(Object)
    if busy(record) != 0:
        return null(Object)
    size, steps = plan[ENTRY.index("size")], stack(i64, 3, 8)
    word = cast(plan[ENTRY.index("word")], Object)
    steps[2] = plan[ENTRY.index("result_size")]
    looped = plan[ENTRY.index("loop")] != 0
    if (kinds[0] == ARRAY) & (kinds[1] == ARRAY):
        a, b = get(x, DATA), get(y, DATA)
        counts = size_of(a), size_of(b)
        if (counts[0] > SMALL) | (counts[1] > SMALL) | (counts[0] * counts[1] > SMALL * SMALL):
            return null(Object)
        steps[0], steps[1] = step_of(a, size), step_of(b, size)
        if looped & (steps[0] >= 0) & (steps[1] >= 0):
            starts = array_fields.data(a, i8), array_fields.data(b, i8)
            if same_shape(a, b) != 0:
                return by_loop(record, plan, a, counts[0], *starts, steps)
            if array_fields.ndim(b) == 0:
                steps[1] = 0
                return by_loop(record, plan, a, counts[0], *starts, steps)
            if array_fields.ndim(a) == 0:
                steps[0] = 0
                return by_loop(record, plan, b, counts[1], *starts, steps)
        if counts[0] * counts[1] > SMALL:
            return null(Object)
        return by_numpy(record, block, word, a, b)
    form, number = plan[ENTRY.index("number")], stack(i64, 1, 8)
    if kinds[0] == ARRAY:
        a = get(x, DATA)
        count = size_of(a)
        if count > SMALL:
            return null(Object)
        steps[0], steps[1] = step_of(a, size), 0
        if looped & (form != 0) & (steps[0] >= 0):
            if stored(record, y, kinds[1], form, number) != 0:
                return by_loop(record, plan, a, count, array_fields.data(a, i8), cast(number, Object), steps)
        return by_numpy(record, block, word, a, y)
    b = get(y, DATA)
    count = size_of(b)
    if count > SMALL:
        return null(Object)
    steps[0], steps[1] = 0, step_of(b, size)
    if looped & (form != 0) & (steps[1] >= 0):
        if stored(record, x, kinds[0], form, number) != 0:
            return by_loop(record, plan, b, count, cast(number, Object), array_fields.data(b, i8), steps)
    return by_numpy(record, block, word, x, b)


@loop
def call_ufunc(self: Object, arguments: Record, count: i64, names: Object, *, place: int) -> Object:
    """Call a ufunc, as the vectorcall protocol of PEP 590 gives the arguments; its block is at ``place``."""
    block = cast(get(self, place), Block)
    record = cast(block[HEAD.index("record")], Record)
    if names == 0:
        given = count & _COUNT
        if given == block[HEAD.index("operands")]:
            made: Object = null(Object)
            if given == 1:
                made = unary(block, arguments[0])
            else:
                made = binary(block, arguments[0], arguments[1])
            if made != 0:
                return made
    general = cast(block[HEAD.index("general")], Object)
    return run(record, "PyObject_Vectorcall", general, arguments, count, names, returns=Object)
