"""Function transforms: vmap, and derivatives of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.lazy_import import lazy_import
from ..autograd.engine.functional import VMAP
from .batching.randomness import install_randomness

if TYPE_CHECKING:  # Note [Delayed modules]
    from .batching.level import LOOPS, BatchInfo
    from .batching.mapping import vmap
    from .forward import jvp, linearize
    from .jacobians import hessian, jacfwd, jacrev
    from .reverse import grad, value_and_grad, vjp

__all__ = [
    "LOOPS", "BatchInfo", "grad", "hessian", "install", "jacfwd", "jacrev", "jvp", "linearize",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "batching.level": ("LOOPS", "BatchInfo"),
            "reverse": ("grad", "value_and_grad", "vjp"),
            "forward": ("jvp", "linearize"),
            "jacobians": ("hessian", "jacfwd", "jacrev"),
            "batching.mapping": ("vmap",),
        },
    )


def _vmap(*args: Any, **kwargs: Any) -> Any:
    from .batching.mapping import vmap

    return vmap(*args, **kwargs)


def install(registry: Any) -> None:
    """Subscribe to all operators, and give ``vmap`` to autograd, which maps over batches of gradients."""
    install_randomness(registry)
    VMAP[:] = [_vmap]
