"""Function transforms: vmap, and derivatives of functions."""

from __future__ import annotations

from typing import Any

from . import functions, index_rules, rules
from .batching import LOOPS, BatchInfo
from .derivatives import grad, value_and_grad, vjp
from .forward import jvp, linearize
from .jacobians import hessian, jacfwd, jacrev
from .randomness import install_randomness
from .runs import install_derivatives
from .vmap import vmap

__all__ = [
    "LOOPS", "BatchInfo", "functions", "grad", "hessian", "index_rules", "install", "jacfwd", "jacrev", "jvp",
    "linearize", "rules", "value_and_grad", "vjp", "vmap",
]  # fmt: skip


def install(registry: Any, **services: Any) -> None:
    """Subscribe to all operators; ``services`` are what is used of autograd, which this layer does not import."""
    install_randomness(registry)
    install_derivatives(**services)
