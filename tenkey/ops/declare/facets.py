"""Facets: properties of an operator as inert data, stated by its declaration and read by the layers.

``operator.facets`` maps the name of the class to the facet. A new kind of facet needs no changes elsewhere: a layer
that uses it subscribes an installer to the registry.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ..._util.cached_attribute import cached_property
from ..._util.record import Record, made
from ...dispatch.errors import RegistrationError
from ...dispatch.schema import FunctionSchema
from ..scalar import indices, trace, variable
from .promotion import Promotion

__all__ = [
    "AUTOCAST_POLICIES", "FEW", "ArgReduce", "ArgScan", "Autocast", "Backward", "Batch", "Compared", "ComplexVjp",
    "Composite", "Decomposition", "ElementPlan", "Elements", "EntryOption", "Factory", "Forward", "JointVjp", "Jvp",
    "Linear", "Meta", "Methods", "NotDifferentiable", "NumPyKernel", "Part", "Partials", "Pointwise", "Reduce",
    "Reference", "SampleInputs", "Scan", "TensorSpec", "View", "Vjp", "autocast_policy", "checked", "formula_names",
    "linear", "reserved_names", "role_of", "tensor_names",
]  # fmt: skip

_STARRED: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class TensorSpec(NamedTuple):
    """Shape and dtype of a result."""

    shape: tuple[int, ...]
    dtype: np.dtype


def tensor_names(schema: FunctionSchema) -> tuple[str, ...]:
    """Return the names of the arguments that hold tensors or lists of tensors."""
    return tuple(a.name for a in schema.arguments if a.type.is_tensor_like)


def reserved_names(schema: FunctionSchema) -> set[str]:
    """Return the names with a meaning of their own in formulas: ``g``, ``out``, and ``x_meta`` for a tensor ``x``."""
    return {"g", "out", *[f"{name}_meta" for name in tensor_names(schema)]}


def role_of(schema: FunctionSchema, name: str) -> str:
    """Return the name of an argument in the formulas that are derived: its own, unless that is a reserved one."""
    taken = reserved_names(schema)
    if name not in taken:
        return name
    taken |= {a.name for a in schema.arguments}
    while name in taken:
        name += "_"
    return name


def formula_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the parameters of a formula."""
    code = getattr(function, "__code__", None)
    if code is not None and not function.__dict__ and not code.co_flags & _STARRED:
        names: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return names
    return tuple(inspect.signature(function).parameters)


class Pointwise(Record):
    """A scalar expression: ``scalar(T)`` returns a function of all schema arguments, in order.

    ``boolean`` names tensor arguments that are read as booleans and take no part in promotion. ``ufunc`` is a function
    of NumPy's that computes the same on every dtype that the operator computes in: it serves small calls.
    """

    schema: FunctionSchema
    scalar: Callable[[Any], Callable[..., Any]]
    promotion: Promotion
    domain: tuple[float, float]
    boolean: tuple[str, ...] = ()
    ufunc: np.ufunc | None = None
    programs: dict[Any, Any] = made(default_factory=dict, repr=False)  # compiled by a backend, by dtypes

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
        """The same expression with numbers in place of booleans: nonzero numbers are true."""
        return Pointwise(self.schema, self.scalar, self.promotion, self.domain, ufunc=self.ufunc)

    @cached_property
    def expression(self) -> Any:
        """The traced expression."""
        return trace(self.scalar, self.parameters, name=self.schema.name, booleans=self.boolean)

    @cached_property
    def indices(self) -> dict[str, int | None]:
        """The axes of the index variables in the expression by name, with None for the position in the whole result."""
        return indices([self.expression])

    def index_axes(self, ndim: int) -> dict[str, int | None]:
        """Return the axes for a result with ``ndim`` dimensions, counted from the front, by the names of variables.

        Raises IndexError if the result lacks an axis.
        """
        for axis in self.indices.values():
            if axis is not None and not -ndim <= axis < ndim:
                raise IndexError(
                    f"[{self.schema.base_name}] its expression uses index({axis}), and the result has {ndim} "
                    f"dimension{'' if ndim == 1 else 's'}: give tensors with more dimensions."
                )
        return {name: axis if axis is None else axis % ndim for name, axis in self.indices.items()}


