"""The built-in operators, one folder for each kind. Importing a module declares its operators.

Note [Operators that are declared on first use]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Programs that use neither ``tk.fft``, ``tk.linalg``, ``tk.random`` nor ``tk.special`` do not pay for their operators:
modules that declare nothing else, and no method of Tensor, are not imported with the package. ``load`` imports those of
one prefix; the public module of that name calls it. The prefix "" is that of rare operators without one, which the
namespace loads when it lacks a name. Before the registry gives up the search for a name in ``tk``, it loads those of
the name's prefix or of "", and then all, as it does before it lists all operators. The lock of the registry is held
during these imports, and other modules call ``load`` before they import from one that waits, unless they are called by
its operators, so that two threads cannot wait for each other. If an import fails, its operators are removed, and the
next use begins again. Guarded by ``tests/ops/test_load.py``.
"""

# ruff: noqa: F401
from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from .. import variants  # last: in-place variants of the operators above
from . import creation, nn, primitives, tensor_methods
from .elementwise import (
    activations,
    arithmetic,
    closeness,
    comparison,
    complex,
    exponential,
    integers,
    limiting,
    rounding,
    trigonometry,
)
from .indexing import advanced_indexing, basic_indexing, getitem, scatter, selection, setitem
from .linalg import diagonals, einsum, matmul, products, triangular
from .numeric import differences
from .reductions import cumulative, gradient_sum, nan_reductions, quantiles, reduction, statistics
from .shape import copying, manipulation, padding, repetition, splitting, views
from .sorting import search, sort

__all__ = ["load", "load_all"]

_waiting: Final = {
    "": (
        "elementwise.number_parts",
        "numeric.data_dependent",
        "numeric.histogram",
        "numeric.histogram_grids",
        "numeric.polynomials",
        "numeric.signal",
        "sorting.sets",
    ),
    "fft": ("numeric.fft",),
    "linalg": ("linalg.decompositions", "linalg.eigen", "linalg.lu", "linalg.norms", "linalg.solve"),
    "random": ("random",),
    "special": (
        "special.bessel",
        "special.bessel_orders",
        "special.complex_error",
        "special.distributions",
        "special.error_functions",
        "special.gamma",
        "special.incomplete",
        "special.logarithmic",
    ),
}  # fmt: skip


_FOLDER: Final = __file__.removesuffix("__init__.py")
_loading: Final[list[str]] = []  # prefixes, by the holder of the registry's lock


def load(prefix: str) -> None:
    """Declare the operators of a prefix (Note [Operators that are declared on first use])."""
    if prefix not in _waiting:
        return
    with registry.lock:
        before, modules = set(registry.operators), set(sys.modules)
        _loading.append(prefix)
        try:
            with registry.deferred_installers():
                for name in _waiting.get(prefix, ()):
                    import_module(f".{name}", __name__)
        except BaseException:
            for name in set(registry.operators) - before:
                registry.undefine(registry.operators[name])
            for name in set(sys.modules) - modules:
                if name.startswith(f"{__name__}."):
                    sys.modules.pop(name, None)
            raise
        finally:
            _loading.pop()
        _waiting.pop(prefix, None)


def load_all() -> None:
    """Declare the operators of all prefixes."""
    for prefix in [*_waiting]:
        load(prefix)


def _prefix_of(name: str) -> str:
    prefix = name.removeprefix("tk::").partition("_")[0]
    return prefix if prefix in _waiting else ""


def _load_namesakes(name: str, site: str) -> None:
    """Declare what may have the name of an operator that is about to be defined, so that the second one is refused.

    A definition in a module of this package is one of them; it may be imported before the others.
    """
    if not _loading and not site.startswith(_FOLDER):
        load(_prefix_of(name))


def _find(name: str) -> Operator | None:
    if not (_waiting and name.startswith("tk::")):
        return None
    prefix = _prefix_of(name)
    if prefix in _waiting:
        load(prefix)
    else:
        load_all()
    return registry.derive(name)  # which comes here again if the operator is not among those


registry.hooks.derivers.append(_find)  # after that of the variants
registry.hooks.load_all, registry.hooks.load_namesakes = load_all, _load_namesakes
