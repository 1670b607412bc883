"""PyTorch's methods of tensors that have another name or form here.

Most are declarations in ``numpy_names.py``: a name and the operator that it calls. Below are those with arguments of
their own. Note [PyTorch's keywords] says what keywords they accept.
Guarded by ``tests/interop/test_pytorch_methods.py``.
"""

from __future__ import annotations

import math
import operator as _operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core.device import to_device
from ..core.dtypes import names as dtypes
from ..core.storage import StridedArray
from ..core.tensor import Tensor, make_tensor, replaceable, storage_of
from ..core.word import DTYPE_MASK, DTYPE_TRAIT, INHERITED, REQUIRES_GRAD, tensor_dtype
from ..core.wrapper import Wrapper
from ..dispatch.calling.public import public_method
from ..dispatch.errors import shown
from ..functions.creation import tensor
from ..functions.splitting import split
from ..ops.builtin.creation import empty, full, ones, zeros
from ..ops.builtin.elementwise.limiting import clip
from ..ops.builtin.indexing.advanced_indexing import take
from ..ops.builtin.shape.copying import clone, to
from ..ops.builtin.shape.splitting import unstack
from ..ops.builtin.shape.views import broadcast_to, permute_dims, reshape
from ..ops.declare.methods import delay_methods
from .numpy_fallback import by_name, op
from .numpy_names import DTYPE_METHODS, INPLACE_METHODS, METHODS

if TYPE_CHECKING:
    from ..core.device import Device
    from ..core.typing import DTypeLike

__all__ = ["PYTORCH_METHODS"]


def _sizes(given: tuple[Any, ...]) -> Any:
    return given[0] if len(given) == 1 and not isinstance(given[0], (int, np.integer)) else given


# ---- shapes


def _view(self: Tensor, *shape: int | Sequence[int] | DTypeLike) -> Tensor:
    """Return a view in another shape, ``x.view(2, -1)``, or of the same memory as another dtype, ``x.view(tk.int32)``.

    Raises ValueError if the elements of the shape would have to be copied, as ``x.reshape`` does; a dtype of another
    size changes the length of the last dimension, whose elements must be neighbours.

    >>> x = tk.arange(6).view(2, -1)
    >>> x.shape, tk.asarray([1.0]).view(tk.int32).tolist()
    ((2, 3), [1065353216])
    """
    if len(shape) == 1 and not isinstance(shape[0], (int, np.integer, tuple, list, Tensor)):
        return _as_dtype(self, tensor_dtype(shape[0]))
    try:
        return reshape(self, _sizes(shape), copy=False)
    except ValueError as error:
        text = str(error).replace("[reshape] copy=False, but a", "[view] a").replace("[reshape]", "[view]")
        more = " Use x.reshape(...)." if "[view] a" in text else ""
        raise ValueError(f"{text}{more}") from None


