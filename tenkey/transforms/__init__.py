"""Function transforms: vmap, and derivatives of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..dispatch.delayed import delayed
from .randomness import install_randomness
from .services import provide_autograd

if TYPE_CHECKING:  # Note [Delayed modules]
    from . import functions, index_rules, rules
    from .batching import LOOPS, BatchInfo
    from .derivatives import grad, value_and_grad, vjp
    from .forward import jvp, linearize
    from .jacobians import hessian, jacfwd, jacrev
    from .mapping import vmap

__all__ = [
    "LOOPS", "BatchInfo", "functions", "grad", "hessian", "index_rules", "install", "jacfwd", "jacrev", "jvp",
    "linearize", "rules", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = delayed(
        __name__,
        {
            "batching": ("LOOPS", "BatchInfo"),
            "derivatives": ("grad", "value_and_grad", "vjp"),
            "forward": ("jvp", "linearize"),
            "functions": (),
            "index_rules": (),
            "jacobians": ("hessian", "jacfwd", "jacrev"),
            "mapping": ("vmap",),
            "rules": (),
        },
    )


def install(registry: Any, autograd: Any) -> None:
    """Subscribe to all operators; ``autograd`` is ``tk.autograd``, which this layer does not import."""
    install_randomness(registry)
    provide_autograd(autograd)
