# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""Compute planned calls: elementwise operations and small products.

Each function takes a table and the arguments of a call and returns the result, or None where the call has to go to
Python; then ``missed`` is the union of words for which a plan is to be made, or NO_WORD. Nothing has changed by then.
"""

import cython
import numpy as np
from cython.cimports import numpy as cnp
from cython.cimports.cpython.exc import PyErr_Occurred
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.libc.string import memcpy
from cython.cimports.tenkey.core.compiled.handles import (
    ARRAY,
    FLOAT,
    INT,
    NDARRAY,
    NO_WORD,
    RECORDED,
    STORAGE,
    TENSOR,
    Handle,
    Plan,
    Table,
    native,
    own_word,
    tenkey_get,
    usable,
    word_of,
    wrapped,
)
from cython.cimports.tenkey.core.compiled.large import (
    broadcast,
    compute,
    compute_into,
    driven,
    fits,
    may_meet,
    new_from_descr,
)
from cython.cimports.tenkey.core.compiled.recording import record

cnp.import_array()
cnp.import_ufunc()

NOTHING = cython.declare(tuple, ())
FLOAT64 = cython.declare(type, np.float64)
FLOATING = cython.declare(type, np.floating)
EXACT = cython.declare(object, 1 << 53)  # ints up to here are exact as float64, so that float32 rounds them once
REFUSED = cython.declare(tuple, (ValueError, TypeError, RuntimeError, OverflowError, IndexError))

QUIETLY = cython.declare(object, None)  # calls ufuncs without warnings: see ``configure``
STORAGE_OF = cython.declare(object, None)
INT64 = cython.declare(type, np.int64)
SCALAR_CLASSES = cython.declare(tuple, ())
SCALAR_WORDS = cython.declare(cython.ulonglong[16])


def configure(quietly, storage_of, words):
    """Receive the functions of core that the operations call, and the words of CPU tensors by dtype."""
    global QUIETLY, STORAGE_OF, SCALAR_CLASSES
    QUIETLY, STORAGE_OF, SCALAR_CLASSES = quietly, storage_of, tuple([dtype.type for dtype in words])
    k: cython.Py_ssize_t
    for k, word in enumerate(words.values()):
        SCALAR_WORDS[k] = word


# ---- operands


@cython.cfunc
@cython.exceptval(check=False)
def operand_word(kind: type, x, table: Table) -> cython.ulonglong:
    """Return what an operand adds to the union of words; NO_WORD for one that no plan covers."""
    own: type = type(x)
    if own is kind or (own is ARRAY and kind is TENSOR):
        return own_word(cython.cast(Handle, x))
    if own is float:
        return FLOAT
    if own is int:
        return INT
    if own is FLOAT64:
        return FLOAT if table.float64_word is None else cython.cast(cython.ulonglong, table.float64_word)
    if table.float64_word is not None:  # by NumPy's rules
        k: cython.Py_ssize_t
        for k in range(len(SCALAR_CLASSES)):
            if SCALAR_CLASSES[k] is own:
                return SCALAR_WORDS[k]
    return NO_WORD


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def step_of(a: cnp.ndarray, plan: Plan) -> cython.Py_ssize_t:
    """Return the distance of neighbours in bytes; -1 for arrays that the loop of a plan does not take.

    These have another dtype, or elements that are not at equal distances in C order.
    """
    flags: cython.int = cnp.PyArray_FLAGS(a)
    if cnp.PyArray_TYPE(a) != plan.type or not flags & cnp.NPY_ARRAY_ALIGNED:
        return -1
    if flags & cnp.NPY_ARRAY_C_CONTIGUOUS:
        return plan.size
    if cnp.PyArray_NDIM(a) == 1:
        return cnp.PyArray_STRIDES(a)[0]
    return -1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def same_shape(a: cnp.ndarray, b: cnp.ndarray) -> cython.bint:
    """Return whether two arrays have the same shape."""
    k: cython.int
    n: cython.int = cnp.PyArray_NDIM(a)
    if n != cnp.PyArray_NDIM(b):
        return False
    for k in range(n):
        if cnp.PyArray_DIMS(a)[k] != cnp.PyArray_DIMS(b)[k]:
            return False
    return True


@cython.cfunc
def store_number(plan: Plan, number, room: cython.p_double) -> cython.bint:
    """Write a Python number in the dtype of the loop; return whether that was possible without a loss."""
    form: cython.int = plan.number
    value: cython.double
    whole: cython.longlong
    is_int: cython.bint = type(number) is int or type(number) is INT64
    if form == 0 or (form == 3 and not is_int) or not (is_number(number) or isinstance(number, FLOATING)):
        return False  # float(number) would drop the imaginary part
    try:
        if form == 3:
            whole = number
            cython.cast(cython.p_longlong, room)[0] = whole
            return True
        if is_int and (form == 2 or form == 5) and not -EXACT <= number <= EXACT:
            return False
        value = number
    except OverflowError:
        return False
    room[1] = 0
    if form == 1 or form == 4:
        room[0] = value
    else:
        cython.cast(cython.p_float, room)[0] = cython.cast(cython.float, value)
        cython.cast(cython.p_float, room)[1] = 0
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_number(x) -> cython.bint:
    """Return whether a number has a value of 64 bits that Python can read without a loss."""
    return type(x) is float or type(x) is int or type(x) is FLOAT64 or type(x) is INT64


@cython.cfunc
@cython.exceptval(check=False)
def takes_number(plan: Plan, number) -> cython.bint:
    """Return whether NumPy's ufunc converts a number exactly as the operator does."""
    if type(number) is not int and type(number) is not float and type(number) is not FLOAT64:
        return True  # NumPy's scalars of other dtypes
    if type(number) is int:
        return plan.number == 0 or plan.number == 3 or plan.number == 1 or plan.number == 4
    return plan.number != 3 and plan.number != 0


