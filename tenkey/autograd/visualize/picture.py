"""The graph behind a result as a picture, in SVG and in Graphviz' language DOT: what ``draw`` returns."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..._util.atomic_write import replacing
from ...core.tensor import Tensor
from ...core.tree import flatten
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...profiler.averages import format_bytes
from ..engine.roots import GradientEdge, checked_edge
from ..function.context import Context
from ..saved_tensors.saved import Saved, SavedTensor
from ..tape.node import NO_EDGE, AccumulateGrad, Node, TensorMeta, edge_of, walk
from .svg import Box, Line, render

__all__ = ["Drawing", "saved_by"]

_NO_GRAD: Final = (
    "[draw] {what} does not require grad and has no graph: set requires_grad on what it depends on, and compute it "
    "outside of no_grad()."
)
_KIND: Final = "[draw] draws tensors, gradient edges and lists, tuples and dicts of them, got {got}."
_PARAMS: Final = "[draw] params is a dict of names and tensors, got {got}."
_FAR_LEAF: Final = 3
_FAR: Final = 16  # an edge across more layers is drawn from a tag beside its user


class _Root(NamedTuple):
    name: str
    node: Node
    nr: int
    text: str


def _roots(outputs: Any) -> list[_Root]:
    found = []
    if isinstance(outputs, Mapping):
        named = [one for key, value in outputs.items() for one in _numbered(_clean(str(key)), value)]
    elif isinstance(outputs, (Tensor, GradientEdge)):
        named = [("output", outputs)]
    else:
        named = [("output", outputs)] if isinstance(outputs, Node) else _numbered("output", outputs)
    for name, value in named:
        if isinstance(value, GradientEdge):
            node, nr = checked_edge("draw", value)
            if node is None:
                raise RuntimeError(_NO_GRAD.format(what=name))
            found.append(_Root(name, node, nr, f"output {nr} of {node.name()}"))
            continue
        if not isinstance(value, Tensor):
            raise TypeError(_KIND.format(got=type(value).__name__))
        if not value._word & REQUIRES_GRAD:
            raise RuntimeError(_NO_GRAD.format(what=name))
        node, nr = edge_of(value)
        if node is not None:
            found.append(_Root(name, node, nr, _shape(value.shape, value.dtype)))
    if not found:
        raise TypeError(_KIND.format(got=repr(outputs)))
    return found


def _numbered(name: str, value: Any) -> list[tuple[str, Any]]:
    leaves = flatten(value, GradientEdge)
    return [(f"{name} {i}" if len(leaves) > 1 else name, leaf) for i, leaf in enumerate(leaves)]


def _names(params: Any) -> dict[tuple[int, int], str]:
    """Names by the place in the graph: of a leaf its accumulator, of a result the node that made it."""
    if params is None:
        return {}
    if not isinstance(params, Mapping):
        raise TypeError(_PARAMS.format(got=type(params).__name__))
    found = {}
    for name, tensor in params.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(_PARAMS.format(got=f"{type(tensor).__name__} for {name!r}"))
        node, nr = edge_of(tensor)
        if node is not None:
            found[id(node), nr] = _clean(str(name))
    return found


def _clean(name: str) -> str:
    """A name without what neither XML nor a terminal can show."""
    return "".join(letter if letter.isprintable() else " " for letter in name)


def _shape(shape: Any, dtype: Any) -> str:
    return f"{tuple(shape)} {dtype}"


class Kept(NamedTuple):
    """A value that a node keeps: a name, a description, and its bytes (0 if it is not a tensor)."""

    name: str
    text: str
    nbytes: int
    edge: tuple[int, int] = (0, 0)  # the place of an input in the graph, as in the names given by the user


def _described(node: Node, name: str, value: Any) -> Kept | None:
    """Describe a value without unpacking it."""
    if isinstance(value, Saved):
        edge = value.edge(node) if isinstance(value, SavedTensor) and value.tensor._autograd is not None else NO_EDGE
        is_number = isinstance(value, SavedTensor) and value.tensor._word & WEAK_MASK
        return Kept(name, str(value), 0 if is_number else value.nbytes, (id(edge[0]) if edge[0] else 0, edge[1]))
    if value is None or value is False or value.__class__ is TensorMeta:
        return None  # options that are off, and shapes, are not worth a line
    plain = isinstance(value, (bool, int, float, complex, str))
    if plain or (
        isinstance(value, (list, tuple)) and all(isinstance(x, (bool, int, float, complex, str)) for x in value)
    ):
        return Kept(name, repr(value), 0)
    return Kept(name, type(value).__name__, 0) if type(value).__module__.startswith("tenkey") else None


def saved_by(node: Node) -> list[Kept]:
    """Describe what a node keeps for its formula, without unpacking anything."""
    if node._released:
        return [Kept("freed", "", 0)]
    fields = [(re.sub(r"saved_tensors\[(\d+)\]", r"tensor \1", name), value) for name, value in node._kept_values()]
    if not isinstance(node, Context):
        fields.sort(key=lambda field: field[0])
    return [item for name, value in fields if (item := _described(node, name, value)) is not None]


def _lines_of(node: Node, names: dict[tuple[int, int], str]) -> list[str]:
    """Shape and dtype of each output, with the names that the user gave."""
    if node.outputs is None:
        given = names.get((id(node), 0))
        text = _shape(node.shape, node.dtype) if node.dtype is not None else str(tuple(node.shape))
        return [text if given is None else f"{given}: {text}"]
    lines = []
    for nr, meta in enumerate(node.outputs):
        given = names.get((id(node), nr), str(nr))
        lines.append(f"{given}: {'no gradient' if meta is None else _shape(meta.shape, meta.dtype)}")
    return lines if len(lines) <= 6 else [*lines[:5], f"… {len(lines) - 5} more outputs"]


class Drawing:
    """What ``draw`` returns: the texts ``dot`` and ``svg``, and ``save(path)``."""

    def __init__(self, outputs: Any, params: Mapping[str, Any] | None, *, max_nodes: int, saved: bool) -> None:
        given: Any = max_nodes
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ValueError(f"[draw] max_nodes is the number of nodes that are drawn, 1 or more, got {max_nodes!r}.")
        roots, names = _roots(outputs), _names(params)
        nodes, more = _nearest([root.node for root in roots], max_nodes)
        self._boxes: list[Box] = []
        self._lines: list[Line] = []
        self._number = {node: i for i, node in enumerate(nodes)}
        self.leaves = sum(isinstance(node, AccumulateGrad) for node in nodes)
        self.nodes = len(nodes) - self.leaves
        self.left_out = more
        self.saved_bytes = 0
        for node in nodes:
            self._add(node, names, saved)
        self._connect(nodes)
        for root in roots:
            self._boxes.append(Box("output", root.name, [root.text]))
            self._lines.append(Line(self._number[root.node], len(self._boxes) - 1, root.nr, root.node.outputs is None))
        del self._number  # nothing of the graph is kept

    def _add(self, node: Node, names: dict[tuple[int, int], str], saved: bool) -> None:
        if isinstance(node, AccumulateGrad):
            name = names.get((id(node), 0), "leaf")
            self._boxes.append(Box("leaf", name, [_shape(node.shape, node.dtype), "AccumulateGrad"]))
            return
        box = Box("node", node.name(), _lines_of(node, names))
        if node.operator_name:
            box.note = node.operator_name
        if saved:
            for item in saved_by(node):
                size = f" {format_bytes(item.nbytes)}" if item.nbytes else ""
                given = names.get(item.edge, "")
                what = f"saved {item.name}" if item.text else item.name
                box.saved.append(f"{what}{given and f' = {given}'} {item.text}{size}".strip())
                self.saved_bytes += item.nbytes
        self._boxes.append(box)

    def _connect(self, nodes: list[Node]) -> None:
        for user, node in enumerate(nodes):
            missing = 0
            for producer, nr in node.next_edges:
                if producer is not None:
                    number = self._number.get(producer)
                    if number is None:
                        missing += 1
                    else:
                        self._lines.append(Line(number, user, nr, producer.outputs is None))
            if missing:
                self._boxes.append(Box("cut", "…", [f"{missing} input{'s' * (missing > 1)} not drawn"]))
                self._lines.append(Line(len(self._boxes) - 1, user, 0, True))

    @property
    def note(self) -> str:
        """What stands under the picture."""
        text = f"{_counted(self.nodes, 'node')}, {_counted(self.leaves, 'leaf', 'leaves')}"
        if self.saved_bytes:
            text += f", {format_bytes(self.saved_bytes)} saved"
        if self.left_out:
            text += f"; {_counted(self.left_out, 'further node')} not drawn: draw(…, max_nodes=…) shows more"
        return text

    @cached_property
    def dot(self) -> str:
        """The graph in DOT, the language of Graphviz."""
        colours = {"leaf": "#dbeafe", "node": "#f4f4f5", "output": "#dcfce7", "cut": "#ffffff"}
        lines = [
            "digraph graph_of_gradients {",
            f'  graph [rankdir=TB, label="{_quoted(self.note)}", bgcolor="transparent"];',
            '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10];',
        ]
        for number, box in enumerate(self._boxes):
            parts = [box.title, *box.lines, *box.saved]
            label = "\\n".join(_quoted(part) for part in parts)
            lines.append(f'  n{number} [label="{label}", fillcolor="{colours[box.kind]}"];')
        for line in self._lines:
            label = "" if line.only else f' [label="{line.nr}"]'
            lines.append(f"  n{line.source} -> n{line.target}{label};")
        return "\n".join([*lines, "}"]) + "\n"

    @cached_property
    def svg(self) -> str:
        """The picture: SVG that is readable on light and dark pages."""
        return render(self._boxes, self._lines, self.note, far=_FAR, far_leaf=_FAR_LEAF)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Any) -> None:
        """Write the picture; ``path`` ends in ``.svg``, or in ``.dot`` or ``.gv`` for DOT."""
        name = os.fspath(path)
        if not name.endswith((".svg", ".dot", ".gv")):
            raise ValueError(f"[draw] {path} ends in .svg, .dot or .gv: that says what is written.")
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


def _nearest(roots: list[Node], limit: int) -> tuple[list[Node], int]:
    """The nodes nearest to the outputs, breadth first, and how many there are besides."""
    found = list(walk(*roots))
    return found[:limit], max(len(found) - limit, 0)
