"""Names of a package whose modules are loaded when somebody asks for them.

Note [Delayed modules]
~~~~~~~~~~~~~~~~~~~~~~
Most programs never profile, check a gradient, map over an axis or define an operator. The modules for that are loaded
at the first look at one of their names in the package (PEP 562), which then has the name like any other. A package says
which: ``__getattr__, __dir__ = delayed(__name__, {module: (its names, ...)})``, and imports the same names once more
under ``TYPE_CHECKING``, where type checkers and the test of the layers see them; the call itself is hidden from type
checkers, for whom a module with a ``__getattr__`` has every name. A module without names is itself what
the package has. Delayed are only modules that register nothing: what a key, a trait or an installer needs is there from
the beginning. No module is called as one of the names (the import system would put the module in its place).
Kernels are delayed in the same spirit: the function that chooses one imports its module. It runs under the lock of the
registry, which the body of such a module must therefore not take. Guarded by ``tests/package/test_delayed_modules.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["delayed"]


def delayed(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package with delayed modules (Note [Delayed modules])."""
    space = vars(sys.modules[package])
    places = {name: module for module, names in modules.items() for name in names}
    whole = {module for module in modules if "." not in module}

    def find(name: str) -> Any:
        if name in whole:
            return import_module(f"{package}.{name}")  # which puts it into the package
        module = places.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        found = space[name] = getattr(import_module(f".{module}", package), name)
        return found

    def names() -> list[str]:
        public = space.get("__all__", space)
        return sorted({*public, *places, *whole, *(name for name in space if name.startswith("__"))})

    return find, names