@cython.cfunc
def new_like(plan: Plan, shaped: cnp.ndarray) -> cnp.ndarray:
    """Return a new array in C order with the shape of another one and the dtype of the result."""
    return cython.cast(cnp.ndarray, empty(plan.dtype, cnp.PyArray_NDIM(shaped), cnp.PyArray_DIMS(shaped)))


@cython.cfunc
def empty(dtype: cnp.dtype, ndim: cython.int, dims: cython.pointer(cnp.npy_intp)):
    """Return a new array in C order."""
    Py_INCREF(dtype)  # PyArray_NewFromDescr steals the reference
    return new_from_descr(NDARRAY, dtype, ndim, dims, cython.NULL, cython.NULL, 0, cython.NULL)


@cython.cfunc
@cython.exceptval(-1, check=False)
def run(plan: Plan, count: cnp.npy_intp, first: cython.p_char, step1: cnp.npy_intp, second: cython.p_char,
        step2: cnp.npy_intp, out: cython.p_char, step3: cnp.npy_intp) -> cython.int:  # fmt: skip
    """Run the inner loop; ``second`` is null for one operand. An error of the loop (integer powers) is raised."""
    places: cython.p_char[3]
    steps: cnp.npy_intp[3]
    places[0], steps[0] = first, step1
    if second != cython.NULL:
        places[1], steps[1] = second, step2
        places[2], steps[2] = out, step3
    else:
        places[1], steps[1] = out, step3
    plan.loop(places, cython.address(count), steps, plan.context)
    return -1 if PyErr_Occurred() != cython.NULL else 0


@cython.cfunc
def called(plan: Plan, a, b) -> cnp.ndarray:
    """Return what NumPy's ufunc computes, for layouts that the loop does not take; None where it refuses."""
    if plan.call is None:
        return None
    try:
        data = QUIETLY(plan.call, a) if b is None else QUIETLY(plan.call, a, b)
    except REFUSED:  # the call in Python explains it
        return None
    if type(data) is not NDARRAY:
        data = np.asarray(data)
    result: cnp.ndarray = data
    return result if cnp.PyArray_TYPE(result) == plan.dtype.type_num else None


