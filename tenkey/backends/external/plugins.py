"""Plug-ins: backends of installed packages (entry points of the group ``tenkey.backends``), loaded at first use.

Note [Plug-ins cost nothing until they are used]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Entry points are scanned only when a device is named that is not registered. ``import tenkey`` does not scan them, so
its time does not depend on the number of plug-ins, and a broken plug-in causes an error only where its device is named.
The registrations of a failed load are undone: the next attempt starts, and fails, like the first. Guarded by
``tests/backends/test_backend_plugins.py``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...dispatch.errors import RegistrationError
from ...dispatch.registry import registry
from .backend_registration import explicit_kernels, new_kernels, register, registered
from .interface import Backend

if TYPE_CHECKING:
    import importlib.metadata

__all__ = ["GROUP", "find", "installed"]

GROUP: Final = "tenkey.backends"

_loading: list[str] = []  # guarded by the lock of the registry


def installed() -> dict[str, str]:
    """Return the devices that installed plug-ins offer, loaded or not, each with its entry point.

    >>> isinstance(tk.backends.installed(), dict)
    True
    """
    return {point.name: point.value for point in _points()}


class _Malformed(NamedTuple):
    """An entry point from which Python makes no object."""

    name: str
    value: str
    dist: importlib.metadata.Distribution | None


def _points() -> list[importlib.metadata.EntryPoint | _Malformed]:
    from importlib.metadata import EntryPoint, distributions, entry_points  # slow to import

    try:
        return list(entry_points(group=GROUP))
    except ValueError:  # from Python 3.15 on, if one is malformed, of any distribution and group
        found: list[importlib.metadata.EntryPoint | _Malformed] = []
    from configparser import ConfigParser

    for distribution in distributions():
        try:
            found += distribution.entry_points.select(group=GROUP)
        except ValueError:
            file = ConfigParser(delimiters="=", strict=False, interpolation=None)
            file.optionxform = str  # type: ignore[assignment, method-assign]
            file.read_string(distribution.read_text("entry_points.txt") or "")
            for name, value in file.items(GROUP) if file.has_section(GROUP) else ():
                try:
                    found.append(EntryPoint(name, value, GROUP))
                except ValueError:
                    found.append(_Malformed(name, value, distribution))
    return found


def _describe(point: importlib.metadata.EntryPoint | _Malformed) -> str:
    distribution = point.dist
    return "an unknown distribution" if distribution is None else f"{distribution.name} {distribution.version}"


def find(name: str) -> bool:
    """Register the backend of an installed plug-in; return false if there is none of that name."""
    points: dict[Any, importlib.metadata.EntryPoint | _Malformed] = {}
    for found in _points():
        if found.name == name:
            points.setdefault((found.value, _describe(found)), found)  # a distribution can be found in two places
    if not points:
        return False
    if len(points) > 1:
        plugins = " and ".join(f"{value} of {distribution}" for value, distribution in points)
        raise RegistrationError(
            f"[tenkey.backends] the device {name!r} is defined by several plug-ins: {plugins}. Uninstall all but one "
            "of them."
        )
    (point,) = points.values()
    with registry.lock:
        if name in registered:  # another thread was first
            return True
        if name in _loading:
            raise RegistrationError(
                f"[tenkey.backends] the plug-in {name!r} uses its own device while it is being loaded: register "
                "kernels in the method setup() of its backend, which is called once the device exists."
            )
        _loading.append(name)
        backends, operators, modules = set(registered), {op.name for op in registry}, set(sys.modules)
        kernels = explicit_kernels()
        try:
            _load(point)
        except BaseException as error:
            for other in set(registered) - backends:
                registered[other].remove()
            for handle in new_kernels(kernels):
                handle.remove()
            package = point.value.partition(":")[0].partition(".")[0]
            for module in set(sys.modules) - modules:
                if module.partition(".")[0] == package:  # the next attempt runs it again
                    del sys.modules[module]
            for other in set(registry.operators) - operators:
                if other in registry.operators:
                    registry.undefine(registry.operators[other], keep_kernels=False)
            if not isinstance(error, (Exception, SystemExit)):  # a plug-in may also fail by sys.exit()
                raise
            problem = str(error) if isinstance(error, _PluginError) else f"it raised {type(error).__name__}: {error}"
            raise RegistrationError(
                f"[tenkey.backends] the plug-in {name!r} of {_describe(point)} ({point.value}) could not be loaded: "
                f"{problem.rstrip('.')}. Everything else works without it; update or uninstall {_describe(point)} to "
                "remove this error."
            ) from (None if isinstance(error, _PluginError) else error)
        finally:
            _loading.remove(name)
    return True


class _PluginError(Exception):
    """What is wrong with the backend of a plug-in."""


def _load(point: importlib.metadata.EntryPoint | _Malformed) -> None:
    if isinstance(point, _Malformed) or point.pattern.match(point.value) is None:
        raise _PluginError("its entry point is not of the form 'module:callable'")
    made: Any = point.load()
    if not isinstance(made, Backend) and callable(made):
        made = made()
    if not isinstance(made, Backend):
        raise _PluginError(f"it returned {made!r}, which is not an instance of a subclass of tk.backends.Backend")
    if made.name != point.name:
        raise _PluginError(
            f"its backend is called {made.name!r}, but its entry point {point.name!r}: the two must be the same"
        )
    known = registered.get(point.name)
    if known is None:
        register(made)
    elif known.backend is not made:
        raise _PluginError(
            f"it registered {point.name!r} by itself and returned another instance: return the one, or do not register"
        )
