"""NumPy's universal functions over the operators of tenkey.

Note [Result dtypes of ufuncs]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy itself is asked for the dtypes: ``ufunc.resolve_dtypes`` gives those in which the loop computes and that of the
result (NEP 50: Python numbers are weak, everything else has its dtype). The answer is kept for each union of dispatch
words. Where the operator follows the same rule, the call goes directly to its kernel, at the cost of a call of ``tk``.
Otherwise the operands are cast first, the result last. What the operator does not compute (``subtract`` of bools is an
error of NumPy's, ``gcd`` has no operator) NumPy computes from the values, or refuses with its own error.
Guarded by ``tests/numpy/test_ufuncs.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..backends.cpu.fp_warnings import quietly
from ..core.compiled.loading import extension
from ..core.dtypes import names as dtypes
from ..core.lift import weak_tensor
from ..core.plans import make_table, new_plan, plan_of, refuse
from ..core.tensor import Tensor, cpu_word, from_host
from ..core.tensor_base import new_handle
from ..core.tree import tensors_in
from ..core.word import DTYPE_MASK, DTYPE_TRAIT, REQUIRES_GRAD, WEAK_MASK, dtypes_of, weak_of
from ..dispatch.calling import codegen
from ..dispatch.local_state import get_state
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..interop.numpy_names import NUMPY_NAMES
from ..ops.builtin import load_owner
from .array_class import as_ndarray, as_ndarrays, as_scalars, ndarray
from .call_rules.native_calls import SCALARS
from .call_rules.quick_calls import SMALL, WEAK_FLOAT, WEAK_INT, quick_entry, small_call, weak_dtypes
from .call_rules.ufunc_loops import composed, moved_axes
from .converting import NUMBERS, cast, is_strict, on_host, operand, write_out
from .known import functions
from .own_functions.accumulating import apply_at

__all__ = ["ufunc", "universal_functions"]

_COMMON: Final = (Tensor, np.ndarray, np.generic, list, tuple, *NUMBERS)
_LOGICAL: Final = {"add": "logical_or", "multiply": "logical_and", "maximum": "logical_or", "fmax": "logical_or",
                   "minimum": "logical_and", "fmin": "logical_and", "absolute": "positive"}  # fmt: skip
"""The operators that compute a ufunc's loop of bools."""
_REDUCTIONS: Final = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
}  # fmt: skip
_SCANS: Final = {"add": "cumsum", "multiply": "cumprod"}
_TAKES_ROOTS: Final = np.lib.NumpyVersion(np.__version__) >= "2.3.0"  # np.power(x, 0.5), float16 aside

# The call of numbers, then of small arrays, then any call of arrays and numbers, then all others.
_TEMPLATE: Final = """def {name}({parameters}, /, {outs}**options):
{join}    if {alone} and out is None and not options and state() is None:
        try:
            found = quietly(source, {names})
            if found.__class__ in results: return found
        except Exception:  # which the general way explains
            pass
{quick}{numbers}    try:
        word = {union}
    except AttributeError:
        return general(({names},), out, options)
    if out is not None or options:
        return general(({names},), out, options)
    return planned(word, {names})
"""
_NUMBER: Final = """    kind = {0}.__class__
    if kind is float or kind is int:
        {0} = weak({0})
"""


class _InPython:
    """The base class of ``ufunc`` without the compiled core: the call is an attribute, without a frame."""

    __slots__ = ("__call__",)
    __call__: Callable[..., Any]

    def connect(self, call: Callable[..., Any], table: Any, operands: int) -> None:
        """Set the function that computes a call."""
        self.__call__ = call


if TYPE_CHECKING:
    _Callable = _InPython
else:
    _Callable = _InPython if extension is None else extension.slots.Callable


