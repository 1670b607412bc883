"""What a check of gradients raises."""

from __future__ import annotations

__all__ = ["GradcheckError"]


class GradcheckError(RuntimeError):
    """A gradient that differs from the numerical one."""

    __module__ = "tenkey.autograd.gradcheck"  # where everybody finds it; apart, so that modules import in one direction
