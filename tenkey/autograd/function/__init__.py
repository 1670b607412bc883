"""Custom functions: ``Function``, its context, and hand-written gradients of operators."""

from __future__ import annotations

from .context import Context
from .function import Function
from .once_differentiable import once_differentiable

__all__ = ["Context", "Function", "once_differentiable"]