@cython.cfunc
def number_array(plan: Plan, number) -> cnp.ndarray:
    """Return a Python number as an array of the dtype of the loop, or None if that is not possible without a loss."""
    room: cython.double[2]
    if plan.loop == cython.NULL or not is_number(number) or not store_number(plan, number, room):
        return None
    made: cnp.ndarray = empty(cnp.PyArray_DescrFromType(plan.type), 0, cython.NULL)
    memcpy(cnp.PyArray_BYTES(made), room, plan.size)
    return made


@cython.cfunc
def large_pair(plan: Plan, x, y, a, b) -> cnp.ndarray:
    """Return the array of an elementwise result beyond the limit; the array of a number is None."""
    if plan.large is None:
        return None
    if a is None:
        a = number_array(plan, x)
    if b is None:
        b = number_array(plan, y)
    if a is None or b is None or not fits(a, plan) or not fits(b, plan) or not broadcast(a, b):
        return None  # the call in Python explains it
    return compute(plan, a, b)


@cython.cfunc
def result_of(kind: type, plan: Plan, data: cnp.ndarray, operands: tuple):
    """Return a result and record it; for a 0-d one of arrays NumPy's scalar (Note [Scalars and 0-d arrays])."""
    if kind is ARRAY and plan.recipe is None and cnp.PyArray_NDIM(data) == 0:
        return cnp.PyArray_ToScalar(cnp.PyArray_DATA(data), data)
    result: Handle = wrapped(kind, data, plan.word, None)
    if plan.recipe is not None:
        record(plan.recipe, result, operands, NOTHING)
    return result


# ---- elementwise


@cython.cfunc
def unary(table: Table, kind: type, x, missed: cython.p_ulonglong):
    """Compute one operand."""
    if table.float64_word is not None and (type(x) is float or type(x) is FLOAT64):
        return of_number(table, x, missed)
    missed[0] = operand_word(kind, x, table) if isinstance(x, Handle) else NO_WORD
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    a: cnp.ndarray = native(cython.cast(Handle, x))
    if a is None:
        return None
    step: cython.Py_ssize_t = -1
    if plan.loop != cython.NULL:
        step = step_of(a, plan)
    out: cnp.ndarray
    if cnp.PyArray_SIZE(a) > plan.limit:
        out = compute(plan, a, None) if fits(a, plan) else None
        if out is None:
            return None
    elif step < 0:
        out = called(plan, a, None)
        if out is None:
            return None
    else:
        out = new_like(plan, a)
        run(plan, cnp.PyArray_SIZE(a), cnp.PyArray_BYTES(a), step, cython.NULL, 0, cnp.PyArray_BYTES(out),
            plan.result_size)  # fmt: skip
    return result_of(kind, plan, out, (x,) if plan.recipe is not None else NOTHING)


@cython.cfunc
def of_number(table: Table, x, missed: cython.p_ulonglong):
    """Compute the scalar that NumPy's rules give for a number of 64 bits: Note [Scalars and 0-d arrays]."""
    missed[0] = table.float64_word
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    if plan.loop == cython.NULL or plan.type != cnp.NPY_DOUBLE or plan.result_size > 16:
        return None
    value: cython.double = x
    room: cython.double[2]
    run(plan, 1, cython.cast(cython.p_char, cython.address(value)), plan.size, cython.NULL, 0,
        cython.cast(cython.p_char, room), plan.result_size)  # fmt: skip
    return new_scalar(room, plan.dtype, None)


@cython.cfunc
def binary(table: Table, kind: type, x, y, missed: cython.p_ulonglong):
    """Compute two operands, at least one of which is a handle."""
    key: cython.ulonglong = operand_word(kind, x, table)
    other: cython.ulonglong = operand_word(kind, y, table)
    missed[0] = NO_WORD if key == NO_WORD or other == NO_WORD else key | other
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    out: cnp.ndarray = pair(plan, x, y)
    if out is None:
        return None
    return result_of(kind, plan, out, (x, y) if plan.recipe is not None else NOTHING)


