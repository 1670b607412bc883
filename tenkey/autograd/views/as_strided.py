"""Windows: the place of a view in its root, as a differentiable operation.

Note [Windows as operations]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Whatever operators made a view, it is a window on the memory of its root: a shape, strides and an offset. To rebuild its
history after a change, the window is expressed by operators on the root's elements in logical order, which have
gradients, forward rules and batching rules of their own: indexing with slices and ints, then permuted, dropped and
stretched dimensions; the same after the root was reshaped (for views of ``reshape``); and where neither is possible
(diagonals, roots with negative strides), a list of element positions. The form depends only on the geometry and is
computed once for each; long lists are not cached. Guarded by ``tests/autograd/views/test_windows.py``.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor, cpu_word, make_tensor
from ...ops.builtin.creation import zeros_like
from ...ops.builtin.indexing.advanced_indexing import index, index_backward
from ...ops.builtin.indexing.basic_indexing import basic_index, basic_index_backward
from ...ops.builtin.indexing.setitem import basic_put, put
from ...ops.builtin.shape.copying import to_device
from ...ops.builtin.shape.views import broadcast_to, permute_dims, reshape, sum_to_shape

__all__ = ["Window", "first_byte", "window_between"]

Shape = tuple[int, ...]


class Window:
    """The place of a view in its root; this base class is the whole root."""

    def read(self, x: Tensor) -> Tensor:
        """Return the elements of the window of ``x``, which has the root's shape, in the view's shape."""
        return x

    def embed(self, g: Tensor) -> Tensor:
        """Return zeros of the root's shape with ``g`` added in the window: the adjoint of ``read``."""
        return g

    def without(self, g: Tensor) -> Tensor:
        """Return ``g``, which has the root's shape, with zeros in the window."""
        return zeros_like(g)


class _Sliced(Window):
    """A slice of the root: its dimensions are permuted to memory order (``order``), reshaped (``cut``), sliced
    (``index``), permuted to the view's order (``turned``), given dimensions of length 1 (``raised``), and broadcast
    (``shape``).
    """

    def __init__(
        self, root: Shape, order: Shape, cut: Shape, chosen: tuple[Any, ...], turned: Shape, raised: Shape, shape: Shape
    ) -> None:
        self.order = order if order != tuple(range(len(order))) else ()
        self.back = tuple(np.argsort(order).tolist()) if self.order else ()
        self.laid = tuple([root[i] for i in order])
        self.cut = cut
        self.index = chosen
        self.turned = turned if turned != tuple(range(len(turned))) else ()
        self.unturned = tuple(np.argsort(turned).tolist()) if self.turned else ()
        self.raised = raised
        self.flat = tuple([n for n in raised if n != 1])
        self.shape = shape

    def _laid_out(self, x: Tensor) -> Tensor:
        if self.order:
            x = permute_dims(x, self.order)
        return reshape(x, self.cut) if self.cut != self.laid else x

    def _back(self, g: Tensor) -> Tensor:
        if self.cut != self.laid:
            g = reshape(g, self.laid)
        return permute_dims(g, self.back) if self.back else g

    def read(self, x: Tensor) -> Tensor:
        made = basic_index(self._laid_out(x), self.index)
        if self.turned:
            made = permute_dims(made, self.turned)
        if self.raised != self.flat:
            made = reshape(made, self.raised)
        return broadcast_to(made, self.shape) if self.shape != self.raised else made

    def embed(self, g: Tensor) -> Tensor:
        if self.shape != self.raised:
            g = sum_to_shape(g, self.raised)
        if self.raised != self.flat:
            g = reshape(g, self.flat)
        if self.unturned:
            g = permute_dims(g, self.unturned)
        return self._back(basic_index_backward(g, self.cut, self.index))

    def without(self, g: Tensor) -> Tensor:
        return self._back(basic_put(self._laid_out(g), self.index, 0))


class _Places(Window):
    """A list of element positions, in the root's row-major order."""

    def __init__(self, root: Shape, places: np.ndarray) -> None:
        self.root = root
        self.size = int(np.prod(root, dtype=np.int64))
        self.places = make_tensor(places, cpu_word(places.dtype))

    def _on(self, x: Tensor) -> list[Tensor]:
        return [self.places if x.device.type == "cpu" else to_device(self.places, x.device)]

    def read(self, x: Tensor) -> Tensor:
        return index(reshape(x, (self.size,)), self._on(x))

    def embed(self, g: Tensor) -> Tensor:
        return reshape(index_backward(g, (self.size,), self._on(g)), self.root)

    def without(self, g: Tensor) -> Tensor:
        return reshape(put(reshape(g, (self.size,)), self._on(g), 0), self.root)


def first_byte(data: Any) -> int:
    """Return the address of the first element, comparable with that of other windows on the same memory."""
    return data.__array_interface__["data"][0] if data.__class__ is np.ndarray else data.offset  # type: ignore[no-any-return]


