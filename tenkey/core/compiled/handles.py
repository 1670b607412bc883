# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""Handles and plans: what the compiled core knows of tensors and of operators.

Note [The compiled core]
~~~~~~~~~~~~~~~~~~~~~~~~
A small call spends its time in Python: the entry of the operator, the dispatch table, the kernel. For a call whose
arguments are plain CPU tensors, the table gives the same answer every time, so the answer is kept as a *plan*: the word
of the result, NumPy's inner loop or the address of our own, and the recipe of the autograd node. ``Table`` holds the
plans of one operator for one class, by the union of the arguments' words. A call in Python that finds no plan has one
made afterwards (``learn``, in :mod:`tenkey.core.plans`), and a registration erases them (``Operator.watchers``).

The core only computes what a plan covers. Active modes and transforms, subclasses, other devices, unusual layouts and
every error fall back to Python (``Table.general``), which stays the reference: results have the same bits
either way. ``tk.dispatch.explain`` says whether a plan serves a call.

The modules of this folder are written in Cython's pure Python mode: Cython counts references and propagates errors. Two
rules keep them safe. A pointer into an array is not used after a call that can run Python code, and an object is held
by a variable while its memory is used. The functions of C in ``handles.pxd`` count references by hand.

Guarded by ``tests/core/compiled``.
"""

import os

import cython
import numpy as np
from cython.cimports import numpy as cnp

cnp.import_array()
cnp.import_ufunc()

TENSOR = type(None)
ARRAY = type(None)
NDARRAY = np.ndarray
STORAGE = type(None)
SILENT = None
STATE = None
NOTHING = cython.declare(tuple, ())
RECORDED = 0
WEAK = 0
FLOAT = 0
INT = 0
GOLDEN = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)  # multiplicative hashing: Knuth, TAOCP 3, section 6.4
KEPT = cython.declare(cython.int, 0 if os.environ.get("PYTHONMALLOC") else 32)  # freed tensors that are used again
SOURCE_HASH = cython.cast(bytes, TENKEY_SOURCE_HASH).decode("ascii")


@cython.cclass
class Handle:
    """The fields of a tensor in C; ``Tensor`` inherits them.

    Python reads and writes them as members (``tenkey_member``). They can be deleted there, which leaves a null pointer:
    compiled code reads them with ``tenkey_get``, which turns that into None.
    """


@cython.cfunc
def wrapped(kind: type, data, word, storage) -> Handle:
    """Return a new tensor."""
    return cython.cast(Handle, tenkey_tensor(kind, data, word, storage))


@cython.cfunc
def view_of(
    a,
    ndim: cython.int,
    dims: cython.pointer(cnp.npy_intp),
    strides: cython.pointer(cnp.npy_intp),
    offset: cython.Py_ssize_t,
):
    """Return a view of the memory of an array, from an offset in bytes."""
    return tenkey_view(a, ndim, dims, strides, offset)


@cython.final
@cython.cclass
class Recipe:
    """How a call is recorded: the class of its node, the operands that get edges, and the values that are saved.

    ``edges`` has the positions of the differentiable operands. ``saves`` has a tuple ``(slot, source, users)`` for each
    saved value: ``source`` is the position of an operand or a code of :mod:`.recording`, ``users`` the bits of the
    edges whose formulas need the value. Nodes are filled by the offsets of their slots. Raises ValueError for a class
    without these slots, or with more than 8 edges or values.
    """

    def __init__(self, node_class: type, edges: tuple, saves: tuple, is_view: bool):
        if len(edges) > 8 or len(saves) > 8:
            raise ValueError("a recipe has at most 8 edges and 8 saved values")
        self.node_class = node_class
        self.is_view = is_view
        self.word_at = slot_at(node_class, "_word")
        self.number_at = slot_at(node_class, "sequence_nr")
        self.edges_at = slot_at(node_class, "next_edges")
        self.shape_at = slot_at(node_class, "shape")
        self.edge_count = len(edges)
        self.save_count = len(saves)
        k: cython.int
        for k in range(self.edge_count):
            self.edges[k] = edges[k]
        for k in range(self.save_count):
            slot, self.sources[k], self.users[k] = saves[k]
            self.saves_at[k] = slot_at(node_class, slot)


@cython.cfunc
@cython.exceptval(-1, check=False)
def slot_at(kind: type, name: str) -> cython.Py_ssize_t:
    """Return the offset of a slot of a class."""
    offset: cython.Py_ssize_t = tenkey_offset(kind, name)
    if offset == 0:
        raise ValueError(f"{kind.__name__} has no slot {name}")
    return offset


@cython.final
@cython.cclass
class Plan:
    """How to compute a call for one union of dispatch words. Only its driver comes later."""

    def __cinit__(self):
        self.loop = cython.NULL
        self.context = cython.NULL


_NUMBERS = {"d": 1, "f": 2, "l": 3, "q": 3, "D": 4, "F": 5}


@cython.final
@cython.cclass
class Table:
    """The plans of one operator for one class of handles.

    ``general`` is the call in Python, ``reflected`` the one for a handle on the right only, and ``learn(key)`` makes a
    plan for a union of words.
    """

    def __init__(self, general, reflected=None, learn=None, float64_word=None):
        self.plans = [None] * 64
        self.general = general
        self.reflected = reflected
        self.learn = learn
        self.float64_word = float64_word

    @cython.cfunc
    def find(self, key: cython.ulonglong) -> Plan:
        """Return the plan for a union of words, or None; it is the latest one then."""
        place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, (key * GOLDEN) >> 58)
        found = self.plans[place]
        if found is None or cython.cast(Plan, found).key != key:
            found = self.plans[place ^ 1]
            if found is None or cython.cast(Plan, found).key != key:
                return None
        self.latest = cython.cast(Plan, found)
        return self.latest

    @cython.cfunc
    def search(self, key: cython.p_ulonglong) -> Plan:
        """Find a plan for ``usable`` when the latest plan does not match or is refused."""
        if key[0] == NO_WORD:
            return None
        plan: Plan = self.find(key[0])
        if plan is not None and plan.kind == 0:  # refused; some are asked for again: a kernel may have been compiled
            plan.waits -= 1
            if plan.waits != 0:
                key[0] = NO_WORD
            return None
        return plan

    def add(self, key, plan: Plan):
        """Keep a plan for a union of words."""
        plan.key = key
        place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, (plan.key * GOLDEN) >> 58)
        old = self.plans[place]
        if old is not None and cython.cast(Plan, old).key != plan.key:
            other = self.plans[place ^ 1]
            if other is None or cython.cast(Plan, other).key == plan.key or cython.cast(Plan, other).kind == 0:
                place ^= 1
        self.plans[place] = plan
        self.latest = None

    def clear(self):
        """Forget all plans."""
        self.plans = [None] * 64
        self.latest = None

    def serves(self, key) -> bool:
        """Return whether there is a plan for this union of words that computes."""
        plan: Plan = self.find(key)
        return plan is not None and plan.kind != 0


def refusal(waits: cython.long) -> Plan:
    """Return a plan that leaves calls to Python; after ``waits`` calls it is asked for again, never with 0."""
    plan: Plan = Plan()
    plan.waits = waits
    return plan


def make_plan(
    kind, word, source, types, dtype: cnp.dtype, limit, call=None, recipe: Recipe = None, zero=None, option=0,
    large=None, source_of_driver=None
):  # fmt: skip
    """Return a plan.

    ``source`` is the ufunc whose inner loop for ``types`` (characters of dtypes, operands first) computes, or None;
    ``call`` computes the layouts that the loop does not, and ``large`` more elements than the limit
    (Note [Large calls in the core]).
    """
    plan: Plan = Plan()
    plan.kind = kind
    plan.word = word
    plan.dtype = dtype
    plan.result_size = dtype.itemsize
    plan.size = np.dtype(types[:1]).itemsize if types else dtype.itemsize
    plan.type = np.dtype(types[:1]).num if types else dtype.num
    plan.number = _NUMBERS.get(types[:1], 0)
    plan.limit = limit
    plan.call = call
    plan.recipe = recipe
    plan.zero = zero
    plan.large = large
    plan.source = source_of_driver
    plan.option = option
    if source is not None:
        if not isinstance(source, np.ufunc):
            raise TypeError(f"the loop of a plan is a ufunc's, got {type(source).__name__}.")
        ufunc: cython.pointer(Ufunc) = cython.cast(cython.pointer(Ufunc), source)
        i: cython.int
        k: cython.int
        wanted = [np.dtype(c).num for c in types]
        if len(wanted) != ufunc.nargs:
            return None
        for i in range(ufunc.ntypes):
            for k in range(ufunc.nargs):
                if ufunc.types[i * ufunc.nargs + k] != cython.cast(cython.int, wanted[k]):
                    break
            else:
                plan.loop = ufunc.functions[i]
                plan.context = ufunc.data[i]
                break
    return plan


def has_loop(plan: Plan) -> bool:
    """Return whether a plan has an inner loop."""
    return plan.loop != cython.NULL


def configure(tensor, storage, state, silent, recorded, weak, float_word, int_word):
    """Receive the classes and words that the modules above define."""
    global TENSOR, STORAGE, STATE, SILENT, RECORDED, WEAK, FLOAT, INT
    TENSOR, STORAGE, STATE, SILENT = tensor, storage, state, silent
    RECORDED, WEAK, FLOAT, INT = recorded, weak, float_word, int_word
    tenkey_own(tensor, KEPT)


def configure_array(array):
    """Receive the class of the arrays of ``tenkey.numpy``."""
    global ARRAY
    ARRAY = array
    tenkey_own(array, KEPT)


for _place, _name in enumerate((b"_data", b"_word", b"_storage", b"_autograd")):
    tenkey_member(Handle, _name, _place)