@cython.cfunc
def pair(plan: Plan, x, y) -> cnp.ndarray:
    """Return the array of an elementwise result."""
    a: cnp.ndarray = None
    b: cnp.ndarray = None
    c1: cython.Py_ssize_t = 1
    c2: cython.Py_ssize_t = 1
    s1: cython.Py_ssize_t = 0
    s2: cython.Py_ssize_t = 0
    p1: cython.p_char
    p2: cython.p_char
    room: cython.double[2]
    if isinstance(x, Handle):
        a = native(cython.cast(Handle, x))
        if a is None:
            return None
        c1 = cnp.PyArray_SIZE(a)
        s1 = step_of(a, plan)
        s1 = 0 if s1 > 0 and cnp.PyArray_NDIM(a) == 0 else s1  # a number repeats, as in NumPy
    if isinstance(y, Handle):
        b = native(cython.cast(Handle, y))
        if b is None:
            return None
        c2 = cnp.PyArray_SIZE(b)
        s2 = step_of(b, plan)
        s2 = 0 if s2 > 0 and cnp.PyArray_NDIM(b) == 0 else s2
    if a is None and b is None:
        return None
    if c1 > plan.limit or c2 > plan.limit:
        return large_pair(plan, x, y, a, b)
    if plan.loop == cython.NULL:
        s1 = -1
    shaped: cnp.ndarray = a if a is not None else b
    if a is None or b is None:
        number = y if b is None else x
        if s1 < 0 or s2 < 0 or not is_number(number) or not store_number(plan, number, room):
            if plan.loop != cython.NULL and not takes_number(plan, number):
                return None
            return called(plan, x if a is None else a, y if b is None else b)
        p1 = cython.cast(cython.p_char, room) if a is None else cnp.PyArray_BYTES(a)
        p2 = cython.cast(cython.p_char, room) if b is None else cnp.PyArray_BYTES(b)
    else:
        if s1 < 0 or s2 < 0 or same_shape(a, b):
            pass
        elif cnp.PyArray_NDIM(b) == 0:
            s2 = 0
        elif cnp.PyArray_NDIM(a) == 0:
            s1, shaped = 0, b
        else:
            s1 = -1
        if s1 < 0 or s2 < 0:
            if c1 * c2 <= plan.limit:
                return called(plan, a, b)
            return driven(plan, a, b) if plan.large is not None and fits(a, plan) and fits(b, plan) else None
        p1, p2 = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b)
    out: cnp.ndarray = new_like(plan, shaped)
    try:
        run(plan, cnp.PyArray_SIZE(shaped), p1, s1, p2, s2, cnp.PyArray_BYTES(out), plan.result_size)
    except ValueError:  # integers to a negative power
        return None
    return out


@cython.cfunc
@cython.exceptval(-1, check=False)
def may_change(x: Handle) -> cython.bint:
    """Return whether a tensor can be changed in place without asking autograd."""
    root = tenkey_get(x, 2)
    return not isinstance(root, Handle) or not word_of(cython.cast(Handle, root)) & RECORDED


