"""Backends of installed packages: entry points of the group ``tenkey.backends``, loaded at first use.

Note [Plug-ins cost nothing until they are used]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Entry points are looked at only when somebody names a device that is not registered. ``import tenkey`` does not scan
them, so it takes the same time however many plug-ins are installed, and a broken one is an error for those alone who
name its device. What a failed load has registered is taken back: the next attempt begins, and fails, like the first.
Guarded by ``tests/backends/test_backend_plugins.py``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from ...dispatch.errors import RegistrationError
from ...dispatch.registry import registry
from .backend_registration import explicit_kernels, new_kernels, register, registered
from .interface import Backend

if TYPE_CHECKING:
    import importlib.metadata

__all__ = ["GROUP", "find", "installed"]

GROUP: Final = "tenkey.backends"

_FAILED: Final = (
    "[tenkey.backends] the plug-in {name!r} of {distribution} ({value}) could not be loaded: {problem}. Everything "
    "else works without it; update or uninstall {distribution} to be rid of this."
)

_loading: list[str] = []  # guarded by the lock of the registry


def installed() -> dict[str, str]:
    """The devices that installed plug-ins offer, loaded or not, each with its entry point.

    >>> import tenkey as tk
    >>> isinstance(tk.backends.installed(), dict)
    True
    """
    return {point.name: point.value for point in _points()}


def _points() -> importlib.metadata.EntryPoints:
    from importlib.metadata import entry_points  # a module that takes long to import

    return entry_points(group=GROUP)


def _describe(point: importlib.metadata.EntryPoint) -> str:
    distribution = point.dist
    return "an unknown distribution" if distribution is None else f"{distribution.name} {distribution.version}"


def find(name: str) -> bool:
    """Register the backend of an installed plug-in; false if there is none of that name."""
    points: dict[Any, importlib.metadata.EntryPoint] = {}
    for found in _points().select(name=name):
        points.setdefault((found.value, _describe(found)), found)  # a distribution can be found at two places
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
        backends, operators, modules = set(registered), set(registry.operators), set(sys.modules)
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
            if not isinstance(error, (Exception, SystemExit)):  # sys.exit() is a plug-in's way to fail too
                raise
            problem = str(error) if isinstance(error, _PluginError) else f"it raised {type(error).__name__}: {error}"
            raise RegistrationError(
                _FAILED.format(name=name, distribution=_describe(point), value=point.value, problem=problem.rstrip("."))
            ) from (None if isinstance(error, _PluginError) else error)
        finally:
            _loading.remove(name)
    return True


class _PluginError(Exception):
    """What is wrong with what a plug-in gave."""


def _load(point: importlib.metadata.EntryPoint) -> None:
    if point.pattern.match(point.value) is None:
        raise _PluginError("its entry point is not of the form 'module:callable'")
    made: Any = point.load()
    if not isinstance(made, Backend) and callable(made):
        made = made()
    if not isinstance(made, Backend):
        raise _PluginError(f"it gave {made!r}, no instance of a subclass of tk.backends.Backend")
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
