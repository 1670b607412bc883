# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""Functions whose small calls NumPy's own functions compute (Note [Quick calls of functions]).

An entry passes its arguments on, with the native array of each array. Variables hold the native arrays while NumPy's
function runs, because it may run code of users, which may take them away.
"""

import cython
import numpy as np
from cython.cimports import numpy as cnp
from cython.cimports.tenkey.core.compiled.handles import ARRAY, Handle, bits_of, native, tenkey_get
from cython.cimports.tenkey.core.compiled.slots import (
    PY_VECTORCALL_ARGUMENTS_OFFSET,
    Entry,
    PyObject,
    is_plain_state,
    on_native,
    use_vectorcall,
    vectorcall,
    view,
)

cnp.import_array()

DEEPEST = cython.declare(cython.int, 32)  # lists in lists

FLOAT64 = cython.declare(type, np.float64)
INT64 = cython.declare(type, np.int64)

# the kinds of arguments
ARRAY_ONLY = cython.declare(cython.char, b"a")
ARRAY_OR_NUMBER = cython.declare(cython.char, b"~")
ARRAYS = cython.declare(cython.char, b"@")
NUMBER = cython.declare(cython.char, b"#")
NUMBERS = cython.declare(cython.char, b"[")
TEXT = cython.declare(cython.char, b"!")
PLAIN = cython.declare(cython.char, b".")


@cython.final
@cython.cclass
class NativeEntry(Entry):
    """A function with ``general``, the call in Python; ``prepare(entry)``, at the first call, may call ``serve``."""

    def __init__(self, general, prepare):
        self.general = general
        self.prepare = prepare
        self.vectorcall = cython.cast(cython.p_void, called)

    def serve(self, function, kinds: str, further: str, least, names, known, word, limit, largest, is_view: bool):
        """Let a function of NumPy compute calls.

        ``kinds`` has a character for each positional argument, ``further`` one for any more of them, or "": ``a`` is an
        array, ``~`` an array or number, ``@`` a list of arrays, ``#`` a number, ``[`` numbers in nested lists, ``!``
        text, ``.`` anything but a tensor. At least ``least`` of them must be given, and at most 4. The keywords
        ``names`` are of the last kind. ``known[union of words]`` says whether NumPy's result is that of the operators,
        unless it is None; ``word`` is that of an array that is made of numbers, else None. ``limit`` bounds the number
        of elements of the operands, ``largest`` those of the result.
        """
        k: cython.int
        self.least = least
        self.most = 4 if further else min(len(kinds), 4)
        for k in range(4):
            self.kinds[k] = ord((kinds + 4 * further)[k]) if k < self.most else 0
        self.names = frozenset(names)
        self.known = known
        self.word = word
        self.limit = limit
        self.largest = largest
        self.is_view = is_view
        self.is_zeros = function is np.zeros
        self.function = function

    def forget(self):
        """Ask again whether NumPy's function is right, after a registration."""
        self.seen = None


@cython.cfunc
def called(
    entry: NativeEntry,
    args: cython.pointer(cython.pointer(PyObject)),
    flags: cython.size_t,
    names: cython.pointer(PyObject),
):
    """Call an entry."""
    if entry.prepare is not None:
        entry.prepare(entry)
        entry.prepare = None
    if entry.function is not None:
        count: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET)
        result = computed(entry, args, count, None if names == cython.NULL else cython.cast(tuple, names))
        if result is not None:
            return result
    return vectorcall(entry.general, args, flags, names)


