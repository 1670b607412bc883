"""Operators as methods of the Tensor class, including Python's binary operators with their reflected forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numpy import float64

from ...core.lift import kept_float, kept_int, weak_tensor
from ...core.plans import add_method
from ...core.tensor import Tensor
from ...core.tensor_base import SLOT_NAMES
from ...dispatch.calling import codegen
from ...dispatch.calling.arguments import lift as lift_arguments
from ...dispatch.calling.bindings import open_entry
from ...dispatch.errors import ArgumentError
from ...dispatch.kernel import Handle
from ...dispatch.local_state import get_state
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.tags import Tag
from .facets import Methods

__all__ = ["attach_methods", "method_of"]

_BINARY: Final = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
    "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")

_TEMPLATE: Final = """def {method}({first}, {second}):
    kind = {second}.__class__
    if kind is not Tensor:
        if kind is float:
            known = kept_float({second})
            {second} = weak({second}) if known is None else known
        elif kind is int:
            known = kept_int({second})
            {second} = weak({second}) if known is None else known
        elif kind is float64:
            {second} = weak({second}.item())
    try:
        word = {first}._word | {second}._word
    except AttributeError:
        lifted = lift(x1, x2)
        if lifted is None:
            return NotImplemented
        x1, x2 = lifted
        word = x1._word | x2._word
    local = state()
    if local is not None:
        word = (word | local.include) & local.keep
    return cache[word](x1, x2)
"""


def _binary_method(operator: Operator, name: str, *, reflected: bool) -> Callable[..., Any]:
    """Return a method for ``x1 <op> x2``, which returns NotImplemented for an operand of another type."""

    def lift(x1: Any, x2: Any) -> tuple[Any, ...] | None:
        try:
            return lift_arguments(operator, (x1, x2))
        except ArgumentError:
            return None

    method = f"__{'r' if reflected else ''}{name}__"
    first, second = ("x2", "x1") if reflected else ("x1", "x2")
    scope: dict[str, Any] = {"cache": operator.cache, "state": get_state, "lift": lift}
    scope |= {"kept_float": kept_float, "kept_int": kept_int, "weak": weak_tensor, "Tensor": Tensor, "float64": float64}
    if Tag.KEEPS_PYTHON_SCALARS in operator.tags:
        scope |= {"kept_float": lambda value: None, "kept_int": lambda value: None, "weak": lambda value: value}
    source = _TEMPLATE.format(method=method, first=first, second=second)
    function = codegen.define(source, scope, f"<method {method} of {operator.name}>")
    function.__doc__ = f"See ``{operator.name}``."
    return function


def method_of(operator: Operator, name: str) -> Callable[..., Any]:
    """Return an operator as a method, which accepts PyTorch's keywords if it has options (Note [Open entries])."""
    has_options = len(operator.schema.arguments) > len(operator.tensor_arguments)
    return open_entry(operator, name, "Tensor") if has_options else operator.call


def attach_methods(operator: Operator, methods: tuple[str, ...]) -> Handle:
    """Make an operator a method of ``Tensor`` under these names; the handle removes it again."""
    made: dict[str, Callable[..., Any]] = {}
    for method in methods:
        bare = method.strip("_")
        if method.startswith("__") and bare in _BINARY:
            made[method] = _binary_method(operator, bare, reflected=False)
            if bare not in _COMPARISONS:
                made[f"__r{bare}__"] = _binary_method(operator, bare, reflected=True)
        else:
            made[method] = method_of(operator, method)
    restores = []
    for name in [name for name in made if name.startswith("__") and name.strip("_") in SLOT_NAMES]:
        reflected = made.pop(f"__r{name.strip('_')}__", None)  # the slot of the compiled core has both
        restores.append(add_method(operator, name, made.pop(name), reflected))
    before = {name: Tensor.__dict__[name] for name in made if name in Tensor.__dict__}
    for name, function in made.items():
        setattr(Tensor, name, function)

    def remove() -> None:
        for restore in restores:
            restore()
        for name, function in made.items():
            if Tensor.__dict__.get(name) is not function:
                continue  # replaced in the meantime
            if name in before:
                setattr(Tensor, name, before[name])
            else:
                delattr(Tensor, name)

    return Handle(remove, f"methods of {operator.name}")


def _install(operator: Operator) -> list[Handle]:
    facet: Methods | None = operator.facets.get("Methods")
    return [] if facet is None else [attach_methods(operator, facet.names)]


registry.subscribe(_install)
