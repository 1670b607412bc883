# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True, c_api_binop_methods=True
"""Python's operators, indexing and conversions of tensors in C, and the entries of functions.

``Tensor`` inherits ``Operations``. Its slots serve both classes of tensors, whose rules differ: a ``Slot`` has a table
of plans for ``Tensor`` and one for ``tenkey.numpy.ndarray``. A subclass of either uses the table of its base for the
call in Python, and no plans.
"""

from types import MethodType

import cython
from cython.cimports import numpy as cnp
from cython.cimports.cpython.object import Py_EQ, Py_GT, Py_LE, Py_LT, Py_NE
from cython.cimports.tenkey.core.compiled.handles import (
    ARRAY,
    NDARRAY,
    NO_WORD,
    RECORDED,
    SILENT,
    STATE,
    STORAGE,
    TENSOR,
    Handle,
    Table,
    native,
    state_kind,
    tenkey_get,
    word_of,
    wrapped,
)
from cython.cimports.tenkey.core.compiled.indexing import assign, reshaped, reversed_axes, subscript
from cython.cimports.tenkey.core.compiled.operations import binary, product, select, unary, update
from cython.cimports.tenkey.core.compiled.reductions import reduce

cnp.import_array()

WORDS = cython.declare(dict, {})
DTYPES = cython.declare(list, [None] * 32)  # by their numbers
WORD_OF = cython.declare(list, [0] * 32)


@cython.final
@cython.cclass
class Slot:
    """The tables of an operator: for tensors, and for arrays with NumPy's rules."""

    def set(self, table: Table, of_arrays: bool = False):
        """Install a table."""
        if of_arrays:
            self.arrays = table
        else:
            self.tensors = table

    def get(self, of_arrays: bool = False):
        """Return a table, or None."""
        return self.arrays if of_arrays else self.tensors

    @cython.cfunc
    def of(self, kind: type) -> Table:
        """Return the table of a class that plans serve, or None."""
        if kind is TENSOR:
            return self.tensors
        if kind is ARRAY:
            return self.arrays
        return None

    @cython.cfunc
    def rules_of(self, kind: type) -> Table:
        """Return the table of the rules of any class of tensors."""
        return self.arrays if self.arrays is not None and issubclass(kind, ARRAY) else self.tensors


ADD = cython.declare(Slot, Slot())
SUB = cython.declare(Slot, Slot())
MUL = cython.declare(Slot, Slot())
TRUEDIV = cython.declare(Slot, Slot())
FLOORDIV = cython.declare(Slot, Slot())
MOD = cython.declare(Slot, Slot())
POW = cython.declare(Slot, Slot())
SQUARE = cython.declare(Slot, Slot())
SQRT = cython.declare(Slot, Slot())
RECIPROCAL = cython.declare(Slot, Slot())
MATMUL = cython.declare(Slot, Slot())
AND = cython.declare(Slot, Slot())
OR = cython.declare(Slot, Slot())
XOR = cython.declare(Slot, Slot())
LSHIFT = cython.declare(Slot, Slot())
RSHIFT = cython.declare(Slot, Slot())
LT = cython.declare(Slot, Slot())
LE = cython.declare(Slot, Slot())
EQ = cython.declare(Slot, Slot())
NE = cython.declare(Slot, Slot())
GT = cython.declare(Slot, Slot())
GE = cython.declare(Slot, Slot())
NEG = cython.declare(Slot, Slot())
POS = cython.declare(Slot, Slot())
ABS = cython.declare(Slot, Slot())
INVERT = cython.declare(Slot, Slot())
IADD = cython.declare(Slot, Slot())
ISUB = cython.declare(Slot, Slot())
IMUL = cython.declare(Slot, Slot())
ITRUEDIV = cython.declare(Slot, Slot())
GETITEM = cython.declare(Slot, Slot())
SETITEM = cython.declare(Slot, Slot())
TAKE = cython.declare(Slot, Slot())
PUT = cython.declare(Slot, Slot())
REVERSED = cython.declare(Slot, Slot())
BOOL = cython.declare(Slot, Slot())
FLOAT_OF = cython.declare(Slot, Slot())
INT_OF = cython.declare(Slot, Slot())
INDEX = cython.declare(Slot, Slot())
LEN = cython.declare(Slot, Slot())
SLOTS = {
    "add": ADD, "sub": SUB, "mul": MUL, "truediv": TRUEDIV, "floordiv": FLOORDIV, "mod": MOD, "pow": POW,
    "matmul": MATMUL, "and": AND, "or": OR, "xor": XOR, "lshift": LSHIFT, "rshift": RSHIFT, "lt": LT, "le": LE,
    "eq": EQ, "ne": NE, "gt": GT, "ge": GE, "neg": NEG, "pos": POS, "abs": ABS, "invert": INVERT, "iadd": IADD,
    "isub": ISUB, "imul": IMUL, "itruediv": ITRUEDIV, "getitem": GETITEM, "setitem": SETITEM, "bool": BOOL,
    "float": FLOAT_OF, "int": INT_OF, "index": INDEX, "len": LEN,
}  # fmt: skip
"""The slots by the names of Python's methods without underscores."""
FURTHER = {"square": SQUARE, "sqrt": SQRT, "reciprocal": RECIPROCAL, "take": TAKE, "put": PUT, "T": REVERSED}
"""Tables that slots use beside their own: ufuncs that are powers, selection by arrays of indices, that of ``x.T``."""