@cython.cfunc
def computed(entry: NativeEntry, args: cython.pointer(cython.pointer(PyObject)), count: cython.Py_ssize_t, names):
    """Call NumPy's function; return None if the call must run in Python."""
    given: cython.pointer(PyObject)[8]
    keywords: cython.Py_ssize_t = 0 if names is None else len(cython.cast(tuple, names))
    k: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    word = entry.word
    first = second = third = fourth = None
    if count < entry.least or count > entry.most or count + keywords > 8 or not is_plain_state():
        return None
    for k in range(count):
        given[k] = args[k]
        kind: cython.char = entry.kinds[k]
        value = cython.cast(object, args[k])
        if type(value) is ARRAY and (kind == ARRAY_ONLY or kind == ARRAY_OR_NUMBER):
            word = united(word, cython.cast(Handle, value))
            held = native(cython.cast(Handle, value))
            if held is None:
                return None
            size += cnp.PyArray_SIZE(cython.cast(cnp.ndarray, held))
        elif kind == ARRAYS and (type(value) is list or type(value) is tuple):
            natives: list = []
            for one in value:
                if type(one) is not ARRAY:
                    return None
                word = united(word, cython.cast(Handle, one))
                held = native(cython.cast(Handle, one))
                if held is None:
                    return None
                size += cnp.PyArray_SIZE(cython.cast(cnp.ndarray, held))
                natives.append(held)
            held = natives
        elif is_allowed(kind, value):
            continue
        else:
            return None
        given[k] = cython.cast(cython.pointer(PyObject), held)
        if k == 0:
            first = held
        elif k == 1:
            second = held
        elif k == 2:
            third = held
        else:
            fourth = held
    for k in range(keywords):
        given[count + k] = args[count + k]
        if cython.cast(tuple, names)[k] not in entry.names or isinstance(cython.cast(object, args[count + k]), Handle):
            return None
    if size > entry.limit or (word is not entry.seen and not is_known(entry, word)):
        return None
    data = zeros(cython.cast(object, args[0]), entry.largest) if entry.is_zeros and count + keywords == 1 else None
    if data is None:
        data = attempt(
            entry.function, given, count, cython.NULL if names is None else cython.cast(cython.pointer(PyObject), names)
        )
    if data is None:  # the call in Python explains it
        return None
    if entry.is_view:
        return view(cython.cast(Handle, cython.cast(object, args[0])), data)
    if entry.largest and cnp.PyArray_Check(data) and cnp.PyArray_SIZE(cython.cast(cnp.ndarray, data)) > entry.largest:
        return None
    return on_native(data)


@cython.cfunc
def zeros(shape, largest: cython.Py_ssize_t):
    """Return what ``numpy.zeros`` returns for a small shape, without its parsing of arguments; else None."""
    dims: cnp.npy_intp[8]
    count: cython.Py_ssize_t = len(cython.cast(tuple, shape)) if type(shape) is tuple else 1
    size: cython.Py_ssize_t = 1
    k: cython.Py_ssize_t
    if count > 8:
        return None
    for k in range(count):
        length = cython.cast(tuple, shape)[k] if type(shape) is tuple else shape
        dims[k] = bits_of(length)  # of anything but an int: more than any length
        if cython.cast(cython.ulonglong, dims[k]) > cython.cast(cython.ulonglong, largest):
            return None
        size *= dims[k]
        if size > largest:
            return None
    return cnp.PyArray_ZEROS(cython.cast(cython.int, count), dims, cnp.NPY_DOUBLE, 0)


@cython.cfunc
@cython.inline
def united(word, x: Handle):
    """Return a union of words; None is that of no tensors."""
    own = tenkey_get(x, 1)
    return own if word is None or own is word else word | own


@cython.cfunc
def is_known(entry: NativeEntry, word) -> cython.bint:
    """Return whether NumPy's function is right for a union of words, and keep the word if it is."""
    if entry.known is not None:
        found: cython.pointer(PyObject) = known_value(entry.known, word)
        if found == cython.NULL:
            return entry.known[word]
        if cython.cast(object, found) is not True:
            return False
    entry.seen = word
    return True


@cython.cfunc
@cython.exceptval(check=False)
def is_number(value) -> cython.bint:
    """Return whether a value is a Python number, a float64 or an int64."""
    kind = type(value)
    return kind is float or kind is int or kind is bool or kind is complex or kind is FLOAT64 or kind is INT64


@cython.cfunc
@cython.exceptval(check=False)
def are_numbers(values, depth: cython.int) -> cython.bint:
    """Return whether a value is a number, or consists of lists and tuples of them."""
    k: cython.Py_ssize_t
    if type(values) is list and depth:
        for k in range(len(cython.cast(list, values))):
            if not are_numbers(cython.cast(list, values)[k], depth - 1):
                return False
        return True
    if type(values) is tuple and depth:
        for k in range(len(cython.cast(tuple, values))):
            if not are_numbers(cython.cast(tuple, values)[k], depth - 1):
                return False
        return True
    return is_number(values)


@cython.cfunc
@cython.exceptval(check=False)
def is_allowed(kind: cython.char, value) -> cython.bint:
    """Return whether a value is of a kind that is passed on as it is."""
    if kind == PLAIN:
        return not isinstance(value, Handle)
    if kind == ARRAY_OR_NUMBER or kind == NUMBER:
        return is_number(value)
    if kind == NUMBERS:
        return are_numbers(value, DEEPEST)
    return kind == TEXT and type(value) is str


_empty = cython.declare(NativeEntry, NativeEntry.__new__(NativeEntry))
use_vectorcall(_empty, cython.address(_empty.vectorcall))
