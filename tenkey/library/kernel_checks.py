"""Runtime checks of user-written kernels: results at every call, inputs at sampled calls.

Note [Checked kernels]
~~~~~~~~~~~~~~~~~~~~~~
A function generated for the schema wraps the kernel; it costs one Python call and a few comparisons. It refuses results
that contradict the schema: a different type or number, or a tensor on a device that none of the arguments is on. For
external devices it wraps the kernels of built-in operators too. Operators made by ``custom_op`` must not return an
argument, or a view of one, unless the schema annotates it, nor receive the same memory as two arguments of which one is
written to: gradients and transforms would be silently wrong. Kernels registered for built-in operators must not return
an argument either: a later in-place change of the result would change the argument. Undeclared writes to an argument
are found by sampling: the first calls, and then one in forty to one hundred, compare versions and bytes of the inputs
before and after. The gaps vary, so that a periodic caller cannot hide a write, and every kernel is sampled at least
twice in 200 calls. Guarded by ``tests/library/test_checks.py``.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ..core.tensor import NoValuesError, Tensor, shares_storage, storage_of, version_of
from ..core.tree import tensors_in
from ..core.wrapper import from_scalar
from ..dispatch.calling import codegen
from ..dispatch.errors import shown
from ..dispatch.keys import backend_mask, backends_in
from ..dispatch.operator import Operator
from ..dispatch.schema import Argument, BaseType, ListType, OptionalType, TupleType
from ..dispatch.tags import Tag

__all__ = ["KernelChecks", "checked_kernel", "may_return_argument"]

_FIRST: Final = 3  # the number of calls that are checked before sampling begins
_GAPS: Final = (61, 83, 47, 97, 71, 89, 53, 67)  # calls from one sample to the next
_WHOLE: Final = 1 << 24  # size in bytes above which an input is compared by its checksum
_INLINE: Final = BaseType("Tensor")


def _ticks() -> Iterator[bool]:
    """Yield for each call whether it is sampled."""
    later = itertools.chain.from_iterable([*itertools.repeat(False, gap - 1), True] for gap in _GAPS)
    return itertools.chain(itertools.repeat(True, _FIRST), itertools.cycle(tuple(later)))


def _short(value: Any) -> str:
    """Return a value as one short line."""
    text = " ".join(shown(value).split())
    return text if len(text) <= 80 else f"{text[:80]}..."


class KernelChecks:
    """The slow paths for one kernel of one operator and one dispatch word."""

    def __init__(self, operator: Operator, function: Callable[..., Any], word: int) -> None:
        self.operator = operator
        self.schema = operator.schema
        self.kernel = getattr(function, "__qualname__", None) or shown(function)
        schema = operator.schema
        self.tensors = [a for a in schema.arguments if a.type.contains_tensor]
        self.mutated = [a for a in schema.arguments if a.is_mutable]
        self.foreign = 0
        has_device = any("Device" in str(a.type) for a in schema.arguments)
        if self.tensors and not has_device and not operator.mixes_devices and word & backend_mask():
            self.foreign = backend_mask() & ~word
        self.word = word
        self.returned = {name for r in schema.returns if r.alias for name in r.alias.names}

    # ---- results

    def result(self, out: Any) -> Any:
        """Return the results as the schema declares them; raise TypeError if they do not fit."""
        returns = self.schema.returns
        if len(returns) == 1:
            return self._fit(out, returns[0].type, "its result")
        if not returns:
            if out is not None:
                raise TypeError(
                    f"[{self.operator.name}] its kernel {self.kernel} returned {_short(out)} of "
                    f"type {type(out).__name__}, but the schema says that it returns nothing: return None, or give "
                    f"the result in the schema: {self.schema}."
                )
            return None
        if not isinstance(out, (tuple, list)) or len(out) != len(returns):
            got = f"{len(out)} results" if isinstance(out, (tuple, list)) else f"one {type(out).__name__}"
            raise TypeError(
                f"[{self.operator.name}] its kernel {self.kernel} returned {got}, but the schema says {len(returns)} "
                f"results: {self.schema}. Return a tuple of {len(returns)}."
            )
        pairs = enumerate(zip(out, returns))
        return tuple([self._fit(item, r.type, f"its result {r.name or i}") for i, (item, r) in pairs])

    def _fit(self, value: Any, kind: Any, what: str) -> Any:
        if isinstance(kind, OptionalType):
            return None if value is None else self._fit(value, kind.element, what)
        if isinstance(kind, ListType) and isinstance(value, (list, tuple)) and kind.size in (None, len(value)):
            items = [self._fit(item, kind.element, f"{what}[{i}]") for i, item in enumerate(value)]
            return items if isinstance(value, list) else tuple(items)
        if isinstance(kind, TupleType) and isinstance(value, (list, tuple)) and len(value) == len(kind.elements):
            pairs = zip(value, kind.elements)
            return tuple([self._fit(item, e, f"{what}[{i}]") for i, (item, e) in enumerate(pairs)])
        if isinstance(kind, BaseType):
            if kind.name == "Tensor":
                value = from_scalar(value)
                if isinstance(value, Tensor):
                    if value._word & self.foreign:
                        self._wrong_device(value)
                    return value
            else:
                fitting = self._number(value, kind.name)
                if fitting is not NotImplemented:
                    return fitting
        raise TypeError(
            f"[{self.operator.name}] its kernel {self.kernel} returned {_short(value)} of type {type(value).__name__} "
            f"as {what}: the schema says {kind}. {self._remedy(value, str(kind))}"
        )

    @staticmethod
    def _remedy(value: Any, kind: str) -> str:
        if value is None:
            return f"Return a {kind}, or say '{kind}?' in the schema."
        if kind == "Tensor" and isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
            return "Convert it with tk.asarray(...)."
        return "Return what the schema says, or change the schema."

    def _number(self, value: Any, kind: str) -> Any:
        if isinstance(value, np.generic) and kind not in ("str", "DType", "Device"):
            value = value.item()
        if kind in ("DType", "Device"):
            return value
        kinds: dict[str, tuple[type, ...]] = {
            "int": (int,), "float": (float, int), "bool": (bool,), "complex": (complex, float, int), "str": (str,),
            "Scalar": (bool, int, float, complex),
        }  # fmt: skip
        if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind not in ("bool", "Scalar", "int")):
            return NotImplemented
        return value

    def _wrong_device(self, value: Tensor) -> None:
        names = [self.operator.registry.hooks.device_name(name) for name in backends_in(self.word & backend_mask())]
        raise TypeError(
            f"[{self.operator.name}] its kernel {self.kernel} returned a Tensor on the device {value.device}, but its "
            f"arguments are on {' and '.join(names)}: return tensors on the device of the arguments (device=x.device)."
        )

    # ---- aliases

    def distinct(self, *args: Any) -> None:
        """Raise if two arguments share memory and one of them is written to."""
        held = [(a, tensor) for a, value in zip(self.schema.arguments, args) for tensor in tensors_in(value)]
        for i, (a, first) in enumerate(held):
            if not a.is_mutable:
                continue
            for j, (b, second) in enumerate(held):
                if i == j or (b.is_mutable and j < i) or not shares_storage(first, second):
                    continue
                raise RuntimeError(
                    f"[{self.operator.name}] the arguments {a.name!r} and {b.name!r} share one memory, and the "
                    f"operator writes to {a.name!r}: give it different tensors; clone() one of them."
                )

    def aliases(self, out: Any, *args: Any) -> None:
        """Raise if a result is an argument, a view of one, or another result."""
        outputs = tensors_in(out)
        if len(outputs) > 1 and len({id(tensor) for tensor in outputs}) < len(outputs):
            raise RuntimeError(
                f"[{self.operator.name}] returned one tensor as two of its results: return different tensors; clone() "
                "one of them."
            )
        for argument, value in zip(self.schema.arguments, args):
            if argument.alias is not None and not self.returned.isdisjoint(argument.alias.names):
                continue
            for given in tensors_in(value):
                for tensor in outputs:
                    if tensor is given:
                        custom = Tag.CUSTOM_OP in self.operator.tags
                        raise RuntimeError(
                            f"[{self.operator.name}] returned one of its arguments, {argument.name!r}: an operator "
                            "returns new tensors; return x.clone()"
                            + (", or name the argument in mutates_args and return None." if custom else ".")
                        )
                    if _overlap(tensor, given):
                        raise RuntimeError(
                            f"[{self.operator.name}] returned a view of one of its arguments, {argument.name!r}: an "
                            "operator returns new tensors; clone() the result."
                        )

    # ---- sampling

    def sampled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``function`` with a comparison of its inputs before and after."""
        watched = [(i, a) for i, a in enumerate(self.schema.arguments) if a.type.contains_tensor and not a.is_mutable]

        def run(*args: Any, **kwargs: Any) -> Any:
            held: list[tuple[Argument, Tensor, Any]] = []
            for i, a in watched:
                value = args[i] if i < len(args) else kwargs.get(a.name)
                held += [(a, tensor, _fingerprint(tensor)) for tensor in tensors_in(value)]
            out = function(*args, **kwargs)
            for a, tensor, before in held:
                if _fingerprint(tensor) != before:
                    storage_of(tensor).version += 1  # tensors saved for a gradient are no longer valid
                    raise RuntimeError(
                        f"[{self.operator.name}] its kernel {self.kernel} changed the argument {a.name!r} in place, "
                        f"which the schema does not say: put it in mutates_args=({a.name!r},), or work on a clone()."
                    )
            return out

        return run


