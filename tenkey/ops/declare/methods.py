"""Operators as methods of the Tensor class, including Python's binary operators with their reflected forms.

Note [Delayed methods]
~~~~~~~~~~~~~~~~~~~~~~
A method of an operator that is declared on first use (Note [Operators that are declared on first use]) stands in the
class from the start as a descriptor, which is replaced by the method when it is first read: the operator of that name
is looked up, ``cos_`` for ``x.cos_``, which declares it and adds its methods. So does a method that is an operator
under another name, which is made when it is read. If a program replaces or deletes a descriptor, loading
the operator later does not undo it. Guarded by ``tests/ops/test_load.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from numpy import float64

from ...core.lift import kept_float, kept_int, weak_tensor
from ...core.plans import add_method
from ...core.tensor import Tensor
from ...core.tensor_base import SLOT_NAMES
from ...dispatch.calling import codegen
from ...dispatch.calling.arguments import lift as lift_arguments
from ...dispatch.calling.bindings import open_entry
from ...dispatch.errors import ArgumentError, OperatorNotFoundError
from ...dispatch.kernel import Handle
from ...dispatch.local_state import get_state
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.tags import Tag
from .facets import Methods

__all__ = ["DelayedMethod", "attach_methods", "delay_methods", "is_method", "method_of"]

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


class DelayedMethod:
    """Stands for a method of a class until it is read: ``make(name)`` makes it (Note [Delayed methods])."""

    def __init__(self, owner: type, name: str, make: Callable[[str], Any]) -> None:
        self._owner, self._name, self._make = owner, name, make

    def _method(self) -> Any:
        with registry.lock:
            made = self._make(self._name)
            if vars(self._owner).get(self._name) is self:
                setattr(self._owner, self._name, made)
        return made

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        made = self._method()
        found = vars(self._owner).get(self._name, made)
        return found.__get__(instance, kind) if hasattr(found, "__get__") else found

    # What tools do with a function that they take out of ``vars(Tensor)``:

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method."""
        return self._method()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in {"_owner", "_name", "_make"}:  # of a copy that is being made
            raise AttributeError(name)
        made = self._method()
        return made if name == "__wrapped__" else getattr(made, name)


def _made(operator: str, name: str) -> Any:
    try:
        found = registry.find(f"tk::{operator}")  # which adds its methods when it is declared
    except OperatorNotFoundError:  # it was removed
        raise AttributeError(f"'Tensor' object has no attribute {name!r}", name=name) from None
    there = vars(Tensor).get(name)
    return method_of(found, name) if isinstance(there, DelayedMethod) else there


def is_method(name: str) -> bool:
    """Return whether an attribute of ``Tensor`` is a method, without making one that is delayed."""
    return callable(vars(Tensor).get(name) or getattr(Tensor, name))


def delay_methods(operators: Mapping[str, str]) -> None:
    """Add operators to ``Tensor`` by the names of methods, which are made when they are read."""
    for name, operator in operators.items():
        setattr(Tensor, name, DelayedMethod(Tensor, name, partial(_made, operator)))


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
    before = {name: there for name in made if not isinstance(there := vars(Tensor).get(name), DelayedMethod | None)}
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


registry.subscribe(_install, prompt=True)