class ufunc(_Callable):  # NumPy's name for it
    """A function that computes element by element, with NumPy's methods ``reduce``, ``accumulate``, ``outer``, ``at``.

    >>> import tenkey.numpy as tnp
    >>> tnp.add(1, [1.5, 2.5]), tnp.add.reduce(tnp.ones((2, 3))), tnp.multiply.outer([1, 2], [3, 4]).tolist()
    (array([2.5, 3.5]), array([2., 2., 2.]), [[3, 4], [6, 8]])
    """

    __slots__ = ("__dict__", "__weakref__", "_numpy", "_operator", "_plans", "_shortcuts")

    def __init__(self, source: np.ufunc, name: str, operator: Operator | None) -> None:
        self._numpy = source
        self._operator = operator
        self._plans = _Plans(self)
        self._shortcuts: dict[int, int] = {}
        if operator is not None:
            operator.watchers.append(self._shortcuts.clear)
        self.__name__ = self.__qualname__ = name
        self.__doc__ = f"Compute ``numpy.{name}`` element by element, with NumPy's arguments and result dtypes."
        for attribute in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature"):
            setattr(self, attribute, getattr(source, attribute))
        names = ["x"] if source.nin == 1 else [f"x{i + 1}" for i in range(source.nin)]
        scope: dict[str, Any] = {
            "general": self._general, "planned": self._planned, "weak": weak_tensor, "state": get_state,
            "known": self._shortcuts.get, "find": self._find_result, "source": source, "square": np.square,
            "quietly": quietly, "ndarray": ndarray, "array": np.ndarray, "new": new_handle,
            "scalars": SCALARS, "results": SCALARS | {tuple},
            "SMALL": SMALL, "WEAK_FLOAT": WEAK_FLOAT, "WEAK_INT": WEAK_INT,
        }  # fmt: skip
        several = [f"out{i + 1}" for i in range(source.nout)] if source.nout > 1 else []
        outs = "".join(f"{x}=None, " for x in several) + ("*, " if several else "") + "out=None, "
        given = "if " + " or ".join(f"{x} is not None" for x in several) if several else ""
        text = _TEMPLATE.format(
            name=name,
            outs=outs,
            join=f"    {given}: out = ({', '.join(several)})\n" if several else "",
            parameters=", ".join(names),
            names=", ".join(names),
            union=" | ".join(f"{x}._word" for x in names),
            numbers="".join(_NUMBER.format(x) for x in names) if source.nin > 1 else "",
            quick=quick_entry(source),
            alone=" and ".join(f"{x}.__class__ in scalars" for x in names),
        )
        call = codegen.define(text, scope, f"<numpy.{name}>")
        planned = extension is not None and source.nin < 3 and source.nout == 1
        self.connect(call, self.new_table(call) if planned else None, source.nin)

    def __repr__(self) -> str:
        return f"<ufunc '{self.__name__}'>"

    def __reduce__(self) -> str:
        return self.__name__

    def resolve_dtypes(self, *args: Any, **kwargs: Any) -> Any:
        """Return the dtypes of operands and results, as NumPy's method of this name does."""
        return self._numpy.resolve_dtypes(*args, **kwargs)

    # ---- calls

    def new_table(self, general: Callable[..., Any], reflected: Callable[..., Any] | None = None) -> Any:
        """Return a table of plans for calls that ``general`` computes otherwise (Note [The compiled core])."""
        watched = () if self._operator is None else (self._operator,)
        return make_table(general, reflected, self._plan, watched, float64_word=cpu_word(np.dtype("f8")))

    def _plan(self, word: int) -> Any:
        """Return the plan for a union of words: NumPy's loop, or with gradients the operator's, where they agree."""
        source, operator = self._numpy, self._operator
        if word & REQUIRES_GRAD:
            return refuse() if operator is None or self._plans[word] is not None else plan_of(operator, word)
        found = small_call(source, operator, word)
        if found is None:
            return refuse()
        has_loop = found.given and source.signature is None
        types = "".join([dtype.char for dtype in (*found.given, found.result)]) if has_loop else ""
        return new_plan(found.word, source if has_loop else None, types, found.result, call=source)

    def _find_result(self, word: int) -> int:
        """Return the word of the result of a small call, after keeping it (Note [Quick calls of ufuncs])."""
        found = small_call(self._numpy, self._operator, word)
        self._shortcuts[word] = 0 if found is None else found.word
        return self._shortcuts[word]

    def _planned(self, word: int, *operands: Any) -> Any:
        """Compute for tensors with this union of words."""
        plan = self._plans[word]
        if plan is None:
            local = get_state()
            if local is not None:
                word = (word | local.include) & local.keep
            assert self._operator is not None
            plan = self._operator.cache[word]
        made = plan(*operands)
        if made.__class__ is Tensor and made._data.shape:
            for x in operands:
                if made is x:
                    break
            else:
                made.__class__ = ndarray
                return made
        return as_scalars(_finished(made, operands))

    def _general(self, operands: tuple[Any, ...], out: Any, options: dict[str, Any]) -> Any:
        """Compute for any operands and options."""
        source = self._numpy
        if source.signature is not None and options.keys() & {"axes", "axis"} and "keepdims" not in options:
            rest = {k: v for k, v in options.items() if k not in ("axes", "axis")}
            axes = options.get("axes", [options.get("axis", -1)] * len(operands))
            made = _finished(moved_axes(partial(self, **rest), tuple([operand(x) for x in operands]), axes), operands)
            if out is not None:
                return write_out(source.__name__, made, out, True, "same_kind", operands)
            return as_scalars(made)
        if options.keys() - {"where", "casting", "order", "dtype", "subok"} or (
            isinstance(out, tuple) and len(out) != source.nout
        ):
            return on_host(source, operands, options if out is None else {**options, "out": out})
        for x in operands:  # xarray's arrays hold arrays of ours
            if not isinstance(x, _COMMON) and getattr(x, "__array_ufunc__", None) is not None:
                theirs = x.__array_ufunc__(
                    source, "__call__", *operands, **({} if out is None else {"out": out}), **options
                )
                if theirs is not NotImplemented:
                    return theirs
        alone = all(isinstance(x, NUMBERS) or (isinstance(x, Tensor) and x._word & WEAK_MASK) for x in operands)
        values = tuple([operand(x, weak=not alone) for x in operands])
        if any(not isinstance(x, Tensor) for x in values):  # NumPy explains what it does not take
            return on_host(source, operands, options if out is None else {**options, "out": out})
        dtype = options.get("dtype")
        where = options.get("where", True)
        if dtype is not None:
            made = self._in_dtype(values, np.dtype(dtype), options.get("casting", "same_kind"))
        else:
            word = 0
            for x in values:
                word |= x._word
            plan = self._plans[word]
            made = self._operator.call(*values) if plan is None and self._operator is not None else plan(*values)
        made = _finished(made, values)
        if out is None and where is True:
            return as_scalars(made)
        return write_out(source.__name__, made, out, where, options.get("casting", "same_kind"), values)

    def _in_dtype(self, values: tuple[Any, ...], dtype: np.dtype, casting: Any) -> Any:
        """Compute in the loop whose result has the dtype."""
        source = self._numpy
        given = [weak_dtypes(x._word)[0] if x._word & WEAK_MASK else x.dtype for x in values]
        signature = (None,) * source.nin + (dtype,) * source.nout
        found = source.resolve_dtypes((*given, *(None,) * source.nout), signature=signature, casting=casting)
        return self._loop(found)(*values)

    def _loop(self, found: tuple[np.dtype, ...]) -> Callable[..., Any]:
        """Return the function that computes in these dtypes."""
        source, operator = self._numpy, self._operator
        ins, outs = found[: source.nin], found[source.nin :]
        if ins[0].kind == "b" and outs[0].kind == "b" and source.__name__ in _LOGICAL:
            operator = registry.find(f"tk::{_LOGICAL[source.__name__]}")
        if any(d not in DTYPE_TRAIT for d in (*ins, *outs)):
            return lambda *values: on_host(source, values, {})
        call = operator.call if operator is not None and _accepts(operator, ins) else None
        if call is None:
            call = composed(source.__name__, "" if operator is None else operator.name.removeprefix("tk::"), ins)
        if call is None:
            return lambda *values: on_host(source, values, {})

        def compute(*values: Any) -> Any:
            made = call(*[cast(x, dtype) for x, dtype in zip(values, ins)])
            if isinstance(made, tuple):
                return tuple([cast(x, dtype) for x, dtype in zip(made, outs)])
            return cast(made, outs[0])

        return compute

    # ---- methods

    def reduce(
        self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
        initial: Any = np._NoValue, where: Any = True,
    ) -> Any:  # fmt: skip
        """Combine the elements along ``axis``; with None along all axes."""
        options: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "out": out}
        if initial is not np._NoValue:
            options["initial"] = initial
        if where is not True:
            options["where"] = where
        name = _REDUCTIONS.get(self.__name__)
        if name is None or (dtype is not None and name not in ("sum", "prod")):
            return on_host(self._numpy.reduce, (array,), {**options, "dtype": dtype})
        if name in ("sum", "prod"):
            options["dtype"] = dtype
        return functions[name](array, **options)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Return the running results along ``axis``."""
        name = _SCANS.get(self.__name__)
        if name is None:
            running = {"maximum": "cummax", "minimum": "cummin"}.get(self.__name__)
            records = isinstance(array, Tensor) and array.requires_grad
            if running is not None and dtype is None and out is None and records:
                return as_ndarray(registry.find(f"tk::{running}").call(array, axis)[0])
            return on_host(self._numpy.accumulate, (array,), {"axis": axis, "dtype": dtype, "out": out})
        return functions[name](array, axis=axis, dtype=dtype, out=out)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        """Combine the slices of ``axis`` that begin at ``indices``; without gradients from the values, by NumPy."""
        given = tensors_in((array,))
        if out is None and (is_strict() or any(x.requires_grad or x.device.type != "cpu" for x in given)):
            from ..functions.calculating.weighted import reduced_slices

            x, places = functions["asarray"](array), functions["asarray"](indices).tolist()
            return as_ndarray(reduced_slices(partial(self.reduce, dtype=dtype), x, places, axis))
        return on_host(self._numpy.reduceat, (array, indices), {"axis": axis, "dtype": dtype, "out": out})

    def outer(self, a: Any, b: Any, /, **options: Any) -> Any:
        """Apply the function to all pairs of elements."""
        x, y = operand(a), operand(b)
        return self(x.reshape(x.shape + (1,) * y.ndim), y, **options)

    def at(self, a: Any, indices: Any, b: Any = None, /) -> None:
        """Apply the function in place at ``indices``, also several times to one element."""
        if not isinstance(a, Tensor):
            raise TypeError(f"[numpy.{self.__name__}.at] takes an array to change, got {type(a).__name__}.")
        given = [x for x in tensors_in((a, indices, b)) if not x._word & WEAK_MASK]
        if is_strict() or any(x.requires_grad or x.device.type != "cpu" for x in given):
            apply_at(self, a, indices, b)
            return
        values = a.numpy().copy()
        rest = () if b is None else (b,)
        on_host(lambda *xs: self._numpy.at(values, *xs), (indices, *rest), {})
        a.copy_(from_host(values, a.device))


def _accepts(operator: Operator, ins: tuple[np.dtype, ...]) -> bool:
    """Tell whether an operator computes in these dtypes."""
    facet = operator.facets.get("Pointwise")
    if facet is None:
        return True
    try:
        facet.promotion.dtypes(operator.name, ins)
    except TypeError:
        return False
    return True


class _Plans(dict[int, Any]):
    """For each union of words the function that computes the ufunc, or None where it is the operator's own kernel."""

    def __init__(self, function: ufunc) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, word: int) -> Any:
        made = self[word] = self._make(word)
        return made

    def _make(self, word: int) -> Any:
        function = self._function
        source, operator = function._numpy, function._operator
        arrays, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
        if any(d.kind == "V" for d in arrays):  # bfloat16, which NumPy does not have
            return None
        if not arrays and not weak:  # as of object.__new__(ndarray); without an error, they would come back here
            raise TypeError(f"[{source.__name__}] an operand has no dtype: make arrays with tk.numpy.asarray.")
        if not arrays:  # Python numbers alone
            return lambda *values: function._general(values, None, {})
        if len(arrays) + len(weak) > source.nin or len(weak) > 1 or (source.nin > 2 and len(arrays) > 1):
            return lambda *values: _of_several(function, values)
        given: list[Any] = [*arrays, *weak_dtypes(word)]
        given += given[:1] * (source.nin - len(given))
        try:
            found = source.resolve_dtypes((*given, *(None,) * source.nout))
            other = source.resolve_dtypes((*reversed(given), *(None,) * source.nout))
        except TypeError:
            other = found = ()
        if not found or other != found:  # the word does not tell the order: ldexp, comparisons of int64 with uint64
            return lambda *values: _of_several(function, values)
        if operator is not None and source.nout == 1 and _agrees(operator, arrays, weak, found):
            roots = source is np.power and weak == (float,) and found[0].char in "fd" and _TAKES_ROOTS
            return partial(_root_or_power, operator) if roots else None
        return function._loop(found)