def _overlap(result: Tensor, given: Tensor) -> bool:
    """Return whether a result lies in the memory of an argument, without making storages for either."""
    data, other = result._data, given._data
    if data is other:
        return True
    if data.__class__ is np.ndarray:
        return (result._storage is not None or data.base is not None) and shares_storage(result, given)
    return getattr(data, "buffer", None) is not None and data.buffer is getattr(other, "buffer", None)


def may_return_argument(operator: Operator) -> bool:
    """Return whether results of an operator may be arguments or views of them: views, in-place and composite ones."""
    facets = operator.facets
    composite = "Composite" in facets and facets["Composite"].implicit
    aliased = any(r.alias is not None for r in operator.schema.returns) or "View" in facets or Tag.VIEW in operator.tags
    return composite or aliased or "Factory" in facets or operator.name == "tk::to_device"


def _fingerprint(tensor: Tensor) -> tuple[int, Any]:
    """Return the version of a tensor and, on the CPU, its bytes or their checksum."""
    data = tensor._data
    if data.__class__ is not np.ndarray or data.dtype.hasobject:
        return version_of(tensor), None
    if data.nbytes > _WHOLE and data.flags.c_contiguous:
        return version_of(tensor), zlib.crc32(data.view(np.uint8).data)
    return version_of(tensor), data.tobytes()


