"""``tk.autograd.graph``: nodes and gradient edges, hooks on what is saved, and on several gradients."""

from __future__ import annotations

from .functional import GradientEdge, get_gradient_edge
from .multi_grad import register_multi_grad_hook
from .mutation import allow_mutation_on_saved_tensors, increment_version
from .node import Node
from .raw_saved import RawSavedTensor
from .running.task import queue_callback
from .saving import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

__all__ = [
    "GradientEdge",
    "Node",
    "RawSavedTensor",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