@cython.cfunc
@cython.exceptval(-1, check=False)
def changed(x: Handle) -> cython.int:
    """Count a change of the memory of a tensor."""
    storage = tenkey_get(x, 2)
    if type(storage) is not STORAGE:
        storage = STORAGE_OF(x)
    storage.version += 1
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def update(table: Table, x: Handle, y, missed: cython.p_ulonglong) -> cython.bint:
    """Carry out ``x += y`` and its like; return False where nothing was done."""
    kind: type = type(x)
    key: cython.ulonglong = word_of(x)
    other: cython.ulonglong = operand_word(kind, y, table)
    missed[0] = NO_WORD if key == NO_WORD or other == NO_WORD else key | other
    plan: Plan = usable(table, missed)
    if plan is None:
        return False
    missed[0] = NO_WORD
    a: cnp.ndarray = native(x)
    if a is None or not cnp.PyArray_ISWRITEABLE(a) or not may_change(x):
        return False
    if cnp.PyArray_SIZE(a) > plan.limit:
        return large_update(plan, x, y, a)
    s1: cython.Py_ssize_t = step_of(a, plan)
    s2: cython.Py_ssize_t = 0
    p2: cython.p_char
    room: cython.double[2]
    b: cnp.ndarray = None
    if isinstance(y, Handle):
        b = native(cython.cast(Handle, y))
        if b is None:
            return False
        s2 = step_of(b, plan)
        p2 = cnp.PyArray_BYTES(b)
        if not same_shape(a, b):
            if cnp.PyArray_NDIM(b) != 0:
                return False
            s2 = 0
        if s1 <= 0 or s2 < 0 or (overlap(a, b) and (p2 != cnp.PyArray_BYTES(a) or s1 != s2)):
            return False
    elif s1 <= 0 or not store_number(plan, y, room):
        return False
    else:
        p2 = cython.cast(cython.p_char, room)
    run(plan, cnp.PyArray_SIZE(a), cnp.PyArray_BYTES(a), s1, p2, s2, cnp.PyArray_BYTES(a), s1)
    changed(x)
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def large_update(plan: Plan, x: Handle, y, a: cnp.ndarray) -> cython.bint:
    """Carry out ``x += y`` and its like beyond the limit; return False where nothing was done."""
    if plan.large is None or not fits(a, plan) or not cnp.PyArray_FLAGS(a) & cnp.NPY_ARRAY_C_CONTIGUOUS:
        return False
    b: cnp.ndarray = native(cython.cast(Handle, y)) if isinstance(y, Handle) else number_array(plan, y)
    if b is None or not fits(b, plan) or (cnp.PyArray_NDIM(b) != 0 and not same_shape(a, b)) or may_meet(a, b):
        return False
    try:
        if not compute_into(plan, a, b):
            return False
    except BaseException:  # a signal's, perhaps after the computation
        changed(x)
        raise
    changed(x)
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def add_to(plan: Plan, x: Handle, y: Handle) -> cython.bint:
    """Write the result for two arrays of one shape into the first, and count no version; return whether it was done."""
    a: cnp.ndarray = native(x)
    b: cnp.ndarray = native(y)
    if a is None or b is None or not cnp.PyArray_ISWRITEABLE(a) or cnp.PyArray_SIZE(a) > plan.limit:
        return False
    s1: cython.Py_ssize_t = step_of(a, plan)
    s2: cython.Py_ssize_t = step_of(b, plan)
    if s1 <= 0 or s2 < 0 or not same_shape(a, b) or overlap(a, b):
        return False
    run(plan, cnp.PyArray_SIZE(a), cnp.PyArray_BYTES(a), s1, cnp.PyArray_BYTES(b), s2, cnp.PyArray_BYTES(a), s1)
    return True


@cython.cfunc
@cython.exceptval(check=False)
def overlap(a: cnp.ndarray, b: cnp.ndarray) -> cython.bint:
    """Return whether the memory from the first to the last element of two arrays has a byte in common."""
    return not (last_of(a) < cnp.PyArray_BYTES(b) or last_of(b) < cnp.PyArray_BYTES(a))


@cython.cfunc
@cython.exceptval(check=False)
def last_of(a: cnp.ndarray) -> cython.p_char:
    """Return the address of the last byte; strides are not negative."""
    place: cython.p_char = cnp.PyArray_BYTES(a) + cnp.PyArray_ITEMSIZE(a) - 1
    k: cython.int
    for k in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIMS(a)[k] > 0:
            place += (cnp.PyArray_DIMS(a)[k] - 1) * cnp.PyArray_STRIDES(a)[k]
    return place