class Reduce(Record):
    """An associative ``combine(T)(a, b)`` with an identity (None: an empty reduction is an error).

    ``scalar(T)(x)`` maps every element first. ``promotion`` determines the dtypes of the computation and the result.
    """

    combine: Callable[[Any], Callable[[Any, Any], Any]]
    identity: Any
    scalar: Callable[[Any], Callable[..., Any]] | None
    promotion: Promotion
    domain: tuple[float, float] = (-4.0, 4.0)
    parts: dict[Any, Pointwise] = made(default_factory=dict, repr=False)  # its two functions, prepared by a backend
    kernels: dict[Any, Any] = made(default_factory=dict, repr=False)  # compiled by a backend, by dtypes

    @cached_property
    def expression(self) -> Any:
        """The traced ``combine`` of the variables ``a`` and ``b``."""
        return trace(self.combine, ("a", "b"), name="combine")

    @cached_property
    def mapping(self) -> Any:
        """The traced ``scalar`` of the variable ``x``; the variable itself if there is none."""
        return variable("x") if self.scalar is None else trace(self.scalar, ("x",), name="scalar")


class ArgReduce(Record):
    """The place of the best element: ``better(T)(a, b)`` tells whether ``a`` takes the place of an earlier ``b``."""

    better: Callable[[Any], Callable[[Any, Any], Any]]
    kernels: dict[Any, Any] = made(default_factory=dict, repr=False)  # compiled by a backend, by dtypes

    @cached_property
    def expression(self) -> Any:
        """The traced ``better`` of the variables ``a`` and ``b``."""
        return trace(self.better, ("a", "b"), name="better")


class ArgScan(Record):
    """The current element so far along an axis, and its place.

    ``replaces(T)(a, b)`` tells whether ``b`` takes the place of an earlier ``a``. The operator has the arguments ``x``
    and ``axis``, returns elements and places, and is also a ``Composite``.
    """

    replaces: Callable[[Any], Callable[[Any, Any], Any]]
    kernels: dict[Any, Any] = made(default_factory=dict, repr=False)  # compiled by a backend, by dtypes

    @cached_property
    def expression(self) -> Any:
        """The traced ``replaces`` of the variables ``a`` and ``b``."""
        return trace(self.replaces, ("a", "b"), name="replaces")


class Scan(Record):
    """The running results of an associative ``combine`` along an axis.

    ``combine(T)(a, b)`` joins an earlier element with a later one. With several tensors an element has several parts:
    ``combine(T)(a0, a1, b0, b1)`` returns a tuple of as many. ``identity`` is its neutral element, in a tuple for
    several parts, or None; it is needed for ``include_initial``. An operator with one result returns the last part.
    """

    schema: FunctionSchema
    combine: Callable[[Any], Callable[..., Any]]
    identity: Any
    promotion: Promotion
    kernels: dict[Any, Any] = made(default_factory=dict, repr=False)  # compiled by a backend, by dtypes

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The arguments that are the parts of the elements."""
        return tensor_names(self.schema)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The variables of ``combine``."""
        count = len(self.tensors)
        return ("a", "b") if count == 1 else tuple([f"{side}{i}" for side in "ab" for i in range(count)])

    def expressions(self, *, boolean: bool = False) -> tuple[Any, ...]:
        """Return the traced ``combine`` of each part; ``boolean``: the elements are conditions."""
        booleans = self.parameters if boolean else ()
        found = trace(self.combine, self.parameters, name=self.schema.name, booleans=booleans)
        return found if isinstance(found, tuple) else (found,)


class View(Record):
    """``window(x, ...)`` returns (shape, strides, offset) in elements, or None if the result needs a copy."""

    window: Callable[..., tuple[tuple[int, ...], tuple[int, ...], int] | None]


class Meta(Record):
    """``rule(arguments...)`` returns the TensorSpec of each result, or raises on bad arguments."""

    rule: Callable[..., Any]


FEW: Final = 1 << 18
"""Bytes up to which NumPy's function is the faster kernel of a composition; beyond, backends have their own loops."""


