"""Differentiable communication between the devices of one process: broadcast, sum, scatter, gather.

Each of the four is a :class:`Function` whose backward uses the others, so derivatives of every order exist: the
gradient of a broadcast is a sum, and that of a scatter is a gather. ``Broadcast``, ``ReduceAdd``, ``Scatter`` and
``Gather`` take their arguments in the order of PyTorch's Functions for parallel modules; the lower-case functions have
a more convenient signature. The node of such a call belongs to the device of its first result, and gradients arrive
there from all devices (Note [Device workers]).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

from ..core.device import Device, to_device
from ..core.tensor import Tensor
from ..ops.builtin.shape.copying import concatenate
from ..ops.builtin.shape.views import reshape
from ..ops.shapes import checked_axis
from .function.function import Function

__all__ = ["Broadcast", "Gather", "ReduceAdd", "Scatter", "broadcast", "gather", "reduce_add", "scatter"]


def _moved(x: Tensor, device: Device) -> Tensor:
    """Return a copy on a device."""
    return x.clone() if x.device is device else x.to(device)


class Broadcast(Function):
    """Copy tensors: ``Broadcast.apply(devices, *tensors)`` returns all copies on the first device, then the second, ...

    >>> made = tk.autograd.communication.Broadcast.apply(["cpu", "cpu"], tk.ones(2), tk.zeros(3))
    >>> [x.shape for x in made]
    [(2,), (3,), (2,), (3,)]
    """

    @staticmethod
    def forward(ctx: Any, devices: Sequence[Any], *tensors: Tensor) -> Any:
        """Return the copies, device by device."""
        places = _devices("broadcast", devices)
        _tensors("broadcast", tensors)
        ctx.set_materialize_grads(False)
        ctx.sources = [x.device for x in tensors]
        return tuple([_moved(x, device) for device in places for x in tensors])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the sum of each tensor's gradients, on its device."""
        count = len(ctx.sources)
        sums: list[Tensor | None] = []
        for i, device in enumerate(ctx.sources):
            given = [g for g in grads[i::count] if g is not None]
            sums.append(ReduceAdd.apply(device, *given) if given else None)
        return None, *sums


class ReduceAdd(Function):
    """Sum tensors of one shape on a device: ``ReduceAdd.apply(destination, *tensors)``.

    >>> tk.autograd.communication.ReduceAdd.apply("cpu", tk.ones(2), tk.ones(2)).tolist()
    [2.0, 2.0]
    """

    @staticmethod
    def forward(ctx: Any, destination: Any, *tensors: Tensor) -> Any:
        """Return the sum, in the order of the arguments."""
        first = _tensors("reduce_add", tensors)[0]
        for index, x in enumerate(tensors):
            if (x.shape, x.dtype) != (first.shape, first.dtype):
                raise ValueError(
                    f"[reduce_add] tensors to be summed must have one shape and dtype: number {index} "
                    f"has {(x.shape, str(x.dtype))}, the first {(first.shape, str(first.dtype))}."
                )
        ctx.sources = [x.device for x in tensors]
        device = to_device(destination)
        total = _moved(first, device)
        for x in tensors[1:]:
            total = total + x.to(device)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradient on the device of each tensor."""
        return None, *Broadcast.apply(ctx.sources, grads[0])


class Scatter(Function):
    """Split a tensor along an axis, one part per device: ``Scatter.apply(devices, chunk_sizes, axis, tensor)``.

    Without sizes (None) the parts have equal lengths, but the last may be shorter; a short tensor has fewer parts.

    >>> made = tk.autograd.communication.Scatter.apply(["cpu", "cpu"], [1, 2], 0, tk.arange(3))
    >>> [x.tolist() for x in made]
    [[0], [1, 2]]
    """

    @staticmethod
    def forward(ctx: Any, devices: Sequence[Any], chunk_sizes: Sequence[int] | None, axis: int, tensor: Tensor) -> Any:
        """Return the parts."""
        _single("scatter", tensor)
        places = _devices("scatter", devices)
        axis = checked_axis("scatter", axis, tensor.ndim)
        ctx.axis, ctx.source = axis, tensor.device
        parts = []
        start = 0
        for device, size in zip(places, _sizes(tensor, places, chunk_sizes, axis)):
            window = (slice(None),) * axis + (slice(start, start + size),)
            parts.append(_moved(tensor[window], device))
            start += size
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients of the parts, joined."""
        return None, None, None, Gather.apply(ctx.source, ctx.axis, *grads)


class Gather(Function):
    """Join tensors along an axis on a device: ``Gather.apply(destination, axis, *tensors)``; 0-d ones give a vector.

    >>> tk.autograd.communication.Gather.apply("cpu", 0, tk.ones(1), tk.zeros(2)).tolist()
    [1.0, 0.0, 0.0]
    """

    @staticmethod
    def forward(ctx: Any, destination: Any, axis: int, *tensors: Tensor) -> Any:
        """Return the joined tensor."""
        first = _tensors("gather", tensors)[0]
        axis = checked_axis("gather", axis, max(first.ndim, 1))
        for index, x in enumerate(tensors):
            if x.ndim != first.ndim or any(a != b for i, (a, b) in enumerate(zip(x.shape, first.shape)) if i != axis):
                raise ValueError(
                    f"[gather] tensors to be joined must agree in all dimensions but axis {axis}: number {index} has "
                    f"shape {x.shape}, the first {first.shape}."
                )
        ctx.axis = axis
        ctx.sources = [x.device for x in tensors]
        ctx.numbers = not first.ndim
        ctx.sizes = [1 if ctx.numbers else x.shape[axis] for x in tensors]
        device = to_device(destination)
        moved = [x.to(device) for x in tensors]
        return concatenate([reshape(x, (1,)) for x in moved] if ctx.numbers else moved, axis=axis)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the parts of the gradient, on the devices of the tensors."""
        parts = Scatter.apply(ctx.sources, ctx.sizes, ctx.axis, grads[0])
        return None, None, *([reshape(part, ()) for part in parts] if ctx.numbers else parts)


def _sizes(x: Tensor, devices: Sequence[Any], sizes: Any, axis: int) -> list[int]:
    length = x.shape[axis]
    if sizes is not None:
        try:
            listed = [operator.index(n) for n in sizes]
        except TypeError:
            raise TypeError(
                f"[scatter] chunk_sizes must be a sequence of integers, one per device, got {sizes!r}: leave it "
                "out for equal parts."
            ) from None
        if len(listed) != len(devices) or sum(listed) != length or any(n < 0 for n in listed):
            raise ValueError(
                f"[scatter] chunk_sizes {listed} do not add up to the length {length} of axis {axis} "
                f"for {len(devices)} devices."
            )
        return listed
    each = -(-length // len(devices)) or 1
    return [min(each, length - start) for start in range(0, length, each)] or [0]


def _devices(call: str, devices: Any) -> list[Device]:
    if isinstance(devices, (str, Device)):
        devices = [devices]
    elif not isinstance(devices, Iterable):
        raise TypeError(f"[{call}] devices must be a device or a sequence of devices, got {type(devices).__name__}.")
    found = [to_device(device) for device in devices]
    if not found:
        raise ValueError(f"[{call}] expects at least one device.")
    return found


def _tensors(call: str, tensors: Any) -> list[Tensor]:
    listed = list(tensors) if isinstance(tensors, Iterable) and not isinstance(tensors, Tensor) else [tensors]
    for x in listed:
        if not isinstance(x, Tensor):
            raise TypeError(f"[{call}] expects tensors, got {type(x).__name__}.")
    if not listed:
        raise ValueError(f"[{call}] expects at least one tensor, got none.")
    return listed


def _single(call: str, tensor: Any) -> Tensor:
    listed = _tensors(call, tensor)
    if len(listed) != 1:
        raise ValueError(f"[{call}] expects one tensor, got {len(listed)}: call it once for each.")
    return listed[0]


def broadcast(tensor: Tensor, devices: Sequence[Any]) -> tuple[Tensor, ...]:
    """Copy a tensor to each of the devices; backward sums the gradients.

    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> a, b = tk.autograd.communication.broadcast(x, ["cpu", "cpu"])
    >>> (a + 2 * b).sum().backward()
    >>> x.grad.tolist()
    [3.0, 3.0]
    """
    return Broadcast.apply(devices, _single("broadcast", tensor))  # type: ignore[no-any-return]


def reduce_add(tensors: Sequence[Tensor], destination: Any = None) -> Tensor:
    """Sum tensors of one shape and dtype on a device, by default that of the first tensor.

    >>> tk.autograd.communication.reduce_add([tk.ones(2), tk.ones(2)]).tolist()
    [2.0, 2.0]
    """
    listed = _tensors("reduce_add", tensors)
    device = listed[0].device if destination is None else to_device(destination)
    return ReduceAdd.apply(device, *listed)  # type: ignore[no-any-return]


def scatter(
    tensor: Tensor, devices: Sequence[Any], chunk_sizes: Sequence[int] | None = None, axis: int = 0
) -> tuple[Tensor, ...]:
    """Split a tensor along an axis, one part per device; backward joins the gradients.

    Without ``chunk_sizes`` the parts have equal lengths, but the last may be shorter.

    >>> [part.tolist() for part in tk.autograd.communication.scatter(tk.arange(5), ["cpu", "cpu"])]
    [[0, 1, 2], [3, 4]]
    """
    return Scatter.apply(devices, chunk_sizes, axis, _single("scatter", tensor))  # type: ignore[no-any-return]


def gather(tensors: Sequence[Tensor], axis: int = 0, destination: Any = None) -> Tensor:
    """Join tensors along an axis on a device, by default that of the first tensor. 0-d tensors give a vector.

    >>> tk.autograd.communication.gather([tk.zeros(2), tk.ones(1)]).tolist()
    [0.0, 0.0, 1.0]
    """
    listed = _tensors("gather", tensors)
    device = listed[0].device if destination is None else to_device(destination)
    return Gather.apply(device, axis, *listed)  # type: ignore[no-any-return]
