"""Function transforms: vmap, and derivatives of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import rules
from .batching import LOOPS, BatchInfo
from .derivatives import grad, hessian, install_derivatives, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp
from .randomness import install_randomness
from .vmap import vmap

__all__ = [
    "LOOPS", "BatchInfo", "grad", "hessian", "install", "jacfwd", "jacrev", "jvp", "linearize", "rules",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip


def install(registry: Any, *, gradient: Callable[..., Any], forward: Any) -> None:
    """Subscribe to all operators; ``gradient`` and ``forward`` are autograd's, which this layer does not import."""
    install_randomness(registry)
    install_derivatives(gradient, forward)