class NumPyKernel(Record):
    """``function(arguments...)`` computes the operator on NumPy arrays in place of tensors.

    It returns arrays with their own memory, of the shapes and dtypes that the rule of ``Meta`` gives. The CPU backend
    and the CPU fallback of every other backend run it. ``strict``: it raises wherever the rule raises, so the rule need
    not run first. ``quiet``: NumPy never warns in it. ``widens``: NumPy lacks float16 there, so it gets float32 and its
    results are rounded. For a composite it is a faster kernel, which returns NotImplemented or raises to decline; for
    ``Tensor?`` in the schema it gets Python numbers unchanged.
    """

    function: Callable[..., Any]
    strict: bool = False
    quiet: bool = False
    widens: bool = False


class Methods(Record):
    """The names of the operator as a method of Tensor."""

    names: tuple[str, ...]


class Composite(Record):
    """The operator in terms of others; ``implicit``: it is differentiable because these are."""

    function: Callable[..., Any]
    implicit: bool = True


class Decomposition(Record, frozen=True):
    """The operator in terms of others, for devices that have no kernel of their own for it.

    ``function`` takes the operator's arguments; it runs without recording. ``needs`` names the templates, besides
    ``pointwise``, without which it would be slower than a copy to the CPU (``"gather"``, ``"sort"``).
    """

    function: Callable[..., Any]
    needs: tuple[str, ...] = ()


def checked(meta: Callable[..., Any], function: Callable[..., Any], *needs: str) -> Decomposition:
    """Return the decomposition that raises the errors of ``meta`` first."""

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        meta(*args, **kwargs)
        return function(*args, **kwargs)

    return Decomposition(decomposed, needs)


class EntryOption(Record):
    """A keyword of the operator's entry that is not in its schema: see Note [Options of an entry].

    ``function(operator, result, value)`` returns the result of a call with another value than the default.
    """

    name: str
    default: Any
    function: Callable[..., Any]


class Factory(Record):
    """Marks an operator without tensor arguments."""


class ElementPlan(NamedTuple):
    """A call of a factory as a scalar expression: ``scalar(T)`` is a function of ``numbers``, computed in ``dtype``.

    ``scalar`` is one object for all calls of a kind, since a kernel is compiled for each.
    """

    scalar: Callable[[Any], Callable[..., Any]]
    dtype: np.dtype
    numbers: Mapping[str, Any]


class Elements(Record):
    """A factory as a scalar expression of index variables, for devices without a kernel of their own for it.

    ``plan(arguments...)`` returns an :class:`ElementPlan`, or None for a call that has none.
    """

    plan: Callable[..., ElementPlan | None]


class NotDifferentiable(Record):
    """Marks an operator through which no gradient flows: integer results, or a step function."""


class Partials(Record):
    """Partial derivatives of a pointwise operator: a formula for each tensor argument, or None if it is zero.

    The parameters of a formula are arguments of the operator, or ``out``; only these are saved.
    """

    formulas: Mapping[str, Callable[..., Any] | None]


class Vjp(Record):
    """For each tensor argument a formula with ``g`` and the arguments that it needs; only these are saved."""

    formulas: Mapping[str, Callable[..., Any] | None]


class ComplexVjp(Record):
    """The formulas of ``Vjp`` for calls with complex tensors if the operator is not holomorphic (``abs``).

    Other calls use the derivative of the expression.
    """

    formulas: Mapping[str, Callable[..., Any] | None]


class JointVjp(Record):
    """A formula that returns the gradients of all arguments in ``Vjp`` at once, used where all of them are needed.

    It names nothing that the formulas do not name.
    """

    function: Callable[..., Any]


class Part(Record):
    """For a view of some of the elements: a function of ``x`` and of names in its ``Vjp`` that returns the view again.

    No element may occur in the view twice. A gradient that is zero elsewhere can then be added where it is not zero.
    """

    function: Callable[..., Any]


class Linear(Record, frozen=True):
    """The forward derivative of an operator that is linear in its tensors: the operator applied to tangents.

    Each group names arguments in which the operator is jointly linear while the other groups are fixed.
    """

    groups: tuple[tuple[str, ...], ...]


