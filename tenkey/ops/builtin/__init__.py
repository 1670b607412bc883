"""The built-in operators, one folder for each kind. Importing a module declares its operators.

Note [Operators that are declared on first use]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A program uses few operators, and does not pay for the others: modules that declare nothing else are not imported with
the package. ``load`` imports those of one prefix (``fft``, ``linalg``, ``random``, ``special``), or one of the
FAMILIES, whose names are in ``delayed.py``; descriptors stand for their methods until then (Note [Delayed methods]). A
public module calls ``load_module``, and the namespace ``load_owner`` when it lacks a name. Before the registry gives up
the search for a name in ``tk``, it loads the modules that may have it, and then all, as it does before it lists all
operators. The lock of the registry is held during these imports, and comes before the locks of modules: others call
``load`` before they import from one that waits, unless they are called by its operators, and results with names, which
are unpickled, are in ``results.py``, which does not wait. So two threads cannot wait for each other. If an import
fails, its operators are removed, and the next use begins again. Guarded by ``tests/ops/test_load.py``.
"""

# ruff: noqa: F401
from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from .. import variants  # last: in-place variants of the operators above
from ..declare.methods import DelayedMethod, delay_methods
from . import creation, primitives, tensor_methods
from .delayed import METHODS, MODULES
from .elementwise import arithmetic, comparison, complex, exponential, integers, limiting, rounding
from .indexing import advanced_indexing, basic_indexing, getitem, selection, setitem
from .linalg import diagonals, matmul
from .numeric import differences
from .reductions import cumulative, gradient_sum, reduction
from .shape import copying, manipulation, splitting, views

__all__ = ["FAMILIES", "load", "load_all", "load_module", "load_owner"]

FAMILIES: Final = (
    "elementwise.activations",
    "elementwise.closeness",
    "elementwise.number_parts",
    "elementwise.trigonometry",
    "indexing.scatter",
    "linalg.einsum",
    "linalg.products",
    "linalg.triangular",
    "nn",
    "numeric.data_dependent",
    "numeric.histogram",
    "numeric.histogram_grids",
    "numeric.polynomials",
    "numeric.signal",
    "reductions.nan_reductions",
    "reductions.quantiles",
    "reductions.statistics",
    "shape.padding",
    "shape.repetition",
    "sorting.search",
    "sorting.sets",
    "sorting.sort",
)
"""Modules that wait each by itself; ``delayed.py`` has their names."""

_waiting: Final = {
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
    **{module: (module,) for module in FAMILIES},
}  # fmt: skip
delay_methods({name: name for name in METHODS})

_KNOWN: Final = frozenset(_waiting)
_FOLDER: Final = __file__.removesuffix("__init__.py")
_loading: Final[list[str]] = []  # prefixes, by the holder of the registry's lock


def load(prefix: str) -> None:
    """Declare the operators of a prefix or family (Note [Operators that are declared on first use])."""
    if prefix not in _waiting:
        if prefix not in _KNOWN:
            raise ValueError(f"[load] no operators wait under the name {prefix!r}: it is one of {sorted(_KNOWN)}.")
        return
    with registry.lock:
        if prefix in _loading:
            return
        before, modules = set(registry.operators), set(sys.modules)
        methods = {name: vars(Tensor).get(name) for name in METHODS}
        _loading.append(prefix)
        try:
            with registry.deferred_installers():
                for name in _waiting.get(prefix, ()):
                    import_module(f".{name}", __name__)
        except BaseException:
            for name in set(registry.operators) - before:
                if name in registry.operators:  # a variant goes with its operator
                    registry.undefine(registry.operators[name])
            for name in set(sys.modules) - modules:
                if name.startswith(f"{__name__}."):
                    sys.modules.pop(name, None)
            _restore(methods)
            raise
        finally:
            _loading.pop()
        _restore({name: value for name, value in methods.items() if not isinstance(value, DelayedMethod)})
        _waiting.pop(prefix, None)


def _restore(methods: dict[str, Any]) -> None:
    """Give Tensor the methods that it had; None stands for one that a program has deleted."""
    for name, value in methods.items():
        if value is None and name in vars(Tensor):
            delattr(Tensor, name)
        elif value is not None and vars(Tensor).get(name) is not value:
            setattr(Tensor, name, value)


def load_module(prefix: str) -> None:
    """Declare the operators of a public module, those of a prefix or without one, wherever they are declared."""
    if prefix:
        load(prefix)
    found = [module for name, module in MODULES.items() if not prefix or name.startswith(f"{prefix}_")]
    for module in dict.fromkeys(found):  # in the same order in every process
        load(module)


def load_owner(name: str) -> None:
    """Declare the operators among which one of this name may be."""
    prefix = _prefix_of(name)
    if prefix in _waiting:
        load(prefix)


def load_all() -> None:
    """Declare the operators of all prefixes."""
    for prefix in [*_waiting]:
        load(prefix)


def _prefix_of(name: str) -> str:
    """Return the prefix or the family of an operator's name, whether it waits or not."""
    base = name.removeprefix("tk::").partition(".")[0]
    return MODULES.get(base) or MODULES.get(base.removesuffix("_")) or base.partition("_")[0]


def _load_namesakes(name: str, site: str) -> None:
    """Declare what may have the name of an operator that is about to be defined, so that the second one is refused.

    A definition in a module of this package is one of them; it may be imported before the others.
    """
    if not _loading and not site.startswith(_FOLDER):
        load_owner(name)


def _find(name: str) -> Operator | None:
    if not name.startswith("tk::"):
        return None
    prefix = _prefix_of(name)
    wanted = [one for one in ([prefix] if prefix in _waiting else [*_waiting]) if one not in _loading]
    for one in wanted:
        load(one)
    return registry.derive(name) if wanted else None  # which comes here again if the operator is not among those


registry.hooks.derivers.append(_find)  # after that of the variants
registry.hooks.load_all, registry.hooks.load_namesakes = load_all, _load_namesakes
