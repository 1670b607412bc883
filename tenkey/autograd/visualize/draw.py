"""``tk.autograd.draw``: the graph behind a result as a picture, in SVG and in DOT, the language of Graphviz."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._util.atomic_write import replacing
from ..._util.cached_attribute import cached_property
from ...core.tensor import Tensor
from ...core.tree import flatten
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...profiler.averages import format_bytes
from ..engine.roots import GradientEdge, checked_edge
from ..function.context import Context
from ..saved_tensors.saved import Saved, SavedTensor
from ..tape.node import AccumulateGrad, Edge, Node, TensorMeta, edge_of, walk
from .svg import COLOURS, Box, Line, render

__all__ = ["Drawing", "draw"]


def draw(outputs: Any, params: Mapping[str, Any] | None = None, *, max_nodes: int = 500, saved: bool = True) -> Drawing:
    """Draw the graph that computed ``outputs``: a tensor, a gradient edge, or a list, tuple or dict of them.

    Boxes are nodes, with the shapes and dtypes of their outputs and the values they saved, with sizes in bytes; leaves
    are blue, outputs green. Lines lead from each node to those that used its results. ``params`` names tensors
    (``{"w": w}``). Of a larger graph, the ``max_nodes`` nodes closest to the outputs are drawn, and a note tells how
    many are missing. ``saved=False`` leaves out saved values.

    The result has the texts ``dot`` and ``svg``, is displayed by notebooks, and ``save(path)`` writes it to a file. No
    other package is needed. Nothing of the graph is kept alive, unpacked or changed.

    >>> w = tk.ones(3).requires_grad_()
    >>> picture = tk.autograd.draw(tk.sum(w * w), params={"w": w})
    >>> picture
    <drawing of 2 nodes and 1 leaf>
    >>> print(picture.dot.splitlines()[3])
      n0 [label="SumBackward\\n() float32", fillcolor="#f4f4f5"];
    """
    return Drawing(outputs, params, max_nodes=max_nodes, saved=saved)


def _roots(outputs: Any) -> list[tuple[Node, int, Box]]:
    """Return node, output number and box of each output."""
    is_dict = isinstance(outputs, Mapping)
    named = []
    for name, tree in outputs.items() if is_dict else [("output", outputs)]:
        leaves = flatten(tree, GradientEdge)
        named += [(f"{_clean(name)} {i}" if len(leaves) > 1 else _clean(name), leaf) for i, leaf in enumerate(leaves)]
    found = []
    for name, value in named:
        if isinstance(value, GradientEdge):
            node, nr = checked_edge("draw", value)
            text = "" if node is None else f"output {nr} of {node.name()}"
        elif isinstance(value, Tensor):
            node, nr = edge_of(value)
            text = _shape(value.shape, value.dtype)
            if node is None and value._word & REQUIRES_GRAD:
                continue
        else:
            raise _not_drawn(type(value).__name__)
        if node is None:
            raise RuntimeError(
                f"[draw] {name} does not require grad and has no graph: set requires_grad on the tensors it depends "
                "on, and compute it outside of no_grad()."
            )
        found.append((node, nr, Box("output", name, [text])))
    if not found:
        raise _not_drawn(repr(outputs))
    return found


def _not_drawn(got: str) -> TypeError:
    return TypeError(f"[draw] got {got}: pass a tensor, a gradient edge, or a list, tuple or dict of them.")


def _names(params: Any) -> dict[Edge, str]:
    """Return the given names by edge: that of a leaf leads to its accumulator, of a result to its node."""
    if params is None:
        return {}
    for tensor in params.values() if isinstance(params, Mapping) else (params,):
        if not isinstance(tensor, Tensor) or not isinstance(params, Mapping):
            raise TypeError(f"[draw] params is a dict of names and tensors, got {type(tensor).__name__}.")
    edges = [(edge_of(tensor), _clean(name)) for name, tensor in params.items()]
    return {edge: name for edge, name in edges if edge[0] is not None}


def _clean(name: Any) -> str:
    """Return the name with blanks for characters that XML or a terminal cannot show."""
    return "".join(letter if letter.isprintable() else " " for letter in str(name))


def _shape(shape: Any, dtype: Any) -> str:
    return f"{tuple(shape)} {dtype}"


def _describe(value: Any) -> str | None:
    """Describe a saved value without unpacking it; None for disabled options and shapes, which take no line."""
    if isinstance(value, Saved):
        return str(value)
    if value is None or value is False or value.__class__ is TensorMeta:
        return None
    if all(isinstance(x, (bool, int, float, complex, str)) for x in flatten(value)):
        return repr(value)
    return type(value).__name__ if type(value).__module__.startswith("tenkey") else None


def _lines_of(node: Node, names: dict[Edge, str]) -> list[str]:
    """Return shape and dtype of each output, with the names that the user gave."""
    if node.outputs is None:
        text = _shape(node.shape, node.dtype) if node.dtype is not None else str(tuple(node.shape))
        return [f"{names[node, 0]}: {text}" if (node, 0) in names else text]
    lines = [
        f"{names.get((node, nr), nr)}: {'no gradient' if meta is None else _shape(meta.shape, meta.dtype)}"
        for nr, meta in enumerate(node.outputs)
    ]
    return lines if len(lines) <= 6 else [*lines[:5], f"… {len(lines) - 5} more outputs"]


class Drawing:
    """A drawn graph, as returned by ``draw``: the texts ``dot`` and ``svg``, and ``save(path)``."""

    def __init__(self, outputs: Any, params: Mapping[str, Any] | None, *, max_nodes: int, saved: bool) -> None:
        given: Any = max_nodes
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"[draw] max_nodes is the number of nodes to draw, 1 or more, got {max_nodes!r}.")
        roots, names = _roots(outputs), _names(params)
        every = list(walk(*[node for node, _, _ in roots]))
        nodes = every[:max_nodes]
        numbers = {node: i for i, node in enumerate(nodes)}
        self.leaves = sum(isinstance(node, AccumulateGrad) for node in nodes)
        self.nodes = len(nodes) - self.leaves
        self.left_out = len(every) - len(nodes)
        self.saved_bytes = 0
        self._boxes = [self._box(node, names, saved) for node in nodes]
        self._lines: list[Line] = []
        for user, node in enumerate(nodes):
            missing = 0
            for producer, nr in node.next_edges:
                if producer in numbers:
                    self._lines.append(Line(numbers[producer], user, None if producer.outputs is None else nr))
                else:
                    missing += producer is not None
            if missing:
                self._lines.append(Line(len(self._boxes), user))
                self._boxes.append(Box("cut", "…", [f"{_counted(missing, 'input')} not drawn"]))
        for node, nr, box in roots:
            self._lines.append(Line(numbers[node], len(self._boxes), None if node.outputs is None else nr))
            self._boxes.append(box)

    def _box(self, node: Node, names: dict[Edge, str], saved: bool) -> Box:
        if isinstance(node, AccumulateGrad):
            return Box("leaf", names.get((node, 0), "leaf"), [_shape(node.shape, node.dtype), "AccumulateGrad"])
        box = Box("node", node.name(), _lines_of(node, names), note=node.operator_name or "")
        if not saved:
            return box
        if node._released:
            box.saved = ["freed"]
            return box
        fields = [(re.sub(r"saved_tensors\[(\d+)\]", r"tensor \1", name), value) for name, value in node._kept_values()]
        if not isinstance(node, Context):
            fields.sort(key=lambda field: field[0])
        for name, value in fields:
            text = _describe(value)
            if text is None:
                continue
            line = f"saved {name}"
            tensor = value.tensor if isinstance(value, SavedTensor) else None
            if tensor is not None and tensor._autograd is not None and edge_of(tensor) in names:
                line += f" = {names[edge_of(tensor)]}"
            line += f" {text}"
            if isinstance(value, Saved) and value.nbytes and not (tensor is not None and tensor._word & WEAK_MASK):
                line += f" {format_bytes(value.nbytes)}"
                self.saved_bytes += value.nbytes
            box.saved.append(line)
        return box

    @property
    def note(self) -> str:
        """The text below the picture."""
        text = f"{_counted(self.nodes, 'node')}, {_counted(self.leaves, 'leaf', 'leaves')}"
        if self.saved_bytes:
            text += f", {format_bytes(self.saved_bytes)} saved"
        if self.left_out:
            text += f"; {_counted(self.left_out, 'further node')} not drawn: draw(…, max_nodes=…) shows more"
        return text

    @cached_property
    def dot(self) -> str:
        """The graph in DOT, the language of Graphviz."""
        lines = [
            "digraph graph_of_gradients {",
            f'  graph [rankdir=TB, label="{_quoted(self.note)}", bgcolor="transparent"];',
            '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10];',
        ]
        for number, box in enumerate(self._boxes):
            label = "\\n".join(_quoted(part) for part in (box.title, *box.lines, *box.saved))
            lines.append(f'  n{number} [label="{label}", fillcolor="{COLOURS[box.kind][0]}"];')
        for line in self._lines:
            label = "" if line.nr is None else f' [label="{line.nr}"]'
            lines.append(f"  n{line.source} -> n{line.target}{label};")
        return "\n".join([*lines, "}"]) + "\n"

    @cached_property
    def svg(self) -> str:
        """The picture as SVG, readable on light and dark pages."""
        return render(self._boxes, self._lines, self.note)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        """Write the picture; ``path`` ends in ``.svg``, or in ``.dot`` or ``.gv`` for DOT."""
        name = os.fspath(path)
        if not name.endswith((".svg", ".dot", ".gv")):
            raise ValueError(f"[draw] got the path {path}: a path that ends in .svg, .dot or .gv selects the format.")
        text = self.svg if name.endswith(".svg") else self.dot
        with replacing(name) as temporary:
            Path(temporary).write_text(text, encoding="utf-8")

    def __repr__(self) -> str:
        left = f", {self.left_out} left out" if self.left_out else ""
        return f"<drawing of {_counted(self.nodes, 'node')} and {_counted(self.leaves, 'leaf', 'leaves')}{left}>"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