def linear(*groups: str | tuple[str, ...]) -> Linear:
    """Return the ``jvp=`` of a product, ``linear("x1", "x2")``, or of a sum, ``linear(("x", "source"))``."""
    return Linear(tuple([(group,) if isinstance(group, str) else group for group in groups]))


class Jvp(Record):
    """``function(tangents, **named)``; ``tangents`` maps argument names to tangents or None."""

    function: Callable[..., Any] | Linear


class Compared(Record):
    """What all correct results of an operator have in common: tests compare ``function(result, arguments...)``.

    It takes and returns NumPy arrays, or tuples of them for an operator with several results.
    """

    function: Callable[..., Any]


class Reference(Record):
    """The operator on NumPy arrays: tests compare it with ``function(arguments...)``.

    It computes the same in another way than the declaration does, by a function of NumPy or SciPy, or a formula from
    the literature, so that a wrong constant in the declaration is noticed. Operators that NumPy or SciPy has under the
    same name need none.
    """

    function: Callable[..., Any]


class SampleInputs(Record):
    """``make(rng)`` yields (args, kwargs) of NumPy arrays and plain values, as inputs for tests and opcheck."""

    make: Callable[[np.random.Generator], Any]
    gradcheck_wrapper: Callable[..., Any] | None = None
    notes: dict[str, Any] = made(default_factory=dict)


def check_formula(schema: FunctionSchema, what: str, function: Callable[..., Any], extra: tuple[str, ...]) -> None:
    """Raise unless each parameter of a formula is an argument, an argument's meta, or one of ``extra``."""
    allowed = {a.name for a in schema.arguments} | {f"{name}_meta" for name in tensor_names(schema)} | set(extra)
    names = formula_names(function)
    for argument in schema.arguments:
        if argument.name in names and argument.name in {*reserved_names(schema)} - {"g"} | set(extra):
            raise RegistrationError(
                f"[{schema.name}] the formula for {what} names {argument.name!r}, which is an argument, but in a "
                "gradient formula g is the incoming gradient, out the result, and x_meta the shape of x. Rename the "
                "argument."
            )
    wrong = [name for name in names if name not in allowed]
    if wrong:
        raise RegistrationError(
            f"[{schema.name}] the formula for {what} names {', '.join(wrong)}: it may name "
            f"{', '.join([a.name for a in schema.arguments] + list(extra))}, and for a tensor argument x also x_meta "
            "(its shape, dtype and device, without keeping its values)."
        )


class Backward(Record):
    """A handwritten gradient: ``backward(ctx, *grads)`` and ``setup_context(ctx, inputs, output)``."""

    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None


class Forward(Record):
    """A handwritten forward derivative: ``function(ctx, *tangents)`` returns the tangent of each result.

    There is one tangent for each argument, or None. ``setup_context`` is that of ``Backward``.
    """

    function: Callable[..., Any]
    setup_context: Callable[..., Any] | None


class Batch(Record):
    """A rule for vmap: ``function(info, in_dims, *args)`` returns ``(out, out_dims)``; ``info.batch_size`` is the size.

    ``args`` and ``in_dims`` have the structure of the arguments; a dim is None for an argument that is not batched.
    """

    function: Callable[..., Any]


class Autocast(Record):
    """The dtype to which autocast converts the floating tensors of a call: Note [Autocast].

    ``policy`` is a key of ``AUTOCAST_POLICIES``. ``dtypes`` are dtypes by device type that replace it.
    """

    policy: str | None = None
    dtypes: Mapping[str, np.dtype] = made(default_factory=dict)


AUTOCAST_POLICIES: Final = {
    "lower": "the dtype of autocast: products, which are fast in it while sums are kept in more bits",
    "float32": "float32: functions that exceed the range of the lower dtypes, sums of many elements, and losses",
    "widest": "the widest dtype among them: operators on several tensors that need a common one",
}


def autocast_policy(schema: FunctionSchema, policy: str) -> Autocast:
    """Return the facet for ``autocast=`` of a declaration; raise RegistrationError for an unknown policy."""
    if policy not in AUTOCAST_POLICIES:
        raise RegistrationError(
            f"[{schema.name}] autocast={policy!r}: it is {', '.join(map(repr, AUTOCAST_POLICIES))}, or None to leave "
            "the tensors as they are."
        )
    return Autocast(policy)
