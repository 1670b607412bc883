"""Pickling and copying of tensors: ``pickle``, ``copy.copy``, ``copy.deepcopy``."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.registry import registry
from ..device import META, to_device
from ..tensor import Tensor, add_methods, from_host, with_class
from ..word import REQUIRES_GRAD

__all__ = ["buffer", "rebuild", "refuse_non_leaf"]


class _Shape(NamedTuple):
    """A tensor without values, in a pickle."""

    shape: tuple[int, ...]
    dtype: np.dtype


def refuse_non_leaf(tensor: Tensor, call: str, can: str) -> None:
    """Raise RuntimeError for a tensor that was computed from others, whose history would be lost."""
    if not tensor.is_leaf:
        raise RuntimeError(
            f"[{call}] Only Tensors created explicitly by the user (graph leaves) {can}: this one was computed "
            f"by {tensor.grad_fn.name()}, and the copy would have no history. Use x.detach(), or x.clone() to stay in "
            "the graph."
        )


def rebuild(values: np.ndarray | _Shape, device: str, requires_grad: bool, cls: type[Tensor] = Tensor) -> Tensor:
    """Return a tensor from its pickled parts."""
    target = to_device(device)
    if isinstance(values, _Shape):
        made = registry.find("tk::empty").call(values.shape, dtype=values.dtype, device=target)
    else:
        made = from_host(values, target)  # the pickle's buffers may be bytes, or a file that joblib has mapped
    made = with_class(cls, made)
    return made.requires_grad_() if requires_grad else made


def _reduce_ex(self: Tensor, protocol: Any) -> tuple[object, ...]:
    """Pickle values, dtype, device and ``requires_grad``, but neither history nor ``.grad``.

    With protocol 5 and a ``buffer_callback`` the values are passed as a separate buffer, without being copied.
    """
    device = self.device  # pickled with its index: "type" alone means the current device when unpickled
    values = _Shape(self.shape, self.dtype) if device is META else self._values("pickle")
    parts = (values, f"{device.type}:{device.index}", bool(self._word & REQUIRES_GRAD))
    if self.__class__ is Tensor:
        return rebuild, parts
    return rebuild, (*parts, self.__class__), getattr(self, "__dict__", None)


def _attributes(self: Tensor) -> dict[str, Any]:
    return getattr(self, "__dict__", {})  # a class with slots alone has none


def _copy(self: Tensor) -> Tensor:
    """Return a copy with its own memory, recorded in the graph like ``clone()``."""
    if self.__class__ is not Tensor:
        made = with_class(self.__class__, registry.find("tk::clone").call(self.as_subclass(Tensor)))
        _attributes(made).update(_attributes(self))
        return made
    return registry.find("tk::clone").call(self)  # type: ignore[no-any-return]


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a leaf with its own memory, the same ``requires_grad``, and a copy of ``.grad``.

    Raises RuntimeError for a tensor that was computed from others and requires a gradient.
    """
    from copy import deepcopy

    refuse_non_leaf(self, "deepcopy", "support the deepcopy protocol")
    made = registry.find("tk::clone").call(self.detach())
    made = memo[id(self)] = with_class(self.__class__, made)
    if self.__class__ is not Tensor:
        _attributes(made).update(deepcopy(_attributes(self), memo))
    if self._word & REQUIRES_GRAD:
        made.requires_grad_()
    if self.grad is not None:
        made.grad = deepcopy(self.grad.detach(), memo)
    return made


def buffer(self: Tensor, flags: int) -> memoryview:
    """Return the memory for ``memoryview(x)`` and ``bytes(x)``, from Python 3.12 on (before: ``x.numpy()``)."""
    return self._to_numpy("__buffer__").__buffer__(flags)  # type: ignore[attr-defined, unused-ignore, no-any-return]


add_methods(__reduce_ex__=_reduce_ex, __copy__=_copy, __deepcopy__=_deepcopy)
if sys.version_info >= (3, 12):
    add_methods(__buffer__=buffer)
