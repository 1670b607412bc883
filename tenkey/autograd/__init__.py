"""Automatic differentiation: recording, the engine, custom functions and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.lazy_import import lazy_import
from ..profiler.observer import install_observer
from .anomaly import anomaly_mode, install_anomaly
from .engine.engine import calibrate
from .engine.functional import backward, grad
from .grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .gradcheck.gradcheck import GradcheckError, gradcheck, gradgradcheck
from .inference_mode import inference_mode, install_inference, is_inference_mode_enabled
from .install_kernels import install_kernels
from .saved_tensors.saved_tensor_hooks import HOOKED as _HOOKED  # noqa: F401  # allocates the bit of the trait at import
from .tape.node import Node
from .tensor_attributes import attach_gradient_attributes

if TYPE_CHECKING:  # Note [Delayed modules]
    from ..profiler.profile import profile, record_function
    from . import checkpoint_policies, communication, forward_ad, function, graph
    from .checkpoint_policies import CheckpointPolicy, create_selective_checkpoint_contexts
    from .checkpointing.checkpoint import CheckpointError, checkpoint
    from .function import Function, once_differentiable
    from .visualize.draw import draw

__all__ = [
    "CheckpointError", "CheckpointPolicy", "Function", "GradcheckError", "Node", "anomaly_mode", "backward", "draw",
    "checkpoint", "communication", "checkpoint_policies", "create_selective_checkpoint_contexts", "enable_grad",
    "forward_ad", "function", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "install",
    "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "once_differentiable", "profile", "record_function",
    "set_grad_enabled",
]  # fmt: skip

if not TYPE_CHECKING:  # to a type checker, a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "checkpoint_policies": ("CheckpointPolicy", "create_selective_checkpoint_contexts"),
            "checkpointing.checkpoint": ("CheckpointError", "checkpoint"),
            "communication": (),
            "forward_ad": (),
            "function": ("Function", "once_differentiable"),
            "graph": (),
            "visualize.draw": ("draw",),
            ".profiler.profile": ("profile", "record_function"),
        },
    )


def install(registry: Any) -> None:
    """Add the gradient attributes to Tensor and register the kernels of autograd."""
    attach_gradient_attributes()
    install_kernels(registry)
    install_inference(registry)
    install_anomaly(registry)
    install_observer(registry)
    calibrate()
