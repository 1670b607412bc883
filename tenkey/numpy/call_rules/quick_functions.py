"""Compute functions and methods of small arrays with NumPy's own, called by the entry.

Note [Quick calls of functions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
For arrays on the CPU without gradients, outside of modes and transforms, a function of ``tenkey.numpy`` gives by
definition what NumPy gives, and for small arrays the way through the dispatcher takes longer than the computation. So
the entries of the functions of the table begin with a call of the NumPy function on the native arrays. A line names the
expression and the operators that the general way calls. The expression is computed if

- its operands are of the class ``ndarray`` (or numbers, where ``~`` follows the name), small in sum, and
- all arguments that do not occur in it have their default, and
- the union of the operands' words is known: on the CPU, numbers, nothing else, and the package's own kernels handle
  calls of the operators with it. A registration for one of the operators clears this knowledge.

Whatever NumPy refuses goes to the general way, which explains it. Results are new arrays, or, after ``view``, windows
on the memory of the first operand, with its storage. Where an expression is one call, with the parameters in their
order, the compiled core makes it, without a Python frame: a ``NativeEntry`` in front of the function.
Guarded by ``tests/numpy/test_quick_functions.py`` and ``tests/core/compiled/test_natives.py``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.compiled.loading import extension
from ...core.storage import Storage
from ...core.tensor import cpu_word
from ...core.tensor_base import new_handle
from ...core.word import DTYPE_MASK, DTYPE_TRAIT, dtypes_of
from ...dispatch.calling import codegen
from ...dispatch.local_state import get_state
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...interop.numpy_functions import numpys
from ..array_class import ndarray
from .native_calls import LARGE, NATIVE, SCALARS, only_numbers
from .quick_calls import PLAIN, SMALL, is_ours

__all__ = ["Quick", "head_of", "lazily", "native_entry", "quick_function", "quick_lines", "quick_table"]

# NumPy's names: the expression / the operators that compute it otherwise. The words before an expression:
# view: the result shares the memory of the first operand where NumPy shares it; raw: it is not an array;
# each: a tuple of arrays; new: made of numbers; few: of few elements; real: not of complex arrays
_TABLE: Final = """
sum: quietly(add_reduce, a, axis, None, None, keepdims) / sum
prod: quietly(multiply_reduce, a, axis, None, None, keepdims) / prod
max amax: quietly(maximum_reduce, a, axis, None, None, keepdims) / max
min amin: quietly(minimum_reduce, a, axis, None, None, keepdims) / min
all: quietly(logical_and_reduce, a, axis, bool, None, keepdims) / all
any: quietly(logical_or_reduce, a, axis, bool, None, keepdims) / any
mean: mean(a, axis, keepdims) / mean
argmax: a.argmax(axis) / argmax
argmin: a.argmin(axis) / argmin
cumsum: quietly(a.cumsum, axis) / cumsum cumulative_sum reshape
cumprod: quietly(a.cumprod, axis) / cumprod cumulative_prod reshape
trace: quietly(a.trace, offset, axis1, axis2) / trace diagonal linalg_diagonal permute_dims sum
diff: diff(a, n, axis) / diff subtract not_equal basic_index
median: median(a, axis) / median order_statistics full squeeze
round around: quietly(a.round, decimals) / round multiply divide
dot: dot(a, b) / dot contract matmul multiply
inner: inner(a, b) / inner contract matmul multiply reshape
vdot: vdot(a, b) / vecdot reshape
outer: quietly(multiply, a.reshape(-1, 1), b.reshape(-1)) / outer multiply reshape
cross: cross(a, b) / linalg_cross basic_index concat moveaxis multiply permute_dims subtract
concatenate concat: concatenate(arrays, axis) / concat
stack: stack(arrays, axis) / stack
vstack: vstack(tup) / vstack concat expand_dims
hstack: hstack(tup) / hstack concat
sort: sort(a, axis) / sort reshape
argsort: a.argsort(axis, 'stable') / argsort
searchsorted: a.searchsorted(v~, side) / searchsorted
repeat: a.repeat(repeats~, axis) / repeat
take: a.take(indices~, axis) / take
flip: flip(m, axis).copy() / flip
nonzero: each nonzero(a) / nonzero_rows basic_index
diag: view diag(v, k) / diag diagonal linalg_diagonal permute_dims
reshape: view a.reshape(shape) / reshape
ravel: view a.ravel() / ravel reshape
transpose permute_dims: view a.transpose(axes) / permute_dims
squeeze: view squeeze(a, axis) / squeeze
swapaxes: view a.swapaxes(axis1, axis2) / swapaxes permute_dims
diagonal: view diagonal(a, offset, axis1, axis2) / diagonal linalg_diagonal permute_dims
shape: raw a.shape /
ndim: raw a.ndim /
size: raw a.size /
linalg.norm: norm(x) / linalg_vector_norm
linalg.solve: linalg_solve(a, b) / linalg_solve
linalg.inv: linalg_inv(a) / linalg_inv
linalg.det: silenced(linalg_det, a) / linalg_det
fft.fft: silenced(fft_fft, a, n, axis, norm) / fft_fft
fft.ifft: silenced(fft_ifft, a, n, axis, norm) / fft_ifft
fft.rfft: silenced(fft_rfft, a, n, axis, norm) / fft_rfft
fft.irfft: silenced(fft_irfft, a, n, axis, norm) / fft_irfft
"""


class Quick(NamedTuple):
    """How NumPy itself computes small calls of a function."""

    expression: str  # in the names of NumPy; an operand stands for its native array
    operators: tuple[str, ...]
    modes: frozenset[str]


_MODES: Final = frozenset(["view", "raw", "each", "new", "few", "real"])


def _parse(text: str) -> Quick:
    expression, _, operators = text.rpartition("/")
    words = expression.split()
    modes = [word for word in words[:2] if word in _MODES]
    return Quick(" ".join(words[len(modes) :]), tuple(operators.split()), frozenset(modes))


@functools.cache
def quick_table() -> dict[str, Quick]:
    """Return by NumPy's names the functions that NumPy itself computes for small arrays; read at the first use."""
    lines = [line.partition(":") for line in _TABLE.strip().splitlines()]
    return {name: _parse(rest) for names, _, rest in lines for name in names.split()}