def _as_dtype(x: Tensor, dtype: np.dtype) -> Tensor:
    """Return a tensor on the same memory whose elements have another dtype."""
    if dtype == x.dtype:
        return reshape(x, x.shape)
    if isinstance(x, Wrapper) or x._word & REQUIRES_GRAD:
        reason = "inside a transform" if isinstance(x, Wrapper) else "that requires a gradient"
        raise RuntimeError(
            f"[view] a tensor {reason} cannot be read as {dtype}, which has no derivative: detach() it, or convert its "
            "values with x.to(dtype)."
        )
    old, new, data = x.dtype.itemsize, dtype.itemsize, x._data
    if old != new and (not x.ndim or data.strides[-1] != old or x.shape[-1] * old % new):
        raise ValueError(
            f"[view] {x.dtype} and {dtype} have different sizes, so the last dimension must hold neighbours that make "
            f"up whole elements, got shape {x.shape} and strides {x.strides}: use x.contiguous(), or x.to(dtype)."
        )
    if any(step % new for step in data.strides[: -1 if old != new else None]):
        raise ValueError(f"[view] strides {x.strides} of {x.dtype} are not multiples of {dtype}: use x.contiguous().")
    made_data: Any
    if data.__class__ is np.ndarray:
        made_data = data.view(dtype)
    else:
        shape = x.shape if old == new else (*x.shape[:-1], x.shape[-1] * old // new)
        strides = data.strides if old == new else (*data.strides[:-1], new)
        made_data = StridedArray(data.buffer, shape, dtype, data.device, strides, data.offset, data.owner)
    made = make_tensor(made_data, (x._word & INHERITED & ~DTYPE_MASK) | DTYPE_TRAIT[dtype])
    made._storage = storage_of(x)
    return made


def _view_as(self: Tensor, other: Tensor) -> Tensor:
    """Return a view in the shape of another tensor."""
    return _view(self, other.shape)


def _reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the elements in the shape of another tensor."""
    return reshape(self, other.shape)


def _expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Broadcast to the shape of another tensor."""
    return broadcast_to(self, other.shape)


@public_method
def _flatten(self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return the elements with the dimensions from ``start_dim`` to ``end_dim`` as one.

    >>> tk.ones((2, 3, 4)).flatten().shape, tk.ones((2, 3, 4)).flatten(1).shape
    ((24,), (2, 12))
    """
    if start_dim == 0 and end_dim == -1:
        return reshape(self, (-1,))
    start, end = _place("flatten", self, start_dim), _place("flatten", self, end_dim)
    if start > end:
        raise ValueError(f"[flatten] start_dim={start_dim} comes after end_dim={end_dim}: exchange them.")
    length = math.prod(self.shape[start : end + 1])
    return reshape(self, (*self.shape[:start], length, *self.shape[end + 1 :]))


def _place(name: str, x: Tensor, axis: int) -> int:
    """Return a place among the dimensions, counted from the front."""
    try:
        place = _operator.index(axis)
    except TypeError:
        raise TypeError(f"[{name}] a dimension is an int, got {shown(axis)}.") from None
    ndim = max(x.ndim, 1)
    if not -ndim <= place < ndim:
        raise IndexError(f"[{name}] dimension {place} is out of range for shape {x.shape}.")
    return place % ndim


def _t(self: Tensor) -> Tensor:
    """Return the transpose of a matrix, and tensors of fewer dimensions as they are."""
    if self.ndim > 2:
        raise ValueError(f"[t] takes at most two dimensions, got shape {self.shape}: use x.mT or x.transpose(...).")
    return permute_dims(self, (1, 0)) if self.ndim == 2 else reshape(self, self.shape)


def _contiguous(self: Tensor) -> Tensor:
    """Return the tensor itself if its elements are in row-major order without gaps, otherwise a copy that is."""
    return self if self.is_contiguous else clone(self)


@public_method
def _split(self: Tensor, split_size: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Return views of pieces of the length ``split_size``, of which the last may be shorter, or of several lengths.

    ``tk.split``, as NumPy's, takes the number of pieces instead, or the indices to split at.

    >>> [t.tolist() for t in tk.arange(5).split(2)], [t.tolist() for t in tk.arange(5).split([1, 4])]
    ([[0, 1], [2, 3], [4]], [[0], [1, 2, 3, 4]])
    """
    place = _place("split", self, axis)
    length = self.shape[place] if self.ndim else 0
    if not self.ndim:
        raise ValueError("[split] a 0-d tensor has no pieces: use x.reshape(1).")
    if isinstance(split_size, (int, np.integer)):
        if split_size <= 0:
            raise ValueError(f"[split] the length of the pieces must be positive, got {split_size}.")
        return split(self, tuple(range(int(split_size), length, int(split_size))), place)
    sizes = [_operator.index(size) for size in split_size]
    if sum(sizes) != length or min(sizes, default=0) < 0:
        raise ValueError(f"[split] the lengths {sizes} do not add up to the length {length} of dimension {place}.")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return split(self, tuple(ends[:-1]), place)


@public_method
def _chunk(self: Tensor, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """Return views of at most ``chunks`` pieces of equal length, of which the last may be shorter.

    >>> [t.tolist() for t in tk.arange(5).chunk(3)]
    [[0, 1], [2, 3], [4]]
    """
    place = _place("chunk", self, axis)
    number = _operator.index(chunks)
    if number <= 0 or not self.ndim:
        raise ValueError(f"[chunk] takes a positive number of pieces of a tensor with dimensions, got {chunks}.")
    result: tuple[Tensor, ...] = _split(self, max(-(-self.shape[place] // number), 1), place)
    return result


@public_method
def _narrow(self: Tensor, axis: int, start: int, length: int) -> Tensor:
    """Return the view of ``length`` elements of a dimension that begins at ``start``."""
    place = _place("narrow", self, axis)
    size = self.shape[place] if self.ndim else 0
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise IndexError(f"[narrow] start={start}, length={length} do not fit into the length {size}.")
    return self[(slice(None),) * place + (slice(first, first + length),)]


@public_method
def _select(self: Tensor, axis: int, index: int) -> Tensor:
    """Return the view at one index of a dimension, without this dimension."""
    return self[(slice(None),) * _place("select", self, axis) + (index,)]


@public_method
def _unbind(self: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the views at all indices of a dimension. See ``tk.unstack``."""
    return unstack(self, axis=_place("unbind", self, axis))  # type: ignore[return-value]


@public_method
def _index_select(self: Tensor, axis: int, indices: Tensor) -> Tensor:
    """Return the elements at the 1-d ``indices`` of a dimension. See ``tk.take``, which takes the axis last."""
    return take(self, indices, axis=axis)


# ---- dtypes and devices


def _converter(dtype: str) -> Callable[[Tensor], Tensor]:
    def convert(self: Tensor) -> Tensor:
        return to(self, dtype=getattr(dtypes, dtype))

    convert.__doc__ = f"Convert to {dtype}; return the tensor itself if it has this dtype."
    return convert


def _cuda(self: Tensor, index: int | None = None, *, non_blocking: bool = False) -> Tensor:
    """Move the tensor to the device 'cuda', or cuda:index; return itself if it is there already."""
    return to(self, device=to_device("cuda" if index is None else f"cuda:{index}"), non_blocking=non_blocking)


def _is_cuda(self: Tensor) -> bool:
    """Whether the tensor is on a device 'cuda'."""
    return self.device.type == "cuda"


def _type(self: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Convert to a dtype."""
    if dtype is None:
        raise TypeError("[type] takes a dtype: the dtype of the tensor is x.dtype.")
    return to(self, dtype=tensor_dtype(dtype))


def _type_as(self: Tensor, other: Tensor) -> Tensor:
    """Convert to the dtype and the device of another tensor."""
    return to(self, dtype=other.dtype, device=other.device)


def _new_tensor(
    self: Tensor, data: Any, *, dtype: DTypeLike | None = None, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return ``data`` as a tensor of the same dtype and device, unless these are given."""
    return tensor(data, **_like(self, dtype, device), requires_grad=requires_grad)


def _like(x: Tensor, dtype: Any, device: Any) -> dict[str, Any]:
    return {"dtype": x.dtype if dtype is None else dtype, "device": x.device if device is None else device}


def _maker(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def new(
        self: Tensor, *shape: int | Sequence[int], dtype: DTypeLike | None = None, device: Device | str | None = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        return function(_sizes(shape), **_like(self, dtype, device)).requires_grad_(requires_grad)

    new.__doc__ = f"Return ``tk.{name}(shape)`` with the same dtype and device, unless these are given."
    return new


def _new_full(
    self: Tensor, shape: int | Sequence[int], fill_value: Any, *, dtype: DTypeLike | None = None,
    device: Device | str | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return ``tk.full(shape, fill_value)`` with the same dtype and device, unless these are given."""
    return full(shape, fill_value, **_like(self, dtype, device)).requires_grad_(requires_grad)


# ---- questions


def _nelement(self: Tensor) -> int:
    """Return the number of elements, ``x.size``."""
    return int(self._data.size)


def _element_size(self: Tensor) -> int:
    """Return the bytes of one element, ``x.itemsize``."""
    return self.itemsize


def _stride(self: Tensor, axis: int | None = None) -> Any:
    """Return the strides in elements, ``x.strides``, or that of one dimension."""
    return self.strides if axis is None else self.strides[_place("stride", self, axis)]


def _is_floating_point(self: Tensor) -> bool:
    """Return whether the dtype is a real floating-point dtype."""
    return self.dtype.kind in "fV"


def _is_complex(self: Tensor) -> bool:
    """Return whether the dtype is complex."""
    return self.dtype.kind == "c"


def _data_ptr(self: Tensor) -> int:
    """Return the address of the first element in the memory of its device."""
    data = self._data
    if data.__class__ is np.ndarray:
        return int(data.ctypes.data)
    address = storage_of(self).data_pointer
    if address is None:
        raise RuntimeError(f"[data_ptr] memory on the device {str(self.device)!r} has no address.")
    return address + int(data.offset)


# ---- values


def _unary(name: str, doc: str) -> Callable[[Tensor], Tensor]:
    """Return the method that calls an operator of one tensor, which is declared on first use."""

    def method(self: Tensor) -> Tensor:
        return op(name)(self)  # type: ignore[no-any-return]

    method.__doc__ = f"{doc} See ``tk.{name.replace('_', '.', 1)}``."
    return method


def _pinverse(self: Tensor, rtol: Any = None) -> Tensor:
    """Return the pseudo-inverse of matrices. See ``tk.linalg.pinv``."""
    return op("linalg_pinv")(self, rtol=rtol)  # type: ignore[no-any-return]


def _matrix_power(self: Tensor, n: int) -> Tensor:
    """Return a power of square matrices. See ``tk.linalg.matrix_power``."""
    return op("linalg_matrix_power")(self, n)  # type: ignore[no-any-return]


def _xlogy(self: Tensor, other: Any) -> Tensor:
    """Return ``x * log(other)``, which is 0 where ``x`` is. See ``tk.special.xlogy``."""
    return op("special_xlogy")(self, other)  # type: ignore[no-any-return]


@public_method
def _norm(
    self: Tensor, ord: Any = 2, axis: int | Sequence[int] | None = None, keepdims: bool = False, dtype: Any = None
) -> Tensor:
    """Return the norm of all elements, or along axes. See ``tk.linalg.vector_norm``.

    >>> tk.asarray([[3.0, 0.0], [0.0, 4.0]]).norm().item(), tk.asarray([[3.0, 4.0]]).norm(1, dim=1).tolist()
    (5.0, [7.0])
    """
    if ord == "fro" or ord is None:
        ord = 2
    if isinstance(ord, str):
        raise ValueError(f"[norm] ord is a number or 'fro', got {ord!r}: see tk.linalg.norm and tk.linalg.matrix_norm.")
    x = self if dtype is None else to(self, dtype=tensor_dtype(dtype))
    return op("linalg_vector_norm")(x, axis=axis, keepdims=keepdims, ord=float(ord))  # type: ignore[no-any-return]


@public_method
def _bincount(self: Tensor, weights: Any = None, minlength: int = 0) -> Tensor:
    """Return how often each integer occurs, or the sums of its weights. See ``tk.bincount``."""
    return op("bincount")(self, weights, minlength)  # type: ignore[no-any-return]


def _clamp_min(self: Tensor, min: Any) -> Tensor:
    """Raise elements below ``min`` to it."""
    return clip(self, min)


def _clamp_max(self: Tensor, max: Any) -> Tensor:
    """Lower elements above ``max`` to it."""
    return clip(self, None, max)


def _lerp(self: Tensor, end: Tensor, weight: Any) -> Tensor:
    """Return ``x + weight * (end - x)``."""
    made: Tensor = self + weight * (end - self)
    return made


def _detach_(self: Tensor) -> Tensor:
    """Make the tensor a leaf that requires no gradient, and return it; views cannot be detached in place."""
    if self._autograd is not None and self._storage is not None and isinstance(self._storage, Tensor):
        raise RuntimeError("[detach_] a view cannot be detached in place: use detach().")
    self._word &= ~REQUIRES_GRAD
    self._autograd = None
    return self


def _in_place(name: str) -> Callable[..., Tensor]:
    def change(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        made: Tensor = self.copy_(getattr(Tensor, name[:-1])(self, *args, **kwargs))
        return made

    change.__doc__ = f"Write the result of ``x.{name[:-1]}(...)`` into the tensor, which is returned."
    return change


_UNARY: Final = {
    "argwhere": _unary("argwhere", "Return the indices of the nonzero elements, one element per row; int64."),
    "det": _unary("linalg_det", "Return the determinant of square matrices."),
    "digamma": _unary("special_digamma", "Return the logarithmic derivative of the gamma function."),
    "erf": _unary("special_erf", "Return the error function of each element."),
    "erfc": _unary("special_erfc", "Return the complementary error function of each element."),
    "erfinv": _unary("special_erfinv", "Return the inverse of the error function of each element."),
    "inverse": _unary("linalg_inv", "Return the inverse of square matrices."),
    "lgamma": _unary("special_gammaln", "Return the logarithm of the absolute value of the gamma function."),
    "matrix_exp": _unary("linalg_matrix_exp", "Return the exponential of square matrices."),
}  # fmt: skip
_WRITTEN: Final[dict[str, Any]] = {
    **by_name(
        _view, _view_as, _reshape_as, _expand_as, _flatten, _t, _contiguous, _split, _chunk, _narrow, _select,
        _index_select, _unbind, _cuda, _type, _type_as, _new_tensor, _bincount, _new_full, _nelement, _element_size,
        _stride, _is_floating_point, _is_complex, _data_ptr, _norm, _pinverse, _matrix_power, _xlogy, _clamp_min,
        _clamp_max, _lerp, _detach_,
    ),
    "new_zeros": _maker("zeros", zeros), "new_ones": _maker("ones", ones), "new_empty": _maker("empty", empty),
    **_UNARY, **{name: _converter(dtype) for name, dtype in DTYPE_METHODS.items()},
}  # fmt: skip


def _add_methods() -> tuple[str, ...]:
    delay_methods(METHODS)
    for name, function in _WRITTEN.items():
        _name(name, function)
    setattr(Tensor, "is_cuda", property(_is_cuda, doc=_is_cuda.__doc__))  # noqa: B010
    replaceable.update(["cuda", "is_cuda"])  # by those of the backend when it is loaded
    known = {*dir(Tensor)}
    in_place = [name for name in INPLACE_METHODS if name not in known]
    for name in in_place:
        _name(name, _in_place(name))
    return (*METHODS, *_WRITTEN, *in_place)


def _name(name: str, function: Callable[..., Any]) -> None:
    function.__name__, function.__qualname__ = name, f"Tensor.{name}"  # with which Python's own errors begin
    setattr(Tensor, name, function)


PYTORCH_METHODS: Final = _add_methods()
"""The names of the methods that this module adds to Tensor."""