def configure(words):
    """Receive the words of CPU tensors by dtype."""
    global WORDS
    WORDS = words
    for dtype, word in words.items():
        DTYPES[dtype.num & 31], WORD_OF[dtype.num & 31] = dtype, word


@cython.cclass
class Operations(Handle):
    """The operators of tensors."""

    def __add__(x, y):
        return operate(ADD, x, y)

    def __sub__(x, y):
        return operate(SUB, x, y)

    def __mul__(x, y):
        return operate(MUL, x, y)

    def __truediv__(x, y):
        return operate(TRUEDIV, x, y)

    def __floordiv__(x, y):
        return operate(FLOORDIV, x, y)

    def __mod__(x, y):
        return operate(MOD, x, y)

    def __pow__(x, y, modulus):
        if modulus is not None:
            return NotImplemented
        return power(x, y)

    def __matmul__(x, y):
        return multiplied(x, y)

    def __and__(x, y):
        return operate(AND, x, y)

    def __or__(x, y):
        return operate(OR, x, y)

    def __xor__(x, y):
        return operate(XOR, x, y)

    def __lshift__(x, y):
        return operate(LSHIFT, x, y)

    def __rshift__(x, y):
        return operate(RSHIFT, x, y)

    def __neg__(self):
        return alone(NEG, self)

    def __pos__(self):
        return alone(POS, self)

    def __abs__(self):
        return alone(ABS, self)

    def __invert__(self):
        return alone(INVERT, self)

    def __iadd__(self, y):
        return in_place(IADD, ADD, self, y)

    def __isub__(self, y):
        return in_place(ISUB, SUB, self, y)

    def __imul__(self, y):
        return in_place(IMUL, MUL, self, y)

    def __itruediv__(self, y):
        return in_place(ITRUEDIV, TRUEDIV, self, y)

    def __richcmp__(self, y, operation: cython.int):
        if operation == Py_LT:
            return operate(LT, self, y)
        if operation == Py_LE:
            return operate(LE, self, y)
        if operation == Py_EQ:
            return operate(EQ, self, y)
        if operation == Py_NE:
            return operate(NE, self, y)
        if operation == Py_GT:
            return operate(GT, self, y)
        return operate(GE, self, y)

    def __hash__(self):
        return object.__hash__(self)

    def __getitem__(self, index):
        missed: cython.ulonglong = NO_WORD
        table: Table = GETITEM.of(type(self))
        if table is None:
            return GETITEM.rules_of(type(self)).general(self, index)
        result = subscript(table, TAKE.of(type(self)), self, index, cython.address(missed))
        if result is not None:
            return result
        return followed(table, table.general(self, index), missed)

    def __setitem__(self, index, value):
        missed: cython.ulonglong = NO_WORD
        table: Table = SETITEM.of(type(self))
        if table is None:
            SETITEM.rules_of(type(self)).general(self, index, value)
            return
        if not assign(table, PUT.of(type(self)), self, index, value, cython.address(missed)):
            followed(table, table.general(self, index, value), missed)

    def __len__(self):
        a: cnp.ndarray = None
        if type(self) is TENSOR or type(self) is ARRAY:
            a = native(self)
        if a is None or cnp.PyArray_NDIM(a) == 0:
            return LEN.rules_of(type(self)).general(self)
        return cnp.PyArray_DIMS(a)[0]

    def __bool__(self):
        item = number_of(self)
        return BOOL.rules_of(type(self)).general(self) if item is None else bool(item)

    def __float__(self):
        item = number_of(self)
        return FLOAT_OF.rules_of(type(self)).general(self) if item is None else float(item)

    def __int__(self):
        item = number_of(self)
        if type(item) is not int and type(item) is not bool:  # floats may be nan or infinite
            return INT_OF.rules_of(type(self)).general(self)
        return int(item)

    def __index__(self):
        return INDEX.rules_of(type(self)).general(self)


