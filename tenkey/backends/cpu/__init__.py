"""The CPU backend: NumPy for small calls, and loops that LLVM compiles for large ones.

Note [The CPU backend is imported by the first call]
    The import of the package does not wait for kernels, loops and the language that they are written in, which are a
    fifth of the modules. Installers act on an operator when it is used for the first time (Note [Installers that
    wait]), and the first of these uses imports them. Guarded by ``tests/package/test_delayed_modules.py``.
"""

from __future__ import annotations

from types import CodeType

from ..._util.locks import new_lock
from ...core.plans import install_calls
from ...dispatch.calling import codegen
from ...dispatch.kernel import Handle
from ...dispatch.operator import Operator
from ...dispatch.registry import Registry
from ..allocation.host import ALIGNED, COUNTED, allocate
from .fp_warnings import quietly
from .pool import get_num_threads, set_num_threads

__all__ = ["get_num_threads", "install", "set_num_threads"]


def install(registry: Registry) -> None:
    """Subscribe the CPU backend to all operators, present and future."""
    registry.subscribe(_install_kernel)
    codegen.compilers.append(_compiled)
    install_calls(quietly, allocate, ALIGNED, COUNTED)


def _install_kernel(operator: Operator) -> list[Handle]:
    from .kernel_choice import install_kernel

    return install_kernel(operator)


def _compiled(source: str) -> CodeType:
    with new_lock():  # as in Note [Delayed modules]
        from ..generated_code import compiled
    return compiled(source)
