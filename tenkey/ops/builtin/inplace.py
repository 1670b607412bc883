"""In-place variants, derived from the functional blocks that carry the tag ``inplace``, and ``copy_``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...core.lift import refuse_out_of_range
from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.schema import parse_schema
from ..declare.declaration import operator_of
from ..declare.facets import Samples
from ..shapes import broadcast_shapes
from .indexing import basic_index, index_shape, reverse_source
from .pointwise import add, divide, exp, log, multiply, negative, pow, relu, sigmoid, sqrt, subtract, tanh

__all__ = ["Fits", "Inplace", "check_copy", "check_pointwise", "check_put", "copy_", "inplace_name", "setitem"]


_SHAPE: Final = "[{operator}] the result of shape {result} does not fit into the first argument, shape {target}."
_KIND: Final = (
    "[{operator}] a result of dtype {result} cannot be written into a tensor of dtype {target}: cast it first."
)
_OVERLAP: Final = (
    "[{operator}] elements of the first argument, shape {target}, strides {strides}, share their memory (it was "
    "broadcast), and would be written more than once: clone() it first."
)
_RANK: Final = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def _fits(operator: Operator, x: Tensor, shape: tuple[int, ...], result: np.dtype) -> None:
    if shape != x.shape:
        raise ValueError(_SHAPE.format(operator=operator.schema.base_name, result=shape, target=x.shape))
    if _RANK[result.kind] > _RANK[x.dtype.kind]:
        raise TypeError(_KIND.format(operator=operator.schema.base_name, result=result, target=x.dtype))
    if 0 in x._data.strides and any(n > 1 and not step for n, step in zip(x.shape, x.strides, strict=True)) and x.size:
        raise RuntimeError(_OVERLAP.format(operator=operator.schema.base_name, target=x.shape, strides=x.strides))


def check_pointwise(operator: Operator, x: Tensor, *args: Any) -> None:
    """Raise unless the pointwise result has the shape of ``x`` and a dtype that its own can hold."""
    functional: Operator = operator.facets["Inplace"].functional
    facet = functional.facets["Pointwise"]
    operands = (x, *args[: len(facet.tensors) - 1])
    word = 0
    for tensor in operands:
        word |= tensor._word
    compute, result = facet.promotion.dtypes(operator.name, dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK))
    for tensor in operands:
        refuse_out_of_range(operator.schema.base_name, tensor, compute)
    _fits(operator, x, broadcast_shapes(operator.schema.base_name, *[t.shape for t in operands]), result)


def check_copy(operator: Operator, x: Tensor, source: Tensor) -> None:
    """Raise unless ``source`` broadcasts to ``x``; only complex values have no place in a real tensor."""
    refuse_out_of_range(operator.schema.base_name, source, x.dtype)
    shape = broadcast_shapes(operator.schema.base_name, x.shape, source.shape)
    _fits(operator, x, shape, source.dtype if source.dtype.kind == "c" else x.dtype)


def check_put(operator: Operator, x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> None:
    """Raise unless ``source`` broadcasts to what the indices select (masks are left to the kernel)."""
    refuse_out_of_range("index_put", source, x.dtype)
    selected = index_shape(x, indices)
    if selected is not None and broadcast_shapes("index_put", selected, source.shape) != selected:
        raise ValueError(_SHAPE.format(operator="index_put", result=source.shape, target=selected))
    _fits(operator, x, x.shape, source.dtype if source.dtype.kind == "c" else x.dtype)


@dataclass
class Inplace:
    """The operator writes what ``functional`` computes into its first argument; None: a copy of the second."""

    functional: Operator | None


@dataclass
class Fits:
    """``check(operator, *arguments)`` raises where what would be written does not fit: the same on every backend."""

    check: Callable[..., None]


def inplace_name(operator: Operator) -> str:
    """The name of the in-place variant of a functional operator: ``ns::add_`` for ``ns::add``."""
    return f"{operator.schema.name}_"


def derive_inplace(operator: Operator, method: str | None = None) -> Operator:
    """Define the in-place variant of a pointwise operator."""
    rest = ", ".join(str(a) for a in operator.schema.arguments[1:])
    first = operator.schema.arguments[0].name
    schema = f"{inplace_name(operator)}(Tensor(a!) {first}{', ' + rest if rest else ''}) -> Tensor(a!)"
    derived = registry.define(
        parse_schema(schema),
        facets={"Inplace": Inplace(operator), "Fits": Fits(check_pointwise)},
        tags=("inplace_variant",),
        doc=f"``{operator.schema.base_name}`` written into its first argument, which is returned.",
    )
    setattr(Tensor, method or derived.schema.base_name, derived.call)
    return derived


for _entry, _method in (
    (add, "add_"), (subtract, "sub_"), (multiply, "mul_"), (divide, "div_"), (pow, "pow_"), (exp, "exp_"),
    (log, "log_"), (negative, "neg_"), (relu, "relu_"), (sigmoid, "sigmoid_"), (sqrt, "sqrt_"), (tanh, "tanh_"),
):  # fmt: skip
    derive_inplace(operator_of(_entry), _method)


def _copy_samples(rng: np.random.Generator) -> Any:
    shapes = (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 4), ()), ((), ()), ((0, 2), (1, 2)))
    return [((rng.standard_normal(x), rng.standard_normal(source)), {}) for x, source in shapes]


def _put_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal((4, 3)), [np.array([2, -4])], rng.standard_normal((2, 3))), {}),
        ((rng.standard_normal((4, 3)), [None, np.array([0, 2])], rng.standard_normal((2,))), {}),
        ((rng.standard_normal((4, 3)), [np.array([True, False, True, True])], rng.standard_normal(())), {}),
    ]


copy_ = registry.define(
    parse_schema("tk::copy_(Tensor(a!) x, Tensor source) -> Tensor(a!)"),
    facets={"Inplace": Inplace(None), "Fits": Fits(check_copy), "Samples": Samples(_copy_samples)},
    tags=("inplace_variant", "mixes_devices"),
    doc="""Write the values of ``source``, broadcast and converted, into ``x``, which is returned.

    >>> import tenkey as tk
    >>> tk.zeros(2).copy_(tk.asarray([1, 2])).tolist()
    [1.0, 2.0]
    """,
).call
Tensor.copy_ = copy_  # type: ignore[attr-defined]
for _name, _method in (("iadd", "add_"), ("isub", "sub_"), ("imul", "mul_"), ("itruediv", "div_"), ("ipow", "pow_")):
    setattr(Tensor, f"__{_name}__", getattr(Tensor, _method))


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``, in place: the value is broadcast and converted to the dtype of ``x``."""
    reversed_at: list[int] = []
    viewed, arrays = basic_index(x, index, reversed_at)
    if reversed_at and hasattr(value, "ndim"):
        value = reverse_source(value, viewed, arrays, reversed_at)
    if arrays:
        put_(viewed, arrays, value)
    else:
        copy_(viewed, value)


put_ = registry.define(
    parse_schema("tk::put_(Tensor(a!) x, Tensor?[] indices, Tensor source) -> Tensor(a!)"),
    facets={"Fits": Fits(check_put), "Samples": Samples(_put_samples)},
    tags=("inplace_variant",),
    doc="""``x[indices] = source`` for a list of integer or bool tensors, as in ``gather``.

    >>> import tenkey as tk
    >>> x = tk.zeros(3)
    >>> x[tk.asarray([0, 2])] = 5.0
    >>> x.tolist()
    [5.0, 0.0, 5.0]
    """,
).call
Tensor.__setitem__ = setitem  # type: ignore[method-assign]
