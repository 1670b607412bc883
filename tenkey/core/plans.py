"""Plans of small calls: what the compiled core learns from the dispatch table (Note [The compiled core]).

Note [Descriptions of kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A CPU kernel that a plan can replace says so in an attribute ``small``, a description: a pointwise kernel names its
program, a reduction its ufunc, and so on. The generated Autograd kernel has an attribute ``recorded``: the kernel
below it, the class of the node, and what is saved. So a plan is made by looking up the kernel that a call with the
given word reaches. If a user's kernel, a condition or a fallback comes first, the callable found there has no
description, and no plan is made. Guarded by ``tests/core/compiled/test_plans.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from .._util.record import Record
from ..dispatch.local_state import SILENT, state_variable
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from .compiled.loading import extension
from .device import CPU, base_word
from .lift import weak_tensor
from .storage import HostMemory, Storage
from .tensor import Tensor, cpu_word, storage_of, version_of
from .tensor_base import SLOT_NAMES
from .word import DTYPE_MASK, DTYPE_TRAIT, REQUIRES_GRAD, WEAK_MASK, WEAK_TRAIT, dtypes_of

__all__ = [
    "MEAN", "SMALL", "SUM", "Elementwise", "InPlace", "Recorded", "Reduction", "Simple", "add_method", "add_table",
    "install_calls", "install_recording", "is_planned", "make_table", "new_plan", "plan_of", "planned_reduction",
    "refuse", "special_methods", "sums_table", "table_of", "transposed", "use_array_class", "use_array_table",
]  # fmt: skip

SMALL: Final = 1 << 12
"""The number of elements above which most kernels take as long as the way to them."""
_BYTES: Final = 1 << 16  # results from here on are allocated by the backend
_WAITS: Final = 64  # calls after which a program may have been compiled
_PLANNED: Final = base_word("cpu") | DTYPE_MASK | WEAK_MASK | REQUIRES_GRAD
_ELEMENTWISE: Final = 1
SUM, MEAN = 1, 2
"""Options of reductions: short sums are products with ones, as in BLAS; the sum is divided by the number."""
_core: Final[Any] = extension
_TABLE: Final = "table of plans"


class Elementwise(Record, frozen=True):
    """A pointwise kernel: ``call`` is a ufunc for operands of one dtype, or will be one when it has been compiled.

    ``large(*arrays)`` computes more elements than the plan's limit, or returns None: the kernel computes.
    """

    program: Any
    large: Callable[..., Any] | None = None


class Reduction(Record, frozen=True):
    """A reduction by a ufunc, from ``identity`` or the first element; ``option`` is SUM, MEAN or 0."""

    ufunc: np.ufunc
    dtype: np.dtype | None  # None: that of the operand
    identity: Any
    option: int
    limit: int


class InPlace(Record, frozen=True):
    """An in-place variant: ``program_of(key)`` is the program that computes it in one ufunc, or None.

    ``large(program, target, other)`` computes more elements than the plan's limit, and tells whether it did.
    """

    program_of: Callable[[int], Any]
    large: Callable[..., bool] | None = None


class Simple(Record, frozen=True):
    """A kernel that needs no loop: a view, a product of matrices, a selection; up to ``limit`` elements.

    ``large(*arrays)`` computes more.
    """

    dtype: np.dtype | None  # None: that of the operand
    limit: int
    indexed: bool = False  # by arrays of ints or bools, whose dtype is among those of the call
    large: Callable[..., Any] | None = None


class Recorded(Record, frozen=True):
    """The node and the saved values that an Autograd kernel records: see ``Recipe`` in the core.

    A source in ``saves`` is "out", "option NAME" (an argument that is not a tensor), "operand 0", "meta 0" (its shape,
    dtype and device), or "own_meta 0" (the same where the node that its edge leads to does not have them).
    """

    inner: Callable[..., Any]
    node_class: type
    edges: tuple[int, ...]
    saves: tuple[tuple[str, str, int], ...]
    is_view: bool


# ---- plans


def refuse(waits: int = 0) -> Any:
    """Return the plan that leaves calls to Python; with ``waits``, another one may be made after so many calls."""
    return _core.handles.refusal(waits)


def new_plan(
    word: int, ufunc: np.ufunc | None, types: str, dtype: np.dtype, *, limit: int = SMALL, recipe: Any = None,
    call: Any = None, zero: bytes | None = None, option: int = 0, large: Callable[..., Any] | None = None,
    driver: Callable[[], Any] | None = None,
) -> Any:  # fmt: skip
    """Return a plan for a loop of a ufunc, or for what needs none."""
    limit = min(limit, (_BYTES - 1) // dtype.itemsize)
    form = _ELEMENTWISE
    return _core.handles.make_plan(form, word, ufunc, types, dtype, limit, call, recipe, zero, option, large, driver)


def plan_of(operator: Operator, key: int, *, of_arrays: bool = False) -> Any:
    """Return the plan of an operator for a union of words; sums ``of_arrays`` are pairwise, as NumPy's."""
    if key & ~_PLANNED or not key & DTYPE_MASK:
        return refuse()
    try:
        kernel = operator.cache[key]
    except Exception:  # the call in Python was another one, as of an operand that was moved to another device
        return refuse()
    recorded: Recorded | None = getattr(kernel, "recorded", None)
    small: Any = getattr(kernel if recorded is None else recorded.inner, "small", None)
    if small is None:
        return refuse()
    in_place = isinstance(small, InPlace)
    if isinstance(small, InPlace):
        program = small.program_of(key)
        if program is None:
            return refuse()
        small = Elementwise(program, None if small.large is None else partial(small.large, program))
    recipe = None
    if recorded is not None:
        try:
            saves = tuple([(slot, _source(source), users) for slot, source, users in recorded.saves])
            recipe = _core.handles.Recipe(recorded.node_class, recorded.edges, saves, recorded.is_view)
        except (KeyError, ValueError):  # an argument that the core does not hand over, or too many
            return refuse()
    bits = REQUIRES_GRAD if recorded is not None else 0
    if isinstance(small, Elementwise):
        program = small.program
        if program.slow and not program.compiled:  # another ufunc may take its place, for all calls at once
            return refuse(_WAITS)
        if not isinstance(program.call, np.ufunc):
            return refuse(0 if program.is_ufunc else _WAITS)
        types = "".join([dtype.char for dtype in (*program.signature, program.result)])
        made = new_plan(
            cpu_word(program.result) | bits, program.call, types, program.result, limit=program.limit - 1,
            recipe=recipe, call=program.call, large=small.large, driver=partial(program.driver, in_place=in_place),
        )  # fmt: skip
        return made if made is not None and _core.handles.has_loop(made) else refuse()
    if isinstance(small, Reduction):
        dtypes = dtypes_of(key & DTYPE_MASK)
        dtype = dtypes[0] if small.dtype is None and len(dtypes) == 1 else small.dtype
        if dtype is None or dtypes != (dtype,) or (small.option == MEAN and dtype.char not in "fd"):
            return refuse()
        zero = None if small.identity is None else _start(small.ufunc, small.identity, dtype)
        made = new_plan(
            cpu_word(dtype) | bits, small.ufunc, dtype.char * 3, dtype, limit=min(small.limit, SMALL), recipe=recipe,
            zero=zero, option=0 if of_arrays and small.option == SUM and recorded is None else small.option,
        )  # fmt: skip
        return made if made is not None and _core.handles.has_loop(made) else refuse()
    dtypes = dtypes_of(key & DTYPE_MASK) if small.dtype is None else (small.dtype,)
    if len(dtypes) > 1 + small.indexed or any(dtype.kind not in "biufc" for dtype in dtypes):
        return refuse()
    if small.indexed and (recipe is not None or not any(dtype.char in "?il" for dtype in dtypes)):
        return refuse()
    return new_plan(
        cpu_word(dtypes[0]) | bits, None, "", dtypes[0], limit=small.limit, recipe=recipe, large=small.large
    )


