"""Facets: what a block says of its operator, as inert data that the layers read.

``operator.facets`` maps the class name to the facet. Adding a kind of facet needs no change anywhere else: a layer that
knows it subscribes an installer to the registry.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from ..._util.record import Record, made
from ...dispatch.errors import RegistrationError
from ...dispatch.schema import BaseType, FunctionSchema, OptionalType
from ..scalar import trace, variable
from .promotion import Promotion

__all__ = [
    "Autocast", "Backward", "Batch", "ComplexVjp", "Composite", "Factory", "Forward", "NumPyKernel", "Jvp", "Linear",
    "Meta", "Methods", "NotDifferentiable", "Partials", "Pointwise", "Reduce", "SampleInputs", "TensorSpec", "View",
    "Vjp", "formula_names", "is_plain_tensor", "linear", "tensor_names",
]  # fmt: skip


_STARRED: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class TensorSpec(NamedTuple):
    """Shape and dtype of a result."""

    shape: tuple[int, ...]
    dtype: np.dtype


def is_plain_tensor(kind: Any) -> bool:
    """Whether a schema type is ``Tensor`` or ``Tensor?``."""
    return bool(kind == BaseType("Tensor") or kind == OptionalType(BaseType("Tensor")))


def tensor_names(schema: FunctionSchema) -> tuple[str, ...]:
    """The names of the arguments that hold tensors, lists of tensors included."""
    return tuple(a.name for a in schema.arguments if a.type.is_tensor_like)


def formula_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters of a formula."""
    code = getattr(function, "__code__", None)
    if code is not None and not function.__dict__ and not code.co_flags & _STARRED:
        names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return names
    return tuple(inspect.signature(function).parameters)