@cython.cfunc
@cython.inline
def followed(table: Table, result, missed: cython.ulonglong):
    """Return the result of a call in Python, after making a plan for the next one."""
    if missed != NO_WORD and table.learn is not None:
        table.learn(missed)
    return result


@cython.cfunc
def is_reflected(slot: Slot, x, y) -> cython.bint:
    """Return whether the right operand computes: the only tensor, or of a subclass with other rules."""
    if not isinstance(x, Handle):
        return True
    if (type(x) is TENSOR and type(y) is TENSOR) or not isinstance(y, Handle):
        return False
    return slot.rules_of(type(y)) is not slot.rules_of(type(x)) and issubclass(type(y), type(x))


@cython.cfunc
def in_python(table: Table, x, y, reflected: cython.bint):
    """Call the method in Python, or the reflected one."""
    if not reflected:
        return table.general(x, y)
    return NotImplemented if table.reflected is None else table.reflected(y, x)


@cython.cfunc
def operate(slot: Slot, x, y):
    """Compute a binary operator."""
    missed: cython.ulonglong = NO_WORD
    kind: type = type(x)
    table: Table = slot.of(kind)
    if table is not None and (type(y) is kind or not isinstance(y, Handle)):  # the usual operands
        result = binary(table, kind, x, y, cython.address(missed))
        return followed(table, table.general(x, y), missed) if result is None else result
    reflected: cython.bint = is_reflected(slot, x, y)
    kind = type(y) if reflected else kind
    table = slot.of(kind)
    if table is None:
        return in_python(slot.rules_of(kind), x, y, reflected)
    result = binary(table, kind, x, y, cython.address(missed))
    if result is not None:
        return result
    return followed(table, in_python(table, x, y, reflected), missed)


@cython.cfunc
def power_slot(x: Handle, y) -> Slot:
    """Return the slot of the unary operator that ``x**y`` is in NumPy, or None (``_short_power`` in operators.py)."""
    if type(y) is int and y == 2:
        return SQUARE
    is_root: cython.bint = type(y) is float and y == 0.5
    if not is_root and not (type(y) is int and y == -1):
        return None
    a: cnp.ndarray = native(x)
    if a is None or not (cnp.PyArray_ISFLOAT(a) or cnp.PyArray_ISCOMPLEX(a)):
        return None
    return SQRT if is_root else RECIPROCAL


@cython.cfunc
def power(x, y):
    """Compute ``x**y``; some powers of what is not recorded by other loops, as NumPy's operator does."""
    missed: cython.ulonglong = NO_WORD
    kind: type = type(x)
    if SQUARE.of(kind) is not None:
        slot: Slot = power_slot(cython.cast(Handle, x), y)
        table: Table = None if slot is None else slot.of(kind)
        if kind is TENSOR and word_of(cython.cast(Handle, x)) & RECORDED and state_kind(STATE, SILENT) != 1:
            table = None
        if table is not None:
            result = None
            if slot is SQUARE or cnp.PyArray_NDIM(native(cython.cast(Handle, x))) > 0:  # or it may be a scalar
                result = unary(table, kind, x, cython.address(missed))
            return followed(table, POW.of(kind).general(x, y), missed) if result is None else result
    return operate(POW, x, y)


@cython.cfunc
def multiplied(x, y):
    """Compute ``x @ y``; of tensors as a product of matrices, of arrays as NumPy's ufunc."""
    missed: cython.ulonglong = NO_WORD
    if type(x) is TENSOR and type(y) is TENSOR:
        result = product(MATMUL.tensors, TENSOR, x, y, cython.address(missed))
        return followed(MATMUL.tensors, MATMUL.tensors.general(x, y), missed) if result is None else result
    if type(x) is TENSOR or type(y) is TENSOR:
        reflected: cython.bint = is_reflected(MATMUL, x, y)
        return in_python(MATMUL.rules_of(type(y) if reflected else type(x)), x, y, reflected)
    return operate(MATMUL, x, y)


