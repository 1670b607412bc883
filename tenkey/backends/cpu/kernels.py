"""Hand-written CPU kernels on NumPy: products, copies, gathers, creation, random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import dtypes, philox
from ...core.device import Device
from ...core.promotion import result_dtype
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import DTYPE_MASK, INHERITED, dtypes_of
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...ops.builtin.inplace import check_put
from .errors import QUIET, ignore, restore

__all__ = ["KERNELS", "SPECIALIZED"]

KERNELS: dict[str, Callable[..., Any]] = {}
Kernel = Callable[..., Any]

_new = object.__new__
_WRAP: dict[np.dtype, int] = {}


def kernel(name: str) -> Callable[[Kernel], Kernel]:
    """Put a function into the table that the CPU backend registers."""

    def add(function: Kernel) -> Kernel:
        KERNELS[f"tk::{name}"] = function
        return function

    return add


def wrap(data: Any) -> Tensor:
    """A CPU tensor around a NumPy array or scalar."""
    if data.__class__ is not np.ndarray:
        data = np.asarray(data)
    word = _WRAP.get(data.dtype)
    if word is None:
        word = _WRAP[data.dtype] = cpu_word(data.dtype)
    return make_tensor(data, word)


def _check(name: str, *args: Any, **kwargs: Any) -> None:
    """Raise the error of the operator's own meta rule."""
    registry.find(f"tk::{name}").facets["Meta"].rule(*args, **kwargs)


def matmul_kernel(operator: Operator, word: int) -> Callable[..., Tensor]:
    """Matrix products for tensors of these dtypes."""
    found = dtypes_of(word & DTYPE_MASK)
    dtype = result_dtype(found)
    result_word = cpu_word(dtype)
    same = len(found) == 1 and dtype != dtypes.float16
    computed = dtypes.float32 if dtype == dtypes.float16 else dtype  # BLAS has no float16: there it is storage

    def kernel(x1: Tensor, x2: Tensor) -> Tensor:
        a, b = x1._data, x2._data
        if not same:
            a, b = a.astype(computed, copy=False), b.astype(computed, copy=False)
        try:
            token = ignore(QUIET)
            try:
                # the method is the shortest way to BLAS, but means something else above two dimensions
                data = a.dot(b) if a.ndim == 2 and b.ndim == 2 else np.asarray(np.matmul(a, b))
                if computed is not dtype:
                    data = data.astype(dtype, copy=False)
            finally:
                restore(token)
        except ValueError:
            _check("matmul", x1, x2)
            raise
        made: Tensor = _new(Tensor)
        made._data = data
        made._word = result_word
        made._storage = None
        made._autograd = None
        return made

    return kernel


@kernel("clone")
def clone(x: Tensor) -> Tensor:
    return make_tensor(x._data.copy(), x._word & INHERITED)


@kernel("cast")
def cast(x: Tensor, dtype: np.dtype) -> Tensor:
    token = ignore(QUIET)
    try:
        data = x._data
        if data.dtype.kind == "c" and dtype.kind in "iufV":
            data = data.real
        return wrap(data.astype(dtype))
    finally:
        restore(token)


@kernel("to_device")
def to_device_kernel(x: Tensor, device: Device) -> Tensor:
    if device.type == "cpu":
        return x
    if device.backend is None:
        return registry.find("tk::empty").call(x.shape, dtype=x.dtype, device=device)  # type: ignore[no-any-return]
    return device.backend.from_host(x._data, device)  # type: ignore[no-any-return]


@kernel("flip")
def flip(x: Tensor, *, axis: Any = None) -> Tensor:
    _check("flip", x, axis=axis)
    return wrap(np.ascontiguousarray(np.flip(x._data, axis)).reshape(x.shape))