class _Known(dict[int, bool]):
    """The unions of words for which a call is quick, or is not."""

    def __init__(self, quick: Quick) -> None:
        super().__init__()
        self._names = quick.operators
        self._operators: list[Operator] = []
        self._kinds = "biuf" if "real" in quick.modes else "biufc"
        self.entries: list[Any] = []  # in the compiled core

    def __missing__(self, word: int) -> bool:
        with registry.lock:  # no registration may come between asking and keeping
            if not self._operators:
                self._operators = [registry.find(f"tk::{name}") for name in self._names]
                for operator in self._operators:
                    operator.watchers.append(self._forget)
            self[word] = found = (
                word & ~DTYPE_MASK == PLAIN
                and all(dtype.kind in self._kinds for dtype in dtypes_of(word & DTYPE_MASK))
                and all(is_ours(operator, word) for operator in self._operators)
            )
        return found

    def _forget(self) -> None:
        self.clear()
        for entry in self.entries:
            entry.forget()


_NAME: Final = re.compile(r"(?<![.\w'])([A-Za-z_]\w*)(~|#|!|\[\])?")


def quick_lines(
    quick: Quick, parameters: list[inspect.Parameter], operands: Iterable[str], sequences: Iterable[str]
) -> tuple[str, dict[str, Any]]:
    """Return the lines of a function that compute a quick call, and what they refer to.

    ``operands`` are the parameters that are arrays, ``sequences`` those that are lists of arrays; the
    expression may mark others: ``x~`` an array or number, ``x#`` a number, ``x[]`` a number or nested lists of them,
    ``x!`` text.
    """
    by_name = {p.name: p for p in parameters}
    marks: dict[str, str] = {}
    for found, mark in _NAME.findall(quick.expression):
        if found in by_name:
            own = "@" if found in sequences else "a" if found in operands else ""
            marks[found] = marks.get(found) or mark or own
    scope: dict[str, Any] = {
        "known": _Known(quick), "ndarray": ndarray, "fresh": _fresh,
        "view": _view, "each": _each, "novalue": np._NoValue, "numbers": SCALARS,
        "only_numbers": only_numbers,
    }  # fmt: skip
    tests: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_KEYWORD:
            tests.append(f"not {p.name}")
        elif p.name not in marks and p.default is not p.empty:
            scope[f"default_{p.name}"] = p.default
            tests.append(f"{p.name} is $default_{p.name}")
        elif marks.get(p.name) == "a":
            tests.append(f"{p.name}.__class__ is $ndarray")
        elif marks.get(p.name) == "#":
            many = f"$numbers.issuperset($map($type, {p.name}))"
            tests.append(many if p.kind is p.VAR_POSITIONAL else f"{p.name}.__class__ in $numbers")
        elif marks.get(p.name) == "!":
            tests.append(f"{p.name}.__class__ is $str")
        elif marks.get(p.name) == "[]":
            tests.append(f"({_LISTED.format(p.name)})")

    def written(match: re.Match[str]) -> str:
        found = match[1]
        if marks.get(found) in ("a", "~", "@"):
            return f"$native_{found}"
        if found in by_name:
            given = by_name[found].default is np._NoValue
            return f"(False if {found} is $novalue else {found})" if given else found
        if found in ("None", "True", "False") or match.string[match.end() :].startswith("="):
            return found
        native = NATIVE[found] if found in NATIVE else numpys(found.replace("_", ".", 1))
        scope[f"np_{found}"] = getattr(native, "_implementation", native)  # without a search for __array_function__
        return f"$np_{found}"

    expression = _NAME.sub(written, quick.expression)
    arrays = [x for x, mark in marks.items() if mark == "a"]
    body = [f"$native_{x} = {x}._data" for x in arrays]
    union = " | ".join(f"{x}._word" for x in arrays) or (str(PLAIN) if "new" in quick.modes else "0")
    body.append(f"$word = {union}")
    sizes = [f"$native_{x}.size" for x in arrays]
    loose = [x for x, mark in marks.items() if mark in "~@" and mark]
    if loose:
        body.append(f"$size = {' + '.join(sizes) or '0'}")
        sizes = ["$size"]
    for x in loose:
        body += (_SEQUENCE if marks[x] == "@" else _LOOSE).format(x).splitlines()
    limit = f" and {' + '.join(sizes)} <= {SMALL}" if sizes and not quick.modes & {"view", "raw"} else ""
    if "new" in quick.modes and not quick.operators:
        body[-1:] = ["if True:"]
    else:
        body.append(f"if $known[$word]{limit}:")
    call = f"$fresh({expression})"
    if "view" in quick.modes:
        call = f"$view({arrays[0]}, {expression})"
    elif "each" in quick.modes:
        call = f"$each({expression})"
    elif "raw" in quick.modes:
        call = expression
    text = _CALL
    if "few" in quick.modes:
        text = text.replace("{call}", f"{{call}} if $native.size <= {LARGE} else None")
        text, call = text.replace("try:", f"try:\n        $native = {expression}"), "$fresh($native)"
    body += text.format(call=call).splitlines()
    head = f"    if {' and '.join(tests)}:\n" if tests else "    if True:\n"
    return head + "".join(f"        {line}\n" for line in body), scope