class Pointwise(Record):
    """One scalar expression: ``scalar(T)`` gives a function of all schema arguments, in order.

    ``boolean`` names tensor arguments that are read as booleans and take no part in promotion. ``ufunc`` is a function
    of NumPy's that computes the same on every dtype that the operator computes in: it serves small calls.
    """

    schema: FunctionSchema
    scalar: Callable[[Any], Callable[..., Any]]
    promotion: Promotion
    domain: tuple[float, float]
    boolean: tuple[str, ...] = ()
    ufunc: np.ufunc | None = None
    programs: dict[Any, Any] = made(default_factory=dict, repr=False)  # what a backend made of it, by dtypes

    @property
    def parameters(self) -> tuple[str, ...]:
        """The arguments of the expression, in schema order."""
        return tuple(a.name for a in self.schema.arguments)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The parameters that are tensors."""
        return tensor_names(self.schema)

    @cached_property
    def of_numbers(self) -> Pointwise:
        """The same with no argument read as a boolean: a number is true where it is not zero."""
        return Pointwise(self.schema, self.scalar, self.promotion, self.domain, ufunc=self.ufunc)

    @cached_property
    def expression(self) -> Any:
        """The traced expression."""
        return trace(self.scalar, self.parameters, name=self.schema.name, booleans=self.boolean)


class Reduce(Record):
    """An associative ``combine(T)(a, b)`` with an identity (None: an empty reduction is an error).

    ``scalar(T)(x)`` maps every element first. ``promotion`` says which dtype it computes in and gives.
    """

    combine: Callable[[Any], Callable[[Any, Any], Any]]
    identity: Any
    scalar: Callable[[Any], Callable[..., Any]] | None
    promotion: Promotion
    domain: tuple[float, float] = (-4.0, 4.0)
    parts: dict[Any, Pointwise] = made(default_factory=dict, repr=False)  # its two functions, as a backend uses them

    @cached_property
    def expression(self) -> Any:
        """The traced ``combine``, of the variables ``a`` and ``b``."""
        return trace(self.combine, ("a", "b"), name="combine")

    @cached_property
    def mapping(self) -> Any:
        """The traced ``scalar``, of the variable ``x``; the variable itself where there is none."""
        return variable("x") if self.scalar is None else trace(self.scalar, ("x",), name="scalar")


class View(Record):
    """``window(x, ...)`` gives (shape, strides, offset) in elements, or None where only a copy can have that shape."""

    window: Callable[..., tuple[tuple[int, ...], tuple[int, ...], int] | None]


class Meta(Record):
    """``rule(arguments...)`` gives the TensorSpec of each result, or raises on bad arguments."""

    rule: Callable[..., Any]


class NumPyKernel(Record):
    """``function(arguments...)`` computes the operator on NumPy arrays: arrays stand in place of the tensors.

    It returns arrays of its own memory, of the shapes and dtypes that the rule of ``Meta`` says. The CPU backend runs
    it; so does the CPU fallback of every other. ``strict``: it raises by itself wherever the rule raises, which then
    need not run first. ``quiet``: NumPy never warns in it. ``widens``: NumPy has no float16 there, so that it gets
    float32 and its results are rounded. Of a composite it is a shorter way, which gives up with NotImplemented or by
    raising; Python numbers come as such where the schema says ``Tensor?``.
    """

    function: Callable[..., Any]
    strict: bool = False
    quiet: bool = False
    widens: bool = False


class Methods(Record):
    """The names under which the operator is a method of Tensor."""

    names: tuple[str, ...]


class Composite(Record):
    """The operator in terms of others; ``implicit``: differentiable because these are."""

    function: Callable[..., Any]
    implicit: bool = True


class Factory(Record):
    """An operator without tensor arguments."""


class NotDifferentiable(Record):
    """No gradient flows through the operator: integer results, or a step function."""


class Partials(Record):
    """Partial derivatives of a pointwise operator: one formula for each tensor argument, or None where it is zero.

    A formula names the arguments it needs, or ``out``; only these are saved.
    """

    formulas: Mapping[str, Callable[..., Any] | None]


class Vjp(Record):
    """For each tensor argument a formula of ``g`` and of the names that it needs; only these are saved."""

    formulas: Mapping[str, Callable[..., Any] | None]


class ComplexVjp(Record):
    """The formulas of ``Vjp`` for calls with complex tensors, where the derivative is no complex number (``abs``).

    The other calls go by the derivative of the expression.
    """

    formulas: Mapping[str, Callable[..., Any] | None]


class Linear(Record, frozen=True):
    """The forward derivative of an operator that is linear in its tensors: itself, on tangents.

    Each group names arguments in which it is linear together; it is linear in every group by itself.
    """

    groups: tuple[tuple[str, ...], ...]


def linear(*groups: str | tuple[str, ...]) -> Linear:
    """``jvp=linear("x1", "x2")`` for a product, ``jvp=linear(("x", "source"))`` for what joins its arguments."""
    return Linear(tuple([(group,) if isinstance(group, str) else group for group in groups]))


class Jvp(Record):
    """``function(tangents, **named)``; ``tangents`` maps argument names to tangents or None."""

    function: Callable[..., Any] | Linear


class SampleInputs(Record):
    """``make(rng)`` yields (args, kwargs) of NumPy arrays and plain values: the inputs that tests and opcheck use."""

    make: Callable[[np.random.Generator], Any]
    reference: Callable[..., Any] | None = None
    gradcheck_wrapper: Callable[..., Any] | None = None
    notes: dict[str, Any] = made(default_factory=dict)


def check_formula(schema: FunctionSchema, what: str, function: Callable[..., Any], extra: tuple[str, ...]) -> None:
    """Raise unless every name of a formula is an argument, an argument's meta, or one of ``extra``."""
    allowed = {a.name for a in schema.arguments} | {f"{name}_meta" for name in tensor_names(schema)} | set(extra)
    wrong = [name for name in formula_names(function) if name not in allowed]
    if wrong:
        raise RegistrationError(
            f"[{schema.name}] the formula for {what} names {', '.join(wrong)}; a formula may "
            f"name {', '.join([a.name for a in schema.arguments] + list(extra))}, and for a tensor argument x also "
            "x_meta (its shape, dtype and device, without keeping its values)."
        )


class Backward(Record):
    """A gradient written by hand: ``backward(ctx, *grads)`` and ``setup_context(ctx, inputs, output)``."""

    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None


class Forward(Record):
    """A forward derivative written by hand: ``function(ctx, *tangents)`` gives the tangent of each result.

    There is one tangent for each argument, None where there is none. ``setup_context`` is that of ``Backward``.
    """

    function: Callable[..., Any]
    setup_context: Callable[..., Any] | None


class Batch(Record):
    """A rule for vmap: ``function(info, in_dims, *args)`` gives ``(out, out_dims)``; ``info.batch_size`` is the size.

    ``args`` and ``in_dims`` have the structure of the arguments; a dim is None where there is no batch dimension.
    """

    function: Callable[..., Any]


class Autocast(Record):
    """What autocast converts the floating tensors of a call to, by device type."""

    dtypes: Mapping[str, np.dtype]
