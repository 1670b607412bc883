"""A layered layout of a directed acyclic graph: which box stands where, and how the lines run.

Note [The layout]
~~~~~~~~~~~~~~~~~
The method is that of Sugiyama, Tagawa and Toda (1981). A box stands one layer above the highest of the boxes that use
it (the longest path to the end). A line that crosses layers gets a place of its own in each, so it never runs through a
box. The order within the layers is improved by barycentres, up and down, and the best that was found is kept. Places
are then the least squares of "where the neighbours are" under "in order and apart", solved for each layer by pooling
adjacent violators. No step recurses, and each is linear in the drawing, or nearly so.
Guarded by ``tests/autograd/test_draw.py::test_boxes_do_not_overlap``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

__all__ = ["Layout", "layers_of"]

GAP: Final = 26.0  # between boxes of a layer
LANE: Final = 12.0  # between lines
RISE: Final = 46.0  # between layers


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """For each vertex the longest path to a vertex without successors; ``edges`` lead from user to used.

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
    while ready:
        v = ready.pop()
        for one in used[v]:
            layers[one] = max(layers[one], layers[v] + 1)
            users[one] -= 1
            if users[one] == 0:
                ready.append(one)
    return layers


class Layout:
    """Places for boxes of given sizes; ``edges`` lead from a box to one on a lower layer, downwards in the drawing.

    ``x`` and ``y`` are the centres of the boxes, ``routes`` for each edge the points in which it passes layers. Boxes
    that are ``light`` follow the others and do not draw them aside.
    """

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        layers: Sequence[int],
        edges: Sequence[tuple[int, int]],
        light: Sequence[bool] = (),
    ) -> None:
        self._widths = [width for width, _ in sizes]
        self._boxes = len(sizes)
        self._pull = [0.1 if one else 1.0 for one in light] or [1.0] * len(sizes)
        top = max(layers, default=0)
        self._layer = [top - layer for layer in layers]  # from here on 0 is the highest
        self._layers: list[list[int]] = [[] for _ in range(top + 1)]
        self._up: list[list[int]] = [[] for _ in sizes]
        self._down: list[list[int]] = [[] for _ in sizes]
        self._chains = [self._chain(source, target) for source, target in edges]
        self._fill()
        self._order()
        self._place()
        self._rows(sizes)

    # ---- vertices

    def _chain(self, source: int, target: int) -> list[int]:
        """The vertices that an edge runs through: its ends, and one for each layer between them."""
        chain = [source]
        for layer in range(self._layer[source] + 1, self._layer[target]):
            chain.append(len(self._widths))
            self._widths.append(0.0)
            self._layer.append(layer)
            self._pull.append(3.0)
            self._up.append([])
            self._down.append([])
        chain.append(target)
        for above, below in pairwise(chain):
            self._down[above].append(below)
            self._up[below].append(above)
        return chain

    def _fill(self) -> None:
        """The first order: as a walk from the bottom meets the vertices."""
        seen = [False] * len(self._widths)
        for start in sorted(range(len(self._widths)), key=lambda v: -self._layer[v]):
            stack = [start]
            while stack:
                v = stack.pop()
                if not seen[v]:
                    seen[v] = True
                    self._layers[self._layer[v]].append(v)
                    stack.extend(reversed(self._up[v]))

    def _order(self) -> None:
        small = len(self._widths) < 4000
        best, fewest = [list(layer) for layer in self._layers], self._crossings()
        for sweep in range(16 if small else 4):
            if fewest == 0:
                break
            down = sweep % 2 == 0
            near = self._up if down else self._down
            for layer in self._layers if down else reversed(self._layers):
                self._sort(layer, near)
            found = self._crossings()
            if found < fewest:
                best, fewest = [list(layer) for layer in self._layers], found
        self._layers = best

    def _sort(self, layer: list[int], near: list[list[int]]) -> None:
        place = self._ranks()
        keys = {}
        for i, v in enumerate(layer):
            around = near[v]
            keys[v] = sum(place[u] for u in around) / len(around) if around else float(i)
        layer.sort(key=keys.__getitem__)
        for i, v in enumerate(layer):
            self._rank[v] = i

    def _ranks(self) -> list[int]:
        found: list[int] | None = getattr(self, "_rank", None)
        if found is None:
            found = self._rank = [0] * len(self._widths)
            for layer in self._layers:
                for i, v in enumerate(layer):
                    found[v] = i
        return found

    def _crossings(self) -> int:
        """How many pairs of lines cross, counted as inversions between neighbouring layers."""
        place = self._ranks()
        for layer in self._layers:
            for i, v in enumerate(layer):
                place[v] = i
        total = 0
        for layer in self._layers:
            seen: list[int] = []
            for v in layer:
                below = sorted(place[u] for u in self._down[v])
                for one in below:
                    total += len(seen) - bisect_right(seen, one)
                for one in below:
                    seen.insert(bisect_right(seen, one), one)
        return total

    # ---- places

    def _place(self) -> None:
        self.x = [0.0] * len(self._widths)
        for layer in self._layers:
            self._fit(layer, [0.0] * len(layer), [1.0] * len(layer))
        for sweep in range(12 if len(self._widths) < 4000 else 4):
            down = sweep % 2 == 0
            for layer in self._layers if down else reversed(self._layers):
                wanted, weights = [], []
                for v in layer:
                    around = self._up[v] if down else self._down[v]
                    if sweep >= 8 or not around:
                        around = [*self._up[v], *self._down[v]]
                    pull = sum(self._pull[u] for u in around)
                    wanted.append(sum(self.x[u] * self._pull[u] for u in around) / pull if around else self.x[v])
                    weights.append(self._pull[v])
                self._fit(layer, wanted, weights)

    def _distance(self, left: int, right: int) -> float:
        lines = left >= self._boxes or right >= self._boxes
        return (self._widths[left] + self._widths[right]) / 2 + (LANE if lines else GAP)

    def _fit(self, layer: list[int], wanted: list[float], weights: list[float]) -> None:
        """The places nearest to the wanted ones that keep order and distance (pooling adjacent violators)."""
        offset = 0.0
        offsets = []
        pools: list[list[float]] = []  # mean, weight, how many
        for i, v in enumerate(layer):
            if i:
                offset += self._distance(layer[i - 1], v)
            offsets.append(offset)
            pools.append([wanted[i] - offset, weights[i], 1])
            while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
                mean, weight, count = pools.pop()
                last = pools[-1]
                last[0] = (last[0] * last[1] + mean * weight) / (last[1] + weight)
                last[1] += weight
                last[2] += count
        values = [mean for mean, _, count in pools for _ in range(int(count))]
        for v, value, shift in zip(layer, values, offsets):
            self.x[v] = value + shift

    def _rows(self, sizes: Sequence[tuple[float, float]]) -> None:
        """Heights of the layers, the margins, and the lines."""
        tops, bottoms, y = [], [], 0.0
        for layer in self._layers:
            height = max((sizes[v][1] for v in layer if v < self._boxes), default=0.0)
            tops.append(y)
            bottoms.append(y + height)
            y += height + RISE
        self.height = max(y - RISE, 0.0)
        left = min((self.x[v] - self._widths[v] / 2 for v in range(len(self.x))), default=0.0)
        right = max((self.x[v] + self._widths[v] / 2 for v in range(len(self.x))), default=0.0)
        self.width = right - left
        self.x = [x - left for x in self.x]
        self.y = [(tops[self._layer[v]] + bottoms[self._layer[v]]) / 2 for v in range(self._boxes)]
        out = self._ports(0, self._down)
        into = self._ports(-1, self._up)
        self.routes: list[list[Any]] = []
        for number, chain in enumerate(self._chains):
            source, target = chain[0], chain[-1]
            points: list[Any] = [
                (out[number], self.y[source] + sizes[source][1] / 2, bottoms[self._layer[source]]),
                *[(self.x[v], tops[self._layer[v]], bottoms[self._layer[v]]) for v in chain[1:-1]],
                (into[number], tops[self._layer[target]], self.y[target] - sizes[target][1] / 2),
            ]
            self.routes.append(points)

    def _ports(self, end: int, near: list[list[int]]) -> list[float]:
        """Where each line leaves or enters its box: side by side, in the order in which they come."""
        ports = [0.0] * len(self._chains)
        by_box: dict[int, list[int]] = {}
        for number, chain in enumerate(self._chains):
            by_box.setdefault(chain[end], []).append(number)
        for box, numbers in by_box.items():
            inner = 1 if end == 0 else -2
            numbers.sort(key=lambda number: self.x[self._chains[number][inner]])
            step = min(self._widths[box] * 0.7 / len(numbers), 26.0)
            for i, number in enumerate(numbers):
                ports[number] = self.x[box] + step * (i - (len(numbers) - 1) / 2)
        return ports