@kernel("concatenate")
def concatenate(arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    dtype = result_dtype(tuple([x.dtype for x in arrays])) if arrays else None
    try:
        return wrap(np.concatenate([x._data for x in arrays], axis, dtype=dtype))
    except (ValueError, TypeError):
        _check("concatenate", arrays, axis=axis)
        raise


_OUT = "[{operator}] index {index} is out of range for axis {axis} of length {length}."


def _check_range(operator: str, indices: np.ndarray, length: int, axis: int) -> None:
    if indices.size:
        low, high = int(indices.min()), int(indices.max())
        if low < -length or high >= length:
            index = low if low < -length else high
            raise IndexError(_OUT.format(operator=operator, index=index, axis=axis, length=length))


@kernel("take_along_axis")
def take_along_axis(x: Tensor, indices: Tensor, *, axis: int = -1) -> Tensor:
    try:
        return wrap(np.take_along_axis(x._data, indices._data, axis))
    except (ValueError, IndexError):
        _check("take_along_axis", x, indices, axis=axis)
        _check_range("take_along_axis", indices._data, x.shape[axis], axis)
        raise


@kernel("scatter_add_zeros")
def scatter_add_zeros(source: Tensor, indices: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    _check("scatter_add_zeros", source, indices, shape, axis)
    out = np.zeros(shape, source.dtype)
    _check_range("scatter_add", indices._data, shape[axis], axis)
    at: list[Any] = list(np.indices(indices.shape, sparse=True))
    at[axis] = indices._data
    np.add.at(out, tuple(at), np.broadcast_to(source._data, indices.shape))
    return wrap(out)


def _index(indices: Sequence[Tensor | None]) -> tuple[Any, ...]:
    return tuple([slice(None) if i is None else i._data for i in indices])


@kernel("gather")
def gather(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    # NumPy lays the result out as the indices lie in memory; a result is contiguous, as the rule for shapes says.
    return wrap(np.array(_indexed("index", lambda: x._data[_index(indices)], x, indices), order="C", copy=None))


@kernel("gather_backward")
def gather_backward(g_out: Tensor, shape: Sequence[int], indices: Sequence[Tensor | None]) -> Tensor:
    out = np.zeros(shape, g_out.dtype)
    np.add.at(out, _index(indices), g_out._data)
    return wrap(out)


def _indexed(operator: str, run: Callable[[], Any], x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    try:
        return run()
    except (IndexError, ValueError):
        if not any(i is not None and i.dtype.kind == "b" for i in indices):
            _check("gather", x, indices)
            for axis, i in enumerate(indices):
                if i is not None:
                    _check_range(operator, i._data, x.shape[axis], axis)
        raise


@kernel("put_")
def put_(x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> Tensor:
    def run() -> None:
        x._data[_index(indices)] = source._data

    check_put(registry.find("tk::put_"), x, indices, source)
    token = ignore(QUIET)
    try:
        _indexed("index_put", run, x, indices)
    finally:
        restore(token)
    return x


@kernel("slice_backward")
def slice_backward(g_slice: Tensor, shape: Sequence[int], axis: int, start: int, step: int) -> Tensor:
    out = np.zeros(shape, g_slice.dtype)
    length = g_slice.shape[axis]
    if length:
        out[(slice(None),) * axis + (slice(start, start + (length - 1) * step + 1, step),)] = g_slice._data
    return wrap(out)


@kernel("argmax")
def argmax(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    if x.dtype.kind == "c":
        _check("argmax", x, axis=axis)
    try:
        return wrap(np.asarray(np.argmax(x._data, axis, keepdims=keepdims)))
    except ValueError:
        _check("argmax", x, axis=axis, keepdims=keepdims)
        raise


@kernel("argmin")
def argmin(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    if x.dtype.kind == "c":
        _check("argmin", x, axis=axis)
    try:
        return wrap(np.asarray(np.argmin(x._data, axis, keepdims=keepdims)))
    except ValueError:
        _check("argmin", x, axis=axis, keepdims=keepdims)
        raise


@kernel("conj")
def conj(x: Tensor) -> Tensor:
    return wrap(np.conjugate(x._data) if x.dtype.kind == "c" else x._data.copy())


@kernel("real")
def real(x: Tensor) -> Tensor:
    return wrap(x._data.real.copy())


@kernel("imag")
def imag(x: Tensor) -> Tensor:
    return wrap(x._data.imag.copy())


@kernel("complex_from")
def complex_from(real: Tensor, imag: Tensor) -> Tensor:
    _check("complex_from", real, imag)
    out = np.empty(real.shape, dtypes.complex_of(real.dtype))
    out.real, out.imag = real._data, imag._data
    return wrap(out)


# ---- creation


def _made(name: str) -> Kernel:
    make = getattr(np, name)

    def create(shape: Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
        try:
            data = make(shape, dtype or dtypes.default_float())
        except ValueError:
            _check(name, shape)
            raise
        return wrap(data)

    return create


for _name in ("empty", "zeros", "ones"):
    KERNELS[f"tk::{_name}"] = _made(_name)


@kernel("full")
def full(shape: Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    _check("full", shape, fill_value, dtype=dtype)
    with np.errstate(all="ignore"):
        return wrap(np.full(shape, fill_value, dtype or dtypes.to_dtype(type(fill_value))))


@kernel("arange_from")
def arange_from(start: Any, stop: Any, step: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    spec = registry.find("tk::arange_from").facets["Meta"].rule(start, stop, step, dtype=dtype)
    exact = np.float64 if spec.dtype.kind in "fV" else spec.dtype
    with np.errstate(all="ignore"):
        return wrap((np.arange(spec.shape[0], dtype=exact) * step + start).astype(spec.dtype))


@kernel("linspace")
def linspace(
    start: Any, stop: Any, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    spec = registry.find("tk::linspace").facets["Meta"].rule(start, stop, num, dtype=dtype)
    with np.errstate(all="ignore"):
        return wrap(np.linspace(start, stop, num, endpoint=endpoint, dtype=spec.dtype))


@kernel("eye")
def eye(n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    _check("eye", n_rows, n_cols)
    return wrap(np.eye(n_rows, n_cols, k, dtype or dtypes.default_float()))


# ---- random numbers


def _count(shape: Sequence[int]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


@kernel("random_uniform")
def random_uniform(
    shape: Sequence[int], seed: int, stream: int, start: int, *, low: float = 0.0, high: float = 1.0,
    dtype: Any = None, device: Any = None,
) -> Tensor:  # fmt: skip
    dtype = dtype or dtypes.default_float()
    drawn = philox.uniform((seed, stream), _count(shape), dtype, start, low=low, high=high)
    return wrap(drawn.reshape(shape))


@kernel("random_normal")
def random_normal(
    shape: Sequence[int], seed: int, stream: int, start: int, *, dtype: Any = None, device: Any = None
) -> Tensor:
    dtype = dtype or dtypes.default_float()
    return wrap(philox.normal((seed, stream), _count(shape), dtype, start).reshape(shape))


@kernel("random_integers")
def random_integers(
    shape: Sequence[int], seed: int, stream: int, start: int, *, low: int, high: int, dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    drawn = philox.integers((seed, stream), low, high, _count(shape), dtype or dtypes.int64, start)
    return wrap(drawn.reshape(shape))


@kernel("random_permutation")
def random_permutation(n: int, seed: int, stream: int, start: int, *, device: Any = None) -> Tensor:
    return wrap(philox.permutation((seed, stream), n, start))


SPECIALIZED: dict[str, Callable[[Operator, int], Callable[..., Any]]] = {"tk::matmul": matmul_kernel}