# ---- entries in the compiled core

_IN_ORDER: Final = frozenset(["einsum"])
"""Functions in ``NATIVE`` with the same arguments and defaults as NumPy's."""
_ONE_CALL: Final = re.compile(r"(?:(\w+)\.)?(\w+)\(([^()]*)\)")


def native_entry(
    general: Callable[..., Any], quick: Quick,
    signature: Callable[[], tuple[list[inspect.Parameter], Iterable[str], Iterable[str]]],
) -> Any:  # fmt: skip
    """Make an entry in the compiled core if the line is a single NumPy call; otherwise return ``general``.

    ``signature()`` gives the parameters, and which of them are arrays and lists of arrays. The entry passes arguments
    on in their order, so it serves no calls if the line has another order, or constants.
    """
    found = _ONE_CALL.fullmatch(quick.expression)
    if extension is None or found is None or quick.modes & {"raw", "each"}:
        return general
    if found[2] in NATIVE and found[2] not in _IN_ORDER:
        return general

    def prepare(entry: Any) -> None:
        parameters, operands, sequences = signature()
        passed = [*filter(None, [found[1], *found[3].split(", ")])]
        kinds = [_kind(p, text, operands, sequences) for p, text in zip(parameters, passed)]
        if len(kinds) < len(passed) or "" in kinds:
            return
        further = kinds.pop() if passed[-1].startswith("*") else ""
        native = NATIVE.get(found[2]) or numpys(found[2].replace("_", ".", 1))
        function = getattr(np.ndarray, found[2]) if found[1] else getattr(native, "_implementation", native)
        known = _Known(quick)
        known.entries.append(entry)
        entry.serve(
            function, "".join(kinds), "a" if further == "@" else further,
            _least(function if found[1] else None, parameters[: len(kinds)]),
            [p.name for p, kind in zip(parameters, kinds) if kind == "."],
            known if quick.operators else None, PLAIN if "new" in quick.modes else None,
            sys.maxsize if "view" in quick.modes else SMALL, LARGE if "few" in quick.modes else 0,
            "view" in quick.modes,
        )  # fmt: skip

    made = extension.natives.NativeEntry(general, prepare)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(made, name, getattr(general, name))
    made.__wrapped__ = general
    return made