def window_between(root: Tensor, view: Any) -> Window:
    """Return the window of a view, given by its native data, on its root."""
    data = root._data
    if view is data:
        return _WHOLE
    size = data.dtype.itemsize
    steps = tuple([step // size for step in data.strides])
    view_steps = tuple([step // size for step in view.strides])
    offset = first_byte(view) - first_byte(data) if view.size else 0
    found = _window(data.shape, steps, view.shape, view_steps, offset // size)
    if found == "listed":
        listed = _few_places if view.size <= _FEW else _places
        found = listed(data.shape, steps, view.shape, view_steps, offset // size)
    if found is None:
        raise RuntimeError(
            f"[grad_fn] a view of shape {view.shape} no longer lies in the memory of its base of shape {data.shape}, "
            "which has moved: take the view anew."
        )
    if found == "overlap":
        raise RuntimeError(
            f"[grad_fn] unsupported operation: more than one element of the base, shape {data.shape}, "
            f"strides {steps}, refers to a single memory location, so a view of it has no history of its own. clone() "
            "the base first."
        )
    return found  # type: ignore[no-any-return]


_WHOLE: Final = Window()


@functools.lru_cache(1024)
def _window(root: Shape, steps: Shape, shape: Shape, view_steps: Shape, offset: int) -> Any:
    """Return the window, or "listed" if it takes a list of positions."""
    if 0 in shape:
        return _Places(root, np.empty(shape, np.int64))
    if (root, steps, 0) == (shape, view_steps, offset):
        return _WHOLE
    long = [(n, step) for n, step in zip(root, steps) if n != 1]
    order = tuple(sorted(range(len(root)), key=lambda i: (root[i] != 1, -steps[i])))
    ascending = sorted(long, key=lambda pair: pair[1])
    span = 1
    apart = True
    for n, step in ascending:
        apart = apart and step >= span
        span += (n - 1) * step
    if apart:
        laid = tuple([root[i] for i in order])
        sliced = _slices(laid, tuple([steps[i] for i in order]), shape, view_steps, offset)
        cut = laid
        if sliced is None and span == int(np.prod(root, dtype=np.int64)):
            cut, cut_steps = _cut(span, shape, view_steps)
            sliced = _slices(cut, cut_steps, shape, view_steps, offset) if cut else None
        if sliced is not None:
            chosen, turned = sliced
            raised = tuple([1 if step == 0 else n for n, step in zip(shape, view_steps)])
            return _Sliced(root, order, cut, chosen, turned, raised, shape)
    return "listed"


def _slices(root: Shape, steps: Shape, shape: Shape, view_steps: Shape, offset: int) -> Any:
    """Return an index of ints and slices and the order of its dimensions, or None. The root's strides descend."""
    if offset < 0:
        return None
    starts = []
    for n, step in zip(root, steps):
        start = offset // step if n != 1 else 0
        if start >= n:
            return None
        offset -= start * step
        starts.append(start)
    if offset:
        return None
    chosen: list[Any] = list(starts)
    user: dict[int, int] = {}
    for j, (length, step) in enumerate(zip(shape, view_steps)):
        if length == 1 or step == 0:
            continue
        for k, (n, own) in enumerate(zip(root, steps)):
            if n != 1 and k not in user and step > 0 and step % own == 0:
                last = starts[k] + step // own * (length - 1)
                if last < n:
                    user[k] = j
                    chosen[k] = slice(starts[k], last + 1, step // own)
                    break
        else:
            return None
    ranks = {j: place for place, j in enumerate(sorted(user.values()))}
    made = [ranks[user[k]] for k in sorted(user)]  # the place in the view of each dimension of the indexed tensor
    return tuple(chosen), tuple(np.argsort(made).tolist())


def _cut(size: int, shape: Shape, view_steps: Shape) -> tuple[Shape, Shape]:
    """Return lengths and strides that divide ``size`` contiguous elements and have the view's strides; or ()."""
    lengths: list[int] = []
    steps: list[int] = []
    above = size
    for step in sorted({step for n, step in zip(shape, view_steps) if n != 1 and step > 0}, reverse=True):
        if above % step:
            return (), ()
        lengths.append(above // step)
        steps.append(step)
        above = step
    if above != 1:
        lengths.append(above)
        steps.append(1)
    return tuple(lengths), tuple(steps)


def _positions(shape: Shape, steps: Shape, offset: int) -> np.ndarray:
    made = np.full((), offset, np.int64)
    for n, step in zip(shape, steps):
        made = made[..., None] + np.arange(n, dtype=np.int64) * step
    return made


def _places(root: Shape, steps: Shape, shape: Shape, view_steps: Shape, offset: int) -> Any:
    """Return the list of positions, None if the view is outside the root, or "overlap" if elements share memory."""
    own = _positions(root, steps, 0).reshape(-1)
    wanted = _positions(shape, view_steps, offset)
    by_place = np.argsort(own, kind="stable")
    ordered = own[by_place]
    if (ordered[1:] == ordered[:-1]).any():
        return "overlap"
    at = np.minimum(np.searchsorted(ordered, wanted), max(own.size - 1, 0))
    if own.size == 0 or (ordered[at] != wanted).any():
        return None
    return _Places(root, by_place[at])


_FEW: Final = 4096  # longer lists are not cached
_few_places: Final = functools.lru_cache(256)(_places)