def _root_or_power(power: Operator, base: Any, exponent: Any) -> Any:
    """Return ``base**exponent`` of floats; with the Python float 0.5 the square root, nan for minus infinity."""
    if exponent._word & WEAK_MASK and exponent._data.item() == 0.5:
        return registry.find("tk::sqrt").call(base)
    return power.call(base, exponent)


def _of_several(function: ufunc, values: tuple[Any, ...]) -> Any:
    """Compute for operands whose dtypes, in this order, decide."""
    source = function._numpy
    given = [weak_dtypes(x._word)[0] if x._word & WEAK_MASK else x.dtype for x in values]
    try:
        found = source.resolve_dtypes((*given, *(None,) * source.nout))
    except TypeError as error:  # NumPy raises its own error
        try:
            return on_host(source, values, {})
        except NotImplementedError:
            raise error from None
    return function._loop(found)(*values)


def _agrees(
    operator: Operator, arrays: tuple[np.dtype, ...], weak: tuple[type, ...], found: tuple[np.dtype, ...]
) -> bool:
    """Tell whether the operator computes in NumPy's dtypes, whatever the default dtypes are."""
    facet = operator.facets.get("Pointwise")
    if facet is None:
        return len({*arrays, *found}) == 1 and found[0].kind in "fc" and not weak
    for default in (dtypes.float32, dtypes.float64):
        with dtypes.default_dtypes(real_floating=default):
            try:
                compute, result = facet.promotion.dtypes(operator.name, arrays, weak)
            except TypeError:
                return False
        if result != found[-1]:
            return False
        if any(d != compute for d in found[:-1]) and not (facet.boolean == facet.parameters and result.kind == "b"):
            return False
    return True


def _finished(made: Any, values: tuple[Any, ...]) -> Any:
    return as_ndarrays(tuple(made) if isinstance(made, tuple) else made, values)


def universal_functions() -> dict[str, ufunc]:
    """Return the ufuncs of the namespace by name."""
    made: dict[str, ufunc] = {}
    by_source: dict[np.ufunc, ufunc] = {}
    for name in sorted(vars(np)):
        source = getattr(np, name, None)
        if not isinstance(source, np.ufunc) or name.startswith("_") or name == "isnat":
            continue
        if source not in by_source:
            own = source.__name__
            ours = "tk::abs" if own == "fabs" else f"tk::{NUMPY_NAMES.get(own, own)}"
            load_owner(ours)  # Note [Operators that are declared on first use]
            by_source[source] = ufunc(source, own, registry.operators.get(ours))
        made[name] = by_source[source]
    return made