@cython.cfunc
def alone(slot: Slot, x):
    """Compute a unary operator."""
    missed: cython.ulonglong = NO_WORD
    table: Table = slot.of(type(x))
    if table is None:
        return slot.rules_of(type(x)).general(x)
    result = unary(table, type(x), x, cython.address(missed))
    return followed(table, table.general(x), missed) if result is None else result


@cython.cfunc
def in_place(slot: Slot, functional: Slot, x: Handle, y):
    """Carry out ``x += y`` and its like."""
    missed: cython.ulonglong = NO_WORD
    table: Table = slot.of(type(x))
    if table is None:
        return or_new(slot.rules_of(type(x)).general(x, y), x, y, slot)
    if type(x) is ARRAY:
        a: cnp.ndarray = native(x)
        if a is not None and cnp.PyArray_NDIM(a) == 0 and word_of(x) & RECORDED:
            return operate(functional, x, y)  # Note [In-place operators of arrays]
    if update(table, x, y, cython.address(missed)):
        return x
    return or_new(followed(table, table.general(x, y), missed), x, y, slot)


@cython.cfunc
def or_new(result, x, y, slot: Slot):
    """Return the result of ``x += y``, or of ``x + y`` where that is not implemented.

    Python does so itself for the other operators. ``__iadd__`` is a slot of sequences too, in which a class in Python
    inherits the function of C, and whose result Python returns unseen.
    """
    return x + y if result is NotImplemented and slot is IADD else result


# ---- conversions


@cython.cfunc
def number_of(x: Handle):
    """Return the only element as a Python number; None where Python decides."""
    if (type(x) is not TENSOR and type(x) is not ARRAY) or word_of(x) & RECORDED:  # which is in NO_WORD too
        return None
    a: cnp.ndarray = native(x)
    if a is None or cnp.PyArray_SIZE(a) != 1 or cnp.PyArray_TYPE(a) > cnp.NPY_DOUBLE:
        return None
    return get_element(a, cnp.PyArray_DATA(a))


# ---- results of NumPy as arrays


@cython.cfunc
@cython.exceptval(check=False)
def is_plain_state() -> cython.bint:
    """Return whether no mode, transform or setting of recording is active."""
    return state_kind(STATE, SILENT) == 0


def fresh(data):
    """Return a new ``ndarray`` on a new NumPy array, or NumPy's scalar; None where the general way is to be taken."""
    return on_native(data) if is_plain_state() else None


@cython.cfunc
def on_native(data):
    """Return a new ``ndarray`` on a new NumPy array, or NumPy's scalar; None for a dtype that CPU tensors have not."""
    if type(data) is not NDARRAY:
        return data if cnp.PyArray_CheckScalar(data) and data.dtype in WORDS else None  # Note [Scalars and 0-d arrays]
    descr: cnp.dtype = cython.cast(cnp.ndarray, data).descr
    place: cython.int = descr.type_num & 31
    word = WORD_OF[place] if DTYPES[place] is descr else WORDS.get(descr)
    return None if word is None else wrapped(ARRAY, data, word, None)


@cython.ccall
def view(root: Handle, data):
    """Return an ``ndarray`` on a NumPy array, with the storage of ``root`` if it is a window on its memory, or None."""
    own: cnp.ndarray = native(root)
    if own is None or type(data) is not NDARRAY or not is_plain_state():
        return None
    if data is own:
        data = data.view()
    base = cnp.get_array_base(cython.cast(cnp.ndarray, data))
    storage = tenkey_get(root, 2)
    if base is None or (base is not own and base is not cnp.get_array_base(own)):
        storage = None
    elif storage is None or type(storage) is STORAGE:
        storage = root
    return wrapped(ARRAY, data, tenkey_get(root, 1), storage)


# ---- entries: functions whose usual calls are planned


@cython.cclass
class Callable:
    """A function of one or two arrays with NumPy's rules, which has further attributes: the base class of ``ufunc``."""

    def connect(self, general, table, operands: cython.int):
        """Set the function that computes a call in Python, and the plans of calls with so many operands."""
        self.general = general
        self.table = table
        self.operands = operands

    def __call__(self, *args, **options):
        """Compute the function."""
        missed: cython.ulonglong = NO_WORD
        table: Table = self.table
        result = None
        if table is None or options or len(args) != self.operands:
            return self.general(*args, **options)
        if self.operands == 1:
            result = unary(table, ARRAY, args[0], cython.address(missed))
        else:
            result = binary(table, ARRAY, args[0], args[1], cython.address(missed))
        return followed(table, self.general(*args), missed) if result is None else result