def checked_kernel(
    operator: Operator,
    word: int,
    function: Callable[..., Any],
    *,
    written: Callable[..., Any] | None = None,
    strict: bool = False,
    sample: bool = True,
) -> Callable[..., Any]:
    """Wrap ``function`` with the checks of Note [Checked kernels]; ``strict`` adds those for ``custom_op``.

    ``written`` is the user's function if ``function`` is derived from it.
    """
    schema = operator.schema
    checks = KernelChecks(operator, written or function, word)
    structure = operator.facets.get("Structure")
    call = function
    if structure is not None:

        def call(*args: Any, **kwargs: Any) -> Any:
            given, named = structure.build_arguments(args, kwargs)
            out = function(*given, **named)
            try:
                return structure.pack_result(out)
            except TypeError as error:
                raise TypeError(
                    f"[{operator.name}] its kernel {checks.kernel} returned what the schema does not say: {error}. "
                    f"The schema is {schema}."
                ) from None

    if "Meta" in backends_in(word & backend_mask()):
        with_values = call

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return with_values(*args, **kwargs)
            except NoValuesError:
                raise RuntimeError(
                    f"[{operator.name}] got tensors on 'meta', which have no values, and its kernel {checks.kernel} "
                    "needs them: give the operator a rule for the shapes and dtypes of its results with "
                    f"tk.library.register_fake({operator.name!r}, function)."
                ) from None

    scope: dict[str, Any] = {
        "call": call, "Tensor": Tensor, "foreign": checks.foreign, "result": checks.result,
        "aliases": checks.aliases, "distinct": checks.distinct,
    }  # fmt: skip
    names = [a.name for a in schema.arguments]
    everything = ", ".join(names)
    passed = codegen.call(schema)
    lines: list[str] = []
    if strict and checks.mutated and len(checks.tensors) + sum("[" in str(a.type) for a in checks.mutated) > 1:
        lines.append(f"$distinct({everything})")
    watched = [a for a in checks.tensors if not a.is_mutable]
    if sample and watched:
        scope["tick"] = _ticks().__next__
        scope["sampled"] = checks.sampled(call)
        lines.append(f"$out = $sampled({passed}) if $tick() else $call({passed})")
    else:
        lines.append(f"$out = $call({passed})")
    single = len(schema.returns) == 1 and schema.returns[0].type == _INLINE
    if single:
        test = "$out.__class__ is not $Tensor" + (" or $out._word & $foreign" if checks.foreign else "")
        lines += [f"if {test}:", "    $out = $result($out)"]
    else:
        lines.append("$out = $result($out)")
    if strict and checks.tensors and any("Tensor" in str(r.type) for r in schema.returns):
        flat = all(a.type == _INLINE for a in checks.tensors)
        on_cpu = backends_in(word & backend_mask()) == ("CPU",)
        if single and flat and on_cpu and schema.returns[0].alias is None:
            scope["ndarray"] = np.ndarray
            arrays = [f"{a.name}._data" for a in checks.tensors]
            same = " or ".join(f"$data is {array}" for array in arrays)
            lines += [
                "$data = $out._data",
                f"if $data.__class__ is not $ndarray or $out._storage is not None or {same}:",
                f"    $aliases($out, {everything})",
                "elif $data.base is not None:",  # asarray of an array that the kernel made is the usual case
                "    $base = $data.base",
                "    if $base.__class__ is not $ndarray or $base.base is not None"
                + "".join(f" or $base is {array} or $base is {array}.base" for array in arrays)
                + ":",
                f"        $aliases($out, {everything})",
            ]
        else:
            lines.append(f"$aliases($out, {everything})")
    lines.append("return $out")
    source = f"def checked({codegen.parameters(schema)}):\n" + "".join(f"    {line}\n" for line in lines)
    return codegen.define(source, scope, f"<checked kernel of {operator.name}>", schema)
