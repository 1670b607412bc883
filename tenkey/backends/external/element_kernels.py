"""Factories on a device: scalar expressions of index variables, run by the template ``pointwise``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.device import default_device
from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from ...ops.declare.facets import Elements
from ...ops.scalar import indices, trace
from .interface import Backend
from .scalar_function import ScalarFunction
from .template_calls import taken_reason
from .templates import IndexedRunner, PointwiseRunner, convert_number, runner_of

__all__ = ["factory_kernel"]


def factory_kernel(backend: Backend, fallback: Callable[..., Any], operator: Operator) -> Callable[..., Tensor]:
    """Return the kernel of a factory with the facet ``Elements``; calls without a plan run on the CPU."""
    facet: Elements = operator.facets["Elements"]
    rule, name = operator.facets["Meta"].rule, operator.schema.base_name
    runners: dict[Any, PointwiseRunner | IndexedRunner] = {}

    def kernel(*args: Any, **kwargs: Any) -> Tensor:
        spec = rule(*args, **kwargs)
        plan = facet.plan(*args, **kwargs)
        if plan is None:
            taken_reason()  # of an earlier call that another template has served
        else:
            runner = runners.get(plan[:2])
            if runner is None:
                expression: Any = trace(plan.scalar, tuple(plan.numbers), name=operator.name)
                axes = indices([expression])
                scalar = ScalarFunction(operator.name, tuple(plan.numbers), expression, plan.dtype)
                runner = runners[plan[:2]] = runner_of(backend, scalar, lambda ndim: axes)
            numbers = [convert_number(name, value, plan.dtype) for value in plan.numbers.values()]
            out = backend.empty(spec.shape, spec.dtype, kwargs.get("device") or default_device())
            if runner.run(out._data, numbers):
                return out
        return fallback(operator, *args, **kwargs)  # type: ignore[no-any-return]

    return kernel