def _least(method: Callable[..., Any] | None, parameters: list[inspect.Parameter]) -> int:
    """Return how many arguments a call must have, because other calls mean something else.

    ``where(condition)`` finds the nonzero elements, and a method may have another default than the function.
    """
    theirs = {p.name: p.default for p in parameters if p.name != "order"}
    if method is not None:
        with contextlib.suppress(ValueError):  # before NumPy 2.4, in which the order of copies alone differs
            theirs = {p.name: p.default for p in inspect.signature(method).parameters.values()}
    least = 1
    for i, p in enumerate(parameters):
        default = theirs.get(p.name)  # which has the same meaning in all of them
        differs = p.default is not p.empty and p.default != (None if default is p.empty else default)
        if p.default is np._NoValue or (method is not None and differs):
            least = i + 1
    return least


def _kind(p: inspect.Parameter, text: str, operands: Iterable[str], sequences: Iterable[str]) -> str:
    """Return the kind of a positional argument for the compiled core, or "" if the text is not this parameter."""
    found = re.fullmatch(r"\*?(\w+)(~|#|!|\[)?\]?", text)
    if (
        found is None
        or found[1] != p.name
        or p.kind is p.KEYWORD_ONLY
        or (p.kind is p.VAR_POSITIONAL) != (text[0] == "*")
    ):
        return ""
    return found[2] or ("@" if p.name in sequences else "a" if p.name in operands else ".")


_LISTED: Final = (
    "({0}.__class__ is $list or {0}.__class__ is $tuple) "
    "and ($numbers.issuperset($map($type, {0})) or $only_numbers({0})) or {0}.__class__ in $numbers"
)
_CALL: Final = """    try:
        $made = {call}
    except $Exception:  # the general way explains it
        pass
    else:
        if $made is not None: return $made"""


# ---- results: new arrays and views of NumPy's results, or None to fall back to the general path

_WORDS: Final = {dtype: cpu_word(dtype) for dtype in DTYPE_TRAIT if dtype.kind in "biufc"}


def _fresh_in_python(native: Any) -> Any:
    word = _WORDS.get(native.dtype)
    if word is None or get_state() is not None:
        return None
    if native.__class__ is not np.ndarray:
        return native  # Note [Scalars and 0-d arrays]
    made = new_handle(ndarray)
    made._data = native
    made._word = word
    made._storage = None
    made._autograd = None
    return made