def _source(source: str) -> int:
    """Return the number by which the core knows the source of a saved value."""
    kind, _, name = source.partition(" ")
    codes: dict[str, int] = _core.recording.CODES
    return codes[kind] + (int(name) if name.isdigit() else _OPTIONS[name] if name else 0)


_OPTIONS: Final = {"axis": 0, "keepdims": 1, "dtype": 2, "shape": 0, "copy": 1, "axes": 0, "index": 0}
"""The places of further arguments in the tuples that the core makes of them."""


def _start(ufunc: np.ufunc, identity: Any, dtype: np.dtype) -> bytes:
    """Return the number from which NumPy reduces, which for sums of floats is -0.0 in some versions."""
    start = np.array(identity, dtype)
    if ufunc is np.add and dtype.kind in "fc":
        negative = np.array([-0.0], dtype)
        start = negative[0] if np.signbit(ufunc.reduce(negative).real) else start
    return start.tobytes()


# ---- tables


def make_table(
    general: Callable[..., Any],
    reflected: Callable[..., Any] | None = None,
    learn: Callable[[int], Any] | None = None,
    watched: tuple[Operator, ...] = (),
    float64_word: int | None = None,
) -> Any:
    """Return a table; ``learn(key)`` makes a plan, and registrations for the operators erase all."""
    table = _core.handles.Table(general, reflected, None, float64_word)
    if learn is not None:
        table.learn = learner(table, learn)
    for operator in watched:
        operator.watchers.append(table.clear)
    return table


