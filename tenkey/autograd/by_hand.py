"""Who has a gradient that was written by hand, and gets the kernel that runs it (``custom.py``, at the first call)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.word import GRADIENT
from ..dispatch.kernel import Handle, Kernel, function_site
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator
from .record import inner_call

__all__ = ["install_custom"]


def custom_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """The kernel of an operator with the facet ``Backward``."""
    from .custom import custom_kernel

    return custom_kernel(operator, word)


def _silent_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """For operators without a gradient: their kernels may be made of operators that have one."""
    return inner_call(operator, word)


def _install(operator: Operator) -> list[Handle]:
    if "Backward" not in operator.facets:
        if "NotDifferentiable" not in operator.facets or operator.schema.namespace == "tk":
            return []
        silent = Kernel(
            _silent_kernel,
            DispatchKey.Autograd,
            site=operator.site,
            specialize=_silent_kernel,
            only_with=GRADIENT,
        )
        return [operator.registry.impl(operator.name, silent, allow_override=True)]
    # Explicit: it was written by hand, and beats what is derived for the operator.
    kernel = Kernel(
        custom_kernel,
        DispatchKey.Autograd,
        site=function_site(operator.facets["Backward"].backward),
        specialize=custom_kernel,
        only_with=GRADIENT,
    )
    return [operator.registry.impl(operator.name, kernel, allow_override=True)]


def install_custom(registry: Any) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_install)
