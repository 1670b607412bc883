"""``tk.autograd.graph``: nodes, gradient edges, and hooks on saved tensors and on several gradients."""

from .engine.functional import GradientEdge, get_gradient_edge
from .engine.graph_task import queue_callback
from .engine.multi_grad_hook import register_multi_grad_hook
from .saved_tensors.mutation import allow_mutation_on_saved_tensors, increment_version
from .saved_tensors.raw import RawSavedTensor
from .saved_tensors.saved_tensor_hooks import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from .tape.node import Node

__all__ = [
    "GradientEdge", "Node", "RawSavedTensor", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "queue_callback", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip
