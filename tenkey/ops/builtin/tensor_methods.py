"""Methods of Tensor that are spelled otherwise than the operators they call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...core.device import CPU, Device, to_device
from ...core.dtypes import to_dtype
from ...core.tensor import Tensor
from ...core.word import tensor_dtype
from .copying import clone, to
from .copying import to_device as to_device_operator
from .nn import log_softmax, softmax
from .statistics import cumulative_prod, cumulative_sum
from .view import expand_dims, matrix_transpose, permute_dims, reshape

if TYPE_CHECKING:
    from ...core.typing import DTypeLike

_TO: Final = "[to] takes a device and a dtype, each once, got {given!r}: x.to('cpu'), x.to(tk.float64), or both."
_STREAM: Final = "[to_device] got stream={stream!r}: copies between devices are synchronous here, stream is None."


def _shape_of(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape


def _reshape(self: Tensor, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
    """The same elements under another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``. See ``tk.reshape``."""
    return reshape(self, _shape_of(shape), copy=copy)


def _permute(self: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """The dimensions in another order. See ``tk.permute_dims``."""
    return permute_dims(self, _shape_of(axes))


def _transposed(self: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """The dimensions in the order of ``axes``, all of them, as NumPy has it; without axes in reverse.

    It is no exchange of two dimensions: that is ``tk.swapaxes``.
    """
    return permute_dims(self, _shape_of(axes) if axes else tuple(range(self.ndim - 1, -1, -1)))


def _to(
    self: Tensor,
    *targets: DTypeLike | Device | Tensor | None,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
    copy: bool = False,
) -> Tensor:
    """The values on another device, in another dtype, or both; the tensor itself if nothing changes.

    A tensor as target stands for its device and dtype. With ``copy`` the result has memory of its own in any case.

    >>> import tenkey as tk
    >>> tk.asarray([1]).to(tk.float64).to("cpu").dtype
    dtype('float64')
    """
    if len(targets) == 1 and isinstance(targets[0], Tensor) and dtype is None and device is None:
        dtype, device, targets = targets[0].dtype, targets[0].device, ()
    for target in targets:
        if target is None:
            continue
        if isinstance(target, Tensor):
            raise TypeError(_TO.format(given=targets))
        if isinstance(target, Device) or (isinstance(target, str) and not _is_dtype(target)):
            if device is not None:
                raise TypeError(_TO.format(given=targets))
            device = target
        else:
            if dtype is not None:
                raise TypeError(_TO.format(given=targets))
            dtype = target
    try:
        wanted = None if dtype is None else tensor_dtype(dtype)
        place = None if device is None else to_device(device)
    except (TypeError, ValueError) as error:
        reason = str(error).removeprefix("[dtype] ").removeprefix("[device] ")
        raise type(error)(f"[to] {reason}") from None
    moved: Tensor = to(self, dtype=wanted, device=place)
    return clone(moved) if copy and moved is self else moved


def _is_dtype(text: str) -> bool:
    if text == "bfloat16":  # where it cannot be, the error says what to install
        return True
    try:
        to_dtype(text)
    except (TypeError, ValueError):
        return False
    return True


def _to_device(self: Tensor, device: Device | str, /, *, stream: Any = None) -> Tensor:
    """The values on another device; the tensor itself if it is there already.

    >>> import tenkey as tk
    >>> str(tk.asarray([1.0]).to_device("meta").device)
    'meta'
    """
    if stream is not None:
        raise ValueError(_STREAM.format(stream=stream))
    return to_device_operator(self, device)


def _cpu(self: Tensor) -> Tensor:
    """The values on the CPU."""
    return to(self, device=CPU)


def _transpose(self: Tensor) -> Tensor:
    """The transpose of a matrix."""
    if self.ndim != 2:
        raise ValueError(f"[T] is for two dimensions, got shape {self.shape}: use x.mT or tk.permute_dims.")
    return matrix_transpose(self)


def _flatten(self: Tensor) -> Tensor:
    """All elements in one dimension."""
    return reshape(self, (-1,))


def _unsqueeze(self: Tensor, axis: int) -> Tensor:
    """With a new dimension of length 1 at the place ``axis`` of the result. See ``tk.expand_dims``."""
    return expand_dims(self, axis)


def _cumsum(self: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The sums of all elements up to each along an axis, or in row-major order. See ``tk.cumulative_sum``."""
    return cumulative_sum(self if axis is not None else reshape(self, (-1,)), axis=axis, dtype=dtype)


def _cumprod(self: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The products of all elements up to each along an axis, or in row-major order. See ``tk.cumulative_prod``."""
    return cumulative_prod(self if axis is not None else reshape(self, (-1,)), axis=axis, dtype=dtype)


def _zero(self: Tensor) -> Tensor:
    """Fill with zeros, in place."""
    result: Tensor = self.copy_(0)
    return result


_methods: Final[dict[str, Any]] = {
    "reshape": _reshape,
    "permute": _permute,
    "transpose": _transposed,
    "unsqueeze": _unsqueeze,
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "to": _to,
    "to_device": _to_device,
    "cpu": _cpu,
    "flatten": _flatten,
    "zero_": _zero,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "T": property(_transpose, doc=_transpose.__doc__),
    "mT": property(matrix_transpose, doc="The last two dimensions exchanged."),
}
for _name, _method in _methods.items():
    setattr(Tensor, _name, _method)