@cython.cfunc
def select(table: Table, condition, x, y, missed: cython.p_ulonglong):
    """Compute ``where(condition, x, y)`` for two tensors of one dtype."""
    missed[0] = NO_WORD
    if not (isinstance(condition, Handle) and isinstance(x, Handle) and isinstance(y, Handle)):
        return None
    k1: cython.ulonglong = operand_word(TENSOR, condition, table)
    k2: cython.ulonglong = operand_word(TENSOR, x, table)
    k3: cython.ulonglong = operand_word(TENSOR, y, table)
    if k1 == NO_WORD or k2 == NO_WORD or k3 == NO_WORD:
        return None
    missed[0] = k1 | k2 | k3
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    c: cnp.ndarray = native(cython.cast(Handle, condition))
    a: cnp.ndarray = native(cython.cast(Handle, x))
    b: cnp.ndarray = native(cython.cast(Handle, y))
    if c is None or a is None or b is None or cnp.PyArray_TYPE(c) != cnp.NPY_BOOL:
        return None
    if cnp.PyArray_TYPE(a) != plan.dtype.type_num or cnp.PyArray_TYPE(b) != plan.dtype.type_num:
        return None
    if cnp.PyArray_SIZE(c) * cnp.PyArray_SIZE(a) * cnp.PyArray_SIZE(b) > plan.limit:
        if not (same_shape(a, b) and same_shape(a, c) and cnp.PyArray_SIZE(c) <= plan.limit):
            return None
    try:
        data = chosen(plan, c, a, b) if same_shape(a, b) and same_shape(a, c) else cnp.PyArray_Where(c, a, b)
    except REFUSED:
        return None
    if type(data) is not NDARRAY:
        return None
    result: Handle = wrapped(TENSOR, data, plan.word, None)
    if plan.recipe is not None:
        record(plan.recipe, result, (condition, x, y), NOTHING)
    return result


@cython.cfunc
def chosen(plan: Plan, c: cnp.ndarray, a: cnp.ndarray, b: cnp.ndarray):
    """Return the elements of ``a`` where ``c`` is true, else those of ``b``; all of one shape."""
    size: cython.Py_ssize_t = plan.result_size
    s1: cython.Py_ssize_t = cnp.PyArray_STRIDES(c)[0] if cnp.PyArray_NDIM(c) == 1 else 1
    s2: cython.Py_ssize_t = step_of(a, plan)
    s3: cython.Py_ssize_t = step_of(b, plan)
    if cnp.PyArray_NDIM(c) != 1 and not cnp.PyArray_FLAGS(c) & cnp.NPY_ARRAY_C_CONTIGUOUS:
        s1 = -1
    if s1 < 0 or s2 < 0 or s3 < 0:
        return cnp.PyArray_Where(c, a, b)
    out: cnp.ndarray = new_like(plan, a)
    k: cython.Py_ssize_t
    source: cython.p_char
    for k in range(cnp.PyArray_SIZE(a)):
        source = cnp.PyArray_BYTES(a) + k * s2 if cnp.PyArray_BYTES(c)[k * s1] else cnp.PyArray_BYTES(b) + k * s3
        memcpy(cnp.PyArray_BYTES(out) + k * size, source, size)
    return out


# ---- products


@cython.cfunc
def product(table: Table, kind: type, x, y, missed: cython.p_ulonglong):
    """Multiply two small matrices of one dtype."""
    missed[0] = NO_WORD
    if not (isinstance(x, Handle) and isinstance(y, Handle)):
        return None
    k1: cython.ulonglong = operand_word(kind, x, table)
    k2: cython.ulonglong = operand_word(kind, y, table)
    if k1 == NO_WORD or k2 == NO_WORD:
        return None
    missed[0] = k1 | k2
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    a: cnp.ndarray = native(cython.cast(Handle, x))
    b: cnp.ndarray = native(cython.cast(Handle, y))
    if a is None or b is None or cnp.PyArray_NDIM(a) != 2 or cnp.PyArray_NDIM(b) != 2:
        return None
    if cnp.PyArray_DIMS(a)[1] != cnp.PyArray_DIMS(b)[0] or not fits(a, plan) or not fits(b, plan):
        return None
    if cnp.PyArray_SIZE(a) > plan.limit or cnp.PyArray_SIZE(b) > plan.limit:
        data = compute(plan, a, b)
    else:
        try:
            data = QUIETLY(a.dot, b)
        except REFUSED:
            return None
    if type(data) is not NDARRAY:
        return None
    result: Handle = wrapped(kind, data, plan.word, None)
    if plan.recipe is not None:
        record(plan.recipe, result, (x, y), NOTHING)
    return result
