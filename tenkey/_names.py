"""The public names of operators, and their modules in the namespace.

An operator with a docstring is ``tk.<name>``; the prefixes ``linalg_``, ``fft_`` and ``special_`` put it into that
module instead. Derived operators (``out=``, in-place), operators that work in place and internal ones are available
only in ``tk.ops`` and as methods of Tensor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

from .dispatch import registry
from .dispatch.calling.bindings import open_entry
from .dispatch.operator import Operator
from .dispatch.tags import Tag
from .interop import foreign_arguments as _foreign_arguments  # noqa: F401  # which explains foreign arguments
from .interop.numpy_names import FUNCTIONS, counterpart
from .ops.builtin import load_module, load_owner

__all__ = ["MODULES", "SUBMODULES", "expose", "fill_module", "find_public", "list_public"]

MODULES: Final = ("linalg", "fft", "special")
# Public modules tk.<module>; other modules beside __init__.py hold functions of the namespace itself.
SUBMODULES: Final = frozenset(
    {
        *MODULES,
        "autograd",
        "backends",
        "core",
        "cuda",
        "dispatch",
        "library",
        "numpy",
        "ops",
        "random",
        "testing",
        "transforms",
    }
)
_FOLDER: Final = os.path.dirname(__file__) + os.sep  # noqa: PTH120 -- an import of pathlib takes 4 ms
_HIDDEN: Final = frozenset({Tag.DERIVED, Tag.INTERNAL})


def _is_public(operator: Operator) -> bool:
    return bool(
        operator.schema.namespace == "tk"
        and operator.doc
        and not _HIDDEN & operator.tags
        and not operator.schema.is_mutable
        and not operator.schema.overload_name
    )


def _place(operator: Operator) -> tuple[str, str]:
    """Return the module ("" for the namespace itself) and the name in it."""
    name = operator.schema.base_name
    prefix, _, rest = name.partition("_")
    return (prefix, rest) if prefix in MODULES and rest else ("", name)


def expose(module: str) -> dict[str, Callable[..., Any]]:
    """Return the operators of a module of the namespace by name, as functions with the names they have there."""
    found: dict[str, Callable[..., Any]] = {}
    with registry.lock:  # each function is made once
        load_module(module)
        for operator in [*registry.operators.values()]:
            if (module and not operator.schema.base_name.startswith(module)) or not _is_public(operator):
                continue
            place, name = _place(operator)
            if place == module:
                found[name] = _public_function(operator, module, name)
        found |= {} if module else {name: _alias(name) for name in FUNCTIONS}
    return dict(sorted(found.items()))


def _is_own(function: Callable[..., Any]) -> bool:
    """Return whether the package declares the operator of a public function, so that no one removes it."""
    return str(function.operator.site).startswith(_FOLDER)  # type: ignore[attr-defined]


def _public_function(operator: Operator, module: str, name: str) -> Callable[..., Any]:
    """Return the public function of an operator, made once (Note [Open entries])."""
    found: Callable[..., Any] | None = operator.notes.get(_public_function)
    if found is None:
        place = f"tenkey.{module}" if module else "tenkey"
        operator.call.__module__ = place
        operator.call.__name__ = operator.call.__qualname__ = name
        found = operator.notes[_public_function] = open_entry(operator, name, place)
    return found


def _alias(name: str) -> Callable[..., Any]:
    """Return the operator that has another name in PyTorch, made once."""
    operator = registry.find(f"tk::{FUNCTIONS[name]}")
    found: Callable[..., Any] | None = operator.notes.get((_alias, name))
    if found is None:
        found = operator.notes[_alias, name] = open_entry(operator, name, "PyTorch")
        found.__module__ = "tenkey"
    return found


def list_public(namespace: Mapping[str, Any]) -> list[str]:
    """Return the public names among the globals of ``tenkey``, and the package's operators, for ``__all__``."""
    own = {name: function for name, function in expose("").items() if _is_own(function)}
    return sorted(
        name
        for name, value in {**namespace, **own}.items()
        if not name.startswith("_") and (name in SUBMODULES or not isinstance(value, ModuleType))
    )


def find_public(module: str, name: str, namespace: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Return the public operator of this name; one of the package is added to the globals ``namespace``.

    Raises AttributeError for other names.
    """
    with registry.lock:
        found = _alias(name) if not module and name in FUNCTIONS else _find(module, name)
        if namespace is not None and _is_own(found):
            namespace[name] = found
        return found


def _find(module: str, name: str) -> Callable[..., Any]:
    full = f"tk::{module}_{name}" if module else f"tk::{name}"
    operator = registry.operators.get(full)
    if operator is None and not name.startswith("_"):
        load_owner(full)
        operator = registry.operators.get(full)
    if operator is None or not _is_public(operator) or _place(operator) != (module, name):
        ours = "" if module else counterpart(name)
        raise AttributeError(
            f"module {'tenkey.' + module if module else 'tenkey'!r} has no attribute {name!r}"
            + (f": the name here is {ours}." if ours else "")
        )
    return _public_function(operator, module, name)


def fill_module(module: str, namespace: dict[str, Any]) -> Callable[[str], Any]:
    """Add the operators of a module to its globals and ``__all__``; return its ``__getattr__``, for later operators."""
    load_module(module)
    for name in namespace["__all__"]:  # operators of the namespace that the module has as well
        if hasattr(namespace[name], "operator"):
            namespace[name] = find_public("", name)
    found = expose(module)
    namespace.update(found)
    namespace["__all__"].extend(found)
    return lambda name: find_public(module, name)