def learner(table: Any, make: Callable[[int], Any]) -> Callable[[int], None]:
    """Return the function that makes a plan and keeps it; no registration comes between the two."""

    def learn(key: int) -> None:
        with registry.lock:
            table.add(key, make(key))

    return learn


def table_of(operator: Operator, general: Callable[..., Any], reflected: Callable[..., Any] | None = None) -> Any:
    """Return a table of an operator by the rules of ``tk``."""
    table = make_table(general, reflected, lambda key: plan_of(operator, key), (operator,))
    operator.notes.setdefault(_TABLE, []).append(table)
    return table


def planned_reduction(operator: Operator, general: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction with NumPy's rules, which ``general`` computes in Python, with plans."""
    if _core is None:
        return general
    table = make_table(general, None, lambda key: plan_of(operator, key, of_arrays=True), (operator,))
    return _named(_core.slots.Entry(table, general, "reduce", True), general)


def sums_table(operator: Operator) -> Any:
    """Return the plans of ``accumulate``, whose calls in Python are those of the kernel for a word."""
    return make_table(operator.cache.__getitem__, None, lambda key: plan_of(operator, key), (operator,))


def is_planned(operator: Operator, key: int) -> bool:
    """Return whether the compiled core has a plan for calls with this word."""
    return any(table.serves(key) for table in operator.notes.get(_TABLE, ()))


# ---- methods and functions


def add_method(
    operator: Operator | None, name: str, method: Callable[..., Any], reflected: Callable[..., Any] | None = None
) -> Callable[[], None]:
    """Add a special method to ``Tensor``: the call in Python of a slot of the core, or an attribute of the class.

    Returns the function that undoes it for a slot.
    """
    bare = name.strip("_")
    if bare not in SLOT_NAMES:
        setattr(Tensor, name, method)
        return lambda: None
    slot = _core.slots.SLOTS[bare]
    former = slot.get()
    table = make_table(method, reflected) if operator is None else table_of(operator, method, reflected)
    slot.set(table)
    return lambda: slot.set(former) if slot.get() is table else None


def add_table(name: str, operator: Operator) -> None:
    """Give slots a further table: ``square``, or ``take`` and ``put`` for indexing by arrays."""
    if _core is not None:
        _core.slots.FURTHER[name].set(table_of(operator, operator.call))


class _Reversed(property):
    """``x.T`` with plans: the core gets it, and ``fget`` is the call in Python."""


if _core is not None:
    _core.slots.serve_reversed(_Reversed)


def transposed(operator: Operator, general: Callable[..., Any], *, of_arrays: bool = False) -> property:
    """Return the property ``x.T``, with plans."""
    if _core is None:
        return property(general)
    _core.slots.FURTHER["T"].set(table_of(operator, general), of_arrays)
    return _Reversed(general)


def _form(operator: Operator) -> str:
    """Return which kind of call the core knows for an operator, or ""."""
    facets, names = operator.facets, [a.name for a in operator.schema.arguments]
    if operator.schema.is_mutable or any(str(a.type) != "Tensor" for a in operator.tensor_arguments):
        return ""
    if operator.name in _NAMED:
        return _NAMED[operator.name]
    if "Reduce" in facets or operator.name == "tk::mean":
        return "reduce" if names[0] == "x" else ""
    if "Pointwise" not in facets or len(names) != len(operator.tensor_arguments):
        return ""
    return {1: "unary", 2: "binary"}.get(len(names), "")


_NAMED: Final = {"tk::where": "where", "tk::matmul": "matmul", "tk::reshape": "reshape"}


def _entry(operator: Operator, general: Callable[..., Any]) -> Callable[..., Any]:
    """Return an entry of an operator with planned calls, or the entry itself."""
    form = _form(operator)
    if not form:
        return general
    call = _core.slots.Entry(table_of(operator, general), general, form)
    call.operator = operator
    return _named(call, general)


def _named(call: Any, general: Any) -> Callable[..., Any]:
    """Give a function of the core the name, the documentation and the signature of the one in Python."""
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(call, name, getattr(general, name))
    call.__wrapped__ = getattr(general, "__wrapped__", general)
    return call  # type: ignore[no-any-return]


def special_methods() -> dict[str, Callable[..., Any]]:
    """Return the calls in Python of the special methods that the core has as slots; {} where it does not run."""
    methods: dict[str, Callable[..., Any]] = {}
    for name in sorted(SLOT_NAMES):
        table = _core.slots.SLOTS[name].get()
        methods[f"__{name}__"] = table.general
        if table.reflected is not None:
            methods[f"__r{name}__"] = table.reflected
    return methods


def use_array_class(kind: type[Tensor]) -> None:
    """Tell the core the class of arrays with NumPy's rules."""
    if _core is not None:
        _core.handles.configure_array(kind)


def use_array_table(name: str, table: Any) -> None:
    """Give a slot of the core the table of arrays with NumPy's rules."""
    slots = _core.slots
    (slots.SLOTS.get(name) or slots.FURTHER[name]).set(table, True)


def install_recording(**given: Any) -> None:
    """Give the core the classes and functions of autograd with which it records calls."""
    if _core is not None:
        _core.recording.configure_recording(**given)


def install_calls(quietly: Callable[..., Any], allocate: Callable[..., Any], aligned: int, counted: int) -> None:
    """Connect the core: called once by the CPU backend, which calls ufuncs without warnings by ``quietly``.

    It allocates results by ``allocate``: with a cache line from ``aligned`` bytes on, and counted from ``counted``.
    """
    if _core is None:
        return
    known = {dtype: cpu_word(dtype) for dtype in DTYPE_TRAIT if dtype.kind in "biufc"}
    _core.handles.configure(
        Tensor,
        Storage,
        state_variable,
        SILENT,
        REQUIRES_GRAD,
        WEAK_MASK,
        WEAK_TRAIT[float],
        WEAK_TRAIT[int],
    )
    _core.large.configure(HostMemory, allocate, aligned, counted)
    _core.operations.configure(quietly, storage_of, known)
    _core.recording.configure(weak_tensor, version_of, CPU)
    _core.slots.configure(known)


if _core is not None:
    registry.hooks.entry, registry.hooks.is_planned = _entry, is_planned
    for _name in ("__len__", "__bool__", "__float__", "__int__", "__index__"):
        add_method(None, _name, vars(Tensor)[_name])
        delattr(Tensor, _name)