def _view_in_python(root: Any, native: Any) -> Any:
    if native.__class__ is not np.ndarray or get_state() is not None:
        return None
    data, base, storage = root._data, native.base, root._storage
    made = new_handle(ndarray)
    made._data = native.view() if native is data else native
    made._word = root._word
    is_window = native is data or (base is not None and (base is data or base is data.base))
    made._storage = None if not is_window else root if storage is None or storage.__class__ is Storage else storage
    made._autograd = None
    return made


_fresh: Final[Callable[[Any], Any]] = _fresh_in_python if extension is None else extension.slots.fresh
_view: Final[Callable[[Any, Any], Any]] = _view_in_python if extension is None else extension.slots.view


def _each(natives: Iterable[Any]) -> tuple[Any, ...] | None:
    """Return several new arrays; None if they take the general way."""
    made = tuple([_fresh(native) for native in natives])
    return None if any(one is None for one in made) else made


_LOOSE: Final = """if {0}.__class__ is $ndarray:
    $word |= {0}._word
    $native_{0} = {0}._data
    $size += $native_{0}.size
else:
    $native_{0} = {0}
    if {0}.__class__ not in $numbers: $word = -1"""
_SEQUENCE: Final = """if {0}.__class__ is $list or {0}.__class__ is $tuple:
    $native_{0} = []
    for $one in {0}:
        if $one.__class__ is not $ndarray:
            $word = -1
            break
        $word |= $one._word
        $data = $one._data
        $native_{0}.append($data)
        $size += $data.size
else: $word = -1"""


# ---- functions with a signature of their own


def lazily(name: str, write: Callable[[], FunctionType]) -> Any:
    """Return a function that is written by ``write`` at its first call, in place."""
    own: dict[str, Any] = {}

    def first_call(*args: Any, **kwargs: Any) -> Any:
        written = write()
        own.update(written.__globals__)
        function.__defaults__ = written.__defaults__
        function.__kwdefaults__ = written.__kwdefaults__
        function.__code__ = written.__code__
        return function(*args, **kwargs)

    own["first_call"] = first_call
    function: Any = FunctionType(_unwritten.__code__, own, name)
    function.__qualname__ = name  # which Python names in errors
    return function


def _unwritten(*args: Any, **kwargs: Any) -> Any:
    return first_call(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


_PREFIXES: Final[dict[Any, str]] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def head_of(name: str, parameters: list[inspect.Parameter]) -> tuple[str, dict[str, Any]]:
    """Return the first line of a function with these parameters, and the defaults to which it refers."""
    heads, star = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not star:
            heads.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        heads.append(_PREFIXES.get(p.kind, "") + p.name + ("" if p.default is p.empty else f"=$default_{p.name}"))
    defaults = {f"default_{p.name}": p.default for p in parameters if p.default is not p.empty}
    return f"def {name}({', '.join(heads)}):\n", defaults


def quick_function(
    general: Callable[..., Any], line: str, name: str = "", operands: Iterable[str] = (), sequences: Iterable[str] = ()
) -> Any:
    """Return a function with the signature of ``general``, which computes what the line of the table does not."""
    name = name or general.__name__

    def parameters() -> list[inspect.Parameter]:
        return [*inspect.signature(general, follow_wrapped=False).parameters.values()]

    def write() -> FunctionType:
        head, defaults = head_of(name, parameters())
        lines, scope = quick_lines(_parse(line), parameters(), operands, sequences)
        passed = [
            f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else _PREFIXES.get(p.kind, "") + p.name
            for p in parameters()
        ]
        text = f"{head}{lines}    return $general({', '.join(passed)})\n"
        return codegen.define(text, {**scope, **defaults, "general": general}, f"<numpy.{name}>")  # type: ignore[return-value]

    function = lazily(name, write)
    function.__module__, function.__doc__, function.__wrapped__ = general.__module__, general.__doc__, general
    return native_entry(function, _parse(line), lambda: (parameters(), operands, sequences))
