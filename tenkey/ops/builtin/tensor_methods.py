"""Methods of Tensor whose names or signatures differ from those of the operators they call."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

import numpy as np

from ...core.device import CPU, Device, to_device
from ...core.dtypes.names import float64, to_dtype
from ...core.plans import transposed
from ...core.tensor import Tensor
from ...core.word import tensor_dtype
from ...dispatch.calling.public import public_method
from ...dispatch.errors import shown
from ..declare.declaration import Entry, operator_of
from ..declare.methods import delay_methods, method_of
from .creation import zeros_like
from .elementwise.comparison import isfinite, isinf, isnan, logical_not
from .elementwise.complex import imag, real_part
from .elementwise.limiting import clip
from .elementwise.rounding import round as round_elements
from .indexing.selection import nonzero_rows
from .linalg.diagonals import trace
from .reductions.cumulative import cumulative_prod, cumulative_sum
from .shape.copying import clone, flip, to
from .shape.copying import to_device as to_device_operator
from .shape.manipulation import tile
from .shape.splitting import diagonal
from .shape.views import broadcast_to, expand_dims, matrix_transpose, permute_dims, reshape

if TYPE_CHECKING:
    from ...core.typing import DTypeLike

_TO: Final = "[to] takes a device and a dtype, each once, got {given}: x.to('cpu'), x.to(tk.float64), or both."


def _shape_of(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape


def _reshape(self: Tensor, *shape: int | Sequence[int], copy: bool | None = None) -> Tensor:
    """Return the elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``. See ``tk.reshape``."""
    return reshape(self, _shape_of(shape), copy=copy)


def _permute(self: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """Return a view with the dimensions in another order. See ``tk.permute_dims``."""
    return permute_dims(self, _shape_of(axes))


def _transposed(self: Tensor, *axes: int | Sequence[int]) -> Tensor:
    """Return a view with all dimensions in the order of ``axes``, as in NumPy; without axes, in reverse.

    To exchange two dimensions use ``tk.swapaxes``.
    """
    return permute_dims(self, _shape_of(axes) if axes else tuple(range(self.ndim - 1, -1, -1)))


def _to(
    self: Tensor,
    *targets: DTypeLike | Device | Tensor | None,
    dtype: DTypeLike | None = None,
    device: Device | str | None = None,
    copy: bool = False,
    non_blocking: bool = False,
) -> Tensor:
    """Convert to another device, another dtype, or both; return the tensor itself if nothing changes.

    A tensor as target stands for its device and dtype. With ``copy`` the result always has its own memory. With
    ``non_blocking`` the call does not wait for a copy between a GPU and pinned memory of the host: a copy of a tensor
    that is pinned (``x.pin_memory()``) reads it later, and a copy to the CPU, which is pinned, is filled later, so
    synchronize before you change the one or read the other. Raises TypeError if a device or a dtype is given twice.

    >>> tk.asarray([1]).to(tk.float64).to("cpu").dtype
    dtype('float64')
    """
    if len(targets) == 1 and isinstance(targets[0], Tensor) and dtype is None and device is None:
        dtype, device, targets = targets[0].dtype, targets[0].device, ()
    for target in targets:
        if target is None:
            continue
        if isinstance(target, Tensor):
            raise TypeError(_TO.format(given=shown(targets)))
        if isinstance(target, Device) or (isinstance(target, str) and not _is_dtype(target)):
            if device is not None:
                raise TypeError(_TO.format(given=shown(targets)))
            device = target
        else:
            if dtype is not None:
                raise TypeError(_TO.format(given=shown(targets)))
            dtype = target
    try:
        wanted = None if dtype is None else tensor_dtype(dtype)
        place = None if device is None else to_device(device)
    except (TypeError, ValueError) as error:
        reason = str(error).removeprefix("[dtype] ").removeprefix("[device] ")
        raise type(error)(f"[to] {reason}") from None
    moved = to(self, dtype=wanted, device=place, non_blocking=non_blocking)
    return clone(moved) if copy and moved is self else moved


def _is_dtype(text: str) -> bool:
    if text == "bfloat16":  # if it is not available, the error says what to install
        return True
    try:
        to_dtype(text)
    except (TypeError, ValueError):
        return False
    return True


def _to_device(self: Tensor, device: Device | str, /, *, stream: Any = None) -> Tensor:
    """Return the values on another device; the tensor itself if it is there already.

    >>> str(tk.asarray([1.0]).to_device("meta").device)
    'meta'
    """
    if stream is not None:
        raise ValueError(
            f"[to_device] got stream={stream!r}: copies between devices are synchronous, so stream must be None."
        )
    return to_device_operator(self, device)


def _builtin_round(self: Tensor, digits: SupportsIndex | None = None, /) -> Any:
    """Round as ``round(x)`` does: a single number to an int, as for a float; otherwise return a tensor.

    >>> import builtins, tenkey as tk
    >>> builtins.round(tk.asarray(2.6)), builtins.round(tk.asarray([2.345, 17.0]), -1).tolist()
    (3, [0.0, 20.0])
    """
    if digits is None:
        return round_elements(self) if self.ndim else builtins.round(self._real_item("round"))
    places = operator.index(digits)
    scale = 10.0 ** builtins.abs(places)
    if self.dtype.kind in "iu":
        if places >= 0:
            return clone(self)
        return to(round_elements(to(self, dtype=float64) / scale) * scale, dtype=self.dtype)
    return round_elements(self * scale) / scale if places > 0 else round_elements(self / scale) * scale


def _divmod(self: Tensor, other: Any, /) -> Any:
    """Return the pair ``(x // y, x % y)``."""
    quotient: Any = self.__floordiv__(other)
    return NotImplemented if quotient is NotImplemented else (quotient, self.__mod__(other))


def _rdivmod(self: Tensor, other: Any, /) -> Any:
    """Return the pair ``(y // x, y % x)``."""
    quotient: Any = self.__rfloordiv__(other)
    return NotImplemented if quotient is NotImplemented else (quotient, self.__rmod__(other))


def _cpu(self: Tensor) -> Tensor:
    """Return the values on the CPU."""
    return to(self, device=CPU)


def _transpose(self: Tensor) -> Tensor:
    """The transpose of a matrix; of other ranks a view with the dimensions in reverse order, as in NumPy.

    The array API standard defines ``T`` for two dimensions and asks for an error otherwise, so portable programs use
    ``mT``, which exchanges the last two, or ``permute_dims``.

    >>> tk.zeros((2, 3, 4)).T.shape, tk.zeros((2, 3, 4)).mT.shape
    ((4, 3, 2), (2, 4, 3))
    """
    return permute_dims(self, tuple(range(len(self.shape) - 1, -1, -1)))


def _matrix_transpose(self: Tensor) -> Tensor:
    """The transpose of the last two dimensions."""
    if self.ndim < 2:
        remedy = "use x[:, None] for a column" if self.ndim else "use the tensor itself"
        raise ValueError(f"[mT] needs at least two dimensions, got shape {self.shape}: {remedy}.")
    return matrix_transpose(self)


@public_method
def _unsqueeze(self: Tensor, axis: int) -> Tensor:
    """Insert a dimension of length 1 at place ``axis`` of the result. See ``tk.expand_dims``."""
    return expand_dims(self, axis)


@public_method
def _cumsum(self: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Return the cumulative sums along an axis, or in row-major order. See ``tk.cumulative_sum``."""
    return cumulative_sum(self if axis is not None else reshape(self, (-1,)), axis=axis, dtype=dtype)


@public_method
def _cumprod(self: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Return the cumulative products along an axis, or in row-major order. See ``tk.cumulative_prod``."""
    return cumulative_prod(self if axis is not None else reshape(self, (-1,)), axis=axis, dtype=dtype)


def _fill(self: Tensor, value: Tensor | complex) -> Tensor:
    """Fill with one value, in place."""
    return self.copy_(value)


@public_method
def _flip(self: Tensor, *axes: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Reverse the elements along axes, ``x.flip(0, 1)`` or ``x.flip(axis=(0, 1))``; without axes, along all."""
    if axes and axis is not None:
        raise TypeError(f"[flip] got the axes {axes} and axis={axis!r}: give the axes once.")
    return flip(self, axis=_shape_of(axes) if axes else axis)


def _expand(self: Tensor, *shape: int | Sequence[int]) -> Tensor:
    """Broadcast to a shape, in which -1 keeps a length: ``x.expand(2, -1)`` or ``x.expand((2, -1))``.

    See ``tk.broadcast_to``.

    >>> tk.ones((3, 1)).expand(2, -1, 4).shape
    (2, 3, 4)
    """
    wanted = _shape_of(shape)
    if -1 in wanted:
        added = len(wanted) - self.ndim
        if -1 in wanted[: max(added, 0)]:
            raise ValueError(
                f"[expand] got {tuple(wanted)} for shape {self.shape}: -1 keeps a length, but a new dimension has "
                "none. Give its length."
            )
        wanted = tuple([self.shape[d - added] if n == -1 else n for d, n in enumerate(wanted)])
    return broadcast_to(self, wanted)


def _nonzero(self: Tensor) -> tuple[Tensor, ...]:
    """Return the indices of the nonzero elements. See ``tk.nonzero``."""
    if not self.ndim:
        raise ValueError("[nonzero] a 0-d tensor has no dimensions to index: use x.reshape(1).")
    rows = nonzero_rows(self)
    return tuple([rows[k] for k in range(self.ndim)])


def _numel(self: Tensor) -> int:
    """Return the number of elements, ``x.size``."""
    return int(self._data.size)


def _dim(self: Tensor) -> int:
    """Return the number of dimensions, ``x.ndim``."""
    return self.ndim


def _real(self: Tensor) -> Tensor:
    """The real part: the tensor itself unless it is complex. See ``tk.real``."""
    return real_part(self)


def _imag(self: Tensor) -> Tensor:
    """The imaginary part: zeros unless the tensor is complex. See ``tk.imag``."""
    return imag(self) if self.dtype.kind == "c" else zeros_like(self)


def _zero(self: Tensor) -> Tensor:
    """Fill with zeros, in place."""
    return self.copy_(0)


_methods: dict[str, Any] = {
    "reshape": _reshape, "permute": _permute, "transpose": _transposed, "unsqueeze": _unsqueeze, "cumsum": _cumsum,
    "cumprod": _cumprod, "to": _to, "to_device": _to_device, "cpu": _cpu, "__divmod__": _divmod,
    "__round__": _builtin_round, "__rdivmod__": _rdivmod, "zero_": _zero, "fill_": _fill,
    "flip": _flip, "expand": _expand, "nonzero": _nonzero, "numel": _numel, "dim": _dim,
    "real": property(_real), "imag": property(_imag), "T": transposed(operator_of(permute_dims), _transpose),
    "mT": property(_matrix_transpose),
}  # fmt: skip
_operators: Final[dict[str, Entry]] = {
    "clamp": clip, "isnan": isnan, "isinf": isinf, "isfinite": isfinite, "logical_not": logical_not,
    "diagonal": diagonal, "trace": trace, "tile": tile,
}  # fmt: skip
_methods |= {name: method_of(operator_of(entry), name) for name, entry in _operators.items()}
for _name, _method in _methods.items():
    if _name not in _operators and not isinstance(_method, property):
        _method.__name__, _method.__qualname__ = _name, f"Tensor.{_name}"  # with which Python's own errors begin
    setattr(Tensor, _name, _method)
delay_methods({name: name for name in ("argpartition", "log_softmax", "softmax")})
