"""``tk.autograd.draw``; what draws is imported when somebody draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .picture import Drawing

__all__ = ["draw"]


def draw(outputs: Any, params: Mapping[str, Any] | None = None, *, max_nodes: int = 500, saved: bool = True) -> Drawing:
    """A picture of the graph that computed ``outputs``: a tensor, a gradient edge, or a list, tuple or dict of them.

    Boxes are nodes, with the shape and dtype of what they made, and what they saved, with its bytes; blue ones are
    leaves, green ones the outputs. Lines lead from what was computed first to what was computed of it. ``params`` gives
    tensors names (``{"w": w}``). Of a larger graph the ``max_nodes`` nodes nearest to the outputs are drawn, and a note
    says how many are not. ``saved=False`` leaves out what was saved.

    The result has the texts ``dot`` and ``svg``, is shown by notebooks, and ``save(path)`` writes it to a file. Nothing
    else is needed to draw it. Nothing of the graph is kept, unpacked or changed.

    >>> import tenkey as tk
    >>> w = tk.ones(3).requires_grad_()
    >>> picture = tk.autograd.draw(tk.sum(w * w), params={"w": w})
    >>> picture
    <drawing of 2 nodes and 1 leaf>
    >>> print(picture.dot.splitlines()[3])
      n0 [label="SumBackward\\n() float32", fillcolor="#f4f4f5"];
    """
    from .picture import Drawing

    return Drawing(outputs, params, max_nodes=max_nodes, saved=saved)
