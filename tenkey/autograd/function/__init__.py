"""Custom functions: ``Function``, its context, and hand-written gradients of operators."""

from .function import Context, Function, once_differentiable

__all__ = ["Context", "Function", "once_differentiable"]