@cython.cclass
class Entry:
    """A function whose calls without keywords are planned, or with those of reductions.

    It takes any arguments, so that errors about them are those of the function in Python. Calls arrive by the protocol
    of PEP 590, without a tuple or a dict.
    """

    def __init__(self, table: Table, general, form: str, of_arrays: bool = False):
        self.table = table
        self.general = general
        self.form = FORMS.index(form)
        self.of_arrays = of_arrays
        self.operands = {"binary": 2, "matmul": 2, "reshape": 2, "where": 3}.get(form, 1)
        self.vectorcall = cython.cast(cython.p_void, called)

    def __get__(self, instance, owner):
        """Bind like a function."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self):
        """Pickle by name, like a function."""
        return self.__qualname__

    def __repr__(self):
        return f"<function {self.__qualname__}>"


@cython.cfunc
def called(
    entry: Entry, args: cython.pointer(cython.pointer(PyObject)), flags: cython.size_t, names: cython.pointer(PyObject)
):
    """Call an entry."""
    count: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET)
    missed: cython.ulonglong = NO_WORD
    table: Table = entry.table
    result = None
    if entry.form == 0:  # a reduction
        if count == 1 or count == 2:
            kind: type = ARRAY if entry.of_arrays else TENSOR
            options = None if names == cython.NULL else cython.cast(tuple, names)
            result = reduction(table, kind, args, count, options, cython.address(missed))
    elif names == cython.NULL and count == entry.operands:
        x = cython.cast(object, args[0])
        if entry.form == 1:
            result = unary(table, TENSOR, x, cython.address(missed))
        elif entry.form == 2:
            result = binary(table, TENSOR, x, cython.cast(object, args[1]), cython.address(missed))
        elif entry.form == 3:
            result = product(table, TENSOR, x, cython.cast(object, args[1]), cython.address(missed))
        elif entry.form == 4:
            result = reshaped(table, TENSOR, x, cython.cast(object, args[1]), cython.address(missed))
        else:
            result = select(
                table, x, cython.cast(object, args[1]), cython.cast(object, args[2]), cython.address(missed)
            )
    if result is not None:
        return result
    return followed(table, vectorcall(entry.general, args, flags, names), missed)


FORMS = ["reduce", "unary", "binary", "matmul", "reshape", "where"]
_empty = cython.declare(Entry, Entry.__new__(Entry))
use_vectorcall(_empty, cython.address(_empty.vectorcall))


@cython.cfunc
def reduction(
    table: Table,
    kind: type,
    args: cython.pointer(cython.pointer(PyObject)),
    count: cython.Py_ssize_t,
    names,
    missed: cython.p_ulonglong,
):
    """Compute ``f(x, axis, keepdims=)``, or return None."""
    axis = cython.cast(object, args[1]) if count == 2 else None
    keepdims = False
    k: cython.Py_ssize_t
    if names is not None:
        for k in range(len(cython.cast(tuple, names))):
            if cython.cast(tuple, names)[k] == "axis" and count == 1:
                axis = cython.cast(object, args[count + k])
            elif cython.cast(tuple, names)[k] == "keepdims":
                keepdims = cython.cast(object, args[count + k])
            else:
                return None
    if type(keepdims) is not bool:
        return None
    return reduce(table, kind, cython.cast(object, args[0]), axis, keepdims, missed)


# ---- a property


@cython.cfunc
def reversed_of(own: cython.pointer(PyObject), instance: cython.pointer(PyObject), owner: cython.pointer(PyObject)):
    """Compute ``x.T``, or return the property itself of a class."""
    missed: cython.ulonglong = NO_WORD
    if instance == cython.NULL:
        return cython.cast(object, own)
    x = cython.cast(object, instance)
    table: Table = REVERSED.of(type(x))
    if table is None:
        return REVERSED.rules_of(type(x)).general(x)
    result = reversed_axes(table, type(x), x, cython.address(missed))
    return followed(table, table.general(x), missed) if result is None else result


def serve_reversed(kind: type):
    """Let the properties of a class of properties compute ``x.T`` by the plans of the slot."""
    use_getter(kind, reversed_of)
