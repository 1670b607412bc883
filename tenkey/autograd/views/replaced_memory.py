"""Assignment to ``x.data`` (Note [x.data])."""

from __future__ import annotations

from typing import Any

from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor, storage_of, version_of
from ...core.word import INHERITED, REQUIRES_GRAD, WEAK_MASK
from ...core.wrapper import Wrapper
from ..tape.node import leaf_edge
from .tracking import FunctionViewMeta, ViewMeta, hand_over_views, has_relatives, views_of

__all__ = ["replace_data"]


def replace_data(self: Tensor, value: Any) -> None:
    """Make a tensor one on the memory of another."""
    if not isinstance(value, Tensor) or value._word & WEAK_MASK:
        raise TypeError(
            f"[data] takes a Tensor, got {type(value).__name__}: convert it with tk.asarray(...), or write the values "
            "with x.data.copy_(...)."
        )
    if value._data is self._data and not isinstance(value, Wrapper):  # x.data += 1 has changed the memory already
        return
    if isinstance(self, Wrapper) or isinstance(value, Wrapper):
        raise NotImplementedError(
            "[data] cannot be assigned inside a transform such as vmap: write the values with x.data.copy_(...)."
        )
    meta = self._autograd
    if self._word & REQUIRES_GRAD:
        if isinstance(meta, (ViewMeta, FunctionViewMeta)):
            raise RuntimeError(
                "[data] x is a view, whose gradient goes to its part of another tensor, so its memory cannot be "
                "replaced: write the values with x.data.copy_(...)."
            )
        given, own = (value.shape, value.dtype, value.device), (self.shape, self.dtype, self.device)
        if meta is not None and meta.node is not None and given != own:
            raise RuntimeError(
                f"[data] got shape {given[0]}, dtype {given[1]}, device {given[2]} for a result of recorded calls with "
                f"shape {own[0]}, dtype {own[1]}, device {own[2]}: they must be equal, because its gradient has them."
            )
        if value.dtype.kind not in "fcV":
            raise RuntimeError(
                f"[data] a tensor that requires a gradient has a floating point or complex dtype, got {value.dtype}: "
                "call x.requires_grad_(False) first."
            )
    _replace_memory(self, value)


def _replace_memory(x: Tensor, value: Tensor) -> None:
    """Make ``x`` a tensor on the memory of ``value``."""
    before, version = (x.shape, x.dtype, x.device), version_of(x)
    plain = x._storage is None or x._storage.__class__ is Storage
    if plain and has_relatives(x) and (views := views_of(x)):
        hand_over_views(views, x, _stand_in(x))
    storage = storage_of(value)
    storage.version = max(version, storage.version) + 1
    x._storage = storage
    x._data = value._data
    x._word = (value._word & INHERITED) | (x._word & REQUIRES_GRAD) | x.__class__._asks
    meta = x._autograd
    if meta is not None and meta.edge is not None and meta.node is None and before != (x.shape, x.dtype, x.device):
        meta.edge = None  # gradients of the old shape, dtype and device went to the old accumulator
        leaf_edge(x)


def _stand_in(x: Tensor) -> Tensor:
    """Return a tensor that keeps the memory and the history of ``x`` for its views."""
    made = make_tensor(x._data, x._word & (INHERITED | REQUIRES_GRAD))
    made._storage = storage_of(x)
    made._autograd = x._autograd
    return made
