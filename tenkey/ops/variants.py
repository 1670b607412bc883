"""In-place and ``out=`` variants, derived from functional operators, and ``copy_``.

Note [Variants]
~~~~~~~~~~~~~~~
Every pointwise operator ``ns::name`` whose first argument is a tensor has an in-place variant ``ns::name_``, which
writes into that tensor, and every pointwise operator and reduction has an overload ``ns::name.out``, which writes into
the tensor ``out``. Variants are made at the first lookup of their name, so unused ones cost nothing; a definition of
the same name replaces a derived variant, and a variant is removed with its operator. Variants of built-in operators
with the tag ``inplace`` are made with their operator, because they are methods of Tensor. A result may be written into
a tensor whose dtype is of the same kind or a later one (bool, integer, float, complex). Guarded by
``tests/ops/test_variants.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from .._util.record import Record, replaced
from ..core.lift import refuse_out_of_range
from ..core.plans import add_method, add_table
from ..core.tensor import Tensor, strides_of
from ..core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ..dispatch.errors import DeviceMismatchError, ReadOnlyError, RegistrationError
from ..dispatch.keys import DispatchKey
from ..dispatch.local_state import switched
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import AliasInfo, Argument, BaseType, FunctionSchema, Return, parse_schema
from ..dispatch.tags import Tag
from .builtin import elementwise as _pointwise  # noqa: F401  # the in-place methods are used below
from .builtin.elementwise import arithmetic, integers  # noqa: F401  # their variants are Python operators below
from .builtin.linalg.matmul import matmul
from .declare.facets import Composite, Methods, SampleInputs
from .declare.samples import normal
from .shapes import broadcast_shapes

__all__ = ["Fits", "Inplace", "Out", "can_hold", "check_copy", "check_pointwise", "check_fits", "copy_", "inplace_name"]


_RANK: Final = {"b": 0, "i": 1, "u": 1, "O": 1, "f": 2, "V": 2, "c": 3}  # O: a Python int beyond 64 bits


def can_hold(dtype: np.dtype, result: np.dtype) -> bool:
    """Return whether a result of one dtype may be written into a tensor of another."""
    return _RANK[result.kind] <= _RANK[dtype.kind]


def check_fits(
    name: str, x: Tensor, shape: tuple[int, ...], result: np.dtype, into: str = "the first argument"
) -> None:
    """Raise unless a result of this shape and dtype may be written into ``x``."""
    if shape != x.shape:
        raise ValueError(
            f"[{name}] the result of shape {shape} does not fit into {into}, shape {x.shape}. (output with "
            f"shape {x.shape} doesn't match the broadcast shape {shape})"
        )
    if not can_hold(x.dtype, result):
        raise TypeError(
            f"[{name}] a result of dtype {result} cannot be written into a tensor of dtype {x.dtype}: cast it first. "
            f"(result type {result} can't be cast to the desired output type {x.dtype})"
        )
    check_distinct_elements(name, x, into)
    if x._data.__class__ is np.ndarray and not x._data.flags.writeable:
        raise ReadOnlyError(
            f"[{name}] {into} is on read-only memory, shared with another library or broadcast: clone() it first."
        )


def check_distinct_elements(name: str, x: Tensor, into: str) -> None:
    """Raise unless each element of a tensor that is written to has memory of its own."""
    if (
        0 in x._data.strides
        and any(n > 1 and not step for n, step in zip(x.shape, strides_of(x), strict=True))
        and x.size
    ):
        raise ReadOnlyError(
            f"[{name}] unsupported operation: more than one element of the written-to tensor refers to a single "
            f"memory location: {into} of shape {x.shape}, strides {strides_of(x)} was broadcast. "
            "clone() it first."
        )


def check_pointwise(operator: Operator, *args: Any) -> None:
    """Raise unless the first argument has the shape of the result and its dtype can hold the result."""
    functional: Operator = operator.facets["Inplace"].functional
    facet = functional.facets["Pointwise"]
    operands = [value for value in args if isinstance(value, Tensor)]
    word = 0
    for tensor in operands:
        word |= tensor._word
    compute, result = facet.promotion.dtypes(operator.name, dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK))
    for tensor in operands:
        refuse_out_of_range(operator.schema.base_name, tensor, compute)
    shape = broadcast_shapes(operator.schema.base_name, *[t.shape for t in operands])
    check_fits(operator.schema.base_name, operands[0], shape, result)


def check_copy(operator: Operator, x: Tensor, source: Tensor) -> None:
    """Raise unless ``source`` broadcasts to ``x``, and for complex values if ``x`` is real."""
    refuse_out_of_range(operator.schema.base_name, source, x.dtype)
    shape = broadcast_shapes(operator.schema.base_name, x.shape, source.shape)
    check_fits(operator.schema.base_name, x, shape, source.dtype if source.dtype.kind == "c" else x.dtype)


class Inplace(Record):
    """Marks an operator that writes the result of ``functional`` into its first argument; None: its second argument."""

    functional: Operator | None


class Out(Record):
    """Marks an operator that writes the result of ``functional`` into its argument ``out``."""

    functional: Operator


class Fits(Record):
    """``check(operator, *arguments)`` raises if the result does not fit the written tensor, on every backend alike."""

    check: Callable[..., None]


def inplace_name(operator: Operator) -> str:
    """Return the name of the in-place variant of a functional operator: ``ns::add_`` for ``ns::add``."""
    schema = operator.schema
    return f"{schema.name}_.{schema.overload_name}" if schema.overload_name else f"{schema.name}_"


def derive_inplace(
    operator: Operator, methods: tuple[str, ...] = (), *, tags: tuple[Tag, ...] = (Tag.VARIANT,)
) -> Operator:
    """Define the in-place variant of a pointwise operator."""
    facets: dict[str, Any] = {
        "Inplace": Inplace(operator), "Fits": Fits(check_pointwise), "DerivedFrom": operator,
    }  # fmt: skip
    if methods:
        facets["Methods"] = Methods(methods)
    others = [replaced(a, kwarg_only=False) if a.kwarg_only else a for a in operator.schema.arguments[1:]]
    return registry.define(
        _inplace_schema(operator.schema, others),
        facets=facets,
        tags=(Tag.INPLACE_VARIANT, *tags),
        site=operator.site,
        doc=f"``{operator.schema.base_name}`` written into its first argument, which is returned.",
    )


_WRITTEN: Final = AliasInfo(("a",), is_write=True)
_TENSOR: Final = BaseType("Tensor")
_RESULT: Final = (Return(None, _TENSOR, _WRITTEN),)


def _inplace_schema(schema: FunctionSchema, others: Iterable[Argument]) -> FunctionSchema:
    """Return the schema ``(Tensor(a!) x, ...) -> Tensor(a!)`` with these arguments after the first."""
    written = Argument(schema.arguments[0].name, _TENSOR, alias=_WRITTEN)
    return FunctionSchema(schema.namespace, f"{schema.base_name}_", schema.overload_name, (written, *others), _RESULT)


def _derive_inplace_by_copy(operator: Operator) -> Operator:
    """Define the in-place variant of any other operator with the tag: copy its result into the first argument."""
    schema = operator.schema
    first = schema.arguments[0] if schema.arguments else None
    if first is None or first.type != _TENSOR or first.kwarg_only or [r.type for r in schema.returns] != [_TENSOR]:
        raise RegistrationError(
            f"[{operator.name}] has the tag 'inplace', but its schema is {schema}: only an operator (Tensor x, ...) "
            "-> Tensor can have an in-place variant. Remove the tag."
        )

    def write(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return write_out(operator, x, *args, out=x, **kwargs)

    return registry.define(
        _inplace_schema(schema, schema.arguments[1:]),
        facets={"Composite": Composite(write), "DerivedFrom": operator},
        tags=(Tag.INPLACE_VARIANT,),
        site=operator.site,
        doc=f"``{schema.base_name}`` written into its first argument, which is returned.",
    )


def derive_out(operator: Operator) -> Operator:
    """Define the overload of a pointwise operator or a reduction that writes into a tensor ``out``."""
    schema = operator.schema
    out = Argument("out", _TENSOR, kwarg_only=True, alias=_WRITTEN)
    overload = f"{schema.overload_name}_out" if schema.overload_name else "out"
    composite = Composite(functools.partial(_into, operator), implicit=False)
    return registry.define(
        FunctionSchema(schema.namespace, schema.base_name, overload, (*schema.arguments, out), _RESULT),
        facets={"Composite": composite, "Out": Out(operator), "DerivedFrom": operator},
        tags=(Tag.OUT, Tag.VARIANT),
        site=operator.site,
        doc=f"``{schema.base_name}`` written into ``out``, which is returned.",
    )


WRITING: Final = DispatchKey.ADInplaceOrView.mask


def _into(operator: Operator, /, *args: Any, out: Tensor, **kwargs: Any) -> Tensor:
    restore = switched(exclude=WRITING)  # the variant itself bumps the version
    try:
        return write_out(operator, *args, out=out, **kwargs)
    finally:
        restore()


def write_out(operator: Operator, /, *args: Any, out: Tensor, **kwargs: Any) -> Tensor:
    """Write the result of a functional operator into ``out`` with ``copy_``."""
    result = operator.call(*args, **kwargs)
    if out.device is not result.device:
        raise DeviceMismatchError(
            f"[{operator.name}] got tensors on different devices: out is on {out.device}, and the result on "
            f"{result.device}. Give an out on that device."
        )
    check_fits(operator.schema.base_name, out, result.shape, result.dtype, "out")
    copy_(out, result)
    return out


def _derive_variant(name: str) -> Operator | None:
    """Define the variant of that name if its operator exists; see Note [Variants]."""
    qualified, _, overload = name.partition(".")
    if overload == "out" or overload.endswith("_out"):
        functional = registry.operators.get(f"{qualified}.{overload[:-4]}".rstrip("."))
        if functional is not None and _has_out(functional):
            return derive_out(functional)
    elif qualified.endswith("_"):
        functional = registry.operators.get(f"{qualified[:-1]}.{overload}".rstrip("."))
        if functional is not None and _has_inplace(functional):
            return derive_inplace(functional)
        if functional is None and not overload:  # the operator may have named overloads only
            named = [op for op in registry.overloads(qualified[:-1]) if _has_inplace(op)]
            made = [derive_inplace(op) for op in named if inplace_name(op) not in registry.operators]
            return made[0] if made else None
    return None


def _has_out(operator: Operator) -> bool:
    known = "Pointwise" in operator.facets or "Reduce" in operator.facets
    if Tag.OUT in operator.tags:
        known = [str(r) for r in operator.schema.returns] == ["Tensor"]
    return known and all(a.name != "out" for a in operator.schema.arguments)


def _has_inplace(operator: Operator) -> bool:
    facet = operator.facets.get("Pointwise")
    first = operator.schema.arguments[0] if operator.schema.arguments else None
    return facet is not None and first is not None and first.name in facet.tensors and first.name not in facet.boolean


registry.hooks.derivers.append(_derive_variant)


def _methods_of(operator: Operator) -> tuple[str, ...]:
    """Return the names of the in-place methods: those of the methods with an underscore."""
    facet = operator.facets.get("Methods")
    plain = [name for name in (facet.names if facet is not None else ()) if not name.startswith("__")]
    return tuple(dict.fromkeys([f"{name}_" for name in (*plain, operator.schema.base_name)]))


def _install(operator: Operator) -> None:
    if Tag.INPLACE in operator.tags and inplace_name(operator) not in registry.operators:
        if "Pointwise" in operator.facets:
            derive_inplace(operator, _methods_of(operator), tags=())
        else:
            _derive_inplace_by_copy(operator)


registry.subscribe(_install, prompt=True)


_copy_samples = normal(([3, 4], [3, 4]), ([3, 4], [4]), ([3, 4], []), ([], []), ([0, 2], [1, 2]))


copy_ = registry.define(
    parse_schema("tk::copy_(Tensor(a!) x, Tensor source) -> Tensor(a!)"),
    facets={"Inplace": Inplace(None), "Fits": Fits(check_copy), "SampleInputs": SampleInputs(_copy_samples)},
    tags=(Tag.INPLACE_VARIANT, Tag.MIXES_DEVICES),
    doc="""Write the values of ``source``, broadcast and converted, into ``x``, which is returned.

    >>> tk.zeros(2).copy_(tk.asarray([1, 2])).tolist()
    [1.0, 2.0]
    """,
).call
Tensor.copy_ = copy_  # type: ignore[method-assign]
_OPERATORS: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
for _name, _method in _OPERATORS.items():
    add_method(registry.find(f"tk::{_method}_"), f"__i{_name}__", getattr(Tensor, f"{_method}_"))
add_table("square", registry.find("tk::square"))


def _imatmul(self: Any, other: Any) -> Any:
    """Write the product ``self @ other``, which must have the shape of ``self``, into ``self``."""
    return write_out(matmul.operator, self, other, out=self)  # type: ignore[attr-defined]


_imatmul.__name__, _imatmul.__qualname__ = "__imatmul__", "Tensor.__imatmul__"
Tensor.__imatmul__ = _imatmul  # type: ignore[method-assign]
