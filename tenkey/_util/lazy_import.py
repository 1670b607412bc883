"""Attributes of a package whose modules are imported on first use.

Note [Delayed modules]
~~~~~~~~~~~~~~~~~~~~~~
Most programs never profile, check a gradient, map over an axis or define an operator. The modules for these are
imported when one of their names is first read from the package (PEP 562); the package then has the name like any other.
A package lists them with ``__getattr__, __dir__ = lazy_import(__name__, {module: (its names, ...)})`` and imports the
same names once more under ``TYPE_CHECKING``, for type checkers and for the test of the layers. The call itself is
hidden from type checkers, for which a module with a ``__getattr__`` has every name. A module listed without names is
itself the attribute. Only modules that register nothing of their own are delayed: keys, traits and installers must
exist from the start. No module has the name of one of its attributes, because the import system would put the module in
its place. A lock of its own is held during each import, so that a fork waits for the end (Note [Locks and forks]): the
module's lock would stay locked in the child. Kernels are delayed likewise: the function that selects one imports its
module. It runs under the lock of the registry, which the body of such a module must therefore not take. Guarded by
``tests/package/test_delayed_modules.py``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from .locks import new_lock

__all__ = ["file_of_package", "lazy_import"]


def file_of_package(package: str, name: str) -> str | None:
    """Return the path of a file of a package, which is not imported for it; None if it is not installed."""
    from importlib.util import find_spec

    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        path = os.path.join(folder, name)  # noqa: PTH118 -- pathlib takes longer to import than a call may
        if os.path.exists(path):  # noqa: PTH110
            return path
    return None


def lazy_import(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package with delayed modules (Note [Delayed modules])."""
    space = vars(sys.modules[package])
    places = {name: module for module, names in modules.items() for name in names}
    whole = {module for module in modules if "." not in module}

    def find(name: str) -> Any:
        module = name if name in whole else places.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        with new_lock():
            imported = import_module(f".{module}", package)  # the import system sets the attribute of a whole module
        if name in whole:
            return imported
        found = space[name] = getattr(imported, name)
        return found

    def names() -> list[str]:
        public = space.get("__all__", space)
        return sorted({*public, *places, *whole, *(name for name in space if name.startswith("__"))})

    return find, names
