"""A layered layout of a directed acyclic graph: positions of the boxes and routes of the lines.

Note [The layout]
~~~~~~~~~~~~~~~~~
The method follows Sugiyama, Tagawa and Toda (1981). A box is placed one layer above the highest of the boxes that use
it (the longest path to the end). A line that crosses layers gets a point of its own in each, so it never runs through a
box. Sweeps up and down move every vertex to the mean position of its neighbours: early sweeps reorder the layers by
these means, and every sweep solves the least squares problem "close to the means, in order, and apart" for each layer
by pooling adjacent violators. No step recurses, and each is linear in the drawing, or nearly so.
Guarded by ``tests/autograd/test_draw.py::test_boxes_do_not_overlap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

__all__ = ["Layout", "layers_of"]

GAP: Final = 26.0  # between boxes of a layer
LANE: Final = 12.0  # between lines
RISE: Final = 46.0  # between layers


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each vertex its longest path to a vertex without successors; ``edges`` lead from user to used.

    >>> layers_of(3, [(0, 1), (1, 2), (0, 2)])
    [0, 1, 2]
    """
    used: list[list[int]] = [[] for _ in range(count)]
    users = [0] * count
    for user, one in edges:
        used[user].append(one)
        users[one] += 1
    layers = [0] * count
    ready = [v for v in range(count) if users[v] == 0]
    for v in ready:  # grows while it is read
        for one in used[v]:
            layers[one] = max(layers[one], layers[v] + 1)
            users[one] -= 1
            if users[one] == 0:
                ready.append(one)
    return layers


class Layout:
    """Positions of boxes of given sizes; ``edges`` lead from a box to one on a lower layer, downwards in the drawing.

    ``x`` and ``y`` are the centres of the boxes; ``routes`` holds for each edge the points at which it passes layers,
    as (x, top, bottom). Boxes that are ``light`` follow the others and hardly attract them.
    """

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        layers: Sequence[int],
        edges: Sequence[tuple[int, int]],
        light: Sequence[bool] = (),
    ) -> None:
        self._boxes = len(sizes)
        self._widths = [width for width, _ in sizes]
        self._weights = [0.1 if one else 1.0 for one in light] or [1.0] * len(sizes)
        highest = max(layers, default=0)
        self._layer = [highest - layer for layer in layers]  # counted from the top
        self._up: list[list[int]] = [[] for _ in sizes]
        self._down: list[list[int]] = [[] for _ in sizes]
        chains = [self._chain(source, target) for source, target in edges]
        self._layers: list[list[int]] = [[] for _ in range(highest + 1)]
        seen = set()
        stack = sorted(range(len(self._layer)), key=self._layer.__getitem__)
        while stack:  # the first order is that of a depth-first walk from the bottom
            v = stack.pop()
            if v not in seen:
                seen.add(v)
                self._layers[self._layer[v]].append(v)
                stack += reversed(self._up[v])
        self.x = [0.0] * len(self._widths)
        self._place()
        self._route(sizes, chains)

    def _chain(self, source: int, target: int) -> list[int]:
        """Return the vertices of an edge: its ends, and a new one on each layer between them."""
        chain = [source]
        for layer in range(self._layer[source] + 1, self._layer[target]):
            chain.append(len(self._widths))
            self._widths.append(0.0)
            self._layer.append(layer)
            self._weights.append(3.0)
            self._up.append([])
            self._down.append([])
        chain.append(target)
        for above, below in pairwise(chain):
            self._down[above].append(below)
            self._up[below].append(above)
        return chain

    def _place(self) -> None:
        """Order each layer and find the horizontal positions (Note [The layout])."""
        sweeps = 20 if len(self._widths) < 4000 else 6
        weights = [1.0] * len(self.x)
        for sweep in range(sweeps):
            settled = sweep >= sweeps * 3 // 4
            if settled:
                weights = self._weights
            upwards = sweep % 2 == 0
            for layer in reversed(self._layers) if upwards else self._layers:
                wanted = {}
                for v in layer:
                    near = self._down[v] if upwards else self._up[v]
                    if settled or not near:
                        near = [*self._up[v], *self._down[v]]
                    total = sum(weights[u] for u in near)
                    wanted[v] = sum(self.x[u] * weights[u] for u in near) / total if near else self.x[v]
                if not settled:
                    layer.sort(key=wanted.__getitem__)
                self._fit(layer, wanted)

    def _fit(self, layer: list[int], wanted: dict[int, float]) -> None:
        """Set the positions closest to the wanted ones that keep order and distance (pooling adjacent violators)."""
        offset = 0.0
        offsets = []
        pools: list[tuple[float, float, int]] = []  # mean, weight, count
        for i, v in enumerate(layer):
            if i:
                left = layer[i - 1]
                gap = GAP if max(left, v) < self._boxes else LANE
                offset += (self._widths[left] + self._widths[v]) / 2 + gap
            offsets.append(offset)
            mean, weight, count = wanted[v] - offset, self._weights[v], 1
            while pools and pools[-1][0] >= mean:
                other, more, others = pools.pop()
                mean = (other * more + mean * weight) / (more + weight)
                weight, count = weight + more, count + others
            pools.append((mean, weight, count))
        means = [mean for mean, _, count in pools for _ in range(count)]
        for v, mean, offset in zip(layer, means, offsets):
            self.x[v] = mean + offset

    def _route(self, sizes: Sequence[tuple[float, float]], chains: list[list[int]]) -> None:
        """Set the heights of the layers, the size of the drawing, and the points of the lines."""
        tops, bottoms, y = [], [], 0.0
        for layer in self._layers:
            tops.append(y)
            bottoms.append(y + max((sizes[v][1] for v in layer if v < self._boxes), default=0.0))
            y = bottoms[-1] + RISE
        self.height = y - RISE
        left = min((x - width / 2 for x, width in zip(self.x, self._widths)), default=0.0)
        self.x = [x - left for x in self.x]
        self.width = max((x + width / 2 for x, width in zip(self.x, self._widths)), default=0.0)
        self.y = [(tops[self._layer[v]] + bottoms[self._layer[v]]) / 2 for v in range(self._boxes)]
        starts = self._ports([(chain[0], chain[1]) for chain in chains])
        ends = self._ports([(chain[-1], chain[-2]) for chain in chains])
        self.routes: list[list[tuple[float, float, float]]] = []
        for chain, start, end in zip(chains, starts, ends):
            first, last = chain[0], chain[-1]
            points = [(start, self.y[first] + sizes[first][1] / 2, bottoms[self._layer[first]])]
            points += [(self.x[v], tops[self._layer[v]], bottoms[self._layer[v]]) for v in chain[1:-1]]
            self.routes.append([*points, (end, tops[self._layer[last]], self.y[last] - sizes[last][1] / 2)])

    def _ports(self, ends: list[tuple[int, int]]) -> list[float]:
        """Return where lines leave or enter boxes, given (box, next vertex): side by side, in order of direction."""
        ports = [0.0] * len(ends)
        by_box: dict[int, list[int]] = {}
        for number in sorted(range(len(ends)), key=lambda number: self.x[ends[number][1]]):
            by_box.setdefault(ends[number][0], []).append(number)
        for box, numbers in by_box.items():
            step = min(self._widths[box] * 0.7 / len(numbers), 26.0)
            for i, number in enumerate(numbers):
                ports[number] = self.x[box] + step * (i - (len(numbers) - 1) / 2)
        return ports
