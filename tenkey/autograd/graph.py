"""``tk.autograd.graph``: nodes and gradient edges."""

from __future__ import annotations

from .functional import GradientEdge, get_gradient_edge
from .node import Node

__all__ = ["GradientEdge", "Node", "get_gradient_edge"]
