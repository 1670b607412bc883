"""The CPU backend: NumPy for small calls, and loops that LLVM compiles for large ones."""

from __future__ import annotations

from ...core.plans import install_calls
from ...dispatch.registry import Registry
from .. import generated_code
from .fp_warnings import quietly
from .kernel_choice import install_kernel
from .pool import get_num_threads, set_num_threads

__all__ = ["get_num_threads", "install", "set_num_threads"]


def install(registry: Registry) -> None:
    """Subscribe the CPU backend to all operators, present and future."""
    registry.subscribe(install_kernel)
    generated_code.install()
    install_calls(quietly)
