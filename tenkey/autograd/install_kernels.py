"""Which operator gets which kernel for the key Autograd: it follows from the facets.

The kernels themselves, and the modules that know of formulas, are loaded when a call is recorded for the first time
(Note [Delayed modules]): a program that asks for no gradients does without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.word import REQUIRES_GRAD
from ..dispatch.kernel import Handle, Kernel, fallthrough_kernel, function_site
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry

__all__ = ["install_custom", "install_inplace", "install_recording"]


def autograd_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Records a call by the formulas of the operator."""
    from .recording.autograd_kernels import autograd_kernel

    return autograd_kernel(operator, word)


def refusing_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """For operators without a formula."""
    from .recording.autograd_kernels import refusing_kernel

    return refusing_kernel(operator, word)


def inplace_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Records a call that writes into an argument."""
    from .views.inplace_kernels import inplace_kernel

    return inplace_kernel(operator, word)


def custom_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Records a call of an operator with the facet ``Backward``, a gradient that was written by hand."""
    from .function.custom_backward import custom_kernel

    return custom_kernel(operator, word)


def silent_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """For operators without a gradient: their kernels may be made of operators that have one."""
    from .recording.autograd_kernels import inner_call

    return inner_call(operator, word)


def _recording(operator: Operator) -> list[Handle]:
    facets = operator.facets
    registry = operator.registry
    if operator.schema.is_mutable:
        return []
    if "NotDifferentiable" in facets:
        kernel = Kernel(fallthrough_kernel, DispatchKey.Autograd, origin="generated")
    elif "Vjp" in facets or "Pointwise" in facets or "Reduce" in facets:
        kernel = Kernel(
            autograd_kernel,
            DispatchKey.Autograd,
            origin="generated",
            specialize=autograd_kernel,
            only_with=REQUIRES_GRAD,
        )
    elif "Composite" in facets and facets["Composite"].implicit and "NumPyKernel" in facets:
        # the backend has a shorter way of its own, which calls take that record nothing
        parts = facets["Composite"].function
        kernel = Kernel(parts, DispatchKey.Autograd, origin="generated", only_with=REQUIRES_GRAD)
    else:
        return []
    return [registry.impl(operator.name, kernel)]


def _inplace(operator: Operator) -> list[Handle]:
    if not operator.schema.is_mutable or "NotDifferentiable" in operator.facets:
        return []
    kernel = Kernel(
        inplace_kernel, DispatchKey.Autograd, origin="generated", specialize=inplace_kernel, only_with=REQUIRES_GRAD
    )
    return [operator.registry.impl(operator.name, kernel)]


def _custom(operator: Operator) -> list[Handle]:
    if "Backward" not in operator.facets:
        if "NotDifferentiable" not in operator.facets or operator.schema.namespace == "tk":
            return []
        silent = Kernel(
            silent_kernel,
            DispatchKey.Autograd,
            site=operator.site,
            specialize=silent_kernel,
            only_with=REQUIRES_GRAD,
        )
        return [operator.registry.impl(operator.name, silent, allow_override=True)]
    # Explicit: it was written by hand, and beats what is derived for the operator.
    kernel = Kernel(
        custom_kernel,
        DispatchKey.Autograd,
        site=function_site(operator.facets["Backward"].backward),
        specialize=custom_kernel,
        only_with=REQUIRES_GRAD,
    )
    return [operator.registry.impl(operator.name, kernel, allow_override=True)]


def install_recording(registry: Registry) -> None:
    """Subscribe to all operators; those without a formula get the fallback that refuses in backward."""
    registry.subscribe(_recording)
    registry.fallback(
        Kernel(
            refusing_kernel,
            DispatchKey.Autograd,
            origin="generated",
            specialize=refusing_kernel,
            only_with=REQUIRES_GRAD,
        )
    )


def install_inplace(registry: Registry) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_inplace)


def install_custom(registry: Registry) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_custom)
