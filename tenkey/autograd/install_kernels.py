"""Registration of the Autograd kernels: the facets of an operator determine its kernel.

The kernels, and the modules with the formulas, are imported when a call is first recorded (Note [Delayed modules]), so
a program without gradients does not load them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.word import REQUIRES_GRAD
from ..dispatch.diagnostics.sites import function_site
from ..dispatch.kernel import Handle, Kernel, fallthrough_kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry

__all__ = ["install_kernels"]


def autograd_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Record a call with the formulas of the operator."""
    from .recording.autograd_kernels import autograd_kernel

    return autograd_kernel(operator, word)


def refusing_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Record a call of an operator without a formula."""
    from .recording.autograd_kernels import refusing_kernel

    return refusing_kernel(operator, word)


def inplace_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Record a call that writes into an argument."""
    from .views.inplace_kernels import inplace_kernel

    return inplace_kernel(operator, word)


def custom_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Record a call of an operator with the facet ``Backward``, a hand-written gradient."""
    from .function.custom_backward import custom_kernel

    return custom_kernel(operator, word)


def silent_kernel(operator: Operator, word: int) -> Callable[..., Any]:
    """Call an operator without a gradient, whose kernels may call operators that have one."""
    from .recording.autograd_kernels import inner_call

    return inner_call(operator, word)


def _kernel(specialize: Callable[[Operator, int], Callable[..., Any]], **options: Any) -> Kernel:
    options.setdefault("origin", "generated")
    return Kernel(specialize, DispatchKey.Autograd, specialize=specialize, only_with=REQUIRES_GRAD, **options)


def _recording(operator: Operator) -> list[Handle]:
    facets = operator.facets
    if operator.schema.is_mutable:
        return []
    if "NotDifferentiable" in facets:
        kernel = Kernel(fallthrough_kernel, DispatchKey.Autograd, origin="generated")
    elif "Vjp" in facets or "Pointwise" in facets or "Reduce" in facets:
        kernel = _kernel(autograd_kernel)
    elif "Composite" in facets and facets["Composite"].implicit and {"NumPyKernel", "Rows", "Scan"} & set(facets):
        # A backend has a shorter kernel, for calls that are not recorded.
        parts = facets["Composite"].function
        kernel = Kernel(parts, DispatchKey.Autograd, origin="generated", only_with=REQUIRES_GRAD, composed=True)
    else:
        return []
    return [operator.registry.impl(operator.name, kernel)]


def _inplace(operator: Operator) -> list[Handle]:
    if not operator.schema.is_mutable or "NotDifferentiable" in operator.facets:
        return []
    inplace = operator.facets.get("Inplace")
    composed = inplace is not None and inplace.functional is not None  # the functional operator, then a copy
    return [operator.registry.impl(operator.name, _kernel(inplace_kernel, composed=composed))]


def _custom(operator: Operator) -> list[Handle]:
    # Explicit kernels: they are written by hand, and take precedence over those derived for the operator.
    if "Backward" in operator.facets:
        site = function_site(operator.facets["Backward"].backward)
        kernel = _kernel(custom_kernel, origin="explicit", site=site)
    elif "NotDifferentiable" in operator.facets and operator.schema.namespace != "tk":
        kernel = _kernel(silent_kernel, origin="explicit", site=operator.site)
    else:
        return []
    return [operator.registry.impl(operator.name, kernel, allow_override=True)]


def install_kernels(registry: Registry) -> None:
    """Subscribe to all operators; an operator without a formula gets the fallback, which raises in backward."""
    for installer in (_recording, _inplace, _custom):
        registry.subscribe(installer)
    registry.fallback(_kernel(refusing_kernel))
